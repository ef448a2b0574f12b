//! HTTP/2 (RFC 9113), over any transport. The HTTP library knows frames, windows and header
//! compression; each request goes through the same pipeline as one of HTTP/1.
//!
//! A connection has one task, which reads, opens requests and sends. A request that needs no
//! waiting is answered in it; every other one has a task of its own, so that the requests of one
//! connection take turns with those of all others.

mod body;
mod head;
mod io;
mod meter;
mod priority;
mod scheduler;
mod send;
mod state;
mod stream;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task;
use std::task::Poll;

use ::h2::server::{Builder, Connection, SendResponse};
use ::h2::{Reason, RecvStream};
use bytes::Bytes;
use http::header::EXPECT;
use http::{Method, Request};
use socket2::SockRef;
use tokamak_config as config;
use tokamak_cost::Ledger;
use tokamak_metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::client::activity::DRAIN_IDLE;
use crate::context::Context;
use crate::counters::{Http2Counters, Http2Fault};
use crate::http::h1::screen::Violation;
use crate::log;
use crate::request::pipeline::{self, Moments, Serving};
use crate::response::{Reply, RequestGuard, pages};
use body::StreamBody;
use io::H2Io;
use priority::Priority;
use scheduler::SEND_BUFFER;
use send::{Pace, Sending};
use stream::Stream;

pub use meter::Meter;
pub use state::ConnState;

/// Requests that a connection begins before other tasks of the event loop get their turn. Ten times
/// more would let one connection hold up all others for as long; a tenth would poll the connection
/// ten times as often.
const AT_ONCE: u32 = 16;

/// Bytes that the kernel may hold unsent when it gets more (`TCP_NOTSENT_LOWAT`). A response that
/// is more urgent is sent after what lies there. With 128 KiB, a page on a line of 20 megabits
/// waited 45 ms longer for its style sheet; large files over loopback come no slower with 16 KiB.
const NOTSENT_LOWAT: u32 = 16 * 1024;

/// Has the kernel keep few bytes of a connection that have not been sent.
pub fn bound_unsent(socket: &TcpStream) {
    // Without it (a socket of another kind) more urgent responses come later, that is all.
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(NOTSENT_LOWAT);
}

/// Serves the requests of one connection until it ends. `first`: bytes of the client that have been
/// read already.
pub fn converse<T>(
    context: Arc<Context>,
    transport: T,
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
    // Outside of the future, so that it does not keep room for the transport as well.
    let io = H2Io::new(transport, first, state.clone(), meter);
    async move {
        // Boxed, both of them, so that an idle connection holds the library's state once.
        let begun = Box::pin(begin(&context, &io, &state)).await;
        if let Some(connection) = begun {
            count(&context, |http2| &http2.connections);
            let addresses = &state.addresses;
            let is_from_proxy =
                addresses.is_for_unnamed || context.config.proxies.trusts(addresses.peer.ip());
            let (left, has_ended) = (None, false);
            let mut serving =
                Conversation { context, state, io, connection, is_from_proxy, left, has_ended };
            poll_fn(|cx| serving.poll(cx)).await;
        }
    }
}

/// Waits until the client has begun. `None`: it has not, and the connection has ended.
async fn begin<T>(
    context: &Context,
    io: &H2Io<T>,
    state: &ConnState,
) -> Option<Box<Connection<H2Io<T>, Bytes>>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut handshake = builder(&context.config).handshake(io.clone());
    let begun = poll_fn(|cx| {
        let begun = Pin::new(&mut handshake).poll(cx);
        // The server's settings. The client need not wait for them, nor the server for it.
        if begun.is_pending() && matches!(io.poll_send(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(None);
        }
        begun.map(Some)
    });
    match begun.await? {
        Ok(connection) => return Some(Box::new(connection)),
        Err(error) if error.is_library() => {
            report(context, state, &error);
            // The library sends nothing when the preface is wrong.
            let _ = poll_fn(|cx| Pin::new(&mut io.clone()).poll_shutdown(cx)).await;
        }
        Err(_) => {}
    }
    None
}

/// Counts one, if anybody can see the number.
fn count(context: &Context, of: impl Fn(&Http2Counters) -> &Counter) {
    if let Some(counters) = &context.counters {
        of(&counters.http2).add(1);
    }
}

/// Logs why the library ended a connection, if the client is to blame.
fn report(context: &Context, state: &ConnState, error: &::h2::Error) {
    if let Some(reason) = error.reason()
        && error.is_library()
    {
        count(context, |http2| &http2.closed[Http2Fault::Protocol as usize]);
        log::closed(&state.addresses.peer, &format!("{reason:?} ({reason})"));
    }
}

