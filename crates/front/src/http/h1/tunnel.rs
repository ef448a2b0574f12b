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
use tokio::io::ReadBuf;

use super::io::{H1Io, with_scratch};
use super::state::ConnState;
use crate::client::Client;
use crate::client::activity::{DRAIN_IDLE, Waiting};
use crate::context::Context;
use crate::websocket::frames::{Frames, going_away_to_application, going_away_to_client};

/// Parts of the time in which clients are told, one for each of so many groups of them.
const MOMENTS: u64 = 64;

/// Both directions of one tunnel.
struct Relay<'a> {
    context: &'a Context,
    state: &'a ConnState,
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
pub async fn relay(context: &Arc<Context>, io: &mut H1Io, state: &Arc<ConnState>, tunnel: Tunnel) {
    state.activity.set(Waiting::Tunnel, tokamak_cost::coarse());
    let _open = Open::new(context);
    let (up, down) = Default::default();
    let mut relay = Relay { context, state, tunnel, up, down, told: None };
    poll_fn(|cx| relay.poll(io, cx)).await;
    drop(relay);
    // What the application said last must not be lost by a reset.
    io.part().await;
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

impl Relay<'_> {
    /// Ready when one of both has ended the connection, or the server goes away.
    fn poll(&mut self, io: &mut H1Io, cx: &mut task::Context<'_>) -> Poll<()> {
        // The timeouts wake it in a server that drains.
        self.state.activity.listen(cx.waker());
        let is_over = self.poll_up(io, cx).is_ready() | self.poll_down(cx).is_ready();
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
    fn poll_up(&mut self, io: &mut H1Io, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.up.held.is_empty() {
                let count = ready!(self.tunnel.poll_write(cx, &self.up.held))?;
                self.up.held.advance(count);
            }
            if let Poll::Ready(Err(error)) = self.tunnel.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            let is_end = ready!(with_scratch(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                ready!(io.poll_read_raw(cx, &mut buffer))?;
                let bytes = buffer.filled();
                // What a client says after the farewell is for nobody.
                if self.told.is_some() {
                    return Poll::Ready(Ok(bytes.is_empty()));
                }
                self.up.frames.pass(bytes);
                let taken = match self.tunnel.poll_write(cx, bytes) {
                    Poll::Ready(taken) => taken?,
                    Poll::Pending => 0,
                };
                self.up.held = Bytes::copy_from_slice(&bytes[taken..]);
                Poll::Ready(Ok::<_, io::Error>(bytes.is_empty()))
            }))?;
            if is_end {
                return Poll::Ready(Ok(()));
            }
            self.state.activity.set(Waiting::Tunnel, tokamak_cost::coarse());
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
            self.state.activity.set(Waiting::Tunnel, tokamak_cost::coarse());
        }
    }

    /// Sends what is held to the client.
    fn poll_send(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let write = &self.state.write;
        while !self.down.held.is_empty() {
            match write.try_write(&self.down.held) {
                Ok(count) => self.down.held.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(write.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        write.poll_flush(cx)
    }

    /// Whether it is time to say that the server goes away.
    fn is_to_tell(&self) -> bool {
        let began = self.context.draining.load(Ordering::Relaxed);
        if began == 0 || self.told.is_some() {
            return false;
        }
        let half = self.context.config.timeouts.drain.as_nanos() as u64 / 2;
        let moment = u64::from(self.state.addresses().peer.port()) % MOMENTS;
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
