//! Reading requests and writing responses: bodies, uploads, output, flushing, aborts.

use std::time::Duration;

use crate::harness::{
    Framing, Kind, Multipart, Request, Setup, check, crc32, eventually, form, get, in_parallel,
    numbered, on_every_server, post, row,
};

on_every_server! {
    basics, post_fields, uploads, upload_files_go_away, large_bodies, very_large_bodies, flush_sends_at_once,
    flushed_response_has_no_length, client_that_goes_away, many_at_once,
}

fn basics(kind: Kind) {
    let server = Setup::new(kind).start();
    let utf8 = "text/html; charset=UTF-8";
    check(
        &server,
        vec![
            row("hello", get("/hello.php")).body("Hello from PHP").header("Content-Type", utf8),
            row("a second time", get("/hello.php")).body("Hello from PHP"),
            row("empty output", get("/nothing.php")).body("").header("Content-Type", utf8),
            row("raw body", post("/echo.php", "text/x-raw", "a\0b\r\nc")).body("a\0b\r\nc"),
            row("PUT has a raw body", Request::new("PUT", "/echo.php").body("put")).body("put"),
            row("no body", Request::new("POST", "/echo.php")).body(""),
            row("chunked body", post("/echo.php", "text/plain", "in small pieces").chunked(4))
                .body("in small pieces"),
            row("body as a stream, twice", post("/input.php", "text/plain", "0123456789"))
                .json("/length", 10)
                .json("/crc32", crc32(b"0123456789"))
                .json("/again", "01234567")
                .json("/announced", "10"),
            row("open buffers are flushed", get("/buffers.php")).body("OUTER INNER"),
            row("fiber", get("/fiber.php"))
                .body("one from the fiber two headers three")
                .header("X-In-Fiber", "yes"),
            row("status code", get("/status.php?code=418")).status(418).body("status 418"),
            row("204 with a flush", get("/no_content.php")).status(204).body(""),
            row("after a 204", get("/hello.php")).body("Hello from PHP"),
        ],
    );
    assert_eq!(server.get("/binary.php").expect(200).body, (0..=255).collect::<Vec<u8>>());
    let head = server.send(&Request::new("HEAD", "/hello.php")).expect(200);
    assert_eq!(head.body, b"", "HEAD has no body");
}

fn post_fields(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![
            row(
                "form",
                form("/superglobals.php?q=1&both=get", "a=1&b%5B%5D=x&b%5B%5D=y+z&both=post"),
            )
            .json("/get/q", "1")
            .json("/post/a", "1")
            .json("/post/b/1", "y z")
            .json("/request/both", "post")
            .json("/request/q", "1")
            .json("/input", "a=1&b%5B%5D=x&b%5B%5D=y+z&both=post"),
            row("form in chunks", form("/superglobals.php", "a=1&b=2").chunked(3))
                .json("/post/b", "2"),
            row("JSON is no form", post("/superglobals.php", "application/json", "{\"a\":1}"))
                .json("/post", serde_json::json!([]))
                .json("/input", "{\"a\":1}"),
            row("PUT fills no $_POST", Request::new("PUT", "/superglobals.php").body("a=1"))
                .json("/post", serde_json::json!([]))
                .json("/input", "a=1"),
            row("nothing stays", get("/superglobals.php"))
                .json("/get", serde_json::json!([]))
                .json("/post", serde_json::json!([]))
                .json("/files", serde_json::json!([]))
                .json("/request", serde_json::json!([]))
                .json("/input", ""),
            row(
                "multipart",
                Multipart::default()
                    .field("plain", "value")
                    .file("one", "a.txt", "text/plain", b"12345")
                    .file("many[x]", "b.bin", "application/octet-stream", b"\0\x01")
                    .file("empty", "", "application/octet-stream", b"")
                    .post("/superglobals.php"),
            )
            .json("/post/plain", "value")
            .json("/files/one/name", "a.txt")
            .json("/files/one/size", 5)
            .json("/files/many/name/x", "b.bin")
            .json("/files/many/error/x", 0)
            .json("/files/empty/error", 4)
            .json("/input", ""),
        ],
    );
}

