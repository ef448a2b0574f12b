//! `handle` and `route`: directives for some paths.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};

use super::Reader;
use super::matcher::{self, Matcher, Named};
use super::proxy::asks_services_alone;
use super::served::Served;
use super::site::TUNING;

/// Directives that rules can say for some paths as well as for all.
const KNOWN: &[&str] = &[
    "abort",
    "basic_auth",
    "basicauth",
    "error",
    "header",
    "redir",
    "request_body",
    "respond",
    "rewrite",
    "try_files",
];

impl Reader<'_> {
    /// A `handle` without a matcher, for all that no other one answers, or any `route` without
    /// one.
    pub(super) fn rest(
        &mut self,
        directive: &Directive,
        named: &Named,
        outer: &Matcher,
        site: &mut Site,
        served: &mut Served,
    ) {
        let others: Vec<Matcher> = match &*directive.name {
            "handle" => served.handled.clone(),
            _ => Vec::new(),
        };
        let rest = Matcher::none_of(&others.iter().collect::<Vec<_>>(), self.hides_clients);
        if rest.is_none() {
            let reason = "it is for what no other `handle` answers; here its rules are for all \
                paths";
            self.notes.differs(&directive.place, "handle", reason);
        }
        let rest = rest.unwrap_or_default().within(outer, self.hides_clients);
        // What other ones have are routes already, or paths of the site within the service's.
        if asks_services_alone(directive) {
            return self.services(directive, (outer, &rest), None, named, site, served);
        }
        let around = std::mem::replace(&mut served.is_rest, outer.is_all());
        self.directives(directive.inner(), named, &rest, site, served);
        served.is_rest = around;
    }

    /// A `handle` or `route` with a matcher: refusals, redirects, headers and rewrites, and files,
    /// or scripts and files as in the site around it.
    pub(super) fn part(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        named: &Named,
        site: &mut Site,
        served: &mut Served,
    ) {
        let inner: Vec<&Directive> = directive
            .inner()
            .iter()
            .filter(|it| !TUNING.contains(&&*it.name) && !it.name.starts_with('@'))
            .collect();
        let (servers, rules): (Vec<&Directive>, Vec<&Directive>) = inner
            .iter()
            .partition(|it| matches!(&*it.name, "file_server" | "php_fastcgi" | "php_server"));
        let named = matcher::named(directive.inner(), named, self.hides_clients);
        let is_for_all = |it: &Directive| matcher::of(it, &named).0.is_all();
        let is_root = |it: &Directive| {
            it.name == "root" && it.args.last().and_then(|root| self.path(root)) == site.root
        };
        let are_known = rules.iter().all(|it| KNOWN.contains(&&*it.name) || is_root(it))
            && servers.iter().all(|it| is_for_all(it));
        let files: Vec<_> = servers.iter().filter(|it| it.name == "file_server").collect();
        let scripts: Vec<_> = servers.iter().filter(|it| it.name != "file_server").collect();
        let are_plain = files.iter().all(|it| it.block.is_none() && is_plain(&it.args));
        let ends = rules.iter().any(|it| {
            is_for_all(it) && matches!(&*it.name, "respond" | "error" | "abort" | "redir")
        });
        let runs_script = rules.iter().any(|it| it.name == "rewrite" && leads_to_script(it));
        let mut is_done = are_known && are_plain && scripts.len() < 2 && files.len() < 2;
        if let (true, [script]) = (is_done, &scripts[..]) {
            is_done = self.php(script, site).is_some_and(|php| {
                let is_same = served.scripts.iter().all(|(_, own)| own.script == php.script);
                let has_files = php.has_files || !files.is_empty() || runs_script;
                served.scripts.push((matcher.clone(), php));
                is_same && has_files
            });
        } else if is_done && files.is_empty() {
            is_done = ends || directive.name == "route";
        }
        if !is_done {
            let reason = "only files and scripts of the site's own root are translated here, with \
                refusals, redirects, headers and rewrites, so all of it is refused";
            return self.refuse(directive, matcher, 404, site, Some(reason));
        }
        if !servers.is_empty() {
            self.keep(directive, matcher, site, served);
        }
        let place = &directive.place;
        if let ([files], []) = (&files[..], &scripts[..]) {
            // More than the matcher says is no danger: then less runs, and less is listed.
            for scope in matcher.refused() {
                let rule = Rule::at(place, scope).serve(Serve::Files);
                site.rules.push(if files.args.is_empty() { rule.list(false) } else { rule });
            }
            if !files.args.is_empty() {
                self.list(files, matcher, site);
            }
        }
        for own in rules.into_iter().filter(|it| it.name != "root") {
            self.directive(own, &named, matcher, site, &mut Served::default());
        }
    }

    /// `browse` for some paths: no more than these.
    fn list(&mut self, directive: &Directive, matcher: &Matcher, site: &mut Site) {
        let place = &directive.place;
        let rule = Rule::at(place, Scope::default()).list(true);
        match matcher.by_path(&rule) {
            Some(rules) => site.rules.extend(rules),
            None => {
                let reason = "which folders are listed cannot be said by a rule, so none is";
                self.notes.left(place, &directive.line(), reason);
            }
        }
    }
}

/// Whether a `file_server` says no more than that folders are listed.
fn is_plain(args: &[String]) -> bool {
    matches!(args, [] | [_]) && args.iter().all(|arg| arg == "browse")
}

/// Whether a rewrite leads all paths to one script.
fn leads_to_script(rewrite: &Directive) -> bool {
    let target = match &rewrite.args[..] {
        [all, target] if all == "*" => target,
        [target] if !target.starts_with('@') => target,
        _ => return false,
    };
    let path = target.split('?').next().unwrap_or_default();
    path.ends_with(".php") && !path.contains('{')
}
