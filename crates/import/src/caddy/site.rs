//! The directives of a site.

use std::cmp::Reverse;

use crate::directive::Directive;
use crate::model::{Headers, Moved, Rule, Scope, Serve, Site};
use crate::source::Place;
use crate::{unit, validity};

use super::Reader;
use super::matcher::{self, Clients, Matcher, Named};
use super::target;

/// Directives that tune Caddy, or ask for what Tokamak does anyway.
pub(super) const TUNING: &[&str] =
    &["bind", "encode", "log_append", "log_skip", "push", "skip_log", "tracing"];

/// Directives that only change what a site says of itself, so that nothing opens without them.
const HARMLESS: &[&str] = &["handle_errors", "map", "vars"];

/// What a site serves.
#[derive(Debug, Default)]
struct Served {
    files: bool,
    php: bool,
    /// Paths that a `handle` of its own answers.
    handled: bool,
}

impl Reader<'_> {
    pub(super) fn site(&mut self, directives: &[Directive], site: &mut Site) {
        let mut served = Served::default();
        if let Some(moved) = self.moved(directives, site) {
            site.moved = Some(moved);
            for log in directives.iter().filter(|it| it.name == "log") {
                self.access_log(log, site);
            }
            return;
        }
        self.root(directives, site);
        let around = Named::new();
        let mounted = self.mounts(directives, site);
        let is_left = |it: &&Directive| !mounted.contains(it);
        let directives: Vec<Directive> = directives.iter().filter(is_left).cloned().collect();
        self.directives(&directives, &around, site, &mut served);
        self.hide(site);
        let place = site.place.clone();
        if !served.files {
            let reason = match served.php {
                true => "its files are not served by Caddy, which no rule can say; all is refused",
                false => "it serves neither files nor PHP, so all of it is refused",
            };
            self.notes.refused(&place, "", reason);
            site.refuse(&place);
        } else if !served.php {
            // Caddy sends the source of scripts as text.
            site.rules.push(Rule::at(&place, Scope::default()).serve(Serve::Files));
            let index = || vec!["index.html".to_owned(), "index.txt".to_owned()];
            site.index.get_or_insert_with(index);
        }
    }

    /// The Caddyfile itself is not sent.
    pub(super) fn hide(&self, site: &mut Site) {
        let root = site.root.as_deref().unwrap_or_default();
        if let Ok(own) = self.file.strip_prefix(root) {
            let scope = Scope::path(format!("/{}", own.display()));
            let rule = Rule::at(&site.place, scope).refuse_all(404);
            site.rules.push(rule);
        }
    }

    /// A site that only redirects to another one.
    fn moved(&mut self, directives: &[Directive], site: &Site) -> Option<Moved> {
        let is_other = |it: &&Directive| !matches!(&*it.name, "log" | "encode" | "bind" | "tls");
        let mut all = directives.iter().filter(is_other);
        let (redirect, None) = (all.next()?, all.next()) else { return None };
        let has_certificate = directives.iter().any(|it| it.name == "tls");
        if redirect.name != "redir" || has_certificate {
            return None;
        }
        let (matcher, args) = matcher::of(redirect, &Named::new());
        let (scheme, host) = args.first()?.strip_suffix("{uri}")?.split_once("://")?;
        let status = status_of(args.get(1))?;
        if !matcher.is_all() || args.len() > 2 {
            return None;
        }
        let is_tls = site.listen.iter().any(|listen| listen.tls);
        match (scheme, validity::host(host)) {
            ("https", None) if host == "{host}" && !is_tls => Some(Moved::Secure),
            ("https", Some(host)) => Some(Moved::Host { scheme: "https", host, status }),
            ("http", Some(host)) => Some(Moved::Host { scheme: "http", host, status }),
            _ => None,
        }
    }

    /// The document root, which comes before all else.
    fn root(&mut self, directives: &[Directive], site: &mut Site) {
        for directive in directives {
            match &*directive.name {
                "root" => {
                    let (matcher, args) = match &directive.args[..] {
                        [only] => (Matcher::default(), std::slice::from_ref(only)),
                        _ => matcher::of(directive, &Named::new()),
                    };
                    let root = args.first().and_then(|root| self.path(root));
                    let is_new = site.root.is_none() || site.root == root;
                    match root.filter(|_| matcher.is_all() && is_new) {
                        Some(root) => site.root = Some(root),
                        None => {
                            let reason = "only one root for the whole site is translated, so the \
                                site is refused; see `path` of `[[site]]`";
                            self.notes.refused(&directive.place, &directive.line(), reason);
                            site.refuse(&directive.place);
                        }
                    }
                }
                // They are for all that no other answers.
                "handle" | "route" if directive.args.is_empty() => {
                    self.root(directive.inner(), site);
                }
                _ => {}
            }
        }
    }

    fn directives(
        &mut self,
        directives: &[Directive],
        around: &Named,
        site: &mut Site,
        served: &mut Served,
    ) {
        let named = matcher::named(directives, around, self.hides_clients);
        let mut sorted: Vec<&Directive> =
            directives.iter().filter(|it| !it.name.starts_with('@')).collect();
        sorted.sort_by_key(|directive| {
            let (matcher, _) = matcher::of(directive, &named);
            (order(&directive.name), Reverse(matcher.length()), matcher.is_all())
        });
        for directive in sorted {
            self.directive(directive, &named, site, served);
        }
    }

    fn directive(
        &mut self,
        directive: &Directive,
        named: &Named,
        site: &mut Site,
        served: &mut Served,
    ) {
        let (matcher, args) = matcher::of(directive, named);
        match &*directive.name {
            "root" => {}
            "redir" => self.redirect(directive, &matcher, args, site),
            "rewrite" => self.rewrite(directive, &matcher, args, site),
            "try_files" => self.try_files(directive, &matcher, args, site),
            "header" => self.header(directive, &matcher, args, site),
            "respond" | "error" | "abort" => self.refusal(directive, &matcher, args, site, served),
            "file_server" if matcher.is_all() && self.file_server(directive, args, site) => {
                served.files = true;
            }
            "php_fastcgi" if matcher.is_all() && !served.php => match self.php(directive, site) {
                true => served.php = true,
                false => site.refuse(&directive.place),
            },
            // Nobody can say by a rule that something is served below some paths only.
            "file_server" | "php_fastcgi" => {
                let reason = "it is for some paths only, or asks for more than is translated, so \
                    the site is refused";
                self.notes.refused(&directive.place, &directive.line(), reason);
                site.refuse(&directive.place);
            }
            "handle" if matcher.is_all() => {
                if served.handled {
                    let reason = "it is for what no other `handle` answers; here its rules are for \
                        all paths";
                    self.notes.differs(&directive.place, "handle", reason);
                }
                self.directives(directive.inner(), named, site, served);
            }
            "route" if matcher.is_all() => {
                self.directives(directive.inner(), named, site, served);
            }
            "handle" => {
                served.handled = true;
                self.handle(directive, &matcher, named, site);
            }
            "request_body" => self.request_body(directive, &matcher),
            "tls" => self.tls(directive, site),
            "log" => self.access_log(directive, site),
            "basic_auth" | "basicauth" => {
                self.password(directive, &matcher, args, site);
            }
            name if TUNING.contains(&name) => {}
            name if HARMLESS.contains(&name) => {
                let reason = match name {
                    "handle_errors" => "see `error_pages`",
                    _ => "variables are not translated",
                };
                self.notes.left(&directive.place, &directive.line(), reason);
            }
            _ => {
                let reason = "there is no such rule, so what it is for is refused";
                self.refuse(directive, &matcher, 404, site, Some(reason));
            }
        }
    }

    /// Refuses what a directive is for: at least that.
    pub(super) fn refuse(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        status: u16,
        site: &mut Site,
        reason: Option<&str>,
    ) {
        let place = &directive.place;
        if let Some(reason) = reason {
            self.notes.refused(place, &directive.line(), reason);
        } else if matcher.is_narrower || matcher.is_widened() {
            let reason = "a part of its matcher is not translated, so more is refused";
            self.notes.refused(place, &directive.line(), reason);
        }
        let all = || vec!["all".to_owned()];
        for scope in matcher.refused() {
            let rule = Rule::at(place, scope);
            site.rules.push(match (&matcher.clients, reason) {
                (None, _) | (_, Some(_)) => rule.refuse_all(status),
                (Some(Clients::Only(networks)), None) => {
                    rule.refuse(Vec::new(), networks.clone(), status)
                }
                (Some(Clients::Not(networks)), None) => {
                    rule.refuse(networks.clone(), all(), status)
                }
            });
        }
    }

    fn refusal(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
        served: &Served,
    ) {
        let is_status = |arg: &&String| arg.len() == 3 && arg.parse::<u16>().is_ok();
        let status = args.iter().rfind(is_status).map_or("", String::as_str);
        let is_refusal = directive.name != "respond" || status.starts_with(['4', '5']);
        if !is_refusal {
            let reason = "no rule answers with a text, so what it is for is refused";
            return self.refuse(directive, matcher, 404, site, Some(reason));
        }
        if served.handled {
            let reason = "it is for what no `handle` answers; here all that fits is refused";
            self.notes.differs(&directive.place, &directive.line(), reason);
        }
        let status = match status {
            "404" => 404,
            "410" => 410,
            _ => 403,
        };
        self.refuse(directive, matcher, status, site, None);
    }

    /// A `handle` with a matcher: refusals, files alone, or the same as the site around it.
    fn handle(&mut self, directive: &Directive, matcher: &Matcher, named: &Named, site: &mut Site) {
        let inner: Vec<&Directive> =
            directive.inner().iter().filter(|it| !TUNING.contains(&&*it.name)).collect();
        let reason = "only refusals and files of the site's own root are translated here, so all \
            of it is refused";
        match &inner[..] {
            [one] if matches!(&*one.name, "respond" | "error" | "abort") => {
                let (own, args) = matcher::of(one, named);
                match own.is_all() {
                    true => self.refusal(one, matcher, args, site, &Served::default()),
                    false => self.refuse(directive, matcher, 404, site, Some(reason)),
                }
            }
            [one] if one.name == "file_server" && one.block.is_none() && is_plain(&one.args) => {
                // More than the matcher says is no danger: then less runs, and less is listed.
                for scope in matcher.refused() {
                    let rule = Rule::at(&one.place, scope).serve(Serve::Files);
                    site.rules.push(if one.args.is_empty() { rule.list(false) } else { rule });
                }
                if !one.args.is_empty() {
                    self.list(one, matcher, site);
                }
            }
            _ => self.refuse(directive, matcher, 404, site, Some(reason)),
        }
    }

    /// `browse` for some paths: no more than these.
    fn list(&mut self, directive: &Directive, matcher: &Matcher, site: &mut Site) {
        let place = &directive.place;
        match matcher.exact().filter(|_| !matcher.is_missing) {
            Some(scopes) => {
                let rules = scopes.into_iter().map(|scope| Rule::at(place, scope).list(true));
                site.rules.extend(rules);
            }
            None => {
                let reason = "which folders are listed cannot be said by a rule, so none is";
                self.notes.left(place, &directive.line(), reason);
            }
        }
    }

    fn redirect(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let (place, line) = (&directive.place, directive.line());
        let found = args.first().and_then(|to| target::redirected(to));
        let status = status_of(args.get(1));
        let scopes = matcher.exact();
        if let (Some((to, needs_path)), Some(status), Some(scopes)) = (found, status, scopes) {
            let is_free = |scope: &Scope| scope.pattern.is_none() || !needs_path;
            let rules: Vec<Rule> = scopes
                .into_iter()
                .filter(is_free)
                .map(|scope| {
                    let scope = if needs_path { Scope::pattern("^/(.*)$") } else { scope };
                    let rule = Rule::at(place, scope).redirect(&*to, status);
                    Rule { unless_file: matcher.is_missing, ..rule }
                })
                .filter(|rule| validity::rule(rule).is_ok())
                .collect();
            let is_whole = rules.len() == matcher.exact().map_or(0, |scopes| scopes.len());
            if is_whole && !rules.is_empty() {
                return site.rules.extend(rules);
            }
        }
        if matcher.is_host {
            let reason = "it is for some of the site's names only; see `canonical_host`";
            return self.notes.left(place, &line, reason);
        }
        let reason = "the redirect is not translated, so its paths are refused";
        self.refuse(directive, matcher, 404, site, Some(reason));
    }

    fn rewrite(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let to = args.first().filter(|_| args.len() == 1).and_then(|to| target::rewritten(to));
        let rules: Option<Vec<Rule>> = to.zip(matcher.exact()).map(|(to, scopes)| {
            let rule = |scope| {
                let rule = Rule::at(&directive.place, scope).rewrite(&*to);
                Rule { unless_file: matcher.is_missing, ..rule }
            };
            scopes.into_iter().map(rule).collect()
        });
        match rules.filter(|rules| rules.iter().all(|rule| validity::rule(rule).is_ok())) {
            Some(rules) => site.rules.extend(rules),
            None => {
                let reason = "the rewrite is not translated, so its paths are refused";
                self.refuse(directive, matcher, 404, site, Some(reason));
            }
        }
    }

    /// `try_files`: what is asked for, or the last of its files. Refusals hold for that, too, so it
    /// is a rewrite and no front controller.
    fn try_files(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let known = ["{path}", "{path}/", "{path}/index.php", "{path}/index.html"];
        let (fallback, first) = match args.split_last() {
            Some((last, first)) if !known.contains(&&**last) => (Some(last), first),
            _ => (None, args),
        };
        let is_known = first.iter().all(|file| known.contains(&&**file)) && !first.is_empty();
        let rule = |scope: Scope| match fallback.map(|it| &**it) {
            None => Some(Rule::at(&directive.place, scope)),
            Some("=404") => Some(Rule::at(&directive.place, scope).serve(Serve::Existing)),
            Some(to) => {
                let to = if to.starts_with('/') { to.to_owned() } else { format!("/{to}") };
                let rule = Rule::at(&directive.place, scope).rewrite(target::rewritten(&to)?);
                let rule = Rule { unless_file: true, ..rule };
                validity::rule(&rule).is_ok().then_some(rule)
            }
        };
        let scopes = matcher.exact().filter(|_| is_known && directive.block.is_none());
        match scopes.and_then(|scopes| scopes.into_iter().map(rule).collect::<Option<Vec<_>>>()) {
            Some(rules) => site.rules.extend(rules),
            None => {
                let reason = "these files are not translated, so their paths are refused";
                self.refuse(directive, matcher, 404, site, Some(reason));
            }
        }
    }

    pub(super) fn header(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let place = &directive.place;
        let mut lines: Vec<(&Place, Vec<&str>)> = Vec::new();
        if !args.is_empty() {
            lines.push((place, args.iter().map(String::as_str).collect()));
        }
        for inner in directive.inner().iter().filter(|it| it.name != "defer") {
            let words = std::iter::once(&inner.name).chain(&inner.args);
            lines.push((&inner.place, words.map(String::as_str).collect()));
        }
        let scopes = matcher.exact().filter(|_| !matcher.is_missing);
        for (place, words) in lines {
            let mut headers = Headers { always: true, ..Headers::default() };
            let is_translated = match &words[..] {
                [name] => name.strip_prefix('-').is_some_and(|name| {
                    headers.remove.push(name.to_owned());
                    validity::field(name, "").is_ok() && !name.contains('*')
                }),
                [name, value] if !value.contains('{') => match name.strip_prefix('+') {
                    Some(name) => {
                        headers.add.insert(name.to_owned(), (*value).to_owned());
                        validity::field(name, value).is_ok()
                    }
                    None => {
                        let name = name.strip_prefix('>').unwrap_or(name);
                        headers.set.insert(name.to_owned(), (*value).to_owned());
                        !name.starts_with(['?', '-']) && validity::field(name, value).is_ok()
                    }
                },
                _ => false,
            };
            match scopes.as_ref().filter(|_| is_translated) {
                Some(scopes) => site.rules.extend(scopes.iter().map(|scope| Rule {
                    headers: headers.clone(),
                    ..Rule::at(place, scope.clone())
                })),
                None => {
                    let reason = "only headers with fixed values, by paths, are translated";
                    self.notes.left(place, &words.join(" "), reason);
                }
            }
        }
    }

    /// Whether all of it that decides what is served is translated.
    pub(super) fn file_server(
        &mut self,
        directive: &Directive,
        args: &[String],
        site: &mut Site,
    ) -> bool {
        for arg in args {
            match &**arg {
                "browse" => site.index_listing = true,
                _ => return false,
            }
        }
        for inner in directive.inner() {
            match &*inner.name {
                "precompressed" | "disable_canonical_uris" | "etag_file_extensions" => {}
                "browse" => {
                    site.index_listing = true;
                    if !inner.args.is_empty() || inner.block.is_some() {
                        let reason = "folders are listed, without a template or options";
                        self.notes.left(&inner.place, &inner.line(), reason);
                    }
                }
                "root" if self.path(inner.arg(0)) == site.root => {}
                "index" => site.index = Some(inner.args.clone()),
                "hide" => {
                    for name in &inner.args {
                        // A name is that of each part of a path.
                        if name.contains(['/', '{', '[', '?', '\\']) || name.is_empty() {
                            return false;
                        }
                        let parts: Vec<String> = name.split('*').map(regex_lite::escape).collect();
                        let expression = format!("/{}(?:/|$)", parts.join("[^/]*"));
                        let rule = Rule::at(&inner.place, Scope::pattern(expression));
                        site.rules.push(rule.refuse_all(404));
                    }
                }
                _ => return false,
            }
        }
        true
    }

    fn request_body(&mut self, directive: &Directive, matcher: &Matcher) {
        for inner in directive.inner() {
            let size = unit::size(inner.arg(0)).filter(|_| inner.name == "max_size");
            let known = self.description.body;
            match size {
                Some(size) => {
                    if !matcher.is_all() || known.is_some_and(|known| known != size) {
                        let reason = "there is one limit for all, `limits.body`: the largest";
                        self.notes.differs(&inner.place, &inner.line(), reason);
                    }
                    self.description.body = known.max(Some(size));
                }
                None => self.notes.left(&inner.place, &inner.line(), "see `limits.body`"),
            }
        }
    }

    fn tls(&mut self, directive: &Directive, site: &mut Site) {
        let place = &directive.place;
        match &directive.args[..] {
            [certificate, key] => match self.path(certificate).zip(self.path(key)) {
                Some((certificate, key)) if site.listen.iter().any(|listen| listen.tls) => {
                    (site.certificate, site.key) = (vec![certificate], vec![key]);
                }
                _ => self.notes.left(place, &directive.line(), "see `certificate` and `key`"),
            },
            [] => {}
            _ => {
                let reason = "the server gets certificates from the authorities of `[acme]`, and \
                    from its own for `localhost`";
                self.notes.left(place, &directive.line(), reason);
            }
        }
        for inner in directive.inner() {
            if inner.name == "client_auth" {
                let reason = "clients are not asked for certificates, so the site is refused";
                self.notes.refused(&inner.place, "client_auth", reason);
                site.refuse(place);
                continue;
            }
            self.notes.left(&inner.place, &inner.line(), "see `[tls]` and `[acme]`");
        }
    }
}

/// Whether a `file_server` says no more than that folders are listed.
fn is_plain(args: &[String]) -> bool {
    matches!(args, [] | [_]) && args.iter().all(|arg| arg == "browse")
}

/// Where Caddy puts a directive. All that is not named here refuses, which holds anywhere.
fn order(name: &str) -> usize {
    let known = ["redir", "rewrite", "try_files", "handle", "handle_path", "route", "abort"];
    known.iter().position(|own| *own == name).unwrap_or(known.len())
}

/// The status of `redir`.
fn status_of(arg: Option<&String>) -> Option<u16> {
    match arg.map_or("temporary", String::as_str) {
        "temporary" => Some(302),
        "permanent" => Some(301),
        status => status.parse().ok().filter(|it| matches!(it, 301 | 302 | 303 | 307 | 308)),
    }
}
