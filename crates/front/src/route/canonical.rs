//! Redirects to another scheme or host that keep path and query. A request is redirected once: the
//! URL has everything that is canonical.

use std::borrow::Cow;

use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};

use super::hosts::strip_port;

/// The same page at another scheme or host, which may have a port.
pub fn url(scheme: &str, host: &str, uri: &Uri) -> String {
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    // `OPTIONS *` has no path.
    let target = if target.starts_with('/') { target } else { "/" };
    [scheme, "://", host, target].concat()
}

/// Where a page has moved, with the scheme and the host where it should have been asked for, unless
/// it has moved to another host.
pub fn moved(scheme: &str, host: &str, to: String) -> String {
    if to.starts_with('/') { [scheme, "://", host, &to].concat() } else { to }
}

/// The status of such a redirect. Only 308 lets clients repeat the body of a request.
pub fn status(method: &Method) -> StatusCode {
    match *method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    }
}

/// The host, perhaps with a port, under which a page should have been asked for; `None` if `host`
/// is that already. A canonical host without a port takes that of `host`.
pub fn other_host<'a>(canonical: &'a str, host: &str) -> Option<Cow<'a, str>> {
    let (name, own) = (strip_port(host), strip_port(canonical));
    let port = &host[name.len()..];
    let is_same = name.trim_end_matches('.').eq_ignore_ascii_case(own);
    match canonical.len() > own.len() {
        true => (!is_same || port != &canonical[own.len()..]).then_some(canonical.into()),
        false if is_same => None,
        false if port.is_empty() => Some(canonical.into()),
        false => Some([canonical, port].concat().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_are_redirected() {
        for (canonical, host, expected) in [
            ("www.a.test", "www.a.test", None),
            ("www.a.test", "WWW.A.test:8080", None),
            ("www.a.test", "www.a.test.", None),
            ("www.a.test", "a.test", Some("www.a.test")),
            ("www.a.test", "a.test:8080", Some("www.a.test:8080")),
            ("www.a.test", "", Some("www.a.test")),
            ("www.a.test", "[::1]:80", Some("www.a.test:80")),
            ("www.a.test:8443", "www.a.test:8443", None),
            ("www.a.test:8443", "www.a.test", Some("www.a.test:8443")),
            ("www.a.test:8443", "a.test:80", Some("www.a.test:8443")),
        ] {
            assert_eq!(other_host(canonical, host).as_deref(), expected, "{canonical} {host}");
        }
    }

    #[test]
    fn path_and_query_are_kept() {
        for (uri, expected) in [
            ("/a%20b?c=%2F&d", "https://h/a%20b?c=%2F&d"),
            ("/", "https://h/"),
            ("//evil.example/", "https://h//evil.example/"),
            ("http://other/x", "https://h/x"),
            ("*", "https://h/"),
        ] {
            assert_eq!(url("https", "h", &uri.parse().unwrap()), expected);
        }
        assert_eq!(status(&Method::HEAD), 301);
        assert_eq!(status(&Method::POST), 308);
    }
}
