//! What passes the screen means the same to the HTTP library: it sees as many requests, with the
//! same bodies, and finds nothing to refuse.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::rt::{Read, ReadBufCursor, Write};
use proptest::prelude::*;

use super::{LIMITS, Progress, feed_all, honest, piece};

/// A connection whose client has sent everything already, in reads of a few bytes.
struct Sent {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
    written: Rc<RefCell<Vec<u8>>>,
}

impl Read for Sent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let from = self.at;
        let end = self.bytes.len().min(from + self.step.min(to.remaining()));
        to.put_slice(&self.bytes[from..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

impl Write for Sent {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The lengths of the bodies that the library hands over, and what it writes.
fn library(bytes: &[u8], step: usize) -> (Vec<u64>, Vec<u8>) {
    let bodies = Rc::new(RefCell::new(Vec::new()));
    let written = Rc::new(RefCell::new(Vec::new()));
    let io = Sent { bytes: bytes.to_vec(), at: 0, step, written: written.clone() };
    let seen = bodies.clone();
    let service =
        hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let seen = seen.clone();
            async move {
                if let Ok(body) = request.into_body().collect().await {
                    seen.borrow_mut().push(body.to_bytes().len() as u64);
                }
                Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new()))
            }
        });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_headers(LIMITS.fields).half_close(true).pipeline_flush(true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // An error is judged by what it leaves in `written` and `bodies`.
    let _ = runtime.block_on(async { builder.serve_connection(io, service).await });
    let written = written.borrow().clone();
    (bodies.borrow().clone(), written)
}

/// The bodies of the complete requests, as the screen sees them.
fn screened(bytes: &[u8]) -> Vec<u64> {
    let mut screen = super::Screen::new(LIMITS);
    let mut bodies = Vec::new();
    let mut idle = true;
    for byte in bytes.chunks(1) {
        screen.feed(byte).unwrap();
        let now = screen.part() == Progress::Idle;
        if now && !idle {
            bodies.push(screen.body());
        }
        idle = now;
    }
    bodies
}

fn agree(bytes: &[u8], step: usize) {
    let (verdict, screen) = feed_all([bytes]);
    if verdict.is_err() || screen.part() != Progress::Idle {
        return;
    }
    let (bodies, written) = library(&screen.encode(bytes), step);
    let written = String::from_utf8_lossy(&written);
    assert!(!written.contains("400 Bad"), "refused: {}", bytes.escape_ascii());
    assert!(!written.contains("431 "), "refused: {}", bytes.escape_ascii());
    let expected = screened(bytes);
    // The library stops after a request that asks to close; until there both must have seen the
    // same.
    assert_eq!(bodies, expected[..bodies.len()], "{}", bytes.escape_ascii());
    let closes = bytes.to_ascii_lowercase().windows(5).any(|word| word == b"close");
    let old = bytes.windows(8).any(|word| word == b"HTTP/1.0");
    assert!(closes || old || bodies.len() == expected.len(), "{}", bytes.escape_ascii());
}

#[test]
fn known_streams_agree() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\n";
    for text in [
        format!(
            "{head}Transfer-Encoding: CHUNKED\r\n\r\n5;a=b;c\r\nhello\r\n0\r\nX-T: \
                1\r\n\r\n{head}\r\n"
        ),
        format!(
            "{head}Transfer-Encoding:\tchunked\t\r\n\r\n0000000000000001\r\nx\r\n0\r\n\r\n{head}\r\n"
        ),
        format!(
            "{head}Content-Length: 0005\r\n\r\nhello\r\n{head}Content-Length: 0\r\n\r\n{head}\r\n"
        ),
        format!("{head}Content-Length: 1000\r\n\r\n{}{head}\r\n", "x".repeat(1000)),
        format!("{head}Upgrade: h2c\r\nConnection: upgrade\r\n\r\n{head}\r\n"),
        format!("{head}X-\u{e9}: \u{e9}\r\n\r\n"),
        format!(
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nGET http://a?b HTTP/1.1\r\nHost: \
                a\r\n\r\n{head}\r\n"
        ),
        "GET /\"{}|^\\[]?`{}|^\\[]' HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /`\"?\"`?` HTTP/1.1\r\nHost: a\r\n\r\nGET /?\" HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ] {
        for step in [1, 3, 7, 4096] {
            agree(text.as_bytes(), step);
        }
    }
    let (bodies, _) = library(format!("{head}Content-Length: 2\r\n\r\nab{head}\r\n").as_bytes(), 5);
    assert_eq!(bodies, [2, 0], "the comparison sees requests at all");
}

#[test]
fn every_byte_that_passes_in_a_target_passes_there_too() {
    for byte in 0x21..0x7f_u8 {
        for target in [format!("/a{}b", char::from(byte)), format!("/?a{}b", char::from(byte))] {
            agree(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), 4096);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn honest_streams_agree(stream in honest(), step in 1_usize..200) {
        agree(&stream, step);
    }

    #[test]
    fn crooked_streams_agree(stream in prop::collection::vec(piece(), 0..14), step in 1_usize..200) {
        agree(&stream.concat(), step);
    }

    #[test]
    fn changed_streams_agree(stream in honest(), at in any::<usize>(), byte in any::<u8>(), step in 1_usize..200) {
        let mut bytes = stream;
        let at = at % bytes.len();
        bytes[at] = byte;
        agree(&bytes, step);
    }
}
