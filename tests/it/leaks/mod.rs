//! `tokamak leaks`: a page that leaks is named with its size and what holds it; a cache that fills,
//! and a page that leaves nothing, are not.

mod running;

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::program;
use crate::layers::root;

fn leaks(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new("timeout")
        .args(["120", program().to_str().unwrap(), "leaks"])
        .args(arguments)
        .current_dir(root().join("tests/report"))
        .env(SCAN_DIRECTORY, scan_directory())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_page_that_leaks_is_named_among_three_and_what_holds_its_memory() {
    let (status, out, err) =
        leaks(&["--json", "--requests", "120", "growing.php", "/leak", "/cache", "/none"]);
    assert_eq!(status, Some(1), "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let [leak, cache, none] = &found["pages"].as_array().unwrap()[..] else { panic!("{found:#}") };
    assert_eq!(leak["verdict"].as_str(), Some("grows"), "{found:#}");
    // A string of 1005 bytes takes 1030 with its head, in a piece of 1280 bytes.
    let size = leak["per_request"].as_f64().unwrap();
    assert!((1000.0..1400.0).contains(&size), "{found:#}");
    assert!(leak["per_request_low"].as_f64().unwrap() <= size);
    assert!(leak["per_request_high"].as_f64().unwrap() >= size);
    assert_eq!(leak["held_by"][0]["name"].as_str(), Some("Visits::$log"), "{found:#}");
    assert_eq!(cache["verdict"].as_str(), Some("stable"), "{found:#}");
    let since = cache["stable_since"].as_u64().unwrap();
    assert!((48..=52).contains(&since), "{found:#}");
    assert!(cache["bytes"].as_i64().unwrap() > 50_000, "{found:#}");
    assert_eq!(none["stable_since"].as_u64(), Some(1), "{found:#}");
    assert_eq!(none["held_by"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_page_that_only_replaces_what_another_keeps_does_not_grow() {
    let (status, out, err) = leaks(&["--requests", "40", "growing.php", "/big", "/small"]);
    assert_eq!(status, Some(0), "{out}{err}");
    assert_eq!(out.matches("stable from the first request on").count(), 2, "{out}");
}

#[test]
fn a_cache_that_fills_for_as_many_requests_as_are_made_is_stable_from_its_last_one_on() {
    // While it fills it looks like a leak, so its page is requested as often again.
    let (status, out, err) =
        leaks(&["--json", "--requests", "50", "growing.php", "/none", "/names"]);
    assert_eq!(status, Some(0), "{out}{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let names = &found["pages"][1];
    assert_eq!(names["verdict"].as_str(), Some("stable"), "{found:#}");
    assert!((48..=52).contains(&names["stable_since"].as_u64().unwrap()), "{found:#}");
    assert!(names["bytes"].as_i64().unwrap() > 50_000, "{found:#}");
}

#[test]
fn a_cache_that_is_full_before_its_holder_is_found_is_no_leak() {
    // Of 50 names, 25 come in the first turn and 25 in the second.
    let (status, out, err) = leaks(&["--requests", "25", "growing.php", "/names"]);
    assert_eq!(status, Some(0), "{out}{err}");
    assert!(out.contains("try more --requests"), "{out}");
}

#[test]
fn without_a_leak_the_status_is_success() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("pages");
    fs::write(&list, "/none\n\n/wrong\n").unwrap();
    let (status, out, err) =
        leaks(&["--requests", "30", "--from", list.to_str().unwrap(), "growing.php"]);
    assert_eq!(status, Some(0), "{out}{err}");
    assert!(out.contains("stable from the first request on"), "{out}");
    assert!(out.contains("note: it was answered with 500"), "{out}");
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("pages");
    fs::write(&list, "/good\nbad\n").unwrap();
    let list = list.to_str().unwrap();
    for (arguments, said) in [
        (&["--from", list, "growing.php"][..], "line 2: bad: a target begins with /"),
        (&["missing.php"], "missing.php"),
        (&["--from", "nowhere", "growing.php"], "nowhere"),
    ] {
        let (status, out, err) = leaks(arguments);
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains(said) && out.is_empty(), "{said} is not in: {err}");
    }
}
