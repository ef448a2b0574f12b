//! Scripts that end badly: what they wrote arrives with the right status, and no other request
//! pays.

use crate::harness::{
    Kind, Setup, check, get, in_every_mode, in_parallel, on_every_server, post, row,
};

on_every_server! { shown, hidden, next_request_is_served, killed_worker }
in_every_mode! {
    killed_get_is_tried_once_more, others_are_not_disturbed, a_child_is_ended_by_a_signal,
    nested_values_that_fill_memory
}

/// As behind php-fpm; the worker itself is the supervisor's to end.
fn a_child_is_ended_by_a_signal(kind: Kind) {
    let server = Setup::new(kind).start();
    assert_eq!(server.get("/fork.php").expect(200).text(), "15");
}

/// What fills the image's memory counts for no request, so a small limit is none of sealed mode's.
#[test]
fn a_sealed_request_begins_with_little_memory() {
    let setup = Setup::new(Kind::Sealed).php_admin_value("memory_limit", "6M");
    let server = setup.start();
    assert_eq!(server.get("/memory.php").expect(200).text(), "little little");
}

/// Every way to end, with what PHP says about it.
const WAYS: [(&str, &str); 16] = [
    ("exit", "begun [shutdown]"),
    ("exit-code", "begun [shutdown]"),
    ("die", "begun dying words [shutdown]"),
    ("exit-in-buffer", "begun BUFFERED [SHUTDOWN]"),
    ("exception", "PHP Fatal error:  Uncaught LogicException: nobody catches this"),
    ("status-exception", "PHP Fatal error:  Uncaught LogicException: nobody catches this"),
    ("error", "PHP Fatal error:  Uncaught Error: Call to undefined function no_such_function()"),
    ("type", "PHP Fatal error:  Uncaught TypeError: strlen()"),
    ("fatal", "Fatal error: fatal on purpose"),
    ("parse", "PHP Parse error:  syntax error"),
    ("memory", "Allowed memory size"),
    ("time", "Maximum execution time of 1 second exceeded"),
    ("shutdown-exit", "begun [shutdown] [exit in shutdown]"),
    (
        "shutdown-exception",
        "begun [shutdown]PHP Fatal error:  Uncaught LogicException: in shutdown",
    ),
    ("destructor", " [destructor]"),
    ("", "begun [shutdown]"),
];

fn shown(kind: Kind) {
    let server = Setup::new(kind).start();
    let rows = WAYS.iter().map(|(way, text)| {
        // The log has the prefix, the page does not.
        let text = text
            .replace("PHP Fatal error:  ", "\nFatal error: ")
            .replace("PHP Parse error:  ", "\nParse error: ");
        let row = row(way, get(&format!("/fail.php?how={way}")));
        if text.starts_with("begun") && !text.contains('\n') {
            row.body(text)
        } else {
            row.contains("begun").contains(text)
        }
    });
    check(&server, rows.collect());
}

/// Without `display_errors` a fatal error is a 500, unless output has already gone out.
fn hidden(kind: Kind) {
    let server = Setup::new(kind).php_value("display_errors", "0").start();
    let way = |how: &str| get(&format!("/fail.php?quiet&how={how}"));
    check(
        &server,
        vec![
            row("exception", way("exception")).status(500).body(" [shutdown]"),
            row("status of the script", way("status-exception")).status(418).body(" [shutdown]"),
            row("error", way("error")).status(500).body(" [shutdown]"),
            row("memory", way("memory")).status(500).body(" [shutdown]"),
            row("time", way("time")).status(500).body(" [shutdown]"),
            row("after output", get("/fail.php?how=exception")).body("begun [shutdown]"),
            row("exit is no error", way("exit")).body(" [shutdown]"),
            row("exit code is no error", way("exit-code")).body(" [shutdown]"),
            row("dd()", get("/dd.php")).status(500).body("dumped"),
            row("as if nothing had been", get("/hello.php")).body("Hello from PHP"),
        ],
    );
}

fn next_request_is_served(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for (way, _) in WAYS {
        server.get(&format!("/fail.php?how={way}"));
        assert_eq!(server.text("/hello.php"), "Hello from PHP", "after {way:?}");
    }
}

/// A worker that dies costs the request that it had: 502. The next one finds another worker.
fn killed_worker(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for how in ["kill", "crash"] {
        let name = format!("{how}-post");
        let killer = post(&format!("/fail.php?how={how}&name={name}"), "text/plain", "x");
        assert_eq!(server.send(&killer).status(), 502, "{how}");
        assert_eq!(server.text("/hello.php"), "Hello from PHP", "after {how}");
    }
    assert_eq!(server.state("runs-kill-post"), "x", "a POST is not repeated");
}

/// To destroy them, PHP would need more stack than there is: they go with the request's memory.
fn nested_values_that_fill_memory(kind: Kind) {
    let server = Setup::new(kind)
        .workers(1)
        .php_value("display_errors", "0")
        .php_value("log_errors", "1")
        .php_value("memory_limit", "64M")
        .start();
    for how in ["nested-arrays", "linked-objects"] {
        let mut beside = server.connect();
        if kind == Kind::Async {
            beside.send(get(&format!("/hold.php?name={how}")).bytes());
            server.holds(how);
        }
        let response = server.get(&format!("/fail.php?quiet&how={how}")).expect(500);
        assert_eq!(response.text(), " [shutdown]", "{how}");
        server.log_line(&["Allowed memory size of 67108864 bytes exhausted", how]);
        assert_eq!(server.text("/hello.php"), "Hello from PHP", "after {how}");
        if kind == Kind::Async {
            server.let_go(how);
            assert_eq!(beside.response().expect(200).text(), "held");
        }
    }
    assert!(!server.log().contains("died"), "{}", server.log());
}

fn killed_get_is_tried_once_more(kind: Kind) {
    let server = Setup::new(kind).start();
    assert_eq!(server.get("/fail.php?how=kill&name=get").status(), 502);
    // In async mode it might take others with it.
    let runs = if kind == Kind::Async { "x" } else { "xx" };
    assert_eq!(server.state("runs-get"), runs);
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
}

fn others_are_not_disturbed(kind: Kind) {
    let server = Setup::new(kind).workers(4).start();
    let ways = ["exit", "exception", "memory", "destructor", "kill", "shutdown-exit", "fatal"];
    in_parallel(100, |number| {
        if number % 4 == 0 {
            server.get(&format!("/fail.php?how={}&name=many", ways[number / 4 % ways.len()]));
        } else {
            assert_eq!(server.text("/hello.php"), "Hello from PHP", "request {number}");
        }
    });
}
