//! What must hold for any bytes at all. The fuzz target and the stable test both run this.

use tokamak_fastcgi::params::{Limits, Pairs};
use tokamak_fastcgi::{Decoder, Error, Header, Message, Messages, RecordEvent, Stream, encode};

const LIMITS: Limits = Limits { bytes: 1 << 16, pairs: 1000 };

/// One message with its bytes copied and the pieces of a stream joined, so that it does not depend
/// on how the bytes came.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Bytes(u16, Stream, Vec<u8>),
    Other(Message<'static>),
}

/// A record with its content joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub header: Header,
    pub content: Vec<u8>,
    pub complete: bool,
}

/// Every record, with the input in these pieces.
pub fn records<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Record>, Result<(), Error>) {
    let mut decoder = Decoder::new();
    let mut records: Vec<Record> = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(RecordEvent::Head(header))) => {
                    records.push(Record { header, content: Vec::new(), complete: false });
                }
                Ok(Some(RecordEvent::Content(bytes))) => {
                    assert!(!bytes.is_empty());
                    records
                        .last_mut()
                        .expect("a head comes first")
                        .content
                        .extend_from_slice(bytes);
                }
                Ok(Some(RecordEvent::End)) => {
                    records.last_mut().expect("a head comes first").complete = true
                }
                Err(error) => {
                    assert_eq!(decoder.next(&mut &b"\x01"[..]), Err(error), "an error stays");
                    return (records, Err(error));
                }
            }
        }
        assert!(piece.is_empty(), "all of a piece is taken");
    }
    (records, Ok(()))
}

/// Every message, with the input in these pieces.
pub fn messages<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Said>, Result<(), Error>) {
    let mut reader = Messages::new();
    let mut said = Vec::new();
    for mut piece in pieces {
        loop {
            match reader.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(message)) => note(&mut said, message),
                Err(error) => return (said, Err(error)),
            }
        }
        assert!(piece.is_empty(), "all of a piece is taken");
    }
    (said, Ok(()))
}

fn note(said: &mut Vec<Said>, message: Message<'_>) {
    let other = match message {
        Message::Stream { id, stream, bytes } => {
            match said.last_mut() {
                Some(Said::Bytes(last, kind, joined)) if (*last, *kind) == (id, stream) => {
                    joined.extend_from_slice(bytes);
                }
                _ => said.push(Said::Bytes(id, stream, bytes.to_vec())),
            }
            return;
        }
        Message::StreamEnd { id, stream } => Message::StreamEnd { id, stream },
        Message::Begin { id, role, keep } => Message::Begin { id, role, keep },
        Message::Abort { id } => Message::Abort { id },
        Message::End { id, app_status, status } => Message::End { id, app_status, status },
        Message::GetValues(wanted) => Message::GetValues(wanted),
        Message::Values(values) => Message::Values(values),
        Message::UnknownType(kind) => Message::UnknownType(kind),
        Message::Foreign(kind) => Message::Foreign(kind),
    };
    said.push(Said::Other(other));
}

/// A name and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Every name-value pair, with the input in these pieces.
pub fn pairs<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Pair>, Result<(), Error>) {
    let mut reader = Pairs::new(LIMITS);
    let mut pairs = Vec::new();
    for piece in pieces {
        let fed = reader.feed(piece, |name, value| pairs.push((name.to_vec(), value.to_vec())));
        if fed.is_err() {
            return (pairs, fed);
        }
    }
    let end = reader.finish();
    (pairs, end)
}

/// Writes messages as the encoder does.
pub fn written(said: &[Said]) -> Vec<u8> {
    let mut out = Vec::new();
    for said in said {
        match said {
            Said::Bytes(id, stream, bytes) => encode::stream(&mut out, *id, *stream, bytes),
            Said::Other(message) => match *message {
                Message::Begin { id, role, keep } => encode::begin(&mut out, id, role, keep),
                Message::Abort { id } => encode::abort(&mut out, id),
                Message::StreamEnd { id, stream } => encode::stream_end(&mut out, id, stream),
                Message::End { id, app_status, status } => {
                    encode::end(&mut out, id, app_status, status)
                }
                Message::GetValues(wanted) => encode::get_values(&mut out, wanted),
                Message::Values(values) => encode::values(&mut out, values),
                Message::UnknownType(kind) => encode::unknown_type(&mut out, kind),
                // Not ours to write.
                Message::Foreign(_) | Message::Stream { .. } => {}
            },
        }
    }
    out
}

/// Nothing panics, the way in which the bytes are cut changes nothing, and what was understood can
/// be said again.
pub fn run(bytes: &[u8]) {
    let one = || bytes.chunks(1);
    assert_eq!(records([bytes]), records(one()));
    let whole = messages([bytes]);
    assert_eq!(whole, messages(one()));
    assert_eq!(whole, messages(bytes.chunks(7)));

    let known: Vec<Said> = whole
        .0
        .into_iter()
        .filter(|said| !matches!(said, Said::Other(Message::Foreign(_))))
        .collect();
    let again = written(&known);
    assert!(again.len().is_multiple_of(8), "records are aligned");
    let (said, result) = messages([again.as_slice()]);
    assert_eq!(result, Ok(()));
    // Streams that a foreign record had cut in two are joined now.
    assert_eq!(written(&said), written(&joined(known)));

    // A limit may strike earlier or later in a piece, so only what all agree on to be pairs is
    // compared.
    let (found, result) = pairs([bytes]);
    if result.is_ok() {
        assert_eq!(pairs(one()), (found.clone(), Ok(())));
    }
    rewrite_pairs(&found);
}

fn joined(said: Vec<Said>) -> Vec<Said> {
    let mut out: Vec<Said> = Vec::new();
    for said in said {
        match (out.last_mut(), said) {
            (Some(Said::Bytes(last, kind, joined)), Said::Bytes(id, stream, bytes))
                if (*last, *kind) == (id, stream) =>
            {
                joined.extend_from_slice(&bytes);
            }
            (_, said) => out.push(said),
        }
    }
    out
}

/// Pairs come back as they were written, each whole in one record.
pub fn rewrite_pairs(found: &[Pair]) {
    let mut out = Vec::new();
    let mut params = encode::Params::new(&mut out, 1);
    for (name, value) in found {
        params.pair(name, value).expect("it came out of fewer bytes");
    }
    params.finish();
    let (records, result) = records([out.as_slice()]);
    assert_eq!(result, Ok(()));
    let mut again = Vec::new();
    for record in &records {
        let (pairs, result) = pairs([record.content.as_slice()]);
        assert_eq!(result, Ok(()), "no pair crosses records");
        again.extend(pairs);
    }
    assert_eq!(again, found);
    assert_eq!(records.last().map(|record| record.content.len()), Some(0), "the stream is ended");
}
