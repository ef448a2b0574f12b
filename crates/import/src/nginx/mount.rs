//! Locations whose folder is not below the root: sites that are mounted.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::source::Place;
use crate::within::{Within, expression_behind};

use super::block::{Block, default_index};
use super::locations::{Location, Locations, sends_or_refuses};
use super::matcher::{Match, describe};
use super::plan::Plan;
use super::reader::Reader;
use super::{logs, regions, sizes};

impl Reader<'_> {
    /// A location whose folder is not below the root: a site that is mounted.
    ///
    /// Others take the paths that nginx gives to other locations.
    pub(super) fn mount<'a>(
        &mut self,
        place: &Place,
        (path, folder): (&str, String),
        block: &Block,
        outer: &Block,
        others: impl Iterator<Item = &'a Location>,
        site: &mut Site,
    ) {
        let is_longer = path.ends_with('/');
        let path = path.trim_end_matches('/');
        if !is_longer {
            // nginx looks for these beside the folder.
            let beside = Scope::pattern(format!("^{}[^/]", regex_lite::escape(path)));
            site.rules.push(Rule::at(place, beside).refuse_all(404));
        }
        let mut mount = Site::new(place.clone());
        mount.path = Some(path.to_owned());
        mount.root = Some(folder);
        mount.index = Some(block.index.clone().unwrap_or_else(default_index));
        mount.index_listing = block.index_listing;
        mount.charset = block.charset.clone();
        mount.body = Some(block.body.as_ref().map_or(sizes::BODY, |body| body.most));
        if block.is_unlogged && !outer.is_unlogged {
            mount.rules.push(logs::unlogged(place, Scope::default()));
        }
        let refusals = self.access(place, &Scope::default(), block, outer);
        mount.rules.extend(refusals);
        self.depth += 1;
        let around = Match::Prefix("/".to_owned(), false);
        let none = Locations::default();
        let limits = self.limits(Some((&around, &none)), &Scope::default(), block, outer);
        mount.rules.extend(limits);
        mount.owns_headers = block.headers != outer.headers || block.expires != outer.expires;
        if !block.steps.is_empty() || block.fastcgi.is_some() {
            let step = block.steps.first().or(block.fastcgi.as_ref()).map(Directive::line);
            let reason = "not translated in a folder that lies elsewhere; all of it is refused";
            self.notes.refused(place, &step.unwrap_or_default(), reason);
            mount.refuse(place);
        }
        let mut inner = self.locations(&block.locations);
        inner.all.retain_mut(|(place, found, _)| {
            let within = match &*found {
                Match::Exact(own) => behind(own, path).map(Match::Exact),
                Match::Prefix(own, is_final) => {
                    behind(own, path).map(|own| Match::Prefix(own, *is_final))
                }
                Match::Pattern(own) => match expression_behind(own, path) {
                    Within::At(own) => Some(Match::Pattern(own)),
                    _ => None,
                },
            };
            if within.is_none() {
                let reason = "not translated in a folder that lies elsewhere; all of it is refused";
                self.notes.refused(place, &describe(found), reason);
                mount.refuse(place);
            }
            within.map(|within| *found = within).is_some()
        });
        for (place, other, directives) in others {
            self.elsewhere(place, other, directives, path, &inner, &mut mount);
        }
        let mut plan = Plan::default();
        let around = Block { root: mount.root.clone(), alias: None, ..block.clone() };
        if let Some(directive) = &block.try_files {
            let found = Match::Prefix("/".to_owned(), false);
            let mut directive = directive.clone();
            if let Some(last) = directive.args.last_mut() {
                *last = last.strip_prefix(path).unwrap_or(last).to_owned();
            }
            let region = inner.region(&found);
            self.try_files(&directive, &found, &region, &inner, &mut mount, &mut plan);
        }
        let mut is_before_php = true;
        for (place, found, directives) in &inner.all {
            // `root` of an inner location names the folder above the mount.
            let own = |it: &&Directive| !matches!(&*it.name, "root" | "alias");
            let directives: Vec<Directive> = directives.iter().filter(own).cloned().collect();
            let runs = directives.iter().any(|it| it.name == "fastcgi_pass");
            let location = (place.clone(), found.clone(), directives);
            self.location(&location, &around, &inner, is_before_php, &mut mount, &mut plan);
            is_before_php &= !runs;
        }
        self.depth -= 1;
        regions::write_headers(place, &plan.regions, &[], block, &mut mount);
        self.conclude(place, plan, &mut mount);
        // Of `location /pics` and `location /pics/` the latter answers below the folder.
        let Some(other) = site.mounts.iter_mut().find(|other| other.path == mount.path) else {
            site.mounts.push(mount);
            return;
        };
        let shorter = if is_longer { other.place.clone() } else { place.clone() };
        let reason = "another location is for the same folder, with a slash at its end, and answers \
                      all that is below it; `/folder` alone is redirected there";
        self.notes.differs(&shorter, &format!("location {path}"), reason);
        if is_longer {
            *other = mount;
        }
    }
}

impl Reader<'_> {
    /// Refuses what nginx gives to another location than that of a mounted site: it looks for these
    /// files below the site's own root.
    fn elsewhere(
        &mut self,
        place: &Place,
        other: &Match,
        directives: &[Directive],
        path: &str,
        inner: &Locations,
        mount: &mut Site,
    ) {
        let runs = directives.iter().any(|it| it.name == "fastcgi_pass");
        if other.runs_scripts() && runs {
            // What scripts run below a mount is said by its own locations.
            return;
        }
        let own = other.elsewhere().unwrap_or_default();
        let scope = match expression_behind(own.trim_start_matches('!'), path) {
            Within::Nowhere => return,
            Within::At(own) => {
                // nginx asks those within a location first.
                let first = inner.all.iter().filter_map(|(_, found, _)| match found {
                    Match::Prefix(..) => None,
                    found => found.elsewhere(),
                });
                Scope { and: first.collect(), ..Scope::pattern(own) }
            }
            Within::Everywhere | Within::Unknown => Scope::default(),
        };
        if scope.is_all() || !directives.iter().all(sends_or_refuses) {
            let reason = format!("nginx asks it for some paths below {path}; these are 404");
            self.notes.refused(place, &describe(other), reason);
        }
        mount.rules.push(Rule::at(place, scope).refuse_all(404));
    }
}

/// The folder of a location that is not the site's own for its path.
pub(super) fn mounted(block: &Block, found: &Match, is_other_root: bool) -> Option<String> {
    let Match::Prefix(path, _) = found else { return None };
    if path == "/" {
        return None;
    }
    if let Some(alias) = &block.alias {
        // `location /a/ { alias /b; }` would be `/bc` for `/a/c`.
        let is_folder = alias.ends_with('/') || !path.ends_with('/');
        let is_file = alias.rsplit('/').next().is_some_and(|name| name.contains('.'));
        let clean = alias.trim_end_matches('/');
        return (is_folder && !is_file && !clean.is_empty() && !clean.contains('$'))
            .then(|| clean.to_owned());
    }
    let root = block.root.as_ref().filter(|root| is_other_root && !root.contains('$'))?;
    Some(format!("{}{}", root.trim_end_matches('/'), path.trim_end_matches('/')))
}

/// A path behind that of a mounted folder.
fn behind(path: &str, mount: &str) -> Option<String> {
    let rest = path.strip_prefix(mount)?;
    rest.starts_with('/').then(|| rest.to_owned())
}
