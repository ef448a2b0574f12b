//! The bytes of an HTTP/1 connection. Input passes the screen; output updates the connection's
//! activity.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::screen::{self, Screen, Violation};
use super::state::{ConnHistory, ConnState};
use crate::failure::Failure;
use crate::response::pages;

/// Largest piece read from a client at once; the size of the event loop's one read buffer.
const PIECE: usize = 64 * 1024;

/// How long a refused client may take to read the error page.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Most clients of an event loop that are being turned away at the same time. Each takes a
/// descriptor for up to [`LAST_WORDS`], when there are too many connections already.
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

/// Sends a client the last bytes of a connection, and gives it a moment to read them.
async fn farewell(read: &mut OwnedReadHalf, write: &OwnedWriteHalf, mut bytes: &[u8]) {
    let farewell = async {
        while !bytes.is_empty() {
            write.writable().await?;
            match write.try_write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        // Closing with unread bytes would reset the connection and take the page with it.
        socket2::SockRef::from(write.as_ref()).shutdown(std::net::Shutdown::Write)?;
        let mut sink = [0; 4096];
        while read.read(&mut sink).await? > 0 {}
        Ok(())
    };
    let _ = timeout(LAST_WORDS, farewell).await;
}

thread_local! {
    /// Clients that are being turned away at the moment.
    static TURNED_AWAY: Cell<usize> = const { Cell::new(0) };
}

/// Tells a client that there are too many connections.
pub fn turn_away(stream: TcpStream) {
    let page = pages::raw(Failure::TooManyConnections);
    if TURNED_AWAY.get() >= MOST_TURNED_AWAY {
        // The socket's send buffer is empty, so the whole page is sent. But a client that has
        // already sent its request may get a reset instead.
        let _ = stream.try_write(&page);
        return;
    }
    TURNED_AWAY.set(TURNED_AWAY.get() + 1);
    tokio::spawn(async move {
        let (mut read, write) = stream.into_split();
        farewell(&mut read, &write, &page).await;
        TURNED_AWAY.set(TURNED_AWAY.get() - 1);
    });
}

/// A connection's bytes, as the HTTP library reads and writes them.
pub struct H1Io {
    read: OwnedReadHalf,
    state: Arc<ConnState>,
    screen: Screen,
    /// Screened bytes that had no room in the library's buffer, because encoding made them more.
    overflow: Bytes,
    /// Requests that another event loop has answered.
    earlier: u32,
    refused: Option<Refusal>,
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
        stream: TcpStream,
        history: ConnHistory,
        limits: screen::Limits,
    ) -> (H1Io, Arc<ConnState>) {
        let (read, write) = stream.into_split();
        let earlier = history.requests;
        let state = Arc::new(ConnState::new(write, history));
        let screen = Screen::new(limits);
        let overflow = Bytes::new();
        (H1Io { read, state: state.clone(), screen, overflow, earlier, refused: None }, state)
    }

    /// Gives back the connection for another event loop; `None` if a request still holds it.
    pub fn leave(self) -> Option<(TcpStream, ConnHistory)> {
        let (write, history) = Arc::into_inner(self.state)?.into_parts();
        Some((self.read.reunite(write).ok()?, history))
    }

    /// Whether all that has been read is with the library.
    pub fn is_passed_on(&self) -> bool {
        self.overflow.is_empty()
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

    /// Ends the connection of a client that broke a rule: sends the error page, and gives the
    /// client a moment to read it.
    pub async fn part(&mut self) {
        let page = match self.refused {
            // The response to the request with this body is the error page.
            Some(Refusal { in_body: true, .. }) | None => Vec::new(),
            Some(Refusal { violation, .. }) => pages::raw(violation.failure()),
        };
        farewell(&mut self.read, &self.state.write, &page).await;
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        offered: usize,
        write: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let result = write(&self.state.write);
            self.state.wrote(offered, &result);
            match result {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.state.write.as_ref().poll_write_ready(cx))?;
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
            ready!(Pin::new(&mut io.read).poll_read(cx, &mut buffer))?;
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let before = io.screen.part();
            let verdict = io.screen.feed(bytes);
            let is_complete = io.screen.clean() == bytes.len();
            let heard = io.earlier.wrapping_add(io.screen.requests());
            let begins = before == screen::Part::Idle;
            let heard = is_complete.then_some(heard);
            io.state.received(bytes.len(), heard, begins.then(tokamak_cost::now));
            match verdict {
                Ok(()) => io.pass(bytes, &mut out),
                Err(violation) => {
                    let clean = io.screen.clean();
                    let in_body = before == screen::Part::Body && clean == 0;
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
        self.poll_write_with(cx, bytes.len(), |write| write.try_write(bytes))
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

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is closed when the connection is dropped, after a refused client's page.
        Poll::Ready(Ok(()))
    }
}
