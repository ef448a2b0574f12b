//! The task of a connection.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::EXPECT;
use tokamak_config as config;
use tokamak_metrics::Counter;
use tokamak_nghttp2::{Broken, Event, Head, Limits, Reason, Session};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

use super::body::StreamBody;
use super::head;
use super::io::{COLLECTED, H2Io, ReadResult};
use super::meter::{Http2Violation, Meter};
use super::send::Sending;
use super::shared::Shared;
use super::stream::Stream;
use super::tunnel;
use crate::client::activity::DRAIN_IDLE;
use crate::context::Context;
use crate::counters::{MultiplexCounters, ProtocolFault};
use crate::http::multiplex::{ConnState, Pace, Priority, refuse};
use crate::log;
use crate::request::account::Moments;
use crate::request::body::no_body;
use crate::request::pipeline::{self, Serving};
use crate::response::Reply;
use crate::websocket::Upgraded;

/// Requests that a connection begins before other tasks of the event loop get their turn. Ten times
/// more would let one connection hold up all others for as long; a tenth would poll the connection
/// ten times as often.
const AT_ONCE: u32 = 16;

/// Requests of a connection that may end by an error of their client. One error in a thousand
/// requests is a visitor behind a balancer; more are an attack, since each costs a little.
const ERRORS: u32 = 1024;

/// Bytes of the fields behind a request's body: as many as over HTTP/1.
const TRAILERS: u32 = 8192;

/// Bytes of a head in one frame: what clients may send without being asked.
const FRAME: usize = 16 * 1024;

/// Frames of a head beside those that a head of the largest size fills: clients may send short
/// ones.
const SHORT_FRAMES: usize = 5;

/// At a reload or stop, requests that end within this time end before their client is told of
/// anything: there are clients (httpcore 1.0) that lose what is under way when a GOAWAY comes. A
/// tenth would be too short for many pages; ten times more would only delay the end of connections
/// that are never without a request.
const BEFORE_GOAWAY: Duration = Duration::from_millis(500);

/// Priorities that are kept of requests which have not come: a client asks for some files of a page
/// at a time.
const KEPT_PRIORITIES: usize = 32;

/// Serves the requests of one connection until it ends, in records of TLS of at most so many bytes,
/// if there is such a bound. `first`: bytes of the client that have been read already.
pub fn serve_connection<T>(
    context: Arc<Context>,
    transport: (T, Option<usize>),
    first: Bytes,
    state: Arc<ConnState>,
) -> impl Future<Output = ()> + Send
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config::Server { http2, .. } = &*context.config;
    let now = tokamak_cost::coarse();
    let meter = Meter::new(http2.resets, http2.control_frames, http2.streams, now);
    // Over TLS nothing has come yet: the time for the preface begins.
    state.received(0, meter.is_in_head(), now);
    let addresses = &state.addresses;
    let is_from_proxy =
        addresses.is_for_unnamed || context.config.proxies.trusts(addresses.peer.ip());
    let session = Session::new(limits(&context.config)).map(Shared::new);
    // It fails only without memory.
    let mut serving = session.ok().map(|session| {
        let scheduler = session.scheduler.clone();
        let io = H2Io::new(transport, first, state.clone(), scheduler, meter);
        let (counted, pending_priorities, left) = (Reported::default(), VecDeque::new(), None);
        Conversation {
            context,
            state,
            io,
            session,
            is_from_proxy,
            pending_priorities,
            left,
            counted,
        }
    });
    // An async block would have room for all of it twice, which an idle connection would hold.
    poll_fn(move |cx| match &mut serving {
        // Most errors are clients that have gone, which would only fill the log.
        Some(serving) => serving.poll(cx).map(drop),
        None => Poll::Ready(()),
    })
}

/// The limits of the configuration for the library.
fn limits(config: &config::Server) -> Limits {
    let config::Server { http2, limits, .. } = config;
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    // Twice the limit, so that a head that is somewhat too large gets the right page.
    let head = 2 * limits.head;
    Limits {
        streams: size(http2.streams),
        window: size(http2.window),
        connection_window: size(http2.connection_window),
        head: size(head),
        trailers: TRAILERS,
        continuations: head / FRAME + SHORT_FRAMES,
        errors: ERRORS,
        control: u32::MAX,
    }
}

/// Counts one, if anybody can see the number.
fn count(context: &Context, of: impl Fn(&MultiplexCounters) -> &Counter) {
    if let Some(counters) = &context.counters {
        of(&counters.http2).add(1);
    }
}

