//! The same rules for the head of a request as for one of HTTP/1, where the HTTP library has none,
//! and the same shape: behind this module a request looks as if it had come over HTTP/1.
//!
//! The library has refused what HTTP/2 itself forbids: pseudo-header fields that are missing,
//! doubled or out of place, fields of connections, names and values with bytes that may not stand
//! in them, and a body whose length differs from its `Content-Length`. It ends such a stream, and
//! the client gets no page.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri, Version};
use tokamak_config::Limits;
use tokamak_nghttp2::Head;

use crate::http::h1::screen::{Violation, rules};

/// What stands around a name and its value in HTTP/1: `: ` and the line end. Counted, so that the
/// limit of a head is the same.
const AROUND_FIELD: usize = 4;

/// Whether the response to this request has no body, whatever its head says.
pub fn is_head(head: &Head) -> bool {
    head.fields().any(|(name, value)| name == b":method" && value == "HEAD")
}

/// Makes a request of its head, in the shape that it has in HTTP/1: the target in origin form, the
/// authority in `Host`, all cookies in one field. Returns the length of its body, too, if the
/// client says it.
///
/// # Errors
/// Fails with the first rule that the head breaks.
pub fn request(limits: &Limits, head: &Head) -> Result<(Request<()>, Option<u64>), Violation> {
    let mut pseudo = Pseudo::default();
    let mut headers = HeaderMap::with_capacity(head.len());
    let mut size = 0;
    for (name, value) in head.fields() {
        match name {
            b":method" => pseudo.method = value,
            b":scheme" => pseudo.scheme = value,
            b":authority" => pseudo.authority = Some(value),
            b":path" => pseudo.path = value,
            _ => {
                size += name.len() + value.len() + AROUND_FIELD;
                let name = HeaderName::from_bytes(name).map_err(|_| Violation::BadFieldName)?;
                let value = HeaderValue::from_maybe_shared(value);
                headers.append(name, value.map_err(|_| Violation::ControlByte)?);
            }
        }
    }
    let method = rules::method(&pseudo.method)?;
    let line = pseudo.method.len() + pseudo.path.len() + " HTTP/1.1".len();
    if line > limits.head {
        return Err(Violation::TargetTooLong);
    }
    if head.is_cut || line + pseudo.authority.as_ref().map_or(0, Bytes::len) + size > limits.head {
        return Err(Violation::HeadTooLarge);
    }
    join_cookies(&mut headers);
    if headers.len() > limits.headers {
        return Err(Violation::TooManyFields);
    }
    let is_known = |scheme| pseudo.scheme.eq_ignore_ascii_case(scheme);
    if !is_known(b"http") && !is_known(b"https") {
        return Err(Violation::BadTarget);
    }
    set_host(pseudo.authority, &mut headers)?;
    let length = length(&headers)?;
    // A whole URL is no path.
    if !pseudo.path.starts_with(b"/") && pseudo.path != "*" {
        return Err(Violation::BadTarget);
    }
    rules::target(&pseudo.path, method)?;
    let target = match rules::encoded(&pseudo.path) {
        Cow::Borrowed(_) => Uri::from_maybe_shared(pseudo.path),
        Cow::Owned(encoded) => Uri::from_maybe_shared(encoded),
    };
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(&pseudo.method).map_err(|_| Violation::BadMethod)?;
    *request.uri_mut() = target.map_err(|_| Violation::BadTarget)?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok((request, length))
}

/// The pseudo-header fields of a request.
#[derive(Default)]
struct Pseudo {
    method: Bytes,
    scheme: Bytes,
    authority: Option<Bytes>,
    path: Bytes,
}

/// Joins the cookies that browsers send in many fields (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (cookies.next(), cookies.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for cookie in std::iter::once(second).chain(cookies) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(cookie.as_bytes());
    }
    // Joined values are a valid value.
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, joined);
    }
}

/// Puts the authority of the request into `Host`, as HTTP/1 has it.
fn set_host(authority: Option<Bytes>, headers: &mut HeaderMap) -> Result<(), Violation> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Violation::TwoHosts);
    }
    let Some(authority) = authority else {
        return rules::host(host.ok_or(Violation::NoHost)?.as_bytes());
    };
    rules::host(&authority)?;
    if host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(&authority)) {
        return Err(Violation::OtherHost);
    }
    let value = HeaderValue::from_maybe_shared(authority).map_err(|_| Violation::BadHost)?;
    headers.insert(HOST, value);
    Ok(())
}

