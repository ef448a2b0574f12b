//! What a path without a file becomes: `try_files`, and the locations `@name` that it leads to.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::source::Place;

use super::Reader;
use super::location::{Locations, Match, is_script};
use super::server::Plan;
use super::steps::only;
use super::target;

impl Reader<'_> {
    /// `try_files` of a location, and the paths that it takes.
    pub(super) fn try_files(
        &mut self,
        directive: &Directive,
        (found, region): (&Match, &Scope),
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let before = plan.fallback.len();
        self.fall_back(directive, (found, region), locations, site, plan);
        if directive.args.iter().any(|file| file == "$uri/") {
            return;
        }
        // Folders are not served then, and no path of a file ends with a slash.
        let folders = plan.fallback[before..].iter().map(|rule| {
            let mut rule = Rule { unless_file: false, ..rule.clone() };
            rule.scope.and.push("/$".to_owned());
            rule
        });
        let folders: Vec<Rule> = folders.collect();
        plan.fallback.extend(folders);
    }

    /// The last argument says what a path without a file becomes.
    fn fall_back(
        &mut self,
        directive: &Directive,
        (found, region): (&Match, &Scope),
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let place = &directive.place;
        let Some((fallback, files)) = directive.args.split_last() else { return };
        let is_usual = |file: &String| matches!(&**file, "$uri" | "$uri/");
        let scope = found.scope();
        if !files.iter().any(|file| file == "$uri") {
            let reason = "files are not served there, so its paths are refused";
            self.notes.refused(place, &directive.line(), reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        if let Some(other) = files.iter().find(|file| !is_usual(file)) {
            self.notes.left(place, other, "only `$uri` and `$uri/` are translated");
        }
        if !files.iter().any(|file| file == "$uri/") && scope.is_all() {
            // Folders have no index file then.
            site.index = Some(Vec::new());
        }
        if fallback.starts_with('=') {
            if !scope.is_all() {
                site.rules.push(only(place, region, Serve::Existing));
            }
            if !files.iter().any(|file| file == "$uri/") && scope.pattern.is_none() {
                // Nor are folders: neither as a list nor by an index file.
                let mut folders = region.refusing();
                folders.and.push("/$".to_owned());
                site.rules.push(Rule::at(place, folders).refuse_all(404));
            }
            return;
        }
        if let Some(name) = fallback.strip_prefix('@') {
            let named = locations.named.iter().find(|(own, _)| own == name);
            let steps = named.map(|(_, steps)| steps.clone()).unwrap_or_default();
            self.named(directive, &steps, region, site, plan);
            return;
        }
        let (path, _) = target::without_query(fallback);
        if path.starts_with('/') && !path.contains(['$', '?']) {
            match is_script(path) && scope.is_all() {
                true => {
                    site.front_controller = Some(path.trim_start_matches('/').to_owned());
                    site.front_controller_for.push("hidden");
                }
                false => plan.fallback.push(missing(place, region).rewrite(path)),
            }
            return;
        }
        // `/index.php?q=$uri&$args`
        let rewritten = path.replacen("$uri", "/$1", 1);
        let is_known = scope.pattern.is_none()
            && rewritten.starts_with('/')
            && rewritten.replacen("$1", "", 1) == rewritten.replace('$', "").replacen('1', "", 1);
        if is_known && rewritten.contains("$1") {
            let scope = Scope { pattern: Some("^/(.*)$".to_owned()), ..region.clone() };
            plan.fallback.push(missing(place, &scope).rewrite(rewritten));
            return;
        }
        self.notes.left(place, &directive.line(), "its last argument is not translated");
    }

    /// The rewrites of a location `@name`.
    fn named(
        &mut self,
        directive: &Directive,
        steps: &[Directive],
        scope: &Scope,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        if steps.is_empty() || !steps.iter().all(|step| step.name == "rewrite") {
            let reason = "the location of that name does more than rewrite; paths without a file \
                are 404";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        }
        let mut own = Site::new(directive.place.clone());
        self.steps(steps, scope, true, &mut own);
        site.front_controller_for.push("hidden");
        plan.fallback.extend(own.rules);
    }
}

/// A rule for paths without a file.
fn missing(place: &Place, scope: &Scope) -> Rule {
    Rule { unless_file: true, ..Rule::at(place, scope.clone()) }
}
