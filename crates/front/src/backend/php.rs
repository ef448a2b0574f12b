//! Sends a request to a PHP pool: queues it, and makes a response of the worker's answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{self, Poll, ready};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use tokamak_cost::Ledger;
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Writer;
use tokamak_upstream::shm::{
    DECLINED, Event, Gate, HEAD_BODY_MOST, Metadata, Outcome, QueuedRequest, Refused, ResponseHead,
    WorkerError,
};

use super::response_head::{drop_connection_fields, is_interim, put_header, reason_phrase};
use super::{BackendError, BackendRequest, cgi, internal};
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
    let mut asked = WorkerCall::new(body);
    poll_fn(|cx| asked.poll(gate, call, may_decline, ledger, cx)).await
}

/// A request to workers, until its response begins.
pub struct WorkerCall {
    /// The request's body, until it is queued.
    body: Body,
    exchange: Option<QueuedRequest>,
    repeats: u32,
}

impl WorkerCall {
    /// A request with this body, which is still to be queued.
    pub fn new(body: Body) -> WorkerCall {
        WorkerCall { body, exchange: None, repeats: 0 }
    }

    /// Queues the request and waits for the response to begin, passing interim responses on. The
    /// gate and the request are the same each time; the rest is as for [`ask`].
    pub fn poll(
        &mut self,
        gate: &Gate,
        call: &BackendRequest<'_>,
        may_decline: bool,
        ledger: &mut Ledger,
        cx: &mut task::Context<'_>,
    ) -> Poll<Result<Option<Response<Source>>, BackendError>> {
        loop {
            let exchange = match &mut self.exchange {
                Some(exchange) => exchange,
                None => {
                    let body = std::mem::take(&mut self.body);
                    self.exchange.insert(submit(gate, call, body, ledger)?)
                }
            };
            match ready!(exchange.poll_event(cx)) {
                Ok(Event::Head(head)) if head.status() == DECLINED => {
                    return Poll::Ready(if may_decline { Ok(None) } else { Err(no_fallback()) });
                }
                Ok(Event::Head(head)) => {
                    let exchange = self.exchange.take();
                    let response = exchange.map(|exchange| respond(call, &head, exchange, ledger));
                    return Poll::Ready(response.transpose());
                }
                Ok(Event::Interim(head)) => send_interim(call.arrival.caller, &head),
                // A worker sends these only for requests over FastCGI.
                Ok(Event::Stderr(_) | Event::Usage(_)) => {}
                Ok(Event::Body(_)) => return Poll::Ready(Err(WorkerError::Malformed.into())),
                Ok(Event::End(_)) => return Poll::Ready(Err(Failure::WorkerBroken.into())),
                Err(fault) => {
                    ledger.mark(fault.phase());
                    if !self.may_be_repeated(call, &fault) {
                        return Poll::Ready(Err(fault.into()));
                    }
                    self.repeats += 1;
                    self.exchange = None;
                }
            }
        }
    }

    /// Whether the request may be given to another worker.
    fn may_be_repeated(&self, call: &BackendRequest<'_>, fault: &WorkerError) -> bool {
        call.is_repeatable
            && self.repeats < fault.repeats()
            && Failure::from(fault).retry() == Retry::Once
    }
}

impl From<WorkerError> for BackendError {
    fn from(fault: WorkerError) -> BackendError {
        BackendError { failure: Failure::from(&fault), reason: fault.to_string().into() }
    }
}

/// The workers decline a request that no other backend may answer.
fn no_fallback() -> BackendError {
    let reason = "the application declined the request and the site has no fallback; \
        name the host of another site in site.fallback";
    BackendError { failure: Failure::WorkerBroken, reason: reason.into() }
}

fn submit(
    gate: &Gate,
    call: &BackendRequest<'_>,
    body: Body,
    ledger: &Ledger,
) -> Result<QueuedRequest, Failure> {
    RECORD.with_borrow_mut(|record| {
        record.clear();
        cgi::describe(record, call, body.left());
        let metadata = Metadata { ledger: Some(ledger), flow: call.arrival.caller.flow() };
        gate.submit(record.bytes(), body, metadata).map_err(|(refused, _)| match refused {
            Refused::Full => Failure::QueueFull,
            Refused::TooLarge => Failure::HeadTooLarge,
            Refused::Barren => Failure::NoWorkers,
        })
    })
}

/// Passes on an interim response. An invalid one is dropped.
fn send_interim(caller: &Caller, head: &ResponseHead) {
    let Ok(status) = StatusCode::from_u16(head.status()) else { return };
    let mut headers = HeaderMap::new();
    for (name, value) in head.headers() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            put_header(&mut headers, name, value);
        }
    }
    drop_connection_fields(&mut headers);
    if is_interim(status) {
        caller.send_interim(status, &headers);
    }
}

/// The body that a worker has made for a HEAD. The front computes the fields of the GET from it,
/// which it can do from a whole body only; it sends none of it.
fn of_head(source: Source) -> Source {
    match source {
        Source::Whole(bytes) if bytes.len() <= HEAD_BODY_MOST => Source::Whole(bytes),
        _ => Source::Empty,
    }
}

fn respond(
    call: &BackendRequest<'_>,
    head: &ResponseHead,
    exchange: QueuedRequest,
    ledger: &mut Ledger,
) -> Result<Response<Source>, BackendError> {
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = match StatusCode::from_u16(head.status()) {
        Ok(status) if !status.is_informational() => status,
        _ => return Err(Failure::WorkerBroken.into()),
    };
    let mut reason = None;
    let status = response.status();
    let headers = response.headers_mut();
    for (name, value) in head.headers() {
        if name.is_empty() {
            reason = reason_phrase(status, value);
            continue;
        }
        match (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            // Other applications cannot send what they announce so.
            (Ok(name), Ok(value)) if name == header::TRAILER => {
                headers.append(name, value);
            }
            (Ok(name), Ok(value)) => put_header(headers, name, value),
            _ => return Err(Failure::WorkerBroken.into()),
        }
    }
    drop_connection_fields(headers);
    let config = &call.arrival.site.config;
    if !config.internal.is_empty()
        && let Some(wanted) = internal::redirect_of(headers)
    {
        // The worker's own body is dropped, as if the client had gone.
        let own = std::mem::take(headers);
        return internal::send(call, &config.internal, own, &wanted);
    }
    let source = match exchange.whole() {
        Some((_, Outcome::Broken)) => return Err(Failure::WorkerBroken.into()),
        // The worker is done and the whole body is here: send it as one piece, with its real
        // length.
        Some((body, Outcome::Complete)) => {
            exchange.stamp(ledger);
            Source::Whole(body)
        }
        None => Source::Worker(Box::new(exchange)),
    };
    let source = if call.request.method() == Method::HEAD { of_head(source) } else { source };
    length::give(config, call.request, &mut response, source)
        .map_err(|reason| BackendError { failure: Failure::WorkerBroken, reason: reason.into() })?;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    Ok(response)
}
