//! Async mode: Fibers of the application that outlive what they were made in, and too many of them.

use std::time::{Duration, Instant};

use tokamak_sys::control::Status;

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

pub fn until_exists(site: &Site, name: &str) {
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

/// Fibers that are suspended, as many as `n` says.
const MANY: &str = "<?php
    $kept = [];
    for ($i = 0; $i < $_GET['n']; $i++) {
        $f = new Fiber(function () { Fiber::suspend(); });
        $f->start();
        $kept[] = $f;
    }
    if (isset($_GET['leave'])) { array_push(Kept::$fibers, ...$kept); }
    echo count($kept), ' fibers';";

/// Goes on for as long as the test wants, and needs some memory.
fn going_on() -> String {
    format!(
        "<?php {UNTIL} touch(__DIR__ . '/begun'); $until('/go');
         echo strlen(str_repeat('x', 3000000)), ' ', $_GET['n'];"
    )
}

#[test]
fn ten_thousand_fibers_work_if_there_is_memory_for_them() {
    let settings = [("ini.memory_limit", "512M")];
    let mut site = site_that_keeps(&[("many.php", MANY), ("go.php", &going_on())], &settings);
    let other = site.submit(&get("/go.php?n=7"));
    until_exists(&site, "begun");
    for _ in 0..2 {
        assert_eq!(site.get("/many.php?n=10000").text(), "10000 fibers", "{}", site.log());
    }
    touch(&site, "go");
    assert_eq!(site.collect(other, b"", |_| false).text(), "3000000 7");
    assert_eq!(site.log(), "");
}

#[test]
fn ten_thousand_fibers_without_memory_end_their_request_alone() {
    let settings =
        [("ini.memory_limit", "64M"), ("ini.display_errors", "0"), ("ini.log_errors", "1")];
    let mut site = site_that_keeps(&[("many.php", MANY), ("go.php", &going_on())], &settings);
    let other = site.submit(&get("/go.php?n=7"));
    until_exists(&site, "begun");
    assert_eq!(site.get("/many.php?n=10000").status, 500, "{}", site.log());
    let log = site.wait_for_log("Allowed memory size");
    assert!(log.contains("request=\"GET /many.php?n=10000\""), "{log}");
    touch(&site, "go");
    let other = site.collect(other, b"", |_| false);
    assert_eq!((other.status, other.text()), (200, "3000000 7".to_owned()), "{}", site.log());
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}

#[test]
fn fibers_that_requests_leave_behind_are_bounded() {
    let mut site = site_that_keeps(&[("many.php", MANY), ("go.php", &going_on())], &[]);
    let other = site.submit(&get("/go.php?n=7"));
    until_exists(&site, "begun");
    for _ in 0..3 {
        assert_eq!(site.get("/many.php?n=400&leave=1").text(), "400 fibers", "{}", site.log());
    }
    let log = site.wait_for_log("1200 Fibers are left");
    assert!(log.contains("request=\"GET /many.php?n=400&leave=1\""), "{log}");
    assert!(log.contains("400 by this one") && log.contains("takes no more requests"), "{log}");
    touch(&site, "go");
    assert_eq!(site.collect(other, b"", |_| false).text(), "3000000 7");
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}

#[test]
fn a_fiber_that_cannot_be_made_is_an_exception_of_its_request() {
    let worker = "<?php
        final class Kept { static array $fibers = []; }
        posix_setrlimit(POSIX_RLIMIT_AS, 1 << 31, 1 << 31);
        while (tokamak_handle_request(function () {
            include __DIR__ . $_SERVER['SCRIPT_NAME'];
        })) {}";
    // Stacks are larger than what the heap asks for at once: what the limit meets is a stack.
    let coroutines = "<?php
        ini_set('fiber.stack_size', '8M');
        $begun = [];
        try {
            for (;;) { $begun[] = Tokamak\\async(function () { usleep(1000); return 1; }); }
        } catch (Exception $e) {
            echo $e->getMessage(), ' ', array_sum(Tokamak\\all($begun)) === count($begun);
        }";
    let plain = "<?php
        ini_set('fiber.stack_size', '8M');
        try {
            for (;;) { $f = new Fiber(fn () => Fiber::suspend()); $f->start(); $kept[] = $f; }
        } catch (Exception $e) {
            echo $e->getMessage(), ' ', count($kept) > 100;
        }";
    let mut site = site(
        &[
            ("limited.php", worker),
            ("coroutines.php", coroutines),
            ("plain.php", plain),
            ("go.php", &going_on()),
        ],
        &[("script", "%root%/limited.php")],
    );
    let other = site.submit(&get("/go.php?n=7"));
    until_exists(&site, "begun");
    for name in ["coroutines", "plain", "coroutines"] {
        let text = site.get(&format!("/{name}.php")).text();
        assert!(text.starts_with("Fiber stack allocate failed"), "{name}: {text}\n{}", site.log());
        assert!(text.ends_with(" 1"), "{name}: {text}");
    }
    touch(&site, "go");
    assert_eq!(site.collect(other, b"", |_| false).text(), "3000000 7", "{}", site.log());
}

#[test]
fn coroutines_that_wake_each_other_do_not_keep_others_waiting() {
    let busy = "<?php
        final class Turn { static array $waits = []; static bool $stop = false; }
        $player = fn (int $me) => function () use ($me) {
            while (!Turn::$stop) {
                $mine = Turn::$waits[$me] = new Tokamak\\Deferred;
                $other = Turn::$waits[1 - $me] ?? null;
                if ($other && !$other->isCompleted()) { $other->complete(); }
                Tokamak\\await($mine);
            }
            foreach (Turn::$waits as $wait) {
                if (!$wait->isCompleted()) { $wait->complete(); }
            }
        };
        touch(__DIR__ . '/begun');
        Tokamak\\all([$player(0), $player(1)]);
        echo 'over';";
    let mut site = site(
        &[
            ("busy.php", busy),
            ("sleep.php", "<?php usleep(1000); touch(__DIR__ . '/slept'); echo 'slept';"),
            ("stop.php", "<?php usleep(1000); Turn::$stop = true; echo 'stopped';"),
        ],
        &[],
    );
    let busy = site.submit(&get("/busy.php"));
    until_exists(&site, "begun");
    assert_eq!(site.get("/sleep.php").text(), "slept");
    assert_eq!(site.get("/stop.php").text(), "stopped");
    assert_eq!(site.collect(busy, b"", |_| false).text(), "over", "{}", site.log());
}
