//! Sends a request to an application behind connections: over FastCGI as CGI variables, whose
//! answer is read as that of a CGI program (RFC 3875), or over HTTP.

mod affinity;
mod authorizer;
mod checks;
mod complaints;
pub mod errand;
pub mod head;
mod http_messages;
mod params;
mod request_head;
mod setup;

pub use authorizer::Authorization;
pub use http_messages::request_trailers;
pub use setup::{attend, resolve, upstreams};

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use tokamak_config::{self as config, Protocol};
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;
use tokamak_upstream::remote::{self, Event, Exchange, Relay, ResponseStart, UpstreamError};
use tokio::time::timeout;

use crate::backend::response_head::is_interim;
use crate::backend::{Arrival, BackendError, BackendRequest, internal};
use crate::failure::Failure;
use crate::response::files::OpenFile;
use crate::response::{Source, length};
use crate::websocket::{self, Upgraded};
use complaints::Complaints;
use head::{Block, Head};

/// Interim responses before a response. Applications send one or two; a tenth could refuse an
/// honest one that tells of its progress, and without a bound a request would last for ever.
const MOST_INTERIMS: usize = 100;

/// How long a short response that has begun is waited for: the time of a busy machine's turns. With
/// a tenth, more of them would get a task of their own; ten times more would be seen by who waits
/// for a head.
const SOON: Duration = Duration::from_millis(10);

/// Asks the application number `index` for a response.
///
/// # Errors
/// Fails with the failure for the client and the reason for the log.
pub async fn ask(
    index: usize,
    call: &BackendRequest<'_>,
    body: Body,
    ledger: &mut Ledger,
) -> Result<Response<Source>, BackendError> {
    let (config, keeps) = (
        &call.arrival.context.config.upstreams[index],
        call.arrival.context.upstreams[index].keeps(),
    );
    let request = match &config.protocol {
        Protocol::FastCgi => params::responder(call, config, keeps, body)?,
        Protocol::Http(proxy) => http_messages::request(call, proxy, config.head, keeps, body),
    };
    begin(index, call, request, Some(ledger)).await?.respond(call, config)
}

/// Asks the application number `index` to make a response of a file.
///
/// # Errors
/// Fails with the failure for the client and the reason for the log.
pub async fn filter(
    index: usize,
    call: &BackendRequest<'_>,
    file: OpenFile,
    ledger: &mut Ledger,
) -> Result<Response<Source>, BackendError> {
    let (config, keeps) = (
        &call.arrival.context.config.upstreams[index],
        call.arrival.context.upstreams[index].keeps(),
    );
    let request = params::filter(call, config, keeps, file)?;
    begin(index, call, request, Some(ledger)).await?.respond(call, config)
}

/// Asks the application number `index` whether the request may be served.
///
/// # Errors
/// As [`ask`]; the request may not be served then.
pub async fn authorize(
    index: usize,
    call: &BackendRequest<'_>,
) -> Result<Authorization, BackendError> {
    let (config, keeps) = (
        &call.arrival.context.config.upstreams[index],
        call.arrival.context.upstreams[index].keeps(),
    );
    let request = params::authorizer(call, config, keeps)?;
    let begun = begin(index, call, request, None).await?;
    if begun.head.status == StatusCode::OK {
        authorizer::allowed(begun, config.head).await.map(Authorization::Allowed)
    } else {
        begun.respond(call, config).map(Authorization::Refused)
    }
}

/// A response whose headers have come.
struct Begun {
    head: Head,
    /// The bytes behind them that have come already.
    pieces: Vec<Bytes>,
    /// The fields behind those, if the response is complete: see [`Event::End`].
    end: Option<Vec<u8>>,
    /// An error behind headers that name a file. It does no harm, because the file is sent instead.
    fault: Option<UpstreamError>,
    exchange: Exchange,
    complaints: Complaints,
}

/// Why no response could be read. The client has seen nothing yet.
enum HeadError {
    /// The response broke off.
    Lost(UpstreamError),
    /// The bytes are not a valid response.
    Invalid(BackendError),
}

impl From<UpstreamError> for HeadError {
    fn from(fault: UpstreamError) -> HeadError {
        HeadError::Lost(fault)
    }
}

