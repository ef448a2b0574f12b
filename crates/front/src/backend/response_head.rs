//! Checks that every application's response head passes, whichever protocol it came by.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::ext::ReasonPhrase;

/// Adds a field of an application's response. Fields of the connection are dropped, because they
/// are for the server alone (RFC 9110 section 7.6.1); `Connection` itself stays until
/// [`drop_connection_fields`] reads it.
pub fn put_header(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    if matches!(
        name.as_str(),
        "transfer-encoding" | "upgrade" | "trailer" | "te" | "keep-alive" | "proxy-connection"
    ) {
        return;
    }
    // The length frames the message: only a plain number, and only one, may pass.
    if name == header::CONTENT_LENGTH {
        let is_plain = value.as_bytes().iter().all(u8::is_ascii_digit)
            && value.to_str().is_ok_and(|digits| digits.parse::<u64>().is_ok());
        if is_plain && !headers.contains_key(&name) {
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

/// Removes `Connection` and the fields that it names: they are for the next hop alone.
pub fn drop_connection_fields(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONNECTION) {
        return;
    }
    for name in connection_names(headers) {
        headers.remove(name);
    }
    headers.remove(header::CONNECTION);
}

/// The fields that `Connection` names.
pub fn connection_names(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(header::CONNECTION).iter();
    let names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// Whether a response of this status is an interim one that a client may get (RFC 9110 section
/// 15.2). Any other status would be taken for the response, and the response for that of the next
/// request; 101 would end HTTP on the connection.
pub fn is_interim(status: StatusCode) -> bool {
    (102..200).contains(&status.as_u16())
}

/// The reason phrase that an application gave a status, if it is not the usual one. Clients may
/// show it (RFC 9112 section 4).
pub fn reason_phrase(status: StatusCode, phrase: &[u8]) -> Option<ReasonPhrase> {
    let phrase = phrase.trim_ascii();
    let usual = status.canonical_reason().unwrap_or_default();
    if phrase.is_empty() || phrase == usual.as_bytes() {
        return None;
    }
    ReasonPhrase::try_from(phrase).ok()
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
