//! The bytes of an HTTP/2 connection. Input passes the meter; output is collected, so that one
//! system call sends the frames of many responses.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::meter::{Http2Violation, Meter};
use super::scheduler::Scheduler;
use crate::http::multiplex::ConnState;

/// Bytes of frames that are collected before they are sent. Ten times more would hold as much for a
/// client that takes nothing; a tenth would take a system call for each frame.
pub const COLLECTED: usize = 64 * 1024;

/// Bytes that are read at a time: a frame of the usual largest size with its head, and some more.
const READ: usize = 20 * 1024;

/// How long a client may take to read the last frames, as a refused one of HTTP/1.
const LAST_WORDS: Duration = Duration::from_millis(500);

thread_local! {
    /// A buffer for output that no connection needs at the moment. Nearly always the kernel takes
    /// all output, so one buffer serves all connections of an event loop.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// The buffer for input. What is in it is used up at once.
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The transport of a connection, and what is on its way through it.
pub struct H2Io<T> {
    transport: T,
    state: Arc<ConnState>,
    scheduler: Arc<Scheduler>,
    meter: Meter,
    /// The most bytes that are written at once, which become one record of TLS.
    most: usize,
    /// Bytes that have been read before.
    first: Bytes,
    /// Frames that are to be sent.
    output: Vec<u8>,
    /// So many bytes of `output` have been sent.
    sent: usize,
    /// Whether the transport may hold bytes back.
    is_unflushed: bool,
    /// Ends the time for the last frames.
    linger: Option<Pin<Box<Sleep>>>,
}

/// What reading has led to.
pub enum ReadResult<R> {
    /// Bytes, and what they led to.
    Bytes(R),
    /// The client sends no more.
    End,
    /// Bytes, what they led to, and then a frame that is wrong on this stream.
    Wrong(R, u32, Http2Violation),
    /// The client does something too often.
    Violation(Http2Violation),
}

impl<T: AsyncRead + AsyncWrite + Unpin> H2Io<T> {
    /// The bytes of a connection, of which the `first` have been read already. No record of TLS has
    /// more than `fragment` bytes, if there is such a bound.
    pub fn new(
        (transport, fragment): (T, Option<usize>),
        first: Bytes,
        state: Arc<ConnState>,
        scheduler: Arc<Scheduler>,
        meter: Meter,
    ) -> H2Io<T> {
        H2Io {
            transport,
            state,
            scheduler,
            meter,
            most: fragment.unwrap_or(usize::MAX),
            first,
            output: Vec::new(),
            sent: 0,
            is_unflushed: false,
            linger: None,
        }
    }

    /// Counts a request that has been accepted.
    pub fn accepted(&mut self) {
        self.meter.accepted();
    }

    /// Whether the client has begun to speak HTTP/2.
    pub fn has_begun(&self) -> bool {
        self.meter.has_begun()
    }

    /// Reads what has come, and gives it to `take`.
    ///
    /// # Errors
    /// Fails if the connection has ended.
    pub fn poll_read<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<io::Result<ReadResult<R>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Ok(self.feed(&first, take)));
        }
        let mut room = INPUT.take();
        room.resize(READ, 0);
        let mut buffer = ReadBuf::new(&mut room);
        let polled = Pin::new(&mut self.transport).poll_read(cx, &mut buffer);
        let came = match polled {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Ok(ReadResult::End)),
            Poll::Ready(Ok(())) => Poll::Ready(Ok(self.feed(buffer.filled(), take))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        INPUT.set(room);
        came
    }

    /// Follows bytes that have come.
    fn feed<R>(&mut self, bytes: &[u8], take: impl FnOnce(&[u8]) -> R) -> ReadResult<R> {
        let now = tokamak_cost::coarse();
        let mut rest = bytes;
        let verdict = self.meter.feed(&mut rest, now);
        let (right, rest) = bytes.split_at(bytes.len() - rest.len());
        self.state.received(right.len(), self.meter.is_in_head(), now);
        match verdict {
            Ok(()) => ReadResult::Bytes(take(right)),
            Err(
                violation @ (Http2Violation::Ended(stream) | Http2Violation::NoIncrement(stream)),
            ) => {
                self.first = Bytes::copy_from_slice(rest);
                ReadResult::Wrong(take(right), stream, violation)
            }
            Err(violation) => ReadResult::Violation(violation),
        }
    }

    /// What the client sends on this stream from now on is none of the meter's business.
    pub fn ignore(&mut self, stream: u32) {
        self.meter.ignore(stream);
    }

    /// Has `write` put frames behind those that wait, as long as these are few and the client takes
    /// what it is sent: what is not collected may still be overtaken. Returns whether anything
    /// waits.
    pub fn collect(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.output.is_empty() || !self.state.is_stalled() {
            if self.output.capacity() == 0 {
                self.output = SPARE.take();
            }
            if self.sent > 0 {
                // A slow client never takes everything: what it has taken would stay for as long
                // as the response lasts.
                self.output.drain(..self.sent);
                self.sent = 0;
            }
            let before = self.output.len();
            write(&mut self.output);
            self.meter.sent(self.output.len() - before);
        }
        let waits = !self.output.is_empty();
        if !waits {
            self.give_back();
        }
        waits
    }

    /// Sends what has been collected.
    ///
    /// # Errors
    /// Fails if the connection has ended.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut moved = 0;
        while self.sent < self.output.len() {
            let end = self.output.len().min(self.sent.saturating_add(self.most));
            let bytes = &self.output[self.sent..end];
            let Poll::Ready(written) = Pin::new(&mut self.transport).poll_write(cx, bytes) else {
                self.state.sending(true, moved);
                return Poll::Pending;
            };
            let count = written?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            self.scheduler.sent(count);
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
            self.give_back();
            self.state.sending(false, moved);
        }
        Poll::Ready(Ok(()))
    }

    fn give_back(&mut self) {
        let spare = std::mem::take(&mut self.output);
        if spare.capacity() <= 2 * COLLECTED {
            SPARE.set(spare);
        }
    }

    /// Closes the connection for output, and gives the client a moment to read what has been sent:
    /// closing with unread bytes would reset the connection and take the last frames with it.
    ///
    /// # Errors
    /// Fails if the connection has ended.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.transport).poll_shutdown(cx))?;
        }
        let linger = self.linger.get_or_insert_with(|| Box::pin(sleep(LAST_WORDS)));
        // Before the reads: a client that sends without a pause uses up the task's turn (tokio's
        // budget), and then a timer says that it is pending.
        if linger.as_mut().poll(cx).is_ready() {
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
        let meter = Meter::new(9, 9, 9, 0);
        H2Io::new((transport, None), Bytes::new(), Arc::new(state), Arc::default(), meter)
    }

    #[test]
    fn a_slow_client_makes_little_be_held() {
        let mut cx = Context::from_waker(Waker::noop());
        for each in [1000, 16 * 1024, COLLECTED] {
            let mut io = slow(each);
            let mut collected = 0;
            for _ in 0..2000 {
                let write = |output: &mut Vec<u8>| {
                    if output.len() < COLLECTED {
                        output.extend_from_slice(&[0; 16 * 1024]);
                        collected += 16 * 1024;
                    }
                };
                io.collect(write);
                let _ = io.poll_send(&mut cx);
                assert!(io.output.len() <= 2 * COLLECTED, "{}", io.output.len());
                assert!(io.output.capacity() <= 4 * COLLECTED);
            }
            assert!(collected > 10 * COLLECTED, "{each}: {collected}");
        }
    }

    /// The client sends without a pause, and is not waited for.
    #[tokio::test]
    async fn the_time_for_the_last_frames_ends() {
        let mut io = slow(COLLECTED);
        let ended = std::future::poll_fn(|cx| io.poll_part(cx));
        tokio::time::timeout(20 * LAST_WORDS, ended).await.expect("an end").unwrap();
    }
}
