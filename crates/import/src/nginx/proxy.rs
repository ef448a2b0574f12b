//! Locations with `proxy_pass` as routes to an application of HTTP.
//!
//! A route is a path with all below it, while a location is what begins so, or one path alone. What
//! is between the two is refused, so that neither the site nor the service has more than in nginx.
//! Within the path of a route, other locations get routes of their own that give the site its
//! paths back.

use crate::directive::Directive;
use crate::model::{Route, Rule, Scope, Site, Upstream};
use crate::pattern;
use crate::service::{Beside, is_plain, stay_beside};
use crate::source::Place;

use super::block::Block;
use super::locations::{Location, Locations};
use super::matcher::{Match, describe};
use super::plan::Plan;
use super::reader::Reader;
use super::regions::Region;
use super::service::{self, Target};

const WITHIN: &str = "locations within one another are not looked at for it";

impl Reader<'_> {
    /// Translates a location with `proxy_pass`, or gives the reason why it is to be refused.
    pub(super) fn proxied(
        &mut self,
        (place, found, _): &Location,
        (block, outer): (&Block, &Block),
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) -> Result<(), String> {
        let Some(pass) = &block.proxy else { return Ok(()) };
        let path = route_path(found, locations)?;
        self.is_alone(block)?;
        let mut target = service::target(pass.arg(0))?;
        if let [step] = &block.steps[..] {
            target.path = Some(stripped(step, found, &target).ok_or(
                "beside it only a `rewrite` that takes the location's path away is translated",
            )?);
        }
        let upstream_path = self.replaced(place, found, &target)?;
        if site.routes.iter().any(|route| route.path == path) {
            return Err("another location is for the same path".to_owned());
        }
        let upstream = self.service(pass, &target, block, site)?;
        let upstream = (upstream, &*target.server);
        let refusals = self.access(place, &found.refused(), block, outer);
        let is_refused = refusals
            .iter()
            .any(|rule| *rule == Rule::at(&rule.place, rule.scope.clone()).refuse_all(403));
        self.precedence(place, found, &refusals, locations, &describe(found));
        site.rules.extend(refusals);
        if is_refused {
            return Ok(());
        }
        let scope = found.scope();
        site.rules.extend(self.limits(Some((found, locations)), &scope, block, outer));
        self.logging_of(place, found, locations, block, outer, site);
        let route = Route { place: place.clone(), path, upstream_path, ..Route::default() };
        self.route(route, upstream, (found, block), locations, site);
        plan.regions.push(Region::of(place, found, block));
        self.own_error_pages(block, outer);
        self.body_of(&scope, block, outer, site);
        Ok(())
    }

    /// Translates `try_files` that leads to a location `@name` with `proxy_pass`; says whether it
    /// is translated.
    pub(super) fn proxied_fallback(
        &mut self,
        directive: &Directive,
        found: &Match,
        locations: &Locations,
        site: &mut Site,
    ) -> bool {
        let Some((name, files)) = directive.args.split_last() else { return false };
        let named = self.named.iter().find(|(own, _)| name.strip_prefix('@') == Some(own));
        let Some((_, lines)) = named.cloned() else { return false };
        if !lines.iter().any(|line| line.name == "proxy_pass") {
            return false;
        }
        let place = &directive.place;
        let mut block = self.around.inherited();
        self.in_location = true;
        self.read(&lines, &mut block);
        self.in_location = false;
        match self.fallback_route(place, found, &block, files, locations, site) {
            Ok(()) => true,
            Err(problem) => {
                let reason = format!("{problem}; so the service is not asked");
                self.notes.left(place, &directive.line(), reason);
                false
            }
        }
    }

    fn fallback_route(
        &mut self,
        place: &Place,
        found: &Match,
        block: &Block,
        files: &[String],
        locations: &Locations,
        site: &mut Site,
    ) -> Result<(), String> {
        let pass = block.proxy.clone().ok_or("it is not translated")?;
        let path = route_path(found, locations)?;
        self.is_alone(block)?;
        if let Some((line, problem)) = block.closed.first() {
            return Err(format!("`{}`: {problem}", line.line()));
        }
        let around = &self.around;
        let limits_more =
            block.requests != around.requests || block.connections != around.connections;
        if !block.steps.is_empty() || !block.admits_as(around) || limits_more {
            return Err("the location of that name does more than ask a service".to_owned());
        }
        let target = service::target(pass.arg(0))?;
        if target.path.is_some() || site.routes.iter().any(|route| route.path == path) {
            return Err("another location is for the same path".to_owned());
        }
        let upstream = self.service(&pass, &target, block, site)?;
        let upstream = (upstream, &*target.server);
        if let Some(other) = files.iter().find(|file| !matches!(&***file, "$uri" | "/dev/null")) {
            let reason = "besides `$uri`, nothing is looked for before the service is asked";
            self.notes.left(place, other, reason);
        }
        if block.headers != self.around.headers || block.expires != self.around.expires {
            let reason = "header fields are those of the location that leads there";
            self.notes.left(&pass.place, "add_header, expires", reason);
        }
        let files = files.iter().any(|file| file == "$uri");
        let route = Route { place: place.clone(), path, files, ..Route::default() };
        self.route(route, upstream, (found, block), locations, site);
        Ok(())
    }

    /// Whether nothing beside `proxy_pass` answers in a location.
    fn is_alone(&self, block: &Block) -> Result<(), String> {
        let problem = if self.depth > 0 || !block.locations.is_empty() {
            WITHIN
        } else if block.fastcgi.is_some() || block.try_files.is_some() {
            "something else answers there, too"
        } else if block.is_internal {
            "applications name its paths"
        } else if block.steps.len() > 1 || block.steps.iter().any(|step| step.name != "rewrite") {
            "beside it no `if`, `return` or `set` is translated"
        } else {
            return Ok(());
        };
        Err(problem.to_owned())
    }

    /// What stands in place of the path of a route in requests to the service.
    fn replaced(
        &mut self,
        place: &Place,
        found: &Match,
        target: &Target,
    ) -> Result<Option<String>, String> {
        let (Match::Prefix(path, _) | Match::Exact(path), Some(own)) = (found, &target.path) else {
            return Ok(None);
        };
        if matches!(found, Match::Exact(_)) || path.ends_with('/') == own.ends_with('/') {
            return Ok(Some(own.clone()).filter(|own| own != path));
        }
        if path.ends_with('/') {
            return Err(format!(
                "nginx puts `{own}` in place of `{path}`, and so makes one part of two"
            ));
        }
        let reason = format!("nginx asks for `{own}/x` where the client asks for `{path}/x`");
        self.notes.differs(place, &describe(found), format!("{reason}; here one slash is left"));
        Ok(Some(own.clone()))
    }

    /// Adds a route, with what sets it apart from the rest of the site.
    fn route(
        &mut self,
        route: Route,
        (upstream, server): (Upstream, &str),
        (found, block): (&Match, &Block),
        locations: &Locations,
        site: &mut Site,
    ) {
        let (place, path) = (route.place.clone(), route.path.clone());
        let hidden = block.service_settings.iter().filter(|it| it.name == "proxy_hide_header");
        let hidden: Vec<String> = hidden.map(|it| it.arg(0).to_owned()).collect();
        if !hidden.is_empty() {
            let mut rule = Rule::at(&place, found.scope());
            rule.headers.remove = hidden;
            site.rules.push(rule);
        }
        self.between(&place, &path, found, locations, site);
        for location in locations.preferred(found) {
            self.kept(location, found, site);
        }
        let name = upstream.named(server, &mut self.description.upstreams);
        // An earlier location may have made a route without an upstream for the same path.
        site.routes.retain(|other| other.path != route.path);
        site.routes.push(Route { upstream: Some(name), ..route });
    }

    /// The paths that are of the route alone, or of the location alone.
    fn between(
        &mut self,
        place: &Place,
        path: &str,
        found: &Match,
        locations: &Locations,
        site: &mut Site,
    ) {
        let beside = match found {
            Match::Prefix(whole, _) if whole == "/" => Beside::Nothing,
            Match::Prefix(whole, _) if whole.ends_with('/') => {
                // nginx redirects to the slash, unless an exact location answers.
                if locations.all.iter().all(|(_, other, _)| *other != Match::Exact(path.to_owned()))
                {
                    let rule = Rule::at(place, Scope::pattern(pattern::exact(path)));
                    site.guard(rule.redirect(whole, 301));
                }
                Beside::Nothing
            }
            Match::Prefix(..) => Beside::Longer,
            _ => Beside::Below,
        };
        let except = match beside {
            Beside::Longer => locations.region(found).and,
            _ => Vec::new(),
        };
        if let Some(reason) = stay_beside(place, path, beside, except, site) {
            self.notes.differs(place, &describe(found), reason);
        }
    }

    /// Gives a location within the path of a route its paths back.
    fn kept(&mut self, (place, other, lines): &Location, found: &Match, site: &mut Site) {
        let refuses = |it: &Directive| {
            (it.name == "return" && it.arg(0) != "200") || (it.name == "deny" && it.arg(0) == "all")
        };
        if lines.iter().any(refuses) && lines.iter().all(|it| it.name != "allow") {
            return;
        }
        let path = match other {
            Match::Prefix(path, _) => Some(path),
            // A name without an extension may be a folder, of which a route takes all below.
            Match::Exact(path) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                Some(path).filter(|_| name.contains('.'))
            }
            Match::Pattern(_) => None,
        };
        let path = path.map(|path| path.trim_end_matches('/').to_owned());
        match path.filter(|path| is_plain(path) && !path.is_empty()) {
            // One with `proxy_pass` is a route of its own, or is refused.
            Some(_) if lines.iter().any(|line| line.name == "proxy_pass") => {}
            Some(path) if site.routes.iter().any(|route| route.path == path) => {}
            Some(path) => {
                site.routes.push(Route { place: place.clone(), path, ..Route::default() });
            }
            None => {
                let reason = format!(
                    "in nginx it comes before {}; here the service answers for its paths there",
                    describe(found)
                );
                self.notes.differs(place, &describe(other), reason);
            }
        }
    }
}

