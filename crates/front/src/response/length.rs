//! Checks that an application's body has the length that its head announces.
//!
//! A shorter body is 502 if it is whole before the response is sent. Otherwise it counts as broken
//! off: the client, the content cache and scripts must not take it for the whole. Of a longer body
//! only the announced part is sent, as in nginx and lighttpd: more bytes would be taken for the
//! next response on the connection.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use tokamak_config::Site;
use tokamak_cost::Ledger;

use super::{Broken, Source};
use crate::failure::Failure;
use crate::log::LogContext;

const SHORTER: &str = "the response is shorter than its Content-Length";
const LONGER: &str = "the response is longer than its Content-Length: the rest is left out";

/// Sets the body of a response, and checks it against the length that the head announces.
///
/// # Errors
/// Fails with the reason if the body is whole and shorter than that.
pub fn give<B>(
    site: &Arc<Site>,
    request: &Request<B>,
    response: &mut Response<Source>,
    source: Source,
) -> Result<(), &'static str> {
    // A 204 has no body, so it must not have a length either (RFC 9110 section 8.6).
    if response.status() == StatusCode::NO_CONTENT {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    // These responses announce the length of a body that they do not have.
    let is_bodiless =
        request.method() == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
    let announced = if is_bodiless { None } else { announced(response.headers()) };
    *response.body_mut() = match (announced, source) {
        (None, source) => source,
        (Some(length), Source::Whole(bytes)) if bytes.len() as u64 == length => {
            Source::Whole(bytes)
        }
        (Some(length), Source::Whole(bytes)) if (bytes.len() as u64) < length => {
            return Err(SHORTER);
        }
        (Some(left), source) => {
            let log = LogContext::new(site, request);
            Source::Measured(Box::new(Measured { source, left, log }))
        }
    };
    Ok(())
}

/// The length in a head that [`crate::backend::response_head::put_header`] has checked.
pub fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body whose length is checked.
pub struct Measured {
    source: Source,
    left: u64,
    log: LogContext,
}

impl Measured {
    /// Bytes that are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The fields that follow the body, as [`Source::take_trailers`].
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.source.take_trailers()
    }

    /// Polls for the next bytes.
    pub fn poll_piece(
        &mut self,
        ledger: &mut Ledger,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            let mut bytes = match ready!(self.source.poll_piece(ledger, cx)) {
                Some(Ok(bytes)) => bytes,
                None if self.left > 0 => {
                    self.log.broken_off(Failure::WorkerBroken, SHORTER);
                    return Poll::Ready(Some(Err(Broken(SHORTER))));
                }
                end => return Poll::Ready(end),
            };
            if bytes.len() as u64 > self.left {
                self.log.complained(LONGER.as_bytes());
                bytes.truncate(self.left as usize);
                self.source = Source::Empty;
            }
            self.left -= bytes.len() as u64;
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}
