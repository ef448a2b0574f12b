//! The slow log: each slow request is one entry of the error log, with all that is known of it.

use std::fs;
use std::time::Instant;

use crate::harness::{Kind, Setup, get, in_every_mode};
use crate::operate::{kill, status_when, stop};
use crate::supervise::children;
use crate::traces::{TRACE, line, parent, traced};

in_every_mode! {
    an_entry_has_all_that_is_known,
    requests_that_are_slow_at_once_do_not_mix,
    no_url_breaks_an_entry,
}

/// On a machine that is very busy, a script of these tests may need a fifth of that to begin.
const SLOW: &str = "pool.slow = \"1s\"";

/// The number behind `key=` in an entry.
#[track_caller]
fn number(entry: &str, key: &str) -> u64 {
    let rest = entry.split(&format!(" {key}=")).nth(1).unwrap_or_else(|| panic!("{key}: {entry}"));
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("{key}: {entry}"))
}

fn an_entry_has_all_that_is_known(kind: Kind) {
    let server = traced(kind, "continue").workers(1).site_line(SLOW).start();
    let target = "/hold.php?name=known";
    let mut connection = server.connect();
    connection.send(get(target).header("traceparent", &parent("01")).bytes());
    server.holds("known");
    let entry = server.log_entry(&["WARN", &format!("uri={target}\n"), "/hold.php:"]);
    let seen = status_when(&server, "the worker", |status| {
        status["pools"][0]["workers"][0]["pid"].as_u64().is_some()
    });
    server.let_go("known");
    connection.response().expect(200);

    let logged = line(&server, target);
    let id = logged["id"].as_str().unwrap();
    let pid = &seen["pools"][0]["workers"][0]["pid"];
    let head = entry.lines().next().unwrap();
    assert!(head.contains("WARN [localhost] slow request seconds="), "{entry}");
    let named = format!(" pid={pid} id={id} trace={TRACE} method=GET uri={target}");
    assert!(head.ends_with(&named), "{named}: {entry}");
    assert_eq!(entry.matches(" script_filename=/").count(), 1, "{entry}");
    assert!(number(&entry, "memory_mib") < 1000, "{entry}");
    // What is over by then is the same in the access log, and PHP's part has gone on.
    let phases = entry.lines().find(|line| line.starts_with("    phases_us ")).expect(&entry);
    let logged = |phase: &str| logged["phases_us"][phase].as_f64().unwrap_or_default() as u64;
    assert_eq!(number(phases, "head"), logged("head"), "{entry}");
    let php = number(phases, "php");
    assert!((900_000..logged("php")).contains(&php), "{entry}");
    assert!(entry.contains("\n    #0 "), "{entry}");
}

fn requests_that_are_slow_at_once_do_not_mix(kind: Kind) {
    const COUNT: usize = 6;
    let server = Setup::new(kind).workers(COUNT).site_line(SLOW).start();
    let _open: Vec<_> = (0..COUNT)
        .map(|n| {
            let mut connection = server.connect();
            connection.send(get(&format!("/hold.php?name=slow-{n}")).bytes());
            server.holds(&format!("slow-{n}"));
            connection
        })
        .collect();
    for n in 0..COUNT {
        let entry = server.log_entry(&[&format!("uri=/hold.php?name=slow-{n}\n"), "/hold.php:"]);
        for once in ["slow request ", " script_filename=", " phases_us ", " memory_mib=", " #0 "] {
            assert_eq!(entry.matches(once).count(), 1, "{once}: {entry}");
        }
        // All lines of an entry are the supervisor's own, and the stack is the last of it.
        let lines: Vec<_> = entry.lines().skip(1).collect();
        let stack = lines.iter().position(|line| line.starts_with("    #0 ")).unwrap();
        assert!(lines[stack..].iter().all(|line| line.starts_with("    #")), "{entry}");
    }
    let log = server.log();
    let entries: Vec<_> =
        server.log_entries().into_iter().filter(|it| it.lines().count() > 1).collect();
    let are_slow = entries.iter().all(|entry| entry.contains(" slow request "));
    assert!(are_slow && entries.len() == COUNT, "{log}");
    (0..COUNT).for_each(|n| server.let_go(&format!("slow-{n}")));
}

