//! Parses the headers of a CGI response (RFC 3875 section 6) at the front of a stream that may be
//! cut anywhere. Headers that a client or proxy could read as another response are refused, not
//! repaired.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::ext::ReasonPhrase;

use crate::backend::response_head::{drop_connection_fields, put_header, reason_phrase};

const TOO_LONG: &str = "the application sent headers that are too long";

/// Most bytes of an incomplete end of the headers: `\n\r`.
const END: usize = 2;

/// Status and headers.
#[derive(Debug, PartialEq)]
pub struct Head {
    /// The status, final or interim.
    pub status: StatusCode,
    /// Its reason phrase, if it is not the usual one.
    pub reason: Option<ReasonPhrase>,
    /// All headers that a client may see.
    pub headers: HeaderMap,
}

/// Collects the headers.
#[derive(Debug)]
pub struct Block {
    begun: BytesMut,
    most: usize,
}

impl Block {
    /// Begins a block of headers of at most `most` bytes.
    pub fn new(most: usize) -> Block {
        Block { begun: BytesMut::new(), most }
    }

    /// Adds the next bytes. Gives the head when it is complete, and the bytes behind it.
    ///
    /// # Errors
    /// Fails with the reason if the bytes are not valid headers.
    pub fn feed(&mut self, bytes: Bytes) -> Result<Option<(Head, Bytes)>, &'static str> {
        // The usual case: all of it at once, and nothing to copy.
        let is_first = self.begun.is_empty();
        // The earlier bytes have been searched already, but the end may have begun in the last of
        // them.
        let from = self.begun.len().saturating_sub(END);
        if !is_first {
            self.begun.extend_from_slice(&bytes);
        }
        let all = if is_first { &bytes[..] } else { &self.begun[..] };
        match end(all, from) {
            Some(end) if end <= self.most => {
                let all = if is_first { bytes } else { self.begun.split().freeze() };
                Ok(Some((parse(&all[..end])?, all.slice(end..))))
            }
            None if all.len() <= self.most => {
                if is_first {
                    self.begun.extend_from_slice(&bytes);
                }
                Ok(None)
            }
            _ => Err(TOO_LONG),
        }
    }

    /// The error if the stream ends here.
    pub fn unfinished(&self) -> &'static str {
        missing(&self.begun)
    }
}

/// The position behind the empty line that ends the headers, which is the first line if there are
/// none. The search starts at `from`.
fn end(bytes: &[u8], mut from: usize) -> Option<usize> {
    match bytes {
        [b'\n', ..] => return Some(1),
        [b'\r', b'\n', ..] => return Some(2),
        _ => {}
    }
    while let Some(at) = memchr::memchr(b'\n', &bytes[from..]) {
        let next = from + at + 1;
        match bytes[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => from = next,
        }
    }
    None
}

/// Whether the output of a program so far begins with complete headers of at most `most` bytes.
/// `is_over`: the output is complete.
///
/// # Errors
/// Fails with the reason if the bytes are not valid headers.
pub fn validate(bytes: &[u8], most: usize, is_over: bool) -> Result<bool, &'static str> {
    match end(bytes, 0) {
        Some(end) if end <= most => parse(&bytes[..end]).map(|_| true),
        None if is_over => Err(missing(bytes)),
        None if bytes.len() <= most => Ok(false),
        _ => Err(TOO_LONG),
    }
}

/// The error for headers without an end.
fn missing(begun: &[u8]) -> &'static str {
    if begun.is_empty() {
        "the application sent no response"
    } else {
        "the application sent headers without an end"
    }
}

fn parse(block: &[u8]) -> Result<Head, &'static str> {
    let mut status = None;
    let mut headers = HeaderMap::with_capacity(16);
    for line in block.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon =
            memchr::memchr(b':', line).ok_or("the application sent a header without a colon")?;
        // This also refuses a space before the colon, and a folded line.
        let name = HeaderName::from_bytes(&line[..colon])
            .map_err(|_| "the application sent an invalid header name")?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii())
            .map_err(|_| "the application sent a header value with control characters")?;
        if name.as_str() == "status" {
            if status.replace(code(value.as_bytes())?).is_some() {
                return Err("the application sent two statuses");
            }
        } else {
            put_header(&mut headers, name, value);
        }
    }
    drop_connection_fields(&mut headers);
    let (status, reason) = match status {
        Some(status) => status,
        None if headers.contains_key(header::LOCATION) => (StatusCode::FOUND, None),
        None => (StatusCode::OK, None),
    };
    Ok(Head { status, reason, headers })
}

