//! The directives of a site.

use std::cmp::Ordering;

use crate::directive::Directive;
use crate::model::{Action, Headers, Moved, Rule, Scope, Serve, Site};
use crate::source::Place;
use crate::{unit, validity};

use super::Reader;
use super::matcher::{self, Matcher, Named};
use super::proxy::asks_services_alone;
use super::refuse;
use super::rewrite::status_of;
use super::served::Served;

/// Directives that tune Caddy, or ask for what Tokamak does anyway.
pub(super) const TUNING: &[&str] =
    &["bind", "encode", "log_append", "log_skip", "push", "skip_log", "tracing"];

/// Directives that only change what a site says of itself, so that nothing opens without them.
const HARMLESS: &[&str] = &["handle_errors", "map", "vars"];

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
        let everything = Matcher::default();
        let outside = Named::new();
        let mounted = self.mounts(directives, site);
        let is_left = |it: &&Directive| !mounted.contains(it);
        let directives: Vec<Directive> = directives.iter().filter(is_left).cloned().collect();
        self.directives(&directives, &outside, &everything, site, &mut served);
        self.scripts(&mut served, site);
        let outside_named = matcher::named(&directives, &outside, self.hides_clients);
        for directive in served.some_files.iter().filter(|_| !served.files) {
            if !self.is_kept(directive, &outside_named, site) {
                self.unserved(directive, site);
            }
            served.in_parts = true;
        }
        if directives.iter().any(looks_for_folders) {
            close_folders(site);
        }
        refuse::by_client(&served.refused, &directives, site);
        self.hide(site);
        let place = site.place.clone();
        let has_services = site.applications().next().is_some();
        if !served.files && !has_services {
            let reason = match served.php.is_some() {
                true => "its files are not served by Caddy, which no rule can say; all is refused",
                false => "it serves neither files nor PHP, so all of it is refused",
            };
            self.notes.refused(&place, "", reason);
            site.refuse(&place);
        } else if served.php.is_none() {
            // Caddy sends the source of scripts as text.
            site.rules.push(Rule::at(&place, Scope::default()).serve(Serve::Files));
            let index = || vec!["index.html".to_owned(), "index.txt".to_owned()];
            site.index.get_or_insert_with(index);
        }
        self.beside_services(&served, site);
    }

    /// Scripts that run in some `handle` only.
    fn scripts(&mut self, served: &mut Served, site: &mut Site) {
        let Some((first, php)) = served.scripts.first() else { return };
        match &served.php {
            Some(own) if own.script == php.script => {}
            None if served.files || first.is_all() || site.applications().next().is_some() => {
                let place = site.place.clone();
                let matchers: Vec<&Matcher> = served.scripts.iter().map(|(own, _)| own).collect();
                if !self.files_but(&place, &matchers, site) {
                    let reason = "where no script runs cannot be said by a rule, so all is refused";
                    self.notes.refused(&place, "handle", reason);
                    site.refuse(&place);
                }
                self.index(&php.clone(), site);
                served.php = Some(php.clone());
            }
            _ => {
                let reason = "one `handle` runs another script than the others where there is no \
                    file, so the site is refused; see `path` of `[[site]]`";
                let place = site.place.clone();
                self.notes.refused(&place, "handle", reason);
                site.refuse(&place);
            }
        }
    }

    /// The Caddyfile itself is not sent.
    pub(super) fn hide(&self, site: &mut Site) {
        let root = site.root.as_deref().unwrap_or_default();
        if let (false, Ok(own)) = (root.is_empty(), self.file.strip_prefix(root)) {
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
                "php_server" if site.root.is_none() && !has_root(directives) => {
                    let own = directive.inner().iter().rfind(|it| it.name == "root");
                    site.root = own.and_then(|own| self.path(own.arg(0)));
                }
                _ => {}
            }
        }
    }

    pub(super) fn directives(
        &mut self,
        directives: &[Directive],
        named: &Named,
        outer: &Matcher,
        site: &mut Site,
        served: &mut Served,
    ) {
        let named = matcher::named(directives, named, self.hides_clients);
        let directives = directives.iter().filter(|it| !it.name.starts_with('@'));
        for (directive, _) in sorted(directives, &named) {
            self.directive(directive, &named, outer, site, served);
        }
    }

    pub(super) fn directive(
        &mut self,
        directive: &Directive,
        named: &Named,
        outer: &Matcher,
        site: &mut Site,
        served: &mut Served,
    ) {
        let (own, args) = matcher::of(directive, named);
        let matcher = own.within(outer, self.hides_clients);
        match &*directive.name {
            "root" => {}
            "redir" => self.redirect(directive, &matcher, args, site),
            "rewrite" => self.rewrite(directive, &matcher, args, site),
            "try_files" => self.try_files(directive, &matcher, args, site),
            "header" => self.header(directive, &matcher, args, site),
            "respond" | "error" | "abort" => self.refusal(directive, &matcher, args, site, served),
            // Of several, the one for all serves the rest, too.
            "file_server" if own.is_all() => match self.file_server(directive, args, site) {
                true => served.files = true,
                false => self.unserved(directive, site),
            },
            "file_server" if directive.block.is_none() && args.is_empty() => {
                served.some_files.push(directive.clone());
            }
            "php_fastcgi" | "php_server" if served.php.is_none() => {
                let php = self.php(directive, site);
                match php.filter(|php| self.run(directive, php, &own, site)) {
                    Some(php) => {
                        served.files |= php.has_files;
                        served.php = Some(php);
                    }
                    None => self.unserved(directive, site),
                }
            }
            "file_server" | "php_fastcgi" | "php_server" => self.unserved(directive, site),
            "reverse_proxy" => {
                let matcher = if served.is_rest { &own } else { &matcher };
                self.reverse_proxy(directive, matcher, args, site, served);
            }
            "handle_path"
                if asks_services_alone(directive)
                    && args.is_empty()
                    && let Some(path) = own.path() =>
            {
                let strip = path.trim_end_matches('*').to_owned();
                let both = (&matcher, &matcher);
                self.services(directive, both, Some(&strip), named, site, served);
            }
            "handle" | "route" if own.is_all() => {
                self.rest(directive, named, outer, site, served);
            }
            "handle" | "route" => {
                if directive.name == "handle" {
                    served.handled.push(matcher.clone());
                }
                match asks_services_alone(directive) {
                    true => {
                        let both = (&matcher, &matcher);
                        self.services(directive, both, None, named, site, served);
                    }
                    false => self.part(directive, &matcher, named, site, served),
                }
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

    /// Refuses the site, because no rule says what a directive serves.
    fn unserved(&mut self, directive: &Directive, site: &mut Site) {
        let reason = "it is for some paths only, or asks for more than is translated, so the site \
            is refused";
        self.notes.refused(&directive.place, &directive.line(), reason);
        site.refuse(&directive.place);
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
            let rule = Rule { headers, ..Rule::at(place, Scope::default()) };
            match matcher.of_headers(&rule).filter(|_| is_translated) {
                Some(rules) => site.rules.extend(rules),
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
                // Where PHP has a front controller, its index files come first.
                "index" => drop(site.index.get_or_insert_with(|| inner.args.clone())),
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

/// Directives in the order in which Caddy asks them, with their matchers.
pub(super) fn sorted<'a>(
    directives: impl IntoIterator<Item = &'a Directive>,
    named: &Named,
) -> Vec<(&'a Directive, Matcher)> {
    let mut sorted: Vec<(&Directive, Matcher)> = Vec::new();
    for directive in directives {
        let (matcher, _) = matcher::of(directive, named);
        // Which of two comes first says nothing of a third one, so this is by insertion, as in
        // Caddy: another way to sort them would give another order.
        let is_before = |(other, its): &(&Directive, Matcher)| match order(&directive.name)
            .cmp(&order(&other.name))
        {
            Ordering::Equal => matcher.is_before(its),
            by_name => by_name.is_lt(),
        };
        let after = sorted.iter().rposition(|other| !is_before(other));
        sorted.insert(after.map_or(0, |at| at + 1), (directive, matcher));
    }
    sorted
}

/// Whether a site names its root by itself.
fn has_root(directives: &[Directive]) -> bool {
    directives.iter().any(|it| it.name == "root")
}

/// Whether a `try_files` within makes `/folder/` of the path `/folder`.
fn looks_for_folders(directive: &Directive) -> bool {
    let is_folder = |arg: &String| arg == "{path}/";
    directive.name == "try_files" && directive.args.iter().any(is_folder)
        || directive.inner().iter().any(looks_for_folders)
}

/// Guards `/folder` as `/folder/`, where Caddy asks for the latter.
fn close_folders(site: &mut Site) {
    for rule in &mut site.rules {
        let is_guard = matches!(rule.action, Some(Action::Refuse { .. } | Action::Login(_)));
        let folder = rule.scope.path.as_deref().and_then(|path| path.strip_suffix("/*"));
        if let Some(folder) = folder.filter(|folder| is_guard && !folder.is_empty()) {
            rule.scope.path = Some(folder.to_owned());
        }
    }
}

/// Where Caddy puts a directive. All that is not named here refuses, which holds anywhere.
fn order(name: &str) -> usize {
    let known = [
        "redir",
        "rewrite",
        "try_files",
        "handle",
        "handle_path",
        "route",
        "abort",
        "reverse_proxy",
    ];
    known.iter().position(|own| *own == name).unwrap_or(known.len())
}
