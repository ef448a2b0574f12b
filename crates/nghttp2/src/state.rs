//! What a session and the functions that the library calls share.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{Event, Head, Reason};
use crate::stream::Stream;

/// What the peer may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests of a client at the same time; more are refused.
    pub streams: u32,
    /// Bytes of a body that come before they are taken.
    pub window: u32,
    /// The same for all bodies of the connection.
    pub connection_window: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE. Fields beyond it are left out, and beyond four
    /// times of it the connection ends.
    pub head: u32,
    /// Bytes of the fields behind a body, as HTTP/2 counts them.
    pub trailers: u32,
    /// Frames that a head may be continued in.
    pub continuations: usize,
    /// Streams that may end by an error of the peer.
    pub errors: u32,
    /// Frames of a server that belong to no response, beside ten for each frame of a request or
    /// response, until [`crate::Session::forgive`] forgets them.
    pub control: u32,
}

/// A head of which a part may have come.
pub struct Building {
    pub stream: u32,
    pub text: Vec<u8>,
    pub lengths: Vec<(u32, u32)>,
    /// The size as HTTP/2 counts it.
    pub size: u64,
    pub is_cut: bool,
    /// Whether it follows a body.
    pub is_trailers: bool,
}

/// What the callbacks see.
pub struct State<T> {
    pub limits: Limits,
    /// Whether the peer is a server.
    pub is_client: bool,
    pub streams: BTreeMap<u32, Box<Stream<T>>>,
    pub events: VecDeque<Event>,
    pub head: Option<Building>,
    /// The payload of an extension frame, as far as it has come.
    pub extension: Vec<u8>,
    /// Bytes that are to be sent.
    pub output: Vec<u8>,
    /// Bytes of all responses that are not in frames.
    pub queued: usize,
    /// Requests whose stream is open.
    pub open: u32,
    /// Streams that have ended by an error of the peer.
    pub errors: u32,
    /// Frames of a server that belong to no response.
    pub control: u32,
    /// Why the library has ended the connection.
    pub ended: Option<(Reason, String)>,
}

impl<T> State<T> {
    /// The state of a connection that begins.
    pub fn new(limits: Limits, is_client: bool) -> State<T> {
        State {
            limits,
            is_client,
            streams: BTreeMap::new(),
            events: VecDeque::new(),
            head: None,
            extension: Vec::new(),
            output: Vec::new(),
            queued: 0,
            open: 0,
            errors: 0,
            control: 0,
            ended: None,
        }
    }
}

impl Building {
    /// A head of which nothing has come.
    pub fn new(stream: u32, is_trailers: bool) -> Building {
        let (text, lengths) = (Vec::with_capacity(512), Vec::with_capacity(16));
        Building { stream, text, lengths, size: 0, is_cut: false, is_trailers }
    }

    /// The head, which is complete.
    pub fn finish(self) -> Head {
        Head::new(self.text, self.lengths, self.is_cut)
    }
}
