//! What is known of a stream beside what the library knows.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use crate::event::{Head, Reason};

/// How what we send ends.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// More bytes may follow.
    Open,
    /// After the bytes that are there.
    Bytes,
    /// With these fields, their names and values.
    Trailers(Vec<(Bytes, Bytes)>),
}

/// A stream.
#[derive(Debug)]
pub struct Stream<T> {
    /// What the user of the session keeps with it.
    pub data: T,
    /// Bytes of the body that have not been taken.
    pub incoming: BytesMut,
    /// Whether the body is complete.
    pub has_come: bool,
    /// The fields behind it, until they are taken.
    pub trailers: Option<Head>,
    /// Whether somebody takes the body.
    pub is_read: bool,
    /// Whether the head of a request is in a frame.
    pub has_begun: bool,
    /// Whether the library has ended the stream for an error of the peer.
    pub is_wrong: bool,
    /// Pieces of our body that are not in frames yet.
    pub outgoing: VecDeque<Bytes>,
    /// The bytes of `outgoing`.
    pub queued: usize,
    pub end: End,
    /// Whether the library waits for more of our body.
    pub is_deferred: bool,
    /// Whether the end of our body is in a frame.
    pub has_ended: bool,
    /// Why the stream is closed, once it is.
    pub closed: Option<Reason>,
    /// Whether the user of the session has had no event of it yet, or keeps it no longer.
    pub is_released: bool,
}

impl<T: Default> Stream<T> {
    pub fn new() -> Stream<T> {
        Stream {
            data: T::default(),
            incoming: BytesMut::new(),
            has_come: false,
            trailers: None,
            is_read: true,
            has_begun: false,
            is_wrong: false,
            outgoing: VecDeque::new(),
            queued: 0,
            end: End::Open,
            is_deferred: false,
            has_ended: false,
            closed: None,
            is_released: true,
        }
    }
}

impl<T> Stream<T> {
    /// Writes so many bytes of our body, or all that are there.
    pub fn write(&mut self, mut count: usize, output: &mut Vec<u8>) {
        while count > 0
            && let Some(piece) = self.outgoing.front_mut()
        {
            let part = piece.len().min(count);
            output.extend_from_slice(&piece[..part]);
            piece.advance(part);
            count -= part;
            self.queued -= part;
            if piece.is_empty() {
                self.outgoing.pop_front();
            }
        }
    }
}
