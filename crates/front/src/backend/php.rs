//! Sends a request to a PHP pool: queues it, and makes a response of the worker's answer.

use std::cell::RefCell;
use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokamak_cost::Ledger;
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Writer;
use tokamak_upstream::shm::{
    DECLINED, Event, Gate, Outcome, QueuedRequest, Refused, ResponseHead, WorkerError,
};

use super::response_head::{drop_connection_fields, is_interim, put_header};
use super::{BackendError, BackendRequest, cgi};
use crate::caller::Caller;
use crate::failure::{Failure, Retry};
use crate::response::{Source, length};

thread_local! {
    /// The request record under construction. No `await` lies between its writing and its use, so
    /// one buffer serves all requests of the loop.
    static RECORD: RefCell<Writer> = RefCell::new(Writer::new());
}

/// Asks the workers behind `gate`. `None`: they decline the request, which they may only if
/// `may_decline` is set.
///
/// # Errors
/// Fails with the failure for the client and the reason for the log.
pub async fn ask(
    gate: &Gate,
    call: &BackendRequest<'_>,
    body: Body,
    may_decline: bool,
    ledger: &mut Ledger,
) -> Result<Option<Response<Source>>, BackendError> {
    let mut exchange = submit(gate, call, body)?;
    let mut first = head(call.arrival.caller, &mut exchange).await;
    if call.is_repeatable && first.as_ref().is_err_and(may_retry) {
        exchange = submit(gate, call, Body::Empty)?;
        first = head(call.arrival.caller, &mut exchange).await;
    }
    match first? {
        Some(head) if may_decline && head.status() == DECLINED => Ok(None),
        Some(head) => Ok(Some(respond(call, head, exchange, ledger)?)),
        None => Err(Failure::WorkerBroken.into()),
    }
}

impl From<WorkerError> for BackendError {
    fn from(fault: WorkerError) -> BackendError {
        BackendError { failure: Failure::from(&fault), reason: fault.to_string().into() }
    }
}

/// Whether the request may be given to another worker.
fn may_retry(fault: &WorkerError) -> bool {
    fault.allows_another() && Failure::from(fault).retry() == Retry::Once
}

fn submit(gate: &Gate, call: &BackendRequest<'_>, body: Body) -> Result<QueuedRequest, Failure> {
    RECORD.with_borrow_mut(|record| {
        record.clear();
        cgi::describe(record, call, body.left());
        gate.submit(record.bytes(), body).map_err(|(refused, _)| match refused {
            Refused::Full => Failure::QueueFull,
            Refused::TooLarge => Failure::HeadTooLarge,
        })
    })
}

/// Waits for the response's head, passing interim responses on. `None`: the worker ended without
/// one.
async fn head(
    caller: &Caller,
    exchange: &mut QueuedRequest,
) -> Result<Option<ResponseHead>, WorkerError> {
    loop {
        match poll_fn(|context| exchange.poll_event(context)).await? {
            Event::Head(head) => return Ok(Some(head)),
            Event::Interim(head) => send_interim(caller, &head),
            Event::Body(_) => return Err(WorkerError::Malformed),
            // A worker sends these only for requests over FastCGI.
            Event::Stderr(_) | Event::Usage(_) => {}
            Event::End(_) => return Ok(None),
        }
    }
}

/// Passes on an interim response. An invalid one is dropped.
fn send_interim(caller: &Caller, head: &ResponseHead) {
    let Ok(status) = StatusCode::from_u16(head.status()) else { return };
    let mut headers = HeaderMap::new();
    head.for_each_header(|name, value| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            put_header(&mut headers, name, value);
        }
    });
    drop_connection_fields(&mut headers);
    if is_interim(status) {
        caller.send_interim(status, &headers);
    }
}

fn respond(
    call: &BackendRequest<'_>,
    head: ResponseHead,
    mut exchange: QueuedRequest,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = match StatusCode::from_u16(head.status()) {
        Ok(status) if !status.is_informational() => status,
        _ => return Err(Failure::WorkerBroken),
    };
    let mut sound = true;
    let headers = response.headers_mut();
    head.for_each_header(|name, value| {
        match (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            (Ok(name), Ok(value)) => put_header(headers, name, value),
            _ => sound = false,
        }
    });
    drop_connection_fields(headers);
    if !sound {
        return Err(Failure::WorkerBroken);
    }
    let Some(left) = exchange.body_left() else {
        length::give(
            &call.arrival.site.config,
            call.request,
            &mut response,
            Source::Worker(Box::new(exchange)),
        );
        return Ok(response);
    };
    // The worker is done and the whole body is here: send it as one piece, with its real length.
    let (body, outcome) = whole(&mut exchange, left);
    if outcome == Outcome::Broken {
        return Err(Failure::WorkerBroken);
    }
    exchange.stamp(ledger);
    length::give(&call.arrival.site.config, call.request, &mut response, Source::Whole(body));
    Ok(response)
}

fn whole(exchange: &mut QueuedRequest, left: usize) -> (Bytes, Outcome) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let (mut one, mut many) = (Bytes::new(), BytesMut::new());
    loop {
        match exchange.poll_event(&mut context) {
            std::task::Poll::Ready(Ok(Event::Body(bytes))) => {
                if bytes.len() == left {
                    one = bytes;
                } else {
                    many.reserve(left - many.len());
                    many.extend_from_slice(&bytes);
                }
            }
            std::task::Poll::Ready(Ok(Event::End(outcome))) => {
                return (if many.is_empty() { one } else { many.freeze() }, outcome);
            }
            std::task::Poll::Ready(Ok(_)) => {}
            // Unreachable, because everything had been read. Treat it as a cut response all the
            // same.
            std::task::Poll::Ready(Err(_)) | std::task::Poll::Pending => {
                return (Bytes::new(), Outcome::Broken);
            }
        }
    }
}
