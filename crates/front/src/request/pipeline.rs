//! The phases of a request, in their order:
//!
//! ```text
//! client     whose request it is, if a proxy forwards it (`client::forwarded`)
//! site       which site its host belongs to
//! limits     whether its client asks for too much (`site::limits`)
//! scripts    the stages of the site's scripts, between the phases below (`script`)
//! rules      whether the site's rules redirect, rewrite or refuse it
//! route      which file, script, redirect or application its path is for
//! login      whether its name and password are right, if a rule asks for them (`login`)
//! authorize  whether an application lets it pass, if the route asks one
//! cache      whether the content cache has the response, or wants to have it
//! body       read whole, so that a slow client does not occupy a worker
//! backend    workers or a FastCGI application answer
//! respond    the response goes to the client; its guard finishes the request
//! ```
//!
//! A request that needs no waiting is answered immediately, without an allocation for a future.

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

use super::account;
use super::body::{Bounded, Cut, Incoming, gather};
use super::direct::{Direct, is_direct};
use super::error_page::{self, Refusal};
use super::listing;
use super::login::{self, Checked};
use super::script::{self, Work};
use crate::backend::cgi::Variables;
use crate::backend::fastcgi::Authorization;
use crate::backend::{self, Arrival};
use crate::cache::{self, CachePolicy, Lookup, LookupResult};
use crate::caller::Caller;
use crate::client::Client;
use crate::client::interim::takes_interim;
use crate::context::Context;
use crate::failure::Failure;
use crate::log;
use crate::response::compression::Negotiated;
use crate::response::files;
use crate::response::https;
use crate::response::pages;
use crate::response::{Reply, RequestGuard, Source};
use crate::route::hosts::{host, host_of};
use crate::route::{Decision, LoginSet, Script, Target};
use crate::site::limits::TooMany;
use crate::site::rules::RuleRequest;
use crate::site::{Handler, Site};
use crate::timing;

/// The times when a request came, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Moments {
    /// When its first byte came.
    pub began: u64,
    /// When its head was complete.
    pub now: u64,
}

/// Answers a client's request, immediately if nothing has to be waited for. Otherwise the future is
/// boxed, because a connection's own state is moved with every request and must stay small.
pub fn serve<B>(
    context: &Arc<Context>,
    client: Arc<dyn Client>,
    mut request: Request<B>,
    moments: Moments,
) -> Serving
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin + 'static,
{
    let takes_interim = takes_interim(&context.config, &*client, &request);
    let client = match &context.forwarding {
        Some(forwarding) => forwarding.resolve(client, &mut request),
        None => client,
    };
    let site = context.site_of(client.addresses().listener, host(&request), request.uri());
    let mut guard = account::open((context, site), &client, &mut request, moments);
    guard.changes = site.rules.changes(request.uri(), &site.router, None);
    guard.compression = site
        .compression
        .of(|| site.router.route_of(request.uri()))
        .map(|policy| Negotiated::of(policy, &request));
    if site.hsts.is_some() && client.scheme() == "https" {
        guard.hsts.clone_from(&site.hsts);
    }
    if context.config.request_ids {
        guard.request_id = request.extensions().get().cloned();
    }
    // Before the limits: an authority that is refused gives no certificate.
    let tls = context.tls.as_ref();
    if let Some(answer) = tls.and_then(|tls| tls.challenge_answer(request.uri().path())) {
        return Serving::Now(Some(respond(Response::new(Source::Whole(answer)), guard)));
    }
    if let Some(limits) = &site.limits {
        match limits.admit(&*client, &request, (&site.rules, &site.router), moments.now) {
            Ok(slots) => guard.slots = slots,
            Err(too_many) => {
                let response = limited(site, &request, &too_many);
                return Serving::Now(Some(respond(response, guard)));
            }
        }
    }
    let (parts, incoming) = request.into_parts();
    let body = incoming.is_end_stream().then_some(Body::Empty);
    let length = incoming.size_hint().exact();
    let most = if body.is_some() { 0 } else { body_limit(context, site, &parts) };
    let incoming = Bounded::new(incoming, most);
    let caller = Caller::Client { client, takes_interim };
    if site.config.tls.redirect && caller.scheme() == "http" {
        // Scripts, which have not run yet, may change the path.
        let moves = site.hooks.is_empty();
        let (caller, Parts { method, uri, headers, .. }) = (&caller, &parts);
        let asked = RuleRequest { caller, method, uri, headers };
        let moved = moves.then(|| site.rules.moved(&asked, &site.router)).flatten();
        let response = https::redirect(&context.config, &site.config, &parts, moved);
        return Serving::Now(Some(respond(response, guard)));
    }
    let begun = if length.is_some_and(|length| length > most) {
        let (failure, request) = (Failure::BodyTooLarge, Request::from_parts(parts, ()));
        log::failed(&site.config.name, failure, failure.text(), &request);
        Pending::refuse(site, request, failure.into())
    } else {
        Pending::begin((context, site), &caller, parts, (body, length), &mut guard)
    };
    match begun {
        Ok(response) => Serving::Now(Some(respond(response, guard))),
        Err(Pending::Plain(plain)) if is_direct(context, &plain) => {
            Serving::Direct(Box::new(Direct::new(context.clone(), caller, plain, guard)))
        }
        Err(pending) => {
            let context = context.clone();
            Serving::Later(Box::pin(wait(context, caller, pending, incoming, guard)))
        }
    }
}

