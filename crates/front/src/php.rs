//! A request to a PHP pool: its body is gathered, it is queued, and the worker's answer becomes a response.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::Write;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokamak_config::Limits;
use tokamak_cost::Phase;
use tokamak_upstream::body::Body;
use tokamak_upstream::record::{Field, Writer};
use tokamak_upstream::shm::{DECLINED, Death, Event, Exchange, Fault, Outcome, Refused, ResponseHead, Rim};
use tokio::time::timeout;

use crate::access;
use crate::connection::Link;
use crate::failure::Failure;
use crate::response::{Receipt, Reply, Source};
use crate::route::Script;
use crate::server::{Loop, Place};

thread_local! {
    /// The request record under construction; written and used without a pause in between.
    static RECORD: RefCell<Writer> = RefCell::new(Writer::new());
}

/// Serves `request` by running `script`.
///
/// # Errors
/// The failure that the client is to be told. The operator has been told.
pub async fn serve(
    home: &Arc<Loop>,
    place: &Place,
    link: &Link,
    mut request: Request<Incoming>,
    script: &Script,
    receipt: &mut Receipt,
) -> Result<Response<Source>, Failure> {
    exchange(home, place, link, &mut request, script, receipt).await.map_err(|trouble| {
        let (failure, reason) = match trouble {
            Trouble::Failure(failure) => (failure, failure.text().to_owned()),
            Trouble::Fault(fault) => (failure(fault), fault.to_string()),
        };
        access::failed(&place.site.name, failure, &reason, &request);
        failure
    })
}

