//! A connection's conversation: each request passes the phases in order and becomes one response.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokamak_cache::Wish;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;

use crate::access::{self, Entry};
use crate::application::{self, Arrival, Handler};
use crate::cache::{self, Policy, Turn};
use crate::caller::Caller;
use crate::cgi::Variables;
use crate::connection::{Link, Wire};
use crate::failure::Failure;
use crate::fastcgi::Verdict;
use crate::files;
use crate::lua::{self, Work};
use crate::pages;
use crate::response::{Receipt, Reply, Source};
use crate::route::{Decision, Script, Target};
use crate::server::{Loop, OpenConnection, Place};

/// Who has a connection's link between two requests: its task, its wire, its service, and the
/// sweeper.
const HOLDERS: usize = 4;

/// Serves the requests of one connection, one after the other, until it ends or another event loop
/// shall go on.
pub async fn converse(home: Arc<Loop>, wire: Wire, link: Arc<Link>, open: OpenConnection) {
    let limits = &home.server.limits;
    let mut http = http1::Builder::new();
    // The library would look for the end of the connection during every request, with a new buffer
    // each time. We look, if an answer has to wait (`Link::poll_gone`).
    http.half_close(true);
    // The sweeper looks after time limits, for all connections at once.
    http.header_read_timeout(None).max_buf_size(limits.head.max(8192) + 4096);
    if limits.headers > 100 {
        http.max_headers(limits.headers);
    }
    let service = {
        let (home, link) = (home.clone(), link.clone());
        service_fn(move |request| {
            let (home, link) = (home.clone(), link.clone());
            serve(home, link, request)
        })
    };
    let mut connection = http.serve_connection(wire, service);
    // The request behind which the connection was ready to move. It moves only if it still is at
    // another look: the library may have the rest of a body that nobody wanted, and goes on, or
    // ends, when it is asked once more.
    let mut settled = None;
    let end = poll_fn(|context| {
        if let Poll::Ready(result) = Pin::new(&mut connection).poll(context) {
            return Poll::Ready(End::Closed(result));
        }
        let is_ready =
            home.has_surplus() && link.is_between_requests() && Arc::strong_count(&link) == HOLDERS;
        if !is_ready {
            settled = None;
        } else if settled.replace(link.requests()) != Some(link.requests()) {
            context.waker().wake_by_ref();
        } else if let Some(target) = home.handover_target() {
            return Poll::Ready(End::HandedOver(target));
        }
        Poll::Pending
    });
    let end = end.await;
    let http1::Parts { io: wire, read_buf, service, .. } = connection.into_parts();
    let result = match end {
        End::Closed(result) => result,
        End::HandedOver(target) => {
            drop((service, link, open));
            // Never seen otherwise; better closed than half understood.
            if read_buf.is_empty() {
                home.hand_over(target, wire);
            }
            return;
        }
    };
    if let Some(violation) = link.violation() {
        access::refused(
            &link.addresses.peer,
            violation.failure().status().as_u16(),
            violation.reason(),
        );
        // Boxed, as few connections ever need its room.
        Box::pin(wire.part()).await;
    } else if let Err(error) = result
        && error.is_parse()
    {
        // The screen lets nothing pass that the library refuses; should it do so all the same, one
        // sees it here.
        access::refused(&link.addresses.peer, 400, &error.to_string());
    }
}

/// What becomes of a connection.
enum End {
    Closed(hyper::Result<()>),
    /// Another event loop goes on.
    HandedOver(usize),
}

/// The host that the request names: in its target, else in its `Host` header.
pub fn host<B>(request: &Request<B>) -> Option<&str> {
    host_of(request.uri(), request.headers())
}

/// As [`host`], of a request that is taken apart.
pub fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| headers.get(header::HOST)?.to_str().ok())
}

/// Answers a client's request: at once if nothing has to be waited for. Only what takes its time
/// becomes a task's business, in a box of its own, since what a connection has room for is moved as
/// a whole with every request.
fn serve(home: Arc<Loop>, link: Arc<Link>, request: Request<Incoming>) -> Serving {
    let is_read = home.wants_entries();
    let now = if is_read { tokamak_cost::now() } else { tokamak_cost::coarse() };
    home.attend(now);
    let began = link.serve(now);
    let mut ledger = if is_read { Ledger::begin(began) } else { Ledger::unread(began) };
    ledger.stamp(Phase::Head, now);
    let entry =
        is_read.then(|| Box::new(Entry::new(&link.addresses.text.peer, &request, host(&request))));
    let attendance =
        home.presence.note(|| home.place_of(host(&request)).index, &link, &request, began);
    let mut receipt = Receipt::new(home, Caller::Client(link), ledger);
    (receipt.entry, receipt.attendance) = (entry, attendance);
    let (parts, incoming) = request.into_parts();
    let length = incoming.size_hint().exact();
    let body = incoming.is_end_stream().then_some(Body::Empty);
    match Asked::begin(&mut receipt, parts, body, length) {
        Ok(response) => Serving::Now(Some(respond(response, receipt))),
        Err(asked) => Serving::Later(Box::pin(wait(asked, incoming, receipt))),
    }
}

