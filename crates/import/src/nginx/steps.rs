//! `rewrite`, `return` and `if`: the forms that a rule can say. All others are left out, and close
//! what they refuse.

use crate::condition::limited;
use crate::directive::Directive;
use crate::model::{Moved, Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

use super::target;
use super::{Reader, condition, known, path_info};

/// What steps did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next directives count.
    Open,
    /// Every request is answered: nothing after it counts.
    Answered,
}

/// What of a condition can be left out without opening anything.
const HARMLESS: [&str; 9] = [
    "access_log",
    "add_header",
    "break",
    "expires",
    "limit_rate",
    "limit_rate_after",
    "more_set_headers",
    "rewrite",
    "set",
];

/// Conditions of the name or the scheme by which a client comes, and not of who it is.
const OF_ADDRESS: [&str; 7] = [
    "$host",
    "$http_host",
    "$server_name",
    "$scheme",
    "$https",
    "$server_port",
    "$http_x_forwarded_proto",
];

/// Names of the path of a request.
const OF_PATH: [&str; 3] = ["$request_uri", "$uri", "$document_uri"];

impl Reader<'_> {
    /// Translates the steps of a block, in their order.
    pub(super) fn steps(
        &mut self,
        steps: &[Directive],
        scope: &Scope,
        unless_file: bool,
        site: &mut Site,
    ) -> End {
        for (at, step) in steps.iter().enumerate() {
            match &*step.name {
                "return" => {
                    self.returned(step, scope, site);
                    return End::Answered;
                }
                "set" => self.set(step),
                "if" if sets_flags(step) => self.flag(step),
                "if" => match self.conditional(step, scope, &steps[at + 1..], site) {
                    End::Answered => return End::Answered,
                    End::Open => {}
                },
                "rewrite" => {
                    let goes_on = step.args.len() < 3 && goes_on(step, &steps[at + 1..]);
                    self.rewrite(step, scope, unless_file, goes_on, site);
                }
                _ => {}
            }
        }
        End::Open
    }

    /// Remembers what a variable is.
    fn set(&mut self, step: &Directive) {
        let (name, value) = (step.arg(0).to_owned(), step.arg(1).to_owned());
        let is_known = !value.contains('$');
        if !is_known {
            self.notes.left(&step.place, &step.line(), known::advice("set"));
        }
        self.flags.insert(name, is_known.then(|| (value, Vec::new())));
    }

    /// Remembers what variables become for some requests.
    fn flag(&mut self, step: &Directive) {
        self.path_infos.extend(path_info::set_by_path(step));
        let cases = condition::cases(&words(step), &self.maps, &self.flags);
        for set in step.inner() {
            let (name, value) = (set.arg(0).to_owned(), set.arg(1).to_owned());
            let own = self.flags.get_mut(&name).and_then(Option::as_mut);
            match (own, &cases) {
                (Some((_, changes)), Some(cases)) if !value.contains('$') => {
                    changes.push((cases.clone(), value));
                }
                _ => drop(self.flags.insert(name, None)),
            }
        }
    }

    fn rewrite(
        &mut self,
        step: &Directive,
        scope: &Scope,
        unless_file: bool,
        goes_on: bool,
        site: &mut Site,
    ) {
        let step = &target::slashed(step);
        let (to, flag) = (step.arg(1), step.arg(2));
        let status = redirect_status(step);
        if let Some(status) = status
            && pattern::ANY.contains(&step.arg(0))
            && scope.is_rest()
            && !unless_file
            && let Some(moved) = moved(to.trim_end_matches('?'), status, &site.hosts)
        {
            site.moved = Some(moved);
            return;
        }
        let expression = looked_at(step.arg(0));
        // All paths of a location with an expression, which is the only one that a rule can have.
        // Its groups have names there.
        let named = scope.pattern.as_ref().filter(|_| pattern::ANY.contains(&step.arg(0)));
        let named = named.map(|own| target::with_groups_of(own, to));
        let is_whole = named.as_ref().is_some_and(|own| own != to || !to.contains('$'));
        let to = named.as_deref().unwrap_or(to);
        let target = target::rewritten(&target::on_own_host(to, &site.hosts));
        let is_whole = is_whole && target.as_ref().is_some_and(|(_, needs_path)| !needs_path);
        let is_path = target.as_ref().is_some_and(|(to, _)| to.starts_with('/'));
        let problem = if flag == "break" && !scope.is_rest() && !stays(scope, step.arg(0), to) {
            Some("`break` within a location is not translated".to_owned())
        } else if status.is_none() && target.is_some() && !is_path {
            Some("its target does not begin with a slash, so nginx finds no file there".to_owned())
        } else if status.is_none() && goes_on {
            Some("without `last`, later rewrites count, too; that is not translated".to_owned())
        } else if target.is_none() {
            Some("only the groups `$1` to `$9` are translated in a target".to_owned())
        } else {
            expression.as_ref().err().cloned()
        };
        if let Some(problem) = problem {
            // Paths with a file are not rewritten, so nothing becomes visible.
            return match unless_file {
                true => self.notes.left(&step.place, &step.line(), problem),
                false => self.refuse_rewritten(step, scope, &problem, site),
            };
        }
        let (mut to, needs_path) = target.unwrap_or_default();
        if needs_path && to.contains('?') && step.arg(1).contains("$request_uri") {
            let reason = "what a client sends as the query follows behind `&`";
            self.notes.differs(&step.place, &step.line(), reason);
        }
        let (own, except) = expression.unwrap_or_default();
        let mut and: Vec<String> = scope.and.iter().cloned().chain(except).collect();
        let pattern = if is_whole {
            scope.pattern.clone()
        } else if needs_path {
            and.extend(scope.pattern.iter().cloned().chain([own]));
            Some("^/(.*)$".to_owned())
        } else {
            and.extend(scope.pattern.clone());
            // A group that begins with the slash would stand in the name of a host.
            let is_host_next = to.split_once("://").is_some_and(|(_, rest)| {
                rest.split_once("$1").is_some_and(|(host, _)| !host.contains('/'))
            });
            match is_host_next && matches!(&*own, "^(.*)$" | "^(.*)" | "(.*)" | "^(.+)$") {
                true => {
                    to = to.replacen("$1", "/$1", 1);
                    Some("^/(.*)$".to_owned())
                }
                false => Some(own),
            }
        };
        let scope = Scope { pattern, and, ..scope.clone() };
        let rule = Rule { unless_file, ..Rule::at(&step.place, scope) };
        site.rules.push(match status {
            Some(status) => rule.redirect(to, status),
            None => rule.rewrite(to),
        });
    }

    /// A `rewrite` that is not translated: its paths were answered by something else, which may
    /// have asked who wants them, so their own files are refused.
    fn refuse_rewritten(
        &mut self,
        step: &Directive,
        scope: &Scope,
        problem: &str,
        site: &mut Site,
    ) {
        let reason = format!("{problem}; the paths that it is for are refused instead");
        self.notes.refused(&step.place, &step.line(), reason);
        let own = match &scope.pattern {
            // One of both is enough: what fits it may fit the other.
            Some(_) => scope.clone(),
            None => Scope { pattern: pattern::translate(step.arg(0), false).ok(), ..scope.clone() },
        };
        site.rules.push(Rule::at(&step.place, closed(&own)).refuse_all(404));
    }

    /// A `return` that answers all requests of a scope.
    pub(super) fn returned(&mut self, step: &Directive, scope: &Scope, site: &mut Site) {
        let place = &step.place;
        // `return URL` is a 302.
        let (status, to) = match step.arg(0).parse::<u16>() {
            Ok(status) => (status, step.arg(1)),
            Err(_) => (302, step.arg(0)),
        };
        match status {
            301 | 302 | 303 | 307 | 308 => {
                if scope.is_rest()
                    && let Some(moved) = moved(to, status, &site.hosts)
                {
                    site.moved = Some(moved);
                    return;
                }
                let to = target::on_own_host(to, &site.hosts);
                let Some(rule) = redirect(place, scope, &to, status) else {
                    let reason = "its target is not translated, so its paths are 404";
                    self.notes.refused(place, &step.line(), reason);
                    site.rules.push(Rule::at(place, closed(scope)).refuse_all(404));
                    return;
                };
                site.rules.push(rule);
            }
            // 444 closes the connection, without an answer.
            400..=499 => {
                let status = if matches!(status, 404 | 410) { status } else { 403 };
                site.rules.push(Rule::at(place, closed(scope)).refuse_all(status));
            }
            _ => {
                let reason = "a text of the configuration is not served, so its paths are 404";
                self.notes.refused(place, &step.line(), reason);
                site.rules.push(Rule::at(place, closed(scope)).refuse_all(404));
            }
        }
    }

    fn conditional(
        &mut self,
        step: &Directive,
        scope: &Scope,
        rest: &[Directive],
        site: &mut Site,
    ) -> End {
        let body = step.inner();
        let words = words(step);
        match (&words[..], body) {
            (
                ["$scheme", "=", "http"]
                | ["$scheme", "!=", "https"]
                | ["$https", "!=", "on"]
                | ["$https", "=", ""]
                | ["$server_port", "=", "80"],
                [only],
            ) if scope.is_rest() && is_secure(only, &site.hosts) => {
                site.https_redirect = true;
                return End::Open;
            }
            (["$host" | "$http_host", "=", name], [only])
                if scope.is_rest() && site.hosts.iter().any(|own| own == name) =>
            {
                if let Some(end) = self.host_moved(name, only, rest, site) {
                    return end;
                }
            }
            ([test @ ("!-e" | "!-f"), "$request_filename"], body)
                if body.iter().all(|it| it.name == "rewrite" || it.name == "break") =>
            {
                let before = site.rules.len();
                let end = self.steps(body, scope, true, site);
                if *test == "!-f" {
                    site.rules[before..].iter_mut().for_each(Rule::ignore_folders);
                }
                return end;
            }
            // No file has a slash at the end of its path.
            (["!-d", "$request_filename"], body) if body.iter().all(is_of_folders) => {
                return self.steps(body, scope, true, site);
            }
            ([variable, operator @ ("~" | "~*"), value @ ..], [only])
                if OF_PATH.contains(variable) && scope.pattern.is_none() =>
            {
                let expression = pattern::translate(&value.join(" "), *operator == "~*");
                let rule =
                    expression.ok().and_then(|expression| by_groups(only, scope, expression));
                if let Some(rule) = rule {
                    site.rules.push(rule);
                    return End::Open;
                }
            }
            _ => {}
        }
        if self.limited(body, scope, &words, site) {
            return End::Open;
        }
        // Who knows what they are then.
        for set in body.iter().filter(|it| it.name == "set") {
            self.flags.insert(set.arg(0).to_owned(), None);
        }
        let line = format!("if {}", step.args.join(" "));
        if body.iter().any(|it| !HARMLESS.contains(&&*it.name)) {
            let reason = "its condition is not translated, so all that it could refuse is refused";
            self.notes.refused(&step.place, &line, reason);
            site.rules.push(Rule::at(&step.place, closed(scope)).refuse_all(403));
            return End::Open;
        }
        self.notes.left(&step.place, &line, "its condition is not translated");
        // Those to the right name or to `https` refuse nobody.
        let is_of_address = words.first().is_some_and(|first| OF_ADDRESS.contains(first));
        let is_left = |it: &&Directive| is_of_address && redirect_status(it).is_some();
        let rewrites = body.iter().filter(|it| it.name == "rewrite");
        for rewrite in rewrites.filter(|it| !is_left(it)) {
            self.refuse_rewritten(rewrite, scope, "its condition is not translated", site);
        }
        End::Open
    }

    /// What is done with the requests for which a condition holds; says whether rules can say it.
    fn limited(
        &mut self,
        body: &[Directive],
        scope: &Scope,
        words: &[&str],
        site: &mut Site,
    ) -> bool {
        let is_known = |it: &Directive| matches!(&*it.name, "return" | "rewrite" | "break");
        let acts = body.iter().any(|it| it.name != "break");
        let Some(cases) = condition::cases(words, &self.maps, &self.flags)
            .filter(|_| acts && body.iter().all(is_known))
        else {
            return false;
        };
        let mut own = Site { hosts: site.hosts.clone(), ..Site::new(site.place.clone()) };
        let is_refusal = |it: &Directive| {
            it.arg(0).parse::<u16>().is_ok_and(|status| (400..500).contains(&status))
        };
        if let [only] = body
            && only.name == "return"
            && is_refusal(only)
        {
            let status = if matches!(only.arg(0), "404" | "410") { only.arg(0) } else { "403" };
            let rule = Rule::at(&only.place, closed(scope));
            own.rules.push(rule.refuse_all(status.parse().unwrap_or(403)));
        } else if let [only] = body
            && let Some(status) = whole_status(only)
            && let Some(to) = target::whole(only, &site.hosts)
        {
            let and = scope.and.iter().chain(&scope.pattern).cloned().collect();
            let scope = Scope { pattern: Some("^/(.*)$".to_owned()), and, ..scope.clone() };
            own.rules.push(Rule::at(&only.place, scope).redirect(to, status));
        } else {
            self.steps(body, scope, false, &mut own);
        }
        let pairs = own.rules.iter().flat_map(|rule| cases.0.iter().map(move |case| (rule, case)));
        let rules: Result<Vec<Rule>, _> =
            pairs.map(|(rule, case)| limited(rule.clone(), case)).collect();
        match rules {
            Ok(rules) if own.moved.is_none() && !own.https_redirect => {
                site.rules.extend(rules);
                true
            }
            _ => false,
        }
    }

    /// `if ($host = NAME) { return 301 …; }`: that name becomes a site that only redirects.
    fn host_moved(
        &mut self,
        name: &str,
        only: &Directive,
        rest: &[Directive],
        site: &mut Site,
    ) -> Option<End> {
        let (status, to) = match &*only.name {
            "return" => (only.arg(0).parse().ok()?, only.arg(1)),
            _ => return None,
        };
        let names = [name.to_owned()];
        let moved = moved(to, status, &names)?;
        let is_certbot = rest.iter().all(|next| matches!(&*next.name, "if" | "return"));
        let mut own = Site { hosts: names.to_vec(), ..Site::new(only.place.clone()) };
        own.listen = site.listen.clone();
        own.root = site.root.clone();
        own.moved = Some(moved);
        self.description.sites.push(own);
        site.hosts.retain(|own| own != name);
        // What certbot writes: all names are redirected, and what is left is 404.
        let is_last = site.hosts.is_empty()
            && is_certbot
            && rest.last().is_some_and(|last| last.name == "return");
        Some(if is_last { End::Answered } else { End::Open })
    }
}

