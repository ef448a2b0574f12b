//! How much one client may ask for. The rates are so low that no test waits for a bucket to leak.

use crate::harness::{Connection, Kind, Server, Setup, get, post};
use crate::http2::client::{exchange, request};
use crate::metrics;

/// A server with these lines for its site, and an admin listener.
fn start(lines: &str) -> Server {
    metrics::start(Setup::new(Kind::Classic).workers(4).site_line(lines))
}

fn statuses(server: &Server, target: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| server.get(target).status()).collect()
}

#[test]
fn requests_in_a_time() {
    let server = start(
        r#"
        [[site.rule]]
        path = "/hello.php"
        rate = "1/h"
        burst = 2
        [[site.rule]]
        path = "/time.php"
        rate = "1/h"
        limit_by = "header:X-Key"
        [[site.rule]]
        path = "/pid.php"
        rate = "1/h"
        limit_dry_run = true
        "#,
    );
    assert_eq!(statuses(&server, "/hello.php", 5), [200, 200, 200, 429, 429]);
    let refused = server.get("//x/../%68ello.php?a=b").expect(429);
    assert!(refused.text().contains("too many requests of yours"), "{refused}");
    let seconds: u64 = refused.head.all("retry-after").next().unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(server.send(&crate::harness::Request::new("HEAD", "/hello.php")).status(), 429);
    server.log_line(&["limit exceeded: 127.0.0.1 sends more than 1/h requests (burst 2)", "429"]);
    server.get("/server.php").expect(200);

    let keyed = |key: &str| server.send(&get("/time.php").header("X-Key", key)).status();
    assert_eq!([keyed("a"), keyed("a"), keyed("b")], [200, 429, 200]);
    assert_eq!(statuses(&server, "/time.php", 2), [200, 429], "without the field the address");

    assert_eq!(statuses(&server, "/pid.php", 3), [200; 3]);
    server.log_line(&["dry run: limit exceeded", "it would be answered 429"]);

    let limited = |action: &str| {
        let labels = format!("action=\"{action}\",limit=\"rate\",site=\"localhost\"");
        format!("tokamak_limited_requests_total{{{labels}}}")
    };
    metrics::samples_when(&server, &limited("refused"), 6.0);
    metrics::samples_when(&server, &limited("dry_run"), 2.0);
}

/// A framework shows `/login` for `/index.php/login`, too.
#[test]
fn no_spelling_of_a_page_has_another_limit() {
    let server = start(
        r#"
        [[site.rule]]
        pattern = "^/sign-in$"
        rewrite = "/login"
        [[site.rule]]
        path = "/login"
        rate = "1/h"
        body = 10
        [[site.rule]]
        path = "/export"
        connections = 1
        "#,
    );
    assert_eq!(statuses(&server, "/server.php/login", 1), [200]);
    for target in ["/server.php/login", "/server.php//LOGIN/a", "/hello.php/login", "/sign-in"] {
        assert_eq!(statuses(&server, target, 1), [429], "{target}");
    }
    let posted = |target: &str| server.send(&post(target, "text/plain", [b'x'; 11])).status();
    assert_eq!([posted("/echo.php"), posted("/echo.php/export")], [200, 200]);
    let server = start("[[site.rule]]\npath = \"/login\"\nbody = 10");
    let posted = |target: &str| server.send(&post(target, "text/plain", [b'x'; 11])).status();
    assert_eq!([posted("/echo.php/login"), posted("/echo.php")], [413, 200]);
}

/// Only files are pages for this: a script would be run by those who ask too often.
#[test]
fn pages_for_those_who_ask_too_often() {
    let page = |page: &str| {
        let setup = Setup::new(Kind::Classic).site("sites/rules/wiki");
        let lines = format!("error_pages.429 = \"/errors/{page}\"\n[[site.rule]]\nrate = \"1/h\"");
        let server = setup.front_controller("index.php").site_line(&lines).start();
        server.get("/").expect(200);
        server.get("/").expect(429).text()
    };
    assert_eq!(page("refused.html"), "<h1>our own: refused</h1>\n");
    assert!(page("missing.php").contains("too many requests of yours"));
}

