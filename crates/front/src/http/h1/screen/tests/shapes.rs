//! The shapes by which one request is made to look like two, and other malformed heads, each with
//! its verdict.

use super::{Violation, judge_split};

/// A head with these lines after the request line and `Host`, and what follows it.
fn head(lines: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")
}

fn line(request_line: &str) -> String {
    format!("{request_line}\r\nHost: a\r\n\r\n")
}

fn check(rows: &[(String, Option<Violation>)]) {
    for (bytes, expected) in rows {
        let verdict = judge_split(bytes.as_bytes()).err();
        assert_eq!(verdict, *expected, "{}", bytes.escape_debug());
    }
}

#[test]
fn lengths() {
    use Violation::*;
    check(&[
        (head("Content-Length: 3\r\n", "abc"), None),
        (head("Content-Length: 003\r\n", "abc"), None),
        (head("Content-Length:3 \t\r\n", "abc"), None),
        (head("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), Some(TwoLengths)),
        (head("Content-Length: 3\r\ncontent-length: 4\r\n", "abc"), Some(TwoLengths)),
        (head("Content-Length: 0\r\nContent-Length: 44\r\n", ""), Some(TwoLengths)),
        (head("Content-Length: 3, 3\r\n", "abc"), Some(BadLength)),
        (head("Content-Length: 5,5\r\n", "abc"), Some(BadLength)),
        (head("Content-Length: +5\r\n", "abcde"), Some(BadLength)),
        (head("Content-Length: -1\r\n", ""), Some(BadLength)),
        (head("Content-Length: 0x5\r\n", "abcde"), Some(BadLength)),
        (head("Content-Length: 5 5\r\n", "abcde"), Some(BadLength)),
        (head("Content-Length: 5.0\r\n", "abcde"), Some(BadLength)),
        (head("Content-Length: \"5\"\r\n", "abcde"), Some(BadLength)),
        (head("Content-Length: \r\n", ""), Some(BadLength)),
        (head("Content-Length:\r\n", ""), Some(BadLength)),
        (head("Content-Length: ٣\r\n", "abc"), Some(BadLength)),
        (head("Content-Length: 18446744073709551617\r\n", "a"), Some(BadLength)),
        (head("Content-Length: 00000000000000000001\r\n", "a"), Some(BadLength)),
        (head("Content-Length: 9999999999999999999\r\n", "a"), Some(BodyTooLarge)),
        (head("Content-Length\t: 3\r\n", "abc"), Some(SpaceBeforeColon)),
        (head("Content-Length : 3\r\n", "abc"), Some(SpaceBeforeColon)),
        (head("Content-Length: 3\r\n 4\r\n", "abc"), Some(ObsoleteFold)),
        (head("Content-Length: 3\n\r\n", "abc"), Some(BareLf)),
        (head("Content-Length: 3\rX: y\r\n", "abc"), Some(BareCr)),
        (head("Content-Length: 3\0\r\n", "abc"), Some(ControlByte)),
    ]);
}

#[test]
fn codings() {
    use Violation::*;
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    let end = "0\r\n\r\n";
    check(&[
        (head(CHUNKED, end), None),
        (head("transfer-ENCODING:\tChUnKeD \r\n", end), None),
        (head(&format!("Content-Length: 5\r\n{CHUNKED}"), end), Some(LengthAndCoding)),
        (head(&format!("{CHUNKED}Content-Length: 5\r\n"), end), Some(LengthAndCoding)),
        (head(&format!("Content-Length: 0\r\n{CHUNKED}"), end), Some(LengthAndCoding)),
        (head(&format!("{CHUNKED}{CHUNKED}"), end), Some(TwoCodings)),
        (head(&format!("{CHUNKED}Transfer-Encoding: identity\r\n"), end), Some(TwoCodings)),
        (head("Transfer-Encoding: identity\r\n", ""), Some(UnknownCoding)),
        (head("Transfer-Encoding: gzip\r\n", ""), Some(UnknownCoding)),
        (head("Transfer-Encoding: gzip, chunked\r\n", end), Some(UnknownCoding)),
        (head("Transfer-Encoding: xchunked\r\n", end), Some(UnknownCoding)),
        (head("Transfer-Encoding: chunked, identity\r\n", end), Some(UnknownCoding)),
        (head("Transfer-Encoding: chunked, chunked\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: chunked,\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: , chunked\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: chunked;q=1\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: \"chunked\"\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: chunked foo\r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: \r\n", end), Some(BadCoding)),
        (head("Transfer-Encoding: \u{b}chunked\r\n", end), Some(ControlByte)),
        (head("Transfer-Encoding: chunked\u{0}\r\n", end), Some(ControlByte)),
        (head("Transfer-Encoding : chunked\r\n", end), Some(SpaceBeforeColon)),
        (head(" Transfer-Encoding: chunked\r\n", end), Some(ObsoleteFold)),
        (head("Transfer-Encoding:\r\n chunked\r\n", end), Some(BadCoding)),
        (head("X: y\r\n\tTransfer-Encoding: chunked\r\n", end), Some(ObsoleteFold)),
        (head("X: y\nTransfer-Encoding: chunked\r\n", end), Some(BareLf)),
        (head("X: y\rTransfer-Encoding: chunked\r\n", end), Some(BareCr)),
        (format!("POST / HTTP/1.0\r\nHost: a\r\n{CHUNKED}\r\n{end}"), Some(OldCoding)),
        // Not the field, although some server once took it for the field.
        (head("Transfer_Encoding: chunked\r\n", ""), None),
        (head("X-Transfer-Encoding: chunked\r\n", ""), None),
    ]);
}

#[test]
fn chunks() {
    use Violation::*;
    let body = |body: &str| head("Transfer-Encoding: chunked\r\n", body);
    check(&[
        (body("3\r\nabc\r\n0\r\n\r\n"), None),
        (body("0000000000000003\r\nabc\r\n0\r\n\r\n"), None),
        (body("00000000000000003\r\nabc\r\n"), Some(BadChunkSize)),
        (body("3;\r\nabc\r\n0;a;b=c\r\nX: y\r\n\r\n"), None),
        (body("+3\r\nabc\r\n"), Some(BadChunkSize)),
        (body("-3\r\nabc\r\n"), Some(BadChunkSize)),
        (body("0x3\r\nabc\r\n"), Some(BadChunkSize)),
        (body(" 3\r\nabc\r\n"), Some(BadChunkSize)),
        (body("3 \r\nabc\r\n"), Some(BadChunkSize)),
        (body("3 ;a\r\nabc\r\n"), Some(BadChunkSize)),
        (body("\r\nabc\r\n"), Some(BadChunkSize)),
        (body(";a\r\nabc\r\n"), Some(BadChunkSize)),
        (body("g\r\n"), Some(BadChunkSize)),
        (body("3\nabc\r\n"), Some(BareLf)),
        (body("3\rabc\r\n"), Some(BareCr)),
        (body("3\r\nabc\n0\r\n\r\n"), Some(BadChunkEnd)),
        (body("3\r\nabc\r0\r\n\r\n"), Some(BareCr)),
        (body("3\r\nabcd\r\n0\r\n\r\n"), Some(BadChunkEnd)),
        (body("3\r\nab\r\n0\r\n\r\n"), Some(BadChunkEnd)),
        (body("3;a\nabc\r\n0\r\n\r\n"), Some(BareLf)),
        (body("3;\0\r\nabc\r\n0\r\n\r\n"), Some(ControlByte)),
        (body("0\r\nContent-Length: 3\r\n\r\n"), Some(BadTrailer)),
        (body("0\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(BadTrailer)),
        (body("0\r\nHost: b\r\n\r\n"), Some(BadTrailer)),
        (body("0\r\n X: y\r\n\r\n"), Some(ObsoleteFold)),
        (body("0\r\nX: y\n\r\n"), Some(BareLf)),
        (body("0\r\nX\r\n\r\n"), Some(BadFieldName)),
        (body("0\r\nGET / HTTP/1.1\r\n\r\n"), Some(SpaceBeforeColon)),
        (body("0\r\n\n"), Some(BareLf)),
        (body("0\r\n\rX"), Some(BareCr)),
    ]);
}

#[test]
fn request_lines() {
    use Violation::*;
    check(&[
        (line("GET / HTTP/1.1"), None),
        (line("get / HTTP/1.1"), None),
        (line("GET /%20%FF?a=b%00 HTTP/1.1"), None),
        (line("GET /ünï?ö HTTP/1.1"), None),
        (line("GET /\"`?\"` HTTP/1.1"), None),
        (line("GET http://a`/ HTTP/1.1"), Some(BadTarget)),
        (line("OPTIONS * HTTP/1.1"), None),
        (line("GET http://a HTTP/1.1"), None),
        (line("GET HTTP://A/b?c HTTP/1.1"), None),
        (line("GET https://a?c HTTP/1.1"), None),
        (line("GET http://b/ HTTP/1.1"), None),
        (line("GET http://u@a/ HTTP/1.1"), Some(BadTarget)),
        (line("GET http:///a HTTP/1.1"), Some(BadTarget)),
        (line("GET ftp://a/ HTTP/1.1"), Some(BadTarget)),
        (line("GET * HTTP/1.1"), Some(BadTarget)),
        (line("GET a:80 HTTP/1.1"), Some(BadTarget)),
        (line("GET index.php HTTP/1.1"), Some(BadTarget)),
        (line("GET ?a HTTP/1.1"), Some(BadTarget)),
        (line("INVALID CONNECTION PREFACE"), Some(NotHttp)),
        (line("HELO EXAMPLE COM"), Some(NotHttp)),
        (line("GET /a#b HTTP/1.1"), Some(BadTarget)),
        (line("GET /a<b?> HTTP/1.1"), None),
        (line("GET /a\tb HTTP/1.1"), Some(BadTarget)),
        (line("GET  / HTTP/1.1"), Some(BadTarget)),
        (line("GET / a HTTP/1.1"), Some(BadVersion)),
        (line("GET /  HTTP/1.1"), Some(BadVersion)),
        (line("GET / HTTP/1.1 "), Some(BadVersion)),
        (line("GET /a\0b HTTP/1.1"), Some(ControlByte)),
        (line("GET /a\u{7f} HTTP/1.1"), Some(ControlByte)),
        (line("CONNECT a:443 HTTP/1.1"), Some(MethodRefused)),
        (line("TRACE / HTTP/1.1"), Some(MethodRefused)),
        (line(" GET / HTTP/1.1"), Some(BadMethod)),
        (line("G(T / HTTP/1.1"), Some(BadMethod)),
        (line("GET\t/ HTTP/1.1"), Some(BadMethod)),
        (line("GET"), Some(BareCr)),
        (line("GET /"), Some(BadVersion)),
        (line("GET / "), Some(BadVersion)),
        (line("GET / http/1.1"), Some(BadVersion)),
        (line("GET / HTTP/1"), Some(BadVersion)),
        (line("GET / HTTP/1.11"), Some(BadVersion)),
        (line("GET / HTTP/11"), Some(BadVersion)),
        (line("GET / HTTP/0.9"), Some(OtherVersion)),
        (line("GET / HTTP/1.2"), None),
        (line("GET / HTTP/1.9"), None),
        (line("GET / HTTP/1.10"), Some(BadVersion)),
        (line("GET / HTTP/2.0"), Some(OtherVersion)),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".into(), Some(BareLf)),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n".into(), Some(BareCr)),
        (format!("\r\n{}", line("GET / HTTP/1.1")), None),
        (format!("\r\n\r\n{}", line("GET / HTTP/1.1")), Some(EmptyLines)),
        (format!("\n{}", line("GET / HTTP/1.1")), Some(BareLf)),
        (format!("\r{}", line("GET / HTTP/1.1")), Some(BareCr)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), Some(Http2)),
        ("\u{16}\u{3}\u{1}".into(), Some(ControlByte)),
    ]);
}

#[test]
fn hosts_and_fields() {
    use Violation::*;
    let host = |value: &str| format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n");
    let field = |line: &str| format!("GET / HTTP/1.1\r\n{line}\r\nHost: a\r\n\r\n");
    check(&[
        (host("example.org"), None),
        (host("example.org:8080"), None),
        (host("example.org:"), None),
        (host("127.0.0.1:80"), None),
        (host("[::1]:80"), None),
        (host("a_b.xn--c.example."), None),
        (host(""), Some(BadHost)),
        (host(":80"), Some(BadHost)),
        (host("a b"), Some(BadHost)),
        (host("a,b"), Some(BadHost)),
        (host("a/b"), Some(BadHost)),
        (host("u@a"), Some(BadHost)),
        (host("a:80:90"), Some(BadHost)),
        (host("a:8x"), Some(BadHost)),
        (host("a:123456"), Some(BadHost)),
        (host("[::1"), Some(BadHost)),
        (host("[a]"), Some(BadHost)),
        (host("[::1]x"), Some(BadHost)),
        (host("ä.example"), Some(BadHost)),
        (host("<script>"), Some(BadHost)),
        ("GET / HTTP/1.1\r\n\r\n".into(), Some(NoHost)),
        ("GET / HTTP/1.0\r\n\r\n".into(), None),
        ("GET http://a/ HTTP/1.1\r\n\r\n".into(), Some(NoHost)),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n".into(), Some(TwoHosts)),
        (field("host: a"), Some(TwoHosts)),
        (field("X:"), None),
        (field("X: \t a b\tc \u{e9}"), None),
        (field(""), Some(NoHost)),
        (field(": y"), Some(BadFieldName)),
        (field("X"), Some(BadFieldName)),
        (field("X y: z"), Some(SpaceBeforeColon)),
        (field("X(: z"), Some(BadFieldName)),
        (field("Ü: z"), Some(BadFieldName)),
        (field("X\0: z"), Some(ControlByte)),
        (field("X: a\u{1}b"), Some(ControlByte)),
        (field("X: a\u{7f}b"), Some(ControlByte)),
        (field(" X: y"), Some(ObsoleteFold)),
    ]);
}
