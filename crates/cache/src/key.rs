//! Under which name a response is kept: host, path and query. The scheme is not in it, since the
//! front speaks but one.

use std::borrow::Borrow;

use http::Uri;

/// The name of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u8]>);

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

    /// Writes the key of a request into `out`, which is cleared. Query parameters whose names fit
    /// one of `ignored` (a `*` at the end stands for anything) are left out.
    pub fn write(out: &mut Vec<u8>, host: &str, uri: &Uri, ignored: &[String]) {
        write(out, host, uri.path(), uri.query(), ignored);
    }
}

fn write(out: &mut Vec<u8>, host: &str, path: &str, query: Option<&str>, ignored: &[String]) {
    out.clear();
    let host = host.strip_suffix(":80").unwrap_or(host);
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
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.is_empty() {
        return None;
    }
    let (path, query) =
        target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut key = Vec::new();
    write(&mut key, host, path, query, &[]);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, target: &str, ignored: &[&str]) -> String {
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let mut out = b"rest".to_vec();
        Key::write(&mut out, host, &target.parse().unwrap(), &ignored);
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
    fn operators_write_urls() {
        for (url, expected) in [
            ("http://A.org/x?y=1", Some("a.org/x?y=1")),
            ("https://a.org:80", Some("a.org/")),
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
