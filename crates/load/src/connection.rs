//! An adapter from the streams of tokio, plain or TLS, to the traits of hyper.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read at once. A tenth would cost a system call more for most pages; ten times
/// more gains nothing, since hyper offers no more room.
const PIECE: usize = 16 << 10;

thread_local! {
    /// hyper offers room that may not be initialised, which only `unsafe` can fill; so bytes are
    /// read here and copied there.
    static SCRATCH: RefCell<[u8; PIECE]> = const { RefCell::new([0; PIECE]) };
}

/// A stream that implements `hyper::rt::Read` and `hyper::rt::Write`.
pub struct Io<S>(pub S);

impl<S: AsyncRead + Unpin> hyper::rt::Read for Io<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let room = out.remaining().min(scratch.len());
            let mut buffer = ReadBuf::new(&mut scratch[..room]);
            ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer))?;
            out.put_slice(buffer.filled());
            Poll::Ready(Ok(()))
        })
    }
}

impl<S: AsyncWrite + Unpin> hyper::rt::Write for Io<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
