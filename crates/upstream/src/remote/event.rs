//! What comes of a request, whatever connection it is on.

use bytes::Bytes;

/// Something that the application said.
#[derive(Debug)]
pub enum Event {
    /// Some of the response: headers, then body; cut anywhere.
    Stdout(Bytes),
    /// Some of its complaints; cut anywhere.
    Stderr(Bytes),
    /// The response is complete.
    End,
}
