//! The names by which clients ask for sites.

use http::header::HOST;
use http::uri::Uri;
use http::{HeaderValue, Request};

/// Byte may be part of a host name, without the port.
const NAME: [bool; 256] = {
    let mut map = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        map[at] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        at += 1;
    }
    map
};

/// Whether it is a host with an optional port. This is stricter than RFC 3986, which allows quotes,
/// commas and parentheses in a registered name: the name ends up in links, logs and caches, and no
/// real name has those.
pub fn is_host(value: &[u8]) -> bool {
    let (is_good, port) = match value.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = rest.iter().position(|&byte| byte == b']') else { return false };
            let address = std::str::from_utf8(&rest[..end]).unwrap_or_default();
            (address.parse::<std::net::Ipv6Addr>().is_ok(), &rest[end + 1..])
        }
        None => {
            let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
            let name = &value[..end];
            (!name.is_empty() && name.iter().all(|&byte| NAME[usize::from(byte)]), &value[end..])
        }
    };
    let is_port_good = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_good && is_port_good
}

/// Gives a request the host that its client asked for, whatever its head says.
pub fn set<B>(request: &mut Request<B>, host: HeaderValue) {
    // A host in the request line would have precedence over the header.
    if request.uri().authority().is_some()
        && let Some(target) = request.uri().path_and_query().cloned()
    {
        *request.uri_mut() = Uri::from(target);
    }
    request.headers_mut().insert(HOST, host);
}

/// Gives a request whose target is in absolute form the origin form, and the host of its target:
/// the `Host` that came beside it does not count (RFC 9112 section 3.2.2), and nothing that answers
/// the request may see the other one.
pub fn from_target<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority() else { return };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        set(request, host);
    }
}
