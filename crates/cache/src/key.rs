//! Under which name a response is kept: host, path, query, and whether it was asked for with
//! `https`.

use std::borrow::Borrow;

use http::Uri;

/// The name of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u8]>);

/// What the keys of responses over `https` end with. No URL contains it. The key before it is that
/// of the same URL with `http`, so both begin alike for a purge.
const SECURE: &[u8] = b"\0https";

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl Key {
    /// A key that a script has set.
    pub fn of(bytes: &[u8]) -> Key {
        Key(bytes.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the key of a request for a host with a scheme into `out`, which is cleared. Query
    /// parameters whose names fit one of `ignored` (a `*` at the end stands for anything) are left
    /// out.
    pub fn write(out: &mut Vec<u8>, from: (&str, &str), uri: &Uri, ignored: &[String]) {
        let (scheme, host) = from;
        let is_secure = scheme == "https";
        let port = if is_secure { ":443" } else { ":80" };
        write(out, (host, port), uri.path(), uri.query(), ignored);
        if is_secure {
            out.extend_from_slice(SECURE);
        }
    }

    /// Whether this is the key `other`, or that of the same URL with `https`.
    pub fn is_of(key: &[u8], other: &[u8]) -> bool {
        key == other || key.strip_suffix(SECURE) == Some(other)
    }

    /// The key of the same URL with `https`.
    pub fn secure(key: &[u8]) -> Vec<u8> {
        [key, SECURE].concat()
    }
}

/// `default_port` is that of the scheme, as in `":80"`, and is left out of the host.
fn write(
    out: &mut Vec<u8>,
    (host, default_port): (&str, &str),
    path: &str,
    query: Option<&str>,
    ignored: &[String],
) {
    out.clear();
    let host = host.strip_suffix(default_port).unwrap_or(host);
    out.extend_from_slice(host.strip_suffix('.').unwrap_or(host).as_bytes());
    out.make_ascii_lowercase();
    out.extend_from_slice(if path.is_empty() { b"/" } else { path.as_bytes() });
    let Some(query) = query else { return };
    if ignored.is_empty() {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
        return;
    }
    let mut divider = b'?';
    for part in query.split('&') {
        let name = part.split('=').next().unwrap_or_default();
        if !ignored.iter().any(|pattern| fits(name, pattern)) {
            out.push(divider);
            out.extend_from_slice(part.as_bytes());
            divider = b'&';
        }
    }
}

fn fits(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// The key, or the beginning of keys, that an operator means by a URL: with a scheme or without
/// one.
pub fn url_key(url: &str) -> Option<Vec<u8>> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.is_empty() {
        return None;
    }
    let (path, query) =
        target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut key = Vec::new();
    write(&mut key, (host, port), path, query, &[]);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, target: &str, ignored: &[&str]) -> String {
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let mut out = b"rest".to_vec();
        Key::write(&mut out, ("http", host), &target.parse().unwrap(), &ignored);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_urls() {
        for (host, target, ignored, expected) in [
            ("Example.org:80", "/A?b=C", &[][..], "example.org/A?b=C"),
            ("a.:80", "/", &[], "a/"),
            ("a:8080", "/x?", &[], "a:8080/x?"),
            ("a", "http://b/x", &[], "a/x"),
            ("a", "/x?utm_source=1&b=2&fbclid=3&utm=4", &["utm_*", "fbclid"], "a/x?b=2&utm=4"),
            ("a", "/x?utm_source=1", &["utm_*"], "a/x"),
            ("a", "/x?a&b=1", &["*"], "a/x"),
        ] {
            assert_eq!(key(host, target, ignored), expected, "{host} {target}");
        }
    }

    #[test]
    fn https_has_keys_of_its_own() {
        let mut out = Vec::new();
        Key::write(&mut out, ("https", "A.org:443"), &"/x?y".parse().unwrap(), &[]);
        assert_eq!(out, Key::secure(b"a.org/x?y"));
        let mut other = Vec::new();
        for host in ["a.org:80", "a.org:443:80", "a.org:80:443"] {
            Key::write(&mut other, ("https", host), &"/x?y".parse().unwrap(), &[]);
            assert_ne!(other, out, "{host}");
        }
        assert!(Key::is_of(&out, b"a.org/x?y") && Key::is_of(b"a", b"a"));
        assert!(!Key::is_of(b"a.org/x?y", &out) && !Key::is_of(&out, b"a.org/x"));
    }

    #[test]
    fn operators_write_urls() {
        for (url, expected) in [
            ("http://A.org/x?y=1", Some("a.org/x?y=1")),
            ("https://a.org:443", Some("a.org/")),
            ("https://a.org:80", Some("a.org:80/")),
            ("a.org:80", Some("a.org/")),
            ("a.org/x#part", Some("a.org/x")),
            ("a.org?x", Some("a.org/?x")),
            ("/x", None),
            ("", None),
        ] {
            assert_eq!(
                url_key(url).map(|key| String::from_utf8(key).unwrap()).as_deref(),
                expected,
                "{url}"
            );
        }
    }
}
