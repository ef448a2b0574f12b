//! `tokamak capacity`: the knee of a server whose capacity is known, and what ends it.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, free_address, program};

fn capacity(url: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["180", program().to_str().unwrap(), "capacity", url])
        .args(arguments)
        .output()
        .unwrap()
}

/// The report as JSON, and the exit status.
fn report(url: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let Output { status, stdout, stderr } = capacity(url, &[&["--json"], arguments].concat());
    let text = String::from_utf8(stdout).unwrap();
    let value = serde_json::from_str(&text);
    let value =
        value.unwrap_or_else(|e| panic!("{e}: {text}\n{}", String::from_utf8_lossy(&stderr)));
    (value, status.code())
}

/// A site whose page waits for as many milliseconds as it is told, with two workers.
fn server() -> Server {
    Setup::new(Kind::Classic).site("sites/capacity").workers(2).start()
}

#[test]
fn two_workers_of_which_each_request_takes_20_ms_serve_100_a_second() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let url = format!("http://{}/?ms=20", server.address);
    let page_name = page.to_str().unwrap();
    let flags = ["--p90", "500ms", "--for", "60s", "--step", "2s", "--html", page_name];
    let control = server.places.top().join("control");
    let (found, status) =
        report(&url, &[&flags[..], &["--control", control.to_str().unwrap()]].concat());
    assert_eq!(status, Some(0), "{found:#}");
    let (peak, beyond) = (found["peak"].as_f64().unwrap(), found["beyond"].as_f64().unwrap());
    // Nothing on earth makes it more than 100; a machine that compiles meanwhile makes it less.
    assert!((45.0..=112.0).contains(&peak) && peak < beyond, "{found:#}");
    assert_eq!(found["ends"].as_str(), Some("workers"), "{found:#}");
    assert!(found["why"].as_str().unwrap().contains("2 workers of site"), "{found:#}");
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && html.contains("workers") && !html.contains("src="), "{html}");
}

#[test]
fn a_bound_that_no_request_keeps_is_said_so() {
    let server = server();
    let flags = ["--p50", "20ms", "--for", "20s", "--step", "1s"];
    let (found, status) = report(&format!("http://{}/?ms=100", server.address), &flags);
    assert_eq!((found["peak"].as_f64(), status), (None, Some(1)), "{found:#}");
    assert!(found["alone_seconds"].as_f64().unwrap() > 0.09, "{found:#}");
}

#[test]
fn the_highest_rate_is_not_exceeded_and_what_held_there_is_at_least() {
    let server = server();
    let url = format!("http://{}/", server.address);
    let flags = ["--p90", "5s", "--max-rate", "20", "--for", "30s", "--step", "1s"];
    let output = capacity(&url, &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for wanted in ["at least 20.0/s with 90 % within 5.00 s", "● the bound holds", "it ends by"] {
        assert!(text.contains(wanted), "{wanted} is not in:\n{text}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_noticed_before_the_search() {
    let url = format!("http://{}/", free_address());
    let output = capacity(&url, &["--html", "/proc/missing/report.html"]);
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    assert!(wrong.contains("/proc/missing/report.html: No such file"), "{wrong}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_measured_is_named_and_nothing_is_printed() {
    let server = server();
    let nobody = format!("http://{}/", free_address());
    for (url, said) in [
        (format!("http://{}/wrong.php", server.address), "status 500"),
        (format!("http://{}/away.php", server.address), "a redirect"),
        (nobody, "connection refused"),
        ("https://127.0.0.1/".into(), "TLS is not spoken here"),
    ] {
        let output = capacity(&url, &["--json"]);
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{url}: {wrong}");
        assert!(wrong.contains(said) && output.stdout.is_empty(), "{url}: {wrong}");
    }
}
