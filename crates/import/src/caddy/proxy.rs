//! `reverse_proxy` as routes to services of HTTP.
//!
//! Caddy asks directives in an order, and of routes the longest one counts. So a route is left out
//! if one that comes before has its paths.

use crate::directive::Directive;
use crate::model::{Route, Rule, Scope, Site};
use crate::service::{self, Beside};

use super::Reader;
use super::matcher::{self, Matcher, Named};
use super::served::Served;
use super::site::TUNING;
use super::territory::{self, Territory};

/// Directives that rules can say beside a service.
const KNOWN: &[&str] =
    &["abort", "basic_auth", "basicauth", "error", "header", "redir", "request_body", "respond"];

/// What is done to a request before a service is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    /// What is taken off its path.
    pub strip: Option<String>,
    /// What its path begins with then.
    base: String,
    /// `request_header`.
    fields: Vec<Directive>,
}

/// Whether a service is asked within.
pub(super) fn asks_service(directive: &Directive) -> bool {
    directive.inner().iter().any(|it| it.name == "reverse_proxy")
}

/// Whether nothing else answers there.
pub(super) fn asks_services_alone(directive: &Directive) -> bool {
    let others =
        ["file_server", "php_fastcgi", "php_server", "handle", "handle_path", "route", "root"];
    asks_service(directive) && directive.inner().iter().all(|it| !others.contains(&&*it.name))
}

