//! `RewriteCond` and `RewriteRule`: the front controller, `https`, one name for several, redirects
//! and rewrites without conditions, and refusals.

use crate::directive::Directive;
use crate::model::{Moved, Rule, Scope, Site};
use crate::pattern;

use super::section::Area;
use super::{Reader, value};

/// What stands before a `RewriteRule`.
#[derive(Debug)]
pub(super) struct Rewriting {
    scope: Scope,
    /// In a folder, the path in front of what expressions see, and of relative targets.
    folder: Option<(String, String)>,
    conditions: Vec<Directive>,
}

impl Rewriting {
    pub(super) fn new(area: &Area, base: Option<&str>) -> Rewriting {
        let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
        let folder = area
            .folder
            .as_ref()
            .map(|folder| (folder.clone(), base.map_or_else(|| folder.clone(), with_slash)));
        Rewriting { scope: area.scope.clone(), folder, conditions: Vec::new() }
    }

    pub(super) fn condition(&mut self, directive: &Directive) {
        self.conditions.push(directive.clone());
    }
}

/// What a condition asks.
#[derive(Debug, PartialEq)]
enum Condition {
    NoFile,
    NoFolder,
    NoLink,
    Plain,
    Authorization,
    Host(String),
    OtherHost(String),
    EndsInSlash,
    Unknown,
}

/// The flags of a rule.
#[derive(Debug, Default)]
struct Flags {
    redirect: Option<u16>,
    refuses: Option<u16>,
    ignores_case: bool,
    keeps_query: bool,
    drops_query: bool,
    sets_variable: bool,
    is_unknown: bool,
}

impl Flags {
    fn of(text: &str) -> Flags {
        let mut flags = Flags::default();
        let text = text.trim_start_matches('[').trim_end_matches(']');
        for flag in text.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match &*name.to_ascii_lowercase() {
                "l" | "last" | "end" | "pt" | "ne" | "noescape" | "passthrough" | "ns" => {}
                "nc" | "nocase" => flags.ignores_case = true,
                "qsa" | "qsappend" => flags.keeps_query = true,
                "qsd" | "qsdiscard" => flags.drops_query = true,
                "e" | "env" => flags.sets_variable = true,
                "f" | "forbidden" => flags.refuses = Some(403),
                "g" | "gone" => flags.refuses = Some(410),
                "r" | "redirect" => match value {
                    "" => flags.redirect = Some(302),
                    "permanent" => flags.redirect = Some(301),
                    status => match status.parse() {
                        Ok(status @ 300..400) => flags.redirect = Some(status),
                        Ok(status @ (404 | 410)) => flags.refuses = Some(status),
                        _ => flags.refuses = Some(403),
                    },
                },
                _ => flags.is_unknown = true,
            }
        }
        flags
    }
}

