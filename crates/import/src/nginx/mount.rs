//! Locations whose folder is not below the root: sites that are mounted.

use crate::combine::{Within, expression_behind};
use crate::directive::Directive;
use crate::model::{Scope, Site};
use crate::source::Place;

use super::Reader;
use super::block::Block;
use super::location::{Locations, Match, describe};
use super::regions;
use super::server::Plan;
use super::sizes;

impl Reader<'_> {
    /// A location whose folder is not below the root: a site that is mounted.
    pub(super) fn mount(
        &mut self,
        place: &Place,
        path: &str,
        folder: String,
        block: &Block,
        outer: &Block,
        site: &mut Site,
    ) {
        let is_longer = path.ends_with('/');
        let path = path.trim_end_matches('/');
        let mut mount = Site::new(place.clone());
        mount.path = Some(path.to_owned());
        mount.root = Some(folder);
        mount.index = block.index.clone().or_else(|| site.index.clone());
        mount.index_listing = block.index_listing;
        mount.charset = block.charset.clone();
        mount.body = Some(block.body.as_ref().map_or(sizes::BODY, |body| body.most));
        if block.is_unlogged && !outer.is_unlogged {
            mount.rules.push(sizes::unlogged(place, Scope::default()));
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
        let mut inner = self.locations(place, &block.locations);
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
        let mut plan = Plan::default();
        let around = Block { root: mount.root.clone(), alias: None, ..block.clone() };
        if let Some(directive) = &block.try_files {
            let found = Match::Prefix("/".to_owned(), false);
            let mut directive = directive.clone();
            if let Some(last) = directive.args.last_mut() {
                *last = last.strip_prefix(path).unwrap_or(last).to_owned();
            }
            let region = inner.region(&found);
            self.try_files(&directive, (&found, &region), &inner, &mut mount, &mut plan);
            plan.has_fallback = true;
        }
        let mut is_before_php = true;
        for (place, found, directives) in &inner.all {
            // `root` of an inner location names the folder above the mount.
            let own = |it: &&Directive| !matches!(&*it.name, "root" | "alias");
            let directives: Vec<Directive> = directives.iter().filter(own).cloned().collect();
            self.location(
                place,
                found,
                &directives,
                &around,
                &inner,
                is_before_php,
                &mut mount,
                &mut plan,
            );
            is_before_php &= !directives.iter().any(|it| it.name == "fastcgi_pass");
        }
        self.depth -= 1;
        regions::settle(place, &plan.regions, block, &mut mount);
        self.conclude(place, &Block::default(), plan, &mut mount);
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
