//! HTTP/1.0 and HTTP/1.1. The bytes of a connection pass the screen, the HTTP library parses them,
//! and each request goes through the pipeline.

mod io;
pub mod screen;
mod state;
mod stream;
mod tunnel;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::client::{Client, host};
use crate::context::Context;
use crate::header_list::has_word;
use crate::log;
use crate::request::account::Moments;
use crate::request::body::Cut;
use crate::request::pipeline::{self, Serving};
use crate::request::respond::Gone;
use crate::response::Reply;
use crate::websocket::Upgraded;

use stream::{Leaving, LibraryBody};

pub use io::{H1Io, part_from, turn_away, turn_away_at_once};
pub use state::{ConnHistory, ConnState};

/// What is to be done with a connection when this protocol is through with it.
pub enum Next {
    /// Nothing: it is to be closed.
    Close,
    /// The event loop with this index takes it over.
    HandOver(usize),
    /// The client speaks HTTP/2. These bytes of it have come.
    Http2(Bytes),
}

/// How the serving of a connection ends.
enum End {
    Closed(hyper::Result<()>),
    /// Another event loop takes over the connection.
    HandedOver(usize),
    /// The client has not sent anything for a while. It need not hold the library's buffers.
    Resting,
    /// The head of a response has been sent whose body is not the library's business.
    Streaming,
}

/// Why a connection is taken from the library.
enum Pause {
    /// It rests.
    Rest,
    /// This body is to be sent.
    Stream(Box<Reply>),
    /// The library is through with it.
    End(Next),
}

/// Serves the requests of one connection, one after the other, until the connection is to be
/// closed, or is to be served elsewhere.
pub async fn serve_connection(
    context: Arc<Context>,
    mut io: H1Io,
    state: Arc<ConnState>,
) -> (H1Io, Next) {
    loop {
        // Boxed, so that a connection that rests does not hold the room that serving takes.
        match Box::pin(serve_until_rest(&context, io, &state)).await {
            (mut parted, Pause::End(next)) => {
                // Boxed, because few connections need this state.
                if let Some(tunnel) = state.take_tunnel() {
                    Box::pin(tunnel::serve(&context, &mut parted, &state, tunnel)).await;
                }
                return (parted, next);
            }
            (parted, Pause::Stream(reply)) => {
                if !Box::pin(stream::send(&parted, &state, reply)).await {
                    return (parted, Next::Close);
                }
                io = parted;
                continue;
            }
            (resting, Pause::Rest) => io = resting,
        }
        // The timeouts of the connection go on meanwhile.
        let _ = poll_fn(|cx| io.poll_arrival(cx)).await;
        state.wake();
    }
}

/// Serves the requests of one connection until it has been idle for a while, or a body is to be
/// sent without the library.
async fn serve_until_rest(
    context: &Arc<Context>,
    io: H1Io,
    state: &Arc<ConnState>,
) -> (H1Io, Pause) {
    let limits = &context.config.limits;
    let mut http = http1::Builder::new();
    // Without this the library would check for the end of the connection during every request, with
    // a new buffer each time. Instead `Client::poll_gone` checks when a response has to wait.
    http.half_close(true);
    // The event loop checks the timeouts of all connections.
    http.header_read_timeout(None).max_buf_size(limits.head.max(8192) + 4096);
    if limits.headers > 100 {
        http.max_headers(limits.headers);
    }
    // What lasts for long are updates of hubs.
    let leaving = context.hubs().next().map(|_| Arc::<Leaving>::default());
    let service = {
        let (context, state, leaving) = (context.clone(), state.clone(), leaving.clone());
        service_fn(move |request| serve(&context, &state, &leaving, request))
    };
    let mut connection = http.serve_connection(io, service);
    // The number of requests after which the connection was ready to move. It moves only if it is
    // still ready at the next poll: the library may have to skip the rest of a request's body, and
    // continues, or ends the connection, when it is polled once more.
    let mut ready_at = None;
    let mut is_listening = false;
    let end = poll_fn(|cx| {
        if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
            return Poll::Ready(End::Closed(result));
        }
        if !is_listening {
            is_listening = true;
            state.activity.listen(cx.waker());
        }
        if leaving.as_ref().is_some_and(|leaving| leaving.is_wanted()) && state.is_written() {
            return Poll::Ready(End::Streaming);
        }
        if state.is_to_rest() {
            if state.is_between_requests() {
                return Poll::Ready(End::Resting);
            }
            // A request has come in the meantime.
            state.wake();
            state.activity.listen(cx.waker());
        }
        let (balancer, requests) = (&context.balancer, state.requests());
        if !balancer.has_surplus(context.index) || !state.can_move() {
            ready_at = None;
        } else if ready_at.replace(requests) != Some(requests) {
            cx.waker().wake_by_ref();
        } else if let Some(target) = handover_target(context) {
            return Poll::Ready(End::HandedOver(target));
        }
        Poll::Pending
    });
    let end = end.await;
    let http1::Parts { mut io, read_buf, .. } = connection.into_parts();
    let result = match end {
        // A client may not speak before the answer: an application could take its bytes for another
        // request than this server has.
        End::Closed(_) if state.is_upgraded() => {
            if !read_buf.is_empty() || !io.is_passed_on() || state.violation().is_some() {
                drop(state.take_tunnel());
            }
            return (io, Pause::End(Next::Close));
        }
        End::Closed(result) => result,
        // If there are unused bytes of the client, the connection is closed, because they would be
        // lost in a handover. This has never been seen.
        End::HandedOver(target) => {
            let is_whole = read_buf.is_empty() && io.is_passed_on();
            return (io, Pause::End(if is_whole { Next::HandOver(target) } else { Next::Close }));
        }
        End::Resting => {
            io.give_back(read_buf);
            return (io, Pause::Rest);
        }
        End::Streaming => {
            if io.is_in_body() {
                return (io, Pause::End(Next::Close));
            }
            io.give_back(read_buf);
            let reply = leaving.and_then(|leaving| leaving.take());
            return (io, reply.map_or(Pause::End(Next::Close), Pause::Stream));
        }
    };
    if let Some(come) = io.take_http2() {
        return (io, Pause::End(Next::Http2(come)));
    }
    let peer = &state.addresses().peer;
    if let Some(violation) = state.violation() {
        log::refused(peer, violation.failure().status().as_u16(), violation.reason());
        // Boxed, because few connections need this state.
        Box::pin(io.part()).await;
    } else if let Err(error) = result
        && error.is_parse()
    {
        // The screen should let nothing pass that the library refuses. If it does, this line shows
        // it.
        log::refused(peer, 400, &error.to_string());
    } else if io.is_in_body() {
        // The response has come before the body, as with one that is too large. If the connection
        // were closed now, the kernel would reset it, and the client might lose the response.
        Box::pin(io.part()).await;
    }
    (io, Pause::End(Next::Close))
}

