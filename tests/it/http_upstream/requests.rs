//! What an application is asked.

use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::backend::{Asked, Backend, text};
use super::in_front_of;
use crate::harness::{Kind, Request, Setup, get, post};
use crate::http2::client::{exchange, request};
use crate::layers::root;

/// An application that passes on what it is asked.
fn listening() -> (Backend, Receiver<Asked>) {
    let (sender, asked) = channel();
    let sender = Mutex::new(sender);
    let backend = Backend::answering(move |asked| {
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sender.send(asked.clone());
        text("fine")
    });
    (backend, asked)
}

fn next(asked: &Receiver<Asked>) -> Asked {
    asked.recv_timeout(Duration::from_secs(20)).expect("the application is asked")
}

#[test]
fn the_application_sees_what_the_client_sent() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "").start();
    let report = Request::new("REPORT", "/app/a%2Fb/%7Ec;v=1?x=%20&y=1&x")
        .header("Host", "shop.example:8080")
        .header("Cookie", "a=1")
        .header("Accept", "text/html")
        .header("Accept", "*/*")
        .header("Authorization", "Bearer secret")
        .header("X-Own", "\u{fc}");
    server.send(&report).expect(200);
    let asked = next(&asked);
    assert_eq!(asked.line, "REPORT /app/a%2Fb/%7Ec;v=1?x=%20&y=1&x HTTP/1.1");
    for (name, value) in [
        ("host", "shop.example:8080"),
        ("cookie", "a=1"),
        ("accept", "text/html | */*"),
        ("authorization", "Bearer secret"),
        ("x-own", "\u{fc}"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "shop.example:8080"),
        ("x-real-ip", "127.0.0.1"),
    ] {
        assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
    }
    assert!(asked.body.is_empty() && asked.field("content-length").is_none());
}

/// What rules and routes have judged is what the application is asked for.
#[test]
fn a_path_that_leaves_its_folder_is_sent_as_it_was_understood() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "").start();
    for (target, expected) in [
        ("/public/../app/x", "/app/x"),
        ("/app/%2e%2e/app//y%20z?q=..", "/app/y%20z?q=.."),
        ("/app/./x", "/app/x"),
    ] {
        server.get(target).expect(200);
        assert_eq!(next(&asked).target(), expected, "{target}");
    }
    server.get("/app/../../etc").expect(400);
    server.get("/app/.git/config").expect(404);
}

#[test]
fn fields_of_the_connection_and_of_proxies_are_the_servers_own() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "").start();
    let request = get("/app")
        .header("Host", "a.example")
        .header("Connection", "keep-alive, X-Hop")
        .header("X-Hop", "1")
        .header("Keep-Alive", "timeout=5")
        .header("TE", "trailers, deflate")
        .header("Proxy-Authorization", "Basic eDp5")
        .header("X-Forwarded-For", "6.6.6.6")
        .header("X_Forwarded_For", "6.6.6.6")
        .header("X-Forwarded_Proto", "https")
        .header("X-Forwarded-Port", "443")
        .header("X-Real-IP", "6.6.6.6")
        .header("Forwarded", "for=6.6.6.6");
    server.send(&request).expect(200);
    let asked = next(&asked);
    let mut names: Vec<&str> = asked.fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected =
        ["host", "te", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];
    assert_eq!(names, expected, "{asked:?}");
    assert_eq!(asked.field("te").as_deref(), Some("trailers"));
    assert!(!format!("{asked:?}").contains("6.6.6.6"));
}

#[test]
fn an_application_learns_of_the_client_as_it_is_told_to() {
    let (backend, asked) = listening();
    let lines = "forwarded = \"forwarded\"\nhost = \"inner\"\n\
        headers = { X-Token = \"s3cret\", Cookie = \"\", \"User-Agent\" = \"proxy\" }";
    let server = in_front_of(&backend, lines).start();
    let request = get("/app")
        .header("Host", "a.example")
        .header("Cookie", "a=1")
        .header("User-Agent", "client")
        .header("X-Token", "forged");
    server.send(&request).expect(200);
    let asked = next(&asked);
    for (name, value) in [
        ("host", Some("inner")),
        ("forwarded", Some("for=127.0.0.1;proto=http;host=\"a.example\"")),
        ("x-token", Some("s3cret")),
        ("user-agent", Some("proxy")),
        ("cookie", None),
        ("x-forwarded-for", None),
    ] {
        assert_eq!(asked.field(name).as_deref(), value, "{name}");
    }

    let (backend, asked) = listening();
    let server = in_front_of(&backend, "forwarded = \"none\"").start();
    server.send(&get("/app").header("X-Forwarded-For", "6.6.6.6")).expect(200);
    assert!(next(&asked).fields.iter().all(|(name, _)| !name.contains("forwarded")));
}

