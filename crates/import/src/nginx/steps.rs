//! `rewrite`, `return` and `if`: the forms that a rule can say. All others are left out, and close
//! what they refuse.

use crate::directive::Directive;
use crate::model::{Moved, Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

use super::Reader;
use super::target;

/// What steps did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next directives count.
    Open,
    /// Every request is answered: nothing after it counts.
    Answered,
}

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
                "if" => match self.conditional(step, scope, &steps[at + 1..], site) {
                    End::Answered => return End::Answered,
                    End::Open => {}
                },
                "rewrite" => {
                    let goes_on = step.args.len() < 3
                        && steps[at + 1..].iter().any(|next| next.name == "rewrite");
                    self.rewrite(step, scope, unless_file, goes_on, site);
                }
                _ => {}
            }
        }
        End::Open
    }

    fn rewrite(
        &mut self,
        step: &Directive,
        scope: &Scope,
        unless_file: bool,
        goes_on: bool,
        site: &mut Site,
    ) {
        let (to, flag) = (step.arg(1), step.arg(2));
        let mut left = |reason: &str| self.notes.left(&step.place, &step.line(), reason);
        let is_url = to.starts_with("http://") || to.starts_with("https://");
        let status = match flag {
            "permanent" => Some(301),
            "redirect" => Some(302),
            _ if is_url || to.starts_with("$scheme") => Some(302),
            _ => None,
        };
        if scope.pattern.is_some() {
            return left("a location with an expression cannot have a second one");
        }
        if flag == "break" && !scope.is_all() {
            return left("`break` within a location is not translated");
        }
        if status.is_none() && goes_on {
            return left("without `last`, later rewrites count, too; that is not translated");
        }
        let expression = match pattern::translate(step.arg(0), false) {
            Ok(expression) => expression,
            Err(problem) => return left(&problem),
        };
        let Some(to) = target::rewritten(to) else {
            return left("only the groups `$1` to `$9` are translated in a target");
        };
        let scope = Scope { pattern: Some(expression), ..scope.clone() };
        let rule = Rule { unless_file, ..Rule::at(&step.place, scope) };
        site.rules.push(match status {
            Some(status) => rule.redirect(to, status),
            None => rule.rewrite(to),
        });
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
                if scope.is_all()
                    && let Some(moved) = moved(to, status, &site.hosts)
                {
                    site.moved = Some(moved);
                    return;
                }
                let Some(rule) = redirect(place, scope, to, status) else {
                    let reason = "its target is not translated, so its paths are 404";
                    self.notes.refused(place, &step.line(), reason);
                    site.rules.push(Rule::at(place, closed(scope)).refuse_all(404));
                    return;
                };
                site.rules.push(rule);
            }
            // 444 closes the connection, without an answer.
            400..=499 => {
                let status = if matches!(status, 404 | 410) { 404 } else { 403 };
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
        let condition = step.args.join(" ");
        let condition = condition.trim_start_matches('(').trim_end_matches(')').trim();
        let words: Vec<&str> = condition.split_whitespace().collect();
        match (&words[..], body) {
            (
                ["$scheme", "=", "http"]
                | ["$scheme", "!=", "https"]
                | ["$https", "!=", "on"]
                | ["$https", "=", ""]
                | ["$server_port", "=", "80"],
                [only],
            ) if scope.is_all() && is_secure(only, &site.hosts) => {
                site.https_redirect = true;
                return End::Open;
            }
            (["$host" | "$http_host", "=", name], [only])
                if scope.is_all() && site.hosts.iter().any(|own| own == name) =>
            {
                if let Some(end) = self.host_moved(name, only, rest, site) {
                    return end;
                }
            }
            (["!-e", "$request_filename"] | ["!-f", "$request_filename"], body)
                if body.iter().all(|it| it.name == "rewrite" || it.name == "break") =>
            {
                return self.steps(body, scope, true, site);
            }
            _ => {}
        }
        let refuses = |it: &Directive| matches!(&*it.name, "return" | "deny" | "fastcgi_pass");
        let line = format!("if {}", step.args.join(" "));
        if body.iter().any(refuses) {
            let reason = "its condition is not translated, so all that it could refuse is refused";
            self.notes.refused(&step.place, &line, reason);
            site.rules.push(Rule::at(&step.place, closed(scope)).refuse_all(403));
            return End::Open;
        }
        self.notes.left(&step.place, &line, "its condition is not translated");
        End::Open
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

/// The scope of a refusal: also of what follows a script's name.
pub(super) fn closed(scope: &Scope) -> Scope {
    let pattern = scope.pattern.as_deref().map(pattern::refusing);
    Scope { path: scope.path.clone(), pattern }
}

/// A rule that leaves out the front controller, or all scripts.
pub(super) fn only(place: &Place, scope: &Scope, serve: Serve) -> Rule {
    Rule::at(place, scope.clone()).serve(serve)
}
