//! One client connection: its bytes pass the screen, its pulse tells the sweeper how long it has
//! been silent.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::event_loop::accept::ConnHistory;
use crate::failure::Failure;
use crate::pages;
use crate::screen::{self, Screen, Violation};

/// Largest piece read from a client at once; the size of the event loop's one read buffer.
const PIECE: usize = 64 * 1024;

/// How long a refused client may take to read why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Clients of an event loop that are told that there is no room, at the same time: each takes a
/// descriptor for up to [`LAST_WORDS`], and there are too many connections already.
const MOST_TURNED_AWAY: usize = 256;

/// A head and a body that have no more bytes than this together are copied into one piece: the
/// kernel takes that with less effort than a list of pieces. Chosen arbitrarily, where a copy costs
/// far less than what it saves.
const JOINED: usize = 4096;

/// Something of a request has come, and not all of it.
const UNFINISHED: u32 = u32::MAX;

thread_local! {
    /// Clients' bytes land here, are screened, and go on to the HTTP library: one buffer for all
    /// connections of an event loop. Small responses are joined in it.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// What a connection is waiting for; each has a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pulse {
    /// The next request.
    Idle = 0,
    /// The rest of a request's head.
    Head = 1,
    /// The server itself: no limit here.
    Serving = 2,
    /// The client, to take more of the response.
    Sending = 3,
    /// The rest of a request's body, from a web server.
    Body = 4,
}

/// What a connection waits for, as its task tells the sweeper.
pub struct Heart {
    pulse: AtomicU8,
    since: AtomicU64,
    /// A task that does not look by itself whether its client has gone.
    listener: Mutex<Option<Waker>>,
    called: AtomicBool,
}

impl Heart {
    /// Of a new connection.
    pub fn new() -> Heart {
        Heart {
            pulse: AtomicU8::new(Pulse::Idle as u8),
            since: AtomicU64::new(tokamak_cost::now()),
            listener: Mutex::new(None),
            called: AtomicBool::new(false),
        }
    }

    /// What it waits for, and since when in nanoseconds.
    pub fn pulse(&self) -> (Pulse, u64) {
        let pulse = match self.pulse.load(Ordering::Relaxed) {
            0 => Pulse::Idle,
            1 => Pulse::Head,
            2 => Pulse::Serving,
            3 => Pulse::Sending,
            _ => Pulse::Body,
        };
        (pulse, self.since.load(Ordering::Relaxed))
    }

    /// It waits for this from now on.
    pub fn beat(&self, pulse: Pulse, now: u64) {
        self.since.store(now, Ordering::Relaxed);
        self.pulse.store(pulse as u8, Ordering::Relaxed);
    }

    /// The task sleeps, and wants to be woken by [`Heart::call`].
    pub fn listen(&self, waker: &Waker) {
        let mut listener = self.listener();
        if !listener.as_ref().is_some_and(|other| other.will_wake(waker)) {
            *listener = Some(waker.clone());
        }
    }