/// Sends the request, and reads the headers of the response and the bytes that come with them. If a
/// process dies, another one may be asked, because the client has seen nothing yet. The time is
/// booked on `ledger`.
async fn begin(
    index: usize,
    call: &BackendRequest<'_>,
    request: remote::Call,
    mut ledger: Option<&mut Ledger>,
) -> Result<Begun, BackendError> {
    let (upstream, config) =
        (&call.arrival.context.upstreams[index], &call.arrival.context.config.upstreams[index]);
    let key = affinity::key(
        &config.affinity,
        call.request,
        call.variables,
        &call.arrival.caller.addresses().text().peer,
    );
    let quota = &call.arrival.site.quota;
    let request = request.with_flow(call.arrival.caller.flow()).with_quota(quota.clone());
    let mut attempts = upstream.attempts(call.arrival.context.index, Arc::new(request), key);
    loop {
        let answer = attempts.answer().await.inspect_err(|fault| {
            if let Some(ledger) = &mut ledger {
                ledger.mark(fault.phase());
            }
        })?;
        let (permitted, connected) = (answer.permitted, answer.connected);
        let begun = read(call, config, answer).await;
        if let Some(ledger) = &mut ledger {
            ledger.stamp(Phase::Queue, permitted);
            ledger.stamp(Phase::Connect, connected);
            ledger.mark(Phase::Upstream);
        }
        match begun {
            Ok(begun) => return Ok(begun),
            Err(HeadError::Lost(fault)) => attempts.lost(fault)?,
            Err(HeadError::Invalid(error)) => return Err(error),
        }
    }
}

/// Reads the headers, and the part of the body that has come already.
async fn read(
    call: &BackendRequest<'_>,
    config: &config::Upstream,
    answer: ResponseStart,
) -> Result<Begun, HeadError> {
    let ResponseStart { mut exchange, event, .. } = answer;
    let mut complaints = Complaints::new(&call.arrival.site.config, call.request);
    let (head, rest) = read_head(call, config.head, &mut exchange, event, &mut complaints).await?;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        let (pieces, end, fault) = (Vec::new(), Some(Vec::new()), None);
        return Ok(Begun { head, pieces, end, fault, exchange, complaints });
    }
    let first = if rest.is_empty() { Vec::new() } else { vec![rest] };
    let most = call.arrival.context.config.limits.buffer;
    let is_http = matches!(config.protocol, Protocol::Http(_));
    let taken = match length::announced(&head.headers) {
        Some(length) if is_http && length <= most as u64 => {
            take_soon(&mut exchange, first, &mut complaints).await
        }
        _ => take(&mut exchange, first, most, &mut complaints),
    };
    let ((pieces, end), fault) = match taken {
        Err(fault) if internal::redirect_of(&head.headers).is_some() => {
            ((Vec::new(), Some(Vec::new())), Some(fault))
        }
        taken => (taken?, None),
    };
    Ok(Begun { head, pieces, end, fault, exchange, complaints })
}

impl Begun {
    /// The response, or the file that the application names instead.
    fn respond(
        self,
        call: &BackendRequest<'_>,
        config: &config::Upstream,
    ) -> Result<Response<Source>, BackendError> {
        if self.head.status == StatusCode::SWITCHING_PROTOCOLS {
            if !websocket::accepts(&self.head.headers, call.request.headers()) {
                let reason = "the application agreed to a WebSocket that nobody has asked for \
                    (Sec-WebSocket-Accept)";
                return Err(broken(reason));
            }
            return switched(self.head, self.exchange);
        }
        match internal::redirect_of(&self.head.headers) {
            Some(wanted) => internal::send(call, &config.internal, self.head.headers, &wanted),
            None => respond(call, self),
        }
    }
}

impl From<UpstreamError> for BackendError {
    fn from(fault: UpstreamError) -> BackendError {
        BackendError { failure: Failure::from(&fault), reason: fault.to_string().into() }
    }
}

fn broken(reason: &'static str) -> BackendError {
    BackendError { failure: Failure::WorkerBroken, reason: reason.into() }
}

fn invalid(reason: &'static str) -> HeadError {
    HeadError::Invalid(broken(reason))
}

