//! One request of an HTTP/2 connection, as the client that waits for its response.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use ::h2::server::SendResponse;
use ::h2::{Reason, SendStream};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tokamak_upstream::Flow;

use super::priority::Priority;
use super::state::ConnState;
use crate::client::{Addresses, Client};
use crate::failure::Failure;

/// The way to the client.
enum Half {
    /// The response has not begun.
    Waiting(SendResponse<Bytes>),
    /// The head of the response has been handed over.
    Sending(SendStream<Bytes>),
    /// The response is complete, or cannot be sent.
    Done,
}

/// A request and the client that waits for its response. Only the task of the request uses the way
/// to the client, so the lock is always free; the trait [`Client`] wants one.
pub struct Stream {
    connection: Arc<ConnState>,
    /// The number of the request on its connection, from 1.
    number: u32,
    /// How urgent it is for its client; `None`: the connection is not one client's.
    priority: Option<Priority>,
    half: Mutex<Half>,
    is_gone: AtomicBool,
}

impl Stream {
    /// A request that begins. `number`: how many requests have come on the connection, with it.
    pub fn new(
        connection: Arc<ConnState>,
        number: u32,
        priority: Option<Priority>,
        respond: SendResponse<Bytes>,
    ) -> Arc<Stream> {
        let half = Mutex::new(Half::Waiting(respond));
        Arc::new(Stream { connection, number, priority, half, is_gone: AtomicBool::new(false) })
    }

    /// The address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.connection.addresses.peer
    }

    /// The priority of a response with these fields.
    pub fn priority(&self, headers: &HeaderMap) -> Priority {
        self.priority.map_or(Priority::UNKNOWN, |asked| asked.with_response(headers))
    }

    /// Requests of the connection that are not answered completely: they share its line.
    pub fn neighbours(&self) -> u32 {
        self.connection.open()
    }

    /// Waits until the response, of this priority, may be sent.
    pub fn poll_turn(&self, priority: Priority, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.scheduler.poll_turn(self.number, priority, cx)
    }

    /// The response has no more to send, or is given up.
    pub fn leave(&self) {
        self.connection.scheduler.leave(self.number);
    }

    fn half(&self) -> MutexGuard<'_, Half> {
        // Each change under the lock is a single assignment.
        self.half.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the head of the response, and the end of the response if it has no body. Returns
    /// whether the body is to be sent.
    pub fn respond(&self, head: Response<()>, is_end: bool) -> bool {
        let half = &mut *self.half();
        let Half::Waiting(respond) = half else { return false };
        // It fails if the client has cancelled the request.
        let sending = respond.send_response(head, is_end);
        *half = match sending {
            Ok(stream) if !is_end => Half::Sending(stream),
            _ => Half::Done,
        };
        matches!(half, Half::Sending(_))
    }

    /// Waits until the client may be sent some of so many bytes. `None`: the client has gone.
    pub fn poll_capacity(&self, wanted: usize, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let Half::Sending(stream) = &mut *self.half() else { return Poll::Ready(None) };
        stream.reserve_capacity(wanted);
        match stream.capacity() {
            0 => stream.poll_capacity(cx).map(|capacity| capacity?.ok()),
            capacity => Poll::Ready(Some(capacity)),
        }
    }

    /// Sends bytes for which there is capacity. Returns whether more can be sent after them.
    pub fn send(&self, bytes: Bytes, is_end: bool) -> bool {
        let half = &mut *self.half();
        let Half::Sending(stream) = half else { return false };
        self.connection.scheduler.handed_over(bytes.len());
        let is_sent = stream.send_data(bytes, is_end).is_ok();
        if is_end || !is_sent {
            *half = Half::Done;
        }
        is_sent && !is_end
    }

    /// Ends the response with fields that follow its body.
    pub fn send_trailers(&self, mut trailers: HeaderMap) {
        let half = &mut *self.half();
        if let Half::Sending(stream) = half {
            super::send::remove_connection_fields(&mut trailers);
            // It fails if the client has cancelled the request.
            let _ = stream.send_trailers(trailers);
            *half = Half::Done;
        }
    }

    /// Tells the client that the response breaks off.
    pub fn reset(&self, reason: Reason) {
        let half = &mut *self.half();
        match half {
            Half::Waiting(respond) => respond.send_reset(reason),
            Half::Sending(stream) => stream.send_reset(reason),
            Half::Done => {}
        }
        *half = Half::Done;
    }
}

impl Client for Stream {
    fn addresses(&self) -> &Arc<Addresses> {
        &self.connection.addresses
    }

    fn scheme(&self) -> &'static str {
        self.connection.addresses.scheme()
    }

    fn requests(&self) -> u32 {
        self.number
    }

    fn flow(&self) -> Option<Flow> {
        Some(self.connection.flow)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let reset = match &mut *self.half() {
            Half::Waiting(respond) => respond.poll_reset(cx),
            Half::Sending(stream) => stream.poll_reset(cx),
            Half::Done => return Poll::Pending,
        };
        if reset.is_ready() {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        reset.map(drop)
    }

    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        // The library would send it after the client has cancelled the request, too.
        if self.is_gone.load(Ordering::Relaxed) {
            return;
        }
        if let Half::Waiting(respond) = &mut *self.half() {
            let mut head = Response::new(());
            *head.status_mut() = status;
            *head.headers_mut() = headers.clone();
            super::send::remove_connection_fields(head.headers_mut());
            // It fails if the connection has ended: the final response will find that out.
            let _ = respond.send_informational(head);
        }
    }

    // The library has ended the stream of a client that broke a rule.
    fn violation(&self) -> Option<Failure> {
        None
    }

    fn served(&self, now: u64) {
        self.connection.end(now);
    }

    fn take_received(&self) -> u64 {
        self.connection.take_received()
    }
}
