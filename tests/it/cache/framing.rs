//! What an application announces and does not keep, and fields that are for one connection alone.

use super::{Site, asking, page, page_with, status};
use crate::harness::{Kind, Request, get};

const FRESH: &str = "Cache-Control: max-age=60";

/// Whole at once, and piece by piece.
const SHAPES: [&str; 2] = ["", "pieces=3&size=40000&pause=50"];

#[test]
fn a_body_that_is_shorter_than_announced_is_no_page_and_not_kept() {
    for kind in [Kind::Classic, Kind::Fastcgi] {
        let site = Site::of(kind, &[]);
        for shape in SHAPES {
            let target = page_with(shape, &[FRESH, "Content-Length: 200000"]);
            let old = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            let requests = [
                get(&target).bytes(),
                asking(&target, &[("Range", "bytes=0-2")]).bytes(),
                asking(&target, &[("Cookie", "a=b")]).bytes(),
                old.into_bytes(),
            ];
            for request in requests {
                let before = site.runs();
                let mut connection = site.0.connect();
                connection.send(request);
                // If it is whole before the first byte is sent, there can be an error page.
                let is_page = connection.try_response("GET").is_ok_and(|end| end.status() != 502);
                assert!(!is_page, "{kind:?} {shape}: nobody takes the part for the whole");
                assert_eq!(site.runs(), before + 1, "{kind:?} {shape}: nothing is kept");
            }
            site.0.log_line(&["shorter than its Content-Length", "url=/page.php"]);
        }
        let head = Request::new("HEAD", &page(&["Content-Length: 200000"]));
        assert_eq!(site.send(&head).expect(200).header("content-length"), Some("200000"));
    }
}

#[test]
fn an_announced_body_that_does_not_come_is_not_an_empty_page() {
    let site = Site::new();
    std::fs::write(
        site.0.places.root().join("none.php"),
        "<?php header('Cache-Control: max-age=60'); header('Content-Length: 100');",
    )
    .unwrap();
    for _ in 0..2 {
        site.0.get("/none.php").expect(502);
    }
}

#[test]
fn a_body_that_is_longer_than_announced_ends_where_it_was_announced() {
    for kind in [Kind::Classic, Kind::Fastcgi] {
        let site = Site::of(kind, &[]);
        for shape in SHAPES {
            let target = page_with(shape, &[FRESH, "Content-Length: 3"]);
            let mut connection = site.0.connect();
            connection.send(get(&target).bytes());
            let response = connection.response().expect(200);
            assert_eq!(response.text(), "run", "{kind:?} {shape}");
            // The rest is not taken for the next response.
            connection.send(get("/missing").bytes());
            connection.response().expect(404);
            let again = site.get(&target).expect(200);
            assert_eq!((again.text().as_str(), again.header("content-length")), ("run", Some("3")));
            site.0.log_line(&["longer than its Content-Length", "url=/page.php"]);
        }
    }
}

#[test]
fn fields_of_the_connection_are_not_for_clients() {
    for kind in [Kind::Classic, Kind::Fastcgi] {
        let site = Site::of(kind, &[]);
        // PHP announces with it what it sends after the body, and a FastCGI application cannot.
        let trailer = if kind == Kind::Fastcgi { "Trailer: X-Any" } else { "X-Other: 4" };
        let target = page(&[
            FRESH,
            trailer,
            "X-Hop: 1",
            "Connection: x-hop , keep-alive",
            "Connection: X-Late",
            "X-Late: 2",
            "Keep-Alive: timeout=5",
            "Proxy-Connection: keep-alive",
            "TE: trailers",
            "Upgrade: h2c",
            "X-Stays: 3",
        ]);
        for how in ["Tokamak; fwd=miss; stored", "Tokamak; hit"] {
            let response = site.get(&target).expect(200);
            assert!(status(&response).starts_with(how), "{kind:?}: {response}");
            for name in [
                "x-hop",
                "x-late",
                "connection",
                "keep-alive",
                "proxy-connection",
                "te",
                "trailer",
                "upgrade",
            ] {
                assert_eq!(response.header(name), None, "{kind:?}: {response}");
            }
            assert_eq!(response.header("x-stays"), Some("3"), "{response}");
        }
    }
}
