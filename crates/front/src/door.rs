//! Where connections come in: HTTP sockets and FastCGI sockets alike, accepted by one event loop and perhaps served
//! by another.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

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
    Http(TcpStream, Past),
    /// A web server, and the place of the FastCGI socket in the configuration.
    Fastcgi(Socket, usize),
}

/// What a client has done already on a connection that comes from another event loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// Requests that were answered.
    pub requests: u32,
}

/// A visitor on the way to another event loop: no loop has the descriptor.
pub enum Parcel {
    /// [`Visitor::Http`].
    Http(std::net::TcpStream, Past),
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

    /// Whether it is for HTTP.
    pub fn is_for_clients(&self) -> bool {
        matches!(self, Door::Http(_))
    }

    /// Does not listen while `rest` lasts: whoever comes in wakes all event loops that do. `pause` lies between attempts to listen again.
    ///
    /// # Errors
    /// The socket cannot be taken out of the event loop.
    pub async fn closed(self, rest: impl Future<Output = ()>, pause: Duration) -> io::Result<Door> {
        let Door::Http(listener) = self else { return Ok(self) };
        let listener = listener.into_std()?;
        rest.await;
        loop {
            match listener.try_clone().and_then(Door::http) {
                Ok(door) => return Ok(door),
                // Out of descriptors or memory; others listen.
                Err(_) => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Waits for the next visitor.
    pub async fn accept(&self) -> io::Result<Visitor> {
        Ok(match self {
            Door::Http(listener) => Visitor::Http(listener.accept().await?.0, Past::default()),
            Door::Fastcgi(listener, place) => Visitor::Fastcgi(listener.accept().await?, *place),
        })
    }
}

impl Visitor {
    /// Leaves this event loop.
    pub fn pack(self) -> io::Result<Parcel> {
        Ok(match self {
            Visitor::Http(stream, past) => Parcel::Http(stream.into_std()?, past),
            Visitor::Fastcgi(socket, place) => Parcel::Fastcgi(socket, place),
        })
    }
}

impl Parcel {
    /// Whether it is for HTTP.
    pub fn is_client(&self) -> bool {
        matches!(self, Parcel::Http(..))
    }

    /// Arrives at this event loop.
    pub fn unpack(self) -> io::Result<Visitor> {
        Ok(match self {
            Parcel::Http(stream, past) => Visitor::Http(TcpStream::from_std(stream)?, past),
            Parcel::Fastcgi(socket, place) => Visitor::Fastcgi(socket, place),
        })
    }
}