/// Most bytes of a request's body.
fn body_limit(context: &Context, site: &Site, parts: &Parts) -> u64 {
    site.rules.body_limit(&parts.uri, &site.router, context.config.limits.body)
}

/// The response to a client that has asked for too much. It costs as little as possible: no script
/// makes it, and those of the site do not see it.
fn limited<B>(site: &Site, request: &Request<B>, too_many: &TooMany) -> Response<Source> {
    let failure = Failure::TooManyRequests;
    log::failed(&site.config.name, failure, &too_many.reason, request);
    let response = error_page::at_once(site, Refusal::later(failure, too_many.wait));
    finish(response, request.method() == http::Method::HEAD)
}

/// A response, now or later.
pub enum Serving {
    /// The response is there, until it is taken.
    Now(Option<Response<Reply>>),
    /// The response comes from workers.
    Direct(Box<Direct>),
    /// The response comes later.
    Later(Pin<Box<dyn Future<Output = Result<Response<Reply>, Gone>> + Send>>),
}

impl Future for Serving {
    type Output = Result<Response<Reply>, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Serving::Now(response) => Poll::Ready(response.take().ok_or(Gone)),
            Serving::Direct(direct) => direct.poll(cx),
            Serving::Later(later) => later.as_mut().poll(cx),
        }
    }
}

/// Waits for the answer to a client's request. Gives up if the client goes before.
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

/// The last step of every response to a client.
pub fn respond(mut response: Response<Source>, mut guard: Box<RequestGuard>) -> Response<Reply> {
    if let Some(changes) = &guard.changes {
        changes.apply(&mut response);
    }
    if let Some(negotiated) = guard.compression.take() {
        negotiated.apply(&mut response, &mut guard.ledger);
    }
    if guard.is_timed {
        timing::tell(&guard.ledger, response.headers_mut());
    }
    if let Some(hsts) = guard.hsts.take() {
        https::tell(hsts, response.headers_mut());
    }
    if let Some(id) = guard.request_id.take() {
        id.tell(response.headers_mut());
    }
    if let Some((entry, _)) = guard.entry.as_deref_mut() {
        entry.status = response.status().as_u16();
    }
    if let Some(counted) = &mut guard.counted {
        counted.status = response.status().as_u16();
    }
    if let Some(span) = &mut guard.span {
        span.answered(response.status().as_u16());
    }
    if let Some(scoreboard) = &guard.scoreboard {
        scoreboard.answered(&response);
    }
    Reply::respond(response, guard)
}

/// The client has gone before its response began.
#[derive(Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client has gone")
    }
}

impl std::error::Error for Gone {}

/// Answers a subrequest that the server makes for the request of `caller`. It goes through all
/// phases: the scripts of its site, routes, applications. Its body is complete. It is not written
/// into the access log.
///
/// The body of the response is not limited; the caller must limit it, as with
/// [`http_body_util::Limited`].
///
/// # Errors
/// Fails if subrequests are nested too deeply.
pub async fn internal(
    context: &Arc<Context>,
    caller: &Caller,
    request: Request<Body>,
) -> Result<Response<Reply>, TooDeep> {
    let caller = caller.subrequest().ok_or(TooDeep)?;
    Ok(own(context, &caller, request).await)
}

/// As [`internal`], for a caller that is already that of the subrequest.
async fn own(context: &Arc<Context>, caller: &Caller, request: Request<Body>) -> Response<Reply> {
    let ledger = Ledger::unread(tokamak_cost::now());
    let mut guard = RequestGuard::new(caller.client().cloned(), ledger);
    let (parts, body) = request.into_parts();
    let length = Some(body.left());
    let body = (Some(body), length);
    let listener = caller.addresses().listener;
    let site = context.site_of(listener, host_of(&parts.uri, &parts.headers), &parts.uri);
    let response = match Pending::begin((context, site), caller, parts, body, &mut guard) {
        Ok(response) => response,
        Err(pending) => pending.answer(context, caller, None, &mut guard.ledger).await,
    };
    Reply::respond(response, guard)
}

