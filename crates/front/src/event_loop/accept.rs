//! Accepts connections on HTTP and FastCGI sockets. One event loop may accept a connection and
//! another one serve it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokamak_upstream::socket::{self, Socket};
use tokio::net::{TcpListener, TcpStream};

use crate::client::Addresses;
use crate::http::h1::ConnHistory;

/// A listening socket in an event loop.
pub enum Listener {
    /// For HTTP clients.
    Http(HttpListener),
    /// For web servers, by its index in the configuration.
    Fastcgi(socket::Listener, usize),
}

/// A listening socket for HTTP clients.
pub struct HttpListener {
    socket: TcpListener,
    /// The address of its connections, if that is always the same.
    local: Option<SocketAddr>,
    /// As [`Addresses::listener`].
    index: usize,
    layers: Layers,
}

/// What each connection of a listening socket begins with, before HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Layers {
    /// A PROXY header.
    pub is_proxied: bool,
    /// Then a handshake.
    pub is_tls: bool,
}

/// An accepted connection of which nothing has been read yet.
pub enum Accepted {
    /// Of an HTTP client.
    Http(TcpStream, ConnHistory),
    /// Of a client whose connection begins with a handshake.
    Tls(TcpStream, Arc<Addresses>),
    /// Of a proxy, which sends a PROXY header first; and whether a handshake follows.
    Proxied(TcpStream, Arc<Addresses>, bool),
    /// Of a web server, and the index of the FastCGI socket in the configuration.
    Fastcgi(Socket, usize),
}

impl Accepted {
    /// The connection of a client; `None` for that of a web server.
    pub fn stream(&self) -> Option<&TcpStream> {
        match self {
            Accepted::Http(stream, _)
            | Accepted::Tls(stream, _)
            | Accepted::Proxied(stream, ..) => Some(stream),
            Accepted::Fastcgi(..) => None,
        }
    }
}

/// A connection on its way from one event loop to another. Neither loop watches its descriptor.
pub enum Handoff {
    /// As [`Accepted::Http`].
    Http(std::net::TcpStream, ConnHistory),
    /// As [`Accepted::Tls`].
    Tls(std::net::TcpStream, Arc<Addresses>),
    /// As [`Accepted::Proxied`].
    Proxied(std::net::TcpStream, Arc<Addresses>, bool),
    /// As [`Accepted::Fastcgi`].
    Fastcgi(Socket, usize),
}

impl Listener {
    /// Adds a listening socket for HTTP clients to this event loop. `index`: as
    /// [`Addresses::listener`].
    ///
    /// # Errors
    /// Fails if the event loop cannot watch the socket.
    pub fn http(
        listener: std::net::TcpListener,
        index: usize,
        layers: Layers,
    ) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        // Its connections inherit this.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
        let local = listener.local_addr().ok().filter(|local| !local.ip().is_unspecified());
        let socket = TcpListener::from_std(listener)?;
        Ok(Listener::Http(HttpListener { socket, local, index, layers }))
    }

    /// Adds a listening socket for web servers to this event loop.
    ///
    /// # Errors
    /// Fails if the event loop cannot watch the socket.
    pub fn fastcgi(socket: OwnedFd, index: usize) -> io::Result<Listener> {
        socket2::SockRef::from(&socket).set_nonblocking(true)?;
        Ok(Listener::Fastcgi(socket::Listener::new(socket)?, index))
    }

    /// Whether it is for HTTP.
    pub fn is_for_clients(&self) -> bool {
        matches!(self, Listener::Http(..))
    }

    /// Takes the socket out of the event loop until `rest` is over, because each new connection
    /// wakes every event loop that watches the socket. If it cannot be watched again (no
    /// descriptors, no memory), it tries again after each `pause`; other event loops accept
    /// meanwhile.
    ///
    /// # Errors
    /// Fails if the socket cannot be taken out of the event loop.
    pub async fn suspended(
        self,
        rest: impl Future<Output = ()>,
        pause: Duration,
    ) -> io::Result<Listener> {
        let Listener::Http(HttpListener { socket, index, layers, .. }) = self else {
            return Ok(self);
        };
        let socket = socket.into_std()?;
        rest.await;
        loop {
            let cloned = socket.try_clone();
            match cloned.and_then(|socket| Listener::http(socket, index, layers)) {
                Ok(listener) => return Ok(listener),
                Err(_) => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Fails as accept(2) does.
    pub async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Listener::Http(HttpListener { socket, local, index, layers }) => {
                let (stream, peer) = socket.accept().await?;
                let local = local.map_or_else(|| stream.local_addr(), Ok)?;
                let addresses = Arc::new(Addresses::new(peer, local, *index));
                if layers.is_proxied {
                    return Ok(Accepted::Proxied(stream, addresses, layers.is_tls));
                }
                Accepted::client(stream, addresses, layers.is_tls)
            }
            Listener::Fastcgi(listener, index) => {
                Accepted::Fastcgi(listener.accept().await?, *index)
            }
        })
    }
}

impl Accepted {
    /// The connection of a client.
    pub fn client(stream: TcpStream, addresses: Arc<Addresses>, is_tls: bool) -> Accepted {
        if is_tls {
            return Accepted::Tls(stream, addresses);
        }
        Accepted::Http(stream, ConnHistory { addresses, requests: 0 })
    }

    /// Takes the connection out of this event loop.
    ///
    /// # Errors
    /// Fails if the connection cannot be taken out of the event loop. The connection is closed
    /// then.
    pub fn detach(self) -> io::Result<Handoff> {
        Ok(match self {
            Accepted::Http(stream, history) => Handoff::Http(stream.into_std()?, history),
            Accepted::Tls(stream, addresses) => Handoff::Tls(stream.into_std()?, addresses),
            Accepted::Proxied(stream, proxy, is_tls) => {
                Handoff::Proxied(stream.into_std()?, proxy, is_tls)
            }
            Accepted::Fastcgi(socket, index) => Handoff::Fastcgi(socket, index),
        })
    }
}

impl Handoff {
    /// Whether it is for HTTP.
    pub fn is_client(&self) -> bool {
        !matches!(self, Handoff::Fastcgi(..))
    }

    /// Adds the connection to this event loop.
    ///
    /// # Errors
    /// Fails if the event loop cannot watch the connection. The connection is closed then.
    pub fn attach(self) -> io::Result<Accepted> {
        Ok(match self {
            Handoff::Http(stream, history) => Accepted::Http(TcpStream::from_std(stream)?, history),
            Handoff::Tls(stream, addresses) => {
                Accepted::Tls(TcpStream::from_std(stream)?, addresses)
            }
            Handoff::Proxied(stream, proxy, is_tls) => {
                Accepted::Proxied(TcpStream::from_std(stream)?, proxy, is_tls)
            }
            Handoff::Fastcgi(socket, index) => Accepted::Fastcgi(socket, index),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn accepted_on(address: &str) {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener =
            Listener::http(listener, 0, Layers { is_proxied: false, is_tls: false }).unwrap();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let Ok(Accepted::Http(stream, history)) = listener.accept().await else {
            panic!("no connection");
        };
        assert_eq!(history.addresses.peer, client.local_addr().unwrap());
        assert_eq!(history.addresses.local, client.peer_addr().unwrap());
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn a_connection_inherits_its_options_and_has_both_addresses() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            accepted_on("127.0.0.1:0").await;
            accepted_on("0.0.0.0:0").await;
        });
    }
}
