//! What an operator sees of the requests that a worker of async mode has under way: in the status,
//! in the slow log, and when they are lost.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Connection, Kind, Server, Setup, eventually, get, post};
use crate::operate::{command, pid_in, status, status_when};

fn site() -> Setup {
    Setup::new(Kind::Async).site("sites/in_flight").workers(1)
}

/// The requests of the only worker.
fn requests(status: &Value) -> Vec<Value> {
    status["pools"][0]["workers"][0]["in_flight"].as_array().cloned().unwrap_or_default()
}

fn seen<'a>(requests: &'a [Value], target: &str) -> Option<&'a Value> {
    requests.iter().find(|one| one["uri"] == target)
}

/// Sends a request, and waits until it waits.
fn begin(server: &Server, target: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(get(target).bytes());
    status_when(server, target, |status| {
        seen(&requests(status), target).is_some_and(|one| one["state"] == "waiting")
    });
    connection
}

/// The line of the log with all of these, once it is there.
#[track_caller]
fn line(server: &Server, parts: &[&str]) -> String {
    let find = || {
        let log = server.log();
        let found = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        found.map(str::to_owned)
    };
    let found = eventually(Duration::from_secs(20), find);
    found.unwrap_or_else(|| panic!("no line with {parts:?} in\n{}", server.log()))
}

#[test]
fn the_status_shows_what_each_request_waits_for() {
    let server = site().start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = silent.local_addr().unwrap().to_string();
    let service = format!("/index.php?do=waits_for_a_service&to={peer}");
    let [first, second] = [1, 2].map(|n| format!("/index.php?do=waits_for_a_lock&n={n}"));
    let expected = [
        ("/index.php?do=waits_for_time&a=%22%0a", "time, ", 0),
        (&service, "descriptor ", 0),
        (&first, "time, ", 0),
        (&second, "a lock", 0),
        ("/index.php?do=waits_for_a_process", "a process", 0),
        ("/index.php?do=waits_for_a_deferred", "its coroutines or a Deferred", 0),
        ("/index.php?do=waits_in_coroutines", "time, ", 2),
        ("/index.php?do=waits_for_its_client", "room for its response", 0),
    ];
    let _open = expected.map(|(target, ..)| begin(&server, target));
    // One whose client takes more just now runs for that moment.
    let shown = status_when(&server, "all of them", |status| {
        let all = requests(status);
        all.len() == expected.len() && all.iter().all(|one| one["state"] == "waiting")
    });
    let all = requests(&shown);
    for (target, what, more) in expected {
        let one = seen(&all, target).unwrap_or_else(|| panic!("no {target} in {all:#?}"));
        assert_eq!((&one["method"], &one["state"]), (&"GET".into(), &"waiting".into()), "{one:#}");
        assert!(one["waits_for"].as_str().unwrap().starts_with(what), "{one:#}");
        assert_eq!(one["more_waits"], more, "{one:#}");
        assert!(one["state_seconds"].as_f64() <= one["seconds"].as_f64(), "{one:#}");
    }
    assert_eq!(seen(&all, &service).unwrap()["peer"], *peer);
    let table = String::from_utf8(command(&server, &["status"]).stdout).unwrap();
    let row = table.lines().find(|row| row.contains(&service)).unwrap_or_else(|| panic!("{table}"));
    assert!(row.contains(" s for descriptor ") && row.contains(&format!(" to {peer} ")), "{row}");
}

#[test]
fn other_modes_show_the_request_of_each_worker() {
    for kind in [Kind::Classic, Kind::Worker, Kind::Sealed] {
        let server = Setup::new(kind).site("sites/operated").workers(1).start();
        let target = "/index.php?do=wait&n=60000";
        let mut open = server.connect();
        open.send(get(target).bytes());
        let shown = status_when(&server, target, |status| requests(status).len() == 1);
        let one = &requests(&shown)[0];
        let is = (&one["uri"], &one["state"], &one["waits_for"]);
        assert_eq!(is, (&target.into(), &"running".into(), &Value::Null), "{kind:?}");
    }
}

