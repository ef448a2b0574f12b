//! Async mode: many requests in one worker, each as if it were alone.

use std::time::{Duration, Instant};

use tokamak_sys::control::Status;
use tokamak_sys::queue::Outcome;

use crate::harness::*;

/// A worker whose handler includes the file that the URL names.
const INCLUDE: &str = "<?php
while (tokamak_handle_request(function () { include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}";

fn site(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Site {
    let mut all =
        vec![("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "32")];
    all.extend_from_slice(settings);
    let mut with_worker = vec![("worker.php", INCLUDE)];
    with_worker.extend_from_slice(files);
    Site::start(&with_worker, &all, 1)
}

fn texts(responses: &[Response]) -> Vec<String> {
    responses.iter().map(Response::text).collect()
}

#[test]
fn requests_that_wait_wait_side_by_side() {
    let mut site = site(&[("sleep.php", "<?php usleep(500000); echo 'slept ', $_GET['n'];")], &[]);
    let asks: Vec<_> = (0..20).map(|n| get(&format!("/sleep.php?n={n}"))).collect();
    let begun = Instant::now();
    let answers = site.ask_all(&asks);
    let took = begun.elapsed();
    let expected: Vec<_> = (0..20).map(|n| format!("slept {n}")).collect();
    assert_eq!(texts(&answers), expected, "{}", site.log());
    // One after another they would take ten seconds.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(site.log(), "");
}

#[test]
fn a_worker_serves_one_request_after_another_and_ends() {
    let mut site = site(&[("a.php", "<?php echo $_GET['n'];")], &[("max_requests", "3")]);
    for n in 0..3 {
        assert_eq!(site.get(&format!("/a.php?n={n}")).text(), n.to_string());
    }
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    assert_eq!(site.log(), "");
}

#[test]
fn an_error_ends_its_request_and_no_other() {
    let mut site = site(
        &[
            ("wait.php", "<?php usleep(200000); echo 'fine';"),
            ("throw.php", "<?php usleep(50000); throw new LogicException('no');"),
            ("exit.php", "<?php usleep(50000); echo 'left'; exit(3);"),
            ("fatal.php", "<?php usleep(50000); echo 'begun'; trigger_error('dead', E_USER_ERROR);"),
        ],
        &[("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    let asks = ["wait", "throw", "exit", "wait", "fatal"].map(|name| get(&format!("/{name}.php")));
    let answers = site.ask_all(&asks);
    let seen: Vec<_> = answers.iter().map(|a| (a.status, a.text())).collect();
    let expected = [(200, "fine"), (500, ""), (200, "left"), (200, "fine"), (500, "begun")];
    assert_eq!(seen, expected.map(|(status, text)| (status, text.to_owned())), "{}", site.log());
    assert!(answers.iter().all(|a| a.outcome == Some(Outcome::Complete)));
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    site.wait_for_log("dead");
    site.wait_for_log("takes no more requests");
}

#[test]
fn a_response_larger_than_its_ring_lets_others_run() {
    let mut site = site(
        &[
            ("large.php", "<?php for ($i = 0; $i < 100; $i++) echo str_repeat('x', 10000);"),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let large = site.submit(&get("/large.php"));
    let small = site.submit(&get("/small.php"));
    assert_eq!(site.collect(small, b"", |_| false).text(), "small");
    assert_eq!(site.collect(large, b"", |_| false).body.len(), 1_000_000);
}

#[test]
fn a_body_that_comes_slowly_lets_others_run() {
    let mut site = site(
        &[
            ("read.php", "<?php echo strlen(file_get_contents('php://input'));"),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let body = vec![b'x'; 300_000];
    let slow = site.submit(&post("/read.php", "text/plain", &body));
    assert_eq!(site.get("/small.php").text(), "small");
    assert_eq!(site.collect(slow, &body, |_| false).text(), "300000");
}
