//! Responses: heads, and what of the bytes behind them belongs to the body.
//!
//! What is wrong with a response ends its connection, and so does everything that another peer
//! might read differently: a length beside chunks, or bytes behind the end.

use std::mem::MaybeUninit;

use super::Malformed;
use super::chunks::{Chunk, Chunks, Trailers};

/// Header fields that a head may have: the parser's table is on the stack, so ten times more would
/// be a frame of 32 KiB in each call. Usual responses have 10 to 30.
const MOST_FIELDS: usize = 100;

const MALFORMED: Malformed = Malformed("its head is malformed");

/// The head of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The reason phrase; mostly the usual one.
    pub reason: String,
    /// The header fields: names in small letters and values in turn, each with a line feed behind
    /// it.
    pub fields: Vec<u8>,
}

impl Head {
    /// The fields in their order, by name and value.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut lines = self.fields.split(|byte| *byte == b'\n');
        std::iter::from_fn(move || Some((lines.next()?, lines.next()?)))
    }
}

/// What the first bytes of those that have come are.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// More are needed to tell.
    Partial,
    /// The head of an interim response.
    Interim(Head),
    /// The head of the response.
    Head(Head),
    /// So many bytes belong to the body. They are the first of those that are left.
    Body(usize),
    /// The response is complete.
    End,
}

/// Takes the bytes of one response.
#[derive(Debug)]
pub struct Decoder {
    state: ReadState,
    /// Bytes of the head that were there when it was looked at last: they have no end in them.
    looked_at: usize,
    is_for_head: bool,
    keeps: bool,
    largest_head: usize,
    /// Whether a WebSocket was asked for.
    may_upgrade: bool,
}

/// What the decoder expects next.
#[derive(Debug)]
enum ReadState {
    Head,
    /// A body, of which so many bytes are missing.
    Length(u64),
    Chunks(Chunks),
    /// A body that ends with the connection.
    Rest,
    /// What follows is no HTTP.
    Tunnel,
    /// With the fields behind the body.
    Done(Option<Box<Trailers>>),
}

impl Decoder {
    /// A decoder for the answer to `HEAD`, which has no body, or to any other method. The head has
    /// at most so many bytes.
    pub fn new(is_for_head: bool, largest_head: usize) -> Decoder {
        Decoder {
            state: ReadState::Head,
            looked_at: 0,
            is_for_head,
            keeps: false,
            largest_head,
            may_upgrade: false,
        }
    }

    /// The same for the answer to a request that asks for a WebSocket, if it does. The head of such
    /// an answer has status 101, and what follows it is not looked at.
    pub fn upgrading(self, may_upgrade: bool) -> Decoder {
        Decoder { may_upgrade, ..self }
    }

    /// What comes next in `bytes`, which begin with those that the last call left, and how many of
    /// them frame it: they are to be taken. The bytes of [`Part::Body`] follow them, and are to be
    /// taken, too.
    ///
    /// # Errors
    /// Fails if this is not a response.
    pub fn next(&mut self, bytes: &[u8]) -> Result<(usize, Part), Malformed> {
        let mut framing = 0;
        loop {
            let rest = &bytes[framing..];
            return Ok(match &mut self.state {
                ReadState::Head => match self.head(rest)? {
                    Some((length, part)) => (framing + length, part),
                    None => (framing, Part::Partial),
                },
                ReadState::Done(_) => (framing, Part::End),
                ReadState::Tunnel => (framing, Part::Partial),
                ReadState::Length(_) | ReadState::Rest if rest.is_empty() => {
                    (framing, Part::Partial)
                }
                ReadState::Length(left) => {
                    let count =
                        usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= count as u64;
                    if *left == 0 {
                        self.state = ReadState::Done(None);
                    }
                    (framing, Part::Body(count))
                }
                ReadState::Rest => (framing, Part::Body(rest.len())),
                ReadState::Chunks(chunks) => match chunks.next(rest)? {
                    Chunk::Partial => (framing, Part::Partial),
                    Chunk::Data(count) => (framing, Part::Body(count)),
                    Chunk::Framing(count) => {
                        framing += count;
                        continue;
                    }
                    Chunk::End(count) => {
                        self.state = ReadState::Done(chunks.take_trailers());
                        (framing + count, Part::End)
                    }
                },
            });
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Fails if the response is not complete.
    pub fn close(&mut self) -> Result<(), Malformed> {
        match self.state {
            ReadState::Rest => self.state = ReadState::Done(None),
            ReadState::Done(_) => {}
            _ => return Err(Malformed("it breaks off")),
        }
        Ok(())
    }

    /// Takes the fields behind the body, once it has ended: lines `name: value CR LF`, which the
    /// peer may have written in any way.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        match &mut self.state {
            ReadState::Done(trailers) => trailers.take().map(|lines| lines.0).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Whether all is here.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ReadState::Done(_))
    }