impl Reader<'_> {
    pub(super) fn rewrite(
        &mut self,
        directive: &Directive,
        rewriting: &mut Rewriting,
        site: &mut Site,
    ) {
        let conditions = std::mem::take(&mut rewriting.conditions);
        let flags = Flags::of(directive.arg(2));
        let (expression, to) = (directive.arg(0), directive.arg(1));
        if flags.refuses.is_some()
            || directive.arg(2).to_ascii_lowercase().contains('p') && flags.is_unknown
        {
            return self.refuse_rewritten(directive, &conditions, &flags, rewriting, site);
        }
        let is_own = matches!(expression, "^index\\.php$" | "^/index\\.php$" | "^/?index\\.php$");
        if to == "-" && (flags.sets_variable || is_own) {
            return;
        }
        let known: Vec<Condition> =
            conditions.iter().map(|it| condition(it, rewriting.folder.is_some())).collect();
        let or = |it: &Directive| it.arg(2).to_ascii_lowercase().contains("or");
        let problem = if to == "-" || flags.is_unknown {
            Some("what it does is not translated")
        } else if conditions.iter().any(or) || known.contains(&Condition::Unknown) {
            Some("its conditions are not translated")
        } else if expression.starts_with('!') || rewriting.scope.pattern.is_some() {
            Some("its expression is not translated")
        } else {
            None
        };
        let translated = match problem {
            Some(problem) => Err(problem.to_owned()),
            None => self.translated(directive, &flags, &known, rewriting, site),
        };
        let Err(problem) = translated else { return };
        let is_redirect = flags.redirect.is_some() || to.contains("://");
        let is_or = conditions.iter().any(or);
        let is_avoided = !is_or
            && conditions
                .iter()
                .zip(&known)
                .any(|(it, known)| *known == Condition::NoFile || is_avoidable(it));
        if to == "-" || is_redirect || is_avoided {
            self.notes.left(&directive.place, &directive.line(), problem);
            return;
        }
        // Apache never sends what lies at these paths, so it may be for nobody.
        let reason = format!("{problem}; its paths are refused instead");
        self.notes.refused(&directive.place, &directive.line(), reason);
        self.refuse_paths(directive, &flags, rewriting, site);
    }

    fn refuse_rewritten(
        &mut self,
        directive: &Directive,
        conditions: &[Directive],
        flags: &Flags,
        rewriting: &Rewriting,
        site: &mut Site,
    ) {
        let line = directive.line();
        if !conditions.is_empty() {
            let reason = "its conditions are not translated, so all that it could refuse is \
                refused";
            self.notes.refused(&directive.place, &line, reason);
        } else if flags.refuses.is_none() {
            let reason = "nothing but files and PHP is served, so its paths are refused";
            self.notes.refused(&directive.place, &line, reason);
        }
        self.refuse_paths(directive, flags, rewriting, site);
    }

    /// Refuses the paths of a rule, or all around it if they cannot be said.
    fn refuse_paths(
        &mut self,
        directive: &Directive,
        flags: &Flags,
        rewriting: &Rewriting,
        site: &mut Site,
    ) {
        let mut scope = rewriting.scope.clone();
        match expression_of(directive, flags, rewriting) {
            Ok(expression) if scope.pattern.is_none() => {
                scope.pattern = Some(pattern::refusing(&expression));
            }
            _ => {
                let reason = "its expression is not translated; all that it is for is refused";
                self.notes.refused(&directive.place, &directive.line(), reason);
            }
        }
        let status = flags.refuses.unwrap_or(404);
        site.rules.push(Rule::at(&directive.place, scope).refuse_all(status));
    }

    fn translated(
        &mut self,
        directive: &Directive,
        flags: &Flags,
        known: &[Condition],
        rewriting: &Rewriting,
        site: &mut Site,
    ) -> Result<(), String> {
        let place = &directive.place;
        let to = directive.arg(1);
        let expression = pattern::translate(directive.arg(0), flags.ignores_case)?;
        let is_any = matches!(
            &*expression,
            "^" | "."
                | ".*"
                | "^.*$"
                | "^(.*)$"
                | "(.*)"
                | "^(.+)$"
                | "^/(.*)$"
                | "^/?(.*)$"
                | "^.*"
                | "^(.*)"
        );
        let is_of_site = rewriting.scope.is_all();
        let keeps_path = ["%{REQUEST_URI}", "/$1", "$1"]
            .iter()
            .find_map(|end| to.strip_suffix(end))
            .filter(|_| is_any);
        match (known, keeps_path) {
            ([Condition::Plain], Some(start)) if is_of_site => {
                let host = start.strip_prefix("https://").map(|host| host.trim_end_matches('/'));
                let is_own = |host: &str| {
                    matches!(host, "%{HTTP_HOST}" | "%{SERVER_NAME}")
                        || site.hosts == [host.to_owned()]
                };
                if host.is_some_and(is_own) {
                    site.https_redirect = true;
                    return Ok(());
                }
                return Err("only a redirect to the same host is translated".into());
            }
            ([Condition::Host(_) | Condition::OtherHost(_)], Some(start)) if is_of_site => {
                return self.other_host(directive, &known[0], start, flags, site);
            }
            ([Condition::NoFolder, Condition::EndsInSlash], _) if to == "%1" => {
                let scope = Scope::pattern("^/(.+)/$");
                let rule = Rule { unless_file: true, ..Rule::at(place, scope) };
                site.rules.push(rule.redirect("/$1", flags.redirect.unwrap_or(302)));
                return Ok(());
            }
            _ => {}
        }
        let is_missing = |it: &Condition| {
            matches!(it, Condition::NoFile | Condition::NoFolder | Condition::NoLink)
        };
        if !known.iter().all(is_missing) {
            return Err("its conditions are not translated".into());
        }
        let unless_file = known.contains(&Condition::NoFile);
        if !known.is_empty() && !unless_file {
            return Err("a condition without `!-f` is not translated".into());
        }
        let target = target(to, flags, rewriting)?;
        let plain = target.trim_start_matches('/');
        let is_script = plain.ends_with(".php") && !plain.contains(['$', '?', '%']);
        if unless_file && is_any && is_of_site && is_script && flags.redirect.is_none() {
            site.front_controller = Some(plain.to_owned());
            site.front_controller_for = vec!["php", "hidden"];
            return Ok(());
        }
        let scope = Scope {
            pattern: Some(within_folder(&expression, rewriting)?),
            ..rewriting.scope.clone()
        };
        let is_url = target.starts_with("http://") || target.starts_with("https://");
        let status = flags.redirect.or(is_url.then_some(302));
        let rule = Rule { unless_file, ..Rule::at(place, scope) };
        if target.contains("%{") || target.contains("%1") {
            return Err("variables of its target are not translated".into());
        }
        site.rules.push(match status {
            Some(status) => rule.redirect(target, status),
            None => rule.rewrite(target),
        });
        Ok(())
    }

    /// One name of several is redirected to another: it becomes a site that only redirects.
    fn other_host(
        &mut self,
        directive: &Directive,
        condition: &Condition,
        start: &str,
        flags: &Flags,
        site: &mut Site,
    ) -> Result<(), String> {
        let to = start.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        let Some((scheme, host)) = to else { return Err("its target is not translated".into()) };
        let host = host.trim_end_matches('/').to_owned();
        if host.contains(['%', '$', '/']) {
            return Err("its target is not translated".into());
        }
        let (names, rest): (Vec<String>, Vec<String>) =
            site.hosts.iter().cloned().partition(|name| match condition {
                Condition::Host(own) => name == own,
                _ => *name != host,
            });
        if names.is_empty() || rest.is_empty() {
            return Err("no other name of the site is left".into());
        }
        let mut own = Site::new(directive.place.clone());
        own.hosts = names;
        own.listen = site.listen.clone();
        own.root = site.root.clone();
        let scheme = if scheme == "https" { "https" } else { "http" };
        own.moved = Some(Moved::Host { scheme, host, status: flags.redirect.unwrap_or(302) });
        site.hosts = rest;
        self.description.sites.push(own);
        Ok(())
    }
}

