//! Native sessions: they count, they end with their request, they belong to one client.

use std::time::{Duration, Instant};

use crate::harness::{Kind, Server, Setup, get, in_parallel, on_every_server};

on_every_server! {
    counter, no_leak, save_handler_lasts_one_request, lock_is_released, many_clients,
    started_again,
}

/// Sends a request of a session; returns the body and the session's cookie.
fn visit(server: &Server, query: &str, cookie: Option<&str>) -> (String, String) {
    let request = get(&format!("/session.php?{query}"));
    let request = match cookie {
        Some(cookie) => request.header("Cookie", cookie),
        None => request,
    };
    let response = server.send(&request);
    let set =
        response.header("Set-Cookie").and_then(|value| value.split(';').next()).map(str::to_string);
    (response.text(), set.or(cookie.map(str::to_string)).unwrap_or_default())
}

fn counter(kind: Kind) {
    let server = Setup::new(kind).start();
    let (text, cookie) = visit(&server, "", None);
    assert_eq!(text, "1");
    assert!(cookie.starts_with("PHPSESSID="), "{cookie:?}");
    for count in 2..=5 {
        assert_eq!(visit(&server, "", Some(&cookie)).0, count.to_string());
    }
    assert_eq!(visit(&server, "", None).0, "1", "another client starts anew");
    assert_eq!(visit(&server, "do=destroy", Some(&cookie)).0, "6");
    assert_eq!(visit(&server, "", Some(&cookie)).0, "1", "a destroyed session is gone");
}

/// However a request with an open session ends, the session is written and nobody else sees it.
fn no_leak(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let (_, cookie) = visit(&server, "own=secret", None);
    let nothing = r#"["",null,false,"files"]"#;
    let mut expected = 1;
    for way in ["", "exit", "throw", "spin"] {
        expected += 1;
        let (text, _) = visit(&server, &format!("do={way}"), Some(&cookie));
        assert!(text.starts_with(&format!("{expected} secret")), "{way}: {text}");
        assert_eq!(visit(&server, "do=look", None).0, nothing, "after {way:?}");
        assert_eq!(visit(&server, "", None).0, "1", "after {way:?}");
    }
}

fn save_handler_lasts_one_request(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    assert_eq!(visit(&server, "do=handler", None).0, "41");
    assert_eq!(server.state("handler-wrote"), "count|i:41;");
    assert_eq!(visit(&server, "do=look", None).0, r#"["",null,false,"files"]"#);
    let (text, cookie) = visit(&server, "", None);
    assert_eq!((text.as_str(), visit(&server, "", Some(&cookie)).0.as_str()), ("1", "2"));
}

/// A script that is stopped by its time limit lets go of its session.
fn lock_is_released(kind: Kind) {
    let server = Setup::new(kind).workers(2).start();
    let (_, cookie) = visit(&server, "", None);
    let (text, _) = visit(&server, "do=spin", Some(&cookie));
    assert!(text.contains("Maximum execution time of 1 second exceeded"), "{text}");
    let started = Instant::now();
    for count in 3..7 {
        assert_eq!(visit(&server, "", Some(&cookie)).0, count.to_string());
    }
    assert!(started.elapsed() < Duration::from_secs(10), "somebody still held the session");
}

fn many_clients(kind: Kind) {
    let server = Setup::new(kind).start();
    in_parallel(100, |number| {
        let (text, cookie) = visit(&server, &format!("own=client{number}"), None);
        assert_eq!(text, format!("1 client{number}"));
        let way = ["", "do=exit"][number % 2];
        assert_eq!(visit(&server, way, Some(&cookie)).0, format!("2 client{number}"));
        assert_eq!(visit(&server, "", Some(&cookie)).0, format!("3 client{number}"));
    });
}

/// A script that starts the session again is told the same as by php-fpm: since PHP 8.3, who has
/// started it. The second request hears nothing of the first one.
fn started_again(kind: Kind) {
    for auto_start in ["0", "1"] {
        let [seen, expected] = [kind, Kind::Peer].map(|kind| {
            let setup = Setup::new(kind).workers(1);
            let server = setup.php_admin_value("session.auto_start", auto_start).start();
            [0; 2].map(|_| visit(&server, "do=again", None).0)
        });
        assert_eq!(seen, expected, "session.auto_start={auto_start}");
        assert!(seen[0].contains("Ignoring session_start()"), "{}", seen[0]);
    }
}
