use std::time::Duration;

use super::{Site, page_with, status};
use crate::harness::{eventually, get, in_parallel, post};
use crate::operate::command;

/// Pages by their path and tags, all of them kept.
fn filled() -> Site {
    let site = Site::new();
    for (path, tags) in PAGES {
        site.get(&kept(path, tags)).expect(200);
    }
    site
}

const PAGES: [(&str, &str); 4] = [
    ("a", "Cache-Tag: one, two"),
    ("ab", "Surrogate-Key: two three"),
    ("b", "xkey: three"),
    ("c", "X-None: x"),
];

fn kept(path: &str, tags: &str) -> String {
    page_with("", &["Cache-Control: max-age=60", tags]).replacen(
        "/page.php",
        &format!("/page.php/{path}"),
        1,
    )
}

/// The paths of the pages that are still kept.
fn left(site: &Site) -> String {
    let is_left = |target: &String| {
        let asked = super::asking(target, &[("Cache-Control", "only-if-cached")]);
        site.send(&asked).status() == 200
    };
    let paths = PAGES.into_iter().filter(|(path, tags)| is_left(&kept(path, tags)));
    paths.map(|(path, _)| path).collect::<Vec<_>>().join(" ")
}

#[test]
fn purging_removes_what_is_meant() {
    let a = kept("a", PAGES[0].1);
    for (arguments, said, remains) in [
        (vec!["--url", &format!("http://LOCALHOST{a}")[..]], "1 response was removed", "ab b c"),
        (vec!["--url", &format!("localhost{a}x")], "0 responses were removed", "a ab b c"),
        (vec!["--prefix", "localhost/page.php/a"], "2 responses were removed", "b c"),
        (vec!["--tag", "two"], "2 responses were removed", "b c"),
        (vec!["--tag", "three"], "2 responses were removed", "a c"),
        (vec!["--tag", "thre"], "0 responses were removed", "a ab b c"),
        (vec!["--all"], "4 responses were removed", ""),
    ] {
        let site = filled();
        let output = command(&site.0, &[&["cache", "purge"], &arguments[..]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), said, "{arguments:?}");
        assert_eq!(left(&site), remains, "{arguments:?}");
    }
}

#[test]
fn wrong_purges_are_refused() {
    let site = filled();
    let output = command(&site.0, &["cache", "purge", "--url", "/page.php"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("`/page.php` has no host"), "{said}");
    for arguments in [&["cache", "purge"][..], &["cache", "purge", "--all", "--tag", "x"]] {
        assert_eq!(command(&site.0, arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(left(&site), "a ab b c");
    let plain = crate::harness::Setup::new(crate::harness::Kind::Classic).start();
    let output = command(&plain, &["cache", "purge", "--all"]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no site has `cache = true`"),
        "{output:?}"
    );
}

#[test]
fn tags_are_for_the_server_alone() {
    let site = Site::new();
    for control in ["max-age=60", "no-store"] {
        for tags in ["Cache-Tag: one", "Surrogate-Key: two", "xkey: three"] {
            let target = page_with("", &[&format!("Cache-Control: {control}"), tags]);
            for _ in 0..2 {
                let response = site.get(&target);
                for name in ["cache-tag", "surrogate-key", "xkey"] {
                    assert_eq!(response.header(name), None, "{response}");
                }
            }
        }
    }
}

#[test]
fn what_is_purged_on_its_way_is_not_kept() {
    let site = Site::new();
    let target = page_with("", &["Cache-Control: max-age=60"]);
    site.hold(true);
    let mut connection = site.0.connect();
    connection.send(get(&target).bytes());
    eventually(Duration::from_secs(20), || (site.runs() == 1).then_some(())).expect("it runs");
    assert!(command(&site.0, &["cache", "purge", "--all"]).status.success());
    site.hold(false);
    connection.response().expect(200);
    assert!(status(&site.get(&target)).starts_with("Tokamak; fwd=miss"));
    assert_eq!(site.runs(), 2);
}

#[test]
fn status_counts() {
    let site = Site::new();
    let target = page_with("sleep=300", &["Cache-Control: max-age=60"]);
    in_parallel(3, |_| drop(site.get(&target)));
    site.get(&target);
    site.send(&post(&target, "text/plain", "x"));
    let output = command(&site.0, &["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cache = &report["cache"];
    for (name, count) in [("stale", 0), ("misses", 1), ("stored", 1), ("entries", 0)] {
        assert_eq!(cache[name], count, "{name}: {cache}");
    }
    // Two of the first three wait for the page, or find it if they come late.
    let [hits, coalesced] = ["hits", "coalesced"].map(|name| cache[name].as_u64().unwrap());
    assert!(hits >= 1 && hits + coalesced == 3, "{cache}");
    assert_eq!(cache["memory"], 64 << 20);
    let table = String::from_utf8(command(&site.0, &["status"]).stdout).unwrap();
    assert!(table.contains("COALESCED") && table.contains("64.0 MiB"), "{table}");
}

#[test]
fn a_reload_begins_anew() {
    let site = filled();
    assert!(command(&site.0, &["reload"]).status.success());
    assert_eq!(left(&site), "");
}
