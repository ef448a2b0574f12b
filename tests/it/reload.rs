//! Reload: new code, new configuration, new workers, and nobody notices.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::{Connection, End, Kind, Server, eventually, free_address, get, in_every_mode};
use crate::operate::{
    configuration, configure, edit, kill, operated, pid_in, reload, status, status_when,
    worker_pids,
};

in_every_mode! { loses_no_request, brings_new_code, lets_a_long_request_finish }

/// Requests without a pause, until told to stop: on one connection as long as the server keeps it,
/// or each on its own. Answers how many were served; any failure ends the test.
fn load(server: &Server, keep_alive: bool, stop: &AtomicBool, served: &AtomicUsize) {
    let mut connection: Option<Connection> = None;
    while !stop.load(Ordering::Relaxed) {
        let mut open = connection.take().unwrap_or_else(|| server.connect());
        let request = if keep_alive {
            get("/index.php")
        } else {
            get("/index.php").header("Connection", "close")
        };
        let response = open.exchange(&request).expect(200);
        assert!(response.text().contains("version "), "{response}");
        served.fetch_add(1, Ordering::Relaxed);
        if keep_alive && response.header("connection") != Some("close") {
            connection = Some(open);
        }
    }
}

/// Lines of the log that an operator has to look at.
fn complaints(server: &Server) -> Vec<String> {
    let log = server.log();
    let is_one = |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ");
    log.lines().filter(is_one).map(str::to_owned).collect()
}

/// Does this again and again while clients send requests without a pause. Each time more of them
/// have to be served afterwards.
#[track_caller]
pub fn under_load<T>(server: &Server, times: impl Iterator<Item = T>, mut act: impl FnMut(T)) {
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = End(&stop);
        for client in 0..6 {
            let (stop, served) = (&stop, &served);
            scope.spawn(move || load(server, client % 2 == 0, stop, served));
        }
        for time in times {
            let before = served.load(Ordering::Relaxed);
            act(time);
            let goes_on = || (served.load(Ordering::Relaxed) > before + 20).then_some(());
            assert!(
                eventually(Duration::from_secs(20), goes_on).is_some(),
                "nothing is served any more"
            );
        }
    });
}

fn loses_no_request(kind: Kind) {
    let server = operated(kind).start();
    assert_eq!(complaints(&server), [""; 0]);
    under_load(&server, 2..=9, |generation| {
        assert_eq!(reload(&server), Ok(format!("generation {generation} serves\n")));
    });
    let status =
        status_when(&server, "the end of the old generations", |status| status["draining"] == 0);
    assert_eq!(status["generation"], 9);
    assert_eq!(complaints(&server), [""; 0], "there is nothing unusual about a reload");
}

fn brings_new_code(kind: Kind) {
    let mut server = operated(kind).php_value("opcache.revalidate_freq", "3600").start();
    let old = server.text("/index.php");
    edit(&server, "index.php", "version 1", "version 2");
    reload(&server).unwrap();
    let new = server.text("/index.php");
    assert!(new.starts_with("version 2"), "{new}");
    assert_ne!(pid_in(&old), pid_in(&new));
    // The signal says the same as the command.
    edit(&server, "index.php", "version 2", "version 3");
    server.main_process().signal("HUP");
    let newer = || Some(server.text("/index.php")).filter(|text| text.starts_with("version 3"));
    assert!(eventually(Duration::from_secs(20), newer).is_some());
}

fn lets_a_long_request_finish(kind: Kind) {
    let server = operated(kind).line("timeouts.drain = \"60s\"").start();
    let booted = status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    let old = worker_pids(&booted);
    let mut connection = server.connect();
    connection.send(get("/index.php?do=hold&n=1").bytes());
    server.holds("1");
    reload(&server).unwrap();
    assert_eq!(status(&server)["draining"], 1);
    server.let_go("1");
    let response = connection.response().expect(200);
    assert!(old.contains(&pid_in(&response.text())), "{response}");
    status_when(&server, "the end of the old generation", |status| status["draining"] == 0);
    assert!(!old.contains(&pid_in(&server.text("/index.php"))));
}

