//! The phases from a decision to its response, in the order of the table in
//! [`pipeline`](super::pipeline): login, authorize, cache, body, backend.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use tokamak_cache::Overrides;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;
use tokamak_upstream::live::LiveBody;
use tokio::sync::oneshot;

use super::body::{Incoming, gather, no_body, send_on};
use super::error_page::{self, Refusal};
use super::{hub, listing, login};
use crate::backend::cgi::Variables;
use crate::backend::upstream::Authorization;
use crate::backend::{self, Arrival, RequestBody};
use crate::cache::{self, CachePolicy, Lookup, LookupResult};
use crate::caller::Caller;
use crate::context::Context;
use crate::failure::Failure;
use crate::log;
use crate::response::files::{self, OpenFile};
use crate::response::{Source, pages};
use crate::route::{Decision, Script, Target};
use crate::site::{Handler, Site};
use crate::websocket;

/// What is to be done for a request that has to wait.
pub enum Deferred {
    /// A name and a password are to be verified, or an application is to be asked, before this is
    /// carried out.
    Decision(Decision),
    /// This answers.
    Content(Content),
}

/// What answers a request when nothing more is asked before, and needs waiting.
pub enum Content {
    /// A script, or an application.
    Application(Application),
    /// A file that is sent through the application of this index.
    Filtered {
        /// The file.
        file: OpenFile,
        /// The path, decoded and clean.
        path: Vec<u8>,
        /// The application.
        index: usize,
    },
    /// The hub of the site.
    Hub,
    /// A page that lists a folder.
    Listing {
        /// The folder.
        folder: PathBuf,
        /// The path, decoded and clean.
        path: Vec<u8>,
    },
}

/// A script, and who runs it.
pub struct Application {
    /// The script.
    pub script: Script,
    /// The path, decoded and clean.
    pub path: Vec<u8>,
    /// The FastCGI application, by its index in the configuration; [`None`]: what answers for the
    /// site.
    pub upstream: Option<usize>,
}

impl Application {
    fn handler(&self, site: &Site) -> Handler {
        self.upstream.map_or_else(|| site.handler.clone(), Handler::Upstream)
    }
}

/// The answer of a request that needs no waiting.
///
/// # Errors
/// Returns what has to wait.
pub fn at_once(
    site: &Site,
    request: &Request<()>,
    decision: Decision,
) -> Result<Result<Response<Source>, Failure>, Deferred> {
    match decision.authorizer.is_some() || !decision.login.is_empty() {
        true => Err(Deferred::Decision(decision)),
        false => permitted(site, request, decision).map_err(Deferred::Content),
    }
}

/// The same, for a request that nothing more stands before.
fn permitted(
    site: &Site,
    request: &Request<()>,
    decision: Decision,
) -> Result<Result<Response<Source>, Failure>, Content> {
    let Decision { target, path, filter, .. } = decision;
    let failure = match target {
        Target::Script(script) => {
            return Err(Content::Application(Application { script, path, upstream: None }));
        }
        Target::Application(script, index) => {
            let upstream = Some(index);
            return Err(Content::Application(Application { script, path, upstream }));
        }
        Target::Hub => return Err(Content::Hub),
        Target::Listing(folder) => return Err(Content::Listing { folder, path }),
        Target::File(file) => {
            if let Some(index) = filter.filter(|_| backend::is_safe(request)) {
                return Err(Content::Filtered { file, path, index });
            }
            match files::respond(file, request, &site.config.charset) {
                Ok(response) => return Ok(Ok(response)),
                Err(failure) => failure,
            }
        }
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
pub async fn decided(
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
                return Ok(intercepted(arrival, request, response, may, ledger).await);
            }
        }
    }
    match permitted(arrival.site, request, decision) {
        Ok(answer) => answer,
        Err(content) => self::content(arrival, request, given, content, ledger).await,
    }
}