impl Reader<'_> {
    /// A `reverse_proxy` by itself.
    pub(super) fn reverse_proxy(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
        served: &mut Served,
    ) {
        let before = Before::default();
        if let Err(problem) = self.proxied(directive, args, matcher, &before, site, served) {
            let reason = format!("{problem}; what it is for is refused");
            self.refuse(directive, matcher, 404, site, Some(&reason));
        }
    }

    /// A `handle`, `handle_path` or `route` in which services are asked, for the paths of `own`;
    /// `matcher` is for the rules in it.
    pub(super) fn services(
        &mut self,
        directive: &Directive,
        (own, matcher): (&Matcher, &Matcher),
        strip: Option<&str>,
        named: &Named,
        site: &mut Site,
        served: &mut Served,
    ) {
        let named = matcher::named(directive.inner(), named, self.hides_clients);
        let before = match before(directive, strip, &named) {
            Ok(before) => before,
            Err(problem) => {
                let reason = format!("{problem}; all of it is refused");
                return self.refuse(directive, matcher, 404, site, Some(&reason));
            }
        };
        let inner = directive.inner().iter().filter(|it| !it.name.starts_with('@'));
        let inner: Vec<&Directive> = inner.collect();
        let sorted = match &*directive.name {
            "route" => inner.into_iter().map(|it| (it, matcher::of(it, &named).0)).collect(),
            _ => super::site::sorted(inner, &named),
        };
        for (inner, within) in sorted {
            let (_, args) = matcher::of(inner, &named);
            if inner.name == "reverse_proxy" {
                let within = within.within(own, self.hides_clients);
                let led = self.proxied(inner, args, &within, &before, site, served);
                if let Err(problem) = led {
                    let reason = format!("{problem}; all of it is refused");
                    self.notes.refused(&inner.place, &inner.line(), reason);
                    self.refuse(directive, matcher, 404, site, None);
                }
            } else if KNOWN.contains(&&*inner.name) {
                self.directive(inner, &named, matcher, site, &mut Served::default());
            }
        }
    }

    /// Adds the routes of a `reverse_proxy`, or gives the reason why there are none.
    fn proxied(
        &mut self,
        directive: &Directive,
        args: &[String],
        matcher: &Matcher,
        before: &Before,
        site: &mut Site,
        served: &mut Served,
    ) -> Result<(), String> {
        let place = &directive.place;
        let territory = territory::of(matcher)
            .ok_or("a route is for paths, and its matcher asks for something else")?;
        let Territory { paths, except, files } = territory;
        let mut before = before.clone();
        before.read_own(directive)?;
        let upstream_paths: Result<Vec<_>, String> =
            paths.iter().map(|(path, _)| before.upstream_path(path)).collect();
        let upstream_paths = upstream_paths?;
        let (mut upstream, server) = self.upstream(directive, args)?;
        for line in &before.fields {
            let (_, args) = matcher::of(line, &Named::new());
            self.field(line, args, &[], &mut upstream);
        }
        let name = upstream.named(&server, &mut self.description.upstreams);
        for path in except {
            let kept = Route { place: place.clone(), path: path.clone(), ..Route::default() };
            if service::add(kept, site) {
                served.excepted.push(path);
            }
        }
        for ((path, beside), upstream_path) in paths.into_iter().zip(upstream_paths) {
            let route = Route {
                place: place.clone(),
                path: path.clone(),
                upstream: Some(name.clone()),
                upstream_path,
                files: files || (path.is_empty() && served.files_first),
            };
            if !service::add(route, site) {
                let reason = format!("another directive has the paths of `{path}/` before");
                self.notes.left(place, &directive.line(), reason);
                continue;
            }
            if let Some(reason) = service::stay_beside(place, &path, beside, Vec::new(), site) {
                self.notes.differs(place, &directive.line(), reason);
            }
            if !path.is_empty() && beside != Beside::Below {
                // Caddy compares paths in upper and lower case alike.
                let mut rule = Rule::at(place, Scope::path(&path)).refuse_all(404);
                rule.except.push(path);
                site.rules.push(rule);
            }
        }
        for line in directive.inner().iter().filter(|it| it.name == "header_down") {
            let header = Directive { name: "header".to_owned(), ..line.clone() };
            self.header(&header, matcher, &line.args, site);
        }
        Ok(())
    }

    /// Keeps the paths of a `handle` that serves files or scripts, where a service has what is
    /// around them.
    pub(super) fn keep(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        site: &mut Site,
        served: &mut Served,
    ) {
        served.in_parts = true;
        if territory::is_of_files(matcher) {
            served.files_first = true;
            return;
        }
        match territory::of(matcher).filter(|it| it.except.is_empty() && !it.files) {
            Some(territory) => {
                for (path, _) in territory.paths {
                    let place = directive.place.clone();
                    service::add(Route { place, path, ..Route::default() }, site);
                }
            }
            None => served.unsaid.push(directive.clone()),
        }
    }

    /// Whether a `file_server` for some paths is one of those that are kept beside services; says
    /// where it is never asked.
    pub(super) fn is_kept(&mut self, directive: &Directive, named: &Named, site: &Site) -> bool {
        let (matcher, _) = matcher::of(directive, named);
        let Some(territory) = territory::of(&matcher) else { return false };
        let has = |path: &str| {
            site.routes.iter().filter(|it| it.has(path)).max_by_key(|it| it.path.len())
        };
        let owners: Vec<_> = territory.paths.iter().map(|(path, _)| has(path)).collect();
        if owners.iter().any(Option::is_none) || owners.is_empty() {
            return false;
        }
        if owners.iter().flatten().all(|route| route.upstream.is_some()) {
            let reason = "a service is asked before, so it is never asked";
            self.notes.left(&directive.place, &directive.line(), reason);
        }
        true
    }

    /// Sets the routes of a site apart from its files and scripts.
    pub(super) fn beside_services(&mut self, served: &Served, site: &mut Site) {
        if site.applications().any(str::is_empty) {
            for directive in &served.unsaid {
                let reason = "which files or scripts come before the service cannot be said by a \
                    route; here the service answers for them";
                self.notes.differs(&directive.place, &directive.line(), reason);
            }
        }
        if !served.files && !served.in_parts {
            // Nothing of the site is sent but by services.
            for path in &served.excepted {
                let rule = Rule::at(&site.place, Scope::path(path)).refuse_all(404);
                site.rules.push(rule);
            }
            if site.applications().next().is_some() {
                site.root = None;
            }
        }
        service::leave_out(served.php.is_some(), site);
    }
}