/// Whether a later `rewrite` may be for what a `rewrite` makes.
fn goes_on(step: &Directive, later: &[Directive]) -> bool {
    let (path, _) = step.arg(1).split_once('?').unwrap_or((step.arg(1), ""));
    later.iter().any(|next| match &*next.name {
        "rewrite" => {
            let expression = pattern::translate(next.arg(0), false);
            path.contains('$') || expression.map_or(true, |own| pattern::is_in(&own, path))
        }
        "if" => goes_on(step, next.inner()),
        _ => false,
    })
}

/// Whether a location of files takes the target of its `rewrite`, too: what `break` leaves to it is
/// sent as it would be behind `last`.
fn stays(scope: &Scope, expression: &str, to: &str) -> bool {
    let own = scope.extensions().filter(|own| !own.iter().any(|one| one.starts_with("ph")));
    let last = format!("${}", pattern::groups(expression));
    // The last group has all that follows a slash, or the extension.
    let is_extension =
        |end: &str| end.strip_suffix(")$").is_some_and(|it| !it.contains(['(', ')']));
    let has_extension = expression.rsplit_once("\\.(").is_some_and(|(_, end)| is_extension(end));
    let keeps = (expression.ends_with("/(.*)$") && to.ends_with(&format!("/{last}")))
        || (has_extension && to.ends_with(&format!(".{last}")));
    own.is_some_and(|own| {
        let extension = to.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        keeps || extension.is_some_and(|extension| own.contains(&extension))
    })
}

