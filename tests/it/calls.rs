//! The SQL and the outgoing HTTP calls of a request, counted and timed by its worker, as the access
//! log, the client, the metrics and the slow log are told.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Response, Server, Setup, eventually, get, in_every_mode};
use crate::metrics;
use crate::services::faulty;
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;

/// What the pages of `tests/sites/calls` call: SQL, HTTP.
const PAGES: &[(&str, [u64; 2])] = &[
    ("pdo_mysql", [7, 0]),
    ("mysqli_both", [5, 0]),
    ("pgsql", [5, 0]),
    ("sqlite", [6, 0]),
    ("http", [0, 9]),
    ("indirectly", [5, 1]),
    ("throwing", [2, 1]),
    ("nested", [2, 0]),
];

fn setup(kind: Kind) -> Setup {
    uncounted(kind).site_line("count_calls = true")
}

fn uncounted(kind: Kind) -> Setup {
    Setup::new(kind)
        .site("sites/calls")
        .workers(1)
        .env("HTTP", &faulty::start().to_string())
        .site_line("server_timing = true")
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
}

fn with_mariadb(setup: Setup, database: &MariaDb) -> Setup {
    database.create("reactor");
    let dsn = format!("mysql:host=127.0.0.1;port={};dbname=reactor", database.port());
    setup
        .env("MYSQL", &dsn)
        .env("MYSQL_PORT", &database.port().to_string())
        .env("PASSWORD", PASSWORD)
}

fn target(page: &str) -> String {
    format!("/index.php?do={page}")
}

