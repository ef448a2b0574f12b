//! One request of an HTTP/2 connection, as the client that waits for its response.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use smallvec::SmallVec;
use tokamak_nghttp2::{Field, Reason};
use tokamak_upstream::Flow;

use super::scheduler::SEND_BUFFER;
use super::shared::{Half, Shared, StreamState};
use crate::client::{Addresses, Client};
use crate::failure::Failure;
use crate::http::multiplex::{ConnState, Priority, remove_connection_fields};

/// Fields of a response for which there is room without an allocation: most have fewer.
const USUAL_FIELDS: usize = 24;

/// A request and the client that waits for its response.
pub struct Stream {
    connection: Arc<ConnState>,
    session: Arc<Shared>,
    /// The number of the stream.
    id: u32,
    /// The number of the request on its connection, from 1.
    number: u32,
    /// Whether responses have an order: the connection is one client's.
    has_priority: bool,
    /// Whether it asks for a WebSocket.
    is_websocket: bool,
}

impl Stream {
    /// A request that begins, on the stream `id`. `number`: how many requests have come on the
    /// connection, with it. `priority`: how urgent it is for its client; `None`: the connection is
    /// not one client's. `is_websocket`: whether it asks for a WebSocket.
    pub fn new(
        connection: Arc<ConnState>,
        session: Arc<Shared>,
        id: u32,
        number: u32,
        priority: Option<Priority>,
        is_websocket: bool,
    ) -> Arc<Stream> {
        let has_priority = priority.is_some();
        if let Some(kept) = session.lock().session.data(id) {
            kept.number = number;
            kept.priority = priority.unwrap_or(Priority::UNKNOWN);
        }
        Arc::new(Stream { connection, session, id, number, has_priority, is_websocket })
    }

    /// The response has these fields, which may say how urgent it is.
    pub fn set_response_priority(&self, headers: &HeaderMap) {
        if self.has_priority
            && let Some(kept) = self.session.lock().session.data(self.id)
            && let Some(said) = kept.priority.with_response(headers)
        {
            kept.priority = said;
            kept.is_final = true;
        }
    }

    /// Counts as a request under way as long as what is returned lives: a WebSocket, whose request
    /// has been answered.
    pub fn hold(&self) -> Held {
        self.connection.hold(tokamak_cost::coarse());
        Held(self.connection.clone())
    }

    /// Requests of the connection that are not answered completely: they share its line.
    pub fn neighbours(&self) -> u32 {
        self.connection.open()
    }

    /// Waits until the response may be sent.
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        let priority = self.session.lock().session.data(self.id).map(|kept| kept.priority);
        let priority = priority.unwrap_or(Priority::UNKNOWN);
        self.session.scheduler.poll_turn(self.number, priority, cx)
    }

    /// The response has no more to send, or is given up.
    pub fn leave(&self) {
        self.session.scheduler.leave(self.number);
    }

    /// Sends the head of the response, and the end of the response if it has no body. Returns
    /// whether the body is to be sent.
    pub fn respond(&self, head: &Response<()>, is_end: bool) -> bool {
        let status = head.status();
        let fields = fields(status.as_str(), head.headers());
        self.session.change(|session| {
            if session.data(self.id).is_none_or(|kept| kept.half != Half::Waiting) {
                return false;
            }
            // It fails if the client has cancelled the request.
            let goes_on = session.respond(self.id, &fields, is_end) && !is_end;
            if let Some(kept) = session.data(self.id) {
                kept.half = if goes_on { Half::Sending } else { Half::Done };
            }
            goes_on
        })
    }

    /// Waits until the client may be sent some of so many bytes. `None`: the client has gone.
    pub fn poll_capacity(&self, wanted: usize, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let inner = &mut *self.session.lock();
        if inner.end_of(self.id).is_some() {
            return Poll::Ready(None);
        }
        let capacity = inner.session.capacity(self.id, SEND_BUFFER).min(wanted);
        match inner.session.data(self.id) {
            Some(kept) if kept.half == Half::Sending => {
                if capacity > 0 {
                    return Poll::Ready(Some(capacity));
                }
                kept.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(None),
        }
    }

    /// Sends bytes for which there is capacity. Returns whether more can be sent after them.
    pub fn send(&self, bytes: Bytes, is_end: bool) -> bool {
        let count = bytes.len();
        let is_sent =
            self.while_sending(is_end, |session| session.send_data(self.id, bytes, is_end));
        if is_sent {
            self.session.scheduler.handed_over(count);
        }
        is_sent && !is_end
    }

    /// Ends the response with fields that follow its body.
    pub fn send_trailers(&self, mut trailers: HeaderMap) {
        remove_connection_fields(&mut trailers);
        let own = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (Bytes::copy_from_slice(name.as_ref()), Bytes::copy_from_slice(value.as_bytes()))
        };
        let fields = trailers.iter().map(own).collect();
        self.while_sending(true, |session| session.send_trailers(self.id, fields));
    }

    /// Does something to a response whose head has been sent. Returns whether that could be done.
    fn while_sending(
        &self,
        is_last: bool,
        act: impl FnOnce(&mut tokamak_nghttp2::Session<StreamState>) -> bool,
    ) -> bool {
        self.session.change(|session| {
            if session.data(self.id).is_none_or(|kept| kept.half != Half::Sending) {
                return false;
            }
            let is_done = act(session);
            if (is_last || !is_done)
                && let Some(kept) = session.data(self.id)
            {
                kept.half = Half::Done;
            }
            is_done
        })
    }

    /// Tells the client that the response breaks off.
    pub fn reset(&self, reason: Reason) {
        self.session.change(|session| {
            if let Some(kept) = session.data(self.id)
                && kept.half != Half::Done
            {
                kept.half = Half::Done;
                session.reset(self.id, reason);
            }
        });
    }
}

/// What a connection waits for beside its requests.
pub struct Held(Arc<ConnState>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end(tokamak_cost::coarse());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.change(|session| session.release(self.id));
    }
}

/// The fields of a response, as the library takes them.
fn fields<'a>(status: &'a str, headers: &'a HeaderMap) -> SmallVec<[Field<'a>; USUAL_FIELDS]> {
    let status = Field { name: b":status", value: status.as_bytes(), is_secret: false };
    let others = headers.iter().map(|(name, value)| Field {
        name: name.as_str().as_bytes(),
        value: value.as_bytes(),
        is_secret: value.is_sensitive(),
    });
    std::iter::once(status).chain(others).collect()
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
        let inner = &mut *self.session.lock();
        let has_ended = inner.end_of(self.id).is_some();
        match inner.session.data(self.id) {
            Some(kept) if kept.half == Half::Done => Poll::Pending,
            _ if has_ended => Poll::Ready(()),
            Some(kept) => {
                kept.watcher = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    fn takes_websocket(&self) -> bool {
        self.is_websocket
    }

    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        let mut headers = headers.clone();
        remove_connection_fields(&mut headers);
        let fields = fields(status.as_str(), &headers);
        self.session.change(|session| {
            if session.closed(self.id).is_none()
                && session.data(self.id).is_some_and(|kept| kept.half == Half::Waiting)
            {
                session.respond_interim(self.id, &fields);
            }
        });
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
