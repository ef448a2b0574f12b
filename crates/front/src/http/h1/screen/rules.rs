//! Checks of whole elements of the head: pure functions of a slice.

use super::Violation;
use super::bytes::{HOST, PATH, QUERY, TOKEN, trim};

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
        // The length tells most names apart from ours.
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
pub(super) enum Method {
    Options,
    Other,
}

/// CONNECT (a tunnel) and TRACE (an echo of the head with its cookies) are refused, because no
/// application serves them. Every other token is left to the application.
pub(super) fn method(name: &[u8]) -> Result<Method, Violation> {
    match name {
        b"" => Err(Violation::BadMethod),
        b"CONNECT" | b"TRACE" => Err(Violation::MethodRefused),
        b"OPTIONS" => Ok(Method::Options),
        _ => Ok(Method::Other),
    }
}

/// Checks a request target: origin form, absolute form (returns its authority), or `*` for OPTIONS.
pub(super) fn target(target: &[u8], method: Method) -> Result<Option<&[u8]>, Violation> {
    if target.first() == Some(&b'/') {
        path_and_query(target)?;
        return Ok(None);
    }
    if target == b"*" && method == Method::Options {
        return Ok(None);
    }
    let rest = strip_scheme(target).ok_or(Violation::BadTarget)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if host(authority).is_err() {
        return Err(Violation::BadTarget);
    }
    path_and_query(path)?;
    Ok(Some(authority))
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

/// Checks a host with an optional port. This is stricter than RFC 3986, which allows quotes, commas
/// and parentheses in a registered name: the name ends up in links, logs and caches, and no real
/// name has those.
pub(super) fn host(value: &[u8]) -> Result<(), Violation> {
    let (good, port) = match value.strip_prefix(b"[") {
        Some(rest) => {
            let end = rest.iter().position(|&byte| byte == b']').ok_or(Violation::BadHost)?;
            let address = std::str::from_utf8(&rest[..end]).unwrap_or_default();
            (address.parse::<std::net::Ipv6Addr>().is_ok(), &rest[end + 1..])
        }
        None => {
            let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
            let name = &value[..end];
            (!name.is_empty() && name.iter().all(|&byte| HOST[usize::from(byte)]), &value[end..])
        }
    };
    let port_good = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (good && port_good).then_some(()).ok_or(Violation::BadHost)
}

/// Parses a `Content-Length`: digits only, and at most as many as an honest length has.
pub(super) fn length(value: &[u8]) -> Result<u64, Violation> {
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
