//! Which clients get interim responses of applications, such as Early Hints (RFC 8297).
//!
//! They are part of HTTP/1.1, and many of its clients take one for the response, or answer the next
//! request with the response of this one. So do proxies, whatever protocol they speak with this
//! server: their own clients may be any. Browsers use them over HTTP/2 alone.

use http::header::{FORWARDED, HeaderName, VIA};
use http::{Request, Version};
use tokamak_config::{self as config, EarlyHints};

use super::Client;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whether the client of this request gets interim responses of applications. `client` is the one
/// at the other end of the connection, be it a proxy or not.
pub fn takes_interim<B>(
    config: &config::Server,
    client: &dyn Client,
    request: &Request<B>,
) -> bool {
    let oldest = match config.early_hints {
        EarlyHints::Off => return false,
        EarlyHints::Http2 => Version::HTTP_2,
        EarlyHints::All => Version::HTTP_11,
    };
    if request.version() < oldest {
        return false;
    }
    let addresses = client.addresses();
    let names_proxy = |name: &HeaderName| request.headers().contains_key(name);
    !addresses.is_proxied
        && !config.proxies.trusts(addresses.peer.ip())
        && ![VIA, FORWARDED, FORWARDED_FOR].iter().any(names_proxy)
}