fn no_url_breaks_an_entry(kind: Kind) {
    let server = Setup::new(kind).workers(1).site_line(SLOW).start();
    let target = "/hold.php?name=url&\\%0a%1b[2J&sql_calls=7\u{9b}\u{85}2026-01-01T00:00:00Z";
    let mut connection = server.connect();
    connection.send(get(target).bytes());
    server.holds("url");
    let entry = server.log_entry(&["slow request", "/hold.php:"]);
    let shown = target.as_bytes().escape_ascii();
    assert!(entry.lines().next().unwrap().ends_with(&format!("uri={shown}")), "{entry}");
    assert!(entry.chars().all(|c| c == '\n' || !c.is_control()), "{entry:?}");
    server.let_go("url");
    connection.response().expect(200);
}

/// The time in the queue is told, although PHP knows nothing of it.
#[test]
fn an_entry_has_the_time_that_the_request_has_waited() {
    let server = Setup::new(Kind::Classic).workers(1).site_line(SLOW).start();
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send(get("/hold.php?name=first").bytes());
    server.holds("first");
    second.send(get("/hold.php?name=second").bytes());
    status_when(&server, "one waits", |status| status["pools"][0]["queue"] == 1);
    let start = Instant::now();
    server.log_entry(&["uri=/hold.php?name=first\n"]);
    let least = start.elapsed().as_micros() as u64;
    server.let_go("first");
    server.holds("second");
    let entry = server.log_entry(&["uri=/hold.php?name=second\n", "/hold.php:"]);
    assert!(number(&entry, "queue") >= least, "{least}: {entry}");
    server.let_go("second");
}

/// A pipe takes so much at once, so no other line gets into the middle.
#[test]
fn an_entry_is_bounded() {
    let server = Setup::new(Kind::Classic).workers(1).site_line(SLOW).start();
    let name = "a_function_with_a_name_that_takes_its_room_".repeat(3);
    let code = format!(
        "<?php function {name}($n) {{ $n > 0 ? {name}($n - 1) : include __DIR__ . '/hold.php'; }} \
            {name}(100);"
    );
    fs::write(server.places.root().join("deep.php"), code).unwrap();
    let mut connection = server.connect();
    connection.send(get("/deep.php?name=deep").bytes());
    server.holds("deep");
    let entry = server.log_entry(&["uri=/deep.php", "#0 ", " more lines\n"]);
    assert!(entry.len() <= 4096 && entry.len() > 3000, "{}", entry.len());
    server.let_go("deep");
    connection.response().expect(200);
}

/// Of a worker that ends before its stack is read nothing is lost but that.
#[test]
fn an_entry_without_a_stack_says_why() {
    let setup = Setup::new(Kind::Classic).workers(1).site_line(SLOW);
    let mut server = setup.line("timeouts.watchdog = \"0\"").start();
    status_when(&server, "a worker", |status| status["pools"][0]["idle"] == 1);
    let zygote = children(server.main_process().pid().into(), "zygote")[0];
    // The zygote has forked the worker and is stopped before the request begins, so it reads no
    // stack in time.
    stop(zygote);
    let mut connection = server.connect();
    connection.send(get("/hold.php?name=late").bytes());
    server.holds("late");
    let entry = server.log_entry(&["uri=/hold.php?name=late\n", "no stack: "]);
    kill("CONT", zygote);
    assert!(entry.contains("does not answer") && entry.contains(" phases_us "), "{entry}");
    server.let_go("late");
    connection.response().expect(200);
    assert_eq!(server.log().matches("slow request seconds=").count(), 1, "{}", server.log());
}