#[test]
fn a_worker_that_dies_names_the_request_that_ran_and_those_it_has_lost() {
    let server = site().start();
    let pid = pid_in(&server.text("/index.php?do=answers")).to_string();
    let _open = ["/index.php?do=waits_for_time&a", "/index.php?do=waits_for_time&b"]
        .map(|target| begin(&server, target));
    let mut dying = server.connect();
    dying.send(post("/index.php?do=dies", "text/plain", "x").bytes());
    let line = line(&server, &["ERROR", "a worker died: signal 9"]);
    let lost = "lost with it: 2: GET /index.php?do=waits_for_time&a, GET /index.php?do=";
    assert!(line.contains("while serving method=POST uri=/index.php?do=dies id="), "{line}");
    assert!(line.contains(lost) && line.contains(&format!("pid={pid}")), "{line}");
}

#[test]
fn a_worker_that_is_killed_for_a_request_names_the_one_that_ran() {
    let server = site().site_line("pool.request_timeout = \"1s\"").start();
    let mut open = server.connect();
    open.send(get("/index.php?do=waits_for_time").bytes());
    let mut computing = server.connect();
    computing.send(post("/index.php?do=computes", "text/plain", "x").bytes());
    let line = line(&server, &["ERROR", "request_timeout: the worker is killed"]);
    assert!(line.contains("while serving method=POST uri=/index.php?do=computes"), "{line}");
}

#[test]
fn each_slow_request_has_its_own_entry_and_stack() {
    let server = site().site_line("pool.slow = \"300ms\"").start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = silent.local_addr().unwrap();
    let service = format!("/index.php?do=waits_for_a_service&to={peer}");
    let _open = [
        begin(&server, "/index.php?do=waits_for_time"),
        begin(&server, &service),
        begin(&server, "/index.php?do=waits_for_a_deferred"),
    ];
    for (target, what, function) in [
        ("/index.php?do=waits_for_time", "for time, ".to_owned(), "waits_for_time() "),
        (&service, format!(" to {peer}"), "waits_for_a_service() "),
        (
            "/index.php?do=waits_for_a_deferred",
            "or a Deferred".to_owned(),
            "waits_for_a_deferred() ",
        ),
    ] {
        let does = format!("uri={target}\n    waits for ");
        let entry = server.log_entry(&["WARN", "slow request seconds=", &does]);
        assert!(entry.contains(&what), "{entry}");
        let mut frames = entry.lines().filter(|line| line.starts_with("    #"));
        assert!(frames.any(|frame| frame.contains(function)), "{entry}");
    }
    assert_eq!(server.log().matches("slow request seconds=").count(), 3, "{}", server.log());
}

#[test]
fn a_request_that_holds_its_worker_is_named_as_such() {
    let server = site().site_line("pool.slow = \"300ms\"").start();
    let _open = begin(&server, "/index.php?do=waits_for_time");
    server.get("/index.php?do=holds_the_worker&n=5000").expect(200);
    let entry = server.log_entry(&[
        "WARN",
        "uri=/index.php?do=holds_the_worker&n=5000\n    blocks its worker for ",
        " in a call that waits, and holds 1 other(s)\n",
    ]);
    assert!(entry.contains("holds_the_worker() "), "{entry}");
    // Others see it, too.
    assert!(requests(&status(&server)).len() == 1);
}

/// Each of these ends its request; the log has its URL, and where it was.
#[test]
fn what_goes_wrong_in_a_request_is_logged_with_its_url_and_stack() {
    let garbage = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = garbage.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = garbage.accept().unwrap();
        client.write_all(b"\x00\xff no HTTP\r\n\r\n").unwrap();
    });
    let garbage = format!("/index.php?do=reads_garbage&to={service}");
    // The first two end their worker, when it has no others.
    for (target, what, function) in [
        ("/index.php?do=fails", "failed on purpose", "fails()"),
        ("/index.php?do=takes_all_memory", "Allowed memory size", "takes_all_memory()"),
        ("/index.php?do=throws", "thrown on purpose", "throws()"),
        (&garbage, "garbage in", "reads_garbage()"),
    ] {
        let server = site().start();
        let _open = begin(&server, "/index.php?do=waits_for_time");
        server.get(target);
        let entry = line(&server, &["ERROR", what]);
        assert!(entry.contains(&format!("request=\"GET {target}\"")), "{entry}");
        let stack = line(&server, &["ERROR", "#0 ", function]);
        assert!(stack.contains(&format!("request=\"GET {target}\"")), "{stack}");
        assert_eq!(requests(&status(&server)).len(), 1, "no other request notices");
    }
}

#[test]
fn a_request_that_exits_is_not_worth_a_line() {
    let server = site().start();
    assert_eq!(server.text("/index.php?do=exits"), "left");
    assert!(!server.log().contains("do=exits"), "{}", server.log());
}
