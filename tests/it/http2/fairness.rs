//! One connection with as many slow requests as it may have, and other clients beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{End, Failure, Kind, Server, Setup, eventually, get};

use super::client::{PATIENCE, Raw, exchange, request};

/// Requests of the one connection.
const STREAMS: u32 = 100;

/// How often the others ask for each page.
const ROUNDS: usize = 10;

/// What the other clients may have to wait longer than without the one: a multiple, and an amount
/// for a machine with other work. A client that waited for the slow requests would wait until the
/// test lets them go, which it does later.
const LONGER: (u32, Duration) = (20, Duration::from_secs(5));

/// With one event loop, so that the clients share it.
fn shared(workers: usize) -> Setup {
    let setup = Setup::new(Kind::Classic).workers(workers).line("loops = 1");
    setup.site_line("pool.queue_timeout = \"5m\"")
}

/// How many scripts are held.
fn held(server: &Server) -> usize {
    let files = fs::read_dir(server.places.state()).unwrap().flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with("held-")).count()
}

/// Ends one script that is held. Returns how many that were.
fn let_one_go(server: &Server) -> u32 {
    let mut files = fs::read_dir(server.places.state()).unwrap().flatten();
    let held = files.find(|file| file.file_name().to_string_lossy().starts_with("held-"));
    held.map_or(0, |file| fs::remove_file(file.path()).is_ok().into())
}

#[track_caller]
fn wait_until_held(server: &Server, count: usize) {
    let are = || (held(server) == count).then_some(());
    assert!(eventually(PATIENCE, are).is_some(), "{} of {count} are held", held(server));
}

/// Ends all scripts that are held, and those that come, while `work` runs.
fn letting_go<T>(server: &Server, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for file in fs::read_dir(server.places.state()).unwrap().flatten() {
                    if file.file_name().to_string_lossy().starts_with("held-") {
                        let _ = fs::remove_file(file.path());
                    }
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let _end = End(&is_over);
        work()
    })
}

/// A connection with all the slow requests, of which the workers have begun theirs.
fn flood(server: &Server, workers: usize) -> Raw {
    let mut raw = Raw::open(server, b"");
    for number in 0..STREAMS {
        raw.get(2 * number + 1, &format!("/hold.php?name={number}"));
    }
    wait_until_held(server, workers);
    raw
}

/// How long another client takes for these pages, over both protocols.
fn time_for(server: &Server, pages: &[(&str, &str)]) -> Duration {
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let requests = || pages.iter().map(|(target, _)| (request("GET", target), Vec::new()));
        let answers = exchange(server, requests().collect());
        let mut connection = server.connect();
        for ((target, expected), over_two) in pages.iter().zip(answers) {
            let over_one = connection.exchange(&get(target)).expect(200);
            assert_eq!(over_one.text(), *expected, "{target}");
            assert_eq!(String::from_utf8_lossy(over_two.body()), *expected, "{target}");
        }
    }
    begun.elapsed()
}

#[test]
fn others_are_served_while_a_connection_waits_for_php() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let script = folder.path().join("page.lua");
    let text = "if lighty.r.req_attr[\"uri.path\"] == \"/lua\" then\n\
                lighty.r.resp_body.set(\"a page of Lua\")\nreturn 200\nend\n";
    fs::write(&script, text).unwrap();
    let setup = shared(2).site_line("cache = true");
    let server = setup.site_line(&format!("lua_raw_url = [\"{}\"]", script.display())).start();
    fs::write(server.places.root().join("file.txt"), "a file").unwrap();
    let kept = "<?php header('Cache-Control: public, max-age=600'); echo 'a kept page';";
    fs::write(server.places.root().join("kept.php"), kept).unwrap();
    let pages = [("/file.txt", "a file"), ("/lua", "a page of Lua"), ("/kept.php", "a kept page")];
    time_for(&server, &pages);
    let alone = time_for(&server, &pages);

    let mut raw = flood(&server, 2);
    let beside = time_for(&server, &pages);
    assert!(beside < alone * LONGER.0 + LONGER.1, "{alone:?} alone, {beside:?} beside the other");
    // A request for PHP waits for those that have been given to the workers, and no more of them.
    let mut other = server.connect();
    other.send(get("/hello.php").bytes());
    other.patience(Duration::from_millis(300));
    assert!(matches!(other.head(), Err(Failure::Silent(_))), "it waits for a worker");
    assert_eq!(held(&server), 2, "nobody has been let go");
    other.patience(PATIENCE);

    let is_answered = AtomicBool::new(false);
    let before_it = thread::scope(|scope| {
        scope.spawn(|| {
            other.response().expect(200);
            is_answered.store(true, Ordering::Relaxed);
        });
        let mut let_go = 0;
        while !is_answered.load(Ordering::Relaxed) && let_go < STREAMS {
            let_go += let_one_go(&server);
            let next = || (held(&server) == 2 || is_answered.load(Ordering::Relaxed)).then_some(());
            assert!(eventually(PATIENCE, next).is_some(), "the workers go on");
        }
        let_go
    });
    println!("{alone:?} alone, {beside:?} beside {STREAMS} streams; PHP: {before_it} before it");
    // Two that run, two that are queued, and two more while the answer is on its way.
    assert!(before_it <= 6, "{before_it} of them are answered before it");
    letting_go(&server, || (0..STREAMS).for_each(|_| drop(raw.frame_of(&[1]))));
    other.exchange(&get("/hello.php")).expect(200);
}

/// What keeps one client from having all workers.
#[test]
fn a_rule_bounds_the_streams_that_wait() {
    let rule = "[[site.rule]]\npath = \"/hold.php\"\nconnections = 3";
    let setup = shared(5).site_line(rule).line("log.access = \"state/access.log\"");
    let server = setup.start();
    let refused = || {
        let log = fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("HTTP/2.0\" 429 ")).count()
    };
    let all = (0..STREAMS).map(|number| request("GET", &format!("/hold.php?name={number}")));
    let all = all.map(|request| (request, Vec::new())).collect();
    let answers = thread::scope(|scope| {
        let asking = scope.spawn(|| exchange(&server, all));
        let more = STREAMS as usize - 3;
        let are = || (refused() == more).then_some(());
        let settled = eventually(PATIENCE, are);
        // Whatever is wrong, the scripts end.
        if settled.is_none() || held(&server) > 3 {
            letting_go(&server, || asking.join().expect("answers"));
            panic!("{} refused, {} held", refused(), held(&server));
        }
        wait_until_held(&server, 3);
        // The other pages of the same client are served by the workers that are left, and so is
        // another client's.
        server.get("/hello.php").expect(200);
        server.get("/hold.php?name=more").expect(429);
        let other = scope.spawn(|| curl_from("127.0.0.2", &server, "/hold.php?name=other"));
        wait_until_held(&server, 4);
        letting_go(&server, || {
            assert_eq!(other.join().expect("a page"), "held");
            asking.join().expect("answers")
        })
    });
    let count = |status: u16| answers.iter().filter(|answer| answer.status() == status).count();
    assert_eq!((count(200), count(429)), (3, STREAMS as usize - 3));
}

/// What a client with this address gets.
fn curl_from(address: &str, server: &Server, target: &str) -> String {
    let output = Command::new("curl")
        .args(["-sS", "-m", "60", "--fail", "--interface", address])
        .arg(format!("http://{}{target}", server.address))
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