/// What went wrong: by the front's own judgement, or between it and the worker.
enum Trouble {
    Failure(Failure),
    Fault(Fault),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Failure(failure)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

async fn exchange(
    home: &Arc<Loop>,
    place: &Place,
    link: &Link,
    request: &mut Request<Incoming>,
    script: &Script,
    receipt: &mut Receipt,
) -> Result<Response<Source>, Trouble> {
    let body = if request.body().is_end_stream() {
        Body::Empty
    } else {
        let body = gather(home, request.body_mut())
            .await
            .map_err(|failure| link.violation().map_or(failure, |violation| violation.failure()))?;
        receipt.ledger.stamp(Phase::Body, tokamak_cost::now());
        body
    };
    let may_retry = matches!(*request.method(), Method::GET | Method::HEAD) && matches!(body, Body::Empty);
    // What may not be asked twice goes straight to those who cannot decline it.
    let fallback = place.fallback.map(|index| &home.places[index].rim);
    let mut rim = fallback.filter(|_| !may_retry).unwrap_or(&place.rim);
    let mut exchange = submit(rim, place, link, request, script, body)?;
    let mut first = head(link, request.version(), &mut exchange).await;
    if let (true, Ok(Some(answer)), Some(fallback)) = (may_retry, &first, fallback)
        && answer.status() == DECLINED
    {
        rim = fallback;
        exchange = submit(rim, place, link, request, script, Body::Empty)?;
        first = head(link, request.version(), &mut exchange).await;
    }
    // The worker died before it had said anything, and asking twice does no harm: ask another one.
    if may_retry && matches!(first, Err(Fault::Died { death: Death::Crashed, answered: false })) {
        exchange = submit(rim, place, link, request, script, Body::Empty)?;
        first = head(link, request.version(), &mut exchange).await;
    }
    match first? {
        Some(head) => Ok(respond(head, exchange, receipt)?),
        None => Err(Failure::WorkerBroken.into()),
    }
}

fn failure(fault: Fault) -> Failure {
    match fault {
        Fault::Waited => Failure::QueueSlow,
        Fault::Died { death: Death::Crashed, .. } => Failure::WorkerGone,
        Fault::Died { death: Death::TimedOut, .. } => Failure::WorkerSlow,
        Fault::Malformed => Failure::WorkerBroken,
        Fault::Spool => Failure::Internal,
    }
}

/// Reads the whole body: into memory up to the configured bound, then into an unlinked file.
async fn gather(home: &Loop, body: &mut Incoming) -> Result<Body, Failure> {
    let Limits { buffer, body: most, .. } = home.server.limits;
    let pause = home.server.timeouts.body;
    let mut memory =
        BytesMut::with_capacity(body.size_hint().exact().unwrap_or(0).min(buffer as u64) as usize);
    let mut spool = None;
    let mut len = 0u64;
    loop {
        let frame = match timeout(pause, body.frame()).await {
            Err(_) => return Err(Failure::BodySlow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Failure::BadRequest),
            Ok(Some(Ok(frame))) => frame,
        };
        home.attend(tokamak_cost::now());
        let Ok(data) = frame.into_data() else { continue };
        len += data.len() as u64;
        if len > most {
            return Err(Failure::BodyTooLarge);
        }
        if spool.is_none() && memory.len() + data.len() > buffer {
            let mut file = tempfile::tempfile().map_err(|_| Failure::Internal)?;
            file.write_all(&memory).map_err(|_| Failure::Internal)?;
            memory = BytesMut::new();
            spool = Some(file);
        }
        match &mut spool {
            Some(file) => file.write_all(&data).map_err(|_| Failure::Internal)?,
            None => memory.extend_from_slice(&data),
        }
    }
    Ok(match spool {
        Some(file) => Body::spooled(file, len),
        None if memory.is_empty() => Body::Empty,
        None => Body::Memory(memory.freeze()),
    })
}

fn submit(
    rim: &Arc<Rim>,
    place: &Place,
    link: &Link,
    request: &Request<Incoming>,
    script: &Script,
    body: Body,
) -> Result<Exchange, Failure> {
    RECORD.with_borrow_mut(|record| {
        write_record(record, place, link, request, script, &body);
        rim.submit(record.bytes(), body).map_err(|(refused, _)| match refused {
            Refused::Full => Failure::QueueFull,
            Refused::TooLarge => Failure::HeadTooLarge,
        })
    })
}

fn write_record(
    record: &mut Writer,
    place: &Place,
    link: &Link,
    request: &Request<Incoming>,
    script: &Script,
    body: &Body,
) {
    let mut number = Decimal::default();
    let uri = request.uri();
    let headers = request.headers();
    record.clear();
    record.field(Field::Method, request.method().as_str().as_bytes());
    record.field(Field::Uri, uri.path_and_query().map_or("/", |p| p.as_str()).as_bytes());
    record.field(Field::Query, uri.query().unwrap_or("").as_bytes());
    record.field(Field::ScriptFilename, script.filename.as_os_str().as_encoded_bytes());
    record.field(Field::ScriptName, &script.script_name);
    record.field(Field::PathInfo, &script.path_info);
    record.field(Field::DocumentRoot, &place.root);
    // As with nginx, whose `try_files` goes on with the script's own name.
    record.field(Field::DocumentUri, &script.script_name);
    record.field(Field::ServerName, place.server_name(request).as_bytes());
    record.field(Field::ServerAddr, link.text.local.as_bytes());
    record.field(Field::ServerPort, number.text(link.local.port().into()));
    record.field(Field::RemoteAddr, link.text.peer.as_bytes());
    record.field(Field::RemotePort, number.text(link.peer.port().into()));
    let protocol = if request.version() == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    record.field(Field::Protocol, protocol.as_bytes());
    record.field(Field::Scheme, b"http");
    record.field(Field::ContentType, headers.get(header::CONTENT_TYPE).map_or(b"", |v| v.as_bytes()));
    // Without a body nothing is said, unless the client said "0" itself.
    let said = headers.contains_key(header::CONTENT_LENGTH);
    let length = if body.left() > 0 || said { number.text(body.left()) } else { b"" };
    record.field(Field::ContentLength, length);
    for (name, value) in headers {
        // The body has been gathered and is complete: how it was framed no longer holds.
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            record.header(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if said {
        record.header(b"content-length", number.text(body.left()));
    }
}

/// A number as decimal text, without an allocation.
#[derive(Default)]
struct Decimal {
    digits: [u8; 20],
}

impl Decimal {
    fn text(&mut self, mut n: u64) -> &[u8] {
        let mut at = self.digits.len();
        loop {
            at -= 1;
            self.digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return &self.digits[at..];
            }
        }
    }
}

/// Waits for the response's head, passing interim responses on. `None`: the worker ended without one.
async fn head(link: &Link, version: Version, exchange: &mut Exchange) -> Result<Option<ResponseHead>, Fault> {
    // A client of HTTP/1.0 would take it for the response (RFC 9110 section 15.2).
    let takes_interim = version == Version::HTTP_11;
    loop {
        match poll_fn(|context| exchange.poll_event(context)).await? {
            Event::Head(head) => return Ok(Some(head)),
            Event::Interim(head) => {
                if let Some(bytes) = interim(&head).filter(|_| takes_interim) {
                    link.send_interim(&bytes);
                }
            }
            Event::Body(_) => return Err(Fault::Malformed),
            Event::End(_) => return Ok(None),
        }
    }
}

/// An interim response as it is sent. `None` for what is none: any other status would be taken for the response, and
/// the response for that of the next request; 101 would end HTTP on this connection.
fn interim(head: &ResponseHead) -> Option<Vec<u8>> {
    let status = StatusCode::from_u16(head.status()).ok()?;
    if !(102..200).contains(&status.as_u16()) {
        return None;
    }
    let mut bytes =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or("")).into_bytes();
    head.for_each_header(|name, value| {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
    });
    bytes.extend_from_slice(b"\r\n");
    Some(bytes)
}

fn respond(
    head: ResponseHead,
    mut exchange: Exchange,
    receipt: &mut Receipt,
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
    if !sound {
        return Err(Failure::WorkerBroken);
    }
    // It has no body, so it has no length either (RFC 9110 section 8.6).
    if response.status() == StatusCode::NO_CONTENT {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    let Some(left) = exchange.body_left() else {
        *response.body_mut() = Source::Worker(Box::new(exchange));
        return Ok(response);
    };
    // The worker is done and all is here: one piece, with its true length.
    let (body, outcome) = whole(&mut exchange, left);
    if outcome == Outcome::Broken {
        return Err(Failure::WorkerBroken);
    }
    exchange.stamp(&mut receipt.ledger);
    if let Some(said) = response.headers().get(header::CONTENT_LENGTH)
        && !body.is_empty()
        && said.as_bytes() != Decimal::default().text(body.len() as u64)
    {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    *response.body_mut() = Source::Whole(body);
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

/// Headers of the connection, not of the message, are the server's business (RFC 9110 section 7.6.1).
fn put_header(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    const CONNECTION: [HeaderName; 4] =
        [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TRAILER];
    if CONNECTION.contains(&name) || name.as_str() == "keep-alive" {
        return;
    }
    // The length frames the message: only a plain number, and only one, may pass.
    if name == header::CONTENT_LENGTH {
        let plain = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
        if plain && !headers.contains_key(&name) {
            headers.insert(name, value);
        }
        return;
    }
    // `header("Content-Type:")` is how a script asks for none.
    if name == header::CONTENT_TYPE && value.is_empty() {
        return;
    }
    headers.append(name, value);
}

/// Joins a response's head and source with its receipt.
pub fn reply(response: Response<Source>, receipt: Receipt) -> Response<Reply> {
    response.map(|source| Reply::new(source, receipt))
}
