//! The same rules for the head of a request as for one of HTTP/1, where the HTTP library has none,
//! and the same shape: behind this module a request looks as if it had come over HTTP/1.
//!
//! The library has refused pseudo-header fields that are missing, doubled or out of place, fields
//! of connections, and a body whose length differs from its `Content-Length`; it ends such a stream
//! or connection, and the client gets no page.

use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Uri};
use tokamak_config::Limits;

use crate::http::h1::screen::{Violation, rules};

/// What stands around a name and its value in HTTP/1: `: ` and the line end. Counted, so that the
/// limit of a head is the same.
const AROUND_FIELD: usize = 4;

/// Checks the head of a request, and gives it the shape that it has in HTTP/1: the target in origin
/// form, the authority in `Host`, all cookies in one field. Returns the length of its body, if the
/// client says it.
///
/// # Errors
/// Fails with the first rule that the head breaks.
pub fn check<B>(limits: &Limits, request: &mut Request<B>) -> Result<Option<u64>, Violation> {
    let method = rules::method(request.method().as_str().as_bytes())?;
    let uri = request.uri().clone();
    check_size(limits, request.method(), &uri, request.headers())?;
    let headers = request.headers_mut();
    join_cookies(headers);
    if headers.len() > limits.headers {
        return Err(Violation::TooManyFields);
    }
    if uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS) {
        return Err(Violation::BadTarget);
    }
    set_host(&uri, headers)?;
    let length = length(headers)?;
    let path = uri.into_parts().path_and_query.ok_or(Violation::BadTarget)?;
    rules::target(path.as_str().as_bytes(), method)?;
    let target = Uri::from(path);
    // The library drops a fragment, after which nothing may be left. And a whole URL is no path.
    if !target.path().starts_with(['/', '*']) {
        return Err(Violation::BadTarget);
    }
    *request.uri_mut() = target;
    Ok(length)
}

fn check_size(
    limits: &Limits,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Violation> {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let line = method.as_str().len() + path + " HTTP/1.1".len();
    if line > limits.head {
        return Err(Violation::TargetTooLong);
    }
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    let fields = headers.iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + AROUND_FIELD);
    if line + authority + fields.sum::<usize>() > limits.head {
        return Err(Violation::HeadTooLarge);
    }
    Ok(())
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
fn set_host(uri: &Uri, headers: &mut HeaderMap) -> Result<(), Violation> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Violation::TwoHosts);
    }
    let Some(authority) = uri.authority() else {
        return rules::host(host.ok_or(Violation::NoHost)?.as_bytes());
    };
    let authority = authority.as_str().as_bytes();
    rules::host(authority)?;
    if host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority)) {
        return Err(Violation::OtherHost);
    }
    let value = HeaderValue::from_bytes(authority).map_err(|_| Violation::BadHost)?;
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

    fn request(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn checked(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Request<()>, Violation> {
        let mut request = request(method, uri, fields);
        check(&LIMITS, &mut request).map(|_| request)
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

    proptest! {
        #[test]
        fn what_passes_has_one_host_and_a_path(
            path in "(/[!-~]{0,20})|[!-~]{0,10}",
            authority in "[!-~]{0,12}",
            hosts in prop::collection::vec("[ -~]{0,12}", 0..3),
        ) {
            let uri = Uri::builder().path_and_query(path);
            let uri = if authority.is_empty() { uri } else {
                uri.scheme("http").authority(authority)
            };
            if let Ok(uri) = uri.build() {
                let mut request = Request::new(());
                *request.uri_mut() = uri;
                for host in &hosts {
                    request.headers_mut().append(HOST, HeaderValue::from_str(host).unwrap());
                }
                if check(&LIMITS, &mut request).is_ok() {
                    prop_assert_eq!(request.headers().get_all(HOST).iter().count(), 1);
                    prop_assert!(rules::host(request.headers()[HOST].as_bytes()).is_ok());
                    prop_assert!(request.uri().scheme().is_none());
                    prop_assert!(request.uri().path().starts_with('/'));
                }
            }
        }
    }
}
