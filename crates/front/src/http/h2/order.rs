//! Tells frames of a client that come on a stream which it has ended itself, or that begin streams
//! backwards (RFC 9113 sections 5.1 and 5.1.1).
//!
//! The HTTP library forgets a stream when it is closed, and ignores what comes on it later: where
//! the *server* has ended it, that may have been on its way. So what the *client* has ended is kept
//! here.

use super::meter::Http2Violation;

/// Streams that are kept. A client that goes wrong does so soon; each costs four bytes of every
/// connection, and a look with every DATA frame.
const KEPT: usize = 8;

/// Stands with the number of a stream on which more may come. Numbers have 31 bits.
const IGNORED: u32 = 1 << 31;

/// What is known of the streams of a connection.
#[derive(Debug, Default)]
pub struct Order {
    /// The last stream that the client has begun.
    last: u32,
    /// The first and the last of the streams that it left out when it last left some out.
    skipped: (u32, u32),
    /// Those that it ended last.
    ended: [u32; KEPT],
    /// Where the next one goes.
    next: usize,
}

impl Order {
    /// A HEADERS frame has come.
    ///
    /// # Errors
    /// Fails if the stream has ended, or should have been begun before another one.
    pub fn head(&mut self, stream: u32, is_end: bool) -> Result<(), Http2Violation> {
        if stream > self.last {
            if stream > self.last + 2 {
                self.skipped = (self.last + 1, stream - 1);
            }
            self.last = stream;
        } else if (self.skipped.0..=self.skipped.1).contains(&stream) {
            return Err(Http2Violation::Backwards);
        }
        self.data(stream, is_end)
    }

    /// A frame with bytes of a body has come, or any other that may end a stream.
    ///
    /// # Errors
    /// Fails if the stream has ended.
    pub fn data(&mut self, stream: u32, is_end: bool) -> Result<(), Http2Violation> {
        if self.ended.contains(&stream) {
            return Err(Http2Violation::Ended(stream));
        }
        if is_end {
            self.end(stream);
        }
        Ok(())
    }

    /// What comes on the stream, which has ended, is right from now on.
    pub fn ignore(&mut self, stream: u32) {
        let ended = self.ended.iter_mut().filter(|ended| **ended == stream);
        ended.for_each(|ended| *ended |= IGNORED);
    }

    /// The client has ended the stream. It may cancel one whose body it has ended.
    pub fn end(&mut self, stream: u32) {
        if !self.ended.contains(&stream) && !self.ended.contains(&(stream | IGNORED)) {
            self.ended[self.next] = stream;
            self.next = (self.next + 1) % KEPT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_has_ended_gets_no_more() {
        let mut order = Order::default();
        assert_eq!(order.head(1, true), Ok(()));
        assert_eq!(order.head(3, false), Ok(()));
        assert_eq!(order.data(3, false), Ok(()));
        assert_eq!(order.head(3, true), Ok(()), "trailers");
        assert_eq!(order.head(5, false), Ok(()));
        order.end(5);
        order.end(5);
        for stream in [1, 3, 5] {
            assert_eq!(order.head(stream, false), Err(Http2Violation::Ended(stream)));
            assert_eq!(order.data(stream, true), Err(Http2Violation::Ended(stream)));
            order.ignore(stream);
            assert_eq!((order.data(stream, true), order.data(stream, true)), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn streams_are_begun_in_their_order() {
        let mut order = Order::default();
        assert_eq!(order.head(5, false), Ok(()));
        assert_eq!(order.head(3, true), Err(Http2Violation::Backwards));
        assert_eq!(order.head(7, true), Ok(()));
        assert_eq!(order.head(5, true), Ok(()));
        assert_eq!(order.head(13, true), Ok(()));
        assert_eq!(order.head(11, true), Err(Http2Violation::Backwards));
        assert_eq!(order.head(u32::MAX >> 1, true), Ok(()));
    }
}
