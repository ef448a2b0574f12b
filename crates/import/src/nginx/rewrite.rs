//! `rewrite` and `return` as rules. What is not translated closes what it could have refused.

use crate::directive::Directive;
use crate::model::{Moved, Rule, Scope, Site};
use crate::pattern;
use crate::source::Place;

use super::matcher::closed;
use super::reader::Reader;
use super::target;

impl Reader<'_> {
    pub(super) fn rewrite(
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
    pub(super) fn refuse_rewritten(
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
                let status = self.notes.refusal(place, &step.line(), status);
                site.rules.push(Rule::at(place, closed(scope)).refuse_all(status));
            }
            _ => {
                let reason = match status {
                    500..=599 => "rules do not answer with this status, so its paths are 404",
                    _ => "a text of the configuration is not served, so its paths are 404",
                };
                self.notes.refused(place, &step.line(), reason);
                site.rules.push(Rule::at(place, closed(scope)).refuse_all(404));
            }
        }
    }
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

/// A redirect by the groups that a condition has found in the path.
pub(super) fn by_groups(step: &Directive, scope: &Scope, expression: String) -> Option<Rule> {
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
pub(super) fn redirect_status(step: &Directive) -> Option<u16> {
    let is_url = ["http://", "https://", "$scheme"].iter().any(|it| step.arg(1).starts_with(it));
    match step.arg(2) {
        "permanent" => Some(301),
        _ if step.arg(2) == "redirect" || is_url => Some(302),
        _ => None,
    }
}

/// A redirect of all requests that keeps the path.
pub(super) fn moved(to: &str, status: u16, hosts: &[String]) -> Option<Moved> {
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
pub(super) fn is_secure(step: &Directive, hosts: &[String]) -> bool {
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
