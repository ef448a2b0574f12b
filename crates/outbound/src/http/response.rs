//! Responses from bytes, in whatever pieces these come, with all of their body. No sockets here.

use tokamak_http1 as http1;
use tokamak_http1::Part;

use super::error::HttpError;

/// Bytes that a response's head may have. Usual servers send at most 64 KiB; a tenth would refuse
/// some with many cookies, ten times more would be memory that a hostile peer can take for each
/// call.
const LARGEST_HEAD: usize = 128 << 10;

/// Bytes for which there is room before any has come, whatever length a peer announces.
const MOST_TRUSTED: usize = 1 << 20;

/// A response, all of which is here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header fields, as in [`http1::Head::fields`].
    pub fields: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// Takes the bytes of one response.
pub struct Decoder {
    parts: http1::Decoder,
    has_begun: bool,
    most: usize,
    /// The response, once all is here.
    pub response: Response,
}

impl Decoder {
    /// A decoder for the answer to `HEAD`, which has no body, or to any other method, with at most
    /// so many bytes of body.
    pub fn new(is_for_head: bool, most: usize) -> Decoder {
        let parts = http1::Decoder::new(is_for_head, LARGEST_HEAD);
        Decoder { parts, has_begun: false, most, response: Response::default() }
    }

    /// Takes bytes, beginning with those that the last call left; how many it took. What it leaves
    /// it wants to see again when there are more, or it belongs to no response.
    ///
    /// # Errors
    /// Fails if this is not a response, or too long.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, HttpError> {
        self.has_begun |= !bytes.is_empty();
        let mut taken = 0;
        loop {
            let (framing, part) = self.parts.next(&bytes[taken..])?;
            taken += framing;
            let body = &mut self.response.body;
            match part {
                Part::Partial | Part::End => {
                    self.check()?;
                    return Ok(taken);
                }
                Part::Interim(_) => {}
                Part::Head(head) => {
                    (self.response.status, self.response.fields) = (head.status, head.fields);
                    self.check()?;
                    let length = usize::try_from(self.parts.expected()).unwrap_or(MOST_TRUSTED);
                    self.response.body.reserve_exact(length.min(MOST_TRUSTED));
                }
                Part::Body(count) => {
                    if count > self.most - body.len() {
                        return Err(HttpError::Large(self.most));
                    }
                    body.extend_from_slice(&bytes[taken..taken + count]);
                    taken += count;
                }
            }
        }
    }

    /// Whether what is announced fits, before it has come.
    fn check(&self) -> Result<(), HttpError> {
        let left = self.most - self.response.body.len();
        if self.parts.expected() > left as u64 { Err(HttpError::Large(self.most)) } else { Ok(()) }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Fails if the response is not complete.
    pub fn close(&mut self) -> Result<(), HttpError> {
        Ok(self.parts.close()?)
    }

    /// Whether anything has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether all is here.
    pub fn is_done(&self) -> bool {
        self.parts.is_done()
    }

    /// Whether the peer takes another request behind this one.
    pub fn keeps(&self) -> bool {
        self.parts.keeps()
    }

    /// Bytes that are known to come.
    pub fn expected(&self) -> u64 {
        self.parts.expected()
    }
}

#[cfg(test)]
mod tests;
