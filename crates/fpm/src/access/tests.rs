use proptest::prelude::*;

use super::*;

fn request<'a>() -> Request<'a> {
    Request {
        cpu: (Duration::from_millis(30), Duration::from_millis(10)),
        duration: Duration::from_micros(123_456),
        memory: 2_097_152,
        script: b"/srv/a.php",
        body_length: 7,
        method: b"GET",
        pool: "www",
        uri: b"/a.php",
        query: b"x=1",
        address: Some("127.0.0.1"),
        status: 200,
        accepted: 0,
        now: 60,
        user: b"",
        process: 12,
        parent: 1,
        variable: &|name| (name == "REMOTE_ADDR").then(|| b"10.0.0.1".to_vec()),
        header: &|name| (name == "Content-Type").then(|| b"text/html".to_vec()),
    }
}

fn line(format: &str) -> String {
    let format = Format::compile(format).unwrap_or_else(|error| panic!("{format}: {error}"));
    let line = format.line(&request()).expect("a line");
    assert_eq!(line.bytes.last(), Some(&b'\n'));
    String::from_utf8(line.bytes[..line.bytes.len() - 1].to_vec()).expect("text")
}

#[test]
fn every_token() {
    let table = [
        ("100%% x", "100% x"),
        ("%C %{user}C %{System}C %{total}C", "32.40 24.30 8.10 32.40"),
        ("%d %{seconds}d", "0.123 0.123"),
        ("%{mili}d %{milli}d %{milliseconds}d %{miliseconds}d", "123.456 123.456 123.456 123.456"),
        ("%{micro}d %{microseconds}d", "123456 123456"),
        ("%{REMOTE_ADDR}e %{HTTP_X}e", "10.0.0.1 -"),
        ("%f %l %m", "/srv/a.php 7 GET"),
        ("%M %{bytes}M %{kilo}M %{megabytes}M", "2097152 2097152 2048 2"),
        ("%n %{Content-Type}o %{X}o", "www text/html -"),
        ("%p %P", "12 1"),
        ("%r%Q%q", "/a.php?x=1"),
        ("%R - %u", "127.0.0.1 - "),
        ("%s", "200"),
        ("%{%Y}t %{%Y}T", "1970 1970"),
        ("%{}d", "0.123"),
        ("lone %", "lone "),
        ("ä%sä", "ä200ä"),
    ];
    for (format, expected) in table {
        assert_eq!(line(format), expected, "{format}");
    }
    let default = line("%R - %u %t \"%m %r\" %s");
    assert!(
        default.starts_with("127.0.0.1 -  ") && default.ends_with(" \"GET /a.php\" 200"),
        "{default}"
    );
}

#[test]
fn errors_in_a_format_name_the_modifier() {
    let table = [
        ("%{x}C", "only 'total', 'user' or 'system' are allowed as a modifier for %C ('x')"),
        (
            "%{X}d",
            "only 'seconds', 'milli', 'milliseconds', 'micro' or 'microseconds' are allowed as a \
                modifier for %d ('X')",
        ),
        (
            "%{x}M",
            "only 'bytes', 'kilo', 'kilobytes', 'mega' or 'megabytes' are allowed as a modifier \
                for %M ('x')",
        ),
        ("%e", "the name of the environment variable must be set between embraces for %e"),
        ("%o", "the name of the header must be set between embraces for %o"),
        ("%{x}s", "embrace is not allowed for modifier %s"),
        ("%{x}%", "embrace is not allowed for modifier %%"),
        ("%Z", "Invalid token in the access.format (%Z)"),
        ("%{x", "missing closing embrace in the access.format"),
        ("%{x}", "missing closing embrace in the access.format"),
    ];
    for (format, expected) in table {
        assert_eq!(Format::compile(format).expect_err(format).to_string(), expected, "{format}");
    }
}

#[test]
fn a_line_is_cut() {
    let long = vec![b'a'; 2000];
    let format = Format::compile("%r %s").expect("a format");
    let line = format.line(&Request { uri: &long, ..request() }).expect("a line");
    assert!(line.is_cut);
    assert_eq!(line.bytes.len(), 1025);
    assert_eq!(
        format.line(&Request { uri: b"x", ..request() }).map(|line| line.is_cut),
        Some(false)
    );
    let nothing = Format::compile("%u").expect("a format");
    assert_eq!(nothing.line(&request()), None);
}

#[test]
fn nothing_is_divided_by_no_time() {
    let format = Format::compile("%C").expect("a format");
    let line = format.line(&Request { duration: Duration::ZERO, ..request() }).expect("a line");
    assert_eq!(line.bytes, b"0.00\n");
}

#[test]
fn suppressed() {
    let paths = ["/ping".to_string()];
    let ping = || Request { uri: b"/ping", query: b"", body_length: 0, ..request() };
    assert!(is_suppressed(&ping(), &paths));
    assert!(is_suppressed(&Request { method: b"HEAD", ..ping() }, &paths));
    assert!(!is_suppressed(&Request { method: b"POST", ..ping() }, &paths));
    assert!(!is_suppressed(&Request { query: b"x", ..ping() }, &paths));
    assert!(!is_suppressed(&Request { body_length: 1, ..ping() }, &paths));
    assert!(!is_suppressed(&Request { status: 404, ..ping() }, &paths));
    assert!(!is_suppressed(&Request { uri: b"/pin", ..ping() }, &paths));
}

proptest! {
    #[test]
    fn any_format_is_understood_or_refused(format in "[%{}a-zA-Z é]{0,40}") {
        if let Ok(format) = Format::compile(&format) {
            let _ = format.line(&request());
        }
    }
}