/// Subrequests are nested too deeply.
#[derive(Debug)]
pub struct TooDeep;

/// The overrides for the content cache if no scripts run.
static PLAIN: Overrides = Overrides::NONE;

/// A request that has to wait for its answer.
enum Pending {
    /// A request of a site without scripts.
    Plain(Box<Plain>),
    /// A refused request of a site that has a page for it.
    Failed(Box<Failed>),
    /// A request of a site with scripts.
    Scripted { begun: script::Begun, head_only: bool },
}

/// A request of a site without scripts.
pub struct Plain {
    /// The index of its site.
    pub site_index: usize,
    /// The request; its body has been taken.
    pub request: Request<()>,
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// What is to answer it.
    pub decision: Decision,
    /// What the application is told of its login.
    pub variables: Variables,
}

/// A refused request.
struct Failed {
    site_index: usize,
    request: Request<()>,
    refusal: Refusal,
}

impl Pending {
    /// Begins to answer a request. `body`: the body, if it has been read, and its length, if that
    /// is known. Returns the response if it needs no waiting.
    fn begin(
        (context, site): (&Arc<Context>, &Site),
        caller: &Caller,
        parts: Parts,
        (body, length): (Option<Body>, Option<u64>),
        guard: &mut RequestGuard,
    ) -> Result<Response<Source>, Pending> {
        let head_only = parts.method == http::Method::HEAD;
        if !site.hooks.is_empty() {
            // Scripts have not chosen yet: without them, this would answer.
            if site.rules.look_at_answers() {
                let decision = site.decide_changed(caller, &parts, None);
                guard.changes = site.rules.changes(&parts.uri, &site.router, Some(&decision));
            }
            let ledger = &mut guard.ledger;
            let (began, caller) = (ledger.start(), caller.clone());
            let work = Work::new(context.clone(), site.index, caller, parts, (body, length), began);
            let response = script::begin(context, work, ledger)
                .map_err(|begun| Pending::Scripted { begun, head_only });
            return Ok(finish(response?, head_only));
        }
        let request = Request::from_parts(parts, ());
        let mut decision = site.decide(caller, &request);
        guard.ledger.mark(Phase::Route);
        if site.rules.look_at_answers() {
            guard.changes = site.rules.changes(request.uri(), &site.router, Some(&decision));
        }
        let mut variables = Variables::new();
        if !decision.login.is_empty() {
            match login::check(site, caller, request.headers(), decision.login) {
                Checked::Granted(user) => {
                    (variables, decision.login) = (user, LoginSet::default());
                }
                Checked::Refused(refusal) => return Pending::refuse(site, request, refusal),
                Checked::Unknown => {}
            }
        }
        match at_once(site, &request, decision) {
            Ok(Err(failure)) => Pending::refuse(site, request, failure.into()),
            Ok(Ok(response)) => Ok(finish(response, head_only)),
            Err(decision) => {
                let plain = Plain { site_index: site.index, request, body, decision, variables };
                Err(Pending::Plain(Box::new(plain)))
            }
        }
    }

    /// Refuses a request, at once unless the site has a page for it.
    fn refuse(
        site: &Site,
        request: Request<()>,
        refusal: Refusal,
    ) -> Result<Response<Source>, Pending> {
        if site.config.error_page(refusal.failure.status().as_u16()).is_some() {
            let failed = Failed { site_index: site.index, request, refusal };
            return Err(Pending::Failed(Box::new(failed)));
        }
        let head_only = request.method() == http::Method::HEAD;
        Ok(finish(error_page::at_once(site, refusal), head_only))
    }