/// What has been counted and logged of a connection.
#[derive(Default)]
struct Reported {
    /// That it has begun.
    beginning: bool,
    /// That it is closed because of its client.
    fault: bool,
}

/// How far the end of the connection has been announced to the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoAway {
    /// Nothing: its requests may end soon.
    None,
    /// To open no more requests.
    Announced,
    /// Which of its requests is the last one.
    Final,
}

/// The end of a connection, once it is near.
struct Leaving {
    goaway: GoAway,
    /// When it is told more, whatever it does.
    deadline: Pin<Box<Sleep>>,
}

/// The serving of one connection.
struct Conversation<T> {
    context: Arc<Context>,
    state: Arc<ConnState>,
    io: H2Io<T>,
    session: Arc<Shared>,
    /// Whether a proxy has opened it: its requests are of many clients, whose priorities say
    /// nothing of each other's.
    is_from_proxy: bool,
    /// Priorities of requests that have not come, by their streams.
    pending_priorities: VecDeque<(u32, Priority)>,
    /// Set when a GOAWAY was sent.
    left: Option<Leaving>,
    counted: Reported,
}

impl<T> Conversation<T>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    /// Reads, begins requests and sends, until there is nothing to do.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.state.activity.listen(cx.waker());
        self.session.awake();
        let is_open = self.poll_receive(cx)?;
        self.poll_leave(cx);
        let mut sent = self.poll_send(cx);
        if self.left.is_some() && matches!(sent, Poll::Ready(Ok(()))) {
            // That may have been the end of the last response, which the GOAWAY follows.
            self.poll_leave(cx);
            sent = self.poll_send(cx);
        }
        self.report();
        if !is_open {
            return Poll::Ready(Ok(()));
        }
        if sent?.is_ready() && self.session.lock().session.is_over() {
            return self.io.poll_part(cx);
        }
        self.session.rest(cx.waker());
        Poll::Pending
    }

    /// Takes what has come. Returns whether more may come.
    fn poll_receive(&mut self, cx: &mut task::Context<'_>) -> io::Result<bool> {
        let mut begun = 0;
        loop {
            while begun < AT_ONCE
                && let Some(event) = self.next_event()
            {
                begun += u32::from(matches!(event, Event::Request { .. }));
                self.handle(event, cx);
            }
            if begun == AT_ONCE {
                cx.waker().wake_by_ref();
                return Ok(true);
            }
            if self.counted.fault {
                // Nothing more is read from it; it is told so, and closed.
                return Ok(true);
            }
            let session = &self.session;
            let take = |bytes: &[u8]| session.lock().session.receive(bytes);
            let Poll::Ready(came) = self.io.poll_read(cx, take)? else { return Ok(true) };
            if !self.counted.beginning && self.io.has_begun() {
                self.counted.beginning = true;
                count(&self.context, |http2| &http2.connections);
            }
            match came {
                ReadResult::End => return Ok(false),
                ReadResult::Bytes(Ok(())) => {}
                ReadResult::Bytes(Err(broken)) | ReadResult::Wrong(Err(broken), ..) => {
                    self.give_up(broken)
                }
                ReadResult::Wrong(Ok(()), stream, violation) => self.close(stream, violation),
                ReadResult::Violation(violation) => self.violation(violation),
            }
        }
    }

    fn next_event(&self) -> Option<Event> {
        self.session.lock().session.next_event()
    }

    /// The client sends a frame that ends its request alone if that is under way: more after its
    /// end (RFC 9113 section 5.1), or a WINDOW_UPDATE without an increment (section 6.9). For a
    /// stream that is over the latter means nothing.
    fn close(&mut self, stream: u32, violation: Http2Violation) {
        if self.session.lock().session.close(stream, violation.code()) {
            self.io.ignore(stream);
        } else if let Http2Violation::Ended(_) = violation {
            self.violation(violation);
        }
    }

    fn violation(&mut self, violation: Http2Violation) {
        self.fault(violation.fault(), violation.reason());
        self.session.lock().session.abort(violation.code());
    }

    /// The library cannot go on.
    fn give_up(&mut self, broken: Broken) {
        let reason = broken.reason().unwrap_or(Reason::PROTOCOL_ERROR);
        self.fault(ProtocolFault::Protocol, &format!("{reason} ({broken})"));
        self.session.lock().session.abort(reason);
    }

    /// Logs once why the connection ends, if the client is to blame.
    fn fault(&mut self, fault: ProtocolFault, reason: &str) {
        if !std::mem::replace(&mut self.counted.fault, true) {
            count(&self.context, |http2| &http2.closed[fault as usize]);
            log::closed(&self.state.addresses.peer, "HTTP/2", reason);
        }
    }

    /// Logs why the library has ended the connection, if it has.
    fn report(&mut self) {
        let ended = self.session.lock().session.ended().cloned();
        if !self.counted.fault
            && let Some((reason, text)) = ended
        {
            let reason =
                if text.is_empty() { reason.to_string() } else { format!("{reason} ({text})") };
            self.fault(ProtocolFault::Protocol, &reason);
        }
    }

    fn handle(&mut self, event: Event, cx: &mut task::Context<'_>) {
        match event {
            Event::Request { stream, head } => self.begin(stream, &head, cx),
            Event::Refused => count(&self.context, |http2| &http2.refused),
            Event::Body(stream) => self.session.lock().has_come(stream),
            Event::Window(stream) => self.session.lock().has_room(stream),
            Event::Closed(stream) => self.session.lock().closed(stream),
            Event::Priority { stream, value } if !self.is_from_proxy => {
                self.prioritise(stream, Priority::of_update(&value));
            }
            // Only servers do the other two.
            Event::Priority { .. } | Event::Response { .. } | Event::Leaving => {}
            Event::Answered => self.end(),
        }
    }

    /// A request has another priority from now on, or from its beginning.
    fn prioritise(&mut self, stream: u32, priority: Priority) {
        let mut inner = self.session.lock();
        // One whose head has come, but is looked at after this, has no number yet.
        if let Some(kept) = inner.session.data(stream)
            && kept.number > 0
        {
            if !kept.is_final {
                kept.priority = priority;
                self.session.scheduler.change(kept.number, priority);
            }
            return;
        }
        drop(inner);
        self.pending_priorities.retain(|(other, _)| *other != stream);
        self.pending_priorities.push_back((stream, priority));
        if self.pending_priorities.len() > KEPT_PRIORITIES {
            self.pending_priorities.pop_front();
        }
    }

    /// Tells the client that the connection ends, once it is to be told.
    fn poll_leave(&mut self, cx: &mut task::Context<'_>) {
        if self.state.is_leaving() && self.left.is_none() {
            let config::Server { http2, timeouts, .. } = &*self.context.config;
            let is_draining = self.context.is_draining();
            let is_full = self.state.requests() as usize >= http2.requests;
            if !is_draining && !is_full && self.session.lock().session.open() > 0 {
                // It was idle for too long, but has a request now.
                self.state.stay();
                return;
            }
            let silence =
                if is_draining { BEFORE_GOAWAY.min(timeouts.drain / 4) } else { Duration::ZERO };
            let deadline = Box::pin(sleep(silence));
            self.left = Some(Leaving { goaway: GoAway::None, deadline });
            self.session.lock().wake_watchers();
            if !is_draining {
                self.announce();
            }
        }
        while let Some(leaving) = &mut self.left
            && leaving.goaway != GoAway::Final
        {
            // Without a request under way there is nothing that a client could lose by a GOAWAY.
            let may_tell =
                leaving.goaway == GoAway::None && self.session.lock().session.open() == 0;
            if !may_tell && leaving.deadline.as_mut().poll(cx).is_pending() {
                return;
            } else if leaving.goaway == GoAway::None {
                self.announce();
            } else {
                self.end();
            }
        }
    }

    /// Tells the client to open no more requests. The last one is told when it answers: a request
    /// that is on its way now is served. Proxies that are told at once that it is behind the last
    /// one (Apache, Caddy, HAProxy) do not send it again, and answer 502.
    fn announce(&mut self) {
        let session = &mut self.session.lock().session;
        if let Some(leaving) = &mut self.left {
            // The PING stands before the GOAWAY: clients exist that take no frame after one.
            session.ping();
            session.announce_end();
            // An idle connection is closed after that time, and is to be told the last one before.
            let patience = if session.open() > 0 { DRAIN_IDLE } else { DRAIN_IDLE / 2 };
            let deadline = Box::pin(sleep(patience));
            *leaving = Leaving { goaway: GoAway::Announced, deadline };
        }
    }

    /// Tells the client which of its requests is the last one.
    fn end(&mut self) {
        if let Some(leaving) = &mut self.left
            && std::mem::replace(&mut leaving.goaway, GoAway::Final) != GoAway::Final
        {
            self.session.lock().session.end();
        }
    }

    /// Sends what is to be sent, as far as the client takes it.
    fn poll_send(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let session = &self.session;
            let mut verdict = Ok(());
            let write = |output: &mut Vec<u8>| {
                let inner = &mut *session.lock();
                let before = output.len();
                verdict = inner.session.send(output, COLLECTED);
                if output.len() > before {
                    // What is held has become less.
                    inner.has_room(0);
                }
            };
            let waits = self.io.collect(write);
            if verdict.is_err() {
                return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
            }
            if !waits {
                break;
            }
            ready!(self.io.poll_send(cx))?;
        }
        self.session.scheduler.sent_all();
        Poll::Ready(Ok(()))
    }

    /// Begins to answer a request.
    fn begin(&mut self, id: u32, head: &Head, cx: &mut task::Context<'_>) {
        let Conversation { context, state, io, session, is_from_proxy, pending_priorities, .. } =
            self;
        let is_exact = context.wants_exact_times();
        let now = if is_exact { tokamak_cost::now() } else { tokamak_cost::coarse() };
        count(context, |http2| &http2.requests);
        io.accepted();
        let number = state.begin(now);
        if number as usize >= context.config.http2.requests {
            state.leave(now);
        }
        let parsed = head::request(&context.config.limits, head);
        let pending = pending_priorities.iter().position(|(stream, _)| *stream == id);
        let pending = pending
            .and_then(|index| pending_priorities.remove(index))
            .map(|(_, priority)| priority);
        let said = |request: &http::Request<()>| Priority::of_request(request.headers());
        let priority = pending.or_else(|| parsed.as_ref().ok().map(|(request, _)| said(request)));
        let priority = priority.filter(|_| !*is_from_proxy);
        let asks = head::asks_for_websocket(head);
        let client = Stream::new(state.clone(), session.clone(), id, number, priority, asks);
        let is_head = head::is_head(head);
        let mut socket = None;
        let serving = match parsed {
            Ok((request, length)) => {
                let waits = request
                    .headers()
                    .get(EXPECT)
                    .is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"));
                let waiting = waits.then(|| client.clone());
                let body = StreamBody::new(session.clone(), id, length, waiting);
                let moments = Moments { began: now, now };
                if asks {
                    // What the client says is for the application, once that has agreed.
                    socket = Some(body);
                    let request = request.map(|()| no_body());
                    pipeline::serve(context, client.clone(), request, moments)
                } else {
                    let request = request.map(|()| body);
                    pipeline::serve(context, client.clone(), request, moments)
                }
            }
            Err(violation) => {
                session.change(|session| session.drop_body(id));
                refuse(client.clone(), violation, now)
            }
        };
        let mut answer = Answer { client, serving, is_head, socket, context: context.clone() };
        if !matches!(answer.serving, Serving::Now(_)) {
            tokio::spawn(answer.send());
        } else if let Some(mut sending) = answer.now()
            && Pin::new(&mut sending).poll(cx).is_pending()
        {
            tokio::spawn(sending);
        }
    }
}

