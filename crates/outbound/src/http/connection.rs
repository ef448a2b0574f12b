//! One connection to a peer, and one exchange after the other over it.
//!
//! Nothing works on a connection in the background: whoever waits for a response drives it meanwhile. So an exchange
//! costs no task, and no message between tasks.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::Response;
use super::fault::Fault;
use super::stream::{self, Peer, Stream};
use crate::names::Names;

/// Bytes that a response's head may have. Chosen arbitrarily.
const LARGEST_HEAD: usize = 128 << 10;

/// An open connection.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    wire: Wire,
}

/// What has to be polled for anything to happen.
struct Wire {
    connection: http1::Connection<TokioIo<Stream>, Full<Bytes>>,
    has_ended: bool,
}

impl Connection {
    /// Connects to a peer.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn open(names: &Names, peer: &Peer) -> Result<Box<Connection>, Fault> {
        let stream = TokioIo::new(stream::connect(names, peer).await?);
        let mut builder = http1::Builder::new();
        // Most requests are a head and nothing else: in one piece they cost the kernel less than as a list.
        let made = builder.max_buf_size(LARGEST_HEAD).writev(false).handshake(stream).await;
        let (sender, connection) = made.map_err(Fault::Broken)?;
        // It is handed around, and large.
        Ok(Box::new(Connection { sender, wire: Wire { connection, has_ended: false } }))
    }

    /// Whether it can be used: the peer has not closed it, and nothing is left over from the last exchange.
    pub fn is_reusable(&mut self) -> bool {
        // Only what is known already counts; nobody is woken.
        self.wire.advance(&mut Context::from_waker(Waker::noop()));
        !self.wire.has_ended && self.sender.is_ready()
    }

    /// Sends a request, and waits for all of its response.
    ///
    /// # Errors
    /// There is no response, or too much of it.
    pub async fn exchange(
        &mut self,
        message: http::Request<Full<Bytes>>,
        most: usize,
    ) -> Result<Response, Fault> {
        let answer = self.sender.send_request(message);
        let (head, body) = self.wire.drive(answer).await.map_err(Fault::Unanswered)?.into_parts();
        let body = self.gather(body, most).await?;
        Ok(Response { status: head.status.as_u16(), fields: head.headers, body })
    }

    async fn gather(&mut self, mut body: Incoming, most: usize) -> Result<Vec<u8>, Fault> {
        let expected = body.size_hint().exact().unwrap_or_default();
        if expected > most as u64 {
            return Err(Fault::Large(most));
        }
        let mut bytes = Vec::with_capacity(expected as usize);
        while let Some(frame) = self.wire.drive(body.frame()).await {
            // Trailers say nothing to us.
            if let Ok(data) = frame.map_err(Fault::Broken)?.into_data() {
                if bytes.len() + data.len() > most {
                    return Err(Fault::Large(most));
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes)
    }
}

impl Wire {
    /// Waits for what the connection brings.
    async fn drive<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(value);
            }
            self.advance(context);
            // If the connection has ended, this says how.
            future.as_mut().poll(context)
        })
        .await
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        if !self.has_ended {
            self.has_ended = Pin::new(&mut self.connection).poll(context).is_ready();
        }
    }
}
