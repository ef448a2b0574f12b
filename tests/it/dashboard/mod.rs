//! The dashboard of the admin listener: its figures are those of the metrics and of the access log.

mod page;
mod profile;
mod script;
mod top;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, eventually, free_address};

/// A server with a JSON access log and its admin listener on this port.
fn start(setup: Setup, lines: &str) -> (Server, u16) {
    let port = free_address().port();
    let setup = setup
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
        .line(&format!("admin = \"127.0.0.1:{port}\"\n{lines}"));
    (setup.start(), port)
}

/// Head and body of the answer to a GET.
fn ask(port: u16, path: &str, fields: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin listener");
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
    (head.to_owned(), body.to_owned())
}

fn document(port: u16) -> Value {
    let (head, body) = ask(port, "/dashboard.json", "");
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(&body).unwrap_or_else(|_| panic!("{head}\n{body}"))
}

/// The sum of the samples of a metric whose labels have these values.
fn sum(document: &Value, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = document["metrics"][name].as_array().unwrap_or_else(|| panic!("{name}"));
    let fits = |one: &&Value| labels.iter().all(|(name, value)| one["labels"][name] == *value);
    let number = |one: &Value| {
        let buckets = one["buckets"].as_array();
        one["value"]
            .as_f64()
            .unwrap_or_else(|| buckets.into_iter().flatten().filter_map(Value::as_f64).sum())
    };
    samples.iter().filter(fits).map(number).sum()
}

/// The document once so many requests are over, which clients may see a moment earlier.
fn document_of(port: u16, requests: f64) -> Value {
    let look = || {
        let document = document(port);
        (sum(&document, "tokamak_requests_total", &[]) == requests).then_some(document)
    };
    let found = eventually(Duration::from_secs(20), look);
    found.unwrap_or_else(|| panic!("not {requests} requests: {:#}", document(port)))
}

/// The document once so many requests are over and no worker is busy any more: a worker says that
/// it is idle when its request is counted already.
fn document_at_rest(port: u16, requests: f64) -> Value {
    let look = || {
        let document = document_of(port, requests);
        let busy = sum(&document, "tokamak_workers", &[("state", "busy")]);
        (document["status"].is_object() && busy == 0.0).then_some(document)
    };
    let found = eventually(Duration::from_secs(20), look);
    found.unwrap_or_else(|| panic!("never at rest: {:#}", document(port)))
}

fn log_lines(server: &Server, count: usize) -> Vec<Value> {
    let read = || {
        let text = std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        let lines: Vec<_> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() == count).then_some(lines)
    };
    eventually(Duration::from_secs(20), read).expect("the lines of the access log")
}

#[test]
fn the_document_says_what_metrics_log_and_status_say() {
    let (server, port) = start(Setup::new(Kind::Worker), "");
    for target in ["/hello.php", "/hello.php?2", "/missing.txt", "/server.php"] {
        server.get(target);
    }
    let document = document_of(port, 4.0);
    let lines = log_lines(&server, 4);
    let micros = |line: &Value, name: &str| line[name].as_f64().unwrap();
    let duration: f64 = lines.iter().map(|line| micros(line, "duration_us")).sum();
    let shown = &document["metrics"]["tokamak_request_duration_seconds"][0]["sum"];
    // The log cuts each to microseconds.
    assert!((0.0..4.0).contains(&(shown.as_f64().unwrap() * 1e6 - duration)), "{shown} {duration}");
    assert_eq!(sum(&document, "tokamak_request_duration_seconds", &[]), 4.0);
    let bytes: f64 = lines.iter().map(|line| micros(line, "bytes")).sum();
    assert_eq!(sum(&document, "tokamak_response_body_bytes_total", &[]), bytes);

    let (_, metrics) = ask(port, "/metrics", "");
    for family in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        assert!(document["metrics"][name].is_array(), "{name}");
        let found = metrics.lines().filter(|line| {
            let end = if kind == "histogram" { "_count" } else { "" };
            line.split(['{', ' ']).next() == Some(&format!("{name}{end}"))
        });
        let shown = document["metrics"][name].as_array().unwrap();
        assert_eq!(found.count(), shown.len(), "{name}");
    }
    assert_eq!(sum(&document, "tokamak_workers_limit", &[]), document["status"]["pools"][0]["max"]);
    assert_eq!(document["front_pid"], document["status"]["front_pid"]);
}

#[test]
fn the_slowest_urls_are_named_with_their_times() {
    let (server, port) = start(Setup::new(Kind::Classic), "");
    let script = "<?php usleep((int) $_GET['us']); echo 'done';";
    std::fs::write(server.places.root().join("wait.php"), script).unwrap();
    server.get("/wait.php?us=50000").expect(200);
    server.get("/wait.php?us=120000&secret=1").expect(200);
    server.get("/wait.php?us=20000").expect(200);
    // The log is asked first: a request that ends while the document is made may be left out of it.
    let lines = log_lines(&server, 3);
    let document = document_of(port, 3.0);
    let urls = document["slowest"]["urls"].as_array().unwrap();
    assert_eq!(urls.len(), 1, "{urls:#?}");
    let longest = lines.iter().max_by_key(|line| line["duration_us"].as_u64()).unwrap();
    let (shown, logged) = (urls[0]["seconds"].as_f64().unwrap() * 1e6, &longest["duration_us"]);
    // The log cuts it to microseconds, and seconds as a fraction are not exact to the nanosecond.
    assert!((-0.001..1.0).contains(&(shown - logged.as_f64().unwrap())), "{shown} {logged}");
    // It is PHP's time as a rule; a busy machine may have spent more of it elsewhere.
    let phases = longest["phases_us"].as_object().unwrap();
    let (phase, _) = phases
        .iter()
        .max_by(|(_, one), (_, other)| one.as_f64().partial_cmp(&other.as_f64()).unwrap())
        .unwrap();
    for (name, value) in [("site", "localhost"), ("path", "/wait.php"), ("phase", phase)] {
        assert_eq!(urls[0][name], value, "{longest}");
    }
    assert_eq!(urls[0]["status"], 200);
}

/// The table has a size of its own, so the document does not grow with what clients ask for.
#[test]
fn many_urls_make_the_document_no_longer() {
    let (server, port) = start(Setup::new(Kind::Classic), "");
    let script = "<?php usleep(1500);";
    std::fs::write(server.places.root().join("wait.php"), script).unwrap();
    let mut connection = server.connect();
    for nth in 0..100 {
        let path = format!("/wait.php/{nth}/{}", "x".repeat(2000));
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        connection.response().expect(200);
    }
    let document = document_of(port, 100.0);
    let urls = document["slowest"]["urls"].as_array().unwrap();
    assert_eq!(urls.len(), 16);
    assert!(urls.iter().all(|url| url["path"].as_str().unwrap().len() == 200), "{urls:#?}");
}