/// The length that the client says the body has.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Violation> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = lengths.next() else { return Ok(None) };
    if lengths.next().is_some() {
        return Err(Violation::TwoLengths);
    }
    rules::length(value.as_bytes()).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        head: 1000,
        headers: 10,
        body: 100,
        buffer: 1 << 20,
        spool: 0,
        send_rate: 0,
        connections: 10,
        client: tokamak_config::ClientLimits::NONE,
    };

    fn head(method: &str, url: &str, fields: &[(&str, &str)]) -> Head {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let at = rest.find(['/', '?', '*']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let mut all = vec![(":method", method), (":scheme", scheme), (":path", path)];
        if !authority.is_empty() {
            all.push((":authority", authority));
        }
        all.extend_from_slice(fields);
        all.into_iter().collect()
    }

    fn checked(method: &str, url: &str, fields: &[(&str, &str)]) -> Result<Request<()>, Violation> {
        request(&LIMITS, &head(method, url, fields)).map(|(request, _)| request)
    }

    #[test]
    fn a_request_looks_like_one_of_http_1() {
        let cookies = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")];
        let request = checked("GET", "https://a.example:8443/b?c=d", &cookies).unwrap();
        assert_eq!(request.uri(), "/b?c=d");
        assert_eq!(request.headers()[HOST], "a.example:8443");
        assert_eq!(request.headers()[COOKIE], "a=1; b=2; c=3");
        assert_eq!(request.headers().get_all(COOKIE).iter().count(), 1);
        let request = checked("OPTIONS", "*", &[("host", "a.example")]).unwrap();
        assert_eq!(request.uri(), "*");
    }

    /// Method, target and fields of a request, and the rule that it breaks.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Violation);

    #[test]
    fn the_rules_of_http_1_hold() {
        use Violation::*;
        let long = "a".repeat(995);
        let table: &[Row] = &[
            ("TRACE", "http://a/", &[], MethodRefused),
            ("GET", "http://a/", &[("host", "b")], OtherHost),
            ("GET", "http://a/", &[("host", "a"), ("host", "a")], TwoHosts),
            ("GET", "/", &[], NoHost),
            ("GET", "/", &[("host", "a b")], BadHost),
            ("GET", "http://user@a/", &[], BadHost),
            ("GET", "ftp://a/", &[], BadTarget),
            ("GET", "*", &[("host", "a")], BadTarget),
            ("GET", &format!("http://a/{long}"), &[], TargetTooLong),
            ("GET", "http://a/", &[("x", &long)], HeadTooLarge),
            ("GET", "http://a/", &[("x", "y"); 11], TooManyFields),
            ("POST", "http://a/", &[("content-length", "+1")], BadLength),
            ("POST", "http://a/", &[("content-length", "1"), ("content-length", "1")], TwoLengths),
        ];
        for (method, uri, fields, expected) in table {
            let verdict = checked(method, uri, fields).map(drop);
            assert_eq!(verdict, Err(*expected), "{method} {uri} {fields:?}");
        }
        let many: Vec<_> = (0..11).map(|_| ("cookie", "a=b")).collect();
        assert!(checked("GET", "http://a/", &many).is_ok(), "cookies count as one field");
    }

    /// The same as over HTTP/1: see `rules::target`.
    #[test]
    fn targets_are_those_of_http_1() {
        for (path, expected) in [
            ("/a?q={\"a\":1}", Some("/a?q={%22a%22:1}")),
            ("/`?`<b>", Some("/%60?`%3Cb%3E")),
            ("/\u{e4}|^\\[]", Some("/\u{e4}|^\\[]")),
            ("/a#b", None),
            ("/a?b#c", None),
            ("/a b", None),
            ("/a\u{7f}", None),
            ("http://a/", None),
            ("a", None),
            ("", None),
        ] {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), ("host", "a")];
            let request = request(&LIMITS, &fields.into_iter().collect());
            let target = request.ok().map(|(request, _)| request.uri().to_string());
            assert_eq!(target.as_deref(), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_has_one_host_and_a_path(
            path in "(/[!-~]{0,20})|[!-~]{0,10}",
            authority in "[!-~]{0,12}",
            hosts in prop::collection::vec("[ -~]{0,12}", 0..3),
        ) {
            let mut fields = vec![(":method", "GET"), (":scheme", "http"), (":path", &*path)];
            if !authority.is_empty() {
                fields.push((":authority", &*authority));
            }
            fields.extend(hosts.iter().map(|host| ("host", &**host)));
            if let Ok((request, _)) = request(&LIMITS, &fields.into_iter().collect()) {
                prop_assert_eq!(request.headers().get_all(HOST).iter().count(), 1);
                prop_assert!(rules::host(request.headers()[HOST].as_bytes()).is_ok());
                prop_assert!(request.uri().scheme().is_none());
                prop_assert!(request.uri().path().starts_with('/'));
            }
        }
    }
}