    /// Wakes a task that listens: it has waited for so long that it should look whether its client
    /// is there still.
    pub fn call(&self) {
        if let Some(waker) = self.listener().take() {
            self.called.store(true, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// Whether it was called.
    pub fn was_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    fn listener(&self) -> MutexGuard<'_, Option<Waker>> {
        // A panic elsewhere cannot leave it half changed.
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a connection's two ends are.
pub struct Addresses {
    /// The client.
    pub peer: SocketAddr,
    /// The address on which it came in.
    pub local: SocketAddr,
    /// Both as text.
    pub text: Text,
}

/// Addresses as text, written once a connection.
pub struct Text {
    /// The client's address, without the port.
    pub peer: String,
    /// The server's address, without the port.
    pub local: String,
}

/// What a connection's task, its requests and the sweeper share.
pub struct Link {
    /// Where its two ends are; requests that the server makes for its own outlive it.
    pub addresses: Arc<Addresses>,
    /// What it waits for.
    pub heart: Heart,
    write: OwnedWriteHalf,
    /// Requests so far.
    requests: AtomicU32,
    /// Requests that have come, if nothing of a next one has; otherwise [`UNFINISHED`].
    heard: AtomicU32,
    head_began: AtomicU64,
    serving: AtomicBool,
    /// Whether the kernel did not take all that was last written.
    stalled: AtomicBool,
    /// The rule that the client broke.
    violation: OnceLock<Violation>,
}

impl Link {
    /// The rule that the client broke, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation.get().copied()
    }

    /// A request is being served from now on. Returns when its first byte came.
    pub fn serve(&self, now: u64) -> u64 {
        // Nobody else counts.
        self.requests.store(self.requests() + 1, Ordering::Relaxed);
        self.serving.store(true, Ordering::Relaxed);
        self.heart.beat(Pulse::Serving, now);
        self.head_began.load(Ordering::Relaxed)
    }

    /// How many requests have come, with the one that is being served.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The response has been handed over.
    pub fn served(&self, now: u64) {
        self.serving.store(false, Ordering::Relaxed);
        if self.heart.pulse().0 == Pulse::Serving {
            self.heart.beat(Pulse::Idle, now);
        }
    }

    /// Whether all that has come is answered, so that another event loop may go on.
    pub fn is_between_requests(&self) -> bool {
        self.heard.load(Ordering::Relaxed) == self.requests()
            && self.heart.pulse().0 == Pulse::Idle
            && !self.stalled.load(Ordering::Relaxed)
    }

    /// Whether the client has gone. Asked while its request is answered and the answer has to wait:
    /// the HTTP library does not look then (see `service::converse`). As long as there are bytes of
    /// a next request, nobody knows.
    pub fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        match self.write.as_ref().poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Sends an interim response past the HTTP library, which knows none. Advice only: it is left
    /// out when something is on its way already.
    pub fn send_interim(&self, bytes: &[u8]) {
        if self.stalled.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(n) = self.write.try_write(bytes)
            && n < bytes.len()
        {
            // Half an interim response would garble what follows: this client is too slow to be
            // told things.
            let _ = socket2::SockRef::from(self.write.as_ref()).shutdown(std::net::Shutdown::Both);
        }
    }
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
    /// Clients for which there is no room, and that are being told so.
    static TURNED_AWAY: Cell<usize> = const { Cell::new(0) };
}

/// Tells a client that there is no room for it.
pub fn turn_away(stream: TcpStream) {
    let page = pages::raw(Failure::TooManyConnections);
    if TURNED_AWAY.get() >= MOST_TURNED_AWAY {
        // The socket's buffer is empty, so the page goes out whole; but a client that has sent its
        // request may lose it to the reset.
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

/// The bytes of a connection, as the HTTP library reads and writes them.
pub struct Wire {
    read: OwnedReadHalf,
    link: Arc<Link>,
    screen: Screen,
    history: ConnHistory,
    refused: Option<Refusal>,
}

/// A client broke a rule.
#[derive(Clone, Copy)]
struct Refusal {
    violation: Violation,
    /// In the body of the request that is being served.
    in_body: bool,
}

impl Wire {
    /// Takes over an accepted connection, or one that another event loop had.
    ///
    /// # Errors
    /// The connection is gone already.
    pub fn new(
        stream: TcpStream,
        history: ConnHistory,
        limits: screen::Limits,
    ) -> io::Result<(Wire, Arc<Link>)> {
        stream.set_nodelay(true)?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        let text = Text { peer: peer.ip().to_string(), local: local.ip().to_string() };
        let (read, write) = stream.into_split();
        let link = Arc::new(Link {
            addresses: Arc::new(Addresses { peer, local, text }),
            heart: Heart::new(),
            write,
            requests: AtomicU32::new(history.requests),
            heard: AtomicU32::new(history.requests),
            head_began: AtomicU64::new(0),
            serving: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            violation: OnceLock::new(),
        });
        Ok((
            Wire { read, link: link.clone(), screen: Screen::new(limits), history, refused: None },
            link,
        ))
    }

    /// The connection, for another event loop; nothing if somebody else still needs it here.
    pub fn leave(self) -> Option<(TcpStream, ConnHistory)> {
        let Link { write, requests, .. } = Arc::into_inner(self.link)?;
        let stream = self.read.reunite(write).ok()?;
        Some((stream, ConnHistory { requests: requests.into_inner() }))
    }

    /// Ends the conversation with a client that broke a rule: it is told why, and has a moment to
    /// read that.
    pub async fn part(mut self) {
        let page = match self.refused {
            // The answer to the request with this body says it.
            Some(Refusal { in_body: true, .. }) | None => Vec::new(),
            Some(Refusal { violation, .. }) => pages::raw(violation.failure()),
        };
        farewell(&mut self.read, &self.link.write, &page).await;
    }

    fn wrote(&self, offered: usize, result: &io::Result<usize>) {
        let complete = matches!(result, Ok(n) if *n == offered);
        self.link.stalled.store(!complete, Ordering::Relaxed);
        if complete {
            if self.link.heart.pulse().0 == Pulse::Sending {
                let next = if self.link.serving.load(Ordering::Relaxed) {
                    Pulse::Serving
                } else {
                    Pulse::Idle
                };
                self.link.heart.beat(next, tokamak_cost::now());
            }
        } else if result.is_ok() || self.link.heart.pulse().0 != Pulse::Sending {
            self.link.heart.beat(Pulse::Sending, tokamak_cost::now());
        }
    }

    fn poll_write_with(
        &self,
        context: &mut Context<'_>,
        offered: usize,
        write: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let result = write(&self.link.write);
            self.wrote(offered, &result);
            match result {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.link.write.as_ref().poll_write_ready(context))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        if let Some(refusal) = wire.refused {
            return if refusal.in_body {
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    refusal.violation.reason(),
                )))
            } else if wire.link.serving.load(Ordering::Relaxed) {
                // The requests before the bad one are answered first; the library asks again then.
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let room = out.remaining().min(scratch.len());
            let mut buffer = ReadBuf::new(&mut scratch[..room]);
            ready!(Pin::new(&mut wire.read).poll_read(context, &mut buffer))?;
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let before = wire.screen.phase();
            let verdict = wire.screen.feed(bytes);
            let heard = if wire.screen.clean() == bytes.len() {
                wire.history.requests.wrapping_add(wire.screen.requests())
            } else {
                UNFINISHED
            };
            wire.link.heard.store(heard, Ordering::Relaxed);
            if before == screen::Phase::Idle {
                let now = tokamak_cost::now();
                wire.link.head_began.store(now, Ordering::Relaxed);
                if !wire.link.serving.load(Ordering::Relaxed) {
                    wire.link.heart.beat(Pulse::Head, now);
                }
            }
            match verdict {
                Ok(()) => out.put_slice(bytes),
                Err(violation) => {
                    let clean = wire.screen.clean();
                    let in_body = before == screen::Phase::Body && clean == 0;
                    wire.refused = Some(Refusal { violation, in_body });
                    let _ = wire.link.violation.set(violation);
                    out.put_slice(&bytes[..clean]);
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

impl hyper::rt::Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, bytes.len(), |write| write.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|s| s.len()).sum();
        if offered > JOINED {
            return self
                .poll_write_with(context, offered, |write| write.try_write_vectored(slices));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut end = 0;
            for slice in slices {
                scratch[end..end + slice.len()].copy_from_slice(slice);
                end += slice.len();
            }
            self.poll_write_with(context, offered, |write| write.try_write(&scratch[..offered]))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is shut down when both halves are dropped, after a refused client's page.
        Poll::Ready(Ok(()))
    }
}
