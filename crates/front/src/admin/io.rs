//! A connection as the HTTP library wants it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokamak_upstream::socket::Socket;

/// Bytes read at once: a whole request, as a rule.
const PIECE: usize = 4096;

/// A connection to the admin listener.
pub struct AdminIo(pub Socket);

impl Read for AdminIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        let room = to.remaining().min(PIECE);
        let count = ready!(self.0.poll_read(context, &mut piece[..room]))?;
        to.put_slice(&piece[..count]);
        Poll::Ready(Ok(()))
    }
}

impl Write for AdminIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.end_writing())
    }
}
