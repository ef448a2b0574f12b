//! Scripts, and web servers, that do what they should not: a 500 or 503 and a line in the log, and
//! others are served.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokamak_fastcgi::{Role, Stream, encode};

use super::{BEGINS, Launcher, script};
use crate::harness::End;

const HELLO: (&str, &str) = ("hello.lua", "print('A: b\\r\\n\\r\\nHello')");

#[test]
fn a_response_without_headers_is_an_error() {
    for (text, said) in [
        ("", "sent no response"),
        ("print('Hello')", "headers without an end"),
        ("print('Hello\\n\\nyou')", "a header without a colon"),
        ("print('A b: c\\r\\n\\r\\n')", "an invalid header name"),
        ("print('A: b\\r\\n c\\r\\n\\r\\n')", "a header without a colon"),
        ("print('A: b\\0c\\r\\n\\r\\n')", "a header value with control characters"),
        ("print('A: b\\rSet-Cookie: c\\r\\n\\r\\n')", "a header value with control characters"),
        ("print('Status: 2000\\r\\n\\r\\n')", "a status that is not a number of three digits"),
        ("print('Status: 200\\r\\nStatus: 200\\r\\n\\r\\n')", "two statuses"),
        ("print(('A: b\\r\\n'):rep(100000))", "headers that are too long"),
        ("while true do print(('A: b\\r\\n'):rep(1000)) end", "headers that are too long"),
    ] {
        let launcher = Launcher::start(&["--threads", "1"], &[("test.lua", text), HELLO]);
        let answer = launcher.connect().ask(&launcher.request("/test.lua"));
        assert!(
            answer.head().starts_with("Status: 500 Internal Server Error"),
            "{text}: {}",
            answer.head()
        );
        assert!(String::from_utf8_lossy(&answer.stderr).contains(said), "{text}: {answer:?}");
        launcher.log_line(&["test.lua: ", said, "url=/test.lua"]);
        assert_eq!(launcher.status("/hello.lua"), 200);
    }
}

#[test]
fn a_failing_script_is_an_error_without_details_for_the_client() {
    let secret = "print('A: b\\r\\n\\r\\nhalf')\nerror('a secret')";
    for (text, said) in [
        (secret, "test.lua:2: a secret"),
        ("local function f() return f() + 1 end f()", "stack overflow"),
        ("error({})", "(error object is a table value)"),
        ("print(nil .. 1)", "attempt to concatenate a nil value"),
        ("x = = 1", "test.lua:1: "),
        ("os.exit(0)", "os.exit is not available"),
        ("io.popen('id')", "io.popen is not available"),
    ] {
        let launcher = Launcher::start(&["--threads", "1"], &[("test.lua", text), HELLO]);
        for _ in 0..2 {
            let answer = launcher.connect().ask(&launcher.request("/test.lua"));
            let page = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert!(page.starts_with("Status: 500 Internal Server Error"), "{text}: {page}");
            assert!(!page.contains("secret") && !page.contains("test.lua"), "{page}");
            assert!(String::from_utf8_lossy(&answer.stderr).contains(said), "{text}: {answer:?}");
        }
        launcher.log_line(&[said]);
        assert_eq!(launcher.status("/hello.lua"), 200);
    }
}

/// In one thread: the others wait for as long as the limit says, and no longer.
#[test]
fn endless_scripts_end_while_others_are_served() {
    let options = ["--threads", "1", "--time", "300ms", "--total", "1s", "--memory", "16MiB"];
    let launcher = Launcher::start(
        &options,
        &[
            ("loop.lua", "while true do end"),
            ("caught.lua", "while true do pcall(function() while true do end end) end"),
            ("asleep.lua", "tokamak.sleep(1000)"),
            ("memory.lua", "local t = {} while true do t[#t + 1] = ('x'):rep(1000 + #t) end"),
            ("printed.lua", "print('A: b\\r\\n\\r\\n', ('x'):rep(1e9))"),
            HELLO,
        ],
    );
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = End(&ended);
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !ended.load(Ordering::Relaxed) {
                let started = Instant::now();
                assert_eq!(launcher.status("/hello.lua"), 200);
                assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
                asked += 1;
            }
            asked
        });
        for name in ["/loop.lua", "/caught.lua", "/asleep.lua", "/memory.lua", "/printed.lua"] {
            assert_eq!(launcher.status(name), 503, "{name}: {}", launcher.log());
        }
        drop(end);
        assert!(asking.join().unwrap() > 3);
    });
    launcher.log_line(&["loop.lua:1", "ended after 300ms", "url=/loop.lua"]);
    launcher.log_line(&["ended after 1s, while it waited", "url=/asleep.lua"]);
}

