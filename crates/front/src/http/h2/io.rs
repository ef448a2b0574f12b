//! The bytes of an HTTP/2 connection. Input passes the meter; output is collected, so that one
//! system call sends the frames of many responses.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::meter::{Flood, Meter};
use super::state::ConnState;

/// Bytes of frames that are collected before they are sent. Ten times more would hold as much for a
/// client that takes nothing; a tenth would take a system call for each frame.
const COLLECTED: usize = 64 * 1024;

/// How long a client may take to read the last frames, as a refused one of HTTP/1.
const LAST_WORDS: Duration = Duration::from_millis(500);

thread_local! {
    /// A buffer for output that no connection needs at the moment. Nearly always the kernel takes
    /// all output, so one buffer serves all connections of an event loop.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The transport of a connection, and what is on its way through it.
struct Inner<T> {
    transport: T,
    state: Arc<ConnState>,
    meter: Meter,
    /// Bytes that have been read before.
    first: Bytes,
    /// Frames that are to be sent.
    output: Vec<u8>,
    /// So many bytes of `output` have been sent.
    sent: usize,
    /// Whether the transport may hold bytes back.
    is_unflushed: bool,
    flood: Option<Flood>,
    /// Ends the time for the last frames.
    farewell: Option<Pin<Box<Sleep>>>,
}

/// A connection's bytes. The HTTP library has one handle of it, and the connection's task another
/// one, by which it sends what the library has written.
pub struct H2Io<T>(Arc<Mutex<Inner<T>>>);

impl<T> Clone for H2Io<T> {
    fn clone(&self) -> H2Io<T> {
        H2Io(self.0.clone())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> H2Io<T> {
    /// The bytes of a connection, of which these have been read already.
    pub fn new(transport: T, first: Bytes, state: Arc<ConnState>, meter: Meter) -> H2Io<T> {
        H2Io(Arc::new(Mutex::new(Inner {
            transport,
            state,
            meter,
            first,
            output: Vec::new(),
            sent: 0,
            is_unflushed: false,
            flood: None,
            farewell: None,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        // Only the connection's task uses it; if that has panicked, the connection is closed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client has done too often. Then nothing more is read from it.
    pub fn flood(&self) -> Option<Flood> {
        self.inner().flood
    }

    /// Counts a request that has been accepted.
    pub fn accepted(&self) {
        self.inner().meter.accepted();
    }

    /// Sends what the library has written.
    ///
    /// # Errors
    /// Fails if the connection has ended.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_send(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Inner<T> {
    /// Follows bytes that have come.
    fn feed(&mut self, bytes: &[u8]) {
        let now = tokamak_cost::coarse();
        self.flood = self.meter.feed(bytes, now).err();
        self.state.received(bytes.len(), self.meter.is_in_head(), now);
    }

    /// Collects bytes. Sends the earlier ones first if there are too many, or if the client does
    /// not take them: what is not collected may still be overtaken.
    fn poll_collect(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let is_much = self.output.len() - self.sent + bytes.len() > COLLECTED;
        if !self.output.is_empty() && (is_much || self.state.is_stalled()) {
            ready!(self.poll_send(cx))?;
        }
        if self.output.capacity() == 0 {
            self.output = SPARE.take();
        }
        if self.sent > 0 {
            // A slow client never takes everything: what it has taken would stay for as long as
            // the response lasts.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.output.extend_from_slice(bytes);
        self.meter.sent(bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut moved = 0;
        while self.sent < self.output.len() {
            let bytes = &self.output[self.sent..];
            let Poll::Ready(written) = Pin::new(&mut self.transport).poll_write(cx, bytes) else {
                self.state.sending(true, moved);
                return Poll::Pending;
            };
            let count = written?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            self.state.scheduler.sent(count);
            self.is_unflushed = true;
            moved += count as u64;
        }
        if self.is_unflushed {
            if Pin::new(&mut self.transport).poll_flush(cx)?.is_pending() {
                self.state.sending(true, moved);
                return Poll::Pending;
            }
            self.is_unflushed = false;
            self.sent = 0;
            self.output.clear();
            let spare = std::mem::take(&mut self.output);
            if spare.capacity() <= 2 * COLLECTED {
                SPARE.set(spare);
            }
            self.state.sending(false, moved);
        }
        Poll::Ready(Ok(()))
    }

    /// Closes the connection for output, and gives the client a moment to read what has been sent:
    /// closing with unread bytes would reset the connection and take the last frames with it.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if self.farewell.is_none() {
            ready!(Pin::new(&mut self.transport).poll_shutdown(cx))?;
        }
        let farewell = self.farewell.get_or_insert_with(|| Box::pin(sleep(LAST_WORDS)));
        // Before the reads: a client that sends without a pause uses up the task's turn (tokio's
        // budget), and then a timer says that it is pending.
        if farewell.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut sink = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut sink);
            match Pin::new(&mut self.transport).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for H2Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.inner();
        if inner.flood.is_some() {
            // The connection's task ends the connection when the library has nothing to do.
            return Poll::Pending;
        }
        let before = out.filled().len();
        if inner.first.is_empty() {
            ready!(Pin::new(&mut inner.transport).poll_read(cx, out))?;
        } else {
            let count = inner.first.len().min(out.remaining());
            out.put_slice(&inner.first[..count]);
            inner.first.advance(count);
        }
        inner.feed(&out.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for H2Io<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_collect(cx, bytes)
    }

    // The connection's task sends when the library has nothing more to write.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_part(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::task::Waker;

    use super::*;
    use crate::client::Addresses;

    /// Takes at most so many bytes in a row, and then wants to be asked again. Sends without end.
    struct Slow {
        each: usize,
        has_taken: bool,
    }

    impl AsyncRead for Slow {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let turn = ready!(tokio::task::coop::poll_proceed(cx));
            turn.made_progress();
            out.put_slice(&[0; 9]);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.has_taken = !self.has_taken;
            if self.has_taken {
                return Poll::Ready(Ok(bytes.len().min(self.each)));
            }
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn slow(each: usize) -> H2Io<Slow> {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let state = ConnState::new(Arc::new(Addresses::new(address, address, 0)));
        let transport = Slow { each, has_taken: false };
        H2Io::new(transport, Bytes::new(), Arc::new(state), Meter::new(9, 9, 9, 0))
    }

    #[test]
    fn a_slow_client_makes_little_be_held() {
        let mut cx = Context::from_waker(Waker::noop());
        for each in [1000, 16 * 1024, COLLECTED] {
            let mut io = slow(each);
            let mut collected = 0;
            for _ in 0..2000 {
                if Pin::new(&mut io).poll_write(&mut cx, &[0; 16 * 1024]).is_ready() {
                    collected += 16 * 1024;
                }
                let _ = io.poll_send(&mut cx);
                let inner = io.inner();
                assert!(inner.output.len() <= 2 * COLLECTED, "{}", inner.output.len());
                assert!(inner.output.capacity() <= 4 * COLLECTED);
            }
            assert!(collected > 10 * COLLECTED, "{each}: {collected}");
        }
    }

    /// The client sends without a pause, and is not waited for.
    #[tokio::test]
    async fn the_time_for_the_last_frames_ends() {
        let mut io = slow(COLLECTED);
        let ended = std::future::poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx));
        tokio::time::timeout(20 * LAST_WORDS, ended).await.expect("an end").unwrap();
    }
}