/// A deployment moves a symlink. Until the reload everything is of the old version, afterwards of
/// the new one.
#[test]
fn follows_a_moved_symlink() {
    let server = operated(Kind::Classic).start();
    let releases = server.places.top().to_owned();
    let second = releases.join("release-2");
    fs::create_dir(&second).unwrap();
    for script in ["index.php", "waiting.php"] {
        let text = fs::read_to_string(server.places.root().join(script)).unwrap();
        fs::write(second.join(script), text.replace("version 1", "version 2")).unwrap();
    }
    let current = releases.join("current");
    symlink(server.places.root(), &current).unwrap();
    configure(&server, server.places.root().to_str().unwrap(), current.to_str().unwrap());
    reload(&server).unwrap();
    let first = server.places.root();
    let path = first.to_str().unwrap();
    assert!(server.text("/index.php?do=root").starts_with(&format!("{path} {path} version 1")));

    let next = releases.join("next");
    symlink(&second, &next).unwrap();
    fs::rename(&next, &current).unwrap();
    assert!(server.text("/index.php?do=root").starts_with(&format!("{path} {path} version 1")));
    reload(&server).unwrap();
    let path = second.to_str().unwrap();
    assert!(server.text("/index.php?do=root").starts_with(&format!("{path} {path} version 2")));
}

#[test]
fn refuses_a_wrong_configuration() {
    let server = operated(Kind::Classic).start();
    let booted = status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    let old = worker_pids(&booted);
    configure(&server, "pool.workers = 2", "pool.workerz = 2");
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("workerz") && complaint.contains("`workers`"), "{complaint}");
    server.log_line(&["ERROR", "reload refused", "workerz"]);
    let text = server.text("/index.php");
    assert!(old.contains(&pid_in(&text)), "the old workers serve: {text}");
    configure(&server, "pool.workerz = 2", "pool.workers = 3");
    reload(&server).unwrap();
    status_when(&server, "three workers", |status| worker_pids(status).len() == 3);
}

#[test]
fn refuses_a_root_that_is_gone() {
    let server = operated(Kind::Classic).start();
    let root = server.places.root();
    configure(&server, &format!("root = \"{}\"", root.display()), "root = \"/no/such/place\"");
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("/no/such/place"), "{complaint}");
    server.get("/index.php").expect(200);
}

/// An application that does not boot never replaces one that does.
#[test]
fn keeps_the_old_application_if_the_new_one_does_not_boot() {
    let server = operated(Kind::Worker).start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    edit(&server, "worker.php", "<?php", "<?php throw new Exception('deployed too early');");
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("do not boot") && complaint.contains("worker.php"), "{complaint}");
    server.log_line(&["deployed too early"]);
    server.log_line(&["ERROR", "reload failed, the old generation goes on"]);
    server.get("/index.php").expect(200);
    edit(&server, "worker.php", "throw new Exception('deployed too early');", "");
    reload(&server).unwrap();
    server.get("/index.php").expect(200);
}

/// Nobody has to type anything: who changes a file that is in the image gets a new image, and no
/// request is lost.
#[test]
fn makes_a_new_image_of_a_changed_application() {
    let server = operated(Kind::Sealed).start();
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = End(&stop);
        for client in 0..4 {
            let (server, stop, served) = (&server, &stop, &served);
            scope.spawn(move || load(server, client % 2 == 0, stop, served));
        }
        for image in 1..=2 {
            edit(&server, "worker.php", "<?php", &format!("<?php /* image {image} */"));
            status_when(&server, "another image", |status| status["pools"][0]["renewals"] == image);
        }
        let many = || (served.load(Ordering::Relaxed) > 100).then_some(());
        assert!(eventually(Duration::from_secs(20), many).is_some(), "nothing is served any more");
    });
    server.log_line(&["INFO", "[localhost] the image is outdated", "worker.php has changed"]);
    server.log_line(&["WARN", "[localhost] the application keeps changing"]);
    assert_eq!(status(&server)["generation"], 1);
}

