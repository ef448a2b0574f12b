//! Requests as bytes.

use std::ops::Range;
use std::path::Path;

use http::Method;
use http::header::{self, HeaderName, HeaderValue};

use super::error::HttpError;
use super::stream::Address;
use super::url;

/// Fields by which a caller could break the framing of its request, or ask for what this client
/// does not do.
const RESERVED: &[HeaderName] = &[
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Room for what is around the parts of a request that has no more fields than it must.
const ROOM: usize = 64;

/// Whether a header field is not for a request's maker to say.
pub fn is_reserved(name: &HeaderName) -> bool {
    RESERVED.contains(name)
}

/// A request that can be made.
pub struct Request<'a> {
    pub(super) address: Address<'a>,
    pub(super) method: Method,
    /// As far as it has been written.
    head: Vec<u8>,
    /// Where the value of `Host` is in it.
    host: Range<usize>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without header fields and body.
    ///
    /// # Errors
    /// Fails if the method or the address is invalid.
    pub fn new(
        method: &[u8],
        url: &'a [u8],
        socket: Option<&'a Path>,
    ) -> Result<Request<'a>, HttpError> {
        let method = Method::from_bytes(method).ok().filter(|method| method != Method::CONNECT);
        let method = method.ok_or(HttpError::Method)?;
        let url = url::parse(url).map_err(HttpError::Url)?;
        let mut head = Vec::with_capacity(url.target.len() + url.authority.len() + ROOM);
        head.extend_from_slice(method.as_str().as_bytes());
        head.extend_from_slice(if url.target.starts_with(b"/") { b" " } else { b" /" });
        head.extend_from_slice(url.target);
        head.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        let host = head.len()..head.len() + url.authority.len();
        head.extend_from_slice(url.authority);
        head.extend_from_slice(b"\r\n");
        let address = Address { port: url.port, tls: url.tls, host: url.host, socket };
        Ok(Request { address, method, head, host, body: &[] })
    }

    /// Adds a header field.
    ///
    /// # Errors
    /// Fails if the field is invalid, or one that the client sets itself.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), HttpError> {
        let bad = || HttpError::Field(String::from_utf8_lossy(name).into_owned());
        let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| bad())?;
        if is_reserved(&name) {
            return Err(bad());
        }
        if name == header::HOST {
            self.head.splice(self.host.clone(), value.as_bytes().iter().copied());
            self.host.end = self.host.start + value.len();
        } else {
            self.line(name.as_str(), value.as_bytes());
        }
        Ok(())
    }

    /// Gives it a body.
    pub fn body(&mut self, body: &'a [u8]) {
        self.body = body;
    }

    fn line(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.head.extend_from_slice(part);
        }
    }

    /// All of it in one piece, which costs the kernel less than a list of pieces.
    pub(super) fn message(&mut self) -> Vec<u8> {
        // Some servers refuse a request of these methods without a length (RFC 9110, 8.6).
        let is_meant_for_bodies = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        if is_meant_for_bodies || !self.body.is_empty() {
            self.line("content-length", self.body.len().to_string().as_bytes());
        }
        let mut message = std::mem::take(&mut self.head);
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(self.body);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: &str, body: &str) -> String {
        let mut request = Request::new(method.as_bytes(), b"http://a.example/b", None).unwrap();
        request.body(body.as_bytes());
        String::from_utf8(request.message()).unwrap()
    }

    #[test]
    fn content_length_is_sent_where_a_body_is_expected() {
        let head = |method| format!("{method} /b HTTP/1.1\r\nhost: a.example\r\n");
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            assert_eq!(message(method, ""), format!("{}\r\n", head(method)));
        }
        for method in ["POST", "PUT", "PATCH"] {
            assert_eq!(message(method, ""), format!("{}content-length: 0\r\n\r\n", head(method)));
        }
        assert_eq!(message("DELETE", "x"), format!("{}content-length: 1\r\n\r\nx", head("DELETE")));
    }
}