/// What has been sent cannot be taken back: the web server is told that there will be no more.
#[test]
fn a_script_that_fails_in_the_middle_is_broken_off() {
    let text = "print('A: b\\r\\n\\r\\nfirst') tokamak.sleep(0.1) error('oh')";
    let launcher = Launcher::start(&["--threads", "1"], &[("test.lua", text), HELLO]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/test.lua").bytes(1));
    let crate::fpm::client::Heard::Closed(begun) = client.hear() else {
        panic!("it was not broken off")
    };
    assert!(begun[&1].stdout.ends_with(b"first"), "{begun:?}");
    launcher.log_line(&["test.lua:1: oh"]);
    assert_eq!(launcher.status("/hello.lua"), 200);
}

#[test]
fn memory_stays_bounded_whoever_reads_or_not() {
    let text = "print('A: b\\r\\n\\r\\n') for n = 1, 1e5 do print(('x'):rep(9999)) end";
    let launcher = Launcher::start(&["--threads", "1"], &[("large.lua", text), HELLO]);
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = launcher.connect();
            client.send(&launcher.request("/large.lua").bytes(1));
            client
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(launcher.status("/hello.lua"), 200);
    let status = fs::read_to_string(format!("/proc/{}/status", launcher.process.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(resident < 150_000, "{resident} kB");
    drop(clients);
}

#[test]
fn what_is_no_fastcgi_costs_its_connection_alone() {
    let launcher = Launcher::start(&["--threads", "1"], &[HELLO]);
    let mut begun = Vec::new();
    encode::begin(&mut begun, 1, Role::Responder, true);
    for said in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&begun[..], &begun[..]].concat(),
        [&begun[..], &[1, 5, 0, 1, 0, 0, 0, 0]].concat(),
        [&begun[..], &[1, 4, 0, 1, 0, 8, 0, 0], &[0xff; 8]].concat(),
        vec![0xff; 70_000],
    ] {
        let mut client = launcher.connect();
        client.send(&said);
        assert!(client.is_closed(), "{:?}", &said[..8]);
        assert_eq!(launcher.status("/hello.lua"), 200);
    }
    // A request that never comes whole holds nobody up.
    let mut half = launcher.connect();
    half.send(&launcher.request("/hello.lua").head(1));
    assert_eq!(launcher.status("/hello.lua"), 200);
    // One that says more than it brings is refused.
    let mut rest = Vec::new();
    encode::stream(&mut rest, 1, Stream::Stdin, b"abc");
    encode::stream_end(&mut rest, 1, Stream::Stdin);
    let mut client = launcher.connect();
    client.send(&launcher.request("/hello.lua").param("CONTENT_LENGTH", "10").head(1));
    client.send(&rest);
    assert!(client.answer().head().starts_with("Status: 400"));
}

#[test]
fn a_script_that_goes_while_it_runs_ends_as_it_was() {
    let text = format!("{BEGINS} tokamak.sleep(0.5) print('A: b\\r\\n\\r\\nstill here')");
    let launcher = Launcher::start(&["--threads", "1"], &[("gone.lua", &text)]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/gone.lua").bytes(1));
    launcher.runs();
    fs::remove_file(script(&launcher, "gone.lua")).unwrap();
    assert_eq!(client.answer().body(), "still here");
}

#[test]
fn an_endless_script_holds_up_its_own_thread_alone() {
    let options = ["--threads", "2", "--time", "3s"];
    let endless = format!("{BEGINS} while true do end");
    // On a busy machine the loop may end before the others are served, so it may be tried again.
    let is_served_beside = || {
        let launcher = Launcher::start(&options, &[("loop.lua", &endless), HELLO]);
        let mut client = launcher.connect();
        client.send(&launcher.request("/loop.lua").bytes(1));
        launcher.runs();
        let started = Instant::now();
        for _ in 0..10 {
            assert_eq!(launcher.status("/hello.lua"), 200);
        }
        let took = started.elapsed();
        assert!(client.answer().head().starts_with("Status: 503"));
        took < Duration::from_millis(2500)
    };
    assert!((0..5).any(|_| is_served_beside()));
}
