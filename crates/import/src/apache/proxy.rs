//! `ProxyPass` and its like as routes to services of HTTP.
//!
//! Apache asks the first line that begins a path, and a section `<Location>` before all others; of
//! routes the longest one counts. What a service has is looked for before any folder, so sections
//! of folders and files, and redirects, are not for it.

use std::collections::BTreeMap;

use crate::condition::{Cases, Subject, Test};
use crate::directive::Directive;
use crate::model::{Route, Scope, Site};
use crate::pattern;
use crate::service::{self, Beside};
use crate::source::Place;

use super::Reader;
use super::alias;
use super::area::Area;
use super::condition::no_file;
use super::flags::Flags;
use super::lines::is_of_path;
use super::rewriting::{Rewriting, expression_of};
use super::service::Target;
use super::unseen::hands_scripts;

/// What leads to services in the site that is read.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// The lines that are done, one way or the other.
    pub done: Vec<Place>,
    /// The members of `balancer://` by its name, and what is set of each.
    pub balancers: BTreeMap<String, Vec<Directive>>,
    /// The directives around the site, and its own.
    pub around: Vec<Directive>,
    /// The paths of routes, with the URLs that they lead to.
    pub urls: Vec<(String, String)>,
}

/// A line that leads a path to a service.
struct Pass<'a> {
    directive: &'a Directive,
    path: &'a str,
    url: &'a str,
    /// What is set of the service.
    parameters: &'a [String],
    area: Area,
}