/// A response that is there, or comes later.
enum Serving {
    Now(Option<Response<Reply>>),
    Later(Pin<Box<dyn Future<Output = Result<Response<Reply>, Gone>> + Send>>),
}

impl Future for Serving {
    type Output = Result<Response<Reply>, Gone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Serving::Now(response) => Poll::Ready(response.take().ok_or(Gone)),
            Serving::Later(later) => later.as_mut().poll(context),
        }
    }
}

/// Waits for the answer to a client's request, unless the client goes before.
async fn wait(
    asked: Asked,
    mut incoming: Incoming,
    mut receipt: Box<Receipt>,
) -> Result<Response<Reply>, Gone> {
    let response = {
        let Receipt { home, caller, ledger, .. } = &mut *receipt;
        let mut answer = pin!(asked.answer(home, caller, Some(&mut incoming), ledger));
        let unless_gone = |context: &mut Context<'_>| match answer.as_mut().poll(context) {
            Poll::Pending => caller.poll_gone(context).map(|()| Err(Gone)),
            ready => ready.map(Ok),
        };
        poll_fn(unless_gone).await?
    };
    Ok(respond(response, receipt))
}

/// What every response to a client goes through.
fn respond(mut response: Response<Source>, mut receipt: Box<Receipt>) -> Response<Reply> {
    if receipt.home.is_draining() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(entry) = &mut receipt.entry {
        entry.status = response.status().as_u16();
    }
    if let Some(attendance) = &receipt.attendance {
        attendance.answered(&response);
    }
    Reply::respond(response, receipt)
}

/// A client has gone before its answer began.
#[derive(Debug)]
struct Gone;

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
    home: &Arc<Loop>,
    caller: &Caller,
    request: Request<Body>,
) -> Result<Response<Reply>, TooDeep> {
    let caller = caller.errand().ok_or(TooDeep)?;
    Ok(own(home, &caller, request).await)
}

/// As [`internal`], for a caller that is the server itself already.
pub async fn own(home: &Arc<Loop>, caller: &Caller, request: Request<Body>) -> Response<Reply> {
    let mut receipt =
        Receipt::new(home.clone(), caller.clone(), Ledger::unread(tokamak_cost::now()));
    let (parts, body) = request.into_parts();
    let length = Some(body.left());
    let response = match Asked::begin(&mut receipt, parts, Some(body), length) {
        Ok(response) => response,
        Err(asked) => asked.answer(home, caller, None, &mut receipt.ledger).await,
    };
    Reply::respond(response, receipt)
}

/// Requests of the server's own are made for each other without end.
#[derive(Debug)]
pub struct TooDeep;

/// What scripts want of the content cache where there are none.
static PLAIN: Wish = Wish::NOTHING;

/// A request whose answer takes its time.
enum Asked {
    /// Of a site without scripts.
    Plain(Box<Plain>),
    /// In the hands of its site's scripts.
    Scripted { begun: lua::Begun, head_only: bool },
}

struct Plain {
    /// The place of its site.
    place: usize,
    request: Request<()>,
    /// Its body, if it has been read.
    body: Option<Body>,
    decision: Decision,
}

impl Asked {
    /// Begins to answer a request; the response, if that needs no waiting.
    fn begin(
        receipt: &mut Receipt,
        parts: Parts,
        body: Option<Body>,
        length: Option<u64>,
    ) -> Result<Response<Source>, Asked> {
        let Receipt { home, caller, ledger, .. } = receipt;
        let head_only = parts.method == http::Method::HEAD;
        let place = home.place_of(host_of(&parts.uri, &parts.headers));
        if !place.hooks.is_empty() {
            let began = ledger.start();
            let work =
                Work::new(home.clone(), place.index, caller.clone(), parts, body, length, began);
            let response = lua::begin(home, work, ledger)
                .map_err(|begun| Asked::Scripted { begun, head_only });
            return Ok(finish(response?, head_only));
        }
        let request = Request::from_parts(parts, ());
        let decision = place.router.find(request.uri());
        ledger.mark(Phase::Route);
        match at_once(place, &request, decision) {
            Ok(answer) => Ok(finish(answer.unwrap_or_else(failed), head_only)),
            Err(decision) => {
                Err(Asked::Plain(Box::new(Plain { place: place.index, request, body, decision })))
            }
        }
    }

