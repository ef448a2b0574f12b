//! The bytes of an HTTP/1 connection. Input passes the screen; output updates the connection's
//! activity.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::ReadBufCursor;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::screen::{self, Screen, Violation};
use super::state::{ConnHistory, ConnState};
use crate::client::{Addresses, Client};
use crate::failure::Failure;
use crate::http::transport::{self, ReadHalf, WriteHalf};
use crate::response::pages;

/// Largest piece read from a client at once; the size of the event loop's one read buffer.
const PIECE: usize = 64 * 1024;

/// How long a refused client may take to read the error page.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Most clients of an event loop that are being sent away at the same time. Each takes a descriptor
/// for up to [`LINGER`], when there may be too many connections already.
const MOST_TURNED_AWAY: usize = 256;

/// A head and a body of at most this many bytes together are copied into one piece, because the
/// kernel handles one piece faster than a list. Copying ten times as much could cost more than it
/// saves; a tenth would exclude most small pages.
const JOINED: usize = 4096;

thread_local! {
    /// The buffer for reading and screening input, before it goes to the HTTP library, and for
    /// joining small responses. One buffer serves all connections of an event loop.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Runs `work` with the event loop's buffer.
pub fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| work(scratch))
}

/// How long a client may go on sending after its response or an alert; the bytes are discarded.
/// Many clients look at the response when they have sent all. With a tenth, many would see a
/// connection that was reset; with ten times more, each of them would hold a descriptor for a
/// minute.
const LINGER: Duration = Duration::from_secs(5);

/// Sends a client the last bytes of a connection, and gives it so long to read them.
async fn send_and_linger(read: &mut ReadHalf, write: &WriteHalf, bytes: &[u8], moment: Duration) {
    let linger = async {
        write.send_last(bytes).await?;
        let mut sink = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut sink);
            poll_fn(|cx| read.poll_read(cx, &mut buffer)).await?;
            if buffer.filled().is_empty() {
                return Ok::<(), io::Error>(());
            }
        }
    };
    let _ = timeout(moment, linger).await;
}

thread_local! {
    /// Clients that are being turned away at the moment.
    static TURNED_AWAY: Cell<usize> = const { Cell::new(0) };
}

/// Tells a client why its connection is closed.
pub fn turn_away(stream: TcpStream, why: Failure) {
    send_away(stream, pages::raw(why), LAST_WORDS);
}

/// Ends the connection of a client that has been sent its last bytes, and may still be sending.
pub fn part_from(stream: TcpStream) {
    send_away(stream, Vec::new(), LINGER);
}

/// The same at once, where the connection itself takes what others need.
///
/// The socket's send buffer is empty, so all is sent. But a client that has already sent more may
/// get a reset instead.
pub fn turn_away_at_once(stream: &TcpStream, why: Failure) {
    let _ = stream.try_write(&pages::raw(why));
}

fn send_away(stream: TcpStream, last: Vec<u8>, moment: Duration) {
    if TURNED_AWAY.get() >= MOST_TURNED_AWAY {
        // As in `turn_away_at_once`.
        let _ = stream.try_write(&last);
        return;
    }
    TURNED_AWAY.set(TURNED_AWAY.get() + 1);
    tokio::spawn(async move {
        let (mut read, write) = transport::plain(stream);
        send_and_linger(&mut read, &write, &last, moment).await;
        TURNED_AWAY.set(TURNED_AWAY.get() - 1);
    });
}

/// A connection's bytes, as the HTTP library reads and writes them.
pub struct H1Io {
    read: ReadHalf,
    state: Arc<ConnState>,
    screen: Screen,
    /// Screened bytes that had no room in the library's buffer, because encoding made them more.
    overflow: Bytes,
    /// Requests that another event loop has answered.
    earlier: u32,
    refused: Option<Refusal>,
    /// Whether a client may begin with HTTP/2.
    takes_http2: bool,
    /// The bytes that have come of a client that began with HTTP/2.
    http2: Option<Bytes>,
}

/// The client broke a rule.
#[derive(Clone, Copy)]
struct Refusal {
    violation: Violation,
    /// Whether it did so in the body of the request that is being served.
    in_body: bool,
}

impl H1Io {
    /// Takes over an accepted connection, or one that another event loop had.
    pub fn new(
        (read, write): (ReadHalf, WriteHalf),
        history: ConnHistory,
        limits: screen::Limits,
        takes_http2: bool,
    ) -> (H1Io, Arc<ConnState>) {
        let earlier = history.requests;
        let state = Arc::new(ConnState::new(write, history));
        let screen = Screen::new(limits);
        let io = H1Io {
            read,
            state: state.clone(),
            screen,
            overflow: Bytes::new(),
            earlier,
            refused: None,
            takes_http2,
            http2: None,
        };
        (io, state)
    }

    /// The bytes that have come of a client that began with HTTP/2, if it did.
    pub fn take_http2(&mut self) -> Option<Bytes> {
        self.http2.take()
    }

    /// The addresses of both ends.
    pub fn addresses(&self) -> &Arc<Addresses> {
        self.state.addresses()
    }

    /// Whether a client that broke this rule with its last bytes began with HTTP/2. Then its bytes
    /// are kept for the protocol's own reader.
    fn is_http2(&mut self, violation: Violation, last: &[u8]) -> bool {
        let is_first = violation == Violation::Http2 && self.takes_http2 && self.earlier == 0;
        let rest = if is_first { self.screen.http2(last) } else { None };
        self.http2 = rest.map(|rest| [b"PRI *", rest].concat().into());
        self.http2.is_some()
    }

