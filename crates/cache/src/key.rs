//! Under which name a response is kept: host, path, query, whether it was asked for with `https`,
//! and which site has it, where a URL does not say that.

use std::borrow::Borrow;

use http::Uri;

/// The name of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u8]>);

/// What the keys of responses over `https` end with. No URL contains it. The key before it is that
/// of the same URL with `http`, so both begin alike for a purge.
const SECURE: &[u8] = b"\0https";

/// What follows in the keys of a site that has its URLs only on some listening sockets, with the
/// site's name behind it. Other sites may have the same URLs on other sockets.
const SITE: &[u8] = b"\0site ";

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// The part of a URL before its path.
#[derive(Clone, Copy, Debug)]
pub struct UrlOrigin<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The host, with its port if that is not the scheme's.
    pub host: &'a str,
    /// The site, if it has the URL only on some listening sockets.
    pub site: Option<&'a str>,
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

    /// Writes the key of a request into `out`, which is cleared. Query parameters whose
    /// names fit one of `ignored` (a `*` at the end stands for anything) are left out.
    pub fn write(out: &mut Vec<u8>, origin: UrlOrigin<'_>, uri: &Uri, ignored: &[String]) {
        let UrlOrigin { scheme, host, site } = origin;
        let is_secure = scheme == "https";
        let port = if is_secure { ":443" } else { ":80" };
        write(out, host, port, uri.path(), uri.query(), ignored);
        if is_secure {
            out.extend_from_slice(SECURE);
        }
        if let Some(site) = site {
            out.extend_from_slice(SITE);
            out.extend_from_slice(site.as_bytes());
        }
    }

    /// Whether this is the key `url`, or that of the same URL with `https`, of any site.
    pub fn is_of(key: &[u8], url: &[u8]) -> bool {
        let Some(rest) = key.strip_prefix(url) else { return false };
        let rest = rest.strip_prefix(SECURE).unwrap_or(rest);
        // Behind another zero is what scripts have changed.
        rest.is_empty() || rest.strip_prefix(SITE).is_some_and(|site| !site.contains(&0))
    }

    /// The keys of a URL: with `http` and `https`, of all these sites.
    pub fn all(url: &[u8], sites: &[String]) -> Vec<Vec<u8>> {
        let site = |name: &String| [SITE, name.as_bytes()].concat();
        let ends: Vec<_> = [Vec::new()].into_iter().chain(sites.iter().map(site)).collect();
        let of_scheme = |scheme: &[u8]| -> Vec<Vec<u8>> {
            ends.iter().map(|end| [url, scheme, end].concat()).collect()
        };
        [of_scheme(b""), of_scheme(SECURE)].concat()
    }
}

/// `default_port` is that of the scheme, as in `":80"`, and is left out of the host.
fn write(
    out: &mut Vec<u8>,
    host: &str,
    default_port: &str,
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
    write(&mut key, host, port, path, query, &[]);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, target: &str, ignored: &[&str]) -> String {
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let mut out = b"rest".to_vec();
        Key::write(
            &mut out,
            UrlOrigin { scheme: "http", host, site: None },
            &target.parse().unwrap(),
            &ignored,
        );
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
        Key::write(
            &mut out,
            UrlOrigin { scheme: "https", host: "A.org:443", site: None },
            &"/x?y".parse().unwrap(),
            &[],
        );
        assert_eq!(out, [b"a.org/x?y", SECURE].concat());
        let mut other = Vec::new();
        for host in ["a.org:80", "a.org:443:80", "a.org:80:443"] {
            Key::write(
                &mut other,
                UrlOrigin { scheme: "https", host, site: None },
                &"/x?y".parse().unwrap(),
                &[],
            );
            assert_ne!(other, out, "{host}");
        }
        assert!(Key::is_of(&out, b"a.org/x?y") && Key::is_of(b"a", b"a"));
        assert!(!Key::is_of(b"a.org/x?y", &out) && !Key::is_of(&out, b"a.org/x"));
    }

    #[test]
    fn sites_of_some_sockets_have_keys_of_their_own() {
        let sites = ["a".to_owned(), "a@127.0.0.1:80".to_owned()];
        let mut keys = Key::all(b"a.org/x", &sites);
        assert_eq!(keys.len(), 6);
        for scheme in ["http", "https"] {
            for site in [None, Some("a"), Some("a@127.0.0.1:80")] {
                let mut out = Vec::new();
                Key::write(
                    &mut out,
                    UrlOrigin { scheme, host: "a.org", site },
                    &"/x".parse().unwrap(),
                    &[],
                );
                assert!(Key::is_of(&out, b"a.org/x"), "{scheme} {site:?}");
                let at = keys.iter().position(|key| *key == out);
                keys.remove(at.expect("a purge of the URL finds it"));
            }
        }
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
