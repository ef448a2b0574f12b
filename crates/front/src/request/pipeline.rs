//! The phases of a request, in their order:
//!
//! ```text
//! site       which site its host belongs to
//! scripts    the stages of the site's scripts, between the phases below (`script`)
//! route      which file, script, redirect or application its path is for
//! authorize  whether an application lets it pass, if the route asks one
//! cache      whether the content cache has the response, or wants to have it
//! body       read whole, so that a slow client holds nobody
//! backend    workers or a FastCGI application answer
//! respond    the response goes to the client; its guard finishes the request
//! ```
//!
//! What needs no waiting is answered at once, without a task's allocation.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task;
use std::task::Poll;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use tokamak_cache::Overrides;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;

use super::body::{Cut, Incoming, gather};
use super::script::{self, Work};
use crate::backend::cgi::Variables;
use crate::backend::fastcgi::Authorization;
use crate::backend::{self, Arrival};
use crate::cache::{self, CachePolicy, Lookup, Turn};
use crate::caller::Caller;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::log::{self, LogEntry};
use crate::response::files;
use crate::response::pages;
use crate::response::{Reply, RequestGuard, Source};
use crate::route::hosts::{host, host_of};
use crate::route::{Decision, Script, Target};
use crate::site::{Handler, Site};

/// When a request came, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Moments {
    /// Its first byte.
    pub began: u64,
    /// Its whole head.
    pub now: u64,
}

/// Answers a client's request: at once if nothing has to be waited for. Only what takes its time
/// becomes a task's business, in a box of its own, since what a connection has room for is moved as
/// a whole with every request.
pub fn serve<B>(
    context: &Arc<Context>,
    client: Arc<dyn Client>,
    request: Request<B>,
    Moments { began, now }: Moments,
) -> Serving
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin + 'static,
{
    let log = context.access_log.as_ref();
    let mut ledger = if log.is_some() { Ledger::begin(began) } else { Ledger::unread(began) };
    ledger.stamp(Phase::Head, now);
    let mut guard = RequestGuard::new(Some(client.clone()), ledger);
    guard.entry = log.map(|log| {
        let entry = LogEntry::new(&client.addresses().text.peer, &request, host(&request));
        Box::new((entry, log.clone()))
    });
    let site_index = || context.site_of(host(&request)).index;
    guard.scoreboard = context.scoreboard.note(site_index, &*client, &request, began);
    let (parts, incoming) = request.into_parts();
    let length = incoming.size_hint().exact();
    let body = incoming.is_end_stream().then_some(Body::Empty);
    let caller = Caller::Client(client);
    match Pending::begin(context, &caller, parts, (body, length), &mut guard.ledger) {
        Ok(response) => Serving::Now(Some(respond(response, guard))),
        Err(pending) => {
            let context = context.clone();
            Serving::Later(Box::pin(wait(context, caller, pending, incoming, guard)))
        }
    }
}

/// A response that is there, or comes later.
pub enum Serving {
    /// It is there, until it is taken.
    Now(Option<Response<Reply>>),
    /// It comes later.
    Later(Pin<Box<dyn Future<Output = Result<Response<Reply>, Gone>> + Send>>),
}

impl Future for Serving {
    type Output = Result<Response<Reply>, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Serving::Now(response) => Poll::Ready(response.take().ok_or(Gone)),
            Serving::Later(later) => later.as_mut().poll(cx),
        }
    }
}

/// Waits for the answer to a client's request, unless the client goes before.
async fn wait<B>(
    context: Arc<Context>,
    caller: Caller,
    pending: Pending,
    mut incoming: B,
    mut guard: Box<RequestGuard>,
) -> Result<Response<Reply>, Gone>
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin + 'static,
{
    let response = {
        let answer = pending.answer(&context, &caller, Some(&mut incoming), &mut guard.ledger);
        let mut answer = pin!(answer);
        let unless_gone = |cx: &mut task::Context<'_>| match answer.as_mut().poll(cx) {
            Poll::Pending => caller.poll_gone(cx).map(|()| Err(Gone)),
            ready => ready.map(Ok),
        };
        poll_fn(unless_gone).await?
    };
    Ok(respond(response, guard))
}

