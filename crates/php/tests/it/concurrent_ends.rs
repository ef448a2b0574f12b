//! Async mode: how requests end that do not come to their own end.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use tokamak_sys::control::Status;
use tokamak_sys::queue::{Outcome, SlotId};

use crate::concurrent::site;
use crate::harness::*;

/// Code of a request that waits in this way, and notes what it sees of its end. `$say` writes a
/// file whole.
pub fn waits(code: &str) -> String {
    format!(
        "<?php
         $say = function ($name, $what) {{
             file_put_contents(__DIR__ . '/new', $what); rename(__DIR__ . '/new', __DIR__ . $name);
         }};
         $port = $_GET['port'] ?? 0;
         $seen = [];
         $say('/begun', '');
         try {{
             try {{
                 {code}
                 $seen[] = 'went on';
             }} catch (Exception $e) {{
                 $seen[] = 'taken for an exception';
             }} finally {{
                 $begin = microtime(true);
                 usleep(20000);
                 $seen[] = microtime(true) - $begin > 0.015 ? 'waited' : 'did not wait';
             }}
         }} catch (Tokamak\\CancellationError $e) {{
             $seen[] = $e->getMessage();
             $seen[] = connection_aborted() ? 'aborted' : 'connected';
             throw $e;
         }} finally {{
             $say('/ended', implode(', ', $seen));
         }}"
    )
}

/// Ways to wait, by name; `$port` answers nothing.
const WAITS: &[(&str, &str)] = &[
    ("sleep", "sleep(100);"),
    ("usleep", "usleep(100000000);"),
    ("time_nanosleep", "time_nanosleep(100, 0);"),
    ("stream", "$s = stream_socket_client(\"tcp://127.0.0.1:$port\"); fread($s, 1);"),
    ("stream until its end", "file_get_contents(\"http://127.0.0.1:$port/\");"),
    (
        "stream_select",
        "$r = [stream_socket_client(\"tcp://127.0.0.1:$port\")]; $w = $e = null;
         stream_select($r, $w, $e, 100);",
    ),
    ("curl", "$c = curl_init(\"http://127.0.0.1:$port/\"); curl_exec($c);"),
    (
        "curl_multi",
        "$m = curl_multi_init(); curl_multi_add_handle($m, curl_init(\"http://127.0.0.1:$port/\"));
         do { curl_multi_exec($m, $on); curl_multi_select($m, 100); } while ($on);",
    ),
    (
        "sockets",
        "$s = socket_create(AF_INET, SOCK_STREAM, 0); socket_connect($s, '127.0.0.1', $port);
         socket_recv($s, $data, 1, 0);",
    ),
    (
        "lock",
        "$a = fopen(__DIR__ . '/lock', 'c'); $b = fopen(__DIR__ . '/lock', 'c');
         flock($a, LOCK_EX); flock($b, LOCK_EX);",
    ),
    ("program", "shell_exec('sleep 100');"),
    ("Fiber", "(new Fiber(function () { sleep(100); }))->start();"),
    ("function of PHP", "array_map('sleep', [100]);"),
    ("destructor", "$o = new class { function __destruct() { sleep(100); } }; unset($o);"),
];

/// Accepts connections and says nothing.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn submit(site: &mut Site, target: &str) -> SlotId {
    site.submit(&get(target)).0
}

#[test]
fn a_client_that_leaves_ends_what_its_request_waits_for() {
    let (_listener, port) = silent();
    for (name, code) in WAITS {
        let wait = waits(code);
        let mut site = site(&[("wait.php", &wait), ("small.php", "<?php echo 'small';")], &[]);
        let slot = submit(&mut site, &format!("/wait.php?port={port}"));
        said(&site, "begun");
        assert_eq!(site.get("/small.php").text(), "small", "{name}");
        site.producer.abort(slot);
        until(name, || site.file("ended").exists());
        let seen = said(&site, "ended");
        assert_eq!(seen, "waited, The client has left, aborted", "{name}\n{}", site.log());
        assert_eq!(site.get("/small.php").text(), "small", "{name}");
        let log = site.log();
        // What the driver says of a wait that failed.
        let is_warning = |line: &str| line.contains("PHP Warning:") || line.contains("PHP Notice:");
        assert!(log.lines().all(is_warning), "{name}: {log}");
    }
}

