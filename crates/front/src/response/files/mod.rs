//! Static files: what a request for one gets, as a plan that somebody else carries out.
//!
//! The order of decisions is that of RFC 9110: the method, the representation (a compressed file
//! beside the asked one, if the client takes it), the conditions, the ranges. The file has been
//! opened before, so all of the answer is about the same file, whatever happens to its name.

pub mod conditions;
mod kind;
mod open;
pub mod ranges;
mod slices;
#[cfg(test)]
mod tests;
mod variant;

pub use open::{Found, Opened, open};
pub use slices::FileSlices;

use std::hash::{BuildHasher, RandomState};
use std::io;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::failure::Failure;
use crate::response::pages;
use conditions::{Condition, Validators};
use ranges::Ranges;
use slices::Part;

/// Largest body that is read at once: below it, streaming costs more than it saves. Chosen
/// arbitrarily.
const SMALL: u64 = 64 * 1024;

/// A response for a file.
#[derive(Debug)]
pub struct Plan {
    /// Status.
    pub status: StatusCode,
    /// All headers that belong to the file, with `Content-Length`.
    pub headers: HeaderMap,
    /// Body.
    pub body: Body,
}

/// The body of a response for a file.
#[derive(Debug)]
pub enum Body {
    /// None: the method, or the status, wants none.
    Empty,
    /// All of it.
    Bytes(Bytes),
    /// To be read while it is sent.
    Files(FileSlices),
}

/// The response for a request that [`crate::route`] found to be for a file.
///
/// # Errors
/// A method that files do not know, a condition that does not hold, a file that cannot be read.
pub fn respond<T, B: From<Body>>(
    found: Found,
    request: &Request<T>,
) -> Result<Response<B>, Failure> {
    let plan = plan(found, request.method(), request.headers())?;
    let mut response = Response::new(B::from(plan.body));
    *response.status_mut() = plan.status;
    *response.headers_mut() = plan.headers;
    Ok(response)
}

/// As [`respond`], without the types of a server.
///
/// # Errors
/// As [`respond`].
pub fn plan(found: Found, method: &Method, request: &HeaderMap) -> Result<Plan, Failure> {
    match *method {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => {
            let headers =
                HeaderMap::from_iter([(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"))]);
            return Ok(Plan { status: StatusCode::NO_CONTENT, headers, body: Body::Empty });
        }
        _ => return Err(Failure::MethodNotAllowed),
    }
    let kind = kind::of(&found.path);
    let mut headers = HeaderMap::with_capacity(8);
    let (found, coding) = if kind::is_compressible(kind) {
        // Also when there is no other representation: tomorrow there may be one.
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        variant::choose(found, request)
    } else {
        (found, None)
    };
    let validators = Validators::of(&found, coding);
    headers.insert(ETAG, text(&validators.etag)?);
    headers.insert(LAST_MODIFIED, text(&validators.last_modified)?);
    match conditions::judge(&validators, request) {
        Condition::Go => {}
        Condition::NotModified => {
            return Ok(Plan { status: StatusCode::NOT_MODIFIED, headers, body: Body::Empty });
        }
        Condition::Failed => return Err(Failure::PreconditionFailed),
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(coding) = coding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    // A range is defined for GET only (RFC 9110, 14.2).
    let ranges = if *method == Method::GET && is_range_wanted(&validators, request) {
        ranges::of(request, found.len)
    } else {
        Ranges::Whole
    };
    let kind = kind::with_charset(kind);
    let (status, parts) = match ranges {
        Ranges::Whole => {
            headers.insert(CONTENT_TYPE, text(&kind)?);
            (StatusCode::OK, vec![Part::File { offset: 0, len: found.len }])
        }
        Ranges::Some(ranges) => match ranges[..] {
            [range] => {
                headers.insert(CONTENT_TYPE, text(&kind)?);
                headers.insert(CONTENT_RANGE, text(&range.described(found.len))?);
                (
                    StatusCode::PARTIAL_CONTENT,
                    vec![Part::File { offset: range.offset, len: range.len }],
                )
            }
            _ => {
                let boundary = boundary();
                headers.insert(
                    CONTENT_TYPE,
                    text(&format!("multipart/byteranges; boundary={boundary}"))?,
                );
                (
                    StatusCode::PARTIAL_CONTENT,
                    ranges::multipart(&ranges, found.len, &kind, &boundary),
                )
            }
        },
        Ranges::None => return unsatisfiable(found.len),
    };
    let slices = FileSlices::new(found.file, parts);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(slices.left()));
    let body = match slices.left() {
        _ if *method == Method::HEAD => Body::Empty,
        0 => Body::Empty,
        // Reading fails when the file has just become shorter; the next request sees its new
        // length.
        1..=SMALL => Body::Bytes(all(slices).map_err(|_| Failure::Internal)?),
        _ => Body::Files(slices),
    };
    Ok(Plan { status, headers, body })
}

/// The content type of a file, by its name.
fn is_range_wanted(validators: &Validators, request: &HeaderMap) -> bool {
    conditions::is_range_wanted(Some(&validators.etag), Some(&validators.last_modified), request)
}

/// The `Content-Type` of a file by its name.
pub fn content_type(path: &std::path::Path) -> std::borrow::Cow<'static, str> {
    kind::with_charset(kind::of(path))
}

fn unsatisfiable(len: u64) -> Result<Plan, Failure> {
    let (status, mut headers, page) = pages::answer(Failure::RangeUnsatisfiable);
    headers.insert(CONTENT_RANGE, text(&format!("bytes */{len}"))?);
    Ok(Plan { status, headers, body: Body::Bytes(page) })
}

fn all(mut slices: FileSlices) -> io::Result<Bytes> {
    let first = slices.read(SMALL as usize)?;
    if slices.left() == 0 {
        return Ok(first);
    }
    let mut bytes = first.to_vec();
    while slices.left() > 0 {
        bytes.extend_from_slice(&slices.read(SMALL as usize)?);
    }
    Ok(bytes.into())
}

fn text(value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).map_err(|_| Failure::Internal)
}

/// Text that does not occur in the file, but for a chance of one to 2^128, and that nobody can
/// guess.
fn boundary() -> String {
    let (left, right) = (RandomState::new(), RandomState::new());
    format!("{:016x}{:016x}", left.hash_one(1), right.hash_one(2))
}
