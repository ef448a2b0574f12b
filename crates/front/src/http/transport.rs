//! The bytes of a connection on their way: TCP as it is, or TLS over it. Plain connections keep the
//! halves of their socket, so that TLS costs them nothing.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::rustls::ServerConnection;
use tokio_rustls::server::TlsStream;

/// What a client sends.
pub enum ReadHalf {
    /// Plain.
    Tcp(OwnedReadHalf),
    /// Inside of TLS.
    Tls(Arc<TlsIo>),
}

/// What a client gets. It is used through a shared reference: an interim response is sent while a
/// request is being served.
pub enum WriteHalf {
    /// Plain.
    Tcp(OwnedWriteHalf),
    /// Inside of TLS.
    Tls(Arc<TlsIo>),
}

/// The halves of a plain connection.
pub fn plain(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
}

/// The halves of a connection with TLS whose handshake is over.
/// No record has more than `fragment` bytes, if there is such a bound.
pub fn secured(stream: TlsStream<TcpStream>, fragment: Option<usize>) -> (ReadHalf, WriteHalf) {
    let (tcp, session) = stream.into_inner();
    let io = Arc::new(TlsIo(Mutex::new(Inner { tcp, session, fragment, moved: 0 })));
    (ReadHalf::Tls(io.clone()), WriteHalf::Tls(io))
}

impl ReadHalf {
    /// Reads what has come. No bytes: the client sends no more.
    #[inline]
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            ReadHalf::Tcp(read) => Pin::new(read).poll_read(cx, buffer),
            ReadHalf::Tls(io) => io.lock().poll_read(cx, buffer),
        }
    }

    /// Ready when bytes have come, or the client has gone.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ReadHalf::Tcp(read) => read.as_ref().poll_read_ready(cx),
            ReadHalf::Tls(io) => io.lock().tcp.poll_read_ready(cx),
        }
    }

    /// The socket of a plain connection, whose other half this is.
    pub fn reunite(self, write: WriteHalf) -> Option<TcpStream> {
        match (self, write) {
            (ReadHalf::Tcp(read), WriteHalf::Tcp(write)) => read.reunite(write).ok(),
            _ => None,
        }
    }
}

impl WriteHalf {
    /// Writes as much as there is room for, or fails with `WouldBlock`.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(write) => write.try_write(bytes),
            WriteHalf::Tls(io) => {
                let inner = &mut *io.lock();
                if inner.fragment.is_some() {
                    return inner.try_write_vectored(&[IoSlice::new(bytes)]);
                }
                inner.try_write(|session| session.writer().write(bytes))
            }
        }
    }

    /// Writes pieces as [`WriteHalf::try_write`] does.
    #[inline]
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(write) => write.try_write_vectored(pieces),
            WriteHalf::Tls(io) => io.lock().try_write_vectored(pieces),
        }
    }

    /// Ready if there may be room to write.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tcp(write) => write.as_ref().poll_write_ready(cx),
            WriteHalf::Tls(io) => {
                let inner = &mut *io.lock();
                // What TLS has not sent yet takes the room that the next bytes need.
                ready!(inner.poll_send(cx))?;
                inner.tcp.poll_write_ready(cx)
            }
        }
    }

    /// Whether bytes that were written wait in this process for room in the kernel.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            WriteHalf::Tcp(_) => false,
            WriteHalf::Tls(io) => io.lock().session.wants_write(),
        }
    }

    /// Bytes that waited in this process and that the kernel has taken since this was last asked.
    pub fn take_moved(&self) -> u64 {
        match self {
            WriteHalf::Tcp(_) => 0,
            WriteHalf::Tls(io) => std::mem::take(&mut io.lock().moved),
        }
    }

    /// Sends what waits in this process.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tcp(_) => Poll::Ready(Ok(())),
            WriteHalf::Tls(io) => io.lock().poll_send(cx),
        }
    }

    /// Says that no more bytes come, as far as the protocol has words for it: TLS does, so that the
    /// client can tell a whole response from one that somebody has cut.
    pub fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            WriteHalf::Tcp(_) => Poll::Ready(Ok(())),
            WriteHalf::Tls(io) => {
                let inner = &mut *io.lock();
                // A second time does nothing.
                inner.session.send_close_notify();
                inner.poll_send(cx)
            }
        }
    }

    /// As [`WriteHalf::poll_end`], for a connection that is closed at once: what the kernel has no
    /// room for is lost.
    pub fn end_now(&self) {
        if let WriteHalf::Tls(io) = self {
            let inner = &mut *io.lock();
            inner.session.send_close_notify();
            let _ = inner.send();
        }
    }

    /// Shuts down the socket.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            WriteHalf::Tcp(write) => SockRef::from(write.as_ref()).shutdown(how),
            WriteHalf::Tls(io) => SockRef::from(&io.lock().tcp).shutdown(how),
        }
    }

    /// Ready if the client has gone. It cannot tell as long as there are unread bytes of a next
    /// request.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            WriteHalf::Tcp(write) => {
                let mut byte = [0];
                match write.as_ref().poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
                    Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
                    Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
                }
            }
            WriteHalf::Tls(io) => io.lock().poll_gone(cx),
        }
    }

    /// Sends the last bytes of a connection, and says that they are the last ones.
    pub async fn send_last(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            poll_fn(|cx| self.poll_write_ready(cx)).await?;
            match self.try_write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        poll_fn(|cx| self.poll_end(cx)).await?;
        // Closing with unread bytes would reset the connection and take the page with it.
        self.shutdown(Shutdown::Write)
    }
}