/// Reads to the end of the headers and passes interim responses on. Also gives the bytes behind the
/// headers.
async fn read_head(
    call: &BackendRequest<'_>,
    most: usize,
    exchange: &mut Exchange,
    mut event: Event,
    complaints: &mut Complaints,
) -> Result<(Head, Bytes), HeadError> {
    let mut block = Block::new(most);
    let mut interims = 0;
    loop {
        interims += usize::from(matches!(event, Event::Interim(_)));
        if interims > MOST_INTERIMS {
            return Err(invalid("the application sent interim responses without an end"));
        }
        match event {
            Event::Output(mut bytes) => {
                while let Some((head, rest)) = block.feed(bytes).map_err(invalid)? {
                    if !head.status.is_informational() {
                        return Ok((head, rest));
                    }
                    if !is_interim(head.status) {
                        return Err(invalid(
                            "the application sent an interim status that is not for clients",
                        ));
                    }
                    call.arrival.caller.send_interim(head.status, &head.headers);
                    bytes = rest;
                }
            }
            // 100 answers `Expect`, which no application gets: it has the body, or gets it unasked.
            Event::Interim(head) if head.status == StatusCode::CONTINUE.as_u16() => {}
            Event::Interim(head) => {
                let head = http_messages::head(&head).map_err(invalid)?;
                call.arrival.caller.send_interim(head.status, &head.headers);
            }
            Event::Head(head) => {
                return Ok((http_messages::head(&head).map_err(invalid)?, Bytes::new()));
            }
            Event::Complaint(bytes) => complaints.receive(&bytes),
            Event::End(_) => return Err(invalid(block.unfinished())),
        }
        event = exchange.next().await?;
    }
}

/// As [`take`], for a short response of which the rest is on its way: servers of HTTP write a head
/// and a file apart. A task that reads on would cost more than the few microseconds.
async fn take_soon(
    exchange: &mut Exchange,
    mut pieces: Vec<Bytes>,
    complaints: &mut Complaints,
) -> Result<(Vec<Bytes>, Option<Vec<u8>>), UpstreamError> {
    let rest = async {
        loop {
            match exchange.next().await? {
                Event::Output(bytes) => pieces.push(bytes),
                Event::Complaint(bytes) => complaints.receive(&bytes),
                Event::End(trailers) => return Ok::<_, UpstreamError>(trailers),
                // The decoder gives heads before the body.
                Event::Interim(_) | Event::Head(_) => {}
            }
        }
    };
    // A rest that comes later goes to the client piece by piece, through a relay.
    let end = timeout(SOON, rest).await.ok().transpose()?;
    Ok((pieces, end))
}

/// Appends to `pieces` what the application has sent already. Also gives the fields behind the
/// body, if the response is complete.
fn take(
    exchange: &mut Exchange,
    mut pieces: Vec<Bytes>,
    most: usize,
    complaints: &mut Complaints,
) -> Result<(Vec<Bytes>, Option<Vec<u8>>), UpstreamError> {
    let mut held: usize = pieces.iter().map(Bytes::len).sum();
    while held < most {
        match exchange.next_now()? {
            Some(Event::Output(bytes)) => {
                held += bytes.len();
                pieces.push(bytes);
            }
            Some(Event::Complaint(bytes)) => complaints.receive(&bytes),
            Some(Event::End(trailers)) => return Ok((pieces, Some(trailers))),
            // The decoder gives heads before the body.
            Some(Event::Interim(_) | Event::Head(_)) => {}
            None => break,
        }
    }
    Ok((pieces, None))
}

/// The answer behind which the application speaks WebSocket.
fn switched(head: Head, exchange: Exchange) -> Result<Response<Source>, BackendError> {
    let tunnel = exchange.into_tunnel().ok_or_else(|| broken("the connection has ended"))?;
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response.extensions_mut().insert(Upgraded::new(tunnel));
    Ok(response)
}

fn respond(call: &BackendRequest<'_>, begun: Begun) -> Result<Response<Source>, BackendError> {
    let Begun {
        head: Head { status, reason, headers }, pieces, end, exchange, mut complaints, ..
    } = begun;
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    let Arrival { context: server, site, .. } = call.arrival;
    let (context, quota) = (complaints.context.clone(), site.quota.clone());
    let source = match end {
        Some(trailers) if trailers.is_empty() => Source::Whole(join(pieces)),
        Some(trailers) => {
            Source::Application(Relay::whole(pieces, trailers, quota), Box::new(context))
        }
        None => {
            let write = move |bytes: &[u8]| complaints.receive(bytes);
            let relay = Relay::start(exchange, pieces, server.config.limits.buffer, quota, write);
            Source::Application(relay, Box::new(context))
        }
    };
    length::give(&call.arrival.site.config, call.request, &mut response, source).map_err(broken)?;
    Ok(response)
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}
