//! What comes of a request, whatever connection it is on.

use bytes::Bytes;
use tokamak_http1::Head;

/// Something that the application said.
#[derive(Debug)]
pub enum Event {
    /// The head of an interim response; only in HTTP.
    Interim(Head),
    /// The head of the response; only in HTTP.
    Head(Head),
    /// Some of the response, cut anywhere: of FastCGI headers, then body; of HTTP body.
    Output(Bytes),
    /// Some of its complaints, cut anywhere; only in FastCGI.
    Complaint(Bytes),
    /// The response is complete. These are the fields behind its body, as lines `name: value CR
    /// LF` that nobody has judged; only in HTTP.
    End(Vec<u8>),
}
