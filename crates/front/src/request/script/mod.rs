//! Runs the Lua scripts of a request: before its path is looked up, when its file is known, before
//! an application is asked, and before the response's head is sent.
//!
//! A site without scripts does not use this module.

mod attributes;
mod caching;
mod fetch;
mod others;
mod response;
mod spare;
mod work;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::request::Parts;
use http::{Request, Response, Uri};
use tokamak_cost::{Ledger, Phase};
use tokamak_lua::{Host, LuaState, MOST_RESTARTS, Outcome, Run, ScriptId, Stage};

use super::body::{Incoming, gather};
use super::error_page;
use super::login;
use super::phases::{self, RequestParts};
use crate::backend::Arrival;
use crate::cache::{self, CachePolicy, Fetch, LookupResult};
use crate::caller::Caller;
use crate::context::Context;
use crate::failure::Failure;
use crate::log;
use crate::lua::{self, Hooks};
use crate::response::{Source, pages};
use crate::route::{Decision, Target};
use crate::scoreboard;

pub use work::Work;

/// The result of the scripts of one stage.
enum StageResult {
    /// The request goes on.
    GoOn,
    /// The request is restarted.
    Restart,
    /// The scripts have made the response, with this status.
    Answer(u16),
}

/// One request of a site with scripts.
struct ScriptedRequest<'a> {
    arrival: Arrival<'a>,
    /// Where the request's body is read from.
    incoming: Option<&'a mut Box<Incoming>>,
    /// The scripts for the request's path.
    hooks: &'a Hooks,
    /// `None` only while a script has it.
    work: Option<Box<Work>>,
    /// The first script, if it has been begun already.
    first: Option<FirstScript>,
    restarts: u32,
    /// Whether the content cache has been asked.
    is_asked: bool,
}

/// A request whose first script has begun.
pub struct Begun {
    site_index: usize,
    route: Option<usize>,
    work: Option<Box<Work>>,
    first: Option<FirstScript>,
}

/// The state of a request's first script.
enum FirstScript {
    /// The script has ended.
    Ended(Box<Work>, Outcome),
    /// The script waits.
    Waiting(Box<Run>),
}

