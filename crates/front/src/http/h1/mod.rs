//! HTTP/1.0 and HTTP/1.1: the bytes of a connection pass the screen, the HTTP library parses them,
//! and each request passes the pipeline.

mod io;
pub mod screen;
mod state;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task;
use std::task::{Poll, ready};

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::client::Client;
use crate::context::Context;
use crate::log;
use crate::request::body::Cut;
use crate::request::pipeline::{self, Gone, Moments, Serving};
use crate::response::Reply;

pub use io::{H1Io, turn_away};
pub use state::{ConnHistory, ConnState};

/// What becomes of a connection.
enum End {
    Closed(hyper::Result<()>),
    /// Another event loop goes on.
    HandedOver(usize),
}

/// Serves the requests of one connection, one after the other, until it ends, or until another
/// event loop is to go on: then the connection, and the position of that loop.
pub async fn converse(
    context: Arc<Context>,
    io: H1Io,
    state: Arc<ConnState>,
) -> Option<(H1Io, usize)> {
    let limits = &context.config.limits;
    let mut http = http1::Builder::new();
    // The library would look for the end of the connection during every request, with a new buffer
    // each time. We look, if an answer has to wait (`Client::poll_gone`).
    http.half_close(true);
    // The event loop looks after time limits, for all connections at once.
    http.header_read_timeout(None).max_buf_size(limits.head.max(8192) + 4096);
    if limits.headers > 100 {
        http.max_headers(limits.headers);
    }
    let service = {
        let (context, state) = (context.clone(), state.clone());
        service_fn(move |request| serve(&context, &state, request))
    };
    let mut connection = http.serve_connection(io, service);
    // The request behind which the connection was ready to move. It moves only if it still is at
    // another look: the library may have the rest of a body that nobody wanted, and goes on, or
    // ends, when it is asked once more.
    let mut settled = None;
    let end = poll_fn(|cx| {
        if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
            return Poll::Ready(End::Closed(result));
        }
        let (balancer, requests) = (&context.balancer, state.requests());
        if !balancer.has_surplus(context.index) || !state.is_between_requests() {
            settled = None;
        } else if settled.replace(requests) != Some(requests) {
            cx.waker().wake_by_ref();
        } else if let Some(target) = handover_target(&context) {
            return Poll::Ready(End::HandedOver(target));
        }
        Poll::Pending
    });
    let end = end.await;
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let result = match end {
        End::Closed(result) => result,
        // Bytes that the library holds are never seen here; better closed than half understood.
        End::HandedOver(target) => return read_buf.is_empty().then_some((io, target)),
    };
    let peer = &state.addresses().peer;
    if let Some(violation) = state.violation() {
        log::refused(peer, violation.failure().status().as_u16(), violation.reason());
        // Boxed, as few connections ever need its room.
        Box::pin(io.part()).await;
    } else if let Err(error) = result
        && error.is_parse()
    {
        // The screen lets nothing pass that the library refuses. If it does so all the same, this
        // line tells.
        log::refused(peer, 400, &error.to_string());
    }
    None
}

/// The loop that takes over a connection which is between two requests, if any.
fn handover_target(context: &Context) -> Option<usize> {
    // Loops that have nothing left to do may have ended.
    if context.is_draining() {
        return None;
    }
    context.balancer.handover_target(context.index, tokamak_cost::coarse())
}

/// Answers one request.
fn serve(context: &Arc<Context>, state: &Arc<ConnState>, request: Request<Incoming>) -> Respond {
    // The log wants to know it exactly.
    let is_exact = context.access_log.is_some();
    let now = if is_exact { tokamak_cost::now() } else { tokamak_cost::coarse() };
    let moments = Moments { began: state.serve(request.version(), now), now };
    let request = request.map(|body| body.map_err(|_| Cut));
    let serving = pipeline::serve(context, state.clone(), request, moments);
    Respond { serving, context: context.clone() }
}

/// The response to a request, with what HTTP/1 alone says in it.
struct Respond {
    serving: Serving,
    context: Arc<Context>,
}

impl Future for Respond {
    type Output = Result<Response<Reply>, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(Pin::new(&mut self.serving).poll(cx))?;
        if self.context.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(response))
    }
}
