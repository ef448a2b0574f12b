//! What becomes of a response's head, and how fast a client has to take what follows.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{Response, StatusCode};
use http_body::Body;

use crate::response::Reply;

/// What a client has to take of a response.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long it may take nothing.
    pub patience: Duration,
    /// The lowest rate in bytes a second, for all requests of the connection together.
    pub rate: u64,
}

/// Completes the head of a response, and parts it from its body. Returns whether there is no body
/// to send, too.
pub fn complete(response: Response<Reply>, is_head: bool) -> (Response<()>, Reply, bool) {
    let (mut parts, body) = response.into_parts();
    remove_connection_fields(&mut parts.headers);
    parts.headers.entry(DATE).or_insert_with(date);
    let is_bodiless =
        is_head || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_end = is_bodiless || body.is_end_stream();
    // The response to a HEAD says the length that a GET would get, if it is known.
    if (is_head || !is_end)
        && let Some(length) = body.size_hint().exact()
        && (length > 0 || !is_head)
    {
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    (Response::from_parts(parts, ()), body, is_end)
}

/// Removes the fields that say something about an HTTP/1 connection (RFC 9113 section 8.2.2).
pub fn remove_connection_fields(headers: &mut HeaderMap) {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
    for name in [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE, TE] {
        headers.remove(name);
    }
}

/// The value of `Date`, written once a second for all responses of an event loop.
fn date() -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(u64, HeaderValue)> =
            const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    LAST.with_borrow_mut(|(written, value)| {
        if *written != second
            && let Ok(text) = HeaderValue::from_str(&httpdate::fmt_http_date(now))
        {
            (*written, *value) = (second, text);
        }
        value.clone()
    })
}