    /// Gives back the connection for another event loop; `None` if a request still holds it, or if
    /// it has TLS.
    pub fn leave(self) -> Option<(TcpStream, ConnHistory)> {
        let (write, history) = Arc::into_inner(self.state)?.into_parts();
        Some((self.read.reunite(write)?, history))
    }

    /// Whether all that has been read is with the library.
    pub fn is_passed_on(&self) -> bool {
        self.overflow.is_empty()
    }

    /// Takes back screened bytes that the library has not used. The next reader gets them first.
    pub fn give_back(&mut self, unused: Bytes) {
        if !unused.is_empty() {
            self.overflow = [unused, std::mem::take(&mut self.overflow)].concat().into();
        }
    }

    /// Reads bytes that are no HTTP. Nothing may be left of what was.
    pub fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.read.poll_read(cx, buffer)
    }

    /// Ready when bytes have come, or the client has gone.
    pub fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.read.poll_read_ready(cx)
    }

    /// Passes screened bytes on to the library.
    fn pass(&mut self, bytes: &[u8], out: &mut ReadBufCursor<'_>) {
        match self.screen.encode(bytes) {
            Cow::Borrowed(bytes) => out.put_slice(bytes),
            Cow::Owned(bytes) => {
                self.overflow = bytes.into();
                self.pass_overflow(out);
            }
        }
    }

    fn pass_overflow(&mut self, out: &mut ReadBufCursor<'_>) {
        let count = self.overflow.len().min(out.remaining());
        out.put_slice(&self.overflow.split_to(count));
    }

    /// Whether the body of a request has come in part.
    pub fn is_in_body(&self) -> bool {
        self.screen.part() == screen::Progress::Body
    }

    /// Ends the connection of a client that broke a rule, or whose body is not read: sends the
    /// error page, and gives the client a moment to read it.
    pub async fn part(&mut self) {
        let (page, moment) = match self.refused {
            // The response to the request with this body is the error page.
            Some(Refusal { in_body: true, .. }) | None => (Vec::new(), LINGER),
            // It would take a page for something of its own protocol.
            Some(Refusal { violation: Violation::NotHttp, .. }) => (Vec::new(), LAST_WORDS),
            Some(Refusal { violation, .. }) => (pages::raw(violation.failure()), LAST_WORDS),
        };
        send_and_linger(&mut self.read, &self.state.write, &page, moment).await;
    }

    /// Writes bytes that are no more the library's business.
    pub fn poll_write_bytes(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, bytes.len(), |write| write.try_write(bytes))
    }

    /// Sends what TLS holds of them.
    pub fn poll_flush_bytes(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.state.write.has_unsent() {
            return Poll::Ready(Ok(()));
        }
        let flushed = self.state.write.poll_flush(cx);
        self.state.moved();
        let flushed = ready!(flushed);
        if flushed.is_ok() {
            self.state.flushed();
        }
        Poll::Ready(flushed)
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        offered: usize,
        write: impl Fn(&WriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let result = write(&self.state.write);
            self.state.wrote(offered, &result);
            match result {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let room = self.state.write.poll_write_ready(cx);
                    self.state.moved();
                    ready!(room)?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}

impl hyper::rt::Read for H1Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let io = &mut *self;
        if !io.overflow.is_empty() {
            io.pass_overflow(&mut out);
            return Poll::Ready(Ok(()));
        }
        if let Some(refusal) = io.refused {
            return if refusal.in_body {
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    refusal.violation.reason(),
                )))
            } else if io.state.is_serving() {
                // The requests before the bad one are answered first; then the library reads again.
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let room = out.remaining().min(scratch.len());
            let mut buffer = ReadBuf::new(&mut scratch[..room]);
            ready!(io.read.poll_read(cx, &mut buffer))?;
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let before = io.screen.part();
            let verdict = io.screen.feed(bytes);
            let is_complete = io.screen.clean() == bytes.len();
            let heard = io.earlier.wrapping_add(io.screen.requests());
            let begins = before == screen::Progress::Idle;
            let heard = is_complete.then_some(heard);
            io.state.received(bytes.len(), heard, begins.then(tokamak_cost::now));
            match verdict {
                Ok(()) => io.pass(bytes, &mut out),
                Err(violation) if io.is_http2(violation, bytes) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, violation.reason());
                    return Poll::Ready(Err(error));
                }
                Err(violation) => {
                    let clean = io.screen.clean();
                    let in_body = before == screen::Progress::Body && clean == 0;
                    io.refused = Some(Refusal { violation, in_body });
                    io.state.refuse(violation);
                    io.pass(&bytes[..clean], &mut out);
                    if in_body {
                        return Poll::Ready(Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            violation.reason(),
                        )));
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl hyper::rt::Write for H1Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_bytes(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|s| s.len()).sum();
        if offered > JOINED {
            return self.poll_write_with(cx, offered, |write| write.try_write_vectored(slices));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut end = 0;
            for slice in slices {
                scratch[end..end + slice.len()].copy_from_slice(slice);
                end += slice.len();
            }
            self.poll_write_with(cx, offered, |write| write.try_write(&scratch[..offered]))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_bytes(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is closed when the connection is dropped, after a refused client's page.
        if self.refused.is_some() { Poll::Ready(Ok(())) } else { self.state.write.poll_end(cx) }
    }
}