fn uploads(kind: Kind) {
    let server = Setup::new(kind).php_admin_value("upload_max_filesize", "7M").start();
    let large = numbered(6 << 20);
    let upload = |content: &[u8]| {
        Multipart::default().field("field", "beside").file(
            "document",
            "äö ü.txt",
            "text/plain",
            content,
        )
    };
    check(
        &server,
        vec![
            row("small", upload(b"content").post("/upload.php"))
                .json("/name", "äö ü.txt")
                .json("/full_path", "äö ü.txt")
                .json("/type", "text/plain")
                .json("/size", 7)
                .json("/error", 0)
                .json("/crc32", crc32(b"content"))
                .json("/is_uploaded", true)
                .json("/others_are_not", false)
                .json("/in_upload_dir", true)
                .json("/moved", false)
                .json("/field", "beside"),
            row("6 MB, moved", upload(&large).post("/upload.php?move=1"))
                .json("/size", 6 << 20)
                .json("/crc32", crc32(&large))
                .json("/moved", true),
            row("in chunks", upload(&large).post("/upload.php").chunked(100_000))
                .json("/crc32", crc32(&large)),
            row("above upload_max_filesize", upload(&numbered(8 << 20)).post("/upload.php"))
                .json("/error", 1)
                .json("/field", "beside"),
        ],
    );
    assert!(
        std::fs::read(server.state_file("moved")).unwrap() == large,
        "the moved file has other content"
    );
}

fn upload_files_go_away(kind: Kind) {
    let server = Setup::new(kind).start();
    let request =
        Multipart::default().file("document", "a", "text/plain", b"content").post("/upload.php");
    server.send(&request).expect(200);
    let name = server.state("upload-name");
    assert!(name.starts_with(server.state_file("").to_str().unwrap()), "{name}");
    let gone =
        eventually(Duration::from_secs(20), || (!std::fs::exists(&name).unwrap()).then_some(()));
    assert!(gone.is_some(), "{name} is still there after its request");
}

/// A request and a response larger than every buffer on the way, each byte compared.
fn large_bodies(kind: Kind) {
    let server = Setup::new(kind).php_value("memory_limit", "256M").start();
    bodies_of(&server, 6 << 20);
}

fn very_large_bodies(kind: Kind) {
    let server = Setup::new(kind).php_value("memory_limit", "256M").start();
    bodies_of(&server, 40 << 20);
}

fn bodies_of(server: &crate::harness::Server, size: usize) {
    let text = numbered(size);
    let response = server.get(&format!("/large.php?bytes={size}")).expect(200);
    assert!(
        response.body == text,
        "a response of {size} bytes is spoilt ({} came)",
        response.body.len()
    );

    let sent = post("/input.php", "application/octet-stream", text.clone());
    for request in [sent.clone(), sent.chunked(50_000)] {
        let seen = server.send(&request).expect(200).json();
        assert_eq!(seen["length"], size);
        assert_eq!(seen["crc32"], crc32(&text));
    }
    let echoed =
        server.send(&post("/echo.php", "application/octet-stream", text.clone())).expect(200);
    assert!(echoed.body == text, "an echo of {size} bytes is spoilt ({} came)", echoed.body.len());
}

fn flush_sends_at_once(kind: Kind) {
    let plain = Setup::new(kind).start();
    let buffered = Setup::new(kind).php_value("output_buffering", "4096").start();
    for (server, target) in [(&plain, "/flush.php"), (&buffered, "/flush.php?buffer=1")] {
        let response = server.get(target).expect(200);
        assert_eq!(response.text(), "first middle last");
        let ahead = response.ahead("first".len());
        assert!(
            ahead > Duration::from_millis(600),
            "the first part came only {ahead:?} before the end"
        );
        if target == "/flush.php" {
            let ahead = response.ahead("first middle".len());
            assert!(
                ahead > Duration::from_millis(200),
                "the second part came only {ahead:?} before the end"
            );
        }
    }
}

fn flushed_response_has_no_length(kind: Kind) {
    let server = Setup::new(kind).start();
    let response = server.get("/flush.php").expect(200);
    assert_eq!(response.framing, Framing::Chunked, "{response}");
    // A client that does not know chunks gets the end of the connection instead.
    let mut connection = server.connect();
    connection.send("GET /flush.php HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let response = connection.response().expect(200);
    assert_eq!(response.framing, Framing::Close, "{response}");
    assert_eq!(response.text(), "first middle last");
}

/// A client that hangs up is seen by `connection_status()`, ends only its own script, and not even
/// that one if the script asked to go on; the only worker serves the next request.
fn client_that_goes_away(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for name in ["ignore", "plain"] {
        let mut connection = server.connect();
        connection.send(get(&format!("/abort.php?name={name}&{name}")).bytes());
        connection.head().unwrap();
        drop(connection);
        assert_eq!(server.state(&format!("status-{name}")), "1 1");
        if name == "ignore" {
            assert_eq!(server.state("survived-ignore"), "noticed");
        }
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
    }
}

fn many_at_once(kind: Kind) {
    let server = Setup::new(kind).start();
    in_parallel(100, |number| {
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
        let body = format!("number {number}");
        assert_eq!(
            server.send(&post("/echo.php", "text/plain", body.clone())).expect(200).text(),
            body
        );
        let large = server.get(&format!("/large.php?bytes={}", 1000 * number)).expect(200);
        assert!(large.body == numbered(1000 * number), "response {number} is spoilt");
    });
}