/// Begins to serve a request of a site that has scripts. Returns the response if the first script
/// makes it without waiting.
///
/// # Errors
/// Returns the state with which [`serve`] continues.
pub fn begin(
    context: &Context,
    work: Box<Work>,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Begun> {
    let site_index = work.site_index;
    let hooks = &context.sites[site_index].hooks;
    let route = hooks.route(work.parts.uri.path());
    let hooks = hooks.on(route);
    let (Some(script), Some(state)) = (hooks.at(Stage::RawUrl).first(), &context.lua) else {
        return Err(Begun { site_index, route, work: Some(work), first: None });
    };
    let first = match state.begin(*script, Stage::RawUrl, work) {
        Ok((host, outcome)) => {
            let mut work = own(host);
            if let Outcome::Answer(status) = outcome
                && hooks.at(Stage::Response).is_empty()
            {
                ledger.mark(Phase::Script);
                return Ok(work.answer(status));
            }
            FirstScript::Ended(work, outcome)
        }
        Err(run) => FirstScript::Waiting(run),
    };
    Err(Begun { site_index, route, work: None, first: Some(first) })
}

/// Serves a request of a site that has scripts. Its body is read from `incoming`, if it has not
/// been read.
///
/// # Errors
/// Fails with the failure for the client. The log has been written.
pub async fn serve(
    context: &Arc<Context>,
    caller: &Caller,
    begun: Begun,
    incoming: Option<&mut Box<Incoming>>,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let Begun { site_index, route, work, first } = begun;
    let site = &context.sites[site_index];
    let hooks = site.hooks.on(route);
    let arrival = Arrival { context, site, caller };
    let mut scripted =
        ScriptedRequest { incoming, first, ..ScriptedRequest::new(arrival, hooks, work) };
    let mut answer = scripted.answer(ledger).await;
    if let Err(failure) = answer
        && !site.config.error_pages.is_empty()
        && let Some(work) = &scripted.work
    {
        let request = Request::from_parts(work.head(), ());
        answer = Ok(Box::pin(error_page::failed(arrival, &request, failure.into(), ledger)).await);
    }
    if scripted.hooks.at(Stage::Response).is_empty() {
        return answer;
    }
    scripted.respond(Stage::Response, answer.unwrap_or_else(pages::failed), ledger).await
}

/// Takes the request back from a script.
fn own(host: Box<dyn Host>) -> Box<Work> {
    let host: Box<dyn Any> = host;
    host.downcast().unwrap_or_else(|_| unreachable!("scripts are given nothing else"))
}

impl<'a> ScriptedRequest<'a> {
    fn new(arrival: Arrival<'a>, hooks: &'a Hooks, work: Option<Box<Work>>) -> ScriptedRequest<'a> {
        let (incoming, first) = (None, None);
        ScriptedRequest { arrival, incoming, hooks, work, first, restarts: 0, is_asked: false }
    }

    fn work(&mut self) -> &mut Work {
        self.work.as_mut().unwrap_or_else(|| unreachable!("no script is running"))
    }

    async fn answer(&mut self, ledger: &mut Ledger) -> Result<Response<Source>, Failure> {
        loop {
            match self.stage(Stage::RawUrl, ledger).await? {
                StageResult::GoOn => {}
                StageResult::Restart => continue,
                StageResult::Answer(status) => return Ok(self.work().answer(status)),
            }
            let mut decision = self.work().decision();
            if let Some(refused) = self.log_in(&mut decision, ledger).await {
                return Ok(refused);
            }
            if !decision.is_final && !self.hooks.at(Stage::Physical).is_empty() {
                self.work().locate();
                match self.stage(Stage::Physical, ledger).await? {
                    StageResult::GoOn => {}
                    StageResult::Restart => continue,
                    StageResult::Answer(status) => return Ok(self.work().answer(status)),
                }
                if let Some(other) = self.work().other_decision() {
                    decision = other;
                    if let Some(refused) = self.log_in(&mut decision, ledger).await {
                        return Ok(refused);
                    }
                }
            }
            let is_open = !decision.is_final
                && matches!(
                    decision.target,
                    Target::Script(_) | Target::Application(..) | Target::NotFound
                );
            // Both are boxed, because a request that scripts answer does not need their state.
            if !is_open {
                ledger.mark(Phase::Route);
                let is_filtered = decision.filter.is_some();
                let response = Box::pin(self.go_on(decision, ledger)).await?;
                return Ok(match is_filtered {
                    true => self.intercepted(response, ledger).await,
                    false => response,
                });
            }
            if let Some(response) = Box::pin(self.make(decision, ledger)).await? {
                return Ok(self.intercepted(response, ledger).await);
            }
        }
    }

    /// A response of an application or of content scripts, or the site's error page in its place.
    async fn intercepted(
        &mut self,
        response: Response<Source>,
        ledger: &mut Ledger,
    ) -> Response<Source> {
        if !error_page::is_intercepted(self.arrival.site, response.status()) {
            return response;
        }
        let request = Request::from_parts(self.work().head(), ());
        phases::intercepted(self.arrival, &request, response, true, ledger).await
    }

    /// Looks at the name and password of a request, if rules ask for them. `None`: they are right.
    async fn log_in(
        &mut self,
        decision: &mut Decision,
        ledger: &mut Ledger,
    ) -> Option<Response<Source>> {
        let needed = std::mem::take(&mut decision.login);
        if needed.is_empty() {
            return None;
        }
        let request = self.work().take_request();
        // Boxed, because most requests need none of its state.
        let verified = Box::pin(login::verify(self.arrival, &request, needed)).await;
        ledger.mark(Phase::Authorize);
        let refused = match verified {
            Ok(user) => {
                self.work().set_user(&user);
                None
            }
            Err(refusal) => Some(phases::failed(self.arrival, &request, refusal, ledger).await),
        };
        self.work().take_back(request.into_parts().0);
        refused
    }

    /// Answers a request that is not for a file: from the content cache, by scripts or by an
    /// application. `None`: the request is restarted.
    async fn make(
        &mut self,
        decision: Decision,
        ledger: &mut Ledger,
    ) -> Result<Option<Response<Source>>, Failure> {
        // With an authorizer, the cache is asked only after the authorizer.
        let policy = self.work().policy().filter(|_| decision.authorizer.is_none());
        match policy {
            // Boxed, because each connection reserves room for the largest future, and most
            // requests do not need this one.
            Some(policy) => Box::pin(self.make_or_find(&policy, decision, ledger)).await,
            None => self.content(decision, ledger).await,
        }
    }

    /// As [`ScriptedRequest::make`], for a path whose responses are cached.
    async fn make_or_find(
        &mut self,
        policy: &Arc<CachePolicy>,
        decision: Decision,
        ledger: &mut Ledger,
    ) -> Result<Option<Response<Source>>, Failure> {
        let overrides = self.work().cache_overrides(policy);
        self.is_asked = true;
        // The fields that scripts have set are added to every response, also to one of the cache.
        let fields = std::mem::take(&mut self.work().fields);
        let request = self.work().take_request();
        let found = phases::look_up(self.arrival, policy, &request, &overrides, ledger).await;
        self.work().take_back(request.into_parts().0);
        let answer = match found? {
            LookupResult::Answer(response, _) => Some(response),
            LookupResult::Pass(mut action) => match self.content(decision, ledger).await? {
                Some(mut response) => {
                    if action.may_keep() {
                        response = self.store_stage(response, ledger).await?;
                        action.overrides(&self.work().overrides);
                    }
                    Some(action.finish(response))
                }
                None => None,
            },
            // Boxed, as a hit needs none of its room.
            LookupResult::Fetch(fetch) => Box::pin(self.fetch(*fetch, decision, ledger)).await?,
        };
        Ok(answer.map(|mut response| {
            self.work().fields = fields;
            self.work().add_fields(response.headers_mut());
            response
        }))
    }

    /// Answers the request for the content cache, in a task of its own.
    async fn fetch(
        &mut self,
        fetch: Fetch,
        decision: Decision,
        ledger: &mut Ledger,
    ) -> Result<Option<Response<Source>>, Failure> {
        let changed = fetch.headers();
        let original = std::mem::replace(&mut self.work().parts.headers, changed);
        let (context, index) = (self.arrival.context.clone(), self.arrival.site.index);
        let caller = self.arrival.caller.detached();
        let (mut work, restarts, mut booked) = (self.work.take(), self.restarts, ledger.clone());
        let ask = async move {
            let site = &context.sites[index];
            let hooks = work.as_mut().map(|work| work.hooks(&site.hooks));
            let hooks = hooks.unwrap_or_else(|| unreachable!("no script is running"));
            let arrival = Arrival { context: &context, site, caller: &caller };
            let new = ScriptedRequest::new(arrival, hooks, work);
            let mut scripted = ScriptedRequest { restarts, is_asked: true, ..new };
            let answer = match scripted.content(decision, &mut booked).await {
                Ok(Some(response)) => scripted.store_stage(response, &mut booked).await.map(Some),
                answer => answer,
            };
            let overrides = scripted.work().overrides.clone();
            (answer.transpose(), booked, Some(overrides), (scripted.work, scripted.restarts))
        };
        let (outcome, (work, restarts)) = fetch.run(ledger, ask).await;
        (self.work, self.restarts) = (work, restarts);
        let site = self.arrival.site;
        self.hooks = self.work().hooks(&site.hooks);
        cache::restore(&mut self.work().parts.headers, &original);
        outcome.transpose()
    }

    /// Has scripts or an application answer. `None`: the request is restarted.
    async fn content(
        &mut self,
        decision: Decision,
        ledger: &mut Ledger,
    ) -> Result<Option<Response<Source>>, Failure> {
        match self.stage(Stage::Content, ledger).await? {
            StageResult::GoOn => {}
            StageResult::Restart => return Ok(None),
            StageResult::Answer(status) => return Ok(Some(self.work().answer(status))),
        }
        ledger.mark(Phase::Route);
        self.go_on(decision, ledger).await.map(Some)
    }

    /// Continues with a request that the scripts have let pass.
    async fn go_on(
        &mut self,
        decision: Decision,
        ledger: &mut Ledger,
    ) -> Result<Response<Source>, Failure> {
        let (parts, given) = self.work().take_parts();
        let overrides = std::mem::take(&mut self.work().overrides);
        let asks = (!self.is_asked).then_some(&overrides);
        let given =
            RequestParts { incoming: self.incoming.as_deref_mut(), overrides: asks, ..given };
        let request = Request::from_parts(parts, ());
        let answer = phases::decided(self.arrival, &request, given, decision, ledger).await;
        let (parts, ()) = request.into_parts();
        self.work().take_back(parts);
        self.work().overrides = overrides;
        let mut response = answer?;
        self.work().add_fields(response.headers_mut());
        Ok(response)
    }

    /// Runs the scripts that see a response before it is stored.
    async fn store_stage(
        &mut self,
        response: Response<Source>,
        ledger: &mut Ledger,
    ) -> Result<Response<Source>, Failure> {
        if self.hooks.at(Stage::Store).is_empty() {
            return Ok(response);
        }
        self.respond(Stage::Store, response, ledger).await
    }

    /// Lets the scripts of a stage change a response.
    async fn respond(
        &mut self,
        stage: Stage,
        response: Response<Source>,
        ledger: &mut Ledger,
    ) -> Result<Response<Source>, Failure> {
        let source = self.work().adopt(response);
        let verdict = self.stage(stage, ledger).await?;
        let status = match verdict {
            StageResult::Answer(status) => Some(status),
            StageResult::GoOn | StageResult::Restart => None,
        };
        Ok(self.work().release(source, status))
    }

    /// Asks the scripts of one stage, one after the other, until one does not go on.
    async fn stage(&mut self, stage: Stage, ledger: &mut Ledger) -> Result<StageResult, Failure> {
        let Some(state) = &self.arrival.context.lua else { return Ok(StageResult::GoOn) };
        let hooks = self.hooks;
        let mut scripts = hooks.at(stage).iter();
        let mut verdict = StageResult::GoOn;
        while let Some(script) = scripts.next() {
            match self.run(state, *script, stage).await {
                Outcome::GoOn if self.work().wants_body() => {
                    Box::pin(self.gather(ledger)).await?;
                    // Start again with the first script: now it can read the body.
                    scripts = hooks.at(stage).iter();
                }
                Outcome::GoOn => {}
                Outcome::Interim(status) => self.work().send_interim(status),
                Outcome::Answer(status) => {
                    verdict = StageResult::Answer(status);
                    break;
                }
                Outcome::Restart => {
                    self.restart()?;
                    verdict = StageResult::Restart;
                    break;
                }
                Outcome::Failed(error) => {
                    ledger.mark(Phase::Script);
                    return Err(lua::failure(error));
                }
            }
        }
        if !hooks.at(stage).is_empty() {
            ledger.mark(Phase::Script);
        }
        Ok(verdict)
    }

    async fn run(&mut self, state: &Arc<LuaState>, script: ScriptId, stage: Stage) -> Outcome {
        let (work, outcome) = match self.first.take() {
            Some(FirstScript::Ended(work, outcome)) => (work, outcome),
            Some(FirstScript::Waiting(run)) => ended(*run).await,
            None => {
                let work = self.work.take().unwrap_or_else(|| unreachable!("no script is running"));
                ended(state.run(script, stage, work)).await
            }
        };
        self.work = Some(work);
        outcome
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.restarts += 1;
        if self.restarts < MOST_RESTARTS {
            self.is_asked = false;
            self.work().restart();
            let site = self.arrival.site;
            self.hooks = self.work().hooks(&site.hooks);
            return Ok(());
        }
        Host::log(self.work(), "too many request restarts (infinite loop?)");
        Err(Failure::Internal)
    }

    async fn gather(&mut self, ledger: &mut Ledger) -> Result<(), Failure> {
        let Some(incoming) = self.incoming.as_deref_mut() else { return Err(Failure::Internal) };
        let body = gather(&self.arrival.context.config, self.arrival.caller, incoming).await;
        ledger.mark(Phase::Body);
        match body {
            Ok(body) => {
                self.work().put_body(body);
                Ok(())
            }
            Err(failure) => {
                let request = Request::from_parts(self.work().head(), ());
                log::failed(&self.arrival.site.config.name, failure, failure.text(), &request);
                Err(failure)
            }
        }
    }
}

async fn ended(run: Run) -> (Box<Work>, Outcome) {
    let (host, outcome) = run.await;
    (own(host), outcome)
}

/// A moment as seconds and nanoseconds since 1970.
fn time_of_day(moment: u64) -> (i64, i64) {
    let ago = Duration::from_nanos(tokamak_cost::now().saturating_sub(moment));
    let since = (SystemTime::now() - ago).duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() as i64, since.subsec_nanos().into())
}

/// The length of a request's head whose target was `original`.
fn head_length(parts: &Parts, original: &Uri) -> u64 {
    scoreboard::length(&parts.headers)
        + (original.to_string().len() + parts.method.as_str().len() + 14) as u64
}