/// Where a coroutine may stand when the client leaves; `$part($name)` waits and cleans up.
const PARTS: &[(&str, &str, &[&str])] = &[
    ("awaited", "await(async($part, 'one'));", &["one"]),
    ("left behind", "async($part, 'one'); async($part, 'two');", &["one", "two"]),
    ("beside the handler", "async($part, 'one'); $part('two');", &["one", "two"]),
    (
        "of all()",
        "all([fn() => $part('one'), fn() => all([fn() => $part('two')])]);",
        &["one", "two"],
    ),
    ("in a Fiber", "await(async(fn() => (new Fiber(fn() => $part('one')))->start())); ", &["one"]),
    (
        "behind a print",
        "async($part, 'one'); usleep(1000);
         try {
             touch(__DIR__ . '/begun-two');
             for (;;) { echo str_repeat('x', 1000); flush(); usleep(10000); }
         }
         finally { $part('two', 0); }",
        &["one", "two"],
    ),
];

#[test]
fn what_cleans_up_is_broken_off_once() {
    for (name, code, ended) in PARTS {
        let code = format!(
            "<?php use function Tokamak\\{{async, await, all}};
             $part = function ($name, $seconds = 100) {{
                 try {{ touch(__DIR__ . \"/begun-$name\"); sleep($seconds); }}
                 finally {{
                     // Longer than the others need to come to their end.
                     for ($i = 0; $i < 20; $i++) usleep(5000);
                     touch(__DIR__ . \"/ended-$name\");
                 }}
             }};
             {code}"
        );
        let mut site = site(&[("parts.php", &code)], &[]);
        let slot = submit(&mut site, "/parts.php");
        for part in *ended {
            said(&site, &format!("begun-{part}"));
        }
        site.producer.abort(slot);
        for part in *ended {
            until(name, || site.file(&format!("ended-{part}")).exists());
        }
        until(name, || site.producer.has_ended(slot));
        assert_eq!(site.log(), "", "{name}");
    }
}

#[test]
fn shutdown_functions_of_a_client_that_left_say_nothing() {
    let code = "<?php register_shutdown_function(function () {
            try { sleep(100); } finally { usleep(1000); touch(__DIR__ . '/ended'); } });
        register_shutdown_function(fn() => touch(__DIR__ . '/last'));
        file_put_contents(__DIR__ . '/begun', ''); sleep(100);";
    let mut site = site(&[("wait.php", code)], &[("ini.log_errors", "1")]);
    let slot = submit(&mut site, "/wait.php");
    said(&site, "begun");
    site.producer.abort(slot);
    said(&site, "ended");
    until("the end", || site.producer.has_ended(slot));
    assert_eq!(site.log(), "");
}

#[test]
fn a_request_may_ignore_that_its_client_has_left() {
    let code = waits(
        "ignore_user_abort(true); $say('/set', ''); sleep(1); sleep(1);
         $seen[] = connection_aborted() ? 'aborted' : 'connected';",
    );
    let mut site = site(&[("wait.php", &code)], &[]);
    let slot = submit(&mut site, "/wait.php");
    said(&site, "set");
    site.producer.abort(slot);
    assert_eq!(said(&site, "ended"), "aborted, went on, waited", "{}", site.log());
}

#[test]
fn a_client_that_leaves_while_the_body_comes_ends_its_request() {
    let mut site = site(
        &[
            (
                "read.php",
                "<?php $body = file_get_contents('php://input');
                 file_put_contents(__DIR__ . '/begun', strlen($body));",
            ),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let body = vec![b'x'; 300_000];
    let (slot, _) = site.submit(&post("/read.php", "text/plain", &body));
    assert_eq!(site.get("/small.php").text(), "small");
    site.producer.abort(slot);
    until("the end", || site.producer.has_ended(slot));
    assert_eq!(site.get("/small.php").text(), "small");
    assert!(!site.file("begun").exists(), "the handler has seen a part of the body");
    assert_eq!(site.log(), "");
}

#[test]
fn a_client_that_leaves_while_it_is_queued_is_not_served() {
    let settings = [("concurrency", "1")];
    let mut site = site(
        &[
            (
                "wait.php",
                "<?php file_put_contents(__DIR__ . '/begun', ''); usleep(300000); echo 'done';",
            ),
            ("touch.php", "<?php touch(__DIR__ . '/touched');"),
        ],
        &settings,
    );
    let first = site.submit(&get("/wait.php"));
    said(&site, "begun");
    let second = submit(&mut site, "/touch.php");
    site.producer.abort(second);
    assert_eq!(site.collect(first, b"", |_| false).text(), "done");
    until("the end", || site.producer.has_ended(second));
    assert!(!site.file("touched").exists());
}

#[test]
fn a_client_that_leaves_after_the_response_ends_nothing() {
    let code = waits("echo 'x'; fastcgi_finish_request(); $say('/finished', ''); usleep(300000);");
    let mut site = site(&[("wait.php", &code)], &[]);
    let (slot, _) = site.submit(&get("/wait.php"));
    said(&site, "finished");
    site.producer.abort(slot);
    assert_eq!(said(&site, "ended"), "went on, waited", "{}", site.log());
}

#[test]
fn a_request_that_catches_its_cancellation_is_cancelled_again() {
    let code = "<?php file_put_contents(__DIR__ . '/begun', ''); $seen = 0;
        while ($seen < 3) { try { sleep(100); } catch (Tokamak\\CancellationError) { $seen++; } }
        file_put_contents(__DIR__ . '/ended', $seen);";
    let mut site = site(&[("wait.php", code)], &[]);
    let slot = submit(&mut site, "/wait.php");
    said(&site, "begun");
    site.producer.abort(slot);
    said(&site, "ended");
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_no_other_notices() {
    let mut site = site(
        &[
            ("wait.php", &waits("sleep(100);")),
            ("caught.php", "<?php try { sleep(100); } catch (Error $e) { echo get_class($e); }"),
            ("busy.php", "<?php for ($i = 0; $i < 10; $i++) { usleep(100000); } echo 'done';"),
        ],
        &[("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    site.producer.segment().set_request_timeout(Duration::from_millis(500));
    let wait = site.submit(&get("/wait.php"));
    let caught = site.submit(&get("/caught.php"));
    assert_eq!(site.collect(wait, b"", |_| false).status, 504, "{}", site.log());
    let caught = site.collect(caught, b"", |_| false);
    assert_eq!((caught.status, caught.text()), (200, "Tokamak\\CancellationError".to_owned()));
    assert_eq!(
        said(&site, "ended"),
        "waited, The request took longer than pool.request_timeout, connected"
    );
    let log = site.wait_for_log("Uncaught Tokamak\\CancellationError");
    assert!(log.contains("request=\"GET /wait.php\"") && log.contains("sleep("), "{log}");
    assert!(log.contains("request_timeout"), "{log}");
    // Those of the same worker have their own time.
    site.producer.segment().set_request_timeout(Duration::from_secs(60));
    assert_eq!(site.get("/busy.php").text(), "done");
}

#[test]
fn an_unread_response_is_cut_when_its_time_is_over() {
    let mut site = site(
        &[("large.php", "<?php for ($i = 0; $i < 100; $i++) echo str_repeat('x', 100000);")],
        &[("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    site.producer.segment().set_request_timeout(Duration::from_millis(300));
    let large = site.submit(&get("/large.php"));
    until("the end", || site.producer.has_ended(large.0));
    let large = site.collect(large, b"", |_| false);
    assert_eq!(large.outcome, Some(Outcome::Broken), "{}", site.log());
}

#[test]
fn processor_time_is_charged_to_the_request_that_used_it() {
    let mut site = site(
        &[
            ("compute.php", "<?php for ($end = hrtime(true) + 60e9; hrtime(true) < $end;);"),
            ("wait.php", "<?php for ($i = 0; $i < 30; $i++) usleep(100000); echo 'done';"),
        ],
        &[("ini.max_execution_time", "1"), ("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    let wait = site.submit(&get("/wait.php"));
    let compute = site.submit(&get("/compute.php"));
    assert_eq!(site.collect(compute, b"", |_| false).status, 500, "{}", site.log());
    assert_eq!(site.collect(wait, b"", |_| false).text(), "done", "{}", site.log());
    let log = site.wait_for_log("Maximum execution time of 1 second exceeded");
    assert!(log.contains("request=\"GET /compute.php\""), "{log}");
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}

#[test]
fn a_request_that_computes_while_others_wait_is_logged() {
    let compute = "<?php function work() { for ($end = hrtime(true) + 60e9; hrtime(true) < $end;) {
            if (getrusage()['ru_utime.tv_sec'] > 3) { echo 'done'; return; } } } work();";
    let wait = "<?php file_put_contents(__DIR__ . '/begun', ''); usleep(1000); echo 'small';";
    let mut site = site(&[("compute.php", compute), ("small.php", wait)], &[]);
    let small = site.submit(&get("/small.php"));
    let compute = site.submit(&get("/compute.php"));
    assert_eq!(site.collect(compute, b"", |_| false).text(), "done", "{}", site.log());
    assert_eq!(site.collect(small, b"", |_| false).text(), "small");
    let log = site.wait_for_log("computes for more than a second");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("computes for")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("work()") && lines[0].contains("request=\"GET /compute.php\""),
        "{log}"
    );
}

/// Two requests of one worker know this of each other.
const SUSPENDED: &str = "<?php
    final class Waiting { static ?Fiber $fiber = null; }
    while (tokamak_handle_request(function () { include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}";

fn site_that_shares(files: &[(&str, &str)]) -> Site {
    let mut all = vec![("shared.php", SUSPENDED)];
    all.extend_from_slice(files);
    site(
        &all,
        &[("script", "%root%/shared.php"), ("ini.log_errors", "1"), ("ini.display_errors", "0")],
    )
}

#[test]
fn a_request_whose_fiber_is_lost_is_an_error() {
    let mut site = site_that_shares(&[
        ("suspend.php", "<?php echo 'a'; Fiber::suspend('value'); echo 'b';"),
        ("late.php", "<?php usleep(1000); Fiber::suspend(); echo 'b';"),
        (
            "caught.php",
            "<?php try { Fiber::suspend(); } catch (Error $e) { usleep(1000); echo 'caught'; }",
        ),
        ("small.php", "<?php usleep(50000); echo 'small';"),
    ]);
    for _ in 0..3 {
        let names = ["small", "suspend", "late", "caught", "small"];
        let answers = site.ask_all(&names.map(|name| get(&format!("/{name}.php"))));
        let seen: Vec<_> = answers.iter().map(|a| (a.status, a.text())).collect();
        let expected = [(200, "small"), (500, "a"), (500, ""), (200, "caught"), (200, "small")];
        assert_eq!(seen, expected.map(|(s, t)| (s, t.to_owned())), "{}", site.log());
    }
    let log = site.wait_for_log("Uncaught Error: Fiber::suspend()");
    assert!(log.contains("request=\"GET /suspend.php\"") && log.contains("suspend.php:1"), "{log}");
}

#[test]
fn a_request_may_wait_for_another_to_resume_it() {
    let mut site = site_that_shares(&[
        (
            "suspend.php",
            "<?php Waiting::$fiber = Fiber::getCurrent(); usleep(1000);
             file_put_contents(__DIR__ . '/begun', '');
             $got = Fiber::suspend(); usleep(1000); echo $_GET['n'], ' got ', $got;",
        ),
        (
            "resume.php",
            "<?php $f = Waiting::$fiber; Waiting::$fiber = null; $f->resume($_GET['n']);
             usleep(1000); echo 'resumed by ', $_GET['n'];",
        ),
    ]);
    for n in 1..=3 {
        let suspended = site.submit(&get(&format!("/suspend.php?n={n}")));
        said(&site, "begun");
        std::fs::remove_file(site.file("begun")).unwrap();
        assert_eq!(site.get(&format!("/resume.php?n=1{n}")).text(), format!("resumed by 1{n}"));
        let suspended = site.collect(suspended, b"", |_| false);
        assert_eq!(suspended.text(), format!("{n} got 1{n}"), "{}", site.log());
    }
    assert_eq!(site.log(), "");
}

/// It is known to others, so somebody may resume it.
const KNOWN: &str =
    "<?php Waiting::$fiber = Fiber::getCurrent(); file_put_contents(__DIR__ . '/begun', '');
    try { Fiber::suspend(); } finally { usleep(1000); touch(__DIR__ . '/ended'); }";

#[test]
fn a_suspended_request_does_not_keep_its_worker() {
    let mut site = site_that_shares(&[("suspend.php", KNOWN)]);
    let suspended = site.submit(&get("/suspend.php"));
    said(&site, "begun");
    site.producer.segment().retire(0);
    assert_eq!(site.collect(suspended, b"", |_| false).status, 500, "{}", site.log());
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    assert!(site.file("ended").exists());
    let line = site.wait_for_log("nothing is left that could resume the request");
    assert!(line.contains("request=\"GET /suspend.php\""), "{line}");
    assert!(line.contains("suspend.php:2") && line.contains("Fiber::suspend()"), "{line}");
    assert_eq!(site.log().lines().count(), 1, "{}", site.log());
}

#[test]
fn requests_that_nothing_can_resume_do_not_keep_their_worker() {
    const BEGINS: &str = "<?php touch(__DIR__ . '/begun-' . $_GET['n']); ";
    let cases = [
        (
            "$GLOBALS['handler'] = Fiber::getCurrent();
             try { Fiber::suspend(); } finally { usleep(1000); }",
            (500, ""),
        ),
        ("Tokamak\\await(new Tokamak\\Deferred);", (500, "")),
        (
            "Tokamak\\async(function () {
                 try { Tokamak\\await(new Tokamak\\Deferred); }
                 finally { usleep(1000); echo 'x'; } });",
            (200, "x"),
        ),
        (
            "Tokamak\\async(function () { $GLOBALS['coroutine'] = Fiber::getCurrent(); usleep(10);
                 try { Fiber::suspend(); } finally { usleep(1000); echo 'y'; } });",
            (200, "y"),
        ),
        ("sleep(3); echo 'done';", (200, "done")),
    ];
    let codes = cases.map(|(code, _)| format!("{BEGINS}{code}"));
    let names = ["c0.php", "c1.php", "c2.php", "c3.php", "c4.php"];
    let files: Vec<_> = names.into_iter().zip(codes.iter().map(String::as_str)).collect();
    let mut site = site_that_shares(&files);
    let asked = [0, 1, 2, 3, 4].map(|n| site.submit(&get(&format!("/c{n}.php?n={n}"))));
    for n in 0..cases.len() {
        said(&site, &format!("begun-{n}"));
    }
    site.producer.segment().retire(0);
    let answers = asked.map(|asked| site.collect(asked, b"", |_| false));
    for (answer, (code, expected)) in answers.iter().zip(cases) {
        assert_eq!((answer.status, &*answer.text()), expected, "{code}\n{}", site.log());
    }
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    for n in 0..4 {
        let line = site.wait_for_log(&format!("request=\"GET /c{n}.php?n={n}\""));
        assert!(line.contains("nothing is left that could resume"), "{line}");
        assert!(line.contains(&format!("c{n}.php:")), "{line}");
    }
    assert_eq!(site.log().lines().count(), 4, "{}", site.log());
}

#[test]
fn a_suspended_request_has_a_client_and_an_end() {
    let mut site = site_that_shares(&[("suspend.php", KNOWN)]);
    let suspended = submit(&mut site, "/suspend.php");
    said(&site, "begun");
    site.producer.abort(suspended);
    until("the end", || site.producer.has_ended(suspended));
    said(&site, "ended");
    assert_eq!(site.log(), "");

    std::fs::remove_file(site.file("ended")).unwrap();
    site.producer.segment().set_request_timeout(Duration::from_millis(300));
    let suspended = site.submit(&get("/suspend.php"));
    assert_eq!(site.collect(suspended, b"", |_| false).status, 504, "{}", site.log());
    said(&site, "ended");
}