/// An expression, and one that must not be found, too.
fn looked_at(text: &str) -> Result<(String, Option<String>), String> {
    match (pattern::translate(text, false), pattern::split_assertion(text)) {
        (Err(_), Some((own, except))) => {
            let except = pattern::translate(&except, false)?;
            Ok((pattern::translate(&own, false)?, Some(format!("!{except}"))))
        }
        (own, _) => Ok((own?, None)),
    }
}

/// The words of the condition of an `if`.
pub(super) fn words(step: &Directive) -> Vec<&str> {
    let last = step.args.len().saturating_sub(1);
    let inner = step.args.iter().enumerate().map(|(at, word)| {
        let word = if at == 0 { word.trim_start_matches('(') } else { word };
        if at == last { word.strip_suffix(')').unwrap_or(word) } else { word }
    });
    inner.flat_map(str::split_whitespace).collect()
}

/// Whether an `if` does nothing but set variables.
fn sets_flags(step: &Directive) -> bool {
    !step.inner().is_empty() && step.inner().iter().all(|it| it.name == "set")
}

/// Whether a `rewrite` is for paths with a slash at their end, or there is none.
fn is_of_folders(step: &Directive) -> bool {
    step.name == "break" || (step.name == "rewrite" && step.arg(0).ends_with("/$"))
}

