//! Responses from bytes, in whatever pieces these come. No sockets here.
//!
//! What is wrong with a response ends its connection, and so does everything that another peer
//! might read differently: a length beside chunks, or bytes behind the end.

use std::mem::MaybeUninit;

use super::chunks::Chunks;
use super::error::HttpError;
use super::number;

/// Bytes that a response's head may have. Usual servers send at most 64 KiB; a tenth would refuse
/// some with many cookies, ten times more would be memory that a hostile peer can take for each
/// call.
const LARGEST_HEAD: usize = 128 << 10;

/// Header fields that it may have: the parser's table is on the stack, so ten times more would be a
/// frame of 32 KiB in each call. Usual responses have 10 to 30.
const MOST_FIELDS: usize = 100;

/// Bytes for which there is room before any has come, whatever length a peer announces.
const MOST_TRUSTED: usize = 1 << 20;

/// A response, all of which is here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header fields: names in small letters and values in turn, each with a line feed behind
    /// it.
    pub fields: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// Takes the bytes of one response.
pub struct Decoder {
    state: ReadState,
    /// Bytes of the head that were there when it was looked at last: they have no end in them.
    looked_at: usize,
    has_begun: bool,
    is_for_head: bool,
    keeps: bool,
    most: usize,
    /// The response, once all is here.
    pub response: Response,
}

/// What the decoder expects next.
enum ReadState {
    Head,
    /// A body, of which so many bytes are missing.
    Length(u64),
    Chunks(Chunks),
    /// A body that ends with the connection.
    Rest,
    Done,
}

impl Decoder {
    /// A decoder for the answer to `HEAD`, which has no body, or to any other method, with at most
    /// so many bytes of body.
    pub fn new(is_for_head: bool, most: usize) -> Decoder {
        Decoder {
            state: ReadState::Head,
            looked_at: 0,
            has_begun: false,
            is_for_head,
            keeps: false,
            most,
            response: Response::default(),
        }
    }

    /// Takes bytes, beginning with those that the last call left; how many it took. What it leaves
    /// it wants to see again when there are more, or it belongs to no response.
    ///
    /// # Errors
    /// Fails if this is not a response, or too long.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, HttpError> {
        self.has_begun |= !bytes.is_empty();
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let (count, is_over) = match &mut self.state {
                ReadState::Head => match self.head(rest)? {
                    Some(length) => {
                        taken += length;
                        continue;
                    }
                    None => return Ok(taken),
                },
                ReadState::Length(left) => {
                    let count =
                        usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    self.response.body.extend_from_slice(&rest[..count]);
                    *left -= count as u64;
                    (count, *left == 0)
                }
                ReadState::Chunks(chunks) => {
                    chunks.take(rest, &mut self.response.body, self.most)?
                }
                ReadState::Rest => {
                    if rest.len() > self.most - self.response.body.len() {
                        return Err(HttpError::Large(self.most));
                    }
                    self.response.body.extend_from_slice(rest);
                    (rest.len(), false)
                }
                ReadState::Done => return Ok(taken),
            };
            taken += count;
            if !is_over {
                return Ok(taken);
            }
            self.state = ReadState::Done;
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Fails if the response is not complete.
    pub fn close(&mut self) -> Result<(), HttpError> {
        match self.state {
            ReadState::Rest => self.state = ReadState::Done,
            ReadState::Done => {}
            _ => return Err(HttpError::broken("it breaks off")),
        }
        Ok(())
    }

    /// Whether anything has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether all is here.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ReadState::Done)
    }

    /// Whether the peer takes another request behind this one.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Bytes that are known to come.
    pub fn expected(&self) -> u64 {
        match &self.state {
            ReadState::Length(left) => *left,
            ReadState::Chunks(chunks) => chunks.expected(),
            _ => 0,
        }
    }

    /// Takes a head, if all of it is here; its length.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, HttpError> {
        let Some(first) = bytes.first() else { return Ok(None) };
        // Nothing may come before, so an empty line can only be the end.
        if *first != b'H' {
            return Err(malformed());
        }
        // However small the pieces are, it is parsed twice at most.
        let is_new = self.looked_at == 0;
        if is_new || has_empty_line(&bytes[self.looked_at.saturating_sub(3)..]) {
            let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
            let mut head = httparse::Response::new(&mut []);
            let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
                &mut head,
                bytes,
                &mut fields,
            );
            match parsed.map_err(|error| HttpError::Broken(error.to_string()))? {
                httparse::Status::Complete(length) if length <= LARGEST_HEAD => {
                    self.looked_at = 0;
                    self.understand(&head, length)?;
                    return Ok(Some(length));
                }
                httparse::Status::Partial if is_new => {}
                _ => return Err(malformed()),
            }
        }
        self.looked_at = bytes.len();
        if bytes.len() > LARGEST_HEAD { Err(malformed()) } else { Ok(None) }
    }

    fn understand(
        &mut self,
        head: &httparse::Response<'_, '_>,
        length: usize,
    ) -> Result<(), HttpError> {
        let status = head.code.unwrap_or_default();
        match status {
            101 => return Err(HttpError::broken("it changes the protocol")),
            // Another one follows.
            100..200 => return Ok(()),
            200.. => {}
            _ => return Err(malformed()),
        }
        let is_old = head.version == Some(0);
        let (mut announced, mut is_chunked) = (None, false);
        let (mut closes, mut stays) = (false, !is_old);
        self.response.status = status;
        let flat = &mut self.response.fields;
        flat.reserve_exact(length);
        for field in &*head.headers {
            let (name, value) = (field.name, field.value);
            let start = flat.len();
            flat.extend_from_slice(name.as_bytes());
            flat[start..].make_ascii_lowercase();
            match &flat[start..] {
                b"content-length" => announced = Some(self::length(value, announced)?),
                b"transfer-encoding"
                    if is_old || is_chunked || !value.eq_ignore_ascii_case(b"chunked") =>
                {
                    return Err(HttpError::broken("its transfer encoding is unknown"));
                }
                b"transfer-encoding" => is_chunked = true,
                b"connection" => {
                    closes |= has_token(value, b"close");
                    stays |= has_token(value, b"keep-alive");
                }
                _ => {}
            }
            flat.push(b'\n');
            flat.extend_from_slice(value);
            flat.push(b'\n');
        }
        self.state = match announced {
            _ if self.is_for_head || matches!(status, 204 | 304) => ReadState::Done,
            _ if is_chunked => ReadState::Chunks(Chunks::default()),
            Some(0) => ReadState::Done,
            Some(length) if length > self.most as u64 => return Err(HttpError::Large(self.most)),
            Some(length) => {
                self.response.body.reserve_exact((length as usize).min(MOST_TRUSTED));
                ReadState::Length(length)
            }
            None => ReadState::Rest,
        };
        let is_ambiguous = is_chunked && announced.is_some();
        self.keeps = stays && !closes && !is_ambiguous && !matches!(self.state, ReadState::Rest);
        Ok(())
    }
}

fn malformed() -> HttpError {
    HttpError::broken("its head is malformed")
}

/// A length, of which there may be several as long as they agree.
fn length(value: &[u8], mut before: Option<u64>) -> Result<u64, HttpError> {
    for part in value.split(|byte| *byte == b',') {
        let length = number(part.trim_ascii());
        if length.is_none() || before.is_some() && before != length {
            return Err(HttpError::broken("its length is unclear"));
        }
        before = length;
    }
    before.ok_or_else(malformed)
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

fn has_empty_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"\n" | b"\r\n"))
}

#[cfg(test)]
mod tests;
