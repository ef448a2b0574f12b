//! The same rules for the head of a request as for one of HTTP/1, and the same shape: behind this
//! module a request looks as if it had come over HTTP/1.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue};
use http::{HeaderMap, Method, Request, Uri, Version};
use tokamak_config::Limits;

use crate::http::h1::screen::{Violation, rules};

/// What stands around a name and its value in HTTP/1: `: ` and the line end. Counted, so that the
/// limit of a head is the same.
const AROUND_FIELD: usize = 4;

/// The pseudo-header fields of a request.
#[derive(Default)]
pub struct Pseudo {
    /// `:method`
    pub method: Bytes,
    /// `:scheme`
    pub scheme: Bytes,
    /// `:authority`
    pub authority: Option<Bytes>,
    /// `:path`
    pub path: Bytes,
}

/// Makes a request of its head, in the shape that it has in HTTP/1: the target in origin form, the
/// authority in `Host`, all cookies in one field. Returns the length of its body, too, if the
/// client says it. `is_cut`: whether fields are missing, because the head is too large.
///
/// # Errors
/// Fails with the first rule that the head breaks.
pub fn shape(
    limits: &Limits,
    pseudo: Pseudo,
    mut headers: HeaderMap,
    version: Version,
    is_cut: bool,
) -> Result<(Request<()>, Option<u64>), Violation> {
    let method = rules::method(&pseudo.method)?;
    let line = pseudo.method.len() + pseudo.path.len() + " HTTP/1.1".len();
    if line > limits.head {
        return Err(Violation::TargetTooLong);
    }
    let fields = headers.iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + AROUND_FIELD);
    let authority = pseudo.authority.as_ref().map_or(0, Bytes::len);
    if is_cut || line + authority + fields.sum::<usize>() > limits.head {
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
    *request.version_mut() = version;
    *request.headers_mut() = headers;
    Ok((request, length))
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
