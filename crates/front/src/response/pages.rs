//! The plain page of a status, for every response that the server makes itself.
//!
//! A page says what happened and nothing about the server: no name, no version, no path.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::Source;
use crate::failure::{Failure, Retry};

/// `Retry-After` in seconds for a client that was turned away. It cannot be smaller in HTTP's whole
/// seconds, and a queue mostly drains faster; ten times more would keep clients away from a server
/// that is idle again.
const RETRY_SECONDS: u64 = 1;

/// The page for a status, with a sentence. The sentence is escaped.
pub fn page(status: StatusCode, text: &str) -> Bytes {
    let code = status.as_u16();
    let reason = status.canonical_reason().unwrap_or("Error");
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{code} \
            {reason}</title></head>\n\
         <body>\n<h1>{code} {reason}</h1>\n<p>"
    );
    escape(text, &mut page);
    page.push_str("</p>\n</body>\n</html>\n");
    Bytes::from(page)
}

/// Status, headers and page for a failure, which is counted. A caller that knows the methods that
/// are allowed replaces `Allow` of a 405.
pub fn answer(failure: Failure) -> (StatusCode, HeaderMap, Bytes) {
    failure.note();
    let status = failure.status();
    let body = page(status, failure.text());
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    // A 404 or 405 may be cached by default (RFC 9110, 15.1), but a page that a deploy adds must
    // show up immediately.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if failure.retry() == Retry::Later {
        headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    }
    (status, headers, body)
}

/// The response to a failed request.
pub fn failed(failure: Failure) -> Response<Source> {
    let (status, headers, body) = answer(failure);
    let mut response = Response::new(Source::Whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // Close the connection: the unread rest of a body would be taken for the next request.
    if matches!(
        failure,
        Failure::BodyTooLarge | Failure::BodySlow | Failure::BadRequest | Failure::NotImplemented
    ) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The plain response with a status of an application, in place of what that said.
pub fn plain(status: StatusCode) -> Response<Source> {
    let text = status.canonical_reason().unwrap_or("Something went wrong.");
    let mut response = Response::new(Source::Whole(page(status, text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The response that sends the client to another address.
pub fn redirect(to: &str, status: StatusCode) -> Response<Source> {
    let mut response = Response::new(Source::Whole(page(status, "The page is elsewhere.")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(LOCATION, to);
    }
    response
}

/// A whole HTTP/1.1 response with `Connection: close`, for bytes that are not a valid request,
/// which never reach the HTTP library.
pub fn raw(failure: Failure) -> Vec<u8> {
    let (status, headers, body) = answer(failure);
    let reason = status.canonical_reason().unwrap_or("Error");
    let mut raw = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &headers {
        raw.extend_from_slice(name.as_str().as_bytes());
        raw.extend_from_slice(b": ");
        raw.extend_from_slice(value.as_bytes());
        raw.extend_from_slice(b"\r\n");
    }
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    raw.extend_from_slice(format!("date: {date}\r\nconnection: close\r\n\r\n").as_bytes());
    raw.extend_from_slice(&body);
    raw
}

/// Appends a text to a page, between tags or in an attribute.
pub(super) fn escape(text: &str, page: &mut String) {
    for char in text.chars() {
        match char {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            char if char.is_control() => page.push('\u{fffd}'),
            char => page.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_page() {
        for &failure in Failure::ALL {
            let (status, headers, body) = answer(failure);
            let page = std::str::from_utf8(&body).unwrap();
            assert_eq!(status, failure.status());
            assert_eq!(headers[CONTENT_LENGTH], body.len().to_string().as_str());
            assert!(page.contains(&format!("<title>{} ", status.as_u16())), "{page}");
            assert!(!page.to_lowercase().contains("tokamak"), "{page}");
            assert_eq!(headers.contains_key(RETRY_AFTER), failure.retry() == Retry::Later);
            assert_eq!(headers.contains_key(ALLOW), status == StatusCode::METHOD_NOT_ALLOWED);

            let raw = String::from_utf8(raw(failure)).unwrap();
            let (head, sent) = raw.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {} ", status.as_u16())), "{head}");
            assert!(head.contains("connection: close"), "{head}");
            assert_eq!(sent, page);
        }
    }

    #[test]
    fn text_cannot_become_markup() {
        let page = page(StatusCode::BAD_REQUEST, "<script>\"&'\u{7}");
        let page = std::str::from_utf8(&page).unwrap();
        assert!(page.contains("<p>&lt;script&gt;&quot;&amp;&#39;\u{fffd}</p>"), "{page}");
    }
}