    /// The response. `incoming` is where the request's body is read from, if it has not been.
    async fn answer(
        self,
        home: &Arc<Loop>,
        caller: &Caller,
        incoming: Option<&mut Incoming>,
        ledger: &mut Ledger,
    ) -> Response<Source> {
        match self {
            Asked::Plain(plain) => {
                let Plain { place, request, body, decision } = *plain;
                let arrival = Arrival { home, place: &home.places[place], caller };
                let given = Given { body, incoming, wish: Some(&PLAIN), ..Given::default() };
                let answer = pursue(arrival, &request, given, decision, ledger).await;
                finish(answer.unwrap_or_else(failed), request.method() == http::Method::HEAD)
            }
            Asked::Scripted { begun, head_only } => {
                let answer = lua::serve(home, caller, begun, incoming, ledger).await;
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

/// What there is of a request besides its head.
#[derive(Default)]
pub struct Given<'a> {
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// Where its body is read from otherwise; absent: it has none.
    pub incoming: Option<&'a mut Incoming>,
    /// Variables for whoever answers.
    pub variables: Variables,
    /// What scripts want of the content cache; absent: it has been asked.
    pub wish: Option<&'a Wish>,
}

/// The answer to a request for which no application is needed.
///
/// # Errors
/// It takes its time: the decision is still to be carried out.
fn at_once(
    place: &Place,
    request: &Request<()>,
    decision: Decision,
) -> Result<Result<Response<Source>, Failure>, Decision> {
    if decision.authorizer.is_some() {
        return Err(decision);
    }
    let failure = match decision.target {
        Target::Script(_) | Target::Application(..) => return Err(decision),
        Target::File(_) if decision.filter.is_some() && application::is_safe(request) => {
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
    access::failed(&place.site.name, failure, failure.text(), request);
    Ok(Err(failure))
}

/// Has a request answered by whom or what was decided.
///
/// # Errors
/// The failure that the client is to be told. The operator has been told.
pub async fn pursue(
    arrival: Arrival<'_>,
    request: &Request<()>,
    mut given: Given<'_>,
    mut decision: Decision,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    if let Some(index) = decision.authorizer.take() {
        match Box::pin(application::authorize(arrival, request, &decision.path, index, ledger))
            .await?
        {
            // What the authorizer says counts.
            Verdict::Allowed(variables) => {
                given
                    .variables
                    .retain(|(name, _)| !variables.iter().any(|(other, _)| other == name));
                given.variables.extend(variables);
            }
            Verdict::Refused(response) => return Ok(response),
        }
    }
    let Decision { target, path, filter, .. } = match at_once(arrival.place, request, decision) {
        Ok(answer) => return answer,
        Err(decision) => decision,
    };
    let (script, handler) = match target {
        Target::Script(script) => (script, arrival.place.handler.clone()),
        Target::Application(script, upstream) => (script, Handler::Upstream(upstream)),
        Target::File(file) => {
            let index = filter.unwrap_or_else(|| unreachable!("other files are there at once"));
            let file = (&path[..], file);
            let filtered =
                application::filter(arrival, request, file, index, &given.variables, ledger);
            return Box::pin(filtered).await;
        }
        _ => unreachable!("the rest is there at once"),
    };
    match (arrival.place.caching.of(&path), given.wish) {
        (Some(policy), Some(wish)) => {
            Box::pin(ask_cache(arrival, request, given, (policy, wish), (script, handler), ledger))
                .await
        }
        _ => {
            Box::pin(application::serve(arrival, request, given, (&script, &handler), ledger)).await
        }
    }
}

/// Asks the content cache, and an application if it has to.
async fn ask_cache(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: Given<'_>,
    (policy, wish): (&Arc<Policy>, &Wish),
    (script, handler): (Script, Handler),
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    match cache::begin(arrival, policy, request, wish, ledger).await? {
        Turn::Answer(response) => Ok(response),
        Turn::Pass(note) => {
            // Boxed, as a hit needs none of its room.
            let answer =
                Box::pin(application::serve(arrival, request, given, (&script, &handler), ledger));
            answer.await.map(|response| note.finish(response))
        }
        Turn::Fetch(fetch) => {
            let request = fetch.request(request);
            let (home, index) = (arrival.home.clone(), arrival.place.index);
            let caller = arrival.caller.detached();
            let (variables, mut booked) = (given.variables, *ledger);
            let ask = async move {
                let arrival = Arrival { home: &home, place: &home.places[index], caller: &caller };
                let given = Given { variables, ..Given::default() };
                let answer =
                    application::serve(arrival, &request, given, (&script, &handler), &mut booked)
                        .await;
                (Some(answer), booked, None, ())
            };
            let (outcome, ()) = Box::pin(fetch.run(ledger, ask)).await;
            outcome.unwrap_or(Err(Failure::Internal))
        }
    }
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
