//! What becomes of the watched server when the measurement ends early, and what is said when a
//! watched process does.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use super::traced::{processes, wait_until_free, wait_until_traced};
use super::{anatomy, url};
use crate::harness::{Kind, Setup, program};

#[test]
fn a_server_is_let_go_when_the_measurement_is_killed() {
    let mut server = Setup::new(Kind::Peer).site("anatomy").start();
    let fpm = server.first_process().pid().to_string();
    let watched = processes(&mut server);
    // Half of the requests are made before the trace: so few that they end soon.
    let mut measurement = Command::new(program())
        .args(["anatomy", &url(&server, "/index.php"), "-n", "200", "--pid", &fpm])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until_traced(&watched);
    measurement.kill().unwrap();
    measurement.wait().unwrap();
    wait_until_free(&watched);
    server.get("/index.php").expect(200);
}

#[test]
fn a_process_that_ends_while_it_is_watched_does_not_spoil_the_table() {
    let server = Setup::new(Kind::Classic).site("anatomy").start();
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = other.id();
    let address = url(&server, "/index.php");
    let arguments = [&*address, "-n", "100", "--json", "--pid", &pid.to_string()];
    let (status, out, err) = std::thread::scope(|scope| {
        let done = scope.spawn(|| anatomy(&arguments));
        wait_until_traced(&BTreeSet::from([pid]));
        other.kill().unwrap();
        other.wait().unwrap();
        done.join().unwrap()
    });
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("\"program\": \"tokamak-php\""), "{out}");
}

#[test]
fn a_server_that_ends_while_it_is_watched_is_an_error() {
    let mut server = Setup::new(Kind::Peer).site("anatomy").start();
    let web_server = processes(&mut server);
    let address = url(&server, "/index.php");
    let fpm = server.first_process().pid().to_string();
    let (status, out, err) = std::thread::scope(|scope| {
        let done = scope.spawn(|| anatomy(&[&*address, "-n", "400", "--pid", &fpm]));
        wait_until_traced(&web_server);
        server.main_process().kill_group();
        done.join().unwrap()
    });
    assert_eq!((status, &*out), (1, ""), "{err}");
    let is_said = ["cannot connect", "broke off", "cannot send"].iter().any(|it| err.contains(it));
    assert!(is_said, "{err}");
}

#[test]
fn processes_that_may_not_be_traced_are_named_with_the_reason() {
    let mut server = Setup::new(Kind::Classic).site("anatomy").start();
    let watched = processes(&mut server);
    let main = server.main_process().pid();
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-p", &main.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until_traced(&BTreeSet::from([main]));
    let (status, out, err) = anatomy(&[&url(&server, "/index.php"), "-n", "10"]);
    // strace lets go of what it has when it is asked to end.
    let pid = strace.id().to_string();
    Command::new("sh").args(["-c", "kill -s INT \"$1\"", "kill", &pid]).status().unwrap();
    strace.wait().unwrap();
    assert_eq!((status, &*out), (1, ""), "{err}");
    for part in ["not permitted", "ptrace_scope", "traced twice"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    wait_until_free(&watched);
    server.get("/index.php").expect(200);
}
