//! The events of a session.

use std::ffi::CStr;
use std::fmt;

use bytes::Bytes;

use crate::ffi;

/// Something that the peer has done.
#[derive(Debug)]
pub enum Event {
    /// It sends a request.
    Request {
        /// The stream of the request.
        stream: u32,
        /// Its head.
        head: Head,
    },
    /// A server sends the head of a response, or of an interim one.
    Response {
        /// The stream of the request.
        stream: u32,
        /// Its head.
        head: Head,
    },
    /// A server takes no more requests on the connection. Those that it has not looked at are
    /// closed with [`Reason::REFUSED_STREAM`].
    Leaving,
    /// A client has sent one request more than it may have at the same time.
    Refused,
    /// Some of a body has come, or its end.
    Body(u32),
    /// The stream has ended, completely or not.
    Closed(u32),
    /// More bytes may be sent, of this stream or (0) of all.
    Window(u32),
    /// It wants another priority for this stream, which need not exist yet (PRIORITY_UPDATE).
    Priority {
        /// The stream.
        stream: u32,
        /// The value, as of the field `Priority`.
        value: Bytes,
    },
    /// It has answered a PING.
    Answered,
}

/// The head of a request or a response, or the fields behind a body, as the peer has sent them:
/// names are lower case, and the rules of HTTP/2 hold.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// All names and values, one behind the other.
    text: Bytes,
    /// The lengths of the names and of the values.
    lengths: Vec<(u32, u32)>,
    /// Whether fields are missing, because the head was larger than the limit.
    pub is_cut: bool,
}

impl Head {
    pub(crate) fn new(text: Vec<u8>, lengths: Vec<(u32, u32)>, is_cut: bool) -> Head {
        Head { text: text.into(), lengths, is_cut }
    }

    /// The names and values, in their order. Pseudo-header fields come first.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        let mut at = 0;
        self.lengths.iter().map(move |&(name, value)| {
            let middle = at + name as usize;
            let end = middle + value as usize;
            let field = (&self.text[at..middle], self.text.slice(middle..end));
            at = end;
            field
        })
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The bytes of all names and values.
    pub fn size(&self) -> usize {
        self.text.len()
    }
}

/// Why a stream or a connection ends (RFC 9113 section 7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u32);

impl Reason {
    /// Nothing is wrong.
    pub const NO_ERROR: Reason = Reason(0);
    /// A rule of the protocol is broken.
    pub const PROTOCOL_ERROR: Reason = Reason(1);
    /// The peer has failed.
    pub const INTERNAL_ERROR: Reason = Reason(2);
    /// The stream has ended before.
    pub const STREAM_CLOSED: Reason = Reason(5);
    /// A frame has a wrong size.
    pub const FRAME_SIZE_ERROR: Reason = Reason(6);
    /// The request was not looked at.
    pub const REFUSED_STREAM: Reason = Reason(7);
    /// It is not wanted any more.
    pub const CANCEL: Reason = Reason(8);
    /// The client does too much.
    pub const ENHANCE_YOUR_CALM: Reason = Reason(11);
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: it takes any number, and returns a text that is never freed.
        let name = unsafe { CStr::from_ptr(ffi::nghttp2_http2_strerror(self.0)) };
        out.write_str(&name.to_string_lossy())
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A head with these names and values.
impl<'a> FromIterator<(&'a str, &'a str)> for Head {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(fields: I) -> Head {
        let (mut text, mut lengths) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(value.as_bytes());
            lengths.push((name.len() as u32, value.len() as u32));
        }
        Head::new(text, lengths, false)
    }
}