    /// Waits for the response. The request's body is read from `incoming`, if it has not been read.
    async fn answer(
        self,
        context: &Arc<Context>,
        caller: &Caller,
        incoming: Option<&mut Incoming>,
        ledger: &mut Ledger,
    ) -> Response<Source> {
        match self {
            Pending::Plain(plain) => {
                let Plain { site_index, request, body, decision, variables } = *plain;
                let arrival = Arrival { context, site: &context.sites[site_index], caller };
                // What is fetched anew for the content cache is sent to nobody.
                let may_intercept = caller.refresh().is_none();
                let overrides = Some(&PLAIN);
                let given = RequestParts { body, incoming, variables, overrides, may_intercept };
                let answer = pursue(arrival, &request, given, decision, ledger).await;
                let response = match answer {
                    Ok(response) => response,
                    Err(failure) => failed(arrival, &request, failure.into(), ledger).await,
                };
                finish(response, request.method() == http::Method::HEAD)
            }
            Pending::Failed(refused) => {
                let Failed { site_index, request, refusal } = *refused;
                let arrival = Arrival { context, site: &context.sites[site_index], caller };
                let response = failed(arrival, &request, refusal, ledger).await;
                finish(response, request.method() == http::Method::HEAD)
            }
            Pending::Scripted { begun, head_only } => {
                let answer = script::serve(context, caller, begun, incoming, ledger).await;
                finish(answer.unwrap_or_else(pages::failed), head_only)
            }
        }
    }
}

/// The response to a failed request. Boxed, because most requests need none of its state.
pub async fn failed(
    arrival: Arrival<'_>,
    request: &Request<()>,
    refusal: Refusal,
    ledger: &mut Ledger,
) -> Response<Source> {
    // What limits refuse must cost little: no script makes the page.
    let is_limit = matches!(refusal.failure, Failure::TooManyRequests | Failure::PasswordsBusy);
    if is_limit || arrival.site.config.error_pages.is_empty() {
        return error_page::at_once(arrival.site, refusal);
    }
    Box::pin(error_page::failed(arrival, request, refusal, ledger)).await
}

/// Removes the body from a response if the request was a HEAD.
pub fn finish(mut response: Response<Source>, head_only: bool) -> Response<Source> {
    // Keep the length of the body that a GET would get. An application may drop the body of a HEAD
    // itself, and then the length is not known.
    if head_only
        && let Source::Whole(_) | Source::Stored(_) = response.body()
        && let Some(left @ 1..) = response.body().left()
    {
        let length = HeaderValue::from(left);
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length);
        *response.body_mut() = Source::Empty;
    }
    response
}

/// The parts of a request besides its head.
#[derive(Default)]
pub struct RequestParts<'a> {
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// Where its body is read from otherwise; `None` if it has no body.
    pub incoming: Option<&'a mut Incoming>,
    /// Variables for the application.
    pub variables: Variables,
    /// The overrides of scripts for the content cache; `None` if the cache has been asked already.
    pub overrides: Option<&'a Overrides>,
    /// Whether the site's error pages may replace what an application answers. Scripts see that
    /// before, and so does the content cache.
    pub may_intercept: bool,
}

/// Answers a request that needs no application.
///
/// # Errors
/// Returns the decision if carrying it out has to wait.
fn at_once(
    site: &Site,
    request: &Request<()>,
    decision: Decision,
) -> Result<Result<Response<Source>, Failure>, Decision> {
    if decision.authorizer.is_some() || !decision.login.is_empty() {
        return Err(decision);
    }
    let failure = match decision.target {
        Target::Script(_) | Target::Application(..) | Target::Listing(_) => return Err(decision),
        Target::File(_) if decision.filter.is_some() && backend::is_safe(request) => {
            return Err(decision);
        }
        Target::File(file) => match files::respond(file, request, &site.config.charset) {
            Ok(response) => return Ok(Ok(response)),
            Err(failure) => failure,
        },
        Target::Redirect(to, status) => return Ok(Ok(pages::redirect(&to, status))),
        Target::NotFound => Failure::NotFound,
        Target::Gone => Failure::Gone,
        Target::Forbidden => Failure::Forbidden,
        Target::BadRequest => Failure::BadRequest,
        Target::Unreadable(failure, reason) => {
            log::failed(&site.config.name, failure, &reason, request);
            return Ok(Err(failure));
        }
    };
    log::failed(&site.config.name, failure, failure.text(), request);
    Ok(Err(failure))
}

