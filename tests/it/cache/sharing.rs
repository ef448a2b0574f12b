use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Site, asking, page, page_with, status};
use crate::harness::{Connection, eventually, get, in_parallel};

/// Longest wait for something that comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests at one time.
const MANY: usize = 12;

/// Sends one request many times at once; how many of the responses say this of themselves.
fn at_once(site: &Site, target: &str, what: &str) -> usize {
    let found = std::sync::atomic::AtomicUsize::new(0);
    in_parallel(MANY, |_| {
        let response = site.get(target);
        if status(&response).contains(what) {
            found.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    found.into_inner()
}

/// Waits until the page has begun this often.
#[track_caller]
fn runs_reach(site: &Site, runs: usize) {
    if eventually(PATIENCE, || (site.runs() == runs).then_some(())).is_none() {
        let found = site.runs();
        // Those who wait for the page would do so for ever.
        site.hold(false);
        panic!("the page ran {found} times, not {runs}");
    }
}

#[test]
fn one_asks_and_the_others_wait() {
    let site = Site::new();
    // Clients that come late find the page in the cache. On a busy machine all may come late, so
    // there are five tries.
    let some_wait = (1..=5).any(|run| {
        let target = page_with(&format!("{run}&sleep=500"), &["Cache-Control: max-age=60"]);
        let waited = at_once(&site, &target, "collapsed");
        assert_eq!(site.runs(), run);
        waited > MANY / 2
    });
    assert!(some_wait);
}

#[test]
fn those_who_wait_for_nothing_go_on_together() {
    let site = Site::new();
    let target = page_with("", &["Cache-Control: private"]);
    site.hold(true);
    std::thread::scope(|scope| {
        let all = scope.spawn(|| at_once(&site, &target, "collapsed"));
        runs_reach(&site, 1);
        // The first by itself, then the others with four workers.
        site.hold_after(1);
        runs_reach(&site, 5);
        site.hold(false);
        assert_eq!(all.join().unwrap(), 0);
    });
    assert_eq!(site.runs(), MANY);
    // It is remembered that there is nothing to wait for.
    site.hold(true);
    std::thread::scope(|scope| {
        scope.spawn(|| in_parallel(4, |_| drop(site.get(&target).expect(200))));
        runs_reach(&site, MANY + 4);
        site.hold(false);
    });
}

#[test]
fn requests_wait_for_another_fill_for_a_limited_time() {
    let site = Site::with(&["cache.wait = \"200ms\""]);
    let target = page_with("", &["Cache-Control: max-age=60"]);
    site.hold(true);
    std::thread::scope(|scope| {
        for runs in 1..=2 {
            scope.spawn(|| site.get(&target).expect(200));
            runs_reach(&site, runs);
        }
        site.hold(false);
    });
    assert_eq!(site.runs(), 2);
}

#[test]
fn a_client_that_leaves_takes_nothing_along() {
    let site = Site::new();
    let target = page_with("", &["Cache-Control: max-age=60"]);
    site.hold(true);
    let mut first = Connection::open(site.0.address);
    first.send(get(&target).head_bytes());
    runs_reach(&site, 1);
    let mut second = Connection::open(site.0.address);
    second.send(get(&target).head_bytes());
    drop(first);
    site.hold(false);
    let response = second.response().expect(200);
    assert_eq!((response.text().as_str(), site.runs()), ("run 1", 1), "{response}");
    // Also one for whom nobody waits.
    let other = page_with("other", &["Cache-Control: max-age=60"]);
    site.hold(true);
    let mut third = Connection::open(site.0.address);
    third.send(get(&other).head_bytes());
    runs_reach(&site, 2);
    drop(third);
    site.hold(false);
    let is_kept = || status(&site.get(&other)).starts_with("Tokamak; hit").then_some(());
    eventually(PATIENCE, is_kept).expect("it is kept");
    assert_eq!(site.runs(), 2);
}

#[test]
fn bodies_are_sent_while_they_are_stored() {
    let site = Site::new();
    // The first piece does not wait for the last; a busy machine may bring both late.
    let some_is_early = (1..=5).any(|run| {
        let query = format!("{run}&pieces=4&size=50000&pause=200");
        let target = page_with(&query, &["Cache-Control: max-age=60"]);
        let first = site.get(&target).expect(200);
        assert_eq!(first.text().len(), 200_005);
        let second = site.get(&target).expect(200);
        assert!(status(&second).starts_with("Tokamak; hit"), "{second}");
        assert_eq!((first.text(), site.runs()), (second.text(), run));
        first.ahead(1) > Duration::from_millis(400)
    });
    assert!(some_is_early);
}

#[test]
fn a_client_that_reads_slowly_does_not_hold_up_others() {
    let site = Site::new();
    let target = page_with("pieces=30&size=30000&pause=5", &["Cache-Control: max-age=60"]);
    let mut slow = Connection::open(site.0.address);
    slow.send(get(&target).head_bytes());
    eventually(Duration::from_secs(20), || (site.runs() == 1).then_some(()))
        .expect("the page runs");
    let began = Instant::now();
    let response = site.get(&target).expect(200);
    assert_eq!((response.text().len(), site.runs()), (900_005, 1));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(slow.response().text().len(), 900_005);
}

#[test]
fn what_is_too_large_is_passed_on() {
    let site = Site::with(&["cache.largest = \"64KiB\""]);
    let target = page_with("pieces=10&size=20000&pause=20", &["Cache-Control: max-age=60"]);
    for run in 1..=2 {
        let response = site.get(&target).expect(200);
        assert_eq!((response.text().len(), site.runs()), (200_005, run));
    }
    let small = page_with("pieces=3&size=20000&pause=20", &["Cache-Control: max-age=60"]);
    site.get(&small);
    assert!(status(&site.get(&small)).starts_with("Tokamak; hit"));
}

#[test]
fn stale_pages_are_sent_while_they_are_fetched() {
    let site = Site::new();
    let target = page(&["Cache-Control: max-age=1, stale-while-revalidate=60"]);
    site.get(&target);
    sleep(Duration::from_millis(1100));
    site.hold(true);
    in_parallel(MANY, |_| {
        let response = site.get(&target);
        assert_eq!(response.text(), "run 1", "{response}");
        assert!(status(&response).starts_with("Tokamak; hit; ttl=-"), "{response}");
    });
    site.hold(false);
    let new = || (site.get(&target).text() == "run 2").then_some(());
    eventually(Duration::from_secs(20), new).expect("it is fetched");
    assert_eq!(site.runs(), 2, "by one request");
}

#[test]
fn stale_pages_stand_in_for_errors() {
    let site = Site::new();
    let rescued = page(&["Cache-Control: max-age=1, stale-if-error=60"]);
    let strict = page(&["Cache-Control: max-age=1, stale-if-error=60, must-revalidate"]);
    let plain = page(&["Cache-Control: max-age=1"]);
    for target in [&rescued, &strict, &plain] {
        site.get(target).expect(200);
    }
    sleep(Duration::from_millis(1100));
    site.down(true);
    for _ in 0..2 {
        let response = site.get(&rescued).expect(200);
        assert!(
            response.text() == "run 1" && status(&response).contains("detail=error"),
            "{response}"
        );
    }
    site.get(&strict).expect(503);
    site.get(&plain).expect(503);
    site.down(false);
    assert_ne!(site.get(&rescued).expect(200).text(), "run 1");
}

#[test]
fn the_operator_says_how_stale() {
    let site = Site::with(&[
        "cache_lifetime = \"1s\"",
        "cache_stale_while_revalidate = \"1s\"",
        "cache_stale_if_error = \"1m\"",
    ]);
    site.get("/page.php").expect(200);
    sleep(Duration::from_millis(2200));
    site.down(true);
    // Too late for the one, not for the other.
    let response = site.get("/page.php").expect(200);
    assert!(status(&response).contains("detail=error"), "{response}");
    let said = page(&["Cache-Control: max-age=1, stale-while-revalidate=0"]);
    site.down(false);
    site.get(&said);
    sleep(Duration::from_millis(1100));
    assert!(status(&site.get(&said)).starts_with("Tokamak; fwd=stale"));
}

#[test]
fn variants_do_not_wait_for_each_other_for_long() {
    let site = Site::new();
    let target = page_with(
        "sleep=300&say[]=HTTP_ACCEPT_LANGUAGE",
        &["Cache-Control: max-age=60", "Vary: Accept-Language"],
    );
    in_parallel(4, |number| {
        let language = ["de", "en"][number % 2];
        let response = site.send(&asking(&target, &[("Accept-Language", language)]));
        assert!(response.text().ends_with(language), "{response}");
    });
    assert!(site.runs() <= 3, "{}", site.runs());
}
