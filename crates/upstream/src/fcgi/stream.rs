//! Sockets of either family, as the exchange needs them.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};

/// Where an application listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`; a name is resolved at each connect.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($stream:expr, $socket:ident => $do:expr) => {
        match $stream {
            Stream::Tcp($socket) => $do,
            Stream::Unix($socket) => $do,
        }
    };
}

impl Stream {
    pub async fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
        Ok(match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Endpoint::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
        })
    }

    /// The same socket, in the event loop of the caller.
    pub fn adopt(self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Stream::Unix(stream) => Stream::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    /// Whether it is open and nothing has come on it, as far as the event loop knows: no system call unless it does.
    pub fn is_quiet(&self) -> bool {
        let read = either!(self, socket => socket.try_read(&mut [0]));
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The same, as far as the kernel knows.
    pub fn is_quiet_now(&self) -> bool {
        let peeked = either!(self, socket => SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]));
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Through the event loop's own reading, which takes a read that did not fill the buffer for the last one: so the next one
    /// waits at once, and does not ask the kernel for what cannot be there.
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        either!(self, socket => pin!(socket.read_buf(buffer)).poll(context))
    }

    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match either!(self, socket => socket.try_write(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            std::task::ready!(either!(self, socket => socket.poll_write_ready(context)))?;
        }
    }
}
