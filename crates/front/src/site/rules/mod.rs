//! The rules of a site: who is sent elsewhere, what is served in place of what, what is refused.
//!
//! They are asked between the scripts of the first stage and the route, in this order:
//!
//! 1. The canonical host.
//! 2. The rules, in the order of the file: a refusal or a redirect ends the request; the first
//!    rewrite gives it another path.
//! 3. After a rewrite, all refusals again, for the new path: what is refused stays refused,
//!    whatever a rewrite leads to.
//! 4. The restrictions of all rules that fit the path that is served: what may run there. If a
//!    directory's index file answers, refusals and restrictions hold for its path, too; if a script
//!    answers with PATH_INFO, they hold for the script's own path, and refusals for the page that
//!    PATH_INFO could stand for.
//!
//! They also say which rules ask for a password: those for the path of the request, for the one
//! that a rewrite leads to, for an index file and for PATH_INFO. The password is asked for before
//! anything is answered that these paths lead to.
//!
//! Limits by client (`site::limits`) come before all of this.

pub mod book;
pub mod condition;
mod input;
pub mod request_paths;
mod target;

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Uri};
use smallvec::SmallVec;
use tokamak_config::{self as config, Satisfy, Serve};

use crate::caller::Caller;
use crate::response::headers::{HeaderChanges, HeaderRule};
use crate::route::canonical;
use crate::route::hosts::host_of;
use crate::route::{self, Decision, Extent, Pages, Router, Target};
use condition::{fits, is_in, moves, protects};
use input::RuleInput;
use request_paths::RequestPaths;

/// What of a request the rules look at.
#[derive(Clone, Copy)]
pub struct RuleRequest<'a> {
    /// The client, or the server itself.
    pub caller: &'a Caller,
    /// Its method.
    pub method: &'a Method,
    /// Its target.
    pub uri: &'a Uri,
    /// Its header fields.
    pub headers: &'a HeaderMap,
}

/// The rules of one site.
pub struct Rules {
    canonical_host: Option<String>,
    /// Those that look at requests.
    rules: Vec<config::Rule>,
    /// Whether any asks for a password.
    has_logins: bool,
    /// Whether any keeps somebody away, by the address or by a password.
    has_guards: bool,
    /// Whether any protects a part of the site.
    has_protected: bool,
    /// Those that change the heads of responses, and what they do.
    of_responses: Vec<config::Rule>,
    headers: Arc<[HeaderRule]>,
    /// Whether any of these goes by what answers.
    looks_at_answers: bool,
    /// Those that limit bodies.
    of_bodies: Vec<config::Rule>,
    /// Those for requests that are not logged.
    unlogged: Vec<config::Rule>,
}

/// The path of a request as rules see it. Those for the whole site hold also for an invalid path,
/// which is empty.
pub fn path_of(uri: &Uri, router: &Router) -> Vec<u8> {
    let path = route::clean(uri.path().as_bytes()).unwrap_or_default();
    router.inner(path, None).unwrap_or_default()
}

impl Rules {
    /// The rules of `site`.
    pub fn new(site: &config::Site) -> Rules {
        let looks = |rule: &&config::Rule| {
            rule.redirect.is_some()
                || rule.rewrite.is_some()
                || rule.refuses()
                || rule.login.is_some()
                || rule.serve != Serve::All
                || rule.index_listing.is_some()
                || !rule.scripts.is_empty()
        };
        let changes = |rule: &&config::Rule| !rule.headers.is_empty() || rule.is_last;
        let of_responses: Vec<_> = site.rules.iter().filter(changes).cloned().collect();
        let headers: Vec<_> = of_responses.iter().map(HeaderRule::new).collect();
        Rules {
            canonical_host: site.canonical_host.clone(),
            has_logins: site.rules.iter().any(|rule| rule.login.is_some()),
            has_protected: site.rules.iter().any(|rule| {
                let is_of_part = !rule.paths.is_empty()
                    || !rule.extensions.is_empty()
                    || !rule.and_patterns.is_empty();
                rule.refuses()
                    || rule.login.is_some()
                    || (protects(rule) && (is_of_part || rule.pattern.is_some()))
            }),
            has_guards: site.rules.iter().any(|rule| rule.login.is_some() || rule.refuses()),
            rules: site.rules.iter().filter(looks).cloned().collect(),
            looks_at_answers: of_responses.iter().any(|rule| rule.of_answer),
            of_responses,
            headers: headers.into(),
            of_bodies: site.rules.iter().filter(|rule| rule.body.is_some()).cloned().collect(),
            unlogged: site.rules.iter().filter(|rule| !rule.is_logged).cloned().collect(),
        }
    }

