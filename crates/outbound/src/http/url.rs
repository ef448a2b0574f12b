//! Addresses of what is asked for. Strict where two readers could disagree about the host.

use std::net::Ipv6Addr;

/// What an address says.
#[derive(Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// Host and port as they stand there.
    pub authority: &'a str,
    /// The host's name or address.
    pub host: &'a str,
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
    // Others see the end of a line in them, or of the address.
    if url.iter().any(|byte| matches!(byte, 0..=b' ' | b'"' | b'<' | b'>' | b'`' | 0x7f)) {
        return Err(MALFORMED);
    }
    let (tls, rest) = match (after(url, b"http://"), after(url, b"https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err("it begins with neither http:// nor https://"),
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = str::from_utf8(authority).map_err(|_| MALFORMED)?;
    // What is before the @ may look like a host, and has misled people before.
    if authority.contains('@') {
        return Err("it has a user's name");
    }
    let (host, port) = match authority.find(']') {
        Some(end) => {
            let inside = authority[..end].strip_prefix('[').ok_or(MALFORMED)?;
            inside.parse::<Ipv6Addr>().map_err(|_| MALFORMED)?;
            authority.split_at(end + 1)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            if !host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
            {
                return Err(MALFORMED);
            }
            (host, port)
        }
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let port = match port {
        "" | ":" if tls => 443,
        "" | ":" => 80,
        named => {
            let digits = named
                .strip_prefix(':')
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok()).ok_or(MALFORMED)?
        }
    };
    let target = rest.split(|byte| *byte == b'#').next().unwrap_or_default();
    Ok(Url { tls, authority, host, port, target })
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
        let target = |url: &Url<'_>| String::from_utf8(url.target.to_vec()).unwrap();
        parse(url.as_bytes()).map(|url| (url.tls, url.host.to_owned(), url.port, target(&url)))
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
            prop_assert_eq!(Some(ours.authority), theirs.authority().map(|authority| authority.as_str()));
            prop_assert_eq!(Some(ours.host), theirs.host());
            prop_assert_eq!(ours.port, theirs.port_u16().unwrap_or(if ours.tls { 443 } else { 80 }));
            let target = theirs.path_and_query().map(|target| target.as_str()).unwrap_or_default();
            prop_assert_eq!(str::from_utf8(ours.target).unwrap().trim_start_matches('/'), target.trim_start_matches('/'));
        }
    }
}