/// What every response to a client goes through.
fn respond(response: Response<Source>, mut guard: Box<RequestGuard>) -> Response<Reply> {
    if let Some((entry, _)) = guard.entry.as_deref_mut() {
        entry.status = response.status().as_u16();
    }
    if let Some(scoreboard) = &guard.scoreboard {
        scoreboard.answered(&response);
    }
    Reply::respond(response, guard)
}

/// A client has gone before its answer began.
#[derive(Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client has gone")
    }
}

impl std::error::Error for Gone {}

/// Answers a request that the server itself makes for the one of `caller`, from the beginning:
/// scripts of the site that it names, routes, applications. Its body is complete. Nothing is
/// written into the access log.
///
/// The body of the response has no bound yet; [`http_body_util::Limited`] reads it with one.
///
/// # Errors
/// Requests are made for each other without end.
pub async fn internal(
    context: &Arc<Context>,
    caller: &Caller,
    request: Request<Body>,
) -> Result<Response<Reply>, TooDeep> {
    let caller = caller.errand().ok_or(TooDeep)?;
    Ok(own(context, &caller, request).await)
}

/// As [`internal`], for a caller that is the server itself already.
async fn own(context: &Arc<Context>, caller: &Caller, request: Request<Body>) -> Response<Reply> {
    let ledger = Ledger::unread(tokamak_cost::now());
    let mut guard = RequestGuard::new(caller.client().cloned(), ledger);
    let (parts, body) = request.into_parts();
    let length = Some(body.left());
    let body = (Some(body), length);
    let response = match Pending::begin(context, caller, parts, body, &mut guard.ledger) {
        Ok(response) => response,
        Err(pending) => pending.answer(context, caller, None, &mut guard.ledger).await,
    };
    Reply::respond(response, guard)
}

/// Requests of the server's own are made for each other without end.
#[derive(Debug)]
pub struct TooDeep;

/// What scripts want of the content cache where there are none.
static PLAIN: Overrides = Overrides::NONE;

/// A request whose answer takes its time.
enum Pending {
    /// Of a site without scripts.
    Plain(Box<Plain>),
    /// In the hands of its site's scripts.
    Scripted { begun: script::Begun, head_only: bool },
}

struct Plain {
    /// The position of its site.
    site_index: usize,
    request: Request<()>,
    /// Its body, if it has been read.
    body: Option<Body>,
    decision: Decision,
}

impl Pending {
    /// Begins to answer a request, with its body if that has been read, and the body's length if it
    /// is known; the response, if that needs no waiting.
    fn begin(
        context: &Arc<Context>,
        caller: &Caller,
        parts: Parts,
        (body, length): (Option<Body>, Option<u64>),
        ledger: &mut Ledger,
    ) -> Result<Response<Source>, Pending> {
        let head_only = parts.method == http::Method::HEAD;
        let site = context.site_of(host_of(&parts.uri, &parts.headers));
        if !site.hooks.is_empty() {
            let (began, caller) = (ledger.start(), caller.clone());
            let work = Work::new(context.clone(), site.index, caller, parts, (body, length), began);
            let response = script::begin(context, work, ledger)
                .map_err(|begun| Pending::Scripted { begun, head_only });
            return Ok(finish(response?, head_only));
        }
        let request = Request::from_parts(parts, ());
        let decision = site.router.find(request.uri());
        ledger.mark(Phase::Route);
        match at_once(site, &request, decision) {
            Ok(answer) => Ok(finish(answer.unwrap_or_else(failed), head_only)),
            Err(decision) => {
                let plain = Plain { site_index: site.index, request, body, decision };
                Err(Pending::Plain(Box::new(plain)))
            }
        }
    }

