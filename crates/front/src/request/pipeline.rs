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
//! body       read whole, so that a slow client does not occupy a worker, unless an application of
//!            HTTP wants it as it comes
//! backend    workers or a FastCGI application answer
//! respond    the response goes to the client; its guard finishes the request
//! ```
//!
//! A request that needs no waiting is answered immediately, without an allocation for a future.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task;
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Version};
use tokamak_cache::Overrides;
use tokamak_config as config;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;

use super::account::{self, Moments};
use super::body::{Bounded, Cut, Incoming, no_body};
use super::direct::{Direct, Plain, is_direct};
use super::error_page::{self, Refusal};
use super::login::{self, Checked};
use super::phases::{self, Deferred, RequestParts, at_once, failed};
use super::respond::{Gone, finish, respond};
use super::script::{self, Work};
use crate::backend::Arrival;
use crate::backend::cgi::Variables;
use crate::caller::Caller;
use crate::client::Client;
use crate::client::interim::takes_interim;
use crate::context::{Context, Subrequest};
use crate::failure::Failure;
use crate::log;
use crate::push;
use crate::response::https;
use crate::response::pages;
use crate::response::{Reply, RequestGuard, Source};
use crate::route::LoginSet;
use crate::route::hosts::{host, host_of};
use crate::site::Site;
use crate::site::limits::TooMany;
use crate::site::rules::RuleRequest;

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
    let could_use_http3 = could_use_http3(&context.config, &*client, request.version());
    let client = match &context.forwarding {
        Some(forwarding) => forwarding.resolve(client, &mut request),
        None => client,
    };
    let site = context.site_of(client.addresses().listener, host(&request), request.uri());
    if site.hub.is_some() {
        push::hide_token(&mut request);
    }
    let mut guard = account::open(context, site, &client, &mut request, moments);
    if could_use_http3 {
        guard.edits.offer_http3(&site.edits);
    }
    // Before the limits: an authority that is refused gives no certificate.
    let tls = context.tls.as_ref();
    if let Some(answer) = tls.and_then(|tls| tls.challenge_answer(request.uri().path())) {
        return Serving::Now(Some(respond(Response::new(Source::Whole(answer)), guard)));
    }
    if let Some(limits) = &site.limits {
        match limits.admit(&*client, &request, &site.rules, &site.router, moments.now) {
            Ok(slots) => guard.slots = slots,
            Err(too_many) => {
                let response = limited(site, &request, &too_many);
                return Serving::Now(Some(respond(response, guard)));
            }
        }
    }
    let (parts, incoming) = request.into_parts();
    let body = incoming.is_end_stream().then_some(Body::Empty);
    let (is_empty, length) = (body.is_some(), incoming.size_hint().exact());
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
        Pending::begin(Arrival { context, site, caller: &caller }, parts, body, length, &mut guard)
    };
    match begun {
        Ok(response) => Serving::Now(Some(respond(response, guard))),
        Err(Pending::Plain(plain)) if is_direct(context, &plain) => {
            Serving::Direct(Box::new(Direct::new(context.clone(), caller, plain, guard)))
        }
        Err(pending) => {
            let context = context.clone();
            let incoming: Box<Incoming> = match is_empty {
                true => no_body(),
                false => Box::new(incoming),
            };
            Serving::Later(Box::pin(wait(context, caller, pending, incoming, guard)))
        }
    }
}

/// Whether the client is to be told of HTTP/3: it speaks TLS with this server itself, and is no
/// proxy, whose own clients would be told.
fn could_use_http3(config: &config::Server, client: &dyn Client, version: Version) -> bool {
    let addresses = client.addresses();
    config.http3.enabled
        && version != Version::HTTP_3
        && addresses.tls.is_some()
        && !addresses.is_proxied
        && !config.proxies.trusts(addresses.peer.ip())
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
async fn wait(
    context: Arc<Context>,
    caller: Caller,
    pending: Pending,
    mut incoming: Box<Incoming>,
    mut guard: Box<RequestGuard>,
) -> Result<Response<Reply>, Gone> {
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

/// Answers a subrequest that the server makes for itself, for this caller. It goes through all
/// phases: the scripts of its site, routes, applications. Its body is complete. It is not written
/// into the access log.
///
/// The body of the response is not limited; the caller must limit it, as with
/// [`http_body_util::Limited`].
pub fn subrequest<'a>(
    context: &'a Arc<Context>,
    caller: &'a Caller,
    request: Request<Body>,
) -> Subrequest<'a> {
    Box::pin(own(context, caller, request))
}

async fn own(context: &Arc<Context>, caller: &Caller, request: Request<Body>) -> Response<Reply> {
    let ledger = Ledger::unread(tokamak_cost::now());
    let mut guard = RequestGuard::new(caller.client().cloned(), ledger);
    let (parts, body) = request.into_parts();
    let (length, body) = (Some(body.left()), Some(body));
    let listener = caller.addresses().listener;
    let site = context.site_of(listener, host_of(&parts.uri, &parts.headers), &parts.uri);
    let arrival = Arrival { context, site, caller };
    let response = match Pending::begin(arrival, parts, body, length, &mut guard) {
        Ok(response) => response,
        Err(pending) => pending.answer(context, caller, None, &mut guard.ledger).await,
    };
    Reply::respond(response, guard)
}

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
        arrival: Arrival<'_>,
        parts: Parts,
        body: Option<Body>,
        length: Option<u64>,
        guard: &mut RequestGuard,
    ) -> Result<Response<Source>, Pending> {
        let Arrival { context, site, caller } = arrival;
        let head_only = parts.method == http::Method::HEAD;
        if !site.hooks.is_empty() {
            // Scripts have not chosen yet: without them, this would answer.
            if site.rules.look_at_answers() {
                let decision = site.decide_changed(caller, &parts, None);
                guard.edits.changes = site.rules.changes(&parts.uri, &site.router, Some(&decision));
            }
            let ledger = &mut guard.ledger;
            let (began, caller) = (ledger.start(), caller.clone());
            let work = Work::new(context.clone(), site.index, caller, parts, body, length, began);
            let response = script::begin(context, work, ledger)
                .map_err(|begun| Pending::Scripted { begun, head_only });
            return Ok(finish(response?, head_only));
        }
        let request = Request::from_parts(parts, ());
        let mut decision = site.decide(caller, &request);
        guard.ledger.mark(Phase::Route);
        if site.rules.look_at_answers() {
            guard.edits.changes = site.rules.changes(request.uri(), &site.router, Some(&decision));
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
            Err(remaining) => {
                let plain = Plain { site_index: site.index, request, body, remaining, variables };
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
        incoming: Option<&mut Box<Incoming>>,
        ledger: &mut Ledger,
    ) -> Response<Source> {
        match self {
            Pending::Plain(plain) => {
                let Plain { site_index, request, body, remaining, variables } = *plain;
                let arrival = Arrival { context, site: &context.sites[site_index], caller };
                // What is fetched anew for the content cache has no client.
                let may_intercept = caller.refresh().is_none();
                let overrides = Some(&PLAIN);
                let given = RequestParts { body, incoming, variables, overrides, may_intercept };
                let answer = match remaining {
                    Deferred::Decision(decision) => {
                        phases::decided(arrival, &request, given, decision, ledger).await
                    }
                    Deferred::Content(content) => {
                        phases::content(arrival, &request, given, content, ledger).await
                    }
                };
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
