//! One connection to a peer, and one exchange after the other over it.
//!
//! No task works on a connection in the background: the future of a response drives it
//! meanwhile. So an exchange costs no task, and no message between tasks.

use std::future::Future;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::error::HttpError;
use super::response::{Decoder, Response};
use super::stream::{Peer, Stream};
use crate::deadline::Deadline;

/// Room for what is read at once: for a usual response, and for a body of which much is still to
/// come. With a tenth, each response takes several system calls; ten times more would be memory
/// that each waiting call holds.
const ROOM: usize = 8 << 10;
const MOST_ROOM: usize = 128 << 10;

/// An open connection.
pub struct Connection {
    peer: Arc<Peer>,
    stream: Stream,
    /// What has come and was not taken.
    input: Vec<u8>,
    /// Whether another request may follow: the last response is here to its end, with nothing
    /// behind it.
    is_clean: bool,
    /// When the present exchange has taken too long.
    pub deadline: Deadline,
}

/// A request and its response over a connection.
pub struct RoundTrip {
    sent: usize,
    sending: Poll<io::Result<()>>,
    decoder: Decoder,
}

impl Connection {
    /// A connection over which nothing was sent.
    pub fn new(peer: Arc<Peer>, stream: Stream, deadline: Deadline) -> Connection {
        Connection { peer, stream, input: Vec::new(), is_clean: true, deadline }
    }

    /// Whom it leads to.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Whether another request may be sent after the exchanges so far.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Whether it can be used: nothing is left over from the last exchange, the peer has not closed
    /// it, and has not sent anything unasked.
    pub fn is_reusable(&mut self) -> bool {
        let mut byte = [0];
        // Only what is known already counts; no task is woken.
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        self.is_clean && read.is_pending()
    }

    /// Sends the rest of a message.
    fn send(
        &mut self,
        message: &[u8],
        sent: &mut usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while *sent < message.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &message[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *sent += count,
            }
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn receive(
        &mut self,
        decoder: &mut Decoder,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HttpError>> {
        while !decoder.is_done() {
            let expected = usize::try_from(decoder.expected()).unwrap_or(MOST_ROOM);
            self.input.reserve(expected.clamp(ROOM, MOST_ROOM));
            match ready!(pin!(self.stream.read_buf(&mut self.input)).poll(context)) {
                Ok(0) if decoder.has_begun() => decoder.close()?,
                Ok(0) => {
                    return Poll::Ready(Err(HttpError::Unanswered(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(_) => {
                    let count = decoder.take(&self.input)?;
                    self.input.drain(..count);
                }
                Err(error) if decoder.has_begun() => {
                    return Poll::Ready(Err(HttpError::Broken(error.to_string())));
                }
                Err(error) => return Poll::Ready(Err(HttpError::Unanswered(error))),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl RoundTrip {
    /// A round trip that has yet to begin, with what takes its response.
    pub fn new(decoder: Decoder) -> RoundTrip {
        RoundTrip { sent: 0, sending: Poll::Pending, decoder }
    }

    /// Goes on with sending `message`, and with waiting for all of the response.
    ///
    /// # Errors
    /// Fails if there is no response, or it is too long.
    pub fn poll(
        &mut self,
        connection: &mut Connection,
        message: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<Result<Response, HttpError>> {
        connection.is_clean = false;
        if self.sending.is_pending() {
            self.sending = connection.send(message, &mut self.sent, context);
        }
        // A peer may answer before it has taken all, and close the connection: its answer counts.
        match (ready!(connection.receive(&mut self.decoder, context)), &self.sending) {
            // What came first is the reason.
            (Err(HttpError::Unanswered(_)), Poll::Ready(Err(error))) => {
                return Poll::Ready(Err(HttpError::Unanswered(error.kind().into())));
            }
            (received, _) => received?,
        }
        let all_sent = matches!(self.sending, Poll::Ready(Ok(())));
        connection.is_clean = all_sent && self.decoder.keeps() && connection.input.is_empty();
        if connection.input.capacity() > ROOM {
            connection.input = Vec::new();
        }
        Poll::Ready(Ok(mem::take(&mut self.decoder.response)))
    }
}
