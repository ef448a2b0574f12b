//! A request that breaks a rule ends alone, and a connection that breaks one ends; others are
//! served.

use super::client::{Raw, closed, frame, head, headers, number};
use super::server;
use crate::harness::Kind;
use crate::http2::client::runtime;

/// `H3_MESSAGE_ERROR`.
const MESSAGE_ERROR: &str = "reset 0x10e";
/// `H3_FRAME_UNEXPECTED`.
const UNEXPECTED: &str = "closed 0x105";

/// A frame DATA.
fn data(bytes: &[u8]) -> Vec<u8> {
    frame(0, bytes)
}

#[test]
fn a_malformed_request_ends_alone() {
    let (_secured, target) = server(Kind::Classic);
    let with = |name: &[u8], value: &[u8]| head("GET", "/hello.php", &[(name, value)]);
    let post = |fields: &[(&[u8], &[u8])], body: &[u8]| {
        [head("POST", "/echo.php", fields), data(body)].concat()
    };
    let length = |said: &'static [u8], body: &[u8]| post(&[(b"content-length", said)], body);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a plain request", head("GET", "/hello.php", &[]), "200"),
        (
            "unknown frames before and behind",
            { [frame(0x21, b"abc"), head("GET", "/hello.php", &[]), frame(0x40, b"")].concat() },
            "200",
        ),
        ("connection", with(b"connection", b"close"), MESSAGE_ERROR),
        ("transfer-encoding", with(b"transfer-encoding", b"chunked"), MESSAGE_ERROR),
        ("upgrade", with(b"upgrade", b"websocket"), MESSAGE_ERROR),
        ("keep-alive", with(b"keep-alive", b"1"), MESSAGE_ERROR),
        ("te", with(b"te", b"gzip"), MESSAGE_ERROR),
        ("te: trailers", with(b"te", b"trailers"), "200"),
        ("a capital letter", with(b"X-Own", b"1"), MESSAGE_ERROR),
        ("a line end in a value", with(b"x-own", b"a\r\nb: c"), MESSAGE_ERROR),
        ("an unknown pseudo-header", with(b":own", b"1"), MESSAGE_ERROR),
        (
            "no method",
            headers(&[(b":scheme", b"https"), (b":path", b"/"), (b":authority", b"a")]),
            MESSAGE_ERROR,
        ),
        (
            "no host",
            headers(&[(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/")]),
            MESSAGE_ERROR,
        ),
        ("CONNECT", head("CONNECT", "/", &[]), "405"),
        ("TRACE", head("TRACE", "/hello.php", &[]), "405"),
        ("another host", with(b"host", b"other"), MESSAGE_ERROR),
        ("two hosts", head("GET", "/", &[(b"host", b"localhost"), (b"host", b"localhost")]), "400"),
        ("a length that is no number", length(b"+1", b"x"), "400"),
        ("two lengths", post(&[(b"content-length", b"1"), (b"content-length", b"1")], b"x"), "400"),
        ("the right length", length(b"3", b"abc"), "200"),
        ("less than its length", length(b"5", b"abc"), "400"),
        ("more than its length", length(b"2", b"abc"), "400"),
        ("a space in the path", head("GET", "/a b", &[]), MESSAGE_ERROR),
        ("a target that is no path", head("GET", "*", &[]), "400"),
    ];
    for (what, bytes, expected) in cases {
        let (verdict, other) = runtime().block_on(async {
            let raw = Raw::open(&target).await;
            let verdict = raw.request(&bytes).await.verdict();
            // The connection goes on.
            (verdict, raw.request(&head("GET", "/hello.php", &[])).await.verdict())
        });
        assert_eq!((&*verdict, &*other), (expected, "200"), "{what}");
    }
}

#[test]
fn a_connection_that_breaks_a_rule_ends() {
    let (secured, target) = server(Kind::Classic);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("data before a head", data(b"x"), UNEXPECTED),
        ("settings on a request's stream", frame(4, b""), UNEXPECTED),
        ("a frame of HTTP/2", frame(2, b"12345"), UNEXPECTED),
        ("a head that is cut", vec![1, 20, 0, 0], "closed 0x106"),
        ("compression that is none", frame(1, &[0xff; 4]), "closed 0x200"),
    ];
    for (what, bytes, expected) in cases {
        let verdict = runtime().block_on(async {
            let raw = Raw::open(&target).await;
            let _ = raw.request(&bytes).await;
            closed(&raw.end().await)
        });
        assert_eq!(verdict, expected, "{what}");
        secured.server.log_line(&["HTTP/3 connection closed"]);
        assert_eq!(target.get("/hello.php").status(), 200, "{what}: others are served");
    }
}

#[test]
fn the_control_stream_has_rules() {
    let (_secured, target) = server(Kind::Classic);
    let one_way = |kind: u64, bytes: &[u8]| [&number(kind)[..], bytes].concat();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a second one", one_way(0, &frame(4, b"")), "closed 0x103"),
        ("a second one of the decoder", one_way(3, b""), "closed 0x103"),
        ("a push", one_way(1, b"\x00"), ""),
        ("one of an unknown kind", one_way(0x21, b"grease"), ""),
    ];
    for (what, bytes, expected) in cases {
        let verdict = runtime().block_on(async {
            let raw = Raw::open(&target).await;
            let mut decoder = raw.quic.open_uni().await.unwrap();
            decoder.write_all(&number(3)).await.unwrap();
            let mut stream = raw.quic.open_uni().await.unwrap();
            let _ = stream.write_all(&bytes).await;
            if expected.is_empty() {
                return raw.request(&head("GET", "/hello.php", &[])).await.verdict();
            }
            closed(&raw.end().await)
        });
        let expected = if expected.is_empty() { "200" } else { expected };
        assert_eq!(verdict, expected, "{what}");
    }
    let frames: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a second SETTINGS", frame(4, b""), UNEXPECTED),
        ("DATA", frame(0, b"x"), UNEXPECTED),
        ("a frame without end", [number(0x21), number(1 << 30)].concat(), "closed 0x107"),
    ];
    for (what, bytes, expected) in frames {
        let verdict = runtime().block_on(async {
            let mut raw = Raw::open(&target).await;
            raw.control.write_all(&bytes).await.unwrap();
            closed(&raw.end().await)
        });
        assert_eq!(verdict, expected, "{what}");
    }
    // It may not end (RFC 9114 section 6.2.1).
    let verdict = runtime().block_on(async {
        let mut raw = Raw::open(&target).await;
        raw.control.finish().unwrap();
        closed(&raw.end().await)
    });
    assert_eq!(verdict, "closed 0x104");
}
