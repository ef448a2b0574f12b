//! The strict reader in front of the HTTP library.
//!
//! The library parses requests leniently: it takes a bare line feed as a line end, drops a
//! `Content-Length` beside a `Transfer-Encoding`, and merges equal lengths. Each of these is a way
//! to make two servers disagree about where a request ends. The screen sees every byte of a client
//! first, follows the framing to the end of each body and into the next head, and stops at the
//! first byte that a careful client would not have sent. So the bytes that pass have only one
//! meaning.
//!
//! It guarantees: the verdict does not depend on how the bytes are split; every head and body that
//! passes ends for the library at the same byte (see the tests); nothing is allocated unless a line
//! is split over two reads or a target has a byte to encode. It does not store or answer anything,
//! and changes only what [`Screen::encode`] says. All limits are in bytes as the client sent them,
//! but a byte that is percent-encoded counts as three.
//!
//! ```text
//! Start ─▶ Method ─▶ Target ─▶ Version ─▶ LineLf ─▶ FieldStart ─▶ Name ─▶ Value
//!   ▲                                        ▲       ▲  │                   │
//!   │                                        └───────┼──┼───────────────────┘
//!   ├── no body, or after the trailers ──── HeadLf ◀─┼──┘
//!   │                                        │  │    └──── the last chunk: trailers ──┐
//!   └── all of the body ◀──── Length ◀───────┘  ▼                                     │
//!                                       ┌─▶ ChunkSize ─▶ ChunkExtension ─▶ ChunkSizeLf ─▶ ChunkData
//!                                       └── ChunkLf ◀─ ChunkCr ◀─────────────────────────────┘
//! ```

mod body;
mod bytes;
pub(in crate::http) mod rules;
mod state;
#[cfg(test)]
mod tests;
mod violation;

pub use violation::Violation;

use std::borrow::Cow;

use bytes::{MAYBE_ENCODED, is_encoded, target_span, token_span, trim, value_span};
use rules::{Field, Method};
use state::{Framing, State};

/// Longest request target in bytes: the HTTP library's own limit, so that the library never refuses
/// one that has passed.
const TARGET_MOST: usize = 65_534;
/// Most bytes of trailers. It must stay below the library's own limit of 16 KiB, so ten times more
/// would let trailers pass that the library refuses; a tenth would still do for trailers that are
/// in use.
const TRAILERS_MOST: usize = 8192;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of request line and headers together.
    pub head: usize,
    /// Header lines.
    pub fields: usize,
    /// Bytes of a body, without the framing of chunks.
    pub body: u64,
}

/// More bytes than any body has: with more, sums could not be calculated.
pub const ANY_BODY: u64 = i64::MAX as u64;

/// What the client is sending. It decides which timeout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No byte of the next request has come.
    Idle,
    /// A head has begun and is not complete.
    Head,
    /// A head is complete, its body is not.
    Body,
}

/// The screen of one connection.
#[derive(Debug)]
pub struct Screen {
    limits: Limits,
    state: State,
    /// The first violation. After it nothing is checked any more.
    fault: Option<Violation>,
    /// Bytes of the current head, or of the current trailers.
    head: usize,
    fields: usize,
    method: Method,
    /// Whether the version is 1.0.
    old: bool,
    /// Whether the major version is not 1.
    other_version: bool,
    seen_host: bool,
    framing: Framing,
    field: Field,
    /// Whether the lines being read are trailers.
    trailers: bool,
    /// Bytes of the current target.
    target: usize,
    /// The part from earlier reads of a method, name, target or value that is needed as a whole.
    carry: Vec<u8>,
    chunk: u64,
    digits: u8,
    extensions: usize,
    body: u64,
    /// Bytes at the front of the last read, up to the end of its last complete request.
    clean: usize,
    /// Where in the last read the bytes are that [`Screen::encode`] changes: bytes of a target, and
    /// the last digit of a version.
    unencoded: Vec<usize>,
    /// Requests that have begun.
    requests: u32,
}

impl Screen {
    /// A screen for a new connection.
    pub fn new(limits: Limits) -> Screen {
        Screen {
            limits,
            state: State::Start,
            fault: None,
            head: 0,
            fields: 0,
            method: Method::Other,
            old: false,
            other_version: false,
            seen_host: false,
            framing: Framing::None,
            field: Field::Other,
            trailers: false,
            target: 0,
            carry: Vec::new(),
            chunk: 0,
            digits: 0,
            extensions: 0,
            body: 0,
            clean: 0,
            unencoded: Vec::new(),
            requests: 0,
        }
    }

