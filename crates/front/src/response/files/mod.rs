//! Static files: plans the response to a request for a file. The caller carries out the plan.
//!
//! The order of decisions is that of RFC 9110: the method, the representation (a compressed file
//! beside the requested one, if the client accepts it), the conditions, the ranges. The file is
//! already open, so the whole response is about the same file, whatever happens to its name.

pub mod conditions;
mod kind;
mod open;
pub mod ranges;
mod slices;
#[cfg(test)]
mod tests;
mod variant;

pub use open::{OpenFile, Opened, open};
pub use slices::FileSlices;

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokamak_config::FileCharset;

use crate::failure::Failure;
use crate::response::pages;
use conditions::{Condition, Validators};
use ranges::Ranges;
use slices::Slice;

/// Largest body that is read at once, because streaming a small one costs more than it saves. A
/// tenth of this would stream ordinary scripts and style sheets; ten times more would let each slow
/// client hold that much memory.
const SMALL: u64 = 64 * 1024;

/// A response for a file.
#[derive(Debug)]
pub struct FileResponse {
    /// Status.
    pub status: StatusCode,
    /// All headers that belong to the file, with `Content-Length`.
    pub headers: HeaderMap,
    /// Body.
    pub body: Body,
}

impl FileResponse {
    fn into_response<B: From<Body>>(self) -> Response<B> {
        let mut response = Response::new(B::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The body of a response for a file.
#[derive(Debug)]
pub enum Body {
    /// No body, because of the method or the status.
    Empty,
    /// The whole body.
    Bytes(Bytes),
    /// A body that is read while it is sent.
    Files(FileSlices),
}

/// The response for a request that [`crate::route`] found to be for a file.
///
/// # Errors
/// Fails if the method is not allowed for files, if a condition does not hold, or if the file
/// cannot be read.
pub fn respond<T, B: From<Body>>(
    found: OpenFile,
    request: &Request<T>,
    charset: &FileCharset,
) -> Result<Response<B>, Failure> {
    plan(found, request.method(), request.headers(), charset).map(FileResponse::into_response)
}

/// The response that says what may be asked of a file, or of a list of files.
pub fn options<B: From<Body>>() -> Response<B> {
    allowed().into_response()
}

fn allowed() -> FileResponse {
    let headers = HeaderMap::from_iter([(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"))]);
    FileResponse { status: StatusCode::NO_CONTENT, headers, body: Body::Empty }
}

/// As [`respond`], without the server's types.
///
/// # Errors
/// Fails as [`respond`] does.
pub fn plan(
    found: OpenFile,
    method: &Method,
    request: &HeaderMap,
    charset: &FileCharset,
) -> Result<FileResponse, Failure> {
    match *method {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return Ok(allowed()),
        _ => return Err(Failure::MethodNotAllowed),
    }
    let kind = kind::of(&found.path);
    let mut headers = HeaderMap::with_capacity(8);
    let (found, coding) = if kind::is_compressible(kind) {
        // Also without a compressed file: one may be added later.
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        variant::choose(found, request)
    } else {
        (found, None)
    };
    let validators = Validators::of(&found, coding);
    headers.insert(ETAG, text(&validators.etag)?);
    headers.insert(LAST_MODIFIED, text(&validators.last_modified)?);
    match conditions::evaluate(&validators, request) {
        Condition::Go => {}
        Condition::NotModified => {
            return Ok(FileResponse {
                status: StatusCode::NOT_MODIFIED,
                headers,
                body: Body::Empty,
            });
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
    let kind = kind::with_charset(kind, charset);
    let (status, parts) = match ranges {
        Ranges::Whole => {
            headers.insert(CONTENT_TYPE, text(&kind)?);
            (StatusCode::OK, vec![Slice::File { offset: 0, len: found.len }])
        }
        Ranges::Some(ranges) => match ranges[..] {
            [range] => {
                headers.insert(CONTENT_TYPE, text(&kind)?);
                headers.insert(CONTENT_RANGE, text(&range.described(found.len))?);
                (
                    StatusCode::PARTIAL_CONTENT,
                    vec![Slice::File { offset: range.offset, len: range.len }],
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
        // Reading fails if the file has just become shorter. The next request sees the new length.
        1..=SMALL => Body::Bytes(all(slices).map_err(|_| Failure::Internal)?),
        _ => Body::Files(slices),
    };
    Ok(FileResponse { status, headers, body })
}

/// The content type of a file, by its name.
fn is_range_wanted(validators: &Validators, request: &HeaderMap) -> bool {
    conditions::is_range_wanted(Some(&validators.etag), Some(&validators.last_modified), request)
}

/// The `Content-Type` of a file by its name.
pub fn content_type(path: &Path, charset: &FileCharset) -> Cow<'static, str> {
    kind::with_charset(kind::of(path), charset)
}

fn unsatisfiable(len: u64) -> Result<FileResponse, Failure> {
    let (status, mut headers, page) = pages::answer(Failure::RangeUnsatisfiable);
    headers.insert(CONTENT_RANGE, text(&format!("bytes */{len}"))?);
    Ok(FileResponse { status, headers, body: Body::Bytes(page) })
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

/// A random text that cannot be guessed, and that occurs in the file only with a chance of 1 in
/// 2^128.
fn boundary() -> String {
    let (left, right) = (RandomState::new(), RandomState::new());
    format!("{:016x}{:016x}", left.hash_one(1), right.hash_one(2))
}