/// All requests of all sites, whatever they ask for, on any connection and event loop.
#[test]
fn all_loops_count_together() {
    let setup = Setup::new(Kind::Classic).line("loops = 2");
    let setup = setup.line("limits.client_rate = \"1/h\"\nlimits.client_burst = 49");
    let server = setup.start();
    let answered = std::sync::atomic::AtomicUsize::new(0);
    crate::harness::in_parallel(8, |nth| {
        for _ in 0..10 {
            let target = if nth % 2 == 0 { "/hello.php" } else { "/none.txt" };
            match server.get(target).status() {
                429 => {}
                200 | 404 => drop(answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
                other => panic!("{other}"),
            }
        }
    });
    assert_eq!(answered.into_inner(), 50);
}

/// The address that a trusted proxy forwards is the client; of IPv6 a network of 64 bits.
#[test]
fn clients_behind_a_proxy() {
    let setup = Setup::new(Kind::Classic).line("trusted_proxies = \"127.0.0.1\"");
    let server = setup.site_line("[[site.rule]]\nrate = \"1/h\"").start();
    let from =
        |client: &str| server.send(&get("/hello.php").header("X-Forwarded-For", client)).status();
    assert_eq!(["192.0.2.1", "192.0.2.1", "192.0.2.2"].map(from), [200, 429, 200]);
    let network = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"];
    assert_eq!(network.map(from), [200, 429, 200]);
}

#[test]
fn requests_at_the_same_time() {
    let server = start("[[site.rule]]\npath = \"/hold.php\"\nconnections = 2");
    let hold = |name: &str| {
        let mut connection = Connection::open(server.address);
        connection.send(get(&format!("/hold.php?name={name}")).bytes());
        server.holds(name);
        connection
    };
    let mut held = [hold("a"), hold("b")];
    server.get("/hold.php?name=c").expect(429);
    server.get("/hello.php").expect(200);
    server.log_line(&["127.0.0.1 sends more than 2 requests at the same time"]);
    server.let_go("a");
    held[0].response();
    // Its place is free when its response is over, which the client may notice first.
    let mut next = hold_when_free(&server, "c");
    server.get("/hold.php?name=d").expect(429);
    for name in ["b", "c"] {
        server.let_go(name);
    }
    assert_eq!((held[1].response().status(), next.response().status()), (200, 200));
}

/// Asks until it is not refused.
fn hold_when_free(server: &Server, name: &str) -> Connection {
    loop {
        let mut connection = Connection::open(server.address);
        connection.send(get(&format!("/hold.php?name={name}")).bytes());
        let note = server.state_file(&format!("held-{name}"));
        let is_held = || note.exists().then_some(true);
        connection.patience(std::time::Duration::from_millis(200));
        match connection.try_response("GET") {
            Ok(response) => assert_eq!(response.status(), 429),
            Err(_) => {
                let held = crate::harness::eventually(std::time::Duration::from_secs(20), is_held);
                assert_eq!(held, Some(true));
                connection.patience(std::time::Duration::from_secs(20));
                return connection;
            }
        }
    }
}

#[test]
fn streams_count_as_requests() {
    let server = start("[[site.rule]]\npath = \"/hold.php\"\nconnections = 1");
    let mut first = Connection::open(server.address);
    first.send(get("/hold.php?name=first").bytes());
    server.holds("first");
    let requests = || (0..3).map(|_| (request("GET", "/hold.php?name=x"), Vec::new())).collect();
    let answers = exchange(&server, requests());
    assert!(answers.iter().all(|answer| answer.status() == 429), "{answers:?}");
    server.let_go("first");
    first.response();
}