/// Has a request answered that nothing more stands before.
///
/// # Errors
/// As [`decided`].
pub async fn content(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    content: Content,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let may_intercept = given.may_intercept;
    let response = match content {
        Content::Application(application) => {
            // A stored page is no answer to who wants to talk.
            let policy = match websocket::is_asked(arrival.caller, request) {
                false => arrival.site.caching.of(&application.path),
                true => None,
            };
            match (policy, given.overrides) {
                (Some(policy), Some(overrides)) => {
                    let answer =
                        ask_cache(arrival, request, given, policy, overrides, application, ledger);
                    Box::pin(answer).await?
                }
                _ => Box::pin(ask_backend(arrival, request, given, &application, ledger)).await?,
            }
        }
        Content::Filtered { file, path, index } => {
            let variables = &given.variables;
            let filtered = backend::filter(arrival, request, &path, file, index, variables, ledger);
            Box::pin(filtered).await?
        }
        Content::Hub => return Ok(Box::pin(hub::respond(arrival, request, given, ledger)).await),
        Content::Listing { folder, path } => {
            let listed = Box::pin(listing::respond(arrival, request, path, &folder)).await;
            ledger.mark(Phase::Route);
            return listed;
        }
    };
    Ok(intercepted(arrival, request, response, may_intercept, ledger).await)
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

/// An application's response, or the site's error page in its place, if it may be. Boxed, because
/// most responses need none of that state.
pub async fn intercepted(
    arrival: Arrival<'_>,
    request: &Request<()>,
    response: Response<Source>,
    may_intercept: bool,
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
    tokio::spawn(async move { drop((context.subrequest)(&context, &caller, request).await) });
}

/// Asks the content cache, and an application if necessary.
async fn ask_cache(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    policy: &Arc<CachePolicy>,
    overrides: &Overrides,
    application: Application,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    match look_up(arrival, policy, request, overrides, ledger).await? {
        LookupResult::Answer(response, _) => Ok(response),
        LookupResult::Pass(action) => {
            // Boxed, because a hit does not need this state.
            let answer = Box::pin(ask_backend(arrival, request, given, &application, ledger));
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
                let answer = ask_backend(arrival, &request, given, &application, &mut booked).await;
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
    application: &Application,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let RequestParts { body, incoming, variables, .. } = given;
    let incoming = incoming.filter(|incoming| !incoming.is_end_stream());
    let (script, handler) = (&application.script, application.handler(arrival.site));
    let body = match (body, incoming) {
        (Some(body), _) => body,
        (None, None) => Body::Empty,
        (None, Some(incoming)) if backend::takes_live_bodies(arrival, request, &handler) => {
            let ask = |live, ledger| {
                let body = RequestBody::Live(live);
                backend::serve(arrival, request, body, &variables, script, &handler, ledger)
            };
            let incoming = std::mem::replace(incoming, no_body());
            return Box::pin(ask_meanwhile(arrival, request, incoming, ask, ledger)).await;
        }
        (None, Some(incoming)) => {
            let body = gather(&arrival.context.config, arrival.caller, incoming).await;
            ledger.mark(Phase::Body);
            body.map_err(|failure| arrival.log_failure(failure.into(), request))?
        }
    };
    let body = RequestBody::Whole(body);
    backend::serve(arrival, request, body, &variables, script, &handler, ledger).await
}

/// Asks the application while the client sends the body. The client gets the answer as soon as it
/// begins; the rest of the body follows meanwhile, as long as the application reads it.
async fn ask_meanwhile<'a, F>(
    arrival: Arrival<'_>,
    request: &Request<()>,
    incoming: Box<Incoming>,
    ask: impl FnOnce(Arc<LiveBody>, &'a mut Ledger) -> F,
    ledger: &'a mut Ledger,
) -> Result<Response<Source>, Failure>
where
    F: Future<Output = Result<Response<Source>, Failure>>,
{
    let (sender, live) = LiveBody::new(incoming.size_hint().exact());
    let (config, caller) = (arrival.context.config.clone(), arrival.caller.clone());
    let (answers, answered) = oneshot::channel();
    let mut sent = Box::pin(send_on(config, caller, incoming, sender, answered));
    let mut answer = pin!(ask(live, ledger));
    let failed = |failure: Failure| arrival.log_failure(failure.into(), request);
    tokio::select! {
        biased;
        sent = &mut sent => {
            sent.map_err(failed)?;
            answer.await
        }
        answered = &mut answer => {
            let response = answered?;
            // Nobody needs to be told that has all of the body already.
            let _ = answers.send(());
            // If the rest does not come, the application's answer breaks off, and the log says so.
            tokio::spawn(sent);
            Ok(response)
        }
    }
}

/// The parts of a request besides its head.
#[derive(Default)]
pub struct RequestParts<'a> {
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// Where its body is read from otherwise; `None` if it has no body.
    pub incoming: Option<&'a mut Box<Incoming>>,
    /// Variables for the application.
    pub variables: Variables,
    /// The overrides of scripts for the content cache; `None` if the cache has been asked already.
    pub overrides: Option<&'a Overrides>,
    /// Whether the site's error pages may replace what an application answers. Scripts see that
    /// before, and so does the content cache.
    pub may_intercept: bool,
}
