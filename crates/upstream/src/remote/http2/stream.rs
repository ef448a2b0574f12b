//! One request on a shared connection, as the reader of its response sees it. It also gives the
//! application the body, as fast as that is taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokamak_nghttp2::Reason;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::{Http2Connection, State};
use super::head;
use crate::live::Next;
use crate::remote::error::UpstreamError;
use crate::remote::event::Event;
use crate::remote::request::Call;
use crate::remote::settings::Bounds;

/// Bytes of a body that are given to the session before they are written. A tenth would mean ten
/// times the turns of tasks; ten times more would be that much memory for each upload.
const HELD: usize = 64 * 1024;

/// A request on a shared connection. Dropping it cancels the request.
#[derive(Debug)]
pub(in crate::remote) struct Http2Stream {
    connection: Arc<Http2Connection>,
    id: u32,
    call: Arc<Call>,
    bounds: Bounds,
    /// The next bytes of the body.
    piece: Bytes,
    /// Bytes of the body that were read, pieces of a live one.
    read: u64,
    pieces: usize,
    /// The end of the body is in the session.
    all_written: bool,
    /// The application has all that the client has sent so far; the time is the client's.
    awaits_client: bool,
    /// The head of the response has come, which is not an interim one.
    has_head: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Http2Stream {
    pub fn new(
        connection: Arc<Http2Connection>,
        id: u32,
        call: Arc<Call>,
        bounds: Bounds,
    ) -> Http2Stream {
        let all_written = call.whole_body().is_none() && !call.is_live();
        Http2Stream {
            connection,
            id,
            call,
            bounds,
            piece: Bytes::new(),
            read: 0,
            pieces: 0,
            all_written,
            awaits_client: false,
            has_head: false,
            timer: None,
        }
    }

    /// Whether any of the request may have reached the application.
    pub fn has_written(&self) -> bool {
        self.connection.state().session.has_begun(self.id)
    }

    /// While the client still sends the body: how long the application may be kept waiting for room
    /// for its response.
    pub fn patience(&self) -> Option<Duration> {
        (self.call.is_live() && !self.all_written).then_some(self.bounds.read_timeout)
    }

    /// The next thing that the application says; nothing follows a fault.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, UpstreamError>> {
        loop {
            let connection = self.connection.clone();
            let waits = {
                let state = &mut *connection.state();
                let sent = self.poll_send(state, context);
                let event = self.event(state);
                if state.session.wants_send() {
                    state.wake_task();
                }
                match (event, sent) {
                    (Some(event), _) => return Poll::Ready(event),
                    (None, Err(fault)) => return Poll::Ready(Err(fault)),
                    (None, Ok(())) => self.wait(state, context),
                }
            };
            let Some((moved, limit, fault)) = waits else { return Poll::Pending };
            let deadline = moved + limit;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.deadline() == deadline && timer.is_elapsed() {
                self.connection.doubt(limit);
                return Poll::Ready(Err(fault));
            }
            if timer.deadline() > deadline || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
            }
            // Set for an earlier deadline it may go off too early; then there is another look.
            std::task::ready!(timer.as_mut().poll(context));
        }
    }

    /// The next thing that has come.
    fn event(&mut self, state: &mut State) -> Option<Result<Event, UpstreamError>> {
        let id = self.id;
        let kept = state.session.data(id)?;
        let answered = kept.answered;
        if let Some(head) = kept.heads.pop_front() {
            return Some(self.head(&head));
        }
        if kept.is_refused {
            return Some(Err(UpstreamError::NotTaken));
        }
        let bytes = state.session.take_body(id);
        if !bytes.is_empty() {
            if let Some(kept) = state.session.data(id) {
                kept.moved = Some(Instant::now());
            }
            return Some(Ok(Event::Output(bytes)));
        }
        if self.has_head && state.session.is_body_taken(id) {
            return Some(self.trailers(state));
        }
        if let Some(reason) = state.session.closed(id) {
            let fault = match reason {
                _ if state.session.is_wrong(id) => {
                    UpstreamError::NotHttp2(format!("its response is malformed ({reason})").into())
                }
                Reason::REFUSED_STREAM => UpstreamError::NotTaken,
                _ if !state.session.has_begun(id) => UpstreamError::NotTaken,
                reason => UpstreamError::Cancelled(reason),
            };
            return Some(Err(fault));
        }
        state.death.as_ref().map(|death| Err(death.fault(answered)))
    }

    fn head(&mut self, head: &tokamak_nghttp2::Head) -> Result<Event, UpstreamError> {
        if head.is_cut {
            return Err(UpstreamError::Unexpected("a head that is too large"));
        }
        let head = head::response(head)
            .ok_or(UpstreamError::Unexpected("a status that is not a number of three digits"))?;
        if head.status < 200 {
            return Ok(Event::Interim(head));
        }
        self.has_head = true;
        // It has heard the request.
        if let Some(live) = self.call.live() {
            live.forget();
        }
        Ok(Event::Head(head))
    }

    fn trailers(&self, state: &mut State) -> Result<Event, UpstreamError> {
        match state.session.take_trailers(self.id) {
            Some(trailers) if trailers.is_cut => {
                Err(UpstreamError::Unexpected("trailers that are too large"))
            }
            Some(trailers) => Ok(Event::End(head::trailers(&trailers))),
            None => Ok(Event::End(Vec::new())),
        }
    }

    /// Gives the session as much of the body as it takes.
    fn poll_send(
        &mut self,
        state: &mut State,
        context: &mut Context<'_>,
    ) -> Result<(), UpstreamError> {
        while !self.all_written && state.session.closed(self.id).is_none() {
            if self.piece.is_empty() {
                if !self.poll_piece(state, context)? {
                    return Ok(());
                }
                continue;
            }
            let capacity = state.session.capacity(self.id, HELD);
            if capacity == 0 {
                if let Some(kept) = state.session.data(self.id) {
                    kept.wants_room = true;
                }
                return Ok(());
            }
            let part = self.piece.split_to(capacity.min(self.piece.len()));
            let is_end = self.piece.is_empty() && self.is_read();
            self.all_written = is_end;
            state.session.send_data(self.id, part, is_end);
            if let Some(kept) = state.session.data(self.id) {
                kept.moved = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Whether the whole body has been read; not known of one that the client still sends.
    fn is_read(&self) -> bool {
        self.call.whole_body().is_some_and(|body| body.left() == self.read)
    }

    /// Reads the next bytes of the body, or ends it. `false`: the client has sent no more.
    fn poll_piece(
        &mut self,
        state: &mut State,
        context: &mut Context<'_>,
    ) -> Result<bool, UpstreamError> {
        if let Some(body) = self.call.whole_body() {
            self.piece = body.read_at(self.read, HELD).map_err(|_| UpstreamError::Spool)?;
            self.read += self.piece.len() as u64;
            if self.piece.is_empty() {
                self.end(state, &[]);
            }
            return Ok(true);
        }
        let Some(live) = self.call.live() else { return Ok(false) };
        let next = live.poll_at(&mut self.pieces, context);
        self.awaits_client = next.is_pending();
        let Poll::Ready(next) = next else { return Ok(false) };
        let length = live.length();
        match next {
            Next::Piece(piece) => {
                self.read += piece.len() as u64;
                if length.is_some_and(|length| self.read > length) {
                    return Err(UpstreamError::Cut);
                }
                self.piece = piece;
            }
            Next::End(_) if length.is_some_and(|length| self.read != length) => {
                return Err(UpstreamError::Cut);
            }
            Next::End(trailers) => self.end(state, &trailers),
            Next::Cut => return Err(UpstreamError::Cut),
        }
        Ok(true)
    }

    /// Ends the body, with these trailers if there are any.
    fn end(&mut self, state: &mut State, trailers: &[u8]) {
        let own = |(name, value)| (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value));
        let fields: Vec<_> = head::fields(trailers).map(own).collect();
        if fields.is_empty() {
            state.session.send_data(self.id, Bytes::new(), true);
        } else {
            state.session.send_trailers(self.id, fields);
        }
        self.all_written = true;
        if let Some(kept) = state.session.data(self.id) {
            kept.moved = Some(Instant::now());
        }
    }

    /// Since when the application takes its time, how long it may, and what it is if it takes more.
    /// `None`: the time is the client's.
    fn wait(
        &self,
        state: &mut State,
        context: &mut Context<'_>,
    ) -> Option<(Instant, Duration, UpstreamError)> {
        let has_begun = state.session.has_begun(self.id);
        let Bounds { queue_timeout, read_timeout, first_byte_timeout, send_timeout, .. } =
            self.bounds;
        let kept = state.session.data(self.id)?;
        kept.reader = Some(context.waker().clone());
        let (limit, fault) = match () {
            // It has as many as it takes.
            () if !has_begun => (queue_timeout, UpstreamError::Waited),
            () if self.awaits_client => return None,
            () if kept.answered => (read_timeout, UpstreamError::Stalled),
            () if self.all_written => (first_byte_timeout, UpstreamError::Silent),
            () => (send_timeout, UpstreamError::SendSlow),
        };
        kept.moved.map(|moved| (moved, limit, fault))
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.connection.drop_request(self.id);
    }
}
