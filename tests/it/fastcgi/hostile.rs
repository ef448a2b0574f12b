//! Every way of being wrong: the request gets 502 or is cut, one line of the log says why, and the
//! next request is served.

use tokamak_fastcgi::{Kind, ProtocolStatus, Values, encode};

use super::backend::{Backend, end, stderr, stdout, text, whole};
use super::in_front_of;
use crate::harness::get;

/// One thing that an application may say, and what the log says to that.
struct Lie {
    name: &'static str,
    said: Vec<u8>,
    /// What becomes of the connection.
    then: Then,
    log: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// It is in order: the server uses it again.
    Kept,
    /// The server closes it.
    Refused,
    /// The application closes it.
    Closed,
}

fn lie(name: &'static str, said: impl Into<Vec<u8>>, log: &'static str) -> Lie {
    Lie { name, said: said.into(), then: Then::Refused, log }
}

fn cut(name: &'static str, said: impl Into<Vec<u8>>, log: &'static str) -> Lie {
    Lie { then: Then::Closed, ..lie(name, said, log) }
}

fn kept(name: &'static str, said: impl Into<Vec<u8>>, log: &'static str) -> Lie {
    Lie { then: Then::Kept, ..lie(name, said, log) }
}

/// A record with any header.
fn record(version: u8, kind: u8, id: u8, said_len: u16, content: &[u8]) -> Vec<u8> {
    let [high, low] = said_len.to_be_bytes();
    [&[version, kind, 0, id, high, low, 0, 0], content].concat()
}

fn ended(status: ProtocolStatus) -> Vec<u8> {
    let mut out = Vec::new();
    encode::end(&mut out, 1, 0, status);
    out
}

fn made(make: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    make(&mut out);
    out
}