/// The loop that should take over a connection between two requests, if any.
fn handover_target(context: &Context) -> Option<usize> {
    // The other loop may have ended already.
    if context.is_draining() {
        return None;
    }
    context.balancer.handover_target(context.index, tokamak_cost::coarse())
}

/// Answers one request.
fn serve(
    context: &Arc<Context>,
    state: &Arc<ConnState>,
    leaving: &Option<Arc<Leaving>>,
    mut request: Request<Incoming>,
) -> Respond {
    host::from_target(&mut request);
    let now =
        if context.wants_exact_times() { tokamak_cost::now() } else { tokamak_cost::coarse() };
    let moments = Moments { began: state.serve(now), now };
    let leaving = leaving.clone().filter(|_| may_leave(&request));
    let request = request.map(|body| body.map_err(|_| Cut::Lost));
    let serving = pipeline::serve(context, state.clone(), request, moments);
    Respond { serving, context: context.clone(), state: state.clone(), leaving }
}

/// Whether the response to a request may be sent without the library: a client of HTTP/1.0 does not
/// know chunks; closing is the library's business, and so is a body that nobody has read, which
/// would be taken for the next request.
fn may_leave(request: &Request<Incoming>) -> bool {
    let closes = |list| has_word(list, b"close");
    request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && !request.headers().get_all(CONNECTION).iter().any(closes)
}

/// Whether the library sends the body of a response with this head in chunks. Scripts may have
/// changed it.
fn is_chunked<B>(response: &Response<B>) -> bool {
    let of_framing = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    response.status() == StatusCode::OK
        && !of_framing.iter().any(|name| response.headers().contains_key(name))
}

/// The future response to a request, with the header fields that only HTTP/1 has.
struct Respond {
    serving: Serving,
    context: Arc<Context>,
    state: Arc<ConnState>,
    leaving: Option<Arc<Leaving>>,
}

impl Future for Respond {
    type Output = Result<Response<LibraryBody>, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(Pin::new(&mut self.serving).poll(cx))?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(upgraded) = response.extensions_mut().remove::<Upgraded>() {
                self.state.upgrade(upgraded);
            }
        } else if self.context.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // The library would make one up.
        if response.status().canonical_reason().is_none()
            && response.extensions().get::<ReasonPhrase>().is_none()
        {
            response.extensions_mut().insert(ReasonPhrase::from_static(b""));
        }
        let leaving = self.leaving.as_ref().filter(|_| is_chunked(&response));
        let body = |reply: Reply| match leaving {
            Some(leaving) if reply.is_endless() => {
                self.state.begin_head();
                leaving.put(reply);
                LibraryBody::Left
            }
            _ => LibraryBody::Own(reply),
        };
        Poll::Ready(Ok(response.map(body)))
    }
}