/// A connection with TLS. Its task alone uses it, so the lock is always free.
pub struct TlsIo(Mutex<Inner>);

struct Inner {
    tcp: TcpStream,
    session: ServerConnection,
    /// The most bytes of a record, if the client has little room. The messages of the handshake
    /// keep their size, because Mbed TLS 2.28.3 asks for short fragments too, and cannot read
    /// a certificate in pieces.
    fragment: Option<usize>,
    /// Bytes that the kernel has taken since this was last asked.
    moved: u64,
}

/// The socket as the TLS library reads it; the task is woken when more has come.
struct Socket<'a, 'b>(&'a mut TcpStream, &'a mut Context<'b>);

impl Read for Socket<'_, '_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(room);
        match Pin::new(&mut *self.0).poll_read(self.1, &mut buffer) {
            Poll::Ready(result) => result.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// The socket as the TLS library writes to it.
struct Sink<'a>(&'a TcpStream);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsIo {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // If a panic has poisoned the lock, it has been reported, and the connection ends.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.session.reader().read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // The client has closed the connection without saying so. HTTP knows by itself
                // whether a request is whole.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(e) => return Poll::Ready(Err(e)),
            }
            ready!(self.poll_receive(cx))?;
        }
    }

    /// Takes records from the socket. Returns how many bytes; none: no more come.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = match self.session.read_tls(&mut Socket(&mut self.tcp, cx)) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(e) => return Poll::Ready(Err(e)),
        };
        if let Err(error) = self.session.process_new_packets() {
            // The alert that says what is wrong.
            let _ = self.send();
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Without unread bytes of a next request, all that comes is about the connection itself.
        while self.session.wants_read() {
            match self.poll_receive(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
            }
        }
        match self.session.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() > 0 => Poll::Pending,
            // The client has closed the connection, or says that it sends no more.
            _ => Poll::Ready(()),
        }
    }

    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(fragment) = self.fragment else {
            return self.try_write(|session| session.writer().write_vectored(pieces));
        };
        let mut taken = 0;
        // What is written at once becomes one record.
        for part in pieces.iter().flat_map(|piece| piece.chunks(fragment)) {
            match self.try_write(|session| session.writer().write(part)) {
                Ok(count) if count == part.len() => taken += count,
                Ok(count) => return Ok(taken + count),
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn try_write(
        &mut self,
        write: impl FnOnce(&mut ServerConnection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // What waits goes first; as long as the kernel has no room, it would only become more.
        self.send()?;
        let count = write(&mut self.session)?;
        match self.send() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(count),
            sent => sent.map(|()| count),
        }
    }

    /// Sends all records, or fails with `WouldBlock`.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.moved += self.session.write_tls(&mut Sink(&self.tcp))? as u64;
        }
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.send() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(cx))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }
}