impl Reader<'_> {
    /// Makes routes of the lines that lead to services.
    pub(super) fn services(&mut self, around: &[Directive], own: &[Directive], site: &mut Site) {
        let all: Vec<Directive> = around.iter().chain(own).cloned().collect();
        self.services = Services {
            balancers: super::service::balancers(&all),
            around: all,
            ..Services::default()
        };
        for pass in passes(around, own) {
            self.services.done.push(pass.directive.place.clone());
            if let Err(problem) = self.pass(&pass, site) {
                let reason = format!("{problem}; these paths are refused instead");
                self.elsewhere(pass.directive, &pass.area, &reason, site);
            }
        }
    }

    fn pass(&mut self, pass: &Pass, site: &mut Site) -> Result<(), String> {
        let Pass { directive, parameters, .. } = pass;
        let place = &directive.place;
        let (path, url) = match (&*directive.name, pass.url) {
            ("proxypassmatch", "!") => return self.kept_by_expression(pass, site),
            ("proxypassmatch", _) => {
                alias::folder(pass.path, pass.url).ok_or("a route has a path, and no expression")?
            }
            _ => (pass.path.to_owned(), pass.url.to_owned()),
        };
        let own = path.trim_end_matches('/');
        if !service::is_plain(own) {
            return Err("a route is for no such path".to_owned());
        }
        let is_taken = |other: &Route| {
            let other = Route { path: other.path.clone(), ..Route::default() };
            other.has(own)
        };
        if let Some(other) = site.routes.iter().find(|other| is_taken(other)) {
            let reason = format!("{} has these paths before", other.place);
            self.notes.left(place, &directive.line(), reason);
            return Ok(());
        }
        let route = Route { place: place.clone(), path: own.to_owned(), ..Route::default() };
        if url == "!" {
            service::add(route, site);
            return Ok(());
        }
        self.beside_folders(place, own, site)?;
        let target = Target::of(&url, &self.services.balancers)?;
        let upstream_path = self.replaced(place, &directive.line(), &path, &target.path)?;
        let upstream = self.upstream(directive, &target, parameters, own)?;
        let name = upstream.named(&target.server, &mut self.description.upstreams);
        service::add(Route { upstream: Some(name), upstream_path, ..route }, site);
        self.services.urls.push((own.to_owned(), url));
        let beside = match path.len() > 1 && path.ends_with('/') {
            true => Beside::Itself,
            false => Beside::Nothing,
        };
        service::stay_beside(place, own, beside, Vec::new(), site);
        Ok(())
    }

    /// Paths of an expression that are led to no service.
    fn kept_by_expression(&mut self, pass: &Pass, site: &mut Site) -> Result<(), String> {
        let expression = pass.path.strip_prefix('^').unwrap_or_default();
        let (path, rest) = pattern::literal(expression);
        let is_folder = path.ends_with('/') && matches!(rest, "" | ".*" | ".*$" | "(.*)" | "(.*)$")
            || matches!(rest, "(/|$)" | "(?:/|$)" | "(/.*)?$");
        let path = path.trim_end_matches('/').to_owned();
        if !is_folder || !service::is_plain(&path) {
            return Err("which paths no service has is not said by an expression".to_owned());
        }
        let place = pass.directive.place.clone();
        service::add(Route { place, path, ..Route::default() }, site);
        Ok(())
    }

    /// What stands in place of the path of a route in requests to the service.
    fn replaced(
        &mut self,
        place: &Place,
        line: &str,
        path: &str,
        own: &str,
    ) -> Result<Option<String>, String> {
        if path.ends_with('/') && !own.ends_with('/') {
            return Err(format!(
                "Apache puts `{own}` in place of `{path}`, and so makes one part of two; end both \
                    with a slash"
            ));
        }
        if !path.ends_with('/') && !path.is_empty() && own.ends_with('/') {
            let reason = format!(
                "Apache asks for `{own}/x` where the client asks for `{path}/x`; here one slash is \
                    left"
            );
            self.notes.differs(place, line, reason);
        }
        let own = if own.is_empty() { "/" } else { own };
        let is_same = own == path || (path.is_empty() && own == "/");
        Ok(Some(own.to_owned()).filter(|_| !is_same))
    }

    /// Leaves out folders that lie elsewhere where a service has their paths before. What is led to
    /// a service from within such a folder is refused: it would be a route of another site.
    fn beside_folders(&mut self, place: &Place, path: &str, site: &mut Site) -> Result<(), String> {
        let own = Route { path: path.to_owned(), ..Route::default() };
        let kept: Vec<Route> =
            site.routes.iter().filter(|it| it.upstream.is_none()).cloned().collect();
        let mut hidden = Vec::new();
        for mount in &site.mounts {
            let mounted = mount.path.clone().unwrap_or_default();
            let around = Route { path: mounted.clone(), ..Route::default() };
            match own.has(&mounted) {
                true if kept.iter().any(|it| it.has(&mounted)) => {}
                true => hidden.push(mounted),
                false if around.has(path) => {
                    return Err(format!("it lies within {mounted}, which is a folder elsewhere"));
                }
                false => {}
            }
        }
        let is_hidden =
            |mount: &mut Site| mount.path.as_ref().is_some_and(|path| hidden.contains(path));
        for mount in site.mounts.extract_if(.., is_hidden) {
            let reason = format!("{place} leads its paths to a service");
            self.notes.left(&mount.place, mount.path.as_deref().unwrap_or_default(), reason);
        }
        Ok(())
    }

    /// A `RewriteRule` that leads to a service.
    pub(super) fn led_to_service(
        &mut self,
        directive: &Directive,
        flags: &Flags,
        cases: &Result<Cases, String>,
        rewriting: &mut Rewriting,
        site: &mut Site,
    ) -> Result<(), String> {
        let (place, line) = (&directive.place, directive.line());
        if flags.is_unknown || flags.chains || flags.drops_query || flags.ignores_case {
            return Err("a route has none of these flags".to_owned());
        }
        if self.prefix(site).is_some() || !rewriting.scope.is_all() {
            return Err("only what is for all of a site is translated".to_owned());
        }
        let is_of_folder = rewriting.folder.is_some();
        if is_of_folder && (!self.unseen.below("/").is_empty() || !self.services.urls.is_empty()) {
            return Err("other paths are led elsewhere beside it".to_owned());
        }
        let cases = cases.as_ref().map_err(Clone::clone)?;
        let is_missing = *cases == Cases::of(Test::File(false)) || *cases == no_file();
        if !is_missing && *cases != Cases::all() {
            return Err("a route has no such conditions".to_owned());
        }
        let expression = match &*expression_of(directive, flags, rewriting)? {
            "^(.*)$" => "^(/.*)?$".to_owned(),
            expression => expression.replace("^/?", "^/"),
        };
        let (path, url) = alias::folder(&expression, directive.arg(1))
            .or_else(|| whole_path(&expression, directive.arg(1)))
            .ok_or("a route has a path, and no expression")?;
        let own = path.trim_end_matches('/');
        let route = Route { place: place.clone(), path: own.to_owned(), ..Route::default() };
        let is_beside = |other: &Route| {
            let other_route = Route { path: other.path.clone(), ..Route::default() };
            other.upstream.is_some() && (route.has(&other.path) || other_route.has(own))
        };
        if !service::is_plain(own) || site.routes.iter().any(is_beside) {
            return Err("a route is for no such path, or another one has it".to_owned());
        }
        self.beside_folders(place, own, site)?;
        let target = Target::of(&url, &self.services.balancers)?;
        let upstream_path = self.replaced(place, &line, &path, &target.path)?;
        let upstream = self.upstream(directive, &target, &[], own)?;
        let name = upstream.named(&target.server, &mut self.description.upstreams);
        site.routes.retain(|other| other.path != own);
        let route = Route { upstream: Some(name), upstream_path, files: is_missing, ..route };
        site.routes.push(route);
        if !is_of_folder {
            self.services.urls.push((own.to_owned(), url));
        }
        let found = match path.is_empty() || path == "/" {
            true => "^".to_owned(),
            false => format!("^{}(?:/|$)", regex_lite::escape(own)),
        };
        let led = Cases::of(Test::Found(Subject::Path, found, true));
        rewriting.stops.extend(led.and(cases));
        Ok(())
    }

    /// `<Proxy>`: what holds for all that is led to the services of a URL.
    pub(super) fn of_services(&mut self, section: &Directive, site: &mut Site) {
        let url = section.arg(0);
        let is_own = |it: &Directive| matches!(&*it.name, "balancermember" | "proxyset");
        let inner: Vec<Directive> =
            section.inner().iter().filter(|it| !is_own(it)).cloned().collect();
        let is_of = |own: &str| {
            let plain = url.trim_end_matches('*');
            own.starts_with(plain) || plain.is_empty()
        };
        let urls = self.services.urls.clone();
        for (path, _) in urls.iter().filter(|(_, own)| is_of(own)) {
            let scope = match path.is_empty() {
                true => Scope::default(),
                false => Scope::path(path),
            };
            self.directives(&inner, &Area { scope, folder: None }, site);
        }
    }

    /// Whether services answer a part of a site without regard to its files and folders.
    pub(super) fn has_services(&self, site: &Site) -> bool {
        !self.services.urls.is_empty() && site.path.is_none()
    }

    /// Does what is of files and folders, which Apache does not ask for the paths of services.
    pub(super) fn beside_services(
        &mut self,
        site: &mut Site,
        act: impl FnOnce(&mut Self, &mut Site),
    ) {
        if !self.has_services(site) {
            return act(self, site);
        }
        let before = site.rules.clone();
        act(self, site);
        let new = site.rules.iter_mut().filter(|rule| !before.contains(rule));
        new.for_each(|rule| rule.is_of_files = true);
    }

    /// Sets the routes of a site apart from its scripts.
    pub(super) fn leave_out_services(&self, site: &mut Site) {
        let is_all = site.applications().any(str::is_empty);
        let is_kept = site.routes.iter().any(|route| route.upstream.is_none());
        let has_php = site.root.is_some() && (!is_all || is_kept);
        service::leave_out(has_php, site);
    }

    /// `ProxyPassReverse`: what services say of other places is passed on as it is.
    pub(super) fn redirected_by_service(
        &mut self,
        directive: &Directive,
        area: &Area,
        site: &Site,
    ) {
        let path = match &directive.args[..] {
            [path, _, ..] => path.trim_end_matches('/').to_owned(),
            _ => area.scope.path.clone().unwrap_or_default(),
        };
        let mut upstreams = self.description.upstreams.iter();
        let of_path = |route: &&Route| route.path == path && route.upstream.is_some();
        let Some(route) = site.routes.iter().find(of_path) else { return };
        let upstream = upstreams.find(|it| Some(&it.name) == route.upstream.as_ref());
        if upstream.is_some_and(|it| it.host.is_none()) && route.upstream_path.is_none() {
            return;
        }
        let reason = "where a service redirects to is passed on as it is: without `host` of its \
            [[upstream]] it names the client's host itself";
        self.notes.left(&directive.place, &directive.line(), reason);
    }

    /// `RequestHeader` of a site in which services are told it.
    pub(super) fn told(&mut self, directive: &Directive, area: &Area, site: &Site) {
        let (place, line) = (&directive.place, directive.line());
        let is_all = site.applications().any(str::is_empty);
        if area.folder.is_some() || !self.services.done.contains(place) {
            let reason = "what requests carry is changed for services alone; see `headers` of \
                [[upstream]]";
            self.notes.left(place, &line, reason);
        } else if !is_all && area.scope.is_all() && site.root.is_some() {
            let reason = "services alone are told it; PHP gets what the client sends";
            self.notes.differs(place, &line, reason);
        }
    }
}

