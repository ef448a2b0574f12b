//! A stored response as it is sent: whole, a part of it, or the word that the client has it
//! already; with its age and where it comes from (RFC 9111 section 5.1, RFC 9211).

use std::fmt::Write;

use bytes::BytesMut;
use http::header::{
    self, ACCEPT_RANGES, AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use http::{Method, Response, StatusCode};
use tokamak_cache::{Entry, OWN_CONTROL};

use crate::failure::Failure;
use crate::response::Source;
use crate::response::files::conditions;
use crate::response::files::ranges::{self, Ranges};
use crate::response::pages;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// How a response came about, as `Cache-Status` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was there.
    Hit,
    /// It was not there, but in the second tier.
    Shared,
    /// Another request had asked for it.
    Collapsed,
    /// It was not there; whether it is now.
    Miss { is_stored: bool },
    /// It was there but stale; what the application said of it, and whether it is stored now.
    Stale { status: u16, is_stored: bool },
    /// It was there but stale, and the application failed.
    Error,
    /// It was not looked for.
    Bypass,
}

/// Says where a response comes from. What it tells this cache alone does not go further.
pub fn mark(headers: &mut HeaderMap, how: How, ttl: Option<i64>) {
    headers.remove(OWN_CONTROL);
    let mut text = BytesMut::with_capacity(64);
    let stored = |is_stored| if is_stored { "; stored" } else { "" };
    let _ = match how {
        How::Hit => write!(text, "Tokamak; hit"),
        How::Shared => write!(text, "Tokamak; hit; detail=shared"),
        How::Collapsed => write!(text, "Tokamak; fwd=miss; collapsed"),
        How::Miss { is_stored } => write!(text, "Tokamak; fwd=miss{}", stored(is_stored)),
        How::Stale { status, is_stored } => {
            write!(text, "Tokamak; fwd=stale; fwd-status={status}{}", stored(is_stored))
        }
        How::Error => write!(text, "Tokamak; hit; detail=error"),
        How::Bypass => write!(text, "Tokamak; fwd=bypass"),
    };
    if let Some(ttl) = ttl {
        let _ = write!(text, "; ttl={ttl}");
    }
    if let Ok(value) = HeaderValue::from_maybe_shared(text.freeze()) {
        headers.append(CACHE_STATUS, value);
    }
}

/// The answer to a request that a stored response is for.
pub fn answer(
    entry: &Entry,
    method: &Method,
    request: &HeaderMap,
    how: How,
    now: u64,
) -> Response<Source> {
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = entry.status;
    *response.headers_mut() = entry.headers.clone();
    if entry.status != StatusCode::OK || !is_conditional(request) {
        *response.body_mut() = Source::Whole(entry.body.clone());
    } else {
        respond(entry, method, request, &mut response);
    }
    let headers = response.headers_mut();
    // It says that the application was not asked for this very request, or that another cache had
    // it.
    if matches!(how, How::Hit | How::Shared | How::Collapsed | How::Error) || entry.is_aged() {
        headers.insert(AGE, HeaderValue::from(entry.age(now)));
    }
    mark(headers, how, Some(entry.ttl(now)));
    response
}

fn is_conditional(request: &HeaderMap) -> bool {
    super::CONDITIONS.iter().any(|name| request.contains_key(name))
}

fn respond(entry: &Entry, method: &Method, request: &HeaderMap, response: &mut Response<Source>) {
    let text = |name| entry.headers.get(name).and_then(|value| value.to_str().ok());
    let (etag, modified) = (text(header::ETAG), text(header::LAST_MODIFIED));
    if conditions::is_known(etag, modified, request) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        for name in
            [CONTENT_LENGTH, CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE]
        {
            response.headers_mut().remove(name);
        }
        return;
    }
    let length = entry.body.len() as u64;
    let wants_part = *method == Method::GET && conditions::is_range_wanted(etag, modified, request);
    let ranges = if wants_part { ranges::of(request, length) } else { Ranges::Whole };
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    *response.body_mut() = match ranges {
        Ranges::Some(ranges) if ranges.len() == 1 => {
            let range = ranges[0];
            if let Ok(described) = HeaderValue::try_from(range.described(length)) {
                headers.insert(CONTENT_RANGE, described);
            }
            headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let start = range.offset as usize;
            Source::Whole(entry.body.slice(start..start + range.len as usize))
        }
        // Several parts of something small are as quickly sent whole, which is allowed (RFC 9110
        // section 14.2).
        Ranges::Some(_) | Ranges::Whole => Source::Whole(entry.body.clone()),
        Ranges::None => {
            let (status, page_headers, page) = pages::answer(Failure::RangeUnsatisfiable);
            *headers = page_headers;
            if let Ok(described) = HeaderValue::try_from(format!("bytes */{length}")) {
                headers.insert(CONTENT_RANGE, described);
            }
            *response.status_mut() = status;
            Source::Whole(page)
        }
    };
}