    /// Most bytes of the body of a request for `uri`; `most` where no rule says it.
    pub fn body_limit(&self, uri: &Uri, router: &Router, most: u64) -> u64 {
        if self.of_bodies.is_empty() {
            return most;
        }
        let rules = self.of_bodies.iter().filter_map(|rule| Some((rule, rule.body?)));
        self.request_paths(uri, router).least(rules, most)
    }

    /// Whether a request for `uri` is written to the access log.
    pub fn is_logged(&self, uri: &Uri, router: &Router) -> bool {
        if self.unlogged.is_empty() {
            return true;
        }
        let paths = RequestPaths::new(uri, router);
        !self.unlogged.iter().any(|rule| paths.describes(rule))
    }

    /// Whether there is nothing to look at in requests.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.canonical_host.is_none()
    }

    /// Whether what is changed in the head of a response depends on what answers.
    pub fn look_at_answers(&self) -> bool {
        self.looks_at_answers
    }

    /// What is changed in the head of the response to a request for `uri`, if anything; `decision`:
    /// what answers, if that is known. Otherwise it is taken for what stands at the path.
    pub fn changes(
        &self,
        uri: &Uri,
        router: &Router,
        decision: Option<&Decision>,
    ) -> Option<Box<HeaderChanges>> {
        if self.of_responses.is_empty() {
            return None;
        }
        let paths = RequestPaths::new(uri, router);
        let answer = decision.and_then(|decision| answer_of(decision, router));
        let answer = answer.as_deref().unwrap_or(&paths.own);
        let mut is_over = false;
        let mut holds = |rule: &config::Rule| {
            if !rule.of_answer {
                return paths.describes(rule);
            }
            let holds = !is_over && fits(rule, answer);
            is_over |= holds && rule.is_last;
            holds
        };
        let fitting = self.of_responses.iter().enumerate();
        let fitting: SmallVec<[u16; 12]> = fitting
            .filter(|(_, rule)| holds(rule))
            .filter_map(|(index, _)| u16::try_from(index).ok())
            .collect();
        let is_any = !fitting.is_empty();
        is_any.then(|| Box::new(HeaderChanges::new(self.headers.clone(), fitting)))
    }

    /// Decides what answers a request for `path`, which is decoded; `None`: for that of its target.
    pub fn decide(
        &self,
        request: RuleRequest<'_>,
        path: Option<Vec<u8>>,
        router: &Router,
    ) -> Decision {
        let decision = self.decide_by_path(request, path, router);
        // Applications read REQUEST_URI, which is what the client sent: `/staff/..` is `/` for the
        // rules, but may be a page below `/staff` for them. No browser sends it.
        let is_script = matches!(decision.target, Target::Script(_) | Target::Application(..));
        if self.has_protected && is_script && route::climbs(request.uri.path().as_bytes()) {
            return Decision::final_target(Target::BadRequest);
        }
        decision
    }

    fn decide_by_path(
        &self,
        request: RuleRequest<'_>,
        path: Option<Vec<u8>>,
        router: &Router,
    ) -> Decision {
        if let Some(canonical) = self.elsewhere(&request, path.is_some(), router) {
            return Decision::final_target(canonical);
        }
        let path = match path {
            Some(path) => route::clean_decoded(path),
            None => route::clean(request.uri.path().as_bytes()),
        };
        let Some(path) = path else { return Decision::final_target(Target::BadRequest) };
        let path = match router.inner(path, request.uri.query()) {
            Ok(path) => path,
            Err(target) => return Decision::final_target(target),
        };
        let text = String::from_utf8_lossy(&path);
        let asked = RuleInput::by(&request);
        for rule in self.fitting(&path, asked) {
            if let Some(refusal) = refusal(rule, asked) {
                return Decision::final_target(refusal);
            }
            if !moves(rule, &path) {
                continue;
            }
            if !is_there(rule, &path, router) {
                continue;
            }
            if let Some((to, status)) = redirect(rule, &text, request.uri) {
                return Decision::final_target(Target::Redirect(to, status));
            }
            if let Some(to) = &rule.rewrite {
                let (to_path, query) =
                    target::rewritten(to, &groups(rule, &text), request.uri.query());
                let Some(rewritten_path) = route::clean_decoded(to_path) else {
                    return Decision::final_target(Target::BadRequest);
                };
                let mut rewritten = self.serve_rewritten(rewritten_path, query, asked, router);
                // What protects a path protects it also as the way to another one.
                self.ask_to_log_in(&mut rewritten, &path, asked);
                return rewritten;
            }
        }
        self.restrict(&path, request.uri.query(), asked, router)
    }

    /// Decides what answers for a clean path that is not what the client asked for, by refusals and
    /// restrictions alone.
    pub fn decide_located(
        &self,
        path: Vec<u8>,
        request: RuleRequest<'_>,
        router: &Router,
    ) -> Decision {
        self.serve(path, None, RuleInput::by(&request), router)
    }

    fn serve_rewritten(
        &self,
        path: Vec<u8>,
        query: String,
        asked: RuleInput<'_>,
        router: &Router,
    ) -> Decision {
        let mut decision = self.serve(path, Some(&query), asked, router);
        if let Target::Script(script) | Target::Application(script, _) = &mut decision.target {
            script.set_query(query);
        }
        decision
    }

    fn serve(
        &self,
        path: Vec<u8>,
        query: Option<&str>,
        asked: RuleInput<'_>,
        router: &Router,
    ) -> Decision {
        match self.refusal(&path, asked) {
            Some(refusal) => Decision::final_target(refusal),
            None => self.restrict(&path, query, asked, router),
        }
    }

    /// Decides what answers for a clean path, without what the rules do not let run there.
    fn restrict(
        &self,
        path: &[u8],
        query: Option<&str>,
        asked: RuleInput<'_>,
        router: &Router,
    ) -> Decision {
        let extent = self.extent(path, router);
        let mut decision = router.find_clean(path.to_vec(), query, extent);
        self.ask_to_log_in(&mut decision, path, asked);
        let index = router.index_of(path, &decision.target);
        if let Some(index) = &index {
            if let Some(refusal) = self.refusal(index, asked) {
                return Decision::final_target(refusal);
            }
            self.ask_to_log_in(&mut decision, index, asked);
        }
        if let Some(refusal) = self.guard_pages(&mut decision, path, asked, router) {
            return Decision::final_target(refusal);
        }
        if let Some(own) = path_before_info(&decision.target, path, router) {
            if let Some(refusal) = self.refusal(own, asked) {
                return Decision::final_target(refusal);
            }
            self.ask_to_log_in(&mut decision, own, asked);
            if !self.may_run(own, own) {
                return Decision::final_target(Target::Forbidden);
            }
        }
        if let Target::Script(script) | Target::Application(script, _) = &decision.target {
            let name = &script.script_name[router.mount().len()..];
            let may_run =
                self.may_run(path, name) && index.is_none_or(|index| self.may_run(&index, name));
            if !may_run {
                return Decision::final_target(Target::Forbidden);
            }
        }
        decision
    }

    /// How much of a path is served: the least of what all rules that fit say.
    fn extent(&self, path: &[u8], router: &Router) -> Extent {
        let mut extent = router.extent();
        let mut lists = None;
        for rule in self.rules.iter().filter(|rule| fits(rule, path)) {
            extent.serve = extent.serve.max(rule.serve);
            if let Some(own) = rule.index_listing {
                lists = Some(own && lists.unwrap_or(true));
            }
        }
        extent.lists = lists.unwrap_or(extent.lists);
        extent
    }

    /// Holds the guards of the pages that a script could answer for by its PATH_INFO: a framework
    /// serves `/staff` for `/index.php/staff`, too. Returns the refusal, if one is refused.
    fn guard_pages(
        &self,
        decision: &mut Decision,
        path: &[u8],
        asked: RuleInput<'_>,
        router: &Router,
    ) -> Option<Target> {
        if !self.has_guards {
            return None;
        }
        let Pages { in_folder, at_root, is_front_controller } =
            router.pages_by_path_info(path, &decision.target)?;
        // Scripts below a folder that are no front controller have their own names behind them,
        // as `/ocs/v1.php/config` has. To refuse these as if they were files of the site would
        // break the application; to ask for a password does not.
        let refused = self.refusal(&in_folder, asked);
        let at_root_refused =
            || is_front_controller.then(|| self.refusal(&at_root, asked)).flatten();
        if let Some(refusal) = refused.or_else(at_root_refused) {
            return Some(refusal);
        }
        self.ask_to_log_in(decision, &in_folder, asked);
        self.ask_to_log_in(decision, &at_root, asked);
        None
    }

    fn fitting(&self, path: &[u8], asked: RuleInput<'_>) -> impl Iterator<Item = &config::Rule> {
        self.rules.iter().filter(move |rule| fits(rule, path) && asked.fits(rule))
    }

    /// The refusal of a path that another one leads to.
    fn refusal(&self, path: &[u8], asked: RuleInput<'_>) -> Option<Target> {
        let mut fitting = self.fitting(path, asked).filter(|rule| !rule.internal);
        fitting.find_map(|rule| refusal(rule, asked))
    }

    /// Notes which rules for a path ask this client for a password.
    fn ask_to_log_in(&self, decision: &mut Decision, path: &[u8], asked: RuleInput<'_>) {
        if !self.has_logins || decision.is_final {
            return;
        }
        let asking = self.rules.iter().filter(|rule| rule.login.is_some());
        let needed = asking.zip(0..).filter(|(rule, _)| fits(rule, path) && asked.fits(rule));
        let needed =
            needed.filter(|(rule, _)| !is_let_in(rule, asked)).map(|(_, position)| position);
        needed.for_each(|position| decision.login.insert(position));
    }

    /// Whether all rules that fit a path let this script run.
    fn may_run(&self, path: &[u8], script: &[u8]) -> bool {
        self.rules.iter().filter(|rule| fits(rule, path)).all(|rule| {
            let is_listed = |own: &String| is_in(script, own, false);
            rule.serve != Serve::Files
                && (rule.scripts.is_empty() || rule.scripts.iter().any(is_listed))
        })
    }

    /// The redirect to the canonical host, for a client that used another one.
    fn elsewhere(
        &self,
        request: &RuleRequest<'_>,
        is_changed: bool,
        router: &Router,
    ) -> Option<Target> {
        let canonical = self.canonical_host.as_ref()?;
        // Subrequests have no address bar.
        request.caller.client()?;
        let host = host_of(request.uri, request.headers).unwrap_or_default();
        let host = canonical::other_host(canonical, host)?;
        let scheme = request.caller.scheme();
        // A path that a script has changed is not the one that moves.
        if !is_changed && let Some((to, status)) = self.moved(request, router) {
            return Some(Target::Redirect(canonical::moved(scheme, &host, to), status));
        }
        let to = canonical::url(scheme, &host, request.uri);
        Some(Target::Redirect(to, canonical::status(request.method)))
    }

    /// Where a rule redirects a request, if one does, and with which status. So a client
    /// at the wrong scheme or host is sent to the right page at once, and not from one redirect to
    /// the next.
    pub fn moved(
        &self,
        request: &RuleRequest<'_>,
        router: &Router,
    ) -> Option<(String, StatusCode)> {
        if self.rules.iter().all(|rule| rule.redirect.is_none()) {
            return None;
        }
        let uri = request.uri;
        let path = router.inner(route::clean(uri.path().as_bytes())?, uri.query()).ok()?;
        let text = String::from_utf8_lossy(&path);
        let asked = RuleInput::by(request);
        for rule in self.fitting(&path, asked) {
            let moves = moves(rule, &path);
            // What is refused there, or is another page, is not known here.
            if refusal(rule, asked).is_some() || (moves && rule.rewrite.is_some()) {
                return None;
            }
            if !moves || !is_there(rule, &path, router) {
                continue;
            }
            if let Some(moved) = redirect(rule, &text, uri) {
                return Some(moved);
            }
        }
        None
    }
}

