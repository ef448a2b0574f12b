//! Bodies that the application gets while the client still sends them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::backend::{Backend, Client, text};
use super::in_front_of;
use crate::harness::{Connection, Kind, Server, Setup, free_address, numbered, post};
use crate::http2::client::{exchange, request};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that sends bodies on as they come.
fn streaming(backend: &Backend) -> Setup {
    in_front_of(backend, "request_buffering = false")
}

/// An application whose connections `serve` has, and what that says of them.
fn reporting(
    serve: impl Fn(&mut Client) -> Option<String> + Send + Sync + 'static,
) -> (Backend, Receiver<Option<String>>) {
    let (report, reports) = channel();
    let backend = Backend::start(move |client| {
        let _ = report.send(serve(client));
    });
    (backend, reports)
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("it is text")
}

/// Sends the first half of a body, which the application has to get before the other one.
fn sends_half_first(head: &str, halves: [&str; 2], expected: [&str; 2], field: (&str, &str)) {
    let (got, first) = channel();
    let lengths = expected.map(str::len);
    let (backend, reports) = reporting(move |client| {
        let asked = client.head()?;
        got.send((asked, text_of(client.take(lengths[0])?))).ok()?;
        let rest = text_of(client.take(lengths[1])?);
        client.send(&text("whole"));
        Some(rest)
    });
    let server = streaming(&backend).start();
    let mut connection = server.connect();
    connection.send(format!("POST /app HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n"));
    connection.send(halves[0]);
    let (asked, half) = first.recv_timeout(PATIENCE).expect("the application is asked");
    assert_eq!((half.as_str(), asked.field(field.0).as_deref()), (expected[0], Some(field.1)));
    connection.send(halves[1]);
    assert_eq!(connection.response().expect(200).text(), "whole");
    let rest = reports.recv_timeout(PATIENCE).expect("the rest comes");
    assert_eq!(rest.as_deref(), Some(expected[1]));
}

#[test]
fn a_body_goes_on_while_it_comes() {
    let length = ("content-length", "6");
    sends_half_first("Content-Length: 6", ["abc", "def"], ["abc", "def"], length);
    let chunks = ["3\r\nabc\r\n", "3;x=y\r\ndef\r\n0\r\nX: y\r\n\r\n"];
    // Fields behind the body are passed on, but for those that only proxies may write.
    let chunks = [chunks[0], &chunks[1].replace("X: y", "X: y\r\nX-Real-IP: 1.2.3.4")];
    let expected = [chunks[0], "3\r\ndef\r\n0\r\nx: y\r\n\r\n"];
    let chunked = ("transfer-encoding", "chunked");
    sends_half_first("Transfer-Encoding: chunked", chunks, expected, chunked);
}

/// It answers as it reads, and everybody's buffers are smaller than the body.
#[test]
fn an_echo_of_any_length_comes_back() {
    let backend = Backend::start(|client| {
        while let Some(asked) = client.head() {
            let length: usize = asked.field("content-length").unwrap().parse().unwrap();
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes());
            let mut left = length;
            while left > 0 {
                let Some(piece) = client.take(left.min(4096)) else { return };
                client.send(&piece);
                left -= piece.len();
            }
        }
    });
    let server = streaming(&backend).line("loops = 1").start();
    let body = numbered(5_000_000);
    let answer = server.send(&post("/app", "text/x", body.clone())).expect(200);
    assert!(answer.body == body);
    let asked = request("POST", "/app").header("content-length", body.len());
    let answers = exchange(&server, vec![(asked, body.clone())]);
    assert!(answers[0].body() == &body);
    let kept = server.send(&post("/app", "text/x", "small")).expect(200);
    assert_eq!(kept.text(), "small");
}

/// An application that reads heads, answers them so, and says what happens.
fn only_heads(answer: &'static str) -> (Backend, Receiver<&'static str>) {
    let (report, reports) = channel();
    let backend = Backend::start(move |client| {
        if client.head().is_some() {
            let _ = report.send("head");
            client.send(answer.as_bytes());
            let _ = report.send(if client.is_closed() { "closed" } else { "open" });
        }
    });
    (backend, reports)
}

/// Begins a request whose body has such a length, and waits until the application has its head.
fn begins(server: &Server, reports: &Receiver<&str>, length: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!("POST /app HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n"));
    assert_eq!(reports.recv_timeout(PATIENCE), Ok("head"));
    connection
}

#[test]
fn an_early_answer_reaches_the_client() {
    let (backend, reports) =
        only_heads("HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large");
    let server = streaming(&backend).start();
    let mut connection = begins(&server, &reports, "Content-Length: 1000");
    connection.send("abc");
    assert_eq!(connection.response().expect(413).text(), "too large");
    // A connection on which half of a request was sent is not used again, on either side.
    assert_eq!(reports.recv_timeout(PATIENCE), Ok("closed"));
    assert!(connection.closes_within(PATIENCE), "the rest is no request");
}

