//! `rewrite`, `return` and `if`: the forms that a rule can say. All others are left out, and close
//! what they refuse.

use crate::condition::limited;
use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::pattern;

use super::condition::{self, words};
use super::matcher::closed;
use super::reader::Reader;
use super::rewrite::{by_groups, is_secure, moved, redirect_status};
use super::{known, target};

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
        self.path_infos.extend(condition::set_by_path(step));
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
            (["$host" | "$http_host", comparison @ ..], body)
                if scope.is_rest() && !site.is_default && !comparison.is_empty() =>
            {
                if let Some(end) = self.hosts_moved(&words, body, rest, site) {
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
        // Redirects to the canonical name or to `https` refuse no client.
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
            let status = only.arg(0).parse().unwrap_or(403);
            let status = self.notes.refusal(&only.place, &only.line(), status);
            own.rules.push(Rule::at(&only.place, closed(scope)).refuse_all(status));
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

    /// A redirect of those names of a site for which a condition of `$host` holds, if all are
    /// known.
    fn hosts_moved(
        &mut self,
        words: &[&str],
        body: &[Directive],
        rest: &[Directive],
        site: &mut Site,
    ) -> Option<End> {
        if site.hosts.iter().any(|host| host.contains('*')) {
            return None;
        }
        let names = site.hosts.clone();
        let holds = |name: &&String| condition::holds(words, name);
        let known: Option<Vec<(&String, bool)>> =
            names.iter().map(|name| Some((name, holds(&name)?))).collect();
        let moved = known?.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name);
        let steps: Option<Vec<(&String, Directive)>> =
            moved.map(|name| Some((name, redirect_of(name, words, body)?))).collect();
        // Where it holds for none of them, it may be for other names, which the site has, too.
        let steps = steps.filter(|steps| !steps.is_empty())?;
        let mut end = End::Open;
        for (name, step) in steps {
            end = self.host_moved(name, &step, rest, site)?;
        }
        Some(end)
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

/// The redirect of all paths to which the body of a condition of `$host` leads for a name, as a
/// `return`, with what the condition has found in the name.
fn redirect_of(name: &str, words: &[&str], body: &[Directive]) -> Option<Directive> {
    let (step, sets) = body.split_last()?;
    let group = match words {
        [_, "~" | "~*", expression @ ..] => {
            let expression = pattern::translate(&expression.join(" "), true).ok()?;
            let found = regex_lite::Regex::new(&expression).ok()?;
            found.captures(name)?.get(1).map(|group| group.as_str().to_owned())
        }
        _ => None,
    };
    let (status, mut to) = match &*step.name {
        "return" if step.args.len() == 2 => (step.arg(0).to_owned(), step.arg(1).to_owned()),
        "rewrite" => {
            // The path is the group of this expression, or what it names itself.
            let to = step.arg(1).trim_end_matches('?');
            let path = match step.arg(0) {
                "^/(.*)$" | "^/(.*)" => to.strip_suffix("/$1")?,
                "^(.*)$" | "^(.*)" | "(.*)" => to.strip_suffix("$1")?,
                "^" | ".*" | "^.*$" | "^/" => to.strip_suffix("$request_uri")?,
                _ => return None,
            };
            (redirect_status(step)?.to_string(), format!("{path}$request_uri"))
        }
        _ => return None,
    };
    for set in sets {
        if set.name != "set" || set.arg(1) != "$1" {
            return None;
        }
        to = to.replace(set.arg(0), group.as_deref()?);
    }
    if let Some(group) = &group {
        to = to.replace("$1", group);
    }
    let args = vec![status, to];
    Some(Directive { name: "return".to_owned(), args, ..step.clone() })
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

/// Whether an `if` does nothing but set variables.
fn sets_flags(step: &Directive) -> bool {
    !step.inner().is_empty() && step.inner().iter().all(|it| it.name == "set")
}

/// Whether a `rewrite` is for paths with a slash at their end, or there is none.
fn is_of_folders(step: &Directive) -> bool {
    step.name == "break" || (step.name == "rewrite" && step.arg(0).ends_with("/$"))
}

/// The status of a redirect of all paths.
fn whole_status(step: &Directive) -> Option<u16> {
    match &*step.name {
        "return" => step.arg(0).parse().ok(),
        "rewrite" if pattern::ANY.contains(&step.arg(0)) => redirect_status(step),
        _ => None,
    }
}
