//! Responses that last for as long as their client stays, and have something to send now and then.
//! The HTTP library sends the head of such a response. Then the connection leaves it, since its
//! buffers take more memory than all the rest, and the body is sent in chunks from here.

use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::io::H1Io;
use super::state::ConnState;
use crate::response::{Broken, Reply};

/// Where a response waits for the connection to leave the HTTP library.
#[derive(Default)]
pub struct Leaving(Mutex<Option<Box<Reply>>>);

impl Leaving {
    /// This response is to be sent from here.
    pub fn put(&self, reply: Reply) {
        *self.lock() = Some(Box::new(reply));
    }

    /// Whether there is one.
    pub fn is_wanted(&self) -> bool {
        self.lock().is_some()
    }

    /// The response, if there is one.
    pub fn take(&self) -> Option<Box<Reply>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Reply>>> {
        // One thread uses it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body as the HTTP library has it.
pub enum LibraryBody {
    /// It sends the body.
    Own(Reply),
    /// It sends a head, and waits.
    Left,
}

impl Body for LibraryBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            LibraryBody::Own(reply) => Pin::new(reply).poll_frame(cx),
            LibraryBody::Left => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            LibraryBody::Own(reply) => reply.is_end_stream(),
            LibraryBody::Left => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            LibraryBody::Own(reply) => reply.size_hint(),
            LibraryBody::Left => SizeHint::default(),
        }
    }
}

/// Sends the body of a response in chunks. `false`: the client has gone, or the body has broken
/// off.
pub async fn send(io: &H1Io, state: &ConnState, mut reply: Box<Reply>) -> bool {
    let (mut held, mut is_over) = (Bytes::new(), false);
    poll_fn(|cx| {
        loop {
            state.activity.listen(cx.waker());
            while !held.is_empty() {
                match ready!(io.poll_write_bytes(cx, &held)) {
                    Ok(count) => held.advance(count),
                    Err(_) => return Poll::Ready(false),
                }
            }
            if ready!(io.poll_flush_bytes(cx)).is_err() {
                return Poll::Ready(false);
            }
            if is_over {
                return Poll::Ready(true);
            }
            held = match ready!(Pin::new(&mut *reply).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().map(|data| chunk(&data)).unwrap_or_default(),
                Some(Err(_)) => return Poll::Ready(false),
                None => {
                    is_over = true;
                    Bytes::from_static(b"0\r\n\r\n")
                }
            };
        }
    })
    .await
}

/// One chunk (RFC 9112 section 7.1); nothing for no bytes, which would be the end.
fn chunk(data: &[u8]) -> Bytes {
    if data.is_empty() {
        return Bytes::new();
    }
    let mut chunk = Vec::with_capacity(data.len() + 16);
    // Writing to memory does not fail.
    let _ = write!(chunk, "{:x}\r\n", data.len());
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_its_length_before_it() {
        assert_eq!(chunk(b"abc"), "3\r\nabc\r\n");
        assert_eq!(chunk(&[b'x'; 17]), format!("11\r\n{}\r\n", "x".repeat(17)));
        assert_eq!(chunk(b""), "");
    }
}
