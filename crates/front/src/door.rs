//! Where connections come in: HTTP sockets and FastCGI sockets alike, accepted by one event loop and perhaps served
//! by another.

use std::io;
use std::os::fd::OwnedFd;

use tokamak_upstream::socket::{Listener, Socket};
use tokio::net::{TcpListener, TcpStream};

/// A listening socket.
pub enum Door {
    /// Of HTTP.
    Http(TcpListener),
    /// Of FastCGI, by its place in the configuration.
    Fastcgi(Listener, usize),
}

/// Somebody who has come in.
pub enum Visitor {
    /// A client.
    Http(TcpStream),
    /// A web server, and the place of the FastCGI socket in the configuration.
    Fastcgi(Socket, usize),
}

/// A visitor on the way to another event loop: no loop has the descriptor.
pub enum Parcel {
    /// [`Visitor::Http`].
    Http(std::net::TcpStream),
    /// [`Visitor::Fastcgi`], just accepted.
    Fastcgi(Socket, usize),
}

impl Door {
    /// A socket of HTTP, for this event loop.
    pub fn http(listener: std::net::TcpListener) -> io::Result<Door> {
        listener.set_nonblocking(true)?;
        Ok(Door::Http(TcpListener::from_std(listener)?))
    }

    /// A socket of FastCGI, for this event loop.
    pub fn fastcgi(socket: OwnedFd, place: usize) -> io::Result<Door> {
        socket2::SockRef::from(&socket).set_nonblocking(true)?;
        Ok(Door::Fastcgi(Listener::new(socket)?, place))
    }

    /// Waits for the next visitor.
    pub async fn accept(&self) -> io::Result<Visitor> {
        Ok(match self {
            Door::Http(listener) => Visitor::Http(listener.accept().await?.0),
            Door::Fastcgi(listener, place) => Visitor::Fastcgi(listener.accept().await?, *place),
        })
    }
}

impl Visitor {
    /// Leaves this event loop.
    pub fn pack(self) -> io::Result<Parcel> {
        Ok(match self {
            Visitor::Http(stream) => Parcel::Http(stream.into_std()?),
            Visitor::Fastcgi(socket, place) => Parcel::Fastcgi(socket, place),
        })
    }
}

impl Parcel {
    /// Arrives at this event loop.
    pub fn unpack(self) -> io::Result<Visitor> {
        Ok(match self {
            Parcel::Http(stream) => Visitor::Http(TcpStream::from_std(stream)?),
            Parcel::Fastcgi(socket, place) => Visitor::Fastcgi(socket, place),
        })
    }
}
