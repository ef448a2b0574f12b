//! Sockets in an event loop, registered there as late and for as little as can be.
//!
//! - A connection for a single request mostly has the request when it is accepted, and its kernel
//!   buffer takes the response at once. To register it would be two system calls for nothing.
//! - A connection is registered for reading alone. Registered for writing too, a Unix socket would
//!   report that it is writable each time the other end has read something, and so wake the event
//!   loop a second time for each request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, acceptfrom_with, recv, send,
    shutdown,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A socket that listens, in one event loop.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<OwnedFd>,
}

impl Listener {
    /// Listens in the event loop of the caller to a socket that does not block.
    ///
    /// # Errors
    /// Fails as epoll does.
    pub fn new(socket: OwnedFd) -> io::Result<Listener> {
        Ok(Listener { socket: registered(socket, Interest::READABLE)? })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Fails as `accept` does.
    pub async fn accept(&self) -> io::Result<Socket> {
        loop {
            let mut ready = self.socket.readable().await?;
            let accepted = acceptfrom_with(
                self.socket.get_ref(),
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            );
            match accepted {
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
                Ok((fd, address)) => return Ok(Socket::new(fd, address.and_then(ip_of))),
            }
        }
    }
}

/// The peer of a TCP connection.
fn ip_of(address: SocketAddrAny) -> Option<IpAddr> {
    SocketAddr::try_from(address).ok().map(|address| address.ip().to_canonical())
}

/// A connection. It is registered in an event loop when it has to wait for the first time.
#[derive(Debug)]
pub struct Socket {
    reading: Reading,
    writing: Writing,
    peer: Option<IpAddr>,
}

#[derive(Debug)]
enum Reading {
    Loose(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// It could not be registered.
    Lost,
}

impl Socket {
    fn new(fd: OwnedFd, peer: Option<IpAddr>) -> Socket {
        Socket { reading: Reading::Loose(fd), writing: Writing::default(), peer }
    }

    /// The other end's address, if it has one.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Reads the bytes that have come; zero at the end.
    ///
    /// # Errors
    /// Fails as `recv` and epoll do.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.reading {
                Reading::Loose(fd) => match recv(fd, &mut *buffer, RecvFlags::empty()) {
                    Err(Errno::AGAIN) => self.register()?,
                    Err(Errno::INTR) => {}
                    read => return Poll::Ready(Ok(read?.1)),
                },
                Reading::Registered(socket) => {
                    let mut ready = ready!(socket.poll_read_ready_mut(context))?;
                    match recv(ready.get_inner(), &mut *buffer, RecvFlags::empty()) {
                        Err(Errno::AGAIN) => ready.clear_ready(),
                        Err(Errno::INTR) => {}
                        read => {
                            let count = read?.1;
                            // There was no more; the event loop reports when there is. The end it
                            // has reported for good.
                            if count < buffer.len() {
                                ready.clear_ready();
                            }
                            return Poll::Ready(Ok(count));
                        }
                    }
                }
                Reading::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }

    fn register(&mut self) -> io::Result<()> {
        if let Reading::Loose(fd) = std::mem::replace(&mut self.reading, Reading::Lost) {
            self.reading = Reading::Registered(registered(fd, Interest::READABLE)?);
        }
        Ok(())
    }

    /// Writes what the kernel takes.
    ///
    /// # Errors
    /// Fails as `send` and epoll do.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let fd = match &self.reading {
            Reading::Loose(fd) => fd,
            Reading::Registered(socket) => socket.get_ref(),
            Reading::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        self.writing.poll_send(fd.as_fd(), context, bytes)
    }

    /// Shuts down the writing side.
    ///
    /// # Errors
    /// Fails as `shutdown` does.
    pub fn end_writing(&self) -> io::Result<()> {
        self.fd().map_or(Ok(()), |fd| Ok(shutdown(fd, Shutdown::Write)?))
    }

    /// Whether the other end is known to have gone, where [`Socket::poll_read`] only says that
    /// nothing more comes. A Unix socket knows; TCP learns it from the answer to a write.
    pub fn is_hung_up(&self) -> bool {
        let Some(fd) = self.fd() else { return true };
        let mut looked_at = [PollFd::new(fd, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut looked_at, Some(&at_once)).is_ok()
            && looked_at[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    fn fd(&self) -> Option<&OwnedFd> {
        match &self.reading {
            Reading::Loose(fd) => Some(fd),
            Reading::Registered(socket) => Some(socket.get_ref()),
            Reading::Lost => None,
        }
    }
}

/// The writing side of a socket: a copy of its descriptor is registered for as long as it has to
/// wait.
#[derive(Debug, Default)]
pub(crate) struct Writing(Option<AsyncFd<OwnedFd>>);

impl Writing {
    /// Writes what the kernel takes.
    pub fn poll_send(
        &mut self,
        fd: BorrowedFd<'_>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match send(fd, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => continue,
                sent => return Poll::Ready(sent.map_err(io::Error::from)),
            }
            let waiting = match &mut self.0 {
                Some(waiting) => waiting,
                None => self.0.insert(registered(fd.try_clone_to_owned()?, Interest::WRITABLE)?),
            };
            ready!(waiting.poll_write_ready(context))?.clear_ready();
        }
    }

    /// Nothing more is written for now.
    pub fn stop(&mut self) {
        self.0 = None;
    }
}

/// A descriptor in the event loop of the caller.
///
/// # Errors
/// Fails if it is none that can be waited for.
// Deprecated because a type could name a descriptor that it does not own; ours own theirs.
#[allow(deprecated)]
pub fn registered<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
