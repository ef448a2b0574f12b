//! A WebSocket between a client and an application: what one says is passed on to the other, no
//! faster than that one takes it.
//!
//! A server that drains tells both that it goes away, as the protocol has words for it (close code
//! 1001), so that clients come back to its successor. It tells them one after the other, in the
//! first half of the time that it has: all at once they would all come back at once.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{self, Poll, ready};

use bytes::{Buf, Bytes};
use tokamak_upstream::remote::Tunnel;

use crate::client::activity::DRAIN_IDLE;
use crate::context::Context;
use crate::websocket::frames::{Frames, going_away_to_application, going_away_to_client};

/// Parts of the time in which clients are told, one for each of so many groups of them.
const MOMENTS: u64 = 64;

/// The client of a tunnel, over any protocol.
pub trait TunnelClient {
    /// Gives the next bytes that the client says to `take`; none at their end.
    ///
    /// # Errors
    /// Fails if the client has gone, or as `take` does.
    fn poll_read<R>(
        &mut self,
        cx: &mut task::Context<'_>,
        take: impl FnOnce(&mut task::Context<'_>, &[u8]) -> io::Result<R>,
    ) -> Poll<io::Result<R>>;

    /// Sends all that is held.
    ///
    /// # Errors
    /// Fails if the client has gone.
    fn poll_send(&mut self, held: &mut Bytes, cx: &mut task::Context<'_>) -> Poll<io::Result<()>>;

    /// Something has passed: the time that it may be silent begins anew.
    fn used(&mut self);

    /// Has the task woken when the server drains, and now and then while it does. Ready if nothing
    /// has passed for too long.
    fn poll_silence(&mut self, cx: &mut task::Context<'_>) -> Poll<()>;

    /// The client's port, by which farewells are spread.
    fn port(&self) -> u16;
}

/// Both directions of one tunnel.
struct Relay<'a, C> {
    context: &'a Context,
    client: C,
    tunnel: Tunnel,
    /// To the application.
    up: Direction,
    /// To the client.
    down: Direction,
    /// When they were told that the server goes away.
    told: Option<u64>,
}

#[derive(Default)]
struct Direction {
    /// Read, and not taken by the other end yet.
    held: Bytes,
    frames: Frames,
}

/// Passes everything on until one of both ends the connection.
pub async fn relay(context: &Arc<Context>, mut client: impl TunnelClient, tunnel: Tunnel) {
    client.used();
    let _open = Open::new(context);
    let (up, down) = Default::default();
    let mut relay = Relay { context, client, tunnel, up, down, told: None };
    poll_fn(|cx| relay.poll(cx)).await;
}

/// Counts a tunnel as open as long as it lives: the timeouts may end its task at any moment.
struct Open<'a>(&'a Context);

impl Open<'_> {
    fn new(context: &Context) -> Open<'_> {
        context.counters.iter().for_each(|counters| counters.websockets.opened.add(1));
        Open(context)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters.iter().for_each(|counters| counters.websockets.closed.add(1));
    }
}

impl<C: TunnelClient> Relay<'_, C> {
    /// Ready when one of both has ended the connection, or the server goes away.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let is_silent = self.client.poll_silence(cx).is_ready();
        let is_over = is_silent | self.poll_up(cx).is_ready() | self.poll_down(cx).is_ready();
        if is_over {
            return Poll::Ready(());
        }
        if self.is_to_tell() && self.down.frames.is_between() {
            self.tell(cx);
        }
        let since = |told| tokamak_cost::now().saturating_sub(told);
        match self.told {
            Some(told) if since(told) > DRAIN_IDLE.as_nanos() as u64 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Passes on what the client says. An error or the end ends the tunnel.
    fn poll_up(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let Relay { client, tunnel, up, told, .. } = self;
        loop {
            while !up.held.is_empty() {
                let count = ready!(tunnel.poll_write(cx, &up.held))?;
                up.held.advance(count);
            }
            if let Poll::Ready(Err(error)) = tunnel.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            let is_end = ready!(client.poll_read(cx, |cx, bytes| {
                // What a client says after the farewell is for nobody.
                if told.is_some() {
                    return Ok(bytes.is_empty());
                }
                up.frames.pass(bytes);
                let taken = match tunnel.poll_write(cx, bytes) {
                    Poll::Ready(taken) => taken?,
                    Poll::Pending => 0,
                };
                up.held = Bytes::copy_from_slice(&bytes[taken..]);
                Ok(bytes.is_empty())
            }))?;
            if is_end {
                return Poll::Ready(Ok(()));
            }
            client.used();
        }
    }

    /// Passes on what the application says. An error or the end ends the tunnel.
    fn poll_down(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(cx))?;
            if self.told.is_some() {
                return Poll::Pending;
            }
            let mut bytes = ready!(self.tunnel.poll_read(cx))?;
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if self.is_to_tell() && !self.down.frames.is_between() {
                // The farewell follows the frame that has begun.
                bytes.truncate(self.down.frames.pass_frame(&bytes));
                self.down.held = bytes;
                if self.down.frames.is_between() {
                    self.tell(cx);
                }
            } else {
                self.down.frames.pass(&bytes);
                self.down.held = bytes;
            }
            self.client.used();
        }
    }

    /// Sends what is held to the client.
    fn poll_send(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.client.poll_send(&mut self.down.held, cx)
    }

    /// Whether it is time to say that the server goes away.
    fn is_to_tell(&self) -> bool {
        let began = self.context.draining.load(Ordering::Relaxed);
        if began == 0 || self.told.is_some() {
            return false;
        }
        let half = self.context.config.timeouts.drain.as_nanos() as u64 / 2;
        let moment = u64::from(self.client.port()) % MOMENTS;
        tokamak_cost::now() > began + half / MOMENTS * moment
    }

    /// Says so, between two frames of the application; the client has a moment to answer then.
    fn tell(&mut self, cx: &mut task::Context<'_>) {
        self.told = Some(tokamak_cost::now());
        let farewell = going_away_to_client();
        self.down.held = [&self.down.held[..], &farewell].concat().into();
        if self.up.frames.is_between() {
            let farewell = going_away_to_application();
            let held = [&self.up.held[..], &farewell].concat();
            // What it does not take at once is lost: it learns of the end by that of the
            // connection.
            let _ = self.tunnel.poll_write(cx, &held).is_ready();
            let _ = self.tunnel.poll_flush(cx).is_ready();
        }
        self.up.held = Bytes::new();
        // The timeouts wake this again, and an error is found then.
        let _ = self.poll_send(cx).is_ready();
    }
}
