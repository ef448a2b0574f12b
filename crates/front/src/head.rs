//! What every application's response head goes through, whichever way it came.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::response::Source;

/// Headers of the connection, not of the message, are the server's business (RFC 9110 section 7.6.1).
pub fn put_header(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    const CONNECTION: [HeaderName; 4] =
        [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TRAILER];
    if CONNECTION.contains(&name) || name.as_str() == "keep-alive" {
        return;
    }
    // The length frames the message: only a plain number, and only one, may pass.
    if name == header::CONTENT_LENGTH {
        let plain = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
        if plain && !headers.contains_key(&name) {
            headers.insert(name, value);
        }
        return;
    }
    // `header("Content-Type:")` is how a script asks for none.
    if name == header::CONTENT_TYPE && value.is_empty() {
        return;
    }
    headers.append(name, value);
}

/// Gives a response its whole body. What the application said of its length counts only if it is true.
pub fn complete(response: &mut Response<Source>, body: Bytes) {
    if let Some(said) = response.headers().get(header::CONTENT_LENGTH)
        && !body.is_empty()
        && said.as_bytes() != Decimal::default().text(body.len() as u64)
    {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    *response.body_mut() = Source::Whole(body);
}

/// An interim response as it is sent. `None` for what is none: any other status would be taken for the response, and
/// the response for that of the next request; 101 would end HTTP on this connection.
pub fn interim(status: StatusCode, headers: &HeaderMap) -> Option<Vec<u8>> {
    if !(102..200).contains(&status.as_u16()) {
        return None;
    }
    let mut bytes =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or("")).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    Some(bytes)
}

/// A number as decimal text, without an allocation.
#[derive(Default)]
pub struct Decimal {
    digits: [u8; 20],
}

impl Decimal {
    /// The digits of `n`.
    pub fn text(&mut self, mut n: u64) -> &[u8] {
        let mut at = self.digits.len();
        loop {
            at -= 1;
            self.digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return &self.digits[at..];
            }
        }
    }
}