/// Parses three digits, optionally followed by a space and a reason phrase.
fn code(value: &[u8]) -> Result<(StatusCode, Option<ReasonPhrase>), &'static str> {
    const WRONG: &str = "the application sent a status that is not a number of three digits";
    let (digits, words) = value.split_at_checked(3).ok_or(WRONG)?;
    if !words.is_empty() && !words.starts_with(b" ") {
        return Err(WRONG);
    }
    let status = StatusCode::from_bytes(digits).map_err(|_| WRONG)?;
    Ok((status, reason_phrase(status, words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> Result<Option<(Head, Bytes)>, &'static str> {
        let mut block = Block::new(100);
        let mut found = Ok(None);
        for piece in pieces {
            found = block.feed(Bytes::copy_from_slice(piece.as_bytes()));
            if !matches!(found, Ok(None)) {
                return found;
            }
        }
        found
    }

    fn describe(text: &str) -> String {
        match read(&[text]) {
            Ok(Some((Head { status, headers, .. }, rest))) => {
                let headers: Vec<String> =
                    headers.iter().map(|(n, v)| format!("{n}={}", v.to_str().unwrap())).collect();
                format!(
                    "{} {} {}",
                    status.as_u16(),
                    headers.join(" "),
                    String::from_utf8_lossy(&rest)
                )
            }
            Ok(None) => "more".into(),
            Err(_) => "wrong".into(),
        }
    }

    #[test]
    fn heads_are_read() {
        for (text, expected) in [
            ("A: b\r\n\r\nbody", "200 a=b body"),
            ("A: b\n\nbody", "200 a=b body"),
            ("A:  b \n\r\n\nbody", "200 a=b \nbody"),
            ("Status: 404 Not Found\r\nA: b\r\n\r\n", "404 a=b "),
            ("status: 201\r\nA: b\r\n\r\n", "201 a=b "),
            ("Location: /x\r\n\r\n", "302 location=/x "),
            ("Status: 301\r\nLocation: /x\r\n\r\n", "301 location=/x "),
            ("A: 1\r\nA: 2\r\n\r\n", "200 a=1 a=2 "),
            ("Content-Length: 7, 99\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n", "200 a=b "),
            ("Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "200 content-length=3 "),
            ("\r\nbody", "200  body"),
            ("\nA: b\n\nbody", "200  A: b\n\nbody"),
            ("Status: 299\r\n\r\n", "299  "),
            ("\r", "more"),
            ("A: b\r\n", "more"),
            ("", "more"),
        ] {
            assert_eq!(describe(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_an_unusual_reason_phrase_is_kept() {
        for (status, expected) in [
            ("404 Not Found", None),
            ("404", None),
            ("404 ", None),
            ("404 Gone Fishing", Some("Gone Fishing")),
            ("299 Fine", Some("Fine")),
            ("299", None),
        ] {
            let head = read(&[&format!("Status: {status}\r\n\r\n")]).unwrap().unwrap().0;
            let reason = head.reason.as_ref().map(|reason| reason.as_bytes());
            assert_eq!(reason, expected.map(str::as_bytes), "{status}");
        }
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "no colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
            "A : b\r\n\r\n",
            "A: b\r\n folded\r\n\r\n",
            "A: b\rB: c\r\n\r\n",
            "A: b\0c\r\n\r\n",
            "\u{e4}: b\r\n\r\n",
            ": b\r\n\r\n",
            "Status: 1000\r\n\r\n",
            "Status: abc\r\n\r\n",
            "Status: 20\r\n\r\n",
            "Status: -20\r\n\r\n",
            "Status: 099\r\n\r\n",
            "Status:\r\n\r\n",
            "Status: 200\r\nStatus: 200\r\n\r\n",
        ] {
            assert_eq!(describe(text), "wrong", "{text:?}");
        }
        assert!(read(&[&"A: ".repeat(40)]).is_err());
        assert!(read(&["A: b\r\n"; 17]).is_err());
    }

    #[test]
    fn cuts_change_nothing() {
        let text = "Status: 404\r\nA: b\r\n\r\nbody";
        let whole = read(&[text]);
        for cut in 0..text.len() - 4 {
            let (left, right) = text.split_at(cut);
            assert_eq!(read(&[left, right]), whole, "{left:?} {right:?}");
        }
        assert_eq!(read(&["\r", "\nbody"]), read(&["\r\nbody"]));
        let bytes: Vec<&str> = text.split("").collect();
        let (head, rest) = read(&bytes).unwrap().unwrap();
        assert_eq!((head.status.as_u16(), rest.len()), (404, 0));
    }

    /// Each byte is looked at once. With a quadratic search a megabyte would take hours.
    #[test]
    fn bytes_one_by_one_cost_no_more_than_all_at_once() {
        let mut block = Block::new(usize::MAX);
        for byte in b"A: b\r\n".repeat(200_000).chunks(1) {
            assert_eq!(block.feed(Bytes::copy_from_slice(byte)), Ok(None));
        }
        assert!(matches!(block.feed(Bytes::from_static(b"\n")), Ok(Some(_))));
    }
}