/// The line of the access log for a target that was asked for once.
#[track_caller]
fn line(server: &Server, target: &str) -> Value {
    let read = || {
        let text = fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        let (whole, _) = text.rsplit_once('\n')?;
        let line = whole.lines().find(|line| line.contains(&format!("\"{target}\"")))?;
        Some(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    };
    eventually(Duration::from_secs(20), read).unwrap_or_else(|| panic!("no line of {target}"))
}

/// SQL and HTTP.
fn counts(line: &Value) -> [u64; 2] {
    ["sql_calls", "http_calls"].map(|key| line[key].as_u64().unwrap_or_else(|| panic!("{line}")))
}

fn micros(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or_else(|| panic!("no {key} in {line}"))
}

/// What `Server-Timing` says of a kind of calls: nanoseconds and count.
#[track_caller]
fn timing(response: &Response, kind: &str) -> (u64, u64) {
    let value = response.header("server-timing").unwrap_or_default();
    let part = value.split(", ").find_map(|part| part.strip_prefix(&format!("{kind};dur=")));
    let (time, text) = part.and_then(|part| part.split_once(";desc=\"calls: ")).expect(value);
    (time.replace('.', "").parse().unwrap(), text.trim_end_matches('"').parse().unwrap())
}

in_every_mode!(
    known_numbers_are_the_same_everywhere,
    the_time_of_a_call_is_that_of_its_request,
    a_fatal_error_in_a_call_ends_it_with_its_request,
    what_is_called_after_the_response_is_nobodys,
    the_slow_log_joins_what_is_known,
);

fn known_numbers_are_the_same_everywhere(kind: Kind) {
    let (mariadb, postgresql) = (MariaDb::start(), PostgreSql::start());
    let pgsql = format!(
        "host=127.0.0.1 port={} dbname=reactor user=reactor password='{PASSWORD}'",
        postgresql.port()
    );
    let setup = with_mariadb(setup(kind), &mariadb).env("PGSQL", &pgsql);
    let server = metrics::start(setup);
    let mut sums = [0, 0];
    for (nth, (page, expected)) in PAGES.iter().enumerate() {
        let response = server.get(&target(page)).expect(200);
        let logged = line(&server, &target(page));
        assert_eq!(counts(&logged), *expected, "{page}: {logged}");
        for (kind, count) in [("sql", expected[0]), ("http", expected[1])] {
            let us = micros(&logged, &format!("{kind}_us"));
            assert_eq!(timing(&response, kind), ((us * 1000.0).round() as u64, count), "{page}");
            // Calls one after the other are within the request; the nested one is in two calls.
            let most =
                micros(&logged["phases_us"], "php") * if *page == "nested" { 2.0 } else { 1.0 };
            assert!(us <= most && (count > 0) == (us > 0.0), "{page} {kind}: {logged}");
        }
        // The next visitor begins with nothing.
        let after = format!("{}&nth={nth}", target("nothing"));
        server.get(&after).expect(200);
        let logged = line(&server, &after);
        assert_eq!((counts(&logged), micros(&logged, "sql_us")), ([0, 0], 0.0), "after {page}");
        sums = [sums[0] + expected[0], sums[1] + expected[1]];
    }
    let total = |kind| format!("tokamak_calls_total{{kind=\"{kind}\",site=\"localhost\"}}");
    let samples = metrics::samples_when(&server, &total("sql"), sums[0] as f64);
    assert_eq!(samples[&total("http")], sums[1] as f64);
    let requests = |kind: &str| {
        let name = "tokamak_request_calls_seconds_count";
        samples[&format!("{name}{{kind=\"{kind}\",site=\"localhost\"}}")]
    };
    let with = |nth: usize| PAGES.iter().filter(|(_, counts)| counts[nth] > 0).count() as f64;
    assert_eq!((requests("sql"), requests("http")), (with(0), with(1)));
}

/// In async mode others run meanwhile.
fn the_time_of_a_call_is_that_of_its_request(kind: Kind) {
    let mariadb = MariaDb::start();
    let server = with_mariadb(setup(kind), &mariadb).start();
    let slow = format!("{}&seconds=0.2", target("sleeps"));
    server.get(&slow).expect(200);
    let logged = line(&server, &slow);
    assert_eq!(counts(&logged), [1, 0], "{logged}");
    let us = micros(&logged, "sql_us");
    assert!((200_000.0..=micros(&logged["phases_us"], "php")).contains(&us), "{logged}");
    if kind != Kind::Async {
        return;
    }
    let lock = mariadb.session("SELECT GET_LOCK('test', 60)");
    let until = |sql: &str| {
        let is_true = || (mariadb.query(sql) == "1").then_some(());
        eventually(Duration::from_secs(20), is_true).unwrap_or_else(|| panic!("never true: {sql}"));
    };
    until("SELECT IS_USED_LOCK('test') IS NOT NULL");
    let mut waiting = server.connect();
    waiting.send(get(&target("waits_for_a_lock")).bytes());
    until(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reactor' \
        AND info LIKE '%GET_LOCK%'",
    );
    server.get(&target("pdo_mysql")).expect(200);
    drop(lock);
    waiting.response().expect(200);
    let (other, waited) =
        (line(&server, &target("pdo_mysql")), line(&server, &target("waits_for_a_lock")));
    assert_eq!((counts(&other), counts(&waited)), ([7, 0], [2, 0]), "{other} {waited}");
    assert!(micros(&other, "sql_us") <= micros(&other["phases_us"], "php"), "{other}");
    assert!(micros(&waited, "sql_us") >= micros(&other["phases_us"], "php"), "{waited} {other}");
}

fn a_fatal_error_in_a_call_ends_it_with_its_request(kind: Kind) {
    let server = setup(kind).start();
    server.get(&target("fatal"));
    let logged = line(&server, &target("fatal"));
    assert_eq!(counts(&logged), [0, 1], "{logged}");
    let us = micros(&logged, "http_us");
    assert!((100_000.0..=micros(&logged["phases_us"], "php")).contains(&us), "{logged}");
    server.get(&target("nothing")).expect(200);
    assert_eq!(counts(&line(&server, &target("nothing"))), [0, 0]);
}

fn what_is_called_after_the_response_is_nobodys(kind: Kind) {
    let mariadb = MariaDb::start();
    let server = with_mariadb(setup(kind), &mariadb).start();
    for nth in 0..3 {
        let late = format!("{}&nth={nth}", target("calls_late"));
        server.get(&late).expect(200);
        assert_eq!(counts(&line(&server, &late)), [0, 0]);
        let next = format!("{}&seconds=0&nth={nth}", target("sleeps"));
        server.get(&next).expect(200);
        assert_eq!(counts(&line(&server, &next)), [1, 0]);
    }
}

#[test]
fn calls_of_coroutines_add_up() {
    let server = setup(Kind::Async).start();
    server.get(&target("in_coroutines")).expect(200);
    let logged = line(&server, &target("in_coroutines"));
    assert_eq!(counts(&logged), [0, 3], "{logged}");
    assert!(micros(&logged, "http_us") > micros(&logged["phases_us"], "php"), "{logged}");
}

#[test]
fn nothing_is_counted_without_the_option() {
    let server = uncounted(Kind::Classic).start();
    let response = server.get(&target("sqlite")).expect(200);
    assert!(!response.header("server-timing").unwrap().contains("sql"));
    assert!(line(&server, &target("sqlite")).get("sql_calls").is_none());
}

/// One entry has all that is known: it is the access log's request, and its stack is below.
fn the_slow_log_joins_what_is_known(kind: Kind) {
    let mariadb = MariaDb::start();
    let setup = setup(kind).site_line("pool.slow = \"2s\"").line("trace.context = \"continue\"");
    let server = with_mariadb(setup, &mariadb).start();
    // Compiles the page and connects for the first time, so that the look meets the query.
    server.get(&format!("{}&seconds=0", target("sleeps"))).expect(200);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let slow = format!("{}&seconds=6", target("sleeps"));
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    server.send(&get(&slow).header("traceparent", &parent)).expect(200);
    let logged = line(&server, &slow);
    let id = format!("id={}", logged["id"].as_str().unwrap());
    let entry = server.log_entry(&["slow request ", &slow, &id]);
    assert!(entry.contains(&format!(" trace={trace} ")), "{entry}");
    let number = |key: &str| {
        let rest = entry.split(&format!(" {key}=")).nth(1).unwrap_or_else(|| panic!("{entry}"));
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap();
        digits.parse::<f64>().unwrap_or_else(|_| panic!("{key}: {entry}"))
    };
    assert_eq!(["sql_calls", "http_calls"].map(number), [1.0, 0.0], "{entry}");
    // The query is in the middle of it, and lasts on.
    let (sql, php) = (number("sql_us"), number("php"));
    assert!(sql > 0.0 && sql < php && sql < micros(&logged, "sql_us"), "{entry} {logged}");
    // The connection, or the query so far.
    assert!((1.0..=sql).contains(&number("longest_sql_us")), "{entry}");
    assert!(entry.contains(" PDO::query()") && entry.contains(" sleeps() "), "{entry}");
    let log = server.log();
    // No text of a statement, no password.
    assert!(!log.contains("SELECT") && !log.contains(PASSWORD), "{log}");
}