/// The path and the URL of a rule whose target names the whole path by a variable.
fn whole_path(expression: &str, to: &str) -> Option<(String, String)> {
    let start = to.strip_suffix("%{REQUEST_URI}").filter(|it| it.contains("://"))?;
    let start = start.strip_suffix('/').unwrap_or(start);
    let host = start.split_once("://").map(|(_, host)| host)?;
    let whole = ["^", ".", ".*", "^.*$", "^.*", "^(.*)$", "(.*)", "^/", "^/.*$", "^/(.*)$", "^/.*"];
    if host.contains(['/', '|']) {
        return None;
    }
    if whole.contains(&expression) {
        return Some(("/".to_owned(), format!("{start}/")));
    }
    let plain = expression.strip_prefix('^')?;
    let ends = ["(/.*)?$", "(/|$)", "(?:/|$)", "(.*)$", "(.*)", ".*$", ".*", ""];
    let plain = ends.iter().find_map(|end| plain.strip_suffix(end))?;
    let (path, "") = pattern::literal(plain) else { return None };
    let is_whole = path.ends_with('/') || expression.ends_with("/|$)") || expression.contains("(/");
    (is_whole && path.len() > 1).then(|| (path.clone(), format!("{start}{path}")))
}

/// The lines that lead to services, in the order in which Apache asks them.
fn passes<'a>(around: &'a [Directive], own: &'a [Directive]) -> Vec<Pass<'a>> {
    let is_pass =
        |it: &&Directive| matches!(&*it.name, "proxypass" | "proxypassmatch") && !hands_scripts(it);
    let sections = around.iter().chain(own).filter(|it| is_of_path(it));
    let mut all: Vec<Pass> = sections
        .flat_map(|section| {
            let path = section.arg(0);
            let plain = path.trim_end_matches('/');
            let scope = match plain.is_empty() {
                true => Scope::default(),
                false => Scope::path(plain),
            };
            let area = Area { scope, folder: None };
            section.inner().iter().filter(is_pass).map(move |directive| Pass {
                directive,
                path,
                url: directive.arg(0),
                parameters: directive.args.get(1..).unwrap_or_default(),
                area: area.clone(),
            })
        })
        // An expression has no groups in a section of one path.
        .filter(|pass| pass.directive.name == "proxypass" && !pass.url.starts_with('/'))
        .collect();
    // The last section that fits is the one that counts.
    all.reverse();
    all.extend(own.iter().chain(around).filter(is_pass).map(|directive| Pass {
        directive,
        path: directive.arg(0),
        url: directive.arg(1),
        parameters: directive.args.get(2..).unwrap_or_default(),
        area: Area::server(),
    }));
    all
}
