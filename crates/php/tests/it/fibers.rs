//! Async mode: Fibers of the application that outlive what they were made in, and too many of them.

use std::time::{Duration, Instant};

use crate::concurrent::site;
use crate::harness::*;

/// Requests of one worker keep Fibers for each other.
const KEEPING: &str = "<?php
    final class Kept { static array $fibers = []; }
    while (tokamak_handle_request(function () { include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}";

/// Waits, as a request does, until the test has made a file.
const UNTIL: &str = "$until = function (string $name): void {
        for (clearstatcache(); !file_exists(__DIR__ . $name); clearstatcache()) { usleep(1000); }
    };";

fn site_that_keeps(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Site {
    let mut all = vec![("keeping.php", KEEPING)];
    all.extend_from_slice(files);
    let mut with_script = vec![("script", "%root%/keeping.php")];
    with_script.extend_from_slice(settings);
    site(&all, &with_script)
}

fn until_exists(site: &Site, name: &str) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !site.file(name).exists() {
        assert!(Instant::now() < limit, "no file {name}\n{}", site.log());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn touch(site: &Site, name: &str) {
    std::fs::write(site.file(name), "").unwrap();
}

#[test]
fn a_kept_fiber_belongs_to_the_request_that_resumes_it() {
    let stay = format!("<?php {UNTIL} touch(__DIR__ . '/stays'); $until('/go'); echo 'stayed';");
    let mut site = site_that_keeps(
        &[
            (
                "make.php",
                "<?php $f = new Fiber(function () {
                     for (;;) {
                         Fiber::suspend();
                         ini_set('precision', $_GET['n']);
                         usleep(1000);
                         header('X-Seen: ' . $_GET['n'] . ' ' . ini_get('precision'));
                         echo 'in ', $_GET['n'];
                     }
                 });
                 $f->start(); Kept::$fibers[] = $f; echo 'made';",
            ),
            ("stay.php", &stay),
            ("resume.php", "<?php Kept::$fibers[0]->resume(); echo ', resumed';"),
        ],
        &[],
    );
    assert_eq!(site.get("/make.php?n=1").text(), "made", "{}", site.log());
    // It has the place of the first.
    let stays = site.submit(&get("/stay.php?n=5"));
    until_exists(&site, "stays");
    for n in [2, 3] {
        let answer = site.get(&format!("/resume.php?n={n}"));
        assert_eq!(answer.text(), format!("in {n}, resumed"), "{}", site.log());
        assert_eq!(answer.header("X-Seen"), format!("{n} {n}"));
    }
    touch(&site, "go");
    let stays = site.collect(stays, b"", |_| false);
    assert_eq!((stays.text(), stays.header("X-Seen")), ("stayed".to_owned(), String::new()));
    assert_eq!(site.log(), "");
}

#[test]
fn a_fiber_that_waits_when_its_request_ends_belongs_to_the_one_that_resumed_it() {
    let make = format!(
        "<?php {UNTIL}
         $f = new Fiber(function () use ($until) {{
             Fiber::suspend();
             touch(__DIR__ . '/waits');
             $until('/go');
             echo 'in ', $_GET['n'];
         }});
         $f->start(); Kept::$fibers[] = $f; touch(__DIR__ . '/made'); $until('/waits');
         echo 'first';"
    );
    let stay =
        format!("<?php {UNTIL} touch(__DIR__ . '/stays'); $until('/resumed'); echo 'third';");
    let mut site = site_that_keeps(
        &[
            ("make.php", &make),
            ("resume.php", "<?php Kept::$fibers[0]->resume(); echo ', second';"),
            ("stay.php", &stay),
        ],
        &[],
    );
    let first = site.submit(&get("/make.php?n=1"));
    until_exists(&site, "made");
    let second = site.submit(&get("/resume.php?n=2"));
    assert_eq!(site.collect(first, b"", |_| false).text(), "first", "{}", site.log());
    // It has the place of the first.
    let third = site.submit(&get("/stay.php?n=3"));
    until_exists(&site, "stays");
    touch(&site, "go");
    assert_eq!(site.collect(second, b"", |_| false).text(), "in 2, second", "{}", site.log());
    touch(&site, "resumed");
    assert_eq!(site.collect(third, b"", |_| false).text(), "third");
    assert_eq!(site.log(), "");
}

#[test]
fn a_fiber_outlives_the_coroutine_that_has_made_it() {
    let mut site = site_that_keeps(
        &[(
            "outlive.php",
            "<?php $f = null;
             Tokamak\\await(Tokamak\\async(function () use (&$f) {
                 $f = new Fiber(function () { Fiber::suspend(); usleep(1000); echo $_GET['n']; });
                 $f->start();
             }));
             $other = str_repeat('x', 100); $f->resume(); echo ' done';",
        )],
        &[],
    );
    for n in 0..3 {
        assert_eq!(site.get(&format!("/outlive.php?n={n}")).text(), format!("{n} done"));
    }
    assert_eq!(site.log(), "");
}
