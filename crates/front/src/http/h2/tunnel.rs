//! The client of a WebSocket over HTTP/2 (RFC 8441): a stream of its connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, SEC_WEBSOCKET_ACCEPT};
use http::{Response, StatusCode};
use http_body::Body;
use tokamak_upstream::remote::Tunnel;
use tokio::time::{Instant, Sleep, sleep};

use super::body::StreamBody;
use super::scheduler::SEND_BUFFER;
use super::stream::Stream;
use crate::client::Client;
use crate::context::Context;
use crate::http::multiplex::complete;
use crate::http::tunnel::{TunnelClient, relay};
use crate::response::Reply;

/// While the server drains, the task looks this often whether it is its turn to say so.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The client's side of a tunnel.
struct H2Client {
    context: Arc<Context>,
    stream: Arc<Stream>,
    body: StreamBody,
    last_use: Instant,
    wake: Pin<Box<Sleep>>,
    is_draining: bool,
}

/// Accepts the WebSocket, and passes everything on until one of both ends it.
pub async fn serve(
    context: Arc<Context>,
    stream: Arc<Stream>,
    body: StreamBody,
    response: Response<Reply>,
    tunnel: Tunnel,
) {
    let _held = stream.hold();
    let (mut head, reply, _) = complete(response, false);
    // The request is over for logs and limits, as over HTTP/1.1.
    drop(reply);
    *head.status_mut() = StatusCode::OK;
    let of_body = [http::header::CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT];
    of_body.into_iter().for_each(|name: HeaderName| drop(head.headers_mut().remove(name)));
    if !stream.respond(&head, false) {
        return;
    }
    let wake = Box::pin(sleep(context.config.timeouts.tunnel));
    let last_use = Instant::now();
    let client = H2Client {
        context: context.clone(),
        stream: stream.clone(),
        body,
        last_use,
        wake,
        is_draining: false,
    };
    relay(&context, client, tunnel).await;
    stream.send(Bytes::new(), true);
    stream.leave();
}

impl TunnelClient for H2Client {
    fn poll_read<R>(
        &mut self,
        cx: &mut task::Context<'_>,
        take: impl FnOnce(&mut task::Context<'_>, &[u8]) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            let bytes = match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                // Trailers say nothing here.
                Some(Ok(Err(_))) => continue,
                Some(Ok(Ok(bytes))) => bytes,
                Some(Err(_)) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                None => Bytes::new(),
            };
            return Poll::Ready(take(cx, &bytes));
        }
    }

    fn poll_send(&mut self, held: &mut Bytes, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let gone = || io::Error::from(io::ErrorKind::ConnectionReset);
        while !held.is_empty() {
            ready!(self.stream.poll_turn(cx));
            let wanted = held.len().min(SEND_BUFFER);
            let capacity = ready!(self.stream.poll_capacity(wanted, cx)).ok_or_else(gone)?;
            let part = held.split_to(capacity.min(held.len()));
            if !self.stream.send(part, false) {
                return Poll::Ready(Err(gone()));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn used(&mut self) {
        self.last_use = Instant::now();
    }

    fn poll_silence(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        // That wakes it, too, when the client is told that its connection ends.
        if self.stream.poll_gone(cx).is_ready() {
            return Poll::Ready(());
        }
        let patience = self.context.config.timeouts.tunnel;
        if self.context.is_draining() && !std::mem::replace(&mut self.is_draining, true) {
            self.wake.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
        while self.wake.as_mut().poll(cx).is_ready() {
            let silent_until = self.last_use + patience;
            if Instant::now() >= silent_until {
                return Poll::Ready(());
            }
            let next = if self.is_draining { Instant::now() + LOOK_EVERY } else { silent_until };
            self.wake.as_mut().reset(next.min(silent_until));
        }
        Poll::Pending
    }

    fn port(&self) -> u16 {
        self.stream.addresses().peer.port()
    }
}