/// What is answered 502.
fn lies() -> Vec<Lie> {
    let unanswered = "closed the connection unanswered";
    let cut_off = "closed the connection in the middle of its response";
    vec![
        lie("version-0", record(0, 6, 1, 0, b""), "a record of version 0, not 1"),
        lie("version-2", record(2, 6, 1, 0, b""), "a record of version 2, not 1"),
        lie("http", "HTTP/1.1 200 OK\r\n\r\n", "a record of version 72, not 1"),
        lie("type-12", record(1, 12, 1, 0, b""), "a record of the unknown type 12"),
        lie("type-0", record(1, 0, 1, 0, b""), "a record of the unknown type 0"),
        lie("other-id", record(1, 6, 2, 1, b"x"), "a record of another request"),
        lie("id-0", record(1, 6, 0, 1, b"x"), "a record of type 6 with the request id 0"),
        lie(
            "management-id-1",
            record(1, 10, 1, 0, b""),
            "a record of type 10 with the request id 1",
        ),
        lie("end-7", record(1, 3, 1, 7, b""), "a record of type 3 with 7 bytes"),
        lie("end-9", record(1, 3, 1, 9, b""), "a record of type 3 with 9 bytes"),
        lie("end-of-another", record(1, 3, 9, 8, &[0; 8]), "a record of another request"),
        lie("begin", record(1, 1, 1, 8, &[0; 8]), "only a web server sends"),
        lie("params", record(1, 4, 1, 2, b"\0\0"), "only a web server sends"),
        lie("stdin-end", record(1, 5, 1, 0, b""), "only a web server sends"),
        lie("abort", record(1, 2, 1, 0, b""), "only a web server sends"),
        lie(
            "values",
            made(|out| encode::values(out, Values::default())),
            "only a web server sends",
        ),
        lie(
            "values-that-lie",
            record(1, 10, 0, 3, b"\x05\x05a"),
            "a name-value pair that ends behind its stream",
        ),
        lie("many-values", record(1, 10, 0, 60_000, b""), "a record of type 10 with 60000 bytes"),
        lie("unknown-type", made(|out| encode::unknown_type(out, 9)), "only a web server sends"),
        lie("foreign", record(1, 200, 0, 0, b""), "only a web server sends"),
        lie(
            "more-after-the-end",
            [record(1, 6, 1, 0, b""), stdout("A: b\r\n\r\n")].concat(),
            "after the end of it",
        ),
        kept("nothing", end(), "the application sent no response"),
        kept(
            "nothing-but-end",
            ended(ProtocolStatus::Complete),
            "the application sent no response",
        ),
        lie("overloaded", ended(ProtocolStatus::Overloaded), "the application is overloaded"),
        lie("no-responder", ended(ProtocolStatus::UnknownRole), "does not answer requests"),
        lie("not-a-second", ended(ProtocolStatus::CannotMultiplex), "refused a second request"),
        lie("status-77", ended(ProtocolStatus::Unknown(77)), "ended the request with status 77"),
        lie(
            "refused-late",
            [stdout("A: b\r\n"), ended(ProtocolStatus::Overloaded)].concat(),
            "is overloaded",
        ),
        kept("headers-without-end", whole("A: b\r\nC: d\r\n"), "headers without an end"),
        lie("headers-for-ever", stdout("A: b\r\n".repeat(20_000)), "headers that are too long"),
        lie("one-header-for-ever", stdout("A".repeat(70_000)), "headers that are too long"),
        lie("no-colon", whole("hello\r\n\r\n"), "a header without a colon"),
        lie("status-line", whole("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"), "a header without a colon"),
        lie("blank-in-name", whole("A b: c\r\n\r\n"), "an invalid header name"),
        lie("blank-behind-name", whole("A : c\r\n\r\n"), "an invalid header name"),
        lie("folded", whole("A: b\r\n c\r\n\r\n"), "a header without a colon"),
        lie("folded-colon", whole("A: b\r\n c: d\r\n\r\n"), "an invalid header name"),
        lie("bare-cr", whole("A: b\rEvil: c\r\n\r\n"), "a header value with control characters"),
        lie("nul", whole("A: b\0c\r\n\r\n"), "a header value with control characters"),
        lie(
            "status-1000",
            whole("Status: 1000\r\n\r\n"),
            "a status that is not a number of three digits",
        ),
        lie(
            "status-abc",
            whole("Status: abc\r\n\r\n"),
            "a status that is not a number of three digits",
        ),
        lie("two-statuses", whole("Status: 200\r\nStatus: 404\r\n\r\n"), "two statuses"),
        lie("status-101", whole("Status: 101\r\n\r\nA: b\r\n\r\n"), "an interim status"),
        kept("only-interim", whole("Status: 103\r\nLink: </x>\r\n\r\n"), "no response"),
        cut("closed-at-once", "", unanswered),
        cut("closed-in-a-header", b"\x01\x06\0", cut_off),
        cut("closed-in-content", record(1, 6, 1, 100, b"A: b\r\n"), cut_off),
        cut("closed-behind-headers-begun", stdout("A: b\r\n"), cut_off),
        cut("closed-behind-complaint", stderr("help\n"), cut_off),
        cut("closed-in-end", &end()[..12], cut_off),
    ]
}

/// Responses that break off or go wrong behind their head. The client has the status by then, so
/// there is no 502: the server cuts the connection, so that no client takes a part for the whole.
fn broken_off() -> Vec<Lie> {
    let begun = || stdout("A: b\r\n\r\nbegun");
    let cut_off = "closed the connection in the middle of its response";
    vec![
        cut("late-end-missing", begun(), cut_off),
        cut("late-in-content", [begun(), record(1, 6, 1, 100, b"more")].concat(), cut_off),
        cut("late-stdout-end-but-no-end", [begun(), record(1, 6, 1, 0, b"")].concat(), cut_off),
        lie(
            "late-other-id",
            [begun(), record(1, 6, 2, 1, b"x")].concat(),
            "a record of another request",
        ),
        lie("late-version", [begun(), record(9, 6, 1, 1, b"x")].concat(), "a record of version 9"),
        lie(
            "late-kind",
            [begun(), record(1, Kind::Data as u8, 1, 1, b"x")].concat(),
            "only a web server sends",
        ),
        lie("late-refusal", [begun(), ended(ProtocolStatus::Overloaded)].concat(), "is overloaded"),
    ]
}

