//! The client of a WebSocket over HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::task::{self, Poll, ready};

use bytes::{Buf, Bytes};
use tokamak_upstream::remote::Tunnel;
use tokio::io::ReadBuf;

use super::io::{H1Io, with_scratch};
use super::state::ConnState;
use crate::client::Client;
use crate::client::activity::Waiting;
use crate::context::Context;
use crate::http::tunnel::{TunnelClient, relay};

struct H1Client<'a> {
    io: &'a mut H1Io,
    state: &'a ConnState,
}

/// Passes everything on until one of both ends the connection.
pub async fn serve(context: &Arc<Context>, io: &mut H1Io, state: &Arc<ConnState>, tunnel: Tunnel) {
    relay(context, H1Client { io, state }, tunnel).await;
    // What the application said last must not be lost by a reset.
    io.part().await;
}

impl TunnelClient for H1Client<'_> {
    fn poll_read<R>(
        &mut self,
        cx: &mut task::Context<'_>,
        take: impl FnOnce(&mut task::Context<'_>, &[u8]) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(self.io.poll_read_raw(cx, &mut buffer))?;
            Poll::Ready(take(cx, buffer.filled()))
        })
    }

    fn poll_send(&mut self, held: &mut Bytes, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let write = &self.state.write;
        while !held.is_empty() {
            match write.try_write(held) {
                Ok(count) => held.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(write.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        write.poll_flush(cx)
    }

    fn used(&mut self) {
        self.state.activity.set(Waiting::Tunnel, tokamak_cost::coarse());
    }

    /// The timeouts of the connection end it, and wake it in a server that drains.
    fn poll_silence(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.state.activity.listen(cx.waker());
        Poll::Pending
    }

    fn port(&self) -> u16 {
        self.state.addresses().peer.port()
    }
}