/// The library with the limits of the configuration.
fn builder(config: &config::Server) -> Builder {
    let config::Server { http2, limits, .. } = config;
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(size(http2.streams))
        .initial_window_size(size(http2.window))
        .initial_connection_window_size(size(http2.connection_window))
        // Twice the limit, so that a head that is somewhat too large gets a page and a line in the
        // log. To one that is larger the library answers 431 by itself, and ends the connection at
        // four times of this.
        .max_header_list_size(size(2 * limits.head))
        // Requests that are cancelled before they are looked at. The meter counts these and all
        // others.
        .max_pending_accept_reset_streams(http2.resets)
        .max_send_buffer_size(SEND_BUFFER.min(limits.buffer));
    builder
}

/// The serving of one connection.
struct Conversation<T> {
    context: Arc<Context>,
    state: Arc<ConnState>,
    io: H2Io<T>,
    connection: Box<Connection<H2Io<T>, Bytes>>,
    /// Whether a proxy has opened it: its requests are of many clients, whose priorities say
    /// nothing of each other's.
    is_from_proxy: bool,
    /// When the client was told to open no more requests, in nanoseconds.
    left: Option<u64>,
    /// Whether the client has been told that the connection ends for its flood.
    has_ended: bool,
}

impl<T> Conversation<T>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    /// Reads, begins requests and sends, until there is nothing to do.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.state.activity.listen(cx.waker());
        if self.state.is_leaving() && self.left.is_none() {
            self.left = Some(tokamak_cost::coarse());
            self.connection.graceful_shutdown();
        }
        let mut begun = 0;
        loop {
            let accepted = pin!(self.connection.accept()).poll(cx);
            match accepted {
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(Err(error))) => {
                    // A flood has been reported already.
                    if !self.has_ended {
                        report(&self.context, &self.state, &error);
                    }
                    return Poll::Ready(());
                }
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.begin(request, respond, cx);
                    begun += 1;
                    if begun < AT_ONCE {
                        continue;
                    }
                    cx.waker().wake_by_ref();
                }
                Poll::Pending => {
                    if let Some(flood) = self.io.flood()
                        && !self.has_ended
                    {
                        self.has_ended = true;
                        count(&self.context, |http2| &http2.closed[flood.fault() as usize]);
                        log::closed(&self.state.addresses.peer, flood.reason());
                        self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                        continue;
                    }
                }
            }
            break;
        }
        match self.io.poll_send(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(())) => {
                self.state.scheduler.sent_all();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Begins to answer a request.
    fn begin(
        &mut self,
        mut request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        cx: &mut task::Context<'_>,
    ) {
        let Conversation { context, state, io, is_from_proxy, left, .. } = self;
        let is_exact = context.wants_exact_times();
        let now = if is_exact { tokamak_cost::now() } else { tokamak_cost::coarse() };
        if left.is_some_and(|left| now.saturating_sub(left) > DRAIN_IDLE.as_nanos() as u64) {
            // The library would accept requests until the client answers the PING of its farewell.
            count(context, |http2| &http2.refused);
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        count(context, |http2| &http2.requests);
        io.accepted();
        let number = state.begin(now);
        if number as usize >= context.config.http2.requests {
            state.leave(now);
        }
        let priority = (!*is_from_proxy).then(|| Priority::of_request(request.headers()));
        let client = Stream::new(state.clone(), number, priority, respond);
        let is_head = request.method() == Method::HEAD;
        let serving = match head::check(&context.config.limits, &mut request) {
            Ok(length) => {
                let waits = request
                    .headers()
                    .get(EXPECT)
                    .is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"));
                let waiting = waits.then(|| client.clone());
                let request = request.map(|body| StreamBody::new(body, length, waiting));
                pipeline::serve(context, client.clone(), request, Moments { began: now, now })
            }
            Err(violation) => refuse(&client, violation, now),
        };
        let mut answer = Answer { client, serving, is_head, context: context.clone() };
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
        self.state.scheduler.close();
    }
}

/// The page for a request that breaks a rule. It is not written into the access log, as one of
/// HTTP/1 is not.
fn refuse(client: &Arc<Stream>, violation: Violation, now: u64) -> Serving {
    let failure = violation.failure();
    let peer = &client.peer();
    log::refused(peer, failure.status().as_u16(), violation.reason());
    let guard = RequestGuard::new(Some(client.clone()), Ledger::unread(now));
    Serving::Now(Some(Reply::respond(pages::failed(failure), guard)))
}

/// The answer to a request.
struct Answer {
    client: Arc<Stream>,
    serving: Serving,
    is_head: bool,
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

    fn begin(&self, response: http::Response<Reply>) -> Option<Sending> {
        let config::Server { timeouts, limits, .. } = &*self.context.config;
        let pace = Pace { patience: timeouts.send, rate: limits.send_rate };
        Sending::begin(self.client.clone(), response, self.is_head, pace)
    }
}
