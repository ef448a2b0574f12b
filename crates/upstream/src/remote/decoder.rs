//! What the bytes mean that come on a connection of one request, by its protocol.

use bytes::{Buf, Bytes};
use tokamak_fastcgi::{Message, Messages, ProtocolStatus, Stream as Kind};
use tokamak_http1::{self as http1, Part};

use super::error::UpstreamError;
use super::event::Event;
use super::request::{Call, Expected, ID, Protocol};

/// Takes the bytes of one response.
#[derive(Debug)]
pub(super) enum Decoder {
    FastCgi {
        messages: Messages,
        /// Its standard output has ended.
        stdout_ended: bool,
    },
    Http(http1::Decoder),
}

impl Decoder {
    /// One for the answer to this request.
    pub fn new(call: &Call) -> Decoder {
        match call.protocol {
            Protocol::FastCgi => {
                Decoder::FastCgi { messages: Messages::new(), stdout_ended: false }
            }
            Protocol::Http(expected) | Protocol::Http2(expected) => {
                let Expected { is_head, largest_head, websocket } = expected;
                Decoder::Http(http1::Decoder::new(is_head, largest_head).upgrading(websocket))
            }
        }
    }

    /// The next thing that is said in `input`, which is taken from its front. What is left when
    /// there is none belongs to the next one, of which more has to come.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Event>, UpstreamError> {
        match self {
            Decoder::FastCgi { messages, stdout_ended } => {
                understand(messages, stdout_ended, input)
            }
            Decoder::Http(decoder) => {
                let (framing, part) = decoder.next(input)?;
                input.advance(framing);
                Ok(match part {
                    Part::Partial => None,
                    Part::Interim(head) => Some(Event::Interim(head)),
                    Part::Head(head) => Some(Event::Head(head)),
                    Part::Body(count) => Some(Event::Output(input.split_to(count))),
                    Part::End => Some(Event::End(decoder.take_trailers())),
                })
            }
        }
    }

    /// The application has closed the connection. Whether that was the end of the response.
    pub fn close(&mut self) -> bool {
        match self {
            Decoder::FastCgi { .. } => false,
            Decoder::Http(decoder) => decoder.close().is_ok(),
        }
    }

    /// Whether another request may follow on the connection, now that the response has ended.
    pub fn keeps(&self) -> bool {
        match self {
            Decoder::FastCgi { messages, .. } => messages.is_between_records(),
            Decoder::Http(decoder) => decoder.keeps(),
        }
    }
}

/// Reads messages of FastCGI off the input, to the next that matters.
fn understand(
    messages: &mut Messages,
    stdout_ended: &mut bool,
    input: &mut Bytes,
) -> Result<Option<Event>, UpstreamError> {
    while !input.is_empty() {
        let all = input.clone();
        let mut rest = &all[..];
        let message = messages.next(&mut rest)?;
        input.advance(all.len() - rest.len());
        match message {
            None => {}
            Some(
                Message::Stream { id, .. }
                | Message::StreamEnd { id, .. }
                | Message::End { id, .. },
            ) if id != ID => {
                return Err(UpstreamError::Unexpected("a record of another request"));
            }
            Some(Message::Stream { stream: Kind::Stdout, bytes, .. }) => {
                if *stdout_ended {
                    return Err(UpstreamError::Unexpected(
                        "more of its response after the end of it",
                    ));
                }
                return Ok(Some(Event::Output(all.slice_ref(bytes))));
            }
            Some(Message::Stream { stream: Kind::Stderr, bytes, .. }) => {
                return Ok(Some(Event::Complaint(all.slice_ref(bytes))));
            }
            Some(Message::StreamEnd { stream: Kind::Stdout, .. }) => *stdout_ended = true,
            Some(Message::StreamEnd { stream: Kind::Stderr, .. }) => {}
            Some(Message::End { status: ProtocolStatus::Complete, .. }) => {
                return Ok(Some(Event::End(Vec::new())));
            }
            Some(Message::End { status, .. }) => return Err(UpstreamError::Refused(status)),
            Some(_) => {
                return Err(UpstreamError::Unexpected("a record that only a web server sends"));
            }
        }
    }
    Ok(None)
}