impl<T> Drop for Conversation<T> {
    fn drop(&mut self) {
        self.session.close();
        self.session.scheduler.close();
    }
}

/// The answer to a request.
struct Answer {
    client: Arc<Stream>,
    serving: Serving,
    is_head: bool,
    /// What the client says on a WebSocket, if it asks for one.
    socket: Option<StreamBody>,
    context: Arc<Context>,
}

impl Answer {
    /// Begins a response that is there. `None`: that was all of it.
    fn now(&mut self) -> Option<Sending> {
        let Serving::Now(response) = &mut self.serving else { return None };
        let response = response.take()?;
        self.begin(response)
    }

    /// Waits for the response and sends it.
    async fn send(mut self) {
        // If the client goes before, nothing is to be sent.
        if let Ok(response) = poll_fn(|cx| Pin::new(&mut self.serving).poll(cx)).await
            && let Some(sending) = self.begin(response)
        {
            sending.await;
        }
    }

    fn begin(&mut self, mut response: http::Response<Reply>) -> Option<Sending> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(tunnel) = response.extensions().get().and_then(Upgraded::take)
            && let Some(socket) = self.socket.take()
        {
            let (context, client) = (self.context.clone(), self.client.clone());
            tokio::spawn(tunnel::serve(context, client, socket, response, tunnel));
            return None;
        }
        // Success would mean that the WebSocket is open (RFC 8441 section 5).
        if self.socket.take().is_some() && response.status().is_success() {
            *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
        }
        let config::Server { timeouts, limits, .. } = &*self.context.config;
        let pace = Pace { patience: timeouts.send, rate: limits.send_rate };
        Sending::begin(self.client.clone(), response, self.is_head, pace)
    }
}
