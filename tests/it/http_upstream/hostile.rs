//! Every way of being wrong: the request gets 502 or is cut, one line of the log says why, and the
//! next request is served.

use super::backend::{Backend, text};
use super::in_front_of;
use crate::harness::{Failure, Server, get};

/// What an application says, and what the log says to that.
struct Lie {
    name: &'static str,
    said: Vec<u8>,
    /// The application closes the connection then; else the server does.
    closes: bool,
    log: &'static str,
}

fn lie(name: &'static str, said: impl AsRef<[u8]>, log: &'static str) -> Lie {
    Lie { name, said: said.as_ref().to_vec(), closes: false, log }
}

fn cut(name: &'static str, said: impl AsRef<[u8]>, log: &'static str) -> Lie {
    Lie { closes: true, ..lie(name, said, log) }
}

const HEAD: &str = "its head is malformed";
const LENGTH: &str = "its length is unclear";
const ENCODING: &str = "its transfer encoding is unknown";
const CUT: &str = "closed the connection in the middle of its response";

/// What is answered 502.
fn lies() -> Vec<Lie> {
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nab");
    vec![
        lie("fastcgi", [1, 6, 0, 1, 0, 0, 0, 0], HEAD),
        lie("tls", [21, 3, 1, 0, 2, 2, 10], HEAD),
        lie("http2", "HTTP/2 200\r\n\r\n", HEAD),
        lie("http09", "<html>", HEAD),
        lie("blank-line-first", "\r\nHTTP/1.1 200 OK\r\n\r\n", HEAD),
        lie("status-1000", "HTTP/1.1 1000 OK\r\n\r\n", HEAD),
        lie("status-99", "HTTP/1.1 099 OK\r\n\r\n", HEAD),
        lie("blank-behind-name", with("A : b"), HEAD),
        lie("folded", with("A: b\r\n c: d"), HEAD),
        lie("bare-cr", with("A: b\rEvil: c"), HEAD),
        lie("nul", with("A: b\0c"), HEAD),
        lie("no-colon", with("A"), HEAD),
        lie("many-fields", with(&"A: b\r\n".repeat(101)), HEAD),
        lie("long-head", with(&format!("A: {}", "b".repeat(70_000))), HEAD),
        lie("endless-head", format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(70_000)), HEAD),
        lie("two-lengths", with("Content-Length: 2\r\nContent-Length: 3"), LENGTH),
        lie("signed-length", with("Content-Length: +2"), LENGTH),
        lie("hex-length", with("Content-Length: 0x2"), LENGTH),
        lie("huge-length", with("Content-Length: 99999999999999999999"), LENGTH),
        lie("gzip-coding", with("Transfer-Encoding: gzip, chunked"), ENCODING),
        lie("twice-chunked", with("Transfer-Encoding: chunked, chunked"), ENCODING),
        lie("chunked-1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ENCODING),
        lie(
            "both-framings",
            with("Content-Length: 2\r\nTransfer-Encoding: chunked"),
            "both a length and a transfer encoding",
        ),
        lie(
            "uninvited-101",
            "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\n\r\n",
            "changes the protocol",
        ),
        lie(
            "endless-interim",
            "HTTP/1.1 103 Hints\r\n\r\n".repeat(101),
            "interim responses without an end",
        ),
        cut("only-interim", "HTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n", CUT),
        cut("closed-at-once", "", "closed the connection unanswered"),
        cut("closed-in-head", "HTTP/1.1 200 OK\r\nA: ", CUT),
    ]
}

/// Responses that break off or go wrong behind their head. The client has the status by then, so
/// there is no 502: the server cuts the connection, so that no client takes a part for the whole.
fn broken_off() -> Vec<Lie> {
    let chunked = |rest: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n{rest}")
    };
    let chunks = "its chunks are malformed";
    vec![
        cut("late-length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun", CUT),
        cut("late-chunk", chunked("9\r\nmore"), CUT),
        cut("late-last-chunk", chunked(""), CUT),
        cut("late-trailer", chunked("0\r\nX: y\r\n"), CUT),
        lie("late-size", chunked("x\r\n"), chunks),
        lie("late-chunk-end", chunked("1\r\nab\r\n"), chunks),
        lie("late-line-feed", chunked("1\na\r\n0\r\n\r\n"), chunks),
        lie("late-long-extension", chunked(&format!("1;{}", "x".repeat(2000))), chunks),
        lie("late-endless-trailer", chunked(&format!("0\r\n{}", "A: b\r\n".repeat(4000))), chunks),
    ]
}

/// An application that lies as the path says, and tells the truth on any other path.
fn liar(lies: Vec<Lie>) -> Backend {
    Backend::start(move |client| {
        while let Some(asked) = client.request() {
            match lies.iter().find(|lie| asked.target() == format!("/app/{}", lie.name)) {
                None => client.send(&text("the truth")),
                Some(lie) => {
                    client.send(&lie.said);
                    assert!(lie.closes || client.is_closed(), "{}: the server goes on", lie.name);
                    return;
                }
            }
        }
    })
}

#[test]
fn a_lie_is_answered_502_and_logged_once() {
    let backend = liar(lies());
    let server = in_front_of(&backend, "").start();
    for lie in lies() {
        let target = format!("/app/{}", lie.name);
        server.get(&target).expect(502);
        let line = server.log_line(&["status=502", &format!("url={target}")]);
        assert!(line.contains(lie.log), "{}: {line}", lie.name);
        assert_eq!(server.text("/app/true"), "the truth", "after {}", lie.name);
    }
}

/// The answer is 502, or the connection is closed within it; the log says why.
pub fn is_cut_off(server: &Server, target: &str, log: &str) {
    let mut connection = server.connect();
    connection.send(get(target).bytes());
    match connection.try_response("GET") {
        Ok(response) => assert_eq!(response.status(), 502, "{target}"),
        Err(failure) => assert!(matches!(failure, Failure::Closed(_)), "{target}: {failure}"),
    }
    let line = server.log_line(&[target]);
    assert!(line.contains(log), "{target}: {line}");
}

#[test]
fn what_breaks_off_is_not_taken_for_the_whole() {
    let backend = liar(broken_off());
    let server = in_front_of(&backend, "").start();
    for lie in broken_off() {
        let target = format!("/app/{}", lie.name);
        is_cut_off(&server, &target, lie.log);
        assert_eq!(server.text("/app/true"), "the truth", "after {}", lie.name);
    }
}

/// Bytes behind an answer are not the answer of the next request.
#[test]
fn what_nobody_asked_for_reaches_nobody() {
    let backend = Backend::answering(|asked| match asked.target() {
        "/app/two" => [text("first"), text("smuggled")].concat(),
        "/app/longer" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nfirst".to_vec(),
        "/app/none" => b"HTTP/1.1 204 No\r\nContent-Length: 8\r\n\r\nsmuggled".to_vec(),
        _ => text("the truth"),
    });
    let server = in_front_of(&backend, "").line("loops = 1").start();
    for (target, expected) in [("/app/two", "first"), ("/app/longer", "fi"), ("/app/none", "")] {
        assert_eq!(server.text("/app/true"), "the truth");
        let before = backend.connections();
        assert_eq!(server.get(target).text(), expected, "{target}");
        assert_eq!(server.text("/app/true"), "the truth", "after {target}");
        assert_eq!(backend.connections(), before + 1, "{target}: the connection is not kept");
    }
}
