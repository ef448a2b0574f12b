//! Sockets of either family, as the exchange needs them: with as few system calls as it can be
//! done, and without waking anybody for nothing.
//!
//! - A connection is registered for reading alone: see [`crate::socket`].
//! - TLS is a session beside the socket, which takes and gives bytes; it has no calls of its own.
//! - Taking bytes from a Unix socket wakes the process that sleeps at its other end, because there
//!   is room again now, and an application that waits for its next request sleeps there. So a small
//!   response is looked at and left where it is until the next request has been sent, which wakes
//!   the application anyway.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use tokamak_tls::ClientSession;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

use crate::socket::{Writing, registered};

/// Room for one read: four times the buffer of php-fpm, so most responses come with one system
/// call. Each event loop has one such buffer. With a tenth, a page would take several calls; more
/// has no effect, as senders write less at once.
const READ: usize = 32 * 1024;

/// Most bytes that are left in a socket: few beside the space that it has.
const LEFT: usize = 8 * 1024;

/// How soon a Unix socket with a full backlog is tried again, as the kernel does not tell when
/// there is room: the time of some short requests. With a tenth, hundreds of waiting requests would
/// take a core; ten times more would add 20 ms to requests under load.
const BACKLOG_PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    /// Where bytes land first: one buffer for all connections of an event loop.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Where an application listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: AsyncFd<Socket>,
    writing: Writing,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    is_unix: bool,
    /// Bytes at its front that have been looked at and not taken.
    left: usize,
    tls: Option<Box<ClientSession>>,
}

impl Stream {
    pub async fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
        let (fd, is_unix) = match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                (stream.into_std()?.into(), false)
            }
            Endpoint::Unix(path) => (connect_unix(path).await?, true),
        };
        Stream::register(Socket { fd, is_unix, left: 0, tls: None })
    }

    /// The same with this session, whose handshake is done then.
    ///
    /// # Errors
    /// Fails if the peer is not to be trusted, does not speak the protocol inside, or the
    /// connection is lost.
    pub async fn secured(mut self, session: ClientSession) -> io::Result<Stream> {
        self.socket.get_mut().tls = Some(Box::new(session));
        poll_fn(|context| {
            while self.socket.get_ref().tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                ready!(self.poll_flush(context))?;
                ready!(self.poll_receive_tls(context))?;
            }
            self.poll_flush(context)
        })
        .await?;
        if self.socket.get_ref().tls.as_ref().is_some_and(|tls| !tls.is_agreed()) {
            return Err(io::Error::other("it does not offer HTTP/2 in the handshake (ALPN)"));
        }
        Ok(self)
    }

    /// In the event loop of the caller.
    fn register(socket: Socket) -> io::Result<Stream> {
        Ok(Stream { socket: registered(socket, Interest::READABLE)?, writing: Writing::default() })
    }

    /// The same socket, in the event loop of the caller.
    pub fn adopt(self) -> io::Result<Stream> {
        Stream::register(self.socket.into_inner())
    }

    /// Whether it is open and nothing has come on it, as far as the event loop knows: no system
    /// call unless it does.
    pub fn is_quiet(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let has_news = self.socket.poll_read_ready(&mut context).is_ready();
        !has_news || self.is_quiet_now()
    }

    /// The same, as far as the kernel knows.
    pub fn is_quiet_now(&mut self) -> bool {
        let socket = self.socket.get_mut();
        socket.take_left();
        match &mut socket.tls {
            None => matches!(recv(&socket.fd, &mut [0], RecvFlags::PEEK), Err(Errno::AGAIN)),
            Some(tls) => is_session_quiet(&socket.fd, tls),
        }
    }

    /// The next bytes; none at the end. `look`: they are all that is expected, and may be left in
    /// the socket.
    pub fn poll_read(&mut self, context: &mut Context<'_>, look: bool) -> Poll<io::Result<Bytes>> {
        if self.socket.get_ref().tls.is_none() {
            return self.poll_receive(context, look, |_, room| Ok(bytes_of(room)));
        }
        loop {
            if let Some(plain) = self.socket.get_mut().tls.as_mut().and_then(|tls| tls.take()) {
                return Poll::Ready(Ok(plain));
            }
            ready!(self.poll_receive_tls(context))?;
        }
    }

    /// Gives the session what has come, and sends what it answers to that.
    fn poll_receive_tls(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let received = ready!(self.poll_receive(context, false, |tls, room| {
            tls.map_or(Ok(()), |tls| tls.receive(room))
        }));
        match self.poll_flush(context) {
            Poll::Ready(Err(error)) => Poll::Ready(received.and(Err(error))),
            _ => Poll::Ready(received),
        }
    }

    /// Takes the bytes that have come from the socket.
    fn poll_receive<T>(
        &mut self,
        context: &mut Context<'_>,
        look: bool,
        take: impl FnOnce(Option<&mut ClientSession>, &mut Vec<u8>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.socket.get_mut().take_left();
        ROOM.with_borrow_mut(|room| {
            loop {
                let mut ready = ready!(self.socket.poll_read_ready_mut(context))?;
                let socket = ready.get_inner_mut();
                let look = look && socket.is_unix;
                let flags = if look { RecvFlags::PEEK } else { RecvFlags::empty() };
                room.clear();
                room.reserve(READ);
                match recv(&socket.fd, spare_capacity(room), flags) {
                    Err(Errno::AGAIN) => ready.clear_ready(),
                    Err(Errno::INTR) => {}
                    Err(error) => return Poll::Ready(Err(error.into())),
                    Ok(_) => {
                        if look {
                            socket.left = room.len();
                            if socket.left > LEFT {
                                socket.take_left();
                            }
                        }
                        // There was no more; the event loop reports when there is. The end it has
                        // reported for good.
                        if room.len() < READ {
                            ready.clear_ready();
                        }
                        return Poll::Ready(take(self.socket.get_mut().tls.as_deref_mut(), room));
                    }
                }
            }
        })
    }

    /// Takes bytes to be written. With TLS they are on their way only when [`Stream::poll_flush`]
    /// is done.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.socket.get_ref().tls.is_some() {
            ready!(self.poll_flush(context))?;
            let said = self.socket.get_mut().tls.as_mut().map_or(Ok(0), |tls| tls.say(bytes));
            return match self.poll_flush(context) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                _ => Poll::Ready(said),
            };
        }
        let sent = ready!(self.writing.poll_send(self.socket.get_ref().fd.as_fd(), context, bytes));
        self.socket.get_mut().take_left();
        Poll::Ready(sent)
    }

    /// Writes what TLS has taken; without TLS there is nothing to do.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Socket { fd, tls: Some(tls), .. } = self.socket.get_mut() else {
            return Poll::Ready(Ok(()));
        };
        while !tls.wire().is_empty() {
            let count = ready!(self.writing.poll_send(fd.as_fd(), context, tls.wire()))?;
            tls.sent(count);
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing more is written for now.
    pub fn stop_writing(&mut self) {
        self.writing.stop();
    }
}

