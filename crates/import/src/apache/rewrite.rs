//! `RewriteCond` and `RewriteRule`: the front controller, `https`, one name for several, redirects
//! and rewrites without conditions, and refusals.

use crate::condition::{Case, Cases, Subject, Test, limited};
use crate::directive::Directive;
use crate::model::{Moved, Rule, Scope, Site};
use crate::pattern;

use super::Reader;
use super::area::HIDDEN;
use super::condition::{self as conditions_of, Condition, condition, is_avoidable};
use super::flags::Flags;
use super::rewriting::{
    Rewriting, expression_of, is_any, is_path, scope_of, target, with_whole_group, within_folder,
};

impl Reader<'_> {
    pub(super) fn rewrite(
        &mut self,
        directive: &Directive,
        rewriting: &mut Rewriting,
        site: &mut Site,
    ) {
        let conditions = std::mem::take(&mut rewriting.conditions);
        let chain = rewriting.chain.take();
        let directive = &with_whole_group(directive, rewriting);
        let mut flags = Flags::of(directive.arg(2));
        let line = directive.line();
        flags.refuses = flags.refuses.map(|own| self.notes.refusal(&directive.place, &line, own));
        let to = directive.arg(1);
        let expression = directive.arg(0);
        let prefix = self.prefix(site).unwrap_or_default();
        let conditions: Vec<Directive> =
            conditions.iter().map(|it| rewriting.with_paths(it, &prefix)).collect();
        let cases = self.cases(&conditions, chain, rewriting, site);
        if flags.proxies && flags.refuses.is_none() {
            let led = self.led_to_service(directive, &flags, &cases, rewriting, site);
            let Err(problem) = led else { return };
            let reason = format!("{problem}; its paths are refused instead");
            self.notes.refused(&directive.place, &line, reason);
            return self.refuse_rewritten(directive, &conditions, cases, &flags, rewriting, site);
        }
        if flags.refuses.is_some() {
            return self.refuse_rewritten(directive, &conditions, cases, &flags, rewriting, site);
        }
        if to == "-" && flags.sets_variable {
            rewriting.bases.extend(conditions_of::base(&conditions, directive.arg(2)));
            let paths = flags.variables.iter().filter(|(_, value)| is_path(expression, value));
            rewriting.paths.extend(paths.map(|(name, _)| name.clone()));
            if !flags.chains && !flags.ends {
                return;
            }
        }
        if to == "-" && !flags.is_unknown {
            let is_of_folders = conditions.iter().all(|it| matches!(it.arg(1), "-d" | "-l"));
            return self.stop(directive, cases, is_of_folders, &flags, rewriting);
        }
        let known: Vec<Condition> =
            conditions.iter().map(|it| condition(it, rewriting.folder.is_some())).collect();
        let or = |it: &Directive| it.arg(2).to_ascii_lowercase().contains("or");
        let translated = match to == "-" || flags.is_unknown || flags.chains {
            true => Err("what it does is not translated".to_owned()),
            false => {
                self.translated(directive, &flags, &conditions, (&known, cases), rewriting, site)
            }
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
        // Apache never sends what lies at these paths, so it may be private.
        let reason = format!("{problem}; its paths are refused instead");
        self.notes.refused(&directive.place, &directive.line(), reason);
        self.refuse_paths(directive, &flags, rewriting, site);
    }

    /// The requests that conditions let through, which no rule before has answered.
    fn cases(
        &self,
        conditions: &[Directive],
        chain: Option<Cases>,
        rewriting: &Rewriting,
        site: &Site,
    ) -> Result<Cases, String> {
        let in_folder = rewriting.folder.is_some();
        let mut cases = conditions_of::cases(conditions, self.prefix(site).as_deref(), in_folder)?;
        let too_many = || "too many conditions".to_owned();
        for others in chain.iter().cloned().map(Some).chain(rewriting.stops.iter().map(Cases::not))
        {
            cases = others.and_then(|others| cases.and(&others)).ok_or_else(too_many)?;
        }
        Ok(cases)
    }

    /// A rule that changes nothing, but ends the rules, or leads to the next one.
    fn stop(
        &mut self,
        directive: &Directive,
        cases: Result<Cases, String>,
        is_of_folders: bool,
        flags: &Flags,
        rewriting: &mut Rewriting,
    ) {
        let (expression, is_found) = match directive.arg(0).strip_prefix('!') {
            Some(expression) => (expression, false),
            None => (directive.arg(0), true),
        };
        let own = match is_any(expression) && is_found {
            true => Ok(Cases::all()),
            false => pattern::translate(expression, flags.ignores_case)
                .and_then(|own| within_folder(&own, rewriting))
                .map(|own| Cases::of(Test::Found(Subject::Path, own, is_found))),
        };
        let is_of_files = |it: &&mut Cases| Some(&**it) == conditions_of::no_file().not().as_ref();
        match cases.and_then(|cases| cases.and(&own?).ok_or_else(String::new)) {
            Ok(cases) if flags.chains => rewriting.chain = Some(cases),
            Ok(cases) if flags.ends => rewriting.stops.push(cases),
            Ok(_) => {}
            // Folders are taken for files.
            Err(_) => {
                let folders = rewriting.stops.iter_mut().find(is_of_files);
                if let Some(files) = folders.filter(|_| is_of_folders) {
                    // Now it is for both.
                    *files = Cases::of(Test::File(true));
                    return;
                }
                let reason = "what it does is not translated";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }

    fn refuse_rewritten(
        &mut self,
        directive: &Directive,
        conditions: &[Directive],
        cases: Result<Cases, String>,
        flags: &Flags,
        rewriting: &Rewriting,
        site: &mut Site,
    ) {
        let line = directive.line();
        let place = &directive.place;
        let status = flags.refuses.unwrap_or(404);
        let internal = conditions.iter().any(conditions_of::is_of_first_time);
        let refusals = |cases: Cases| {
            let (scope, cases) = scope_of(directive, flags, &cases, rewriting)?;
            let rule = Rule::at(place, scope.refusing()).refuse_all(status);
            let rule = Rule { internal, ..rule };
            // It leads to what is refused in each site: later rules do not see it then.
            let missing = Rule::at(place, scope).rewrite(HIDDEN);
            let own = cases.0.iter().map(|case| match is_missing(case) && status == 403 {
                true => limited(missing.clone(), case),
                false => limited(rule.clone(), case),
            });
            own.collect::<Result<Vec<_>, _>>()
        };
        // No rewrite before it may lead around it.
        match cases.and_then(refusals) {
            Ok(rules) => rules.into_iter().for_each(|rule| site.guard(rule)),
            Err(_) if let Some(rules) = self.wider(conditions, rewriting, site, &refusals) => {
                let reason = "one of its conditions is not translated, so more is refused";
                self.notes.refused(place, &line, reason);
                rules.into_iter().for_each(|rule| site.guard(rule));
            }
            Err(_) => {
                let reason = "its conditions are not translated, so all that it could refuse is \
                    refused";
                self.notes.refused(place, &line, reason);
                self.refuse_paths(directive, flags, rewriting, site);
            }
        }
    }

    /// What refuses if some conditions are left out, each of which lets through less.
    fn wider(
        &self,
        conditions: &[Directive],
        rewriting: &Rewriting,
        site: &Site,
        refusals: &dyn Fn(Cases) -> Result<Vec<Rule>, String>,
    ) -> Option<Vec<Rule>> {
        let mut kept: Vec<Directive> = Vec::new();
        let mut rules = None;
        for group in conditions_of::groups(conditions) {
            let more: Vec<Directive> = kept.iter().chain(group).cloned().collect();
            let cases = self.cases(&more, None, rewriting, site).and_then(refusals);
            if let Ok(own) = cases {
                (kept, rules) = (more, Some(own));
            }
        }
        rules
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
        site.guard(Rule::at(&directive.place, scope).refuse_all(status));
    }

    fn translated(
        &mut self,
        directive: &Directive,
        flags: &Flags,
        conditions: &[Directive],
        (known, cases): (&[Condition], Result<Cases, String>),
        rewriting: &mut Rewriting,
        site: &mut Site,
    ) -> Result<(), String> {
        let place = &directive.place;
        let to = directive.arg(1);
        let expression = directive.arg(0);
        let is_any = is_any(expression);
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
                let scope = Scope { pattern: Some("^/(.+)/$".into()), ..rewriting.scope.clone() };
                let rule = Rule { unless_file: true, ..Rule::at(place, scope) };
                let to = format!("{}/$1", self.prefix(site).unwrap_or_default());
                site.rules.push(rule.redirect(to, flags.redirect.unwrap_or(302)));
                return Ok(());
            }
            _ => {}
        }
        let mut cases = cases?;
        let (own_base, to) = of_own_folder(conditions, to, rewriting);
        if let Some(others) = own_base {
            cases = cases.and(&others).ok_or("too many conditions")?;
        }
        let to = &*to;
        let prefix = self.prefix(site);
        let target = target(expression, to, flags, rewriting, prefix.as_deref())?;
        if target.contains("%{") || target.contains("%1") || target.contains("%2") {
            return Err("variables of its target are not translated".into());
        }
        let is_url = target.starts_with("http://") || target.starts_with("https://");
        let status = flags.redirect.or(is_url.then_some(302));
        let target = match (status, &prefix) {
            (None, Some(mount)) => {
                let rest = target.strip_prefix(mount.as_str()).filter(|it| it.starts_with('/'));
                match (rest, &site.path) {
                    (Some(rest), _) => rest.to_owned(),
                    (None, Some(_)) => {
                        return Err("what is served instead lies outside of the folder".into());
                    }
                    // It is led there once more.
                    (None, None) => target,
                }
            }
            _ => target,
        };
        if let (None, Some((folder, _)), true) = (status, &rewriting.folder, target.contains('$'))
            && let Some(inner) = self.unseen.rewriting_below(&target, folder)
        {
            let reason = format!(
                "{inner} has rewrites of its own, which are not asked for what this leads to; if \
                 all of the site is there, make that folder its `root`"
            );
            self.notes.differs(place, &directive.line(), reason);
        }
        let plain = target.trim_start_matches('/');
        let is_script = plain.ends_with(".php") && !plain.contains(['$', '?', '%']);
        if is_script && status.is_none() {
            // The script itself is served anyway.
            for case in &mut cases.0 {
                case.retain(|test| match test {
                    Test::Found(Subject::Path, own, false) => {
                        let beside = format!("{}x", target.trim_end_matches(plain_name(&target)));
                        !pattern::is_in(own, &target) || pattern::is_in(own, &beside)
                    }
                    _ => true,
                });
            }
        }
        if known.contains(&Condition::NoFile) && !known.contains(&Condition::NoFolder) {
            // Folders are rewritten, too, and never listed.
            site.rules.push(Rule::at(place, rewriting.scope.clone()).list(false));
        }
        let is_missing = cases == Cases::of(Test::File(false)) || cases == conditions_of::no_file();
        // In front of services, which a front controller would leave alone.
        let is_before_services = rewriting.folder.is_none() && site.applications().next().is_some();
        if is_missing
            && is_any
            && is_of_site
            && is_script
            && status.is_none()
            && !is_before_services
        {
            site.front_controller = Some(plain.to_owned());
            site.front_controller_for = vec!["php", "hidden"];
            // Rules behind it are asked for files alone.
            rewriting.stops.push(cases);
            return Ok(());
        }
        let (scope, cases) = scope_of(directive, flags, &cases, rewriting)?;
        let rule = Rule::at(place, scope);
        let rule = match status {
            Some(status) => rule.redirect(target, status),
            None => rule.rewrite(target),
        };
        let rules: Result<Vec<_>, _> =
            cases.0.iter().map(|case| limited(rule.clone(), case)).collect();
        site.rules.extend(rules?);
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

/// The name of the file at a path.
fn plain_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The target of a rule that takes the path of its own folder from a condition, as `(.*/api)` in
/// `/api/`, with what must not be in a path so that it is this one.
fn of_own_folder(
    conditions: &[Directive],
    to: &str,
    rewriting: &Rewriting,
) -> (Option<Cases>, String) {
    let unchanged = (None, to.to_owned());
    let Some((folder, _)) = &rewriting.folder else { return unchanged };
    let Some(rest) = to.strip_prefix("%1/") else { return unchanged };
    let own = folder.trim_end_matches('/');
    let is_own = |it: &Directive| {
        let name = it.arg(1).strip_prefix("(.*/").and_then(|name| name.strip_suffix(')'));
        it.arg(0) == "%{REQUEST_URI}" && name.is_some_and(|name| own.ends_with(&format!("/{name}")))
    };
    match conditions.last() {
        Some(last) if is_own(last) => {
            let name = last.arg(1).trim_start_matches("(.*").trim_end_matches(')');
            let again = format!("^{}/.*{}", regex_lite::escape(own), regex_lite::escape(name));
            (Some(Cases::of(Test::Found(Subject::Path, again, false))), rest.to_owned())
        }
        _ => unchanged,
    }
}

/// Whether a case is for paths without a file, so that refusing these keeps nothing closed that is
/// there.
pub(super) fn is_missing(case: &Case) -> bool {
    case.contains(&Test::File(false))
}