/// Carries out a decision: has the request answered.
///
/// # Errors
/// Fails with the failure for the client. The log has been written.
pub async fn pursue(
    arrival: Arrival<'_>,
    request: &Request<()>,
    mut given: RequestParts<'_>,
    mut decision: Decision,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let needed = std::mem::take(&mut decision.login);
    if !needed.is_empty() {
        let verified = Box::pin(login::verify(arrival, request, needed)).await;
        ledger.mark(Phase::Authorize);
        match verified {
            Ok(user) => given.variables.extend(user),
            Err(refusal) => return Ok(failed(arrival, request, refusal, ledger).await),
        }
    }
    if let Some(index) = decision.authorizer.take() {
        match Box::pin(backend::authorize(arrival, request, &decision.path, index, ledger)).await? {
            // The authorizer's variables replace the earlier ones.
            Authorization::Allowed(variables) => {
                given
                    .variables
                    .retain(|(name, _)| !variables.iter().any(|(other, _)| other == name));
                given.variables.extend(variables);
            }
            Authorization::Refused(response) => {
                let may = given.may_intercept;
                return Ok(intercepted(arrival, request, (response, may), ledger).await);
            }
        }
    }
    let may_intercept = given.may_intercept;
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
            let response = Box::pin(filtered).await?;
            return Ok(intercepted(arrival, request, (response, may_intercept), ledger).await);
        }
        Target::Listing(folder) => {
            let listed = Box::pin(listing::respond(arrival, request, (path, &folder))).await;
            ledger.mark(Phase::Route);
            return listed;
        }
        _ => unreachable!("the rest is there at once"),
    };
    let response = match (arrival.site.caching.of(&path), given.overrides) {
        (Some(policy), Some(overrides)) => {
            Box::pin(ask_cache(
                arrival,
                request,
                given,
                (policy, overrides),
                (script, handler),
                ledger,
            ))
            .await?
        }
        _ => Box::pin(ask_backend(arrival, request, given, (&script, &handler), ledger)).await?,
    };
    Ok(intercepted(arrival, request, (response, may_intercept), ledger).await)
}

/// An application's response, or the site's error page in its place, if it may be. Boxed, because
/// most responses need none of that state.
pub async fn intercepted(
    arrival: Arrival<'_>,
    request: &Request<()>,
    (response, may_intercept): (Response<Source>, bool),
    ledger: &mut Ledger,
) -> Response<Source> {
    match may_intercept && error_page::is_intercepted(arrival.site, response.status()) {
        true => Box::pin(error_page::intercepted(arrival, request, response, ledger)).await,
        false => response,
    }
}

/// Looks up the response to a request without a body in the content cache.
///
/// # Errors
/// Fails if the response is not stored and the client accepts nothing else (`only-if-cached`).
pub async fn look_up(
    arrival: Arrival<'_>,
    policy: &Arc<CachePolicy>,
    request: &Request<()>,
    overrides: &Overrides,
    ledger: &mut Ledger,
) -> Result<LookupResult, Failure> {
    let Arrival { context, site, caller } = arrival;
    let Some(content) = &context.cache else {
        return Ok(LookupResult::Pass(cache::ResponseAction::none()));
    };
    let (loop_index, refresh) = (context.index, caller.refresh());
    let (scheme, has_certificate) = (caller.scheme(), caller.addresses().has_certificate());
    let site = site.name_in_keys();
    let found = Lookup {
        content,
        loop_index,
        policy,
        request,
        overrides,
        scheme,
        site,
        has_certificate,
        refresh,
    };
    let found = found.run().await;
    ledger.mark(Phase::Cache);
    let Ok(LookupResult::Answer(response, Some(refresh))) = found else { return found };
    if let Some(caller) = caller.refreshing(refresh) {
        fetch_anew(context, caller, request);
    }
    Ok(LookupResult::Answer(response, None))
}

/// Starts a subrequest that refreshes a stale response of the content cache.
fn fetch_anew(context: &Arc<Context>, caller: Caller, stale: &Request<()>) {
    let mut request = Request::new(Body::Empty);
    *request.uri_mut() = stale.uri().clone();
    *request.version_mut() = stale.version();
    *request.headers_mut() = cache::unconditional(stale.headers());
    // Its name and its trace, for the error log.
    *request.extensions_mut() = stale.extensions().clone();
    let context = context.clone();
    // The response is dropped: the subrequest only has to store it.
    tokio::spawn(async move { drop(own(&context, &caller, request).await) });
}

/// Asks the content cache, and an application if necessary.
async fn ask_cache(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    (policy, overrides): (&Arc<CachePolicy>, &Overrides),
    (script, handler): (Script, Handler),
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    match look_up(arrival, policy, request, overrides, ledger).await? {
        LookupResult::Answer(response, _) => Ok(response),
        LookupResult::Pass(action) => {
            // Boxed, because a hit does not need this state.
            let answer =
                Box::pin(ask_backend(arrival, request, given, (&script, &handler), ledger));
            answer.await.map(|response| action.finish(response))
        }
        LookupResult::Fetch(fetch) => {
            let request = fetch.request(request);
            let (context, index) = (arrival.context.clone(), arrival.site.index);
            let caller = arrival.caller.detached();
            let (variables, mut booked) = (given.variables, ledger.clone());
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

/// Reads the request's body, unless it has been read, and asks the application.
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
