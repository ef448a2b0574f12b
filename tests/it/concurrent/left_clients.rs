//! Clients of async mode that leave, in each phase of their request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{End, Kind, Server, Setup, eventually, get, post};

const PATIENCE: Duration = Duration::from_secs(60);

/// Where a request is when its client leaves: the phases of `tests/sites/left_clients`.
const PHASES: &[&str] = &[
    "body",
    "sleep",
    "socket",
    "curl",
    "coroutine",
    "coroutines",
    "left-coroutine",
    "fiber",
    "response",
    "finished",
];

fn server(concurrency: usize) -> Server {
    Setup::new(Kind::Async)
        .site("sites/left_clients")
        .workers(1)
        .site_line(&format!("concurrency = {concurrency}"))
        .line("log.access = \"state/access.log\"")
        .start()
}

fn until(what: &str, server: &Server, is_so: impl Fn() -> bool) {
    let seen = eventually(PATIENCE, || is_so().then_some(()));
    assert!(seen.is_some(), "never: {what}\n{}", server.log());
}

fn has(server: &Server, note: &str) -> bool {
    server.state_file(note).exists()
}

/// How many lines the access log has of this target.
fn lines(server: &Server, target: &str) -> usize {
    let log = std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains(&format!("{target} "))).count()
}

/// A client sends its request, leaves when that has begun, and the request ends.
fn leave(server: &Server, phase: &str, number: usize) {
    let target = format!("/?phase={phase}&n={number}");
    let mut client = server.connect();
    if phase == "body" {
        // The worker gets a request when its body has come.
        let whole = post(&target, "text/plain", vec![b'x'; 300_000]).bytes();
        client.send(&whole[..whole.len() / 2]);
        drop(client);
    } else {
        client.send(get(&target).bytes());
        until(&format!("{target} begins"), server, || has(server, &format!("begun-{number}")));
        drop(client);
        until(&format!("{target} ends"), server, || has(server, &format!("ended-{number}")));
    }
    until(&format!("{target} is logged"), server, || lines(server, &target) == 1);
}

fn measure(server: &Server) -> Value {
    server.get("/?phase=measure").expect(200).json()
}

fn grown(few: &Value, many: &Value, what: &str) -> u64 {
    many[what].as_u64().unwrap().saturating_sub(few[what].as_u64().unwrap())
}

/// Asks again and again, one request after the other, and looks at each answer.
fn go_on(server: &Server, is_over: &AtomicBool, served: &AtomicUsize) {
    let mut client = server.connect();
    while !is_over.load(Ordering::Relaxed) {
        let n = served.fetch_add(1, Ordering::Relaxed);
        let answer = client.exchange(&get(&format!("/?phase=small&n={n}"))).expect(200);
        assert_eq!(answer.text(), format!("small {n}"));
    }
}

#[test]
fn a_client_may_leave_in_each_phase() {
    let server = server(16);
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (few, many) = scope(|threads| {
        threads.spawn(|| go_on(&server, &is_over, &served));
        let _end = End(&is_over);
        let mut number = 0;
        let mut rounds = |count| {
            for phase in PHASES.repeat(count) {
                number += 1;
                leave(&server, phase, number);
            }
            measure(&server)
        };
        (rounds(3), rounds(6))
    });
    assert!(served.load(Ordering::Relaxed) > 0);
    assert_eq!(few["pid"], many["pid"], "the worker ended\n{}", server.log());
    assert_eq!(few["descriptors"], many["descriptors"]);
    // Of each of 60 requests, a Fiber alone would be 9 kB.
    assert!(grown(&few, &many, "used") < 64 << 10, "{few} {many}");
    assert!(grown(&few, &many, "resident") < 1 << 20, "{few} {many}");
    assert!(!server.log().contains(" ERROR "), "{}", server.log());
}

#[test]
fn a_client_may_leave_while_its_request_is_queued() {
    let server = server(2);
    let mut holders = Vec::new();
    for number in [1, 2] {
        let mut holder = server.connect();
        holder.send(get(&format!("/?phase=sleep&n={number}")).bytes());
        until("both are under way", &server, || has(&server, &format!("begun-{number}")));
        holders.push(holder);
    }
    let mut queued = server.connect();
    queued.send(get("/?phase=sleep&n=3").bytes());
    drop(queued);
    until("the queued one is logged", &server, || lines(&server, "/?phase=sleep&n=3") == 1);
    drop(holders);
    for number in [1, 2] {
        until("the holders end", &server, || has(&server, &format!("ended-{number}")));
    }
    assert_eq!(server.text("/?phase=small&n=4"), "small 4");
    assert!(!has(&server, "begun-3"), "{}", server.log());
    assert!(!server.log().contains(" ERROR "), "{}", server.log());
}