#[test]
fn a_body_that_breaks_off_ends_the_request() {
    let (backend, reports) = only_heads("");
    let server = streaming(&backend).start();
    drop(begins(&server, &reports, "Content-Length: 1000"));
    assert_eq!(reports.recv_timeout(PATIENCE), Ok("closed"));
}

#[test]
fn limits_of_bodies_hold() {
    let (backend, reports) = only_heads("");
    let server =
        streaming(&backend).line("timeouts.body = \"1s\"").line("limits.body = 10000").start();
    let mut slow = begins(&server, &reports, "Content-Length: 1000");
    assert_eq!(slow.response().status(), 408);
    assert_eq!(reports.recv_timeout(PATIENCE), Ok("closed"));
    let mut large = begins(&server, &reports, "Transfer-Encoding: chunked");
    large.send(format!("4e20\r\n{}\r\n", "x".repeat(20_000)));
    assert_eq!(large.response().status(), 413);
    assert_eq!(reports.recv_timeout(PATIENCE), Ok("closed"));
}

/// An application that closes because a client is slow has not failed, and its address is not left
/// out.
#[test]
fn an_impatient_application_is_not_left_out() {
    let (report, reports) = channel();
    let backend = Backend::start(move |client| {
        if let Some(asked) = client.head() {
            let _ = report.send("head");
            if asked.target() == "/app/fast" {
                client.take(3);
                client.send(&text("ok"));
            }
        }
    });
    // Twice, so that one could be left out.
    let lines = format!(
        "address = [\"{0}\", \"{1}\"]\nrequest_buffering = false\nfailures = 1",
        backend.url,
        backend.url.replace("127.0.0.1", "localhost")
    );
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&lines)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    for _ in 0..4 {
        let mut slow = begins(&server, &reports, "Content-Length: 1000");
        assert_eq!(slow.response().status(), 408);
    }
    for _ in 0..4 {
        let answer = server.send(&post("/app/fast", "text/x", "abc")).expect(200);
        assert_eq!(answer.text(), "ok");
    }
    assert!(!server.log().contains("left out"), "{}", server.log());
}

/// The client takes nothing of the answer while it sends, and there is no room for more of it: that
/// ends, and does not hold the connection for ever.
#[test]
fn an_answer_without_room_ends_the_request() {
    let (backend, reports) = reporting(|client| {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n";
        client.head()?;
        client.send(answer.as_bytes());
        while client.try_send(&[b'x'; 65536]) {}
        None
    });
    let lines = "request_buffering = false\nread_timeout = \"1s\"";
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{}\"\n{lines}", backend.url))
        .site_line("spool = 0")
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let mut connection = server.connect();
    connection.send("POST /app HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc");
    reports.recv_timeout(PATIENCE).expect("the application is stopped");
    assert!(connection.try_response("POST").is_err(), "it breaks off");
    server.log_line(&["the application stopped in the middle of its response"]);
}

/// The answer reaches the client while it sends, and the rest of its body reaches the application.
#[test]
fn both_talk_at_the_same_time() {
    let backend = Backend::start(|client| {
        if client.head().is_some() {
            client.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for _ in 0..3 {
                let Some(word) = client.take(9) else { return };
                client.send(&word);
            }
            client.send(b"0\r\n\r\n");
        }
    });
    let server = in_front_of(&backend, "request_buffering = false").start();
    let mut connection = server.connect();
    connection.send("POST /app HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for number in 0..3 {
        let word = format!("4\r\nabc{number}\r\n");
        connection.send(&word);
        if number == 0 {
            assert_eq!(connection.head().expect("an answer").status, 200);
        }
        let mut heard = Vec::new();
        while heard.len() < word.len() {
            heard.extend(connection.take(word.len() - heard.len()).expect("more"));
        }
        assert_eq!(text_of(heard), word);
    }
}

/// A client that pauses is not the application's fault.
#[test]
fn times_of_the_application_do_not_run_for_the_client() {
    let backend = Backend::answering(|asked| text(&text_of(asked.body.clone())));
    let lines = "request_buffering = false\nsend_timeout = \"1s\"\nfirst_byte_timeout = \"1s\"";
    let server = in_front_of(&backend, lines).start();
    let mut connection = server.connect();
    connection.send("POST /app HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc");
    std::thread::sleep(Duration::from_millis(2500));
    connection.send("def");
    assert_eq!(connection.response().expect(200).text(), "abcdef");
}

#[test]
fn an_address_that_cannot_be_reached_is_passed_over() {
    let backend = Backend::answering(|asked| text(&text_of(asked.body.clone())));
    let nobody = free_address();
    let lines =
        format!("address = [\"http://{nobody}\", \"{}\"]\nrequest_buffering = false", backend.url);
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&lines)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    for _ in 0..4 {
        let answer = server.send(&post("/app", "text/x", "abc")).expect(200);
        assert_eq!(answer.text(), "abc");
    }
}