    /// Whether the peer takes another request behind this one.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Bytes of the body that are known to come.
    pub fn expected(&self) -> u64 {
        match &self.state {
            ReadState::Length(left) => *left,
            ReadState::Chunks(chunks) => chunks.expected(),
            _ => 0,
        }
    }

    /// Takes a head, if all of it is here; its length.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<(usize, Part)>, Malformed> {
        let Some(first) = bytes.first() else { return Ok(None) };
        // Nothing may come before, so an empty line can only be the end.
        if *first != b'H' {
            return Err(MALFORMED);
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
            match parsed.map_err(|_| MALFORMED)? {
                httparse::Status::Complete(length) if length <= self.largest_head => {
                    self.looked_at = 0;
                    return Ok(Some((length, self.understand(&head, length)?)));
                }
                httparse::Status::Partial if is_new => {}
                _ => return Err(MALFORMED),
            }
        }
        self.looked_at = bytes.len();
        if bytes.len() > self.largest_head { Err(MALFORMED) } else { Ok(None) }
    }

    fn understand(
        &mut self,
        parsed: &httparse::Response<'_, '_>,
        length: usize,
    ) -> Result<Part, Malformed> {
        let mut head = Head {
            status: parsed.code.unwrap_or_default(),
            reason: parsed.reason.unwrap_or_default().to_owned(),
            fields: Vec::with_capacity(length),
        };
        let is_old = parsed.version == Some(0);
        let (mut announced, mut is_chunked) = (None, false);
        let (mut closes, mut stays) = (false, !is_old);
        for field in &*parsed.headers {
            let (flat, value) = (&mut head.fields, field.value);
            let start = flat.len();
            flat.extend_from_slice(field.name.as_bytes());
            flat[start..].make_ascii_lowercase();
            // An interim response has no body, whatever it says.
            match &flat[start..] {
                _ if head.status < 200 => {}
                b"content-length" => announced = Some(self::length(value, announced)?),
                b"transfer-encoding"
                    if is_old || is_chunked || !value.eq_ignore_ascii_case(b"chunked") =>
                {
                    return Err(Malformed("its transfer encoding is unknown"));
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
        match head.status {
            101 if self.may_upgrade && is_websocket(&head) => {
                self.state = ReadState::Tunnel;
                return Ok(Part::Head(head));
            }
            101 => return Err(Malformed("it changes the protocol")),
            // Another one follows.
            100..200 => return Ok(Part::Interim(head)),
            200.. => {}
            _ => return Err(MALFORMED),
        }
        self.state = match announced {
            _ if self.is_for_head || matches!(head.status, 204 | 304) => ReadState::Done(None),
            _ if is_chunked => ReadState::Chunks(Chunks::default()),
            Some(0) => ReadState::Done(None),
            Some(length) => ReadState::Length(length),
            None => ReadState::Rest,
        };
        let is_ambiguous = is_chunked && announced.is_some();
        self.keeps = stays && !closes && !is_ambiguous && !matches!(self.state, ReadState::Rest);
        Ok(Part::Head(head))
    }
}

/// Whether a response says that a WebSocket follows it.
fn is_websocket(head: &Head) -> bool {
    let has = |name: &[u8], token: &[u8]| {
        head.pairs().any(|(found, value)| found == name && has_token(value, token))
    };
    has(b"connection", b"upgrade") && has(b"upgrade", b"websocket")
}

/// A length, of which there may be several as long as they agree.
fn length(value: &[u8], mut before: Option<u64>) -> Result<u64, Malformed> {
    for part in value.split(|byte| *byte == b',') {
        let length = number(part.trim_ascii());
        if length.is_none() || before.is_some() && before != length {
            return Err(Malformed("its length is unclear"));
        }
        before = length;
    }
    before.ok_or(MALFORMED)
}

/// A number in decimal digits; nothing if there is none, or it is too large.
pub fn number(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
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
