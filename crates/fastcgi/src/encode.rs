//! From messages to bytes, at the end of a buffer of the caller's. Records start at multiples of
//! eight from where the first one starts.

use crate::message::{BODY_LEN, KEEP_CONN};
use crate::record::{HEADER_LEN, MANAGEMENT, MOST_CONTENT};
use crate::{Error, Header, Kind, ProtocolStatus, Role, Stream, Values, ValuesQuery, params};

const PADDING: [u8; 7] = [0; 7];

/// A request begins (§5.1).
pub fn begin(out: &mut Vec<u8>, id: u16, role: Role, keep: bool) {
    let [high, low] = role.number().to_be_bytes();
    record(
        out,
        Kind::BeginRequest,
        id,
        &[high, low, if keep { KEEP_CONN } else { 0 }, 0, 0, 0, 0, 0],
    );
}

/// A request is not wanted any more (§5.4).
pub fn abort(out: &mut Vec<u8>, id: u16) {
    record(out, Kind::AbortRequest, id, b"");
}

/// A request has ended (§5.5).
pub fn end(out: &mut Vec<u8>, id: u16, app_status: u32, status: ProtocolStatus) {
    let [a, b, c, d] = app_status.to_be_bytes();
    record(out, Kind::EndRequest, id, &[a, b, c, d, status.number(), 0, 0, 0]);
}

/// Bytes of a stream (§3.3), in as many records as they need; none for no bytes, which would end
/// the stream.
pub fn stream(out: &mut Vec<u8>, id: u16, stream: Stream, bytes: &[u8]) {
    out.reserve(bytes.len() + (bytes.len() / MOST_CONTENT + 1) * (HEADER_LEN + PADDING.len()));
    for piece in bytes.chunks(MOST_CONTENT) {
        record(out, stream.kind(), id, piece);
    }
}

/// The end of a stream: its empty record (§3.3).
pub fn stream_end(out: &mut Vec<u8>, id: u16, stream: Stream) {
    record(out, stream.kind(), id, b"");
}

/// A question about the application (§4.1).
pub fn get_values(out: &mut Vec<u8>, query: ValuesQuery) {
    let mut content = Vec::new();
    query.put(&mut content);
    record(out, Kind::GetValues, MANAGEMENT, &content);
}

/// The same for an application that is to answer at once: libfcgi does so only when it has read the
/// head of another record, so an empty one follows.
pub fn probe_values(out: &mut Vec<u8>, query: ValuesQuery) {
    get_values(out, query);
    record(out, Kind::GetValues, MANAGEMENT, b"");
}

/// The application's answer (§4.1).
pub fn values(out: &mut Vec<u8>, values: Values) {
    let mut content = Vec::new();
    values.put(&mut content);
    record(out, Kind::GetValuesResult, MANAGEMENT, &content);
}

/// The answer to a management record of a type that is not known (§4.2).
pub fn unknown_type(out: &mut Vec<u8>, kind: u8) {
    let mut body = [0; BODY_LEN];
    body[0] = kind;
    record(out, Kind::UnknownType, MANAGEMENT, &body);
}

/// Gives whole records of one request another id.
pub fn readdress(records: &mut [u8], id: u16) {
    let mut at = 0;
    while let Some(header) = records[at..].first_chunk_mut::<HEADER_LEN>() {
        let [_, _, id_high, id_low, high, low, padding, _] = header;
        [*id_high, *id_low] = id.to_be_bytes();
        at += HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])) + usize::from(*padding);
    }
}

/// One record; `content` is at most [`MOST_CONTENT`] bytes.
fn record(out: &mut Vec<u8>, kind: Kind, id: u16, content: &[u8]) {
    debug_assert!(content.len() <= MOST_CONTENT);
    let header = Header::new(kind, id, content.len() as u16);
    out.extend_from_slice(&header.bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(&PADDING[..header.padding.into()]);
}

/// Writes a stream (§3.3) that comes in pieces, such as the headers of a response and then its
/// body, straight into records that are as full as they can be.
#[derive(Debug)]
pub struct Pieces<'a> {
    out: &'a mut Vec<u8>,
    id: u16,
    stream: Stream,
    /// Where the record begins that is being written.
    begin: usize,
}

impl<'a> Pieces<'a> {
    /// Goes on with a stream at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, id: u16, stream: Stream) -> Pieces<'a> {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        Pieces { out, id, stream, begin }
    }

    /// Adds bytes.
    pub fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = MOST_CONTENT - (self.out.len() - self.begin - HEADER_LEN);
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(piece);
            bytes = rest;
            if !bytes.is_empty() {
                close(self.out, self.begin, self.stream.kind(), self.id);
                self.begin = self.out.len();
                self.out.extend_from_slice(&[0; HEADER_LEN]);
            }
        }
    }

    /// Bytes of the whole buffer.
    pub fn buffered(&self) -> usize {
        self.out.len()
    }

    /// Completes the last record. No bytes are no record: an empty one would end the stream.
    pub fn finish(self) {
        if self.out.len() == self.begin + HEADER_LEN {
            self.out.truncate(self.begin);
        } else {
            close(self.out, self.begin, self.stream.kind(), self.id);
        }
    }
}

/// Completes the record that begins there and reaches to the end.
fn close(out: &mut Vec<u8>, begin: usize, kind: Kind, id: u16) {
    let header = Header::new(kind, id, (out.len() - begin - HEADER_LEN) as u16);
    out[begin..begin + HEADER_LEN].copy_from_slice(&header.bytes());
    out.extend_from_slice(&PADDING[..header.padding.into()]);
}

/// Writes the pairs of FCGI_PARAMS (§5.2) straight into records. A pair never crosses from one
/// record into the next: the specification allows it, but php-fpm does not understand it.
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    id: u16,
    /// Where the record begins that is being written.
    begin: usize,
}

impl<'a> Params<'a> {
    /// Begins the stream at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, id: u16) -> Params<'a> {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        Params { out, id, begin }
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// Fails if it does not fit into a record; then nothing was added.
    pub fn pair(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        let len = params::len(name, value);
        if len > MOST_CONTENT {
            return Err(Error::TooLong);
        }
        if self.content() + len > MOST_CONTENT {
            self.close();
            self.begin = self.out.len();
            self.out.extend_from_slice(&[0; HEADER_LEN]);
        }
        params::put(self.out, name, value);
        Ok(())
    }

    /// Ends the stream.
    pub fn finish(mut self) {
        if self.content() == 0 {
            self.out.truncate(self.begin);
        } else {
            self.close();
        }
        stream_end(self.out, self.id, Stream::Params);
    }

    fn content(&self) -> usize {
        self.out.len() - self.begin - HEADER_LEN
    }

    /// Completes the record that is being written.
    fn close(&mut self) {
        close(self.out, self.begin, Kind::Params, self.id);
    }
}
