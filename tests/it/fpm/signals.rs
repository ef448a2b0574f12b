//! Reloads, and the ends of the master.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::client::{Client, Heard, Request};
use super::{pool, socket};
use crate::harness::eventually;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_log_says_what_php_fpms_says() {
    let mut server = pool(1).start();
    let pid = server.first_process().pid();
    server.log_line(&[&format!("NOTICE: fpm is running, pid {pid}")]);
    server.log_line(&["NOTICE: ready to handle connections"]);
    server.first_process().signal("USR2");
    server.log_line(&["NOTICE: Reloading in progress ..."]);
    server.log_line(&["NOTICE: using inherited socket fd=", "fpm.socket"]);
    server.first_process().signal("TERM");
    assert!(server.first_process().wait(PATIENCE).is_some_and(|status| status.success()));
    server.log_line(&["NOTICE: Terminating ..."]);
    server.log_line(&["NOTICE: exiting, bye-bye!"]);
    assert!(!socket(&server).exists(), "nobody listens there any more");
}

#[test]
fn sigquit_lets_requests_finish() {
    let mut server = pool(1).start();
    let mut client = Client::connect(&server);
    let mut idle = Client::connect(&server);
    assert_eq!(idle.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
    client.send(&Request::new(&server, "/hold.php?name=x").bytes(1));
    server.holds("x");
    server.first_process().signal("QUIT");
    server.log_line(&["NOTICE: Finishing ..."]);
    server.let_go("x");
    assert_eq!(client.answer().body(), "held");
    assert!(client.is_closed());
    assert!(idle.is_closed());
    assert!(server.first_process().wait(PATIENCE).is_some_and(|status| status.success()));
}

#[test]
fn sigterm_does_not_wait() {
    let mut server = pool(1).start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/hold.php?name=x").bytes(1));
    server.holds("x");
    server.first_process().signal("TERM");
    assert!(client.is_closed());
    assert!(server.first_process().wait(PATIENCE).is_some_and(|status| status.success()));
}

#[test]
fn sigterm_overrides_sigquit() {
    let mut server = pool(1).start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/hold.php?name=x").bytes(1));
    server.holds("x");
    server.first_process().signal("QUIT");
    server.log_line(&["Finishing ..."]);
    server.first_process().signal("TERM");
    assert!(server.first_process().wait(PATIENCE).is_some());
    server.log_line(&["Terminating ..."]);
}

#[test]
fn process_control_timeout_bounds_the_waiting() {
    let setup =
        pool(1).fpm_line("[global]").fpm_line("process_control_timeout = 1s").fpm_line("[tests]");
    let mut server = setup.start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/hold.php?name=x").bytes(1));
    server.holds("x");
    let started = Instant::now();
    server.first_process().signal("QUIT");
    assert!(server.first_process().wait(PATIENCE).is_some());
    assert!(started.elapsed() > Duration::from_millis(900), "{:?}", started.elapsed());
}

#[test]
fn a_reload_reads_the_configuration_again() {
    let mut server = pool(1).start();
    let mut client = Client::connect(&server);
    let env = |client: &mut Client| client.ask(&Request::new(&server, "/env.php?x=1")).body();
    let before = env(&mut client);
    let file = server.places.top().join("fpm.conf");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\nenv[SITE_VAR] = added\n")).unwrap();
    server.first_process().signal("USR2");
    server.log_line(&["has taken over"]);
    // The old one closes its idle connections.
    assert!(client.is_closed());
    let after = Client::connect(&server).ask(&Request::new(&server, "/env.php?x=1")).body();
    assert!(after.contains("added") && !before.contains("added"), "{before} {after}");

    fs::write(&file, format!("{text}\nno_such_thing = 1\n")).unwrap();
    server.first_process().signal("USR2");
    server.log_line(&["no_such_thing"]);
    assert_eq!(
        Client::connect(&server).ask(&Request::new(&server, "/hello.php")).body(),
        "Hello from PHP"
    );
}

#[test]
fn a_second_master_does_not_take_a_living_socket() {
    let server = pool(1).start();
    let file = server.places.top().join("fpm.conf");
    let out = Command::new(crate::harness::program())
        .args(["fpm", "--nodaemonize", "--fpm-config", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(!out.status.success());
    let said = eventually(PATIENCE, || {
        let log = server.log() + &String::from_utf8_lossy(&out.stderr);
        log.contains("FPM instance seems to already listen on").then_some(())
    });
    assert!(said.is_some(), "{}", String::from_utf8_lossy(&out.stderr));
    let Heard::Ended(..) = ({
        let mut client = Client::connect(&server);
        client.send(&Request::new(&server, "/hello.php").bytes(1));
        client.hear()
    }) else {
        panic!("the first one does not answer")
    };
}

#[test]
fn faults_of_memory_restart_everything() {
    let lines = [
        "[global]",
        "emergency_restart_threshold = 2",
        "emergency_restart_interval = 1m",
        "[tests]",
    ];
    let server = lines.iter().fold(pool(1), |setup, line| setup.fpm_line(line)).start();
    for _ in 0..2 {
        // The socket stays, a worker that has just died may be answered for.
        let worker = eventually(PATIENCE, || {
            Client::connect(&server)
                .ask(&Request::new(&server, "/pid.php"))
                .body()
                .parse::<u32>()
                .ok()
        });
        let worker = worker.expect("a worker").to_string();
        // The first one only takes away the handler that every Rust program has for overflows of
        // its stack.
        let gone = eventually(PATIENCE, || {
            let sent = Command::new("kill").args(["-SEGV", &worker]).output().expect("kill");
            (!sent.status.success()).then_some(())
        });
        assert!(gone.is_some());
        server.log_line(&[&worker, "exited on signal 11 (SIGSEGV"]);
    }
    server.log_line(&[
        "WARNING: failed processes threshold (2 in 60 sec) is reached, initiating reload",
    ]);
    server.log_line(&["NOTICE: Reloading in progress ..."]);
    let answer = eventually(PATIENCE, || {
        let body = Client::connect(&server).ask(&Request::new(&server, "/hello.php")).body();
        (body == "Hello from PHP").then_some(())
    });
    assert!(answer.is_some());
}