/// Code that is not in the image is looked at as in classic mode: after `opcache.revalidate_freq`,
/// for which each request has its own time.
#[test]
fn serves_changed_code_that_is_not_in_the_image() {
    let server = operated(Kind::Sealed).bare().start();
    // opcache keeps nothing that is younger than two seconds.
    for script in ["index.php", "waiting.php"] {
        crate::stale::look_old(&server.places.root().join(script));
    }
    server.get("/index.php").expect(200);
    assert!(!server.text("/index.php").starts_with("edited "));
    edit(&server, "index.php", "<?php", "<?php echo 'edited ';");
    let seen = eventually(Duration::from_secs(20), || {
        server.text("/index.php").starts_with("edited ").then_some(())
    });
    assert!(seen.is_some(), "the old script is still served");
    assert_eq!(status(&server)["generation"], 1);
}

/// A deployment that is not complete yet: the old application serves until the new one boots.
#[test]
fn tries_again_to_make_an_image() {
    let server = operated(Kind::Sealed).start();
    edit(&server, "worker.php", "<?php", "<?php throw new Exception('deployed too early');");
    server.log_line(&["ERROR", "the old processes go on"]);
    server.get("/index.php").expect(200);
    edit(&server, "worker.php", "throw new Exception('deployed too early');", "");
    status_when(&server, "another image", |status| status["pools"][0]["renewals"] == 1);
    server.get("/index.php").expect(200);
}

#[test]
fn keeps_the_old_mode_if_the_application_cannot_be_sealed() {
    let server = operated(Kind::Classic).start();
    let broken = server.places.root().join("broken.php");
    let sealed = format!("mode = \"sealed\"\nboot = \"{}\"", broken.display());
    configure(&server, "mode = \"classic\"", &sealed);
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("the application cannot be sealed: "), "{complaint}");
    server.log_line(&["ERROR", "reload failed, the old generation goes on"]);
    server.get("/index.php").expect(200);
    assert_eq!(status(&server)["pools"][0]["mode"], "classic");
}

#[test]
fn opens_new_addresses_and_closes_old_ones() {
    let server = operated(Kind::Classic).start();
    let new = free_address();
    configure(&server, &format!("\"{}\"", server.address), &format!("\"{new}\""));
    reload(&server).unwrap();
    Connection::open(new).exchange(&get("/index.php")).expect(200);
    let closed = || TcpStream::connect(server.address).is_err().then_some(());
    assert!(eventually(Duration::from_secs(20), closed).is_some(), "the old address still accepts");
    Connection::open(new).exchange(&get("/index.php")).expect(200);

    // An address that cannot be had is told, and nothing changes.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    configure(&server, &format!("\"{new}\""), &format!("\"{taken}\""));
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains(&format!("cannot listen on {taken}")), "{complaint}");
    Connection::open(new).exchange(&get("/index.php")).expect(200);
}

/// However many ask at once, each hears of a generation that began after it asked.
#[test]
fn answers_everyone_who_asks() {
    let server = operated(Kind::Worker).start();
    crate::harness::in_parallel(5, |_| {
        let answer = reload(&server).expect("a reload");
        assert!(answer.starts_with("generation ") && answer.ends_with(" serves\n"), "{answer}");
    });
    let status =
        status_when(&server, "the end of the old generations", |status| status["draining"] == 0);
    let generation = status["generation"].as_u64().unwrap();
    assert!((3..=6).contains(&generation), "{generation}");
    server.get("/index.php").expect(200);
}

/// A new error log takes effect at the reload; what cannot is told.
#[test]
fn moves_the_error_log() {
    let server = operated(Kind::Classic).line("log.error = \"state/first.log\"").start();
    edit(&server, "index.php", "<?php", "<?php error_log('said by PHP');");
    configure(
        &server,
        "log.error = \"state/first.log\"",
        "log.error = \"state/second.log\"\npid_file = \"p\"",
    );
    reload(&server).unwrap();
    server.get("/index.php").expect(200);
    assert!(server.state("second.log").contains("said by PHP"));
    let first = server.state("first.log");
    assert!(
        first.contains("WARN [-] pid_file has changed") && !first.contains("said by PHP"),
        "{first}"
    );
}

/// What a process has open, and where its standard error goes.
fn descriptors(pid: u32) -> (Vec<String>, PathBuf) {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let numbers = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let mut open: Vec<_> = numbers.filter_map(|number| fs::read_link(number).ok()).collect();
    open.sort_unstable();
    let open = open.iter().map(|target| target.display().to_string());
    (open.collect(), fs::read_link(folder.join("2")).unwrap())
}

