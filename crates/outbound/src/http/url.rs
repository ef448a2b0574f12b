//! Addresses of what is asked for. Strict where two readers could disagree about the host.

use std::net::Ipv6Addr;

use tokamak_http1::number;

/// What an address says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// Host and port as they stand there, in ASCII.
    pub authority: &'a [u8],
    /// The host's name or address, in ASCII.
    pub host: &'a [u8],
    /// The port, the scheme's own if none is named.
    pub port: u16,
    /// Path and query; the path's first `/` may be missing.
    pub target: &'a [u8],
}

/// Takes an address apart.
///
/// # Errors
/// Fails with the reason if the URL is invalid.
pub fn parse(url: &[u8]) -> Result<Url<'_>, &'static str> {
    const MALFORMED: &str = "it is malformed";
    if url.iter().any(|&byte| is(byte, FORBIDDEN)) {
        return Err(MALFORMED);
    }
    let plain = after(url, b"http://").map(|rest| (false, rest));
    let (tls, rest) = plain
        .or_else(|| after(url, b"https://").map(|rest| (true, rest)))
        .ok_or("it begins with neither http:// nor https://")?;
    let end = rest.iter().position(|&byte| is(byte, END)).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (host, port) = authority.split_at(host_length(authority).ok_or(MALFORMED)?);
    let port = match port {
        b"" | b":" if tls => Some(443),
        b"" | b":" => Some(80),
        [b':', digits @ ..] => number(digits).and_then(|port| u16::try_from(port).ok()),
        _ => None,
    };
    let port = port.ok_or_else(|| {
        // What is before the @ may look like a host, and has misled people before.
        if authority.contains(&b'@') { "it has a user's name" } else { MALFORMED }
    })?;
    if host.is_empty() {
        return Err("it has no host");
    }
    let target = rest.split(|byte| *byte == b'#').next().unwrap_or_default();
    Ok(Url { tls, authority, host, port, target })
}

/// Bytes in which others see the end of a line, or of the address.
const FORBIDDEN: u8 = 1;
/// Bytes of names.
const NAME: u8 = 2;
/// Bytes behind host and port.
const END: u8 = 4;

/// What each byte is.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            0..=b' ' | b'"' | b'<' | b'>' | b'`' | 0x7f => FORBIDDEN,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' => NAME,
            b'/' | b'?' | b'#' => END,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

fn is(byte: u8, kind: u8) -> bool {
    KINDS[usize::from(byte)] == kind
}

/// How much at the beginning is a name, or an address in brackets.
fn host_length(authority: &[u8]) -> Option<usize> {
    let Some(inside) = authority.strip_prefix(b"[") else {
        let end = authority.iter().position(|&byte| !is(byte, NAME));
        return Some(end.unwrap_or(authority.len()));
    };
    let end = inside.iter().position(|byte| *byte == b']')?;
    str::from_utf8(&inside[..end]).ok()?.parse::<Ipv6Addr>().ok()?;
    Some(end + 2)
}

/// What follows a scheme, which may be written in capitals.
fn after<'a>(url: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = url.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use proptest::prelude::*;

    use super::*;

    fn parts(url: &str) -> Result<(bool, String, u16, String), &'static str> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        parse(url.as_bytes()).map(|url| (url.tls, text(url.host), url.port, text(url.target)))
    }

    #[test]
    fn addresses_are_taken_apart() {
        let gives = |url, tls, host: &str, port, target: &str| {
            assert_eq!(parts(url), Ok((tls, host.to_owned(), port, target.to_owned())), "{url}");
        };
        gives("http://a.example/b%20c?d=e/f#g", false, "a.example", 80, "/b%20c?d=e/f");
        gives("HTTPS://A_b-1", true, "A_b-1", 443, "");
        gives("http://127.0.0.1:8080?x", false, "127.0.0.1", 8080, "?x");
        gives("http://[::1]:81/", false, "[::1]", 81, "/");
        gives("http://[::1]", false, "[::1]", 80, "");
        gives("http://a:/ä@b", false, "a", 80, "/ä@b");
        gives("http://a#@b/c", false, "a", 80, "");
    }

    #[test]
    fn what_could_mislead_is_refused() {
        for url in [
            "http://a@b/",
            "http://a:b@c/",
            "http:///x",
            "http://",
            "http://:80/",
            "ftp://a/",
            "//a/b",
            "/a",
            "",
            "http:/a",
            "http://a:99999/",
            "http://a:+1/",
            "http://a:8 0/",
            "http://a:80:81/",
            "http://[::1/",
            "http://::1]/",
            "http://[::1]x/",
            "http://[a.b]/",
            "http://x[::1]/",
            "http://a\\b/",
            "http://a%00b/",
            "http://ä/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http://a\0/",
            "http://a/\u{7f}",
            "http://a/<b>",
        ] {
            assert!(parts(url).is_err(), "{url:?}");
        }
    }

    proptest! {
        #[test]
        fn another_reader_sees_the_same(url in "https?://[a-zA-Z0-9.:@\\[\\]_-]{0,12}(:[0-9]{0,6})?[/?#]?[!-~]{0,12}") {
            let (Ok(ours), Ok(theirs)) = (parse(url.as_bytes()), url.parse::<Uri>()) else { return Ok(()) };
            let authority = theirs.authority().map(|authority| authority.as_str().as_bytes());
            prop_assert_eq!(Some(ours.authority), authority);
            prop_assert_eq!(Some(ours.host), theirs.host().map(str::as_bytes));
            prop_assert_eq!(ours.port, theirs.port_u16().unwrap_or(if ours.tls { 443 } else { 80 }));
            let target = theirs.path_and_query().map(|target| target.as_str()).unwrap_or_default();
            prop_assert_eq!(str::from_utf8(ours.target).unwrap().trim_start_matches('/'), target.trim_start_matches('/'));
        }
    }
}
