//! How long a request's body may be, by its path; and what becomes of one that is too long.

use std::time::Duration;

use crate::harness::{Kind, Request, Server, Setup, eventually, get, post};
use crate::http2::client::{exchange, request};

/// A site whose limits differ by path, with a page for what is refused and an access log.
fn limited() -> Server {
    Setup::new(Kind::Classic)
        .site("sites/rules/wiki")
        .front_controller("index.php")
        .line("limits.body = \"100KiB\"")
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"vhost\"")
        .site_line(
            r#"
            error_pages.413 = "/errors/refused.html"
            error_pages.502 = "/errors/failed.html"
            [[site.rule]]
            path = "/upload"
            body = "1MiB"
            [[site.rule]]
            path = "/upload/small"
            body = "1KiB"
            [[site.rule]]
            path = "/health"
            log = false
            [[site.rule]]
            set_headers = { X-Frame-Options = "DENY" }
            always = true
            "#,
        )
        .start()
}

fn upload(target: &str, size: usize) -> Request {
    post(target, "text/plain", vec![b'x'; size])
}

#[test]
fn a_rule_has_a_limit_of_its_own() {
    let server = limited();
    for (target, size, status) in [
        ("/page", 102_400, 200),
        ("/page", 102_401, 413),
        ("/upload", 1 << 20, 200),
        ("/upload/any", (1 << 20) + 1, 413),
        ("/upload/small", 1024, 200),
        ("/upload/small", 1025, 413),
        ("/x/..//upload/small", 1025, 413),
    ] {
        for framed in [upload(target, size), upload(target, size).chunked(1000)] {
            assert_eq!(server.send(&framed).status(), status, "{target} {size}");
        }
    }
    // Without a body it is a page as others.
    server.send(&get("/upload/small")).expect(200);
}

/// The response to a body that is too long is the site's, and is in the access log. The client gets
/// all of it, though it is still sending.
#[test]
fn one_that_is_too_long_is_refused_as_other_requests_are() {
    let server = limited();
    for framed in [upload("/page?n=1", 5_000_000), upload("/page?n=2", 5_000_000).chunked(1000)] {
        let response = server.send(&framed).expect(413);
        assert_eq!(response.text(), "<h1>our own: refused</h1>\n");
        assert_eq!(response.header("x-frame-options"), Some("DENY"));
    }
    let body = vec![b'x'; 2_000_000];
    let with_length = request("POST", "/page?n=3").header("content-length", "2000000");
    let without_length = request("POST", "/page?n=4");
    for answer in exchange(&server, vec![(with_length, body.clone()), (without_length, body)]) {
        assert_eq!(answer.status(), 413);
        assert_eq!(answer.body(), b"<h1>our own: refused</h1>\n");
        assert_eq!(answer.headers()["x-frame-options"], "DENY");
    }
    let log = || std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
    for number in 1..=4 {
        let line =
            || log().lines().any(|line| line.contains(&format!("?n={number} "))).then_some(());
        assert!(eventually(Duration::from_secs(20), line).is_some(), "{number}: {}", log());
    }
    let port = server.address.port();
    let first = format!("localhost:{port} 127.0.0.1 - - [");
    assert!(log().lines().all(|line| line.starts_with(&first)), "{}", log());
}

#[test]
fn a_page_for_what_the_application_fails_at() {
    let server = limited();
    let response = server.get("/errors/missing.php?die").expect(502);
    assert_eq!(response.text(), "<h1>our own: failed</h1>\n");
}

#[test]
fn some_paths_are_not_logged() {
    let server = limited();
    server.get("/health?first").expect(200);
    server.get("/after").expect(200);
    let log = || std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
    let after = || log().contains("GET /after ").then_some(());
    assert!(eventually(Duration::from_secs(20), after).is_some(), "{}", log());
    assert!(!log().contains("/health"), "{}", log());
}
