//! Malformed requests are refused, the connection ends, and nothing of them reaches PHP: least of
//! all a second request that hides in the first one.

use std::time::Duration;

use crate::harness::{Kind, Server, Setup, get};

/// A request that would leave a trace if it reached PHP; each shape carries it where another server
/// might take it for a request of its own.
const HIDDEN: &str = "GET /finish.php?name=smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends the bytes and fails unless they are refused with one of the statuses, once, and the
/// connection ends.
fn refused(server: &Server, bytes: &[u8], statuses: &[u16]) -> Result<(), String> {
    let mut connection = server.connect();
    connection.patience(Duration::from_secs(20));
    let _ = connection.try_send(bytes);
    let response =
        connection.try_response("GET").map_err(|failure| format!("no response: {failure}"))?;
    if !statuses.contains(&response.status()) {
        return Err(format!("status {} instead of {statuses:?}", response.status()));
    }
    if let Ok(second) = connection.try_response("GET") {
        return Err(format!("a second response: {}", second.status()));
    }
    if connection.closes_within(Duration::from_secs(20)) {
        Ok(())
    } else {
        Err("the connection stays open".into())
    }
}

/// A name, the bytes, and the statuses with which they may be refused.
type Shape = (&'static str, Vec<u8>, &'static [u16]);