/// A redirect by the groups that a condition has found in the path.
fn by_groups(step: &Directive, scope: &Scope, expression: String) -> Option<Rule> {
    let (status, to) = (step.arg(0).parse().ok()?, step.arg(1));
    let is_redirect = step.name == "return" && matches!(status, 301 | 302 | 303 | 307 | 308);
    if !is_redirect || !to.contains("$1") {
        return None;
    }
    // All that follows, and with it the query, stands in the last group.
    let end = expression.trim_end_matches('$');
    let groups = pattern::groups(&expression);
    let is_rest = ["(.*)", "(.+)"].iter().any(|rest| end.ends_with(rest));
    let keeps_query = is_rest && to.ends_with(&format!("${groups}"));
    let (to, needs_path) = target::returned(to)?;
    let to = if keeps_query { to.trim_end_matches('?') } else { &to };
    // Two slashes at the beginning become one.
    let slash = if to.starts_with('$') { "/" } else { "" };
    let scope = Scope { pattern: Some(expression), ..scope.clone() };
    (!needs_path).then(|| Rule::at(&step.place, scope).redirect(format!("{slash}{to}"), status))
}

/// The status of a `rewrite` that redirects.
fn redirect_status(step: &Directive) -> Option<u16> {
    let is_url = ["http://", "https://", "$scheme"].iter().any(|it| step.arg(1).starts_with(it));
    match step.arg(2) {
        "permanent" => Some(301),
        _ if step.arg(2) == "redirect" || is_url => Some(302),
        _ => None,
    }
}