/// What is done before services of a block are asked, or why that is not translated.
fn before(directive: &Directive, strip: Option<&str>, named: &Named) -> Result<Before, String> {
    let mut before = Before { strip: strip.map(str::to_owned), ..Before::default() };
    let inner = directive.inner().iter().filter(|it| !it.name.starts_with('@'));
    for own in inner {
        let (matcher, args) = matcher::of(own, named);
        let is_translated = match (&*own.name, args) {
            ("uri", _) if !matcher.is_all() => false,
            ("uri", [action, prefix]) if action == "strip_prefix" => {
                let is_first = before.strip.is_none() && before.base.is_empty();
                before.strip = Some(format!("/{}", prefix.trim_start_matches('/')));
                is_first && !prefix.contains('{')
            }
            ("rewrite", [to]) if matcher.is_all() => {
                // Caddy asks `uri` behind it.
                (before.strip.is_none() || strip.is_some()) && before.begin_with(to)
            }
            ("request_header", _) if matcher.is_all() && own.block.is_none() => {
                before.fields.push(own.clone());
                true
            }
            ("reverse_proxy", _) => true,
            (name, _) => KNOWN.contains(&name) || TUNING.contains(&name),
        };
        if !is_translated {
            return Err(format!("`{}` is not translated beside a service", own.line()));
        }
    }
    let changes = before.strip.is_some() || !before.base.is_empty();
    let is_first = |it: &&Directive| !matches!(&*it.name, "uri" | "rewrite" | "request_header");
    let others = directive.inner().iter().filter(|it| !it.name.starts_with('@'));
    let mut asking = others.filter(is_first).filter(|it| !matcher::of(it, named).0.is_all());
    if let Some(own) = asking.next().filter(|_| changes) {
        return Err(format!("`{}` is for the path as it is changed before", own.line()));
    }
    Ok(before)
}

impl Before {
    /// Reads a target that puts a path in front of all.
    fn begin_with(&mut self, to: &str) -> bool {
        let base = to.strip_suffix("{uri}").or_else(|| to.strip_suffix("{path}?{query}"));
        let base = base.or_else(|| to.strip_suffix("{http.request.uri}"));
        let Some(base) = base.filter(|_| self.base.is_empty()) else { return false };
        let is_plain = service::is_path(base) && !base.contains('{') && !base.ends_with('/');
        self.base = base.to_owned();
        is_plain
    }

    /// What stands within `reverse_proxy` itself.
    fn read_own(&mut self, directive: &Directive) -> Result<(), String> {
        for own in directive.inner() {
            let is_translated = match &*own.name {
                "method" => false,
                "rewrite" => self.begin_with(own.arg(0)),
                _ => true,
            };
            if !is_translated {
                return Err(format!("`{}` is not translated", own.line()));
            }
        }
        Ok(())
    }

    /// What stands in place of the path of a route.
    fn upstream_path(&self, route: &str) -> Result<Option<String>, String> {
        let rest = match self.strip.as_deref().map(|strip| strip.trim_end_matches('/')) {
            None => route,
            Some(strip) => match route.strip_prefix(strip) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
                _ if strip.starts_with(route) => {
                    return Err(format!("not all of its paths begin with `{strip}`"));
                }
                _ => route,
            },
        };
        let whole = format!("{}{rest}", self.base);
        let is_same = whole == route;
        let whole = if whole.is_empty() { "/".to_owned() } else { whole };
        Ok(Some(whole).filter(|_| !is_same))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_off_and_another_one_put_in_front() {
        for (route, strip, base, expected) in [
            ("/a", None, "", Ok(None)),
            ("/a", Some("/a"), "", Ok(Some("/"))),
            ("/a/b", Some("/a"), "", Ok(Some("/b"))),
            ("/a", Some("/a/"), "/v1", Ok(Some("/v1"))),
            ("/a", None, "/v1", Ok(Some("/v1/a"))),
            ("", None, "/v1", Ok(Some("/v1"))),
            ("", None, "", Ok(None)),
            ("/a", Some("/b"), "", Ok(None)),
            ("", Some("/a"), "", Err(())),
            ("/a", Some("/a/b"), "", Err(())),
        ] {
            let strip = strip.map(str::to_owned);
            let before = Before { strip, base: base.to_owned(), fields: Vec::new() };
            let found = before.upstream_path(route).map_err(drop);
            let expected = expected.map(|it: Option<&str>| it.map(str::to_owned));
            assert_eq!(found, expected, "{route} {base}");
        }
    }
}
