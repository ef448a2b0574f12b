//! One `server` block as a site.

use crate::directive::Directive;
use crate::model::{Action, Listen, Rule, Scope, Serve, Site};
use crate::pattern::BEHIND;
use crate::service;
use crate::source::Place;
use crate::validity;

use super::block::{Block, default_index};
use super::constants::Values;
use super::locations::Locations;
use super::matcher::{Match, describe};
use super::php::Scripts;
use super::plan::Plan;
use super::reader::Reader;
use super::steps::End;
use super::{logs, path_info, regions, sizes};

impl Reader<'_> {
    pub(super) fn server(&mut self, place: &Place, directives: &[Directive], outer: &Block) {
        let constants = self.maps.iter().map(|(name, map)| (name.clone(), map.constant()));
        let constants = constants.filter_map(|(name, value)| Some((name, value?.clone())));
        let constants: Values = constants.collect();
        let directives = &self.substituted(directives, &constants);
        self.flags.clear();
        self.path_infos.clear();
        self.named.clear();
        let mut block = outer.inherited();
        self.read(directives, &mut block);
        block.resolve_missing();
        self.stays_missing(&block);
        // A server that only redirects has no use for timeouts, so its own do not count.
        if block.steps.iter().all(|step| step.name != "return") {
            self.waits.push(block.timeouts.clone());
        }
        self.captures = block.steps.iter().any(|it| matches!(&*it.name, "if" | "rewrite"));
        let mut site = Site::new(place.clone());
        site.body = Some(block.body.as_ref().map_or(sizes::BODY, |body| body.most));
        let log = block.access_log.as_ref().filter(|own| outer.access_log.as_ref() != Some(own));
        site.access_log = log.cloned();
        self.listen(&block, &mut site);
        if site.listen.is_empty() {
            let reason = "it has no address that is translated, so the site is left out";
            self.notes.refused(place, "", reason);
            return;
        }
        self.names(place, &block, &mut site);
        if site.hosts.is_empty() && !block.names.is_empty() && !is_unnamed(&block.names) {
            let reason = "none of its names is translated, so the site is left out";
            self.notes.refused(place, &block.names.join(" "), reason);
            return;
        }
        let locations = self.locations(&block.locations);
        site.root =
            block.root.clone().or_else(|| locations.root.clone().map(|it| self.folder(&it)));
        let index = locations.index.clone().or_else(|| block.index.clone());
        site.index = Some(index.unwrap_or_else(default_index));
        site.index_listing = block.index_listing;
        site.charset = block.charset.clone();
        site.certificate = block.certificate.clone();
        site.key = block.key.clone();
        for (status, (_, page)) in &block.error_pages {
            site.error_pages.insert(status.clone(), page.clone());
        }
        let everything = Scope::default();
        for (directive, reason) in &block.closed {
            let reason = format!("{reason}; the whole site is refused instead");
            self.notes.refused(&directive.place, &directive.line(), reason);
            site.refuse(place);
        }
        if self.steps(&block.steps, &everything, false, &mut site) == End::Answered {
            // A server that only answers gets no bodies, so it has no limit of its own.
            site.body = None;
            // All of its names may have become sites that redirect.
            let is_left = !site.hosts.is_empty() || block.names.is_empty() || site.is_default;
            if is_left || site.moved.is_some() || is_unnamed(&block.names) {
                self.description.sites.push(site);
            }
            return;
        }
        let moved: Vec<Scope> =
            site.rules.iter().filter(moves_all).map(|it| it.scope.clone()).collect();
        let refusals = self.access(place, &everything, &block, &Block::default());
        site.rules.extend(refusals);
        site.rules.extend(self.limits(None, &everything, &block, &Block::default()));
        site.rules.extend(regions::hidden_headers(place, &block));
        // Without any log, the server's own is off.
        if block.is_unlogged && self.has_log {
            site.rules.push(logs::unlogged(place, Scope::default()));
        }
        self.around = block.clone();
        let mut plan = Plan::default();
        self.all_locations(&locations, &block, &mut site, &mut plan);
        site.owns_headers = true;
        regions::write_headers(place, &plan.regions, &moved, &block, &mut site);
        match site.moved {
            None => {
                self.conclude(place, plan, &mut site);
                self.reached_otherwise(&mut site);
                self.order_bodies(&block, &mut site);
            }
            Some(_) => {
                let main = Match::Prefix("/".to_owned(), false);
                for (place, found, _) in locations.all.iter().filter(|it| it.1 != main) {
                    let reason = "all of the site is redirected, also these paths";
                    self.notes.left(place, &describe(found), reason);
                }
            }
        }
        self.description.sites.push(site);
    }

    fn listen(&mut self, block: &Block, site: &mut Site) {
        for directive in &block.listen {
            let flags = &directive.args[1.min(directive.args.len())..];
            let has = |flag: &str| flags.iter().any(|own| own == flag);
            if has("quic") {
                self.notes.left(&directive.place, &directive.line(), "HTTP/3 is not spoken");
                continue;
            }
            let Some(address) = address(directive.arg(0)) else {
                let reason =
                    "only addresses and ports are translated; the site is not served there";
                self.notes.left(&directive.place, &directive.line(), reason);
                continue;
            };
            if has("default_server") || has("default") {
                site.is_default = true;
                site.default_on.push(address.clone());
            }
            let (tls, proxy_protocol) = (has("ssl"), has("proxy_protocol"));
            site.listen.push(Listen { address, tls, proxy_protocol });
        }
        if block.listen.is_empty() {
            let (address, tls, proxy_protocol) = (":80".to_owned(), false, false);
            site.listen.push(Listen { address, tls, proxy_protocol });
        }
    }

    fn names(&mut self, place: &Place, block: &Block, site: &mut Site) {
        for name in &block.names {
            let names = match name.strip_prefix('.') {
                Some(plain) => vec![plain.to_owned(), format!("*.{plain}")],
                None => vec![name.clone()],
            };
            for name in names {
                match validity::host(&name) {
                    Some(host) if host != "_" => {
                        if !site.hosts.contains(&host) {
                            site.hosts.push(host);
                        }
                    }
                    _ if matches!(&*name, "_" | "" | "\"\"") => {}
                    _ => {
                        let reason = "no name that is translated: only names, and `*.name`";
                        self.notes.left(place, &name, reason);
                    }
                }
            }
        }
    }

    /// Writes the rules that depend on all locations together.
    pub(super) fn conclude(&mut self, place: &Place, mut plan: Plan, site: &mut Site) {
        let has_php = !plan.php.is_empty();
        if plan.php.is_empty() {
            // nginx sends scripts as text where nothing runs them; here they are refused.
            site.rules.push(Rule::at(place, Scope::default()).serve(Serve::Files));
        } else if site.front_controller.is_none() && plan.fallback.is_empty() {
            site.rules.push(Rule::at(place, Scope::default()).serve(Serve::Existing));
        }
        self.which_scripts(place, &plan.php, site);
        let path_infos = std::mem::take(&mut plan.path_infos);
        path_info::hand_on(&path_infos, &mut plan, site);
        let is_everywhere = |it: &Scripts| it.has_path_info && it.are_all();
        if !plan.php.is_empty() && !plan.php.iter().any(is_everywhere) {
            self.no_path_info(place, &mut plan, site);
        }
        self.missing_scripts(place, &mut plan, site);
        if plan.php.iter().any(|scripts| scripts.has_path_info) {
            let behind = plan.files.iter();
            site.rules
                .extend(behind.map(|(place, it)| Rule::at(place, it.clone()).refuse_all(404)));
        }
        for (place, scope) in &plan.internal {
            let rule = Rule::at(place, scope.clone()).refuse_all(404);
            site.rules.push(Rule { internal: true, ..rule });
        }
        self.intercepts(&plan.intercepts, site);
        site.rules.extend(plan.fallback);
        folders_of_script(site);
        listings(&plan.listings, site);
        service::leave_out(has_php, site);
    }

    /// Writes which scripts run: those that at least one location runs.
    fn which_scripts(&self, place: &Place, php: &[Scripts], site: &mut Site) {
        if php.is_empty() || php.iter().any(Scripts::are_all) {
            return;
        }
        let mut rule = Rule::at(place, Scope::default());
        if php.iter().all(|scripts| scripts.expression.is_none()) {
            rule.scripts = php.iter().flat_map(|scripts| scripts.names.clone()).collect();
        } else {
            // Paths with more behind the name of a script have a rule of their own.
            rule.scope = Scope::pattern("\\.php$");
            rule.scope.and = php.iter().flat_map(Scripts::elsewhere).collect();
            rule = rule.refuse_all(403);
            rule.is_of_scripts = true;
        }
        site.rules.push(rule);
    }

    /// Whether the front controller answers for names of scripts that are not there: only if no
    /// location takes them, and then also for hidden ones.
    fn missing_scripts(&mut self, place: &Place, plan: &mut Plan, site: &mut Site) {
        if site.front_controller.is_none() || site.front_controller_for.contains(&"php") {
            return;
        }
        match plan.rest.as_ref().is_some_and(|rest| rest.fits("/none/of/these.php")) {
            true => {
                site.front_controller_for.push("php");
                // Those that a location runs are 404 there.
                let names = plan.php.iter().flat_map(|scripts| &scripts.names);
                let below = names.map(|name| {
                    let pattern = name.ends_with('*').then(|| "\\.php$".to_owned());
                    let scope = Scope { pattern, ..Scope::path(name.clone()) };
                    Rule::at(place, scope.clone()).serve(Serve::Existing)
                });
                plan.fallback.extend(below);
            }
            false => {
                let hidden = Scope::pattern("/\\..*\\.php$");
                plan.fallback.push(Rule::at(place, hidden.clone()).serve(Serve::Existing));
                // Also those whose names are in upper case, if an expression is for them.
                if plan.rest.as_ref().is_some_and(|rest| !rest.fits("/none/of/these.PHP")) {
                    let upper = Scope::pattern("(?i)\\.php$");
                    plan.fallback.push(Rule::at(place, upper.clone()).serve(Serve::Existing));
                }
            }
        }
    }

    /// A path with more behind a script's name, where no location runs that, is no script for
    /// nginx, but an ordinary path that does not exist.
    fn no_path_info(&mut self, place: &Place, plan: &mut Plan, site: &Site) {
        let runs = plan.php.iter().filter(|scripts| scripts.has_path_info);
        let elsewhere: Vec<String> = runs.flat_map(Scripts::elsewhere).collect();
        if let Some(script) = &site.front_controller {
            let rest = plan.rest.clone().unwrap_or_default();
            let and = rest.and.iter().chain(&elsewhere).cloned().collect();
            let scope = Scope { pattern: Some(BEHIND.to_owned()), and, ..rest };
            plan.fallback.push(Rule::at(place, scope).rewrite(format!("/{script}")));
        }
        let is_fallback =
            |rule: &&Rule| rule.unless_file && matches!(rule.action, Some(Action::Rewrite(_)));
        let fallbacks = site.rules.iter().chain(&plan.fallback).filter(is_fallback);
        let behind = fallbacks.map(|rule| {
            let mut rule = Rule { unless_file: false, folders_are_files: true, ..rule.clone() };
            rule.scope.and.push(BEHIND.to_owned());
            rule.scope.and.extend(elsewhere.iter().cloned());
            rule
        });
        let behind: Vec<Rule> = behind.collect();
        plan.fallback.extend(behind);
        let behind = Scope { and: elsewhere, ..Scope::pattern(BEHIND) };
        let behind = Rule::at(place, behind).refuse_all(404);
        plan.fallback.push(Rule { is_of_scripts: true, ..behind });
    }

    /// Whether error pages replace what scripts answer, which is so for all of a site or for none.
    fn intercepts(&mut self, locations: &[(Place, bool)], site: &mut Site) {
        let mut some = locations.iter().filter(|(_, intercepts)| *intercepts);
        site.intercept_errors = locations.iter().all(|(_, intercepts)| *intercepts);
        if let Some((place, _)) = some.next().filter(|_| !site.intercept_errors) {
            let reason = "other scripts of the site answer with their own pages, and one setting is \
                for all; see `intercept_errors`";
            self.notes.left(place, "fastcgi_intercept_errors on", reason);
        }
    }

    fn all_locations(
        &mut self,
        locations: &Locations,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let mut is_before_php = true;
        for location in &locations.all {
            self.location(location, block, locations, is_before_php, site, plan);
            is_before_php &= !location.1.runs_scripts();
        }
        // Without `location /`, what answers for missing paths is for all that no location takes.
        // With one, nginx does not ask `try_files` of the server.
        if plan.rest.is_none()
            && let Some(directive) = block.try_files.as_ref().or(block.missing.as_ref())
        {
            let main = Match::Prefix("/".to_owned(), false);
            let rest = locations.region(&main);
            plan.rest = Some(rest.clone());
            self.try_files(directive, &main, &rest, locations, site, plan);
        }
    }
}

