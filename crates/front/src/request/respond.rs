//! The last steps of a response, in one order for all ways by which it came.

use std::fmt;

use http::Response;
use http::header::{self, HeaderValue};

use crate::response::{Reply, RequestGuard, Source};

/// Removes the body from a response if the request was a HEAD.
pub fn finish(mut response: Response<Source>, head_only: bool) -> Response<Source> {
    // Keep the length of the body that a GET would get. An application may drop the body of a HEAD
    // itself, and then the length is not known.
    if head_only
        && let Source::Whole(_) | Source::Stored(_) = response.body()
        && let Some(left @ 1..) = response.body().left()
    {
        let length = HeaderValue::from(left);
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length);
        *response.body_mut() = Source::Empty;
    }
    response
}

/// The last step of every response to a client.
pub fn respond(mut response: Response<Source>, mut guard: Box<RequestGuard>) -> Response<Reply> {
    let RequestGuard { edits, ledger, .. } = &mut *guard;
    edits.apply(&mut response, ledger);
    if let Some((entry, _)) = guard.entry.as_deref_mut() {
        entry.status = response.status().as_u16();
    }
    if let Some(counted) = &mut guard.counted {
        counted.status = response.status().as_u16();
    }
    if let Some(span) = &mut guard.span {
        span.answered(response.status().as_u16());
    }
    if let Some(scoreboard) = &guard.scoreboard {
        scoreboard.answered(&response);
    }
    Reply::respond(response, guard)
}

/// The client has gone before its response began.
#[derive(Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client has gone")
    }
}

impl std::error::Error for Gone {}
