//! A request that breaks a rule ends alone (RFC 9113 section 8.1.1): behind a balancer, the others
//! on the connection are other visitors'.

use crate::harness::{Kind, Server, Setup};

use super::client::{Raw, field, head};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const GOAWAY: u8 = 7;

/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;

const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];

/// A field whose value is any bytes.
fn raw_field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0, name.len() as u8], name, &[value.len() as u8], value].concat()
}

/// A head with this method and path.
fn raw_head(method: &[u8], path: &[u8]) -> Vec<u8> {
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a")];
    fields.iter().flat_map(|(name, value)| raw_field(name, value)).collect()
}

/// The answer to a request that came while another one was under way: its status (0: reset by
/// PROTOCOL_ERROR). The other one, and one more, are answered.
fn status_beside_another(server: &Server, what: &str, frames: &[(u8, u8, Vec<u8>)]) -> u16 {
    let mut raw = Raw::open(server, b"");
    let name = format!(
        "{:x}",
        what.bytes().fold(7_u64, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte))
    );
    raw.get(1, &format!("/hold.php?name={name}"));
    server.holds(&name);
    for (kind, flags, payload) in frames {
        raw.frame(*kind, *flags, 3, payload);
    }
    let (kind, _, stream, payload) = raw.frame_of(&[HEADERS, RST_STREAM, GOAWAY]);
    assert_eq!(stream, 3, "{what}: {kind} {payload:?}");
    let status = match kind {
        RST_STREAM => {
            assert_eq!(payload, PROTOCOL_ERROR, "{what}");
            0
        }
        // The static table has 200, 204, 206, 304, 400, 404 and 500.
        _ => match payload[0] {
            0x88 => 200,
            0x8c => 400,
            0x8d => 404,
            other => panic!("{what}: status {other:x}"),
        },
    };
    server.let_go(&name);
    raw.get(5, "/hello.php");
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let (kind, _, stream, payload) = raw.frame_of(&[HEADERS, RST_STREAM, GOAWAY]);
        assert!(kind != GOAWAY && !(kind == RST_STREAM && stream != 3), "{what}: {payload:?}");
        if kind == HEADERS && stream != 3 {
            assert!(!answered.contains(&stream));
            answered.push(stream);
        }
    }
    status
}

#[test]
fn a_malformed_request_ends_alone() {
    let server = Setup::new(Kind::Classic).start();
    let with =
        |name: &[u8], value: &[u8]| [head("GET", "/hello.php"), raw_field(name, value)].concat();
    let path = |path: &[u8]| raw_head(b"GET", path);
    let cases: &[(&str, Vec<u8>)] = &[
        ("latin-1 in a path", path(b"/caf\xe9.php")),
        ("latin-1 in a query", path(b"/hello.php?q=\xe9")),
        ("DEL in a path", path(b"/hello\x7f.php")),
        ("a blank in a path", path(b"/hello .php")),
        ("a fragment", path(b"/hello.php#a")),
        ("a fragment behind a query", path(b"/hello.php?a=b#c")),
        ("a URL as path", path(b"http://a/hello.php")),
        ("no path", path(b"")),
        ("DEL in a value", with(b"x", b"a\x7fb")),
        ("a control byte in a value", with(b"x", b"\x01")),
        ("NUL in a value", with(b"x", b"a\0")),
        ("a line end in a value", with(b"x", b"a\r\nb: c")),
        ("a blank before a value", with(b"x", b" a")),
        ("a blank behind a value", with(b"x", b"a ")),
        ("a tab behind a value", with(b"x", b"a\t")),
        ("an upper-case name", with(b"X-Big", b"a")),
        ("a blank in a name", with(b"x y", b"a")),
        ("a colon in a name", with(b"x:y", b"a")),
        ("latin-1 in a name", with(b"x\xe9", b"a")),
        ("an empty name", with(b"", b"a")),
        ("a method that is no token", raw_head(b"G@T", b"/hello.php")),
        ("a method with a blank", raw_head(b"GET ", b"/hello.php")),
        ("an empty method", raw_head(b"", b"/hello.php")),
        ("an unknown pseudo-header field", with(b":other", b"a")),
        ("a second path", with(b":path", b"/")),
        ("two lengths", [with(b"content-length", b"0"), field("content-length", "1")].concat()),
        ("a length that is no number", with(b"content-length", b"0x0")),
    ];
    for (what, fields) in cases {
        let status = status_beside_another(&server, what, &[(HEADERS, WHOLE, fields.clone())]);
        assert!(matches!(status, 0 | 400), "{what}: {status}");
    }
}

