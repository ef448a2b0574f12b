//! Answers a request: from its head to the end of the response.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h3::error::{Code, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::header::EXPECT;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use tokio::time::timeout;

use super::body::StreamBody;
use super::gate::Gate;
use super::head;
use super::shared::{Shared, count};
use super::stream::Stream;
use super::transport::{SendStream, Transport};
use crate::http::multiplex::{Priority, complete, refuse};
use crate::request::account::Moments;
use crate::request::pipeline::{self, Serving};
use crate::response::Reply;

/// Bytes of a response that are sent as one frame. So many have to be taken within `timeouts.send`,
/// which is slower than `limits.send_rate` by default. Ten times less would double the frames'
/// heads and calls of the libraries; ten times more would have a slow client closed that keeps the
/// rate.
const PIECE: usize = 16 * 1024;

/// Answers the request whose stream this is.
pub async fn answer(
    shared: Arc<Shared>,
    resolver: RequestResolver<Transport, Bytes>,
    gate: Arc<Gate>,
) {
    let head = timeout(shared.context.config.timeouts.head, resolver.resolve_request()).await;
    let (request, mut stream) = match head {
        Ok(Ok(resolved)) => resolved,
        // The client has gone on without this request, or was told what is wrong; or it has
        // taken too long.
        Ok(Err(_)) | Err(_) => return shared.cancelled(),
    };
    gate.used();
    if head::is_malformed(&request) {
        stream.stop_sending(Code::H3_MESSAGE_ERROR);
        stream.stop_stream(Code::H3_MESSAGE_ERROR);
        return shared.cancelled();
    }
    let id = stream.id().into_inner();
    let outcome = respond(&shared, id, request, stream, gate).await;
    shared.end(id);
    if let Err(Cancelled) = outcome {
        shared.cancelled();
    }
}

/// The client does not want the response any more, or has gone.
struct Cancelled;

impl From<StreamError> for Cancelled {
    fn from(_: StreamError) -> Cancelled {
        Cancelled
    }
}

/// The request has come: serves it.
async fn respond(
    shared: &Arc<Shared>,
    id: u64,
    request: Request<()>,
    stream: RequestStream<super::transport::BidiStream, Bytes>,
    gate: Arc<Gate>,
) -> Result<(), Cancelled> {
    let Shared { context, state, .. } = &**shared;
    let is_exact = context.wants_exact_times();
    let now = if is_exact { tokamak_cost::now() } else { tokamak_cost::coarse() };
    count(context, |http3| &http3.requests);
    let client = Stream::new(state.clone(), gate, state.begin(now));
    let said = Priority::of_request(request.headers());
    shared.begin(id, &client, said);
    let is_head = request.method() == Method::HEAD;
    let (mut send, recv) = stream.split();
    let serving = match head::request(&context.config.limits, request) {
        Ok((request, length)) => {
            let expects = request.headers().get(EXPECT);
            let expects = expects
                .is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"));
            let body = StreamBody::new(recv, &client, length, expects);
            let moments = Moments { began: now, now };
            pipeline::serve(context, client.clone(), request.map(|()| body), moments)
        }
        Err(violation) => refuse(client.clone(), violation, now),
    };
    let response = wait(&client, &mut send, serving).await.inspect_err(|Cancelled| {
        send.stop_stream(Code::H3_REQUEST_CANCELLED);
    })?;
    send_response(shared, &client, &mut send, response, is_head, said).await
}

/// Waits for the response. Sends interim ones meanwhile.
async fn wait(
    client: &Stream,
    send: &mut RequestStream<SendStream, Bytes>,
    mut serving: Serving,
) -> Result<Response<Reply>, Cancelled> {
    loop {
        let next = poll_fn(|cx| {
            if let Poll::Ready(interim) = client.poll_interim(cx) {
                return Poll::Ready(Err(interim));
            }
            Pin::new(&mut serving).poll(cx).map(Ok)
        });
        match next.await {
            Ok(response) => return response.map_err(|_| Cancelled),
            Err(interim) => send.send_response(interim).await?,
        }
    }
}

async fn send_response(
    shared: &Shared,
    client: &Stream,
    send: &mut RequestStream<SendStream, Bytes>,
    response: Response<Reply>,
    is_head: bool,
    said: Priority,
) -> Result<(), Cancelled> {
    let (head, body, is_end) = complete(response, is_head);
    shared.set_response_priority(client, head.headers(), said);
    client.gate.answer();
    send.send_response(head).await?;
    if is_end || send_body(shared, send, body).await? {
        send.finish().await?;
    }
    Ok(())
}

/// Sends the body. Returns whether that was all of it; else the client has learnt that it is not.
async fn send_body(
    shared: &Shared,
    send: &mut RequestStream<SendStream, Bytes>,
    mut body: Reply,
) -> Result<bool, Cancelled> {
    let patience = shared.context.config.timeouts.send;
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let mut piece = match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(piece))) => piece,
            Some(Ok(Err(frame))) => {
                send.send_trailers(frame.into_trailers().unwrap_or_default()).await?;
                return Ok(true);
            }
            Some(Err(_)) => {
                send.stop_stream(Code::H3_INTERNAL_ERROR);
                return Ok(false);
            }
            None => return Ok(true),
        };
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(PIECE));
            let Ok(sent) = timeout(patience, send.send_data(part)).await else {
                send.stop_stream(Code::H3_REQUEST_CANCELLED);
                return Ok(false);
            };
            sent?;
        }
    }
}