    /// The response. `incoming` is where the request's body is read from, if it has not been.
    async fn answer(
        self,
        context: &Arc<Context>,
        caller: &Caller,
        incoming: Option<&mut Incoming>,
        ledger: &mut Ledger,
    ) -> Response<Source> {
        match self {
            Pending::Plain(plain) => {
                let Plain { site_index, request, body, decision } = *plain;
                let arrival = Arrival { context, site: &context.sites[site_index], caller };
                let given = RequestParts {
                    body,
                    incoming,
                    overrides: Some(&PLAIN),
                    ..RequestParts::default()
                };
                let answer = pursue(arrival, &request, given, decision, ledger).await;
                finish(answer.unwrap_or_else(failed), request.method() == http::Method::HEAD)
            }
            Pending::Scripted { begun, head_only } => {
                let answer = script::serve(context, caller, begun, incoming, ledger).await;
                finish(answer.unwrap_or_else(failed), head_only)
            }
        }
    }
}

/// Makes a response one to a HEAD request, if that was asked.
fn finish(mut response: Response<Source>, head_only: bool) -> Response<Source> {
    // The length of what a GET would have brought is known; its bytes are not wanted. PHP leaves
    // them out itself though, and then nothing is known.
    if head_only
        && let Source::Whole(bytes) = response.body()
        && !bytes.is_empty()
    {
        let length = HeaderValue::from(bytes.len());
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length);
        *response.body_mut() = Source::Empty;
    }
    response
}

/// What belongs to a request besides its head.
#[derive(Default)]
pub struct RequestParts<'a> {
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// Where its body is read from otherwise; absent: it has none.
    pub incoming: Option<&'a mut Incoming>,
    /// Variables for whoever answers.
    pub variables: Variables,
    /// What scripts want of the content cache; absent: it has been asked.
    pub overrides: Option<&'a Overrides>,
}

/// The answer to a request for which no application is needed.
///
/// # Errors
/// It takes its time: the decision is still to be carried out.
fn at_once(
    site: &Site,
    request: &Request<()>,
    decision: Decision,
) -> Result<Result<Response<Source>, Failure>, Decision> {
    if decision.authorizer.is_some() {
        return Err(decision);
    }
    let failure = match decision.target {
        Target::Script(_) | Target::Application(..) => return Err(decision),
        Target::File(_) if decision.filter.is_some() && backend::is_safe(request) => {
            return Err(decision);
        }
        Target::File(file) => match files::respond(file, request) {
            Ok(response) => return Ok(Ok(response)),
            Err(failure) => failure,
        },
        Target::Redirect(to) => return Ok(Ok(redirect(&to))),
        Target::NotFound => Failure::NotFound,
        Target::Forbidden => Failure::Forbidden,
        Target::BadRequest => Failure::BadRequest,
    };
    log::failed(&site.config.name, failure, failure.text(), request);
    Ok(Err(failure))
}

/// Has a request answered by whom or what was decided.
///
/// # Errors
/// The failure that the client is to be told. The operator has been told.
pub async fn pursue(
    arrival: Arrival<'_>,
    request: &Request<()>,
    mut given: RequestParts<'_>,
    mut decision: Decision,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    if let Some(index) = decision.authorizer.take() {
        match Box::pin(backend::authorize(arrival, request, &decision.path, index, ledger)).await? {
            // What the authorizer says counts.
            Authorization::Allowed(variables) => {
                given
                    .variables
                    .retain(|(name, _)| !variables.iter().any(|(other, _)| other == name));
                given.variables.extend(variables);
            }
            Authorization::Refused(response) => return Ok(response),
        }
    }
    let Decision { target, path, filter, .. } = match at_once(arrival.site, request, decision) {
        Ok(answer) => return answer,
        Err(decision) => decision,
    };
    let (script, handler) = match target {
        Target::Script(script) => (script, arrival.site.handler.clone()),
        Target::Application(script, upstream) => (script, Handler::Upstream(upstream)),
        Target::File(file) => {
            let index = filter.unwrap_or_else(|| unreachable!("other files are there at once"));
            let file = (&path[..], file);
            let filtered = backend::filter(arrival, request, file, index, &given.variables, ledger);
            return Box::pin(filtered).await;
        }
        _ => unreachable!("the rest is there at once"),
    };
    match (arrival.site.caching.of(&path), given.overrides) {
        (Some(policy), Some(overrides)) => {
            Box::pin(ask_cache(
                arrival,
                request,
                given,
                (policy, overrides),
                (script, handler),
                ledger,
            ))
            .await
        }
        _ => Box::pin(ask_backend(arrival, request, given, (&script, &handler), ledger)).await,
    }
}

