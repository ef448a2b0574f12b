//! A request to a FastCGI application: told as CGI variables, its answer read as that of a CGI
//! program (RFC 3875).

mod affinity;
mod authorizer;
mod checks;
mod complaints;
pub mod errand;
pub mod head;
mod internal;
mod params;
mod setup;

pub use authorizer::Authorization;
pub use setup::{attend, resolve, upstream};

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use tokamak_config as config;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;
use tokamak_upstream::fcgi::{self, Event, Exchange, Relay, ResponseStart, UpstreamError};

use crate::backend::response_head::is_interim;
use crate::backend::{BackendRequest, Trouble};
use crate::failure::Failure;
use crate::response::files::Found;
use crate::response::{Source, length};
use complaints::Complaints;
use head::{Block, Head};

/// Asks the application number `index` for a response.
///
/// # Errors
/// [`Trouble`].
pub async fn ask(
    index: usize,
    call: &BackendRequest<'_>,
    body: Body,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Trouble> {
    let (config, keeps) =
        (&call.context.config.upstreams[index], call.context.upstreams[index].keeps());
    let request = params::responder(call, config, keeps, body)?;
    begin(index, call, request, Some(ledger)).await?.respond(call, config)
}

/// Has the application number `index` make a response of a file.
///
/// # Errors
/// [`Trouble`].
pub async fn filter(
    index: usize,
    call: &BackendRequest<'_>,
    file: Found,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Trouble> {
    let (config, keeps) =
        (&call.context.config.upstreams[index], call.context.upstreams[index].keeps());
    let request = params::filter(call, config, keeps, file)?;
    begin(index, call, request, Some(ledger)).await?.respond(call, config)
}

/// Asks the application number `index` whether the request may be served.
///
/// # Errors
/// [`Trouble`], and then it may not.
pub async fn authorize(index: usize, call: &BackendRequest<'_>) -> Result<Authorization, Trouble> {
    let (config, keeps) =
        (&call.context.config.upstreams[index], call.context.upstreams[index].keeps());
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
    /// What had come behind them.
    pieces: Vec<Bytes>,
    /// Whether that is all.
    is_whole: bool,
    /// What went wrong behind headers that name a file: no harm if that is sent.
    fault: Option<UpstreamError>,
    exchange: Exchange,
    complaints: Complaints,
}

/// Why there is no response of which a client might see anything.
enum Unread {
    /// It broke off.
    Lost(UpstreamError),
    /// It is none.
    Unfit(Trouble),
}

impl From<UpstreamError> for Unread {
    fn from(fault: UpstreamError) -> Unread {
        Unread::Lost(fault)
    }
}

/// Asks, and reads the headers of the response and what comes with them. As long as no client has
/// seen anything of it, another process may be asked in place of one that died. The time that this
/// takes is booked on `ledger`.
async fn begin(
    index: usize,
    call: &BackendRequest<'_>,
    request: fcgi::FcgiRequest,
    mut ledger: Option<&mut Ledger>,
) -> Result<Begun, Trouble> {
    let (upstream, config) =
        (&call.context.upstreams[index], &call.context.config.upstreams[index]);
    let key = affinity::key(
        &config.affinity,
        call.request,
        call.variables,
        &call.caller.addresses().text.peer,
    );
    let mut attempts = upstream.attempts(call.context.index, Arc::new(request), key);
    loop {
        let answer = attempts.answer().await?;
        let (permitted, connected) = (answer.permitted, answer.connected);
        let begun = read(call, config.head, answer).await;
        if let Some(ledger) = &mut ledger {
            ledger.stamp(Phase::Queue, permitted);
            ledger.stamp(Phase::Connect, connected);
            ledger.mark(Phase::Upstream);
        }
        match begun {
            Ok(begun) => return Ok(begun),
            Err(Unread::Lost(fault)) => attempts.lost(fault)?,
            Err(Unread::Unfit(trouble)) => return Err(trouble),
        }
    }
}

/// Reads the headers, of at most `most` bytes, and what has come behind them.
async fn read(
    call: &BackendRequest<'_>,
    most: usize,
    answer: ResponseStart,
) -> Result<Begun, Unread> {
    let ResponseStart { mut exchange, event, .. } = answer;
    let mut complaints = Complaints::new(&call.site.config, call.request);
    let (head, rest) = read_head(call, most, &mut exchange, event, &mut complaints).await?;
    let first = if rest.is_empty() { Vec::new() } else { vec![rest] };
    let taken = take(&mut exchange, first, call.context.config.limits.buffer, &mut complaints);
    let ((pieces, is_whole), fault) = match taken {
        Err(fault) if internal::wanted(&head.headers).is_some() => {
            ((Vec::new(), true), Some(fault))
        }
        taken => (taken?, None),
    };
    Ok(Begun { head, pieces, is_whole, fault, exchange, complaints })
}

impl Begun {
    /// The response, or the file that stands for it.
    fn respond(
        self,
        call: &BackendRequest<'_>,
        config: &config::Upstream,
    ) -> Result<Response<Source>, Trouble> {
        match internal::wanted(&self.head.headers) {
            Some(wanted) => internal::send(call, config, self.head, &wanted),
            None => Ok(respond(call, self)),
        }
    }
}

impl From<UpstreamError> for Trouble {
    fn from(fault: UpstreamError) -> Trouble {
        Trouble { failure: Failure::from(&fault), reason: fault.to_string().into() }
    }
}

fn broken(reason: &'static str) -> Trouble {
    Trouble { failure: Failure::WorkerBroken, reason: reason.into() }
}

fn unfit(reason: &'static str) -> Unread {
    Unread::Unfit(broken(reason))
}

/// Reads up to the end of the headers, passing interim responses on. Gives what had come behind
/// them, too.
async fn read_head(
    call: &BackendRequest<'_>,
    most: usize,
    exchange: &mut Exchange,
    mut event: Event,
    complaints: &mut Complaints,
) -> Result<(Head, Bytes), Unread> {
    let mut block = Block::new(most);
    loop {
        match event {
            Event::Stdout(mut bytes) => {
                while let Some((head, rest)) = block.feed(bytes).map_err(unfit)? {
                    if !head.status.is_informational() {
                        return Ok((head, rest));
                    }
                    if !is_interim(head.status) {
                        return Err(unfit(
                            "the application sent an interim status that is not for clients",
                        ));
                    }
                    call.caller.send_interim(head.status, &head.headers);
                    bytes = rest;
                }
            }
            Event::Stderr(bytes) => complaints.hear(&bytes),
            Event::End => return Err(unfit(block.unfinished())),
        }
        event = exchange.next().await?;
    }
}

/// Takes what the application has said already, behind `pieces`; `true`: that was all of it.
fn take(
    exchange: &mut Exchange,
    mut pieces: Vec<Bytes>,
    most: usize,
    complaints: &mut Complaints,
) -> Result<(Vec<Bytes>, bool), UpstreamError> {
    let mut held: usize = pieces.iter().map(Bytes::len).sum();
    while held < most {
        match exchange.next_now()? {
            Some(Event::Stdout(bytes)) => {
                held += bytes.len();
                pieces.push(bytes);
            }
            Some(Event::Stderr(bytes)) => complaints.hear(&bytes),
            Some(Event::End) => return Ok((pieces, true)),
            None => break,
        }
    }
    Ok((pieces, false))
}

fn respond(call: &BackendRequest<'_>, begun: Begun) -> Response<Source> {
    let Begun {
        head: Head { status, headers }, pieces, is_whole, exchange, mut complaints, ..
    } = begun;
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let source = if is_whole {
        Source::Whole(join(pieces))
    } else {
        let context = complaints.context.clone();
        let relay =
            Relay::start(exchange, pieces, call.context.config.limits.buffer, move |bytes| {
                complaints.hear(bytes)
            });
        Source::Application(relay, Box::new(context))
    };
    length::give(&call.site.config, call.request, &mut response, source);
    response
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}
