//! A request to a PHP pool: it is queued, and the worker's answer becomes a response.

use std::cell::RefCell;
use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};
use tokamak_cost::Ledger;
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Writer;
use tokamak_upstream::shm::{
    DECLINED, Death, Event, Exchange, Fault, Gate, Outcome, Refused, ResponseHead,
};

use crate::application::{Call, Trouble};
use crate::caller::Caller;
use crate::cgi;
use crate::failure::Failure;
use crate::head::{drop_connection_fields, interim, put_header};
use crate::response::{Source, length};

thread_local! {
    /// The request record under construction; written and used without a pause in between.
    static RECORD: RefCell<Writer> = RefCell::new(Writer::new());
}

/// Asks the workers behind `gate`. `None`: they decline, which they may if `may_decline` says so.
///
/// # Errors
/// [`Trouble`].
pub async fn ask(
    gate: &Gate,
    call: &Call<'_>,
    body: Body,
    may_decline: bool,
    ledger: &mut Ledger,
) -> Result<Option<Response<Source>>, Trouble> {
    let mut exchange = submit(gate, call, body)?;
    let mut first = head(call.caller, call.request.version(), &mut exchange).await;
    // The worker died before it had said anything, and asking twice does no harm: ask another one.
    if call.is_repeatable
        && matches!(first, Err(Fault::Died { death: Death::Crashed, answered: false }))
    {
        exchange = submit(gate, call, Body::Empty)?;
        first = head(call.caller, call.request.version(), &mut exchange).await;
    }
    match first? {
        Some(head) if may_decline && head.status() == DECLINED => Ok(None),
        Some(head) => Ok(Some(respond(call, head, exchange, ledger)?)),
        None => Err(Failure::WorkerBroken.into()),
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        let failure = match fault {
            Fault::Waited => Failure::QueueSlow,
            Fault::Died { death: Death::Crashed, .. } => Failure::WorkerGone,
            Fault::Died { death: Death::TimedOut, .. } => Failure::WorkerSlow,
            Fault::Malformed => Failure::WorkerBroken,
            Fault::Spool => Failure::Internal,
        };
        Trouble { failure, reason: fault.to_string().into() }
    }
}

fn submit(gate: &Gate, call: &Call<'_>, body: Body) -> Result<Exchange, Failure> {
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
    version: Version,
    exchange: &mut Exchange,
) -> Result<Option<ResponseHead>, Fault> {
    // A client of HTTP/1.0 would take it for the response (RFC 9110 section 15.2).
    let takes_interim = version == Version::HTTP_11;
    loop {
        match poll_fn(|context| exchange.poll_event(context)).await? {
            Event::Head(head) => return Ok(Some(head)),
            Event::Interim(head) => {
                if takes_interim {
                    send_interim(caller, &head);
                }
            }
            Event::Body(_) => return Err(Fault::Malformed),
            // Nobody is told: a worker says these only of requests over FastCGI.
            Event::Complaint(_) | Event::Account(_) => {}
            Event::End(_) => return Ok(None),
        }
    }
}

/// Passes on an interim response; what is none, or wrong, is left out.
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
    if let Some(bytes) = interim(status, &headers) {
        caller.send_interim(&bytes);
    }
}

fn respond(
    call: &Call<'_>,
    head: ResponseHead,
    mut exchange: Exchange,
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
        length::give(call, &mut response, Source::Worker(Box::new(exchange)));
        return Ok(response);
    };
    // The worker is done and all is here: one piece, with its true length.
    let (body, outcome) = whole(&mut exchange, left);
    if outcome == Outcome::Broken {
        return Err(Failure::WorkerBroken);
    }
    exchange.stamp(ledger);
    length::give(call, &mut response, Source::Whole(body));
    Ok(response)
}

fn whole(exchange: &mut Exchange, left: usize) -> (Bytes, Outcome) {
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
            // Cannot be: everything had been read. Treated as a cut response all the same.
            std::task::Poll::Ready(Err(_)) | std::task::Poll::Pending => {
                return (Bytes::new(), Outcome::Broken);
            }
        }
    }
}