/// Sends every shape and fails with all that were not refused.
fn all_refused(shapes: &[Shape]) {
    let server = Setup::new(Kind::Classic).start();
    let mut wrong = Vec::new();
    for (name, bytes, statuses) in shapes {
        let hidden = [bytes.as_slice(), HIDDEN.as_bytes()].concat();
        if let Err(problem) = refused(&server, &hidden, statuses) {
            wrong.push(format!("{name}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} shapes\n{}", wrong.len(), shapes.len(), wrong.join("\n"));
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    let traces = std::fs::read_dir(server.state_file("")).unwrap().count();
    assert_eq!(traces, 0, "something of a malformed request reached PHP");
}

/// A POST with these header lines, and this body.
fn post(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /finish.php?name=outer HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}")
        .into_bytes()
}

#[test]
fn lengths_and_codings() {
    all_refused(&[
        (
            "length and coding",
            post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &[400],
        ),
        (
            "coding and length",
            post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
            &[400],
        ),
        ("two lengths", post("Content-Length: 0\r\nContent-Length: 60\r\n", ""), &[400]),
        ("two equal lengths", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), &[400]),
        ("list of lengths", post("Content-Length: 3, 3\r\n", "abc"), &[400]),
        ("signed length", post("Content-Length: +3\r\n", "abc"), &[400]),
        ("negative length", post("Content-Length: -3\r\n", "abc"), &[400]),
        ("hexadecimal length", post("Content-Length: 0x3\r\n", "abc"), &[400]),
        ("empty length", post("Content-Length:\r\n", ""), &[400]),
        ("length with text", post("Content-Length: 3a\r\n", "abc"), &[400]),
        ("huge length", post("Content-Length: 18446744073709551617\r\n", "abc"), &[400, 413]),
        ("space before the colon", post("Content-Length : 3\r\n", "abc"), &[400]),
        (
            "two codings",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &[400],
        ),
        ("identity", post("Transfer-Encoding: identity\r\n", ""), &[400, 501]),
        ("unknown coding", post("Transfer-Encoding: gzip\r\n", ""), &[400, 501]),
        ("coding in quotes", post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), &[400, 501]),
        (
            "chunked is not last",
            post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
            &[400, 501],
        ),
        (
            "chunked twice",
            post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
            &[400, 501],
        ),
        ("vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), &[400, 501]),
        ("folded coding", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), &[400, 501]),
        ("folded line", post("X-A: b\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[400]),
        (
            "coding in HTTP/1.0",
            b"POST /finish.php?name=outer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .to_vec(),
            &[400],
        ),
        ("bare line feed", post("X-A: b\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[400]),
        (
            "bare carriage return",
            post("X-A: b\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &[400],
        ),
        ("NUL in a value", post("X-A: b\0c\r\nContent-Length: 0\r\n", ""), &[400]),
    ]);
}

#[test]
fn chunks() {
    let body = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    all_refused(&[
        ("no size", body("\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("signed size", body("+3\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("negative size", body("-3\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("prefixed size", body("0x3\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("size with a space", body("3 \r\nabc\r\n0\r\n\r\n"), &[400]),
        ("huge size", body("fffffffffffffffff\r\nabc\r\n0\r\n\r\n"), &[400, 413]),
        ("no number", body("xyz\r\nabc\r\n0\r\n\r\n"), &[400]),
        ("longer than its size", body("3\r\nabcdef\r\n0\r\n\r\n"), &[400]),
        ("line feed alone", body("3\nabc\n0\n\n"), &[400]),
        ("line feed in an extension", body("3;a\nabc\r\n0\r\n\r\n"), &[400]),
        ("length as a trailer", body("0\r\nContent-Length: 5\r\n\r\n"), &[400]),
    ]);
}

#[test]
fn request_lines_and_fields() {
    let line = |line: &str| format!("{line}\r\nHost: localhost\r\n\r\n").into_bytes();
    let field = |field: &str| {
        format!("GET /hello.php HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n").into_bytes()
    };
    all_refused(&[
        ("no version", line("GET /hello.php"), &[400, 505]),
        ("HTTP/0.9", b"GET /hello.php\r\n".to_vec(), &[400, 505]),
        ("HTTP/2 in text", line("GET /hello.php HTTP/2.0"), &[400, 505]),
        ("lower-case version", line("GET /hello.php http/1.1"), &[400, 505]),
        ("HTTP/2 after a line", b"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400, 505]),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        ("two spaces", line("GET  /hello.php HTTP/1.1"), &[400]),
        ("tab", line("GET\t/hello.php HTTP/1.1"), &[400]),
        ("space in the target", line("GET /hello.php x HTTP/1.1"), &[400]),
        ("no slash", line("GET hello.php HTTP/1.1"), &[400]),
        ("NUL in the target", line("GET /hello.php\0 HTTP/1.1"), &[400]),
        ("control character", line("GET /hello\x01.php HTTP/1.1"), &[400]),
        ("method with a colon", line("GE:T /hello.php HTTP/1.1"), &[400]),
        ("CONNECT", line("CONNECT localhost:80 HTTP/1.1"), &[400, 405, 501]),
        ("TRACE", line("TRACE /hello.php HTTP/1.1"), &[400, 405, 501]),
        ("no host", b"GET /hello.php HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        ("two hosts", field("Host: other"), &[400]),
        ("host with a path", b"GET /hello.php HTTP/1.1\r\nHost: a/b\r\n\r\n".to_vec(), &[400]),
        (
            "host with a user",
            b"GET /hello.php HTTP/1.1\r\nHost: me@localhost\r\n\r\n".to_vec(),
            &[400],
        ),
        ("no colon", field("NoColon"), &[400]),
        ("empty name", field(": value"), &[400]),
        ("space in the name", field("X A: value"), &[400]),
        ("control character in the name", field("X\x01A: value"), &[400]),
        ("line feeds only", b"GET /hello.php HTTP/1.1\nHost: localhost\n\n".to_vec(), &[400]),
        (
            "first line folded",
            b"GET /hello.php HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n".to_vec(),
            &[400],
        ),
        ("noise", vec![0x80, 0xff, 0x00, 0x0d, 0x0a, 0x0d, 0x0a], &[400]),
    ]);
}

/// The page that refuses says nothing that the client had sent, and a line in the log says why.
#[test]
fn refusal_is_plain_and_logged() {
    let server = Setup::new(Kind::Classic).start();
    let mut connection = server.connect();
    connection.send(
        "GET /<script>alert(1)</script> HTTP/1.1\r\nHost: localhost\r\nBad Header: <b>\r\n\r\n",
    );
    let response = connection.response().expect(400);
    assert!(!response.text().contains("alert"), "{response}");
    assert!(response.text().len() < 2000, "{response}");
    server.log_line(&["white space between header name and colon", "127.0.0.1"]);
}

/// Requests that hang up half-way leave nothing behind.
#[test]
fn half_requests() {
    let server = Setup::new(Kind::Classic).start();
    let whole = post("Content-Length: 10\r\n", "0123456789");
    for end in (1..whole.len()).step_by(7) {
        let mut connection = server.connect();
        connection.send(&whole[..end]);
        connection.finish_sending();
        let _ = connection
            .try_response("POST")
            .map(|response| assert_eq!(response.status(), 400, "at {end}"));
    }
    assert!(!server.state_file("finish-outer").exists(), "half a request reached PHP");
    assert_eq!(server.send(&get("/hello.php")).expect(200).text(), "Hello from PHP");
}