/// What a condition asks. Outside of a folder, `REQUEST_FILENAME` is no file yet.
fn condition(directive: &Directive, in_folder: bool) -> Condition {
    let (what, value) = (directive.arg(0), directive.arg(1));
    let is_name = matches!(what, "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}");
    let is_file = (is_name && in_folder) || what.starts_with("%{DOCUMENT_ROOT}");
    let name = |text: &str| {
        let plain = text.strip_prefix('^').and_then(|text| text.strip_suffix('$'));
        let plain = plain.map(|plain| plain.replace("\\.", "."));
        plain.and_then(|plain| crate::validity::host(&plain))
    };
    match (what, value) {
        (_, "!-f") if is_file => Condition::NoFile,
        (_, "!-d") if is_file => Condition::NoFolder,
        (_, "!-l") if is_file => Condition::NoLink,
        ("%{HTTPS}", "off" | "!=on" | "!on" | "^off$" | "=off") => Condition::Plain,
        ("%{SERVER_PORT}", "80" | "^80$" | "!^443$" | "!443") => Condition::Plain,
        ("%{HTTP:X-Forwarded-Proto}", "!https" | "!=https" | "^http$" | "=http") => {
            Condition::Plain
        }
        ("%{HTTP:Authorization}", _) => Condition::Authorization,
        ("%{REQUEST_URI}", "(.+)/$" | "^(.+)/$" | "^(.*)/$") => Condition::EndsInSlash,
        ("%{HTTP_HOST}", value) => match value.strip_prefix('!') {
            Some(own) => name(own).map_or(Condition::Unknown, Condition::OtherHost),
            None => name(value).map_or(Condition::Unknown, Condition::Host),
        },
        _ => Condition::Unknown,
    }
}

/// Whether any client can make a condition untrue by leaving something out of its request, so
/// that what the rule is for is sent to everybody as it lies there.
fn is_avoidable(directive: &Directive) -> bool {
    let (what, value) = (directive.arg(0), directive.arg(1));
    let is_of_client = ["%{HTTP_ACCEPT", "%{HTTP_USER_AGENT}", "%{HTTP_REFERER}", "%{HTTP_COOKIE}"]
        .iter()
        .chain(&["%{HTTP:", "%{QUERY_STRING}"])
        .any(|start| what.starts_with(start));
    let matches_nothing = |value: &str| {
        pattern::translate(value, false).map_or(true, |expression| pattern::is_in(&expression, ""))
    };
    is_of_client && !value.starts_with(['!', '<', '>', '=', '-']) && !matches_nothing(value)
}

/// The expression of a rule, for whole paths.
fn expression_of(
    directive: &Directive,
    flags: &Flags,
    rewriting: &Rewriting,
) -> Result<String, String> {
    let expression = directive.arg(0);
    // `!` is for all paths in which the rest is not found, which no rule can say.
    if expression.starts_with('!') {
        return Err("its expression is not translated".into());
    }
    within_folder(&pattern::translate(expression, flags.ignores_case)?, rewriting)
}

/// An expression of a folder, which sees paths without the folder's own, as one for whole paths.
fn within_folder(expression: &str, rewriting: &Rewriting) -> Result<String, String> {
    let Some((folder, _)) = &rewriting.folder else { return Ok(expression.to_owned()) };
    let start = format!("^{}", regex_lite::escape(folder));
    let whole = value::with_start(expression, &start);
    whole.ok_or_else(|| "where its expression starts is not translated".to_owned())
}

/// The target of a rule, with `?` at its end if the query is dropped.
fn target(to: &str, flags: &Flags, rewriting: &Rewriting) -> Result<String, String> {
    let is_url = to.contains("://");
    let to = match &rewriting.folder {
        _ if is_url || to.starts_with('/') => to.to_owned(),
        Some((_, base)) => format!("{base}{to}"),
        None => return Err("outside of a folder, a target begins with a slash".into()),
    };
    let has_query = to.contains('?');
    Ok(match (has_query, flags.keeps_query) {
        _ if flags.drops_query && !to.ends_with('?') => format!("{to}?"),
        (true, false) if !to.ends_with('?') => format!("{to}?"),
        _ => to,
    })
}