impl Socket {
    /// Takes what was only looked at.
    fn take_left(&mut self) {
        while self.left > 0 {
            let mut sink = Vec::with_capacity(self.left);
            match recv(&self.fd, spare_capacity(&mut sink), RecvFlags::empty()) {
                Ok((_, n @ 1..)) => self.left -= n,
                Err(Errno::INTR) => {}
                // It was there, and this is the only reader.
                Ok(_) | Err(_) => self.left = 0,
            }
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Closed with bytes in it, or without the end of TLS, it would be an error for the application and
/// not the end.
impl Drop for Socket {
    fn drop(&mut self) {
        self.take_left();
        if let Some(tls) = &mut self.tls {
            tls.end();
            // What the kernel does not take at once is not waited for.
            let _ = send(&self.fd, tls.wire(), SendFlags::NOSIGNAL);
        }
    }
}

/// Whether nothing but tickets has come.
fn is_session_quiet(fd: &OwnedFd, tls: &mut ClientSession) -> bool {
    while tls.is_quiet() {
        let mut wire = [0; 1024];
        match recv(fd, &mut wire, RecvFlags::empty()) {
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok((_, count)) if tls.receive(&wire[..count]).is_err() => return false,
            Ok(_) => {}
        }
    }
    false
}

/// A small piece gets memory of its own, so that it does not hold a large one for as long as a slow
/// client needs.
fn bytes_of(room: &mut Vec<u8>) -> Bytes {
    if room.len() > READ / 2 { std::mem::take(room).into() } else { Bytes::copy_from_slice(room) }
}

/// Waits while the backlog is full, for as long as the caller does.
async fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match connect(&fd, &address) {
            Err(Errno::AGAIN) => tokio::time::sleep(BACKLOG_PAUSE).await,
            Err(Errno::INTR) => {}
            done => return Ok(done.map(|()| fd)?),
        }
    }
}
