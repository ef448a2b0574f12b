//! One request on a connection of its own: written and answered at the same time, because an
//! application may answer before it has read all of the body, and must not have to wait then.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::decoder::Decoder;
use super::error::UpstreamError;
use super::event::Event;
use super::pool::{Lease, Starving};
use super::request::{Call, Protocol, Written};
use super::settings::Bounds;
use super::tunnel::Tunnel;

/// A request on a new connection that is not answered for so long may be waiting for a process that
/// waits for us. Most applications answer sooner: with a tenth of it, kept connections would be
/// closed for every slow page. Ten times more is what a visitor would wait for nothing.
const STARVING: Duration = Duration::from_millis(100);

/// A request that is being answered. Dropping it closes the connection, which tells the application
/// to stop.
#[derive(Debug)]
pub struct ExclusiveStream {
    /// Given up with the end.
    lease: Option<Lease>,
    call: Arc<Call>,
    bounds: Bounds,
    written: Written,
    all_written: bool,
    /// The application has all that the client has sent so far; the time is the client's.
    awaits_client: bool,
    /// The application takes no more; it may still have something to say.
    deaf: bool,
    decoder: Decoder,
    /// Read and not understood yet.
    input: Bytes,
    answered: bool,
    /// When something was last written or read.
    moved: Instant,
    /// On a new connection, until the application answers.
    patience: Option<Instant>,
    starving: Option<Starving>,
}

impl ExclusiveStream {
    pub(super) fn new(lease: Lease, call: Arc<Call>, bounds: Bounds) -> ExclusiveStream {
        let moved = Instant::now();
        // Servers of HTTP close what they keep when they need the process.
        let may_starve = call.protocol == Protocol::FastCgi && !lease.is_reused();
        ExclusiveStream {
            patience: may_starve.then_some(moved + STARVING),
            lease: Some(lease),
            decoder: Decoder::new(&call),
            call,
            bounds,
            written: Written::default(),
            all_written: false,
            awaits_client: false,
            deaf: false,
            input: Bytes::new(),
            answered: false,
            moved,
            starving: None,
        }
    }

    /// The connection, for which the application has changed the protocol.
    pub fn into_tunnel(self) -> Option<Tunnel> {
        Some(Tunnel::new(self.lease?, self.input))
    }

    /// While the client still sends the body: how long the application may be kept waiting for room
    /// for its response. The client takes none of that before its body has been sent.
    pub fn patience(&self) -> Option<Duration> {
        let is_sending = self.call.is_live() && !self.all_written && !self.deaf;
        is_sending.then_some(self.bounds.read_timeout)
    }

    /// Whether any of the request may have reached the application.
    pub fn has_written(&self) -> bool {
        self.written.has_begun()
    }

    /// The next thing that the application says; nothing follows a fault.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, UpstreamError>> {
        loop {
            if let Some(event) = self.understand()? {
                return Poll::Ready(Ok(event));
            }
            if self.lease.is_none() {
                return Poll::Ready(Ok(Event::End(Vec::new())));
            }
            self.poll_send(context)?;
            match self.poll_receive(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => return self.poll_time(context).map(Err),
            }
        }
    }

    /// Reads the next thing off the input.
    fn understand(&mut self) -> Result<Option<Event>, UpstreamError> {
        let event = self.decoder.next(&mut self.input)?;
        if matches!(event, Some(Event::End(_))) {
            self.end();
        }
        Ok(event)
    }

    /// Gives the connection up, to be used again if it is as good as new.
    fn end(&mut self) {
        let is_clean =
            self.all_written && !self.deaf && self.input.is_empty() && self.decoder.keeps();
        if let Some(lease) = self.lease.take().filter(|_| is_clean) {
            lease.keep();
        }
        self.starving = None;
        self.input = Bytes::new();
    }

    /// Writes as much as the application takes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), UpstreamError> {
        let Some(lease) = &mut self.lease else { return Ok(()) };
        while !self.all_written && !self.deaf {
            let rest = self.call.rest(&mut self.written).map_err(|_| UpstreamError::Spool)?;
            if rest.is_empty() {
                let more = self.call.poll_live(&mut self.written, context);
                self.awaits_client = more.is_pending();
                match more {
                    Poll::Ready(Ok(true)) => {
                        self.moved = Instant::now();
                        continue;
                    }
                    Poll::Ready(Ok(false)) | Poll::Pending => {}
                    Poll::Ready(Err(fault)) => return Err(fault),
                }
                match lease.connection().stream.poll_flush(context) {
                    Poll::Ready(Ok(())) => self.all_written = more.is_ready(),
                    Poll::Ready(Err(_)) => self.deaf = true,
                    Poll::Pending => {}
                }
                break;
            }
            match lease.connection().stream.poll_write(context, rest) {
                Poll::Ready(Ok(n)) => {
                    self.written.advance(&self.call, n);
                    self.moved = Instant::now();
                }
                // Perhaps it has answered without listening to the end; reading will tell.
                Poll::Ready(Err(_)) => self.deaf = true,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        let Some(lease) = &mut self.lease else { return Poll::Pending };
        // Most responses come whole at once.
        match std::task::ready!(lease.connection().stream.poll_read(context, !self.answered)) {
            Ok(bytes) if !bytes.is_empty() => {
                self.input = joined(std::mem::take(&mut self.input), bytes);
                self.answered = true;
                self.patience = None;
                self.starving = None;
                self.moved = Instant::now();
                Poll::Ready(Ok(()))
            }
            Ok(_) if self.decoder.close() => Poll::Ready(Ok(())),
            Ok(_) | Err(_) => {
                if !self.answered {
                    lease.note_closed();
                }
                if !self.answered && self.awaits_client {
                    return Poll::Ready(Err(UpstreamError::Impatient));
                }
                Poll::Ready(Err(UpstreamError::Closed { answered: self.answered }))
            }
        }
    }

    /// Waits for what the application does not do in time.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<UpstreamError> {
        if self.awaits_client && !self.deaf {
            return Poll::Pending;
        }
        let (limit, fault) = if self.answered {
            (self.bounds.read_timeout, UpstreamError::Stalled)
        } else if self.all_written || self.deaf {
            (self.bounds.first_byte_timeout, UpstreamError::Silent)
        } else {
            (self.bounds.send_timeout, UpstreamError::SendSlow)
        };
        let deadline = self.moved + limit;
        let Some(lease) = &mut self.lease else { return Poll::Pending };
        if let Some(patience) = self.patience
            && patience < deadline
        {
            std::task::ready!(lease.connection().poll_deadline(context, patience));
            self.patience = None;
            self.starving = Some(lease.starve());
        }
        lease.connection().poll_deadline(context, deadline).map(|()| fault)
    }
}

/// Bytes that were not understood yet, and those behind them: some of a head, at most.
fn joined(left: Bytes, bytes: Bytes) -> Bytes {
    if left.is_empty() {
        return bytes;
    }
    let mut all = BytesMut::from(left);
    all.extend_from_slice(&bytes);
    all.freeze()
}