/// The path of a route for a location, or the reason why it is none.
fn route_path(found: &Match, locations: &Locations) -> Result<String, String> {
    let (path, is_exact) = match found {
        Match::Prefix(path, _) => (path, false),
        Match::Exact(path) => (path, true),
        Match::Pattern(_) => return Err("a route has a path, and no expression".to_owned()),
    };
    let plain = path.trim_end_matches('/');
    if !is_plain(plain) || (is_exact && path.ends_with('/')) {
        return Err("a route is for no such path".to_owned());
    }
    let is_other = |(_, other, lines): &Location| {
        // A location with `return` alone becomes a rule, and rules come before routes.
        let is_rule = matches!(&lines[..], [only] if only.name == "return");
        match other {
            // Two locations that differ in a slash at the end would be one route, and the route of
            // an exact location would take what is below it.
            Match::Prefix(other, _) if is_exact => other.starts_with(plain) && other != path,
            Match::Prefix(other, _) => other != path && other.trim_end_matches('/') == plain,
            Match::Exact(other) if is_exact => other.starts_with(&format!("{plain}/")),
            Match::Exact(other) => !plain.is_empty() && other == plain && !is_rule,
            Match::Pattern(_) => false,
        }
    };
    match plain.is_empty() || !locations.all.iter().any(is_other) {
        true => Ok(plain.to_owned()),
        false => Err("another location begins with the same path".to_owned()),
    }
}

/// What `rewrite ^/path/(.*)$ /other/$1 break` puts in place of the path of its location.
fn stripped(step: &Directive, found: &Match, target: &Target) -> Option<String> {
    let Match::Prefix(path, _) = found else { return None };
    let (expression, to) = (step.arg(0), step.arg(1));
    let own = expression.strip_prefix('^')?;
    let own = own.strip_suffix("(.*)$").or_else(|| own.strip_suffix("(.*)"))?;
    let to = to.strip_suffix("$1")?;
    let is_plain = to.starts_with('/') && !to.contains(['$', '?', '#']);
    let is_whole = path.ends_with('/') && to.ends_with('/');
    (own == path && is_plain && is_whole && step.arg(2) == "break" && target.path.is_none())
        .then(|| to.to_owned())
}