/// The script that `index` names last, by its whole path, answers for folders without an index file
/// if it is that of paths without a file.
fn folders_of_script(site: &mut Site) {
    let last = site.index.as_ref().and_then(|index| index.last());
    let Some((script, _)) = last.and_then(|last| last.strip_prefix('/')?.split_once(".php")) else {
        return;
    };
    let script = format!("{script}.php");
    let leads_there = |rule: &Rule| match &rule.action {
        Some(Action::Rewrite(to)) => {
            let rest = to.strip_prefix('/').and_then(|to| to.strip_prefix(&*script));
            rule.unless_file && rest.is_some_and(|it| it.is_empty() || it.starts_with(['/', '?']))
        }
        _ => false,
    };
    let answers = site.front_controller.as_ref() == Some(&script);
    if answers || (site.front_controller.is_none() && site.rules.iter().any(leads_there)) {
        site.front_controller = Some(script);
        site.index.as_mut().and_then(Vec::pop);
    }
}

/// Says where folders are listed. Rules add up, so each location that does not list them says so if
/// it lies within one that does.
fn listings(listings: &[(Place, Scope, bool)], site: &mut Site) {
    let is_everywhere = site.index_listing;
    for (at, (place, scope, lists)) in listings.iter().enumerate() {
        let is_within = |other: &(Place, Scope, bool)| other.2 && other.1.may_overlap(scope);
        let is_needed = match lists {
            true => !is_everywhere,
            // No folder has an extension, for its path ends with a slash.
            false => {
                scope.extensions().is_none()
                    && (is_everywhere || listings[at..].iter().any(is_within))
            }
        };
        if !is_needed {
        } else if *lists && scope.is_all() {
            site.index_listing = true;
        } else {
            site.rules.push(Rule::at(place, scope.clone()).list(*lists));
        }
    }
}

/// Whether a rule redirects its paths, whatever else a request has.
fn moves_all(rule: &&Rule) -> bool {
    let is_redirect = matches!(rule.action, Some(Action::Redirect { .. }));
    is_redirect && !rule.if_file && !rule.unless_file && rule.conditions.is_empty()
}

/// Whether the names of a server are none, as in `server_name _`.
fn is_unnamed(names: &[String]) -> bool {
    names.iter().all(|name| matches!(&**name, "_" | "" | "\"\""))
}

/// An address of `listen` as that of `tokamak.toml`.
fn address(text: &str) -> Option<String> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!(":{port}"));
    }
    if let Some(port) = text.strip_prefix("*:") {
        return port.parse::<u16>().ok().map(|port| format!(":{port}"));
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return port.parse::<u16>().ok().map(|port| format!("127.0.0.1:{port}"));
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(match address.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => format!(":{}", address.port()),
            _ => address.to_string(),
        });
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().ok()?;
    Some(std::net::SocketAddr::new(ip, 80).to_string())
}