/// The path of what answers, if it is another one than that of the request: that of the script, or
/// of an index file.
fn answer_of(decision: &Decision, router: &Router) -> Option<Vec<u8>> {
    match &decision.target {
        Target::Script(script) | Target::Application(script, _) => {
            script.script_name.get(router.mount().len()..).map(<[u8]>::to_vec)
        }
        target => {
            let own = Some(&decision.path).filter(|path| !path.is_empty());
            own.map(|path| router.index_of(path, target).unwrap_or_else(|| path.clone()))
        }
    }
}

/// The path of a script that answers for a longer one, with PATH_INFO: an expression such as
/// `\.php$` fits it alone.
fn path_before_info<'a>(target: &Target, path: &'a [u8], router: &Router) -> Option<&'a [u8]> {
    let (Target::Script(script) | Target::Application(script, _)) = target else { return None };
    let own = path.strip_suffix(script.path_info()).filter(|own| own.len() < path.len())?;
    script.script_name.get(router.mount().len()..).filter(|name| *name == own).map(|_| own)
}

/// Where a rule that fits redirects a request, and with which status.
fn redirect(rule: &config::Rule, text: &str, uri: &Uri) -> Option<(String, StatusCode)> {
    let to = target::location(rule.redirect.as_ref()?, &groups(rule, text), uri.query());
    // A rule may fit its own target.
    if uri.path_and_query().is_some_and(|own| own.as_str() == to) {
        return None;
    }
    Some((to, StatusCode::from_u16(rule.status).unwrap_or(StatusCode::FOUND)))
}

