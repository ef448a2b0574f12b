//! One connection to a peer, and one exchange after the other over it.
//!
//! Nothing works on a connection in the background: whoever waits for a response drives it meanwhile. So an exchange
//! costs no task, and no message between tasks.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::fault::Fault;
use super::response::{Decoder, Response};
use super::stream::{self, Peer, Stream};
use crate::names::Names;

/// Room for what is read at once: usual responses, and a body of which much is to come. Chosen arbitrarily.
const ROOM: usize = 8 << 10;
const MOST_ROOM: usize = 128 << 10;

/// An open connection.
pub struct Connection {
    stream: Stream,
    /// What has come and was not taken.
    input: Vec<u8>,
    /// Whether another request may follow: the last response is here to its end, with nothing behind it.
    is_clean: bool,
}

impl Connection {
    /// Connects to a peer.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn open(names: &Names, peer: &Peer) -> Result<Connection, Fault> {
        let stream = stream::connect(names, peer).await?;
        Ok(Connection { stream, input: Vec::new(), is_clean: true })
    }

    /// Whether another request may be sent, as far as the exchanges tell.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Whether it can be used: nothing is left over from the last exchange, the peer has not closed it, and has not sent
    /// anything that nobody asked for.
    pub fn is_reusable(&mut self) -> bool {
        let mut byte = [0];
        // Only what is known already counts; nobody is woken.
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        self.is_clean && read.is_pending()
    }

    /// Sends a request, and waits for all of its response.
    ///
    /// # Errors
    /// There is no response, or too much of it.
    pub async fn exchange(&mut self, message: &[u8], mut decoder: Decoder) -> Result<Response, Fault> {
        self.is_clean = false;
        let (mut sent, mut sending) = (0, Poll::Pending);
        poll_fn(|context| {
            if sending.is_pending() {
                sending = self.send(message, &mut sent, context);
            }
            // A peer may answer before it has taken all, and close the connection: its answer counts.
            self.receive(&mut decoder, context)
        })
        .await
        .map_err(|fault| match (fault, &sending) {
            // What came first is the reason.
            (Fault::Unanswered(_), Poll::Ready(Err(error))) => Fault::Unanswered(error.kind().into()),
            (fault, _) => fault,
        })?;
        let all_sent = matches!(sending, Poll::Ready(Ok(())));
        self.is_clean = all_sent && decoder.keeps() && self.input.is_empty();
        if self.input.capacity() > ROOM {
            self.input = Vec::new();
        }
        Ok(decoder.finish())
    }

    fn send(&mut self, message: &[u8], sent: &mut usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while *sent < message.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &message[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *sent += count,
            }
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn receive(&mut self, decoder: &mut Decoder, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while !decoder.is_done() {
            let expected = usize::try_from(decoder.expected()).unwrap_or(MOST_ROOM);
            self.input.reserve(expected.clamp(ROOM, MOST_ROOM));
            match ready!(pin!(self.stream.read_buf(&mut self.input)).poll(context)) {
                Ok(0) if decoder.has_begun() => decoder.close()?,
                Ok(0) => return Poll::Ready(Err(Fault::Unanswered(io::ErrorKind::UnexpectedEof.into()))),
                Ok(_) => {
                    let count = decoder.take(&self.input)?;
                    self.input.drain(..count);
                }
                Err(error) if decoder.has_begun() => {
                    return Poll::Ready(Err(Fault::Broken(error.to_string())));
                }
                Err(error) => return Poll::Ready(Err(Fault::Unanswered(error))),
            }
        }
        Poll::Ready(Ok(()))
    }
}