#[test]
fn malformed_trailers_end_their_request_alone() {
    let server = Setup::new(Kind::Classic).start();
    for (what, trailer) in [
        ("a pseudo-header field in trailers", raw_field(b":path", b"/")),
        ("an upper-case name in trailers", raw_field(b"X-Sum", b"1")),
        ("DEL in trailers", raw_field(b"x", b"\x7f")),
    ] {
        let frames = [
            (HEADERS, 4, head("POST", "/echo.php")),
            (DATA, 0, b"body".to_vec()),
            (HEADERS, WHOLE, trailer),
        ];
        assert_eq!(status_beside_another(&server, what, &frames), 0, "{what}");
    }
}

/// More after the end of a request ends this request, as long as it is under way (RFC 9113 section
/// 5.1), and so does a WINDOW_UPDATE without an increment (section 6.9).
#[test]
fn a_wrong_frame_on_a_stream_ends_its_request_alone() {
    let server = Setup::new(Kind::Classic).workers(3).start();
    for (number, (kind, flags, payload, expected)) in [
        (DATA, 0, b"more".to_vec(), 5),
        (DATA, 1, Vec::new(), 5),
        (HEADERS, WHOLE, raw_field(b"x-sum", b"1"), 5),
        (WINDOW_UPDATE, 0, vec![0; 4], 1),
        (WINDOW_UPDATE, 0, vec![0x80, 0, 0, 0], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let mut raw = Raw::open(&server, b"");
        let names = ["other", "late"].map(|name| format!("{name}{number}"));
        for (stream, name) in [1, 3].into_iter().zip(&names) {
            raw.get(stream, &format!("/hold.php?name={name}"));
            server.holds(name);
        }
        // Twice, since a second one may be on its way when the first one is answered.
        (0..2).for_each(|_| assert!(raw.frame(kind, flags, 3, &payload)));
        let (answer, _, stream, code) = raw.frame_of(&[HEADERS, RST_STREAM, GOAWAY]);
        let expected = [0, 0, 0, expected];
        assert_eq!((answer, stream, &code[..]), (RST_STREAM, 3, &expected[..]), "{number}");
        names.iter().for_each(|name| server.let_go(name));
        raw.get(5, "/hello.php");
        let mut answers = [(); 2].map(|()| raw.frame_of(&[HEADERS, RST_STREAM, GOAWAY]));
        answers.sort_by_key(|(_, _, stream, _)| *stream);
        let answers = answers.map(|(kind, _, stream, fields)| (kind, stream, fields[0]));
        assert_eq!(answers, [(HEADERS, 1, 0x88), (HEADERS, 5, 0x88)], "{number}");
    }
}

/// What HTTP/1 takes, and how PHP gets it.
#[test]
fn a_target_is_the_same_over_both_protocols() {
    let server = Setup::new(Kind::Classic).start();
    for (query, expected) in [
        ("{\"a\":1}", "{%22a%22:1}"),
        ("`<b>|^\\[]", "`%3Cb%3E|^\\[]"),
        ("\u{e4}", "\u{e4}"),
        ("a=b?c/d'e", "a=b?c/d'e"),
    ] {
        let target = format!("/server.php?{query}");
        let mut connection = server.connect();
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let one: serde_json::Value = serde_json::from_slice(&connection.response().body).unwrap();
        assert_eq!(one["QUERY_STRING"], expected, "HTTP/1: {query}");
        let mut raw = Raw::open(&server, b"");
        raw.frame(HEADERS, WHOLE, 1, &raw_head(b"GET", target.as_bytes()));
        let body = raw.frame_of(&[DATA]).3;
        let two: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(two["QUERY_STRING"], expected, "HTTP/2: {query}");
        assert_eq!(one["REQUEST_URI"], two["REQUEST_URI"], "{query}");
    }
}