    /// Checks the next bytes of the client. After a violation every further call returns the same
    /// one.
    pub fn feed(&mut self, input: &[u8]) -> Result<(), Violation> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.clean = 0;
        self.unencoded.clear();
        let mut at = 0;
        while at < input.len() {
            match self.step(input, at) {
                Ok(used) => at += used,
                Err(fault) => {
                    self.fault = Some(fault);
                    return Err(fault);
                }
            }
            if self.state == State::Start {
                self.clean = at;
            }
        }
        Ok(())
    }

    /// The number of bytes at the front of the last read, up to the end of its last complete
    /// request. They may be passed on even if a violation follows them.
    pub fn clean(&self) -> usize {
        self.clean
    }

    /// The last read, or the beginning of it, for the HTTP library. The library refuses some bytes
    /// of targets that clients send and other servers take. So these are percent-encoded. It also
    /// refuses HTTP/1.2 to 1.9, which are answered as 1.1 is (RFC 9110 section 2.5).
    pub fn encode<'a>(&self, read: &'a [u8]) -> Cow<'a, [u8]> {
        if self.unencoded.is_empty() {
            return Cow::Borrowed(read);
        }
        let mut encoded = Vec::with_capacity(read.len() + 2 * self.unencoded.len());
        let mut from = 0;
        for &at in self.unencoded.iter().take_while(|&&at| at < read.len()) {
            encoded.extend_from_slice(&read[from..at]);
            match read[at] {
                b'2'..=b'9' => encoded.push(b'1'),
                byte => bytes::encode(byte, &mut encoded),
            }
            from = at + 1;
        }
        encoded.extend_from_slice(&read[from..]);
        Cow::Owned(encoded)
    }

    /// Whether the connection began with `PRI *`, as one of HTTP/2 does: then with the part of the
    /// last read that follows this.
    pub fn http2<'a>(&self, last: &'a [u8]) -> Option<&'a [u8]> {
        if self.fault != Some(Violation::Http2) || self.requests != 1 {
            return None;
        }
        // The bytes before this read, and before the target in it, are counted.
        match self.head {
            4 => Some(&last[memchr::memchr(b'*', last)? + 1..]),
            5 => Some(last),
            _ => None,
        }
    }

    /// Requests that have begun.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// What the client is sending.
    pub fn part(&self) -> Progress {
        match self.state {
            State::Start | State::BlankLf | State::Blank => Progress::Idle,
            _ if self.trailers || self.state.is_payload() => Progress::Body,
            _ => Progress::Head,
        }
    }

    /// Length of the current (or else the last) request's body so far, without the framing of
    /// chunks.
    pub fn body(&self) -> u64 {
        self.body
    }

    /// Checks the next part of the message: lines up to their end, or a piece of a body. Returns
    /// how many bytes it has checked, at least one.
    fn step(&mut self, input: &[u8], from: usize) -> Result<usize, Violation> {
        if self.state.is_payload() { self.payload(&input[from..]) } else { self.lines(input, from) }
    }

    /// Checks the head or the trailers, up to their end and never beyond the limit.
    fn lines(&mut self, input: &[u8], from: usize) -> Result<usize, Violation> {
        if self.state == State::Start {
            self.begin_head();
        }
        let most = if self.trailers { TRAILERS_MOST } else { self.limits.head };
        let mut at = from;
        while at < input.len() {
            let room = most.saturating_sub(self.head);
            if room == 0 {
                return Err(match self.state {
                    _ if self.trailers => Violation::TrailersTooLarge,
                    State::Method | State::Target | State::Version(_) => Violation::TargetTooLong,
                    _ => Violation::HeadTooLarge,
                });
            }
            let rest = &input[at..input.len().min(at.saturating_add(room))];
            let used = match self.state {
                State::Start | State::Blank => self.first(rest[0])?,
                State::Method => self.method(rest)?,
                State::Target => self.target(rest, at)?,
                State::Version(known) => self.version(known, rest, at)?,
                State::FieldStart => self.field_start(rest)?,
                State::Name => self.name(rest)?,
                State::Value => self.value(rest)?,
                _ => self.after_cr(rest[0])?,
            };
            at += used;
            self.head += used;
            if self.state == State::Start || self.state.is_payload() {
                break;
            }
        }
        Ok(at - from)
    }

    /// The first byte of a request, or of the one empty line that may stand before it: some old
    /// clients end a body with a line end that they do not count (RFC 9112, 2.2).
    fn first(&mut self, byte: u8) -> Result<usize, Violation> {
        match (byte, self.state) {
            (b'\r', State::Start) => {
                self.state = State::BlankLf;
                Ok(1)
            }
            (b'\r', _) => Err(Violation::EmptyLines),
            _ => {
                self.state = State::Method;
                self.requests = self.requests.wrapping_add(1);
                Ok(0)
            }
        }
    }

    fn method(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let end = token_span(rest);
        match rest.get(end) {
            None => self.carry.extend_from_slice(rest),
            Some(b' ') => {
                self.method = rules::method(whole(&mut self.carry, &rest[..end]))?;
                self.carry.clear();
                self.state = State::Target;
                return Ok(end + 1);
            }
            Some(&byte) => return Err(stray(byte, Violation::BadMethod)),
        }
        Ok(end)
    }

    fn target(&mut self, rest: &[u8], at: usize) -> Result<usize, Violation> {
        let end = target_span(rest);
        let added = 2 * self.find_unencoded(&rest[..end], at);
        self.target += end + added;
        self.head += added;
        if self.target > TARGET_MOST || self.head + end > self.limits.head {
            return Err(Violation::TargetTooLong);
        }
        match rest.get(end) {
            None => self.carry.extend_from_slice(rest),
            Some(b' ') => {
                rules::target(whole(&mut self.carry, &rest[..end]), self.method)?;
                self.carry.clear();
                self.state = State::Version(0);
                return Ok(end + 1);
            }
            // The line ends without a version, as in HTTP/0.9.
            Some(b'\r') => return Err(Violation::BadVersion),
            Some(&byte) => return Err(stray(byte, Violation::BadTarget)),
        }
        Ok(end)
    }

    /// Notes the bytes to encode in a part of the target that stands at `at` in the read. Returns
    /// how many there are.
    fn find_unencoded(&mut self, part: &[u8], at: usize) -> usize {
        // Most targets are short: searching with vectors would take longer.
        if !part.iter().any(|&byte| MAYBE_ENCODED[usize::from(byte)]) {
            return 0;
        }
        let before = self.unencoded.len();
        let mut is_query = self.carry.contains(&b'?');
        for (offset, &byte) in part.iter().enumerate() {
            is_query |= byte == b'?';
            if is_encoded(byte, is_query) {
                self.unencoded.push(at + offset);
            }
        }
        self.unencoded.len() - before
    }

    fn version(&mut self, known: u8, rest: &[u8], at: usize) -> Result<usize, Violation> {
        if known == 0 && rest.starts_with(b"HTTP/1.1\r\n") {
            self.state = State::FieldStart;
            return Ok(10);
        }
        let byte = rest[0];
        let good = match known {
            5 => {
                self.other_version = byte != b'1';
                byte.is_ascii_digit()
            }
            7 => {
                self.old = byte == b'0';
                if byte > b'1' {
                    self.unencoded.push(at);
                }
                byte.is_ascii_digit()
            }
            8 => byte == b'\r',
            at => byte == b"HTTP/1."[usize::from(at)],
        };
        if !good {
            return Err(if byte == b'\r' {
                Violation::BadVersion
            } else {
                stray(byte, Violation::BadVersion)
            });
        }
        if known == 7 && self.other_version {
            return Err(Violation::OtherVersion);
        }
        self.state = if known == 8 { State::LineLf } else { State::Version(known + 1) };
        Ok(1)
    }

    fn field_start(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        match rest[0] {
            b'\r' => {
                self.state = State::HeadLf;
                Ok(1)
            }
            b' ' | b'\t' => Err(Violation::ObsoleteFold),
            _ if self.fields == self.limits.fields => Err(Violation::TooManyFields),
            _ => {
                self.fields += 1;
                self.state = State::Name;
                self.name(rest)
            }
        }
    }

    fn name(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let end = token_span(rest);
        match rest.get(end) {
            None => self.carry.extend_from_slice(rest),
            Some(b':') => {
                let name = whole(&mut self.carry, &rest[..end]);
                if name.is_empty() {
                    return Err(Violation::BadFieldName);
                }
                self.field = Field::named(name);
                self.carry.clear();
                self.begin_value()?;
                return Ok(end + 1);
            }
            Some(b' ' | b'\t') => return Err(Violation::SpaceBeforeColon),
            Some(b'\r') => return Err(Violation::BadFieldName),
            Some(&byte) => return Err(stray(byte, Violation::BadFieldName)),
        }
        Ok(end)
    }

    /// Applies the rules for the presence of a field.
    fn begin_value(&mut self) -> Result<(), Violation> {
        self.state = State::Value;
        match (self.field, self.framing) {
            (Field::Other, _) => Ok(()),
            _ if self.trailers => Err(Violation::BadTrailer),
            (Field::Host, _) if self.seen_host => Err(Violation::TwoHosts),
            (Field::Length, Framing::Length(_)) => Err(Violation::TwoLengths),
            (Field::Coding, Framing::Chunked) => Err(Violation::TwoCodings),
            (Field::Length, Framing::Chunked) | (Field::Coding, Framing::Length(_)) => {
                Err(Violation::LengthAndCoding)
            }
            (Field::Coding, _) if self.old => Err(Violation::OldCoding),
            _ => Ok(()),
        }
    }

    fn value(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let end = value_span(rest);
        match rest.get(end) {
            Some(b'\r') => {
                if self.field != Field::Other {
                    self.end_value(&rest[..end])?;
                }
                // Nearly always both bytes of the line end are there.
                if rest.get(end + 1) == Some(&b'\n') {
                    self.state = State::FieldStart;
                    return Ok(end + 2);
                }
                self.state = State::LineLf;
                Ok(end + 1)
            }
            Some(&byte) => Err(stray(byte, Violation::ControlByte)),
            None => {
                if self.field != Field::Other {
                    self.carry.extend_from_slice(rest);
                }
                Ok(end)
            }
        }
    }

    /// Applies the rules for the value of a known field.
    fn end_value(&mut self, part: &[u8]) -> Result<(), Violation> {
        let value = trim(whole(&mut self.carry, part));
        match self.field {
            Field::Other => {}
            Field::Host => {
                rules::host(value)?;
                self.seen_host = true;
            }
            Field::Length => {
                let length = rules::length(value)?;
                if length > self.limits.body {
                    return Err(Violation::BodyTooLarge);
                }
                self.framing = Framing::Length(length);
            }
            Field::Coding => {
                rules::coding(value)?;
                self.framing = Framing::Chunked;
            }
        }
        self.carry.clear();
        Ok(())
    }

    /// The states after a carriage return.
    fn after_cr(&mut self, byte: u8) -> Result<usize, Violation> {
        line_feed(byte)?;
        match self.state {
            State::BlankLf => self.state = State::Blank,
            State::HeadLf if self.trailers => self.state = State::Start,
            State::HeadLf => self.end_of_head()?,
            _ => self.state = State::FieldStart,
        }
        Ok(1)
    }

    fn end_of_head(&mut self) -> Result<(), Violation> {
        if !self.seen_host && !self.old {
            return Err(Violation::NoHost);
        }
        match self.framing {
            Framing::None | Framing::Length(0) => self.state = State::Start,
            Framing::Length(length) => self.state = State::Length(length),
            Framing::Chunked => self.begin_chunk(),
        }
        Ok(())
    }

    fn begin_head(&mut self) {
        self.head = 0;
        self.fields = 0;
        self.method = Method::Other;
        self.old = false;
        self.other_version = false;
        self.seen_host = false;
        self.framing = Framing::None;
        self.trailers = false;
        self.target = 0;
        self.extensions = 0;
        self.body = 0;
    }
}

/// Joins an element whose beginning may have come in an earlier read.
fn whole<'a>(carry: &'a mut Vec<u8>, part: &'a [u8]) -> &'a [u8] {
    if carry.is_empty() {
        return part;
    }
    carry.extend_from_slice(part);
    carry
}

/// The violation for a byte that is not allowed where it stands.
fn stray(byte: u8, otherwise: Violation) -> Violation {
    match byte {
        b'\r' => Violation::BareCr,
        b'\n' => Violation::BareLf,
        b'\t' => otherwise,
        0..0x20 | 0x7f => Violation::ControlByte,
        _ => otherwise,
    }
}

fn line_feed(byte: u8) -> Result<(), Violation> {
    if byte == b'\n' { Ok(()) } else { Err(Violation::BareCr) }
}