/// An application that lies as the path says, and tells the truth on any other path.
fn liar(lies: Vec<Lie>) -> Backend {
    Backend::start(move |client| {
        while let Some(asked) = client.request() {
            match lies.iter().find(|lie| asked.path() == format!("/{}", lie.name)) {
                None => client.send(&text("the truth")),
                Some(lie) => {
                    client.send(&lie.said);
                    match lie.then {
                        Then::Kept => {}
                        Then::Refused => {
                            assert!(
                                client.is_closed(),
                                "{}: the server does not listen any more",
                                lie.name
                            );
                            return;
                        }
                        Then::Closed => return,
                    }
                }
            }
        }
    })
}

#[test]
fn a_lie_is_answered_502_and_logged_once() {
    let backend = liar(lies());
    let server = in_front_of(&backend, "").start();
    let mut wrong = Vec::new();
    for lie in lies() {
        // A method that is never repeated, so that each lie is told once.
        let target = format!("/app/{}", lie.name);
        let response = server.send(&crate::harness::post(&target, "text/plain", "x"));
        if response.status() != 502 {
            wrong.push(format!("{}: {}", lie.name, response.status()));
        }
        let line = server.log_line(&[lie.log, &format!("url={target}")]);
        let lines =
            server.log().lines().filter(|line| line.contains(&format!("url={target}"))).count();
        let expected = 1 + usize::from(lie.name == "closed-behind-complaint");
        if lines != expected || !line.contains("status=502") {
            wrong.push(format!("{}: {lines} lines, one is {line}", lie.name));
        }
        if server.text("/app/good") != "the truth" {
            wrong.push(format!("{}: the next request suffers", lie.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_response_that_is_cut_is_not_taken_for_whole() {
    let backend = liar(broken_off());
    let server = in_front_of(&backend, "").start();
    for lie in broken_off() {
        let target = format!("/app/{}", lie.name);
        let mut connection = server.connect();
        connection.send(get(&target).bytes());
        // All of it may come before the front has sent the status; then there is still another to
        // send.
        if let Ok(response) = connection.try_response("GET") {
            assert_eq!(response.status(), 502, "{}: {response}", lie.name);
        }
        server.log_line(&[lie.log, &format!("url={target}")]);
        assert_eq!(server.text("/app/good"), "the truth", "{}", lie.name);
    }
}

/// What is unusual but right.
#[test]
fn the_truth_may_come_in_any_shape() {
    let padded = |kind: u8, content: &[u8], padding: u8| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, high, low, padding, 0], content, &vec![b'p'; padding.into()]].concat()
    };
    let long = vec![b'x'; 65_535];
    let truths: Vec<(&str, Vec<u8>, String)> = vec![
        (
            "/padded",
            [
                padded(6, b"A: b\r\n\r\nbody", 255),
                padded(7, b"", 3),
                padded(6, b"", 200),
                padded(3, &[0; 8], 77),
            ]
            .concat(),
            "body".into(),
        ),
        (
            "/no-end-of-stdout",
            [stdout("A: b\n\nbody"), ended(ProtocolStatus::Complete)].concat(),
            "body".into(),
        ),
        (
            "/longest",
            [stdout("A: b\r\n\r\n"), padded(6, &long, 255), end()].concat(),
            String::from_utf8(long.clone()).unwrap(),
        ),
        (
            "/between",
            [stdout("A: b\r\n\r\nbo"), stderr("a\n"), stdout("dy"), end()].concat(),
            "body".into(),
        ),
    ];
    let answers = truths.clone();
    let backend = Backend::start(move |client| {
        while let Some(asked) = client.request() {
            let (path, bytewise) = match asked.path().strip_prefix("/bytewise") {
                Some(path) => (path, true),
                None => (asked.path(), false),
            };
            let Some((_, said, _)) = answers.iter().find(|(name, ..)| *name == path) else {
                return;
            };
            if bytewise {
                said.chunks(if said.len() > 1000 { 977 } else { 1 })
                    .for_each(|bytes| client.send(bytes));
            } else {
                client.send(said);
            }
        }
    });
    let server = in_front_of(&backend, "").start();
    for _ in 0..2 {
        for (path, _, body) in &truths {
            for way in ["", "/bytewise"] {
                let response = server.get(&format!("/app{way}{path}")).expect(200);
                assert!(response.text() == *body, "{way}{path}: {response}");
            }
        }
    }
    assert_eq!(backend.connections(), 1, "none of this is a reason to close a connection");
}
