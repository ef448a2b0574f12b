//! Checks of whole elements of the head: pure functions of a slice. Some are for every protocol.

use std::borrow::Cow;

use super::Violation;
use super::bytes::{self, PATH, QUERY, TOKEN, trim};
use crate::client::host::is_host;

/// Fields that decide where a message ends or which host it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Host,
    Length,
    Coding,
    Other,
}

impl Field {
    pub(super) fn named(name: &[u8]) -> Field {
        // Most other names have another length.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => Field::Host,
            14 if name.eq_ignore_ascii_case(b"content-length") => Field::Length,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => Field::Coding,
            _ => Field::Other,
        }
    }
}

/// Methods that the screen itself knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Options,
    /// The beginning of an HTTP/2 connection, up to the target, looks like a request with this
    /// method (RFC 9113 section 3.4).
    Pri,
    Other,
}

/// Checks a method, which is a token. CONNECT (a tunnel) and TRACE (an echo of the head with its
/// cookies) are refused, because no application serves them. Every other token is left to the
/// application.
pub fn method(name: &[u8]) -> Result<Method, Violation> {
    match name {
        b"" => Err(Violation::BadMethod),
        b"CONNECT" | b"TRACE" => Err(Violation::MethodRefused),
        b"OPTIONS" => Ok(Method::Options),
        b"PRI" => Ok(Method::Pri),
        _ => Ok(Method::Other),
    }
}

/// Checks a request target: origin form, absolute form, or `*` for OPTIONS.
pub fn target(target: &[u8], method: Method) -> Result<(), Violation> {
    if target.first() == Some(&b'/') {
        return path_and_query(target);
    }
    match method {
        Method::Options if target == b"*" => return Ok(()),
        Method::Pri if target == b"*" => return Err(Violation::Http2),
        // A word is no form of a target: the client speaks another protocol.
        _ if !target.is_empty() && target.iter().all(u8::is_ascii_uppercase) => {
            return Err(Violation::NotHttp);
        }
        _ => {}
    }
    let rest = strip_scheme(target).ok_or(Violation::BadTarget)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if host(authority).is_err() {
        return Err(Violation::BadTarget);
    }
    path_and_query(path)
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    let colon = target.iter().position(|&byte| byte == b':')?;
    let (scheme, rest) = target.split_at(colon);
    let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    rest.strip_prefix(b"://").filter(|_| known)
}

fn path_and_query(target: &[u8]) -> Result<(), Violation> {
    let split = memchr::memchr(b'?', target).unwrap_or(target.len());
    let (path, query) = target.split_at(split);
    let good = path.iter().all(|&byte| PATH[usize::from(byte)])
        && query.iter().all(|&byte| QUERY[usize::from(byte)])
        && (target.is_ascii() || std::str::from_utf8(target).is_ok());
    good.then_some(()).ok_or(Violation::BadTarget)
}

/// A target that has been checked, for the HTTP library: what the library refuses is encoded.
pub fn encoded(target: &[u8]) -> Cow<'_, [u8]> {
    let start = memchr::memchr(b'?', target).unwrap_or(target.len());
    let mut bytes = target.iter().enumerate();
    if !bytes.any(|(at, &byte)| bytes::is_encoded(byte, at > start)) {
        return Cow::Borrowed(target);
    }
    let mut encoded = Vec::with_capacity(target.len() + 16);
    for (at, &byte) in target.iter().enumerate() {
        if bytes::is_encoded(byte, at > start) {
            bytes::encode(byte, &mut encoded);
        } else {
            encoded.push(byte);
        }
    }
    Cow::Owned(encoded)
}

/// Checks a host with an optional port.
pub fn host(value: &[u8]) -> Result<(), Violation> {
    is_host(value).then_some(()).ok_or(Violation::BadHost)
}

/// Parses a `Content-Length`: digits only, and at most as many as an honest length has.
pub fn length(value: &[u8]) -> Result<u64, Violation> {
    // 19 digits never overflow.
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Violation::BadLength);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Checks that a `Transfer-Encoding` is exactly `chunked`. A well-formed list with another coding
/// is honest but not supported; anything else is an attack.
pub(super) fn coding(value: &[u8]) -> Result<(), Violation> {
    let value = trim(value);
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let mut unknown = false;
    for coding in value.split(|&byte| byte == b',').map(trim) {
        if coding.is_empty() || !coding.iter().all(|&byte| TOKEN[usize::from(byte)]) {
            return Err(Violation::BadCoding);
        }
        unknown |= !coding.eq_ignore_ascii_case(b"chunked");
    }
    Err(if unknown { Violation::UnknownCoding } else { Violation::BadCoding })
}