/// Looks into the content cache for the response to a request without a body.
///
/// # Errors
/// It is not there, and the client wants it from nowhere else.
pub async fn look_up(
    arrival: Arrival<'_>,
    policy: &Arc<CachePolicy>,
    request: &Request<()>,
    overrides: &Overrides,
    ledger: &mut Ledger,
) -> Result<Turn, Failure> {
    let Arrival { context, caller, .. } = arrival;
    let Some(content) = &context.cache else { return Ok(Turn::Pass(cache::Note::none())) };
    let (loop_index, refresh) = (context.index, caller.refresh());
    let turn = Lookup { content, loop_index, policy, request, overrides, refresh }.turn().await;
    ledger.mark(Phase::Cache);
    let Ok(Turn::Answer(response, Some(refresh))) = turn else { return turn };
    if let Some(caller) = caller.refreshing(refresh) {
        fetch_anew(context, caller, request);
    }
    Ok(Turn::Answer(response, None))
}

/// Has a request of the server's own fetch a stale response anew for the content cache.
fn fetch_anew(context: &Arc<Context>, caller: Caller, stale: &Request<()>) {
    let mut request = Request::new(Body::Empty);
    *request.uri_mut() = stale.uri().clone();
    *request.version_mut() = stale.version();
    *request.headers_mut() = cache::unconditional(stale.headers());
    let context = context.clone();
    // Nobody reads the response: all that matters is that it is stored.
    tokio::spawn(async move { drop(own(&context, &caller, request).await) });
}

/// Asks the content cache, and an application if it has to.
async fn ask_cache(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    (policy, overrides): (&Arc<CachePolicy>, &Overrides),
    (script, handler): (Script, Handler),
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    match look_up(arrival, policy, request, overrides, ledger).await? {
        Turn::Answer(response, _) => Ok(response),
        Turn::Pass(note) => {
            // Boxed, as a hit needs none of its room.
            let answer =
                Box::pin(ask_backend(arrival, request, given, (&script, &handler), ledger));
            answer.await.map(|response| note.finish(response))
        }
        Turn::Fetch(fetch) => {
            let request = fetch.request(request);
            let (context, index) = (arrival.context.clone(), arrival.site.index);
            let caller = arrival.caller.detached();
            let (variables, mut booked) = (given.variables, *ledger);
            let ask = async move {
                let site = &context.sites[index];
                let arrival = Arrival { context: &context, site, caller: &caller };
                let given = RequestParts { variables, ..RequestParts::default() };
                let answer =
                    ask_backend(arrival, &request, given, (&script, &handler), &mut booked).await;
                (Some(answer), booked, None, ())
            };
            let (outcome, ()) = Box::pin(fetch.run(ledger, ask)).await;
            outcome.unwrap_or(Err(Failure::Internal))
        }
    }
}

/// Reads the request's body, unless it has been, and asks the application.
async fn ask_backend(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    to: (&Script, &Handler),
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let RequestParts { body, incoming, variables, .. } = given;
    let incoming = incoming.filter(|incoming| !incoming.is_end_stream());
    let body = match (body, incoming) {
        (Some(body), _) => body,
        (None, None) => Body::Empty,
        (None, Some(incoming)) => {
            let body = gather(&arrival.context.config, arrival.caller, incoming).await;
            ledger.mark(Phase::Body);
            body.map_err(|failure| arrival.told(failure.into(), request))?
        }
    };
    backend::serve(arrival, request, (body, &variables), to, ledger).await
}

fn redirect(to: &str) -> Response<Source> {
    let mut response = Response::new(Source::Whole(pages::page(
        http::StatusCode::MOVED_PERMANENTLY,
        "The page is elsewhere.",
    )));
    *response.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, to);
    }
    response
}

/// The answer to a request that failed.
pub fn failed(failure: Failure) -> Response<Source> {
    let (status, headers, body) = pages::answer(failure);
    let mut response = Response::new(Source::Whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // A body that was not read to its end would be taken for the next request.
    if matches!(
        failure,
        Failure::BodyTooLarge | Failure::BodySlow | Failure::BadRequest | Failure::NotImplemented
    ) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
