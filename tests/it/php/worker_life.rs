//! The life of a worker: what it keeps, how often it serves, how it begins and ends.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::harness::{Kind, Setup, check, get, in_every_mode, in_parallel, row};

in_every_mode! { replaced_after_max_requests, sapi_name, death_is_logged, workers_share_the_load }

fn worker() -> Setup {
    Setup::new(Kind::Worker).site("sites/worker").workers(1).env("SITE_VAR", "of the site")
}

#[test]
fn state_persists() {
    let server = worker().start();
    let mut lines = Vec::new();
    for count in 1..=5 {
        let seen = server.get("/").expect(200).json();
        assert_eq!(seen["count"], count, "a variable of the script");
        assert_eq!(seen["calls"], count, "a static property of an autoloaded class");
        lines.push(seen["line"].as_str().unwrap().to_string());
    }
    assert_eq!(lines[0], "<?php\n", "an open file");
    lines.dedup();
    assert_eq!(lines.len(), 5, "the file goes on where it was: {lines:?}");
}

/// Symfony's and Laravel's scripts look for the marker before the loop; inside a request it would
/// tell the application that it is to start a loop.
#[test]
fn marker_is_there_before_the_loop_only() {
    let server = worker().start();
    let seen = server.get("/").expect(200).json();
    assert_eq!(seen["boot"]["marker"], "1");
    assert_eq!(seen["boot"]["site"], "of the site");
    assert_eq!(seen["marker"], serde_json::Value::Null);
}

#[test]
fn output_of_the_boot_goes_to_the_log() {
    let server = worker().start();
    let response = server.get("/?do=count").expect(200);
    assert_eq!(response.text(), "1");
    server.log_line(&["output before the loop"]);
}

/// When the server stops, the loop ends: the script leaves it and finishes what it has to.
#[test]
fn loop_ends_with_the_server() {
    let mut server = worker().start();
    for count in 1..=3 {
        assert_eq!(server.text("/?do=count"), count.to_string());
    }
    server.main_process().signal("TERM");
    assert!(
        server.main_process().wait(Duration::from_secs(20)).is_some(),
        "the server does not end"
    );
    assert_eq!(server.state("left"), r#"[3,["bool"],false]"#);
}

#[test]
fn loop_inside_a_request_is_refused() {
    let server = worker().start();
    assert_eq!(server.text("/?do=nested"), "RuntimeException");
    assert_eq!(server.text("/?do=count"), "2");
}

#[test]
fn loop_in_classic_mode_is_refused() {
    let server = Setup::new(Kind::Classic).start();
    assert_eq!(server.text("/not_a_worker.php"), "RuntimeException RuntimeException ");
}

fn sapi_name(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![row("applications take the web path", get("/sapi.php")).body("fpm-fcgi fpm-fcgi")],
    );
}

/// A worker serves `max_requests` requests and no more; no request notices.
fn replaced_after_max_requests(kind: Kind) {
    let server = Setup::new(kind).workers(2).site_line("pool.max_requests = 5").start();
    let served = Mutex::new(HashMap::new());
    let ask = |_| {
        let pid = server.text("/pid.php");
        *served.lock().unwrap().entry(pid).or_insert(0) += 1;
    };
    (0..15).for_each(ask);
    in_parallel(60, ask);
    let served = served.into_inner().unwrap();
    assert_eq!(served.values().sum::<i32>(), 75);
    assert!(served.values().all(|count| *count <= 5), "requests by process: {served:?}");
}

fn workers_share_the_load(kind: Kind) {
    let server = Setup::new(kind).workers(4).start();
    let names = ["a", "b", "c", "d"];
    let mut clients = names.map(|name| {
        let mut client = server.connect();
        client.send(get(&format!("/hold.php?name={name}")).bytes());
        client
    });
    names.iter().for_each(|name| server.holds(name));
    names.iter().for_each(|name| server.let_go(name));
    clients.iter_mut().for_each(|client| assert_eq!(client.response().expect(200).text(), "held"));
}

fn death_is_logged(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let pid = server.text("/pid.php");
    server.get("/fail.php?how=crash");
    server.log_line(&[pid.as_str(), "signal"]);
    assert_ne!(server.text("/pid.php"), pid);
}

/// A worker script that cannot boot is no endless loop of attempts, and its requests are answered.
#[test]
fn worker_that_cannot_boot() {
    for (script, said) in
        [("broken.php", "the boot of this worker fails"), ("no_loop.php", "no_loop.php")]
    {
        let setup = worker().worker(script).site_line("pool.queue_timeout = \"1s\"");
        let server = setup.also("other.test", "php").start();
        server.log_line(&[said]);
        let started = Instant::now();
        let response = server.get("/");
        assert!(matches!(response.status(), 500..=503), "{script}: {response}");
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{script}: answered after {:?}",
            started.elapsed()
        );
        std::thread::sleep(Duration::from_secs(2));
        let attempts = server.log().matches(said).count();
        assert!(attempts < 60, "{script}: {attempts} attempts in a few seconds");
        let other = server.send(&get("/hello.php").header("Host", "other.test")).expect(200);
        assert_eq!(other.text(), "Hello from PHP", "another site does not suffer");
    }
}
