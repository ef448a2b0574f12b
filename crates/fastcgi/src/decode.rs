//! From bytes to the events of records.

use crate::record::HEADER_LEN;
use crate::{Error, Header};

/// What the decoder has read of a record, in this order: header, pieces of content, end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEvent<'a> {
    /// A record begins.
    Head(Header),
    /// Some of its content; never empty. The borders between pieces mean nothing: the bytes arrived
    /// so.
    Content(&'a [u8]),
    /// All of its content and padding has been read.
    End,
}

/// Reads records from bytes that come in pieces of any size. Content is never copied: the events
/// point into the input.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// In the header, of which so many bytes are here.
    Header([u8; HEADER_LEN], usize),
    /// In the content, of which so many bytes are missing; behind it there is padding.
    Content(u16, u8),
    /// In the padding, of which so many bytes are missing.
    Padding(u8),
    /// It was no record: what follows is nothing either.
    Failed(Error),
}

impl Default for State {
    fn default() -> State {
        State::Header([0; HEADER_LEN], 0)
    }
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes the next part off the front of `input`; nothing if it needs more bytes than are there,
    /// and then all of them have been taken.
    ///
    /// # Errors
    /// Fails for a record of another version, now and at every later call.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<RecordEvent<'a>>, Error> {
        loop {
            match &mut self.state {
                State::Header(header, have) => {
                    let piece = take(input, HEADER_LEN - *have);
                    header[*have..*have + piece.len()].copy_from_slice(piece);
                    *have += piece.len();
                    if *have < HEADER_LEN {
                        return Ok(None);
                    }
                    let parsed = Header::parse(*header);
                    self.state = match parsed {
                        Ok(header) => State::Content(header.content, header.padding),
                        Err(error) => State::Failed(error),
                    };
                    return parsed.map(|header| Some(RecordEvent::Head(header)));
                }
                State::Content(0, padding) => self.state = State::Padding(*padding),
                State::Content(left, _) => {
                    let piece = take(input, usize::from(*left));
                    *left -= piece.len() as u16;
                    return Ok((!piece.is_empty()).then_some(RecordEvent::Content(piece)));
                }
                State::Padding(left) => {
                    *left -= take(input, usize::from(*left)).len() as u8;
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = State::default();
                    return Ok(Some(RecordEvent::End));
                }
                State::Failed(error) => return Err(*error),
            }
        }
    }

    /// Whether nothing of a next record has been read.
    pub fn is_between_records(&self) -> bool {
        matches!(self.state, State::Header(_, 0))
    }
}

/// At most `most` bytes off the front.
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    piece
}
