//! Where connections come in: HTTP sockets and FastCGI sockets alike, accepted by one event loop and perhaps served
//! by another.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket.
pub enum Door {
    /// Of HTTP.
    Http(TcpListener),
    /// Of FastCGI over TCP, by its place in the configuration.
    Tcp(TcpListener, usize),
    /// Of FastCGI over a Unix socket, by its place in the configuration.
    Unix(UnixListener, usize),
}

/// Somebody who has come in.
pub enum Visitor {
    /// A client.
    Http(TcpStream),
    /// A web server, and the place of the FastCGI socket in the configuration.
    Fastcgi(Stream, usize),
}

/// A visitor on the way to another event loop: no loop has the descriptor.
pub enum Parcel {
    /// [`Visitor::Http`].
    Http(std::net::TcpStream),
    /// [`Visitor::Fastcgi`] over TCP.
    Tcp(std::net::TcpStream, usize),
    /// [`Visitor::Fastcgi`] over a Unix socket.
    Unix(std::os::unix::net::UnixStream, usize),
}

impl Door {
    /// A socket of HTTP, for this event loop.
    pub fn http(listener: std::net::TcpListener) -> io::Result<Door> {
        listener.set_nonblocking(true)?;
        Ok(Door::Http(TcpListener::from_std(listener)?))
    }

    /// A socket of FastCGI, for this event loop.
    pub fn fastcgi(socket: OwnedFd, is_unix: bool, place: usize) -> io::Result<Door> {
        Ok(if is_unix {
            let listener = std::os::unix::net::UnixListener::from(socket);
            listener.set_nonblocking(true)?;
            Door::Unix(UnixListener::from_std(listener)?, place)
        } else {
            let listener = std::net::TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            Door::Tcp(TcpListener::from_std(listener)?, place)
        })
    }

    /// Waits for the next visitor.
    pub async fn accept(&self) -> io::Result<Visitor> {
        Ok(match self {
            Door::Http(listener) => Visitor::Http(listener.accept().await?.0),
            Door::Tcp(listener, place) => Visitor::Fastcgi(Stream::Tcp(listener.accept().await?.0), *place),
            Door::Unix(listener, place) => Visitor::Fastcgi(Stream::Unix(listener.accept().await?.0), *place),
        })
    }
}

impl Visitor {
    /// Leaves this event loop.
    pub fn pack(self) -> io::Result<Parcel> {
        Ok(match self {
            Visitor::Http(stream) => Parcel::Http(stream.into_std()?),
            Visitor::Fastcgi(Stream::Tcp(stream), place) => Parcel::Tcp(stream.into_std()?, place),
            Visitor::Fastcgi(Stream::Unix(stream), place) => Parcel::Unix(stream.into_std()?, place),
        })
    }
}

impl Parcel {
    /// Arrives at this event loop.
    pub fn unpack(self) -> io::Result<Visitor> {
        Ok(match self {
            Parcel::Http(stream) => Visitor::Http(TcpStream::from_std(stream)?),
            Parcel::Tcp(stream, place) => Visitor::Fastcgi(Stream::Tcp(TcpStream::from_std(stream)?), place),
            Parcel::Unix(stream, place) => {
                Visitor::Fastcgi(Stream::Unix(UnixStream::from_std(stream)?), place)
            }
        })
    }
}

/// A connection over TCP or a Unix socket.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// The other end's address, if it has one.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            Stream::Tcp(stream) => Some(stream.peer_addr().ok()?.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
    }

    /// Reads what there is.
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    /// Writes what the kernel takes.
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Says that nothing more will be written.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
