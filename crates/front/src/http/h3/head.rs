//! Reads the head of a request, of which the library has checked names and values of fields, but
//! not all that HTTP/3 forbids.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Version};
use tokamak_config::Limits;

use crate::http::h1::screen::Violation;
use crate::http::multiplex::{Pseudo, shape};

/// Whether a request is malformed: it has a field of an HTTP/1 connection (section 4.2).
pub fn is_malformed(request: &Request<()>) -> bool {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
    let of_connections = [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE];
    let is_other = |value: &http::HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"trailers");
    of_connections.iter().any(|name| request.headers().contains_key(name))
        || request.headers().get_all(TE).iter().any(is_other)
}

/// Makes a request of what the library has read. Returns the length of its body, too, if the
/// client says it.
///
/// # Errors
/// Fails with the first rule that the head breaks.
pub fn request(
    limits: &Limits,
    request: Request<()>,
) -> Result<(Request<()>, Option<u64>), Violation> {
    let (parts, ()) = request.into_parts();
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let pseudo = Pseudo {
        method: text(parts.method.as_str()),
        scheme: text(parts.uri.scheme_str().unwrap_or_default()),
        authority: parts.uri.authority().map(|authority| text(authority.as_str())),
        path: text(parts.uri.path_and_query().map_or("", |path| path.as_str())),
    };
    shape(limits, pseudo, parts.headers, Version::HTTP_3, false)
}
