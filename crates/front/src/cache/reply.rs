//! Sends a stored response: whole, in part, or as a 304, with `Age` and `Cache-Status` (RFC 9111
//! section 5.1, RFC 9211).

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

/// Where a response came from, as `Cache-Status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// It was in the store.
    Hit,
    /// It was not in the store, but in the second tier.
    Shared,
    /// Another request had asked the application for it.
    Collapsed,
    /// It was not in the store.
    Miss { is_stored: bool },
    /// It was stale. `status` is the application's answer.
    Stale { status: u16, is_stored: bool },
    /// It was stale, and was sent because the application failed.
    Error,
    /// The store was not asked.
    Bypass,
}

/// Adds `Cache-Status` to a response, and removes the fields that are for this cache alone.
pub fn mark(headers: &mut HeaderMap, how: CacheStatus, ttl: Option<i64>) {
    headers.remove(OWN_CONTROL);
    let mut text = BytesMut::with_capacity(64);
    let stored = |is_stored| if is_stored { "; stored" } else { "" };
    let _ = match how {
        CacheStatus::Hit => write!(text, "Tokamak; hit"),
        CacheStatus::Shared => write!(text, "Tokamak; hit; detail=shared"),
        CacheStatus::Collapsed => write!(text, "Tokamak; fwd=miss; collapsed"),
        CacheStatus::Miss { is_stored } => write!(text, "Tokamak; fwd=miss{}", stored(is_stored)),
        CacheStatus::Stale { status, is_stored } => {
            write!(text, "Tokamak; fwd=stale; fwd-status={status}{}", stored(is_stored))
        }
        CacheStatus::Error => write!(text, "Tokamak; hit; detail=error"),
        CacheStatus::Bypass => write!(text, "Tokamak; fwd=bypass"),
    };
    if let Some(ttl) = ttl {
        let _ = write!(text, "; ttl={ttl}");
    }
    if let Ok(value) = HeaderValue::from_maybe_shared(text.freeze()) {
        headers.append(CACHE_STATUS, value);
    }
}

/// Makes the response to a request from a stored entry.
pub fn answer(
    entry: &Entry,
    method: &Method,
    request: &HeaderMap,
    how: CacheStatus,
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
    // `Age` shows that the application was not asked for this request, or that another cache had
    // the response.
    if matches!(
        how,
        CacheStatus::Hit | CacheStatus::Shared | CacheStatus::Collapsed | CacheStatus::Error
    ) || entry.is_aged()
    {
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
        // A request for several ranges gets the whole body, which is allowed (RFC 9110 section
        // 14.2): stored bodies are small.
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