/// Lets a process open so many more descriptors, or as many as before.
fn limit_descriptors(pid: u32, more: Option<usize>) {
    let limit = match more {
        Some(more) => {
            let is_free =
                |number: &usize| !PathBuf::from(format!("/proc/{pid}/fd/{number}")).exists();
            (0..).filter(is_free).nth(more).unwrap().to_string()
        }
        None => "1024".into(),
    };
    let pid = format!("--pid={pid}");
    let status =
        Command::new("prlimit").args([pid, format!("--nofile={limit}:")]).status().unwrap();
    assert!(status.success());
}

/// Whatever is wrong with a new configuration, and however far it came: nothing that it named stays
/// open.
#[test]
fn leaves_nothing_behind_when_it_fails() {
    let mut server = operated(Kind::Classic).line("log.error = \"state/old.log\"").start();
    let pid = server.main_process().pid();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    let good = fs::read_to_string(configuration(&server)).unwrap();
    let before = descriptors(pid);
    let root = server.places.root();
    let broken = format!("mode = \"sealed\"\nboot = \"{}\"", root.join("broken.php").display());
    let cases = [
        (None, "the application cannot be sealed"),
        // Of the descriptors left, the client has one and the new address another.
        (Some(2), "cannot open the log"),
        (Some(4), "Too many open files"),
    ];
    for (limit, complaint) in cases.into_iter().cycle().take(9) {
        let new = free_address();
        let changed = good.replace(
            &format!("listen = [\"{}\"]", server.address),
            &format!("listen = [\"{}\", \"{new}\"]", server.address),
        );
        assert_ne!(changed, good);
        let changed = changed.replace("state/old.log", "state/new.log");
        let wants_broken = complaint.contains("sealed");
        let changed =
            if wants_broken { changed.replace("mode = \"classic\"", &broken) } else { changed };
        fs::write(configuration(&server), changed).unwrap();
        if limit.is_some() {
            limit_descriptors(pid, limit);
        }
        let answer = reload(&server).unwrap_err();
        limit_descriptors(pid, None);
        assert!(answer.contains(complaint), "{complaint}: {answer}");
        let as_before = || (descriptors(pid) == before).then_some(());
        let found = eventually(Duration::from_secs(20), as_before);
        assert!(found.is_some(), "{complaint}: {before:#?} became {:#?}", descriptors(pid));
        assert!(TcpStream::connect(new).is_err(), "{complaint}: the new address is still open");
        server.get("/index.php").expect(200);
    }
    let log = server.state("old.log");
    assert_eq!(log.matches("the old configuration stays").count(), 6, "{log}");
    assert_eq!(log.matches("the old generation goes on").count(), 3, "{log}");
}

/// `SIGUSR1` after the log files were moved away: nothing more is written to the old ones.
#[test]
fn reopens_the_log_files() {
    let setup = operated(Kind::Classic).line("log.access = \"state/access.log\"");
    let mut server = setup.line("log.error = \"state/error.log\"").start();
    let pid = server.main_process().pid();
    let read = |name: &str| fs::read_to_string(server.state_file(name)).unwrap_or_default();
    let wait_for = |name: &str, text: &str| {
        let found = eventually(Duration::from_secs(20), || read(name).contains(text).then_some(()));
        assert!(found.is_some(), "no {text} in {name}: {}", read(name));
    };
    server.get("/index.php?first").expect(200);
    wait_for("access.log", "?first");
    for name in ["access", "error"] {
        let moved = server.state_file(&format!("{name}.old"));
        fs::rename(server.state_file(&format!("{name}.log")), moved).unwrap();
    }
    kill("USR1", pid.into());
    wait_for("error.log", "log files are reopened");
    wait_for("error.log", "reload: generation 2 serves");
    server.get("/index.php?second").expect(200);
    wait_for("access.log", "?second");
    assert!(!read("access.old").contains("?second"));
    status_when(&server, "the end of the old generation", |status| status["draining"] == 0);
    // What PHP says goes to the new file too: the workers are new.
    edit(&server, "index.php", "<?php", "<?php error_log('said by PHP');");
    reload(&server).unwrap();
    server.get("/index.php").expect(200);
    wait_for("error.log", "said by PHP");
}