#[test]
fn behind_a_trusted_proxy_the_client_is_the_one_that_it_names() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "")
        .line("trusted_proxies = \"127.0.0.1\"")
        .line(
            "trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\", \"x-forwarded-host\"]",
        )
        .start();
    let request = get("/app")
        .header("Host", "inner")
        .header("X-Forwarded-For", "6.6.6.6, 192.0.2.7")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "shop.example");
    server.send(&request).expect(200);
    let asked = next(&asked);
    for (name, value) in [
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("host", "shop.example"),
    ] {
        assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn bodies_come_whole_and_with_their_length() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "").start();
    let large: Vec<u8> = (0..3 << 20_u32).map(|n| (n >> 3) as u8).collect();
    for body in [&b""[..], b"a=1", &large[..50_000], &large] {
        for chunk in [None, Some(1000)] {
            let request = post("/app", "text/x", body);
            let request = chunk.map_or(request.clone(), |size| request.chunked(size));
            server.send(&request).expect(200);
            let asked = next(&asked);
            assert!(asked.body == body, "{} bytes, chunks: {chunk:?}", body.len());
            assert_eq!(asked.field("content-length"), Some(body.len().to_string()));
            assert_eq!(asked.field("transfer-encoding"), None);
            assert_eq!(asked.field("expect"), None);
        }
    }
    server.send(&post("/app", "text/x", "abc").header("Expect", "100-continue")).expect(200);
    assert_eq!(next(&asked).body, b"abc");
}

#[test]
fn clients_of_http2_are_served_alike() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "").start();
    let asking = request("GET", "/app/x?y").header("te", "trailers").header("cookie", "a=1");
    assert_eq!(exchange(&server, vec![(asking, Vec::new())])[0].status(), 200);
    let asked = next(&asked);
    assert_eq!(asked.line, "GET /app/x?y HTTP/1.1");
    assert_eq!(asked.field("host").as_deref(), Some("localhost"));
}

#[test]
fn another_path_stands_in_place_of_the_routes() {
    let (backend, asked) = listening();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{}\"", backend.url))
        .site_line(
            "[[site.route]]\npath = \"/api\"\nupstream = \"app\"\nupstream_path = \"/\"\n\
             [[site.route]]\npath = \"/old\"\nupstream = \"app\"\nupstream_path = \"/v1/x\"",
        )
        .start();
    for (target, expected) in [
        ("/api/users%2F7?q=1", "/users%2F7?q=1"),
        ("/api", "/"),
        ("/api?q", "/?q"),
        ("/old/y", "/v1/x/y"),
        ("/old", "/v1/x"),
    ] {
        server.get(target).expect(200);
        assert_eq!(next(&asked).target(), expected, "{target}");
    }
}

#[test]
fn a_rules_new_path_and_query_are_what_is_asked_for() {
    let (backend, asked) = listening();
    let server = in_front_of(&backend, "")
        .site_line(
            "[[site.rule]]\npattern = \"^/short/(.*)$\"\nrewrite = \"/app/a+b/$1?from=rule\"\n\
             [[site.rule]]\npattern = \"^/plain/(.*)$\"\nrewrite = \"/app/$1\"",
        )
        .start();
    for (target, expected) in [
        ("/short/x", "/app/a+b/x?from=rule"),
        ("/plain/x", "/app/x"),
        ("/plain/x?a=b", "/app/x?a=b"),
        ("/app/x?", "/app/x?"),
    ] {
        server.get(target).expect(200);
        assert_eq!(next(&asked).target(), expected, "{target}");
    }
}

#[test]
fn a_site_may_be_an_application_alone() {
    let (backend, asked) = listening();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{}\"", backend.url))
        .site_line("upstream = \"app\"\nfiles = true")
        .start();
    let root = server.places.root();
    fs::write(root.join("style.css"), "own").unwrap();
    fs::write(root.join("secret.php"), "<?php // source").unwrap();
    assert_eq!(server.text("/style.css"), "own");
    for target in ["/", "/secret.php", "/any/path", "/index.php/x"] {
        assert_eq!(server.text(target), "fine");
        assert_eq!(next(&asked).target(), target);
    }
}

#[test]
fn an_application_may_be_one_that_the_server_starts() {
    let program = root().join("tests/it/http_upstream/app.py").display().to_string();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!(
            "protocol = \"http\"\nspawn = [\"/usr/bin/python3\", \"-B\", \"{program}\"]"
        ))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    for number in 0..5 {
        assert_eq!(server.text(&format!("/app/{number}")), format!("/app/{number}"));
    }
}