fn refusal(rule: &config::Rule, asked: RuleInput<'_>) -> Option<Target> {
    (is_refused(rule, asked.client) && !takes_either(rule)).then_some(match rule.status {
        404 => Target::NotFound,
        410 => Target::Gone,
        _ => Target::Forbidden,
    })
}

/// Whether there is a file or folder at a path, or none, as a rule wants it.
fn is_there(rule: &config::Rule, path: &[u8], router: &Router) -> bool {
    !(rule.unless_file || rule.if_file) || router.has(path, rule.folders_are_files) == rule.if_file
}

/// Whether a rule refuses a client by its address.
fn is_refused(rule: &config::Rule, client: IpAddr) -> bool {
    let has = |networks: &[config::Network]| networks.iter().any(|it| it.contains(client));
    let is_denied = rule.deny.is_empty() || has(&rule.deny);
    rule.refuses() && is_denied && !has(&rule.allow)
}

/// Whether a rule wants a good address or a password, not both.
fn takes_either(rule: &config::Rule) -> bool {
    rule.login.as_ref().is_some_and(|login| login.satisfy == Satisfy::Any)
}

/// Whether a rule that asks for passwords lets a client in by its address.
fn is_let_in(rule: &config::Rule, asked: RuleInput<'_>) -> bool {
    takes_either(rule) && !is_refused(rule, asked.client)
}

fn groups<'a>(rule: &config::Rule, text: &'a str) -> Vec<&'a str> {
    rule.pattern.as_ref().and_then(|pattern| pattern.captures(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod answers;

#[cfg(test)]
mod spellings;