/// The status of a redirect of all paths.
fn whole_status(step: &Directive) -> Option<u16> {
    match &*step.name {
        "return" => step.arg(0).parse().ok(),
        "rewrite" if pattern::ANY.contains(&step.arg(0)) => redirect_status(step),
        _ => None,
    }
}

/// A redirect of all requests that keeps the path.
fn moved(to: &str, status: u16, hosts: &[String]) -> Option<Moved> {
    let to = to.strip_suffix("$request_uri").or_else(|| to.strip_suffix("$uri$is_args$args"))?;
    let (scheme, host) = to.split_once("://")?;
    let scheme = match scheme {
        "$scheme" => "",
        "https" => "https",
        "http" => "http",
        _ => return None,
    };
    let host = host.trim_end_matches('/');
    let is_own = matches!(host, "$host" | "$http_host" | "$server_name")
        || (scheme == "https" && hosts == [host.to_owned()]);
    match is_own {
        true => (scheme == "https").then_some(Moved::Secure),
        false if host.contains(['$', '/']) || host.is_empty() => None,
        false => Some(Moved::Host { scheme, host: host.to_owned(), status }),
    }
}

/// Whether a step redirects to the same host by `https`.
fn is_secure(step: &Directive, hosts: &[String]) -> bool {
    let to = match &*step.name {
        "return" => step.arg(1).to_owned(),
        // `rewrite ^ https://$host$request_uri?` keeps all, too.
        "rewrite" => step.arg(1).trim_end_matches('?').to_owned(),
        _ => return false,
    };
    moved(&to, 301, hosts) == Some(Moved::Secure)
}

fn redirect(place: &Place, scope: &Scope, to: &str, status: u16) -> Option<Rule> {
    let (to, needs_path) = target::returned(to)?;
    let scope = match (needs_path, &scope.pattern) {
        (true, None) => Scope { pattern: Some("^/(.*)$".to_owned()), ..scope.clone() },
        // Its groups are others than that of the whole path.
        (true, Some(_)) => return None,
        (false, _) => scope.clone(),
    };
    Some(Rule::at(place, scope).redirect(to, status))
}

/// The scope of a refusal: also of what follows a script's name, and of what other locations take.
pub(super) fn closed(scope: &Scope) -> Scope {
    let mut closed = scope.refusing();
    closed.and.retain(|own| !own.starts_with('!'));
    closed
}

/// A rule that leaves out the front controller, or all scripts.
pub(super) fn only(place: &Place, scope: &Scope, serve: Serve) -> Rule {
    Rule::at(place, scope.clone()).serve(serve)
}
