//! What a path without a file becomes: `try_files`, and the locations `@name` that it leads to.

use std::path::Path;

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::source::Place;

use super::block::Block;
use super::locations::{Location, Locations};
use super::matcher::{Match, describe};
use super::plan::Plan;
use super::reader::Reader;
use super::target::{self, is_script};
use super::{known, php};

impl Reader<'_> {
    /// `try_files` of a location, and the paths that it takes.
    pub(super) fn try_files(
        &mut self,
        directive: &Directive,
        found: &Match,
        region: &Scope,
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        if self.proxied_fallback(directive, found, locations, site) {
            return;
        }
        let before = plan.fallback.len();
        self.fall_back(directive, found, region, locations, site, plan);
        if directive.args.iter().any(|file| file == "$uri/") {
            return;
        }
        // Folders are not served then.
        if plan.fallback.len() > before {
            plan.fallback[before..].iter_mut().for_each(Rule::ignore_folders);
        } else if found.scope().is_all()
            && let Some(script) = &site.front_controller
        {
            let mut rule = missing(&directive.place, region).rewrite(format!("/{script}"));
            rule.ignore_folders();
            plan.fallback.push(rule);
        } else if found.scope().extensions().is_none() {
            // Neither as a list nor by an index file.
            let mut folders = region.refusing();
            folders.and.push("/$".to_owned());
            site.rules.push(Rule::at(&directive.place, folders).refuse_all(404));
        }
    }

    /// The last argument says what a path without a file becomes.
    fn fall_back(
        &mut self,
        directive: &Directive,
        found: &Match,
        region: &Scope,
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let place = &directive.place;
        let Some((fallback, files)) = directive.args.split_last() else { return };
        let is_usual = |file: &String| matches!(&**file, "$uri" | "$uri/");
        let scope = found.scope();
        // A file that is there, whatever the path is, comes before all that follows it.
        let (fallback, files) = match files.iter().position(|file| self.is_file_of(file, site)) {
            Some(at) => {
                if self.has_other_fields(place, found, &files[at], locations) {
                    site.rules.push(match files[..at].is_empty() {
                        true => Rule::at(place, found.refused()).refuse_all(404),
                        false => Rule::at(place, region.clone()).serve(Serve::Existing),
                    });
                    return;
                }
                (&files[at], &files[..at])
            }
            None => (fallback, files),
        };
        let served = files.iter().any(|file| file == "$uri");
        if let Some(other) = files.iter().find(|file| !is_usual(file)) {
            if !served && other.contains('$') {
                let reason = "files are not served there, so its paths are refused";
                self.notes.refused(place, &directive.line(), reason);
                site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                return;
            }
            if served {
                let reason = "only `$uri`, `$uri/` and files that are there are translated";
                self.notes.left(place, other, reason);
            }
        }
        let serves_folders = files.iter().any(|file| file == "$uri/");
        let is_only = |(_, other, _): &Location| {
            let is_file = matches!(other, Match::Exact(path) if !path.ends_with('/'));
            is_file || matches!(other, Match::Pattern(_)) || other == found
        };
        if served && !serves_folders && scope.is_all() && locations.all.iter().all(is_only) {
            // No folder has an index file then.
            site.index = Some(Vec::new());
        }
        let start = |scope: &Scope| match served {
            true => missing(place, scope),
            false => Rule::at(place, scope.clone()),
        };
        if fallback.starts_with('=') {
            match served {
                true if scope.is_all() => {}
                true => site.rules.push(Rule::at(place, region.clone()).serve(Serve::Existing)),
                false => {
                    if fallback != "=404" {
                        self.notes.differs(place, &directive.line(), "the status is 404");
                    }
                    site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                }
            }
            return;
        }
        if fallback.starts_with('@') {
            self.named(directive, fallback, region, served, site, plan);
            return;
        }
        let Some(to) = target::fallback(fallback) else {
            let reason = "its last argument is not translated";
            match served {
                true => {
                    let reason = format!("{reason}; paths without a file are 404");
                    self.notes.left(place, &directive.line(), reason);
                    site.rules.push(Rule::at(place, region.clone()).serve(Serve::Existing));
                }
                false => {
                    self.notes.refused(place, &directive.line(), reason);
                    site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                }
            }
            return;
        };
        let path = to.to.split('?').next().unwrap_or_default();
        let rewrites = |(_, other, inner): &Location| {
            let is_chosen = other != found && other.scope().fits(path);
            is_chosen && inner.iter().any(|it| it.name == "rewrite")
        };
        if !is_script(path) && locations.all.iter().any(rewrites) {
            let reason = "the location of that file rewrites its path in nginx, and not here";
            self.notes.differs(place, &directive.line(), reason);
        }
        if to.has_query_within {
            let reason = "what a client sends as the query follows behind `&`";
            self.notes.differs(place, &directive.line(), reason);
        }
        let is_plain = served && !to.needs_path && !to.to.contains('?');
        if is_plain && is_script(&to.to) && scope.is_all() {
            site.front_controller = Some(to.to.trim_start_matches('/').to_owned());
            site.front_controller_for.push("hidden");
        } else if to.needs_path {
            let and = region.and.iter().chain(&region.pattern).cloned().collect();
            let scope = Scope { pattern: Some("^/(.*)$".to_owned()), and, ..region.clone() };
            plan.fallback.push(start(&scope).rewrite(to.to));
        } else {
            plan.fallback.push(start(region).rewrite(to.to));
        }
    }

    /// Whether a file that is not the last argument may be kept for longer than in the location of
    /// `try_files`, from which nginx sends it; says so, and where it has other fields.
    fn has_other_fields(
        &mut self,
        place: &Place,
        found: &Match,
        file: &str,
        locations: &Locations,
    ) -> bool {
        let has_fields = |it: &Directive| matches!(&*it.name, "add_header" | "expires");
        let takes = |(_, other, inner): &&Location| {
            other != found && other.scope().fits(file) && inner.iter().any(has_fields)
        };
        let Some((_, other, inner)) = locations.all.iter().find(takes) else { return false };
        let is_of_caches = |it: &Directive| {
            it.name == "expires" || it.arg(0).eq_ignore_ascii_case("cache-control")
        };
        let is_kept = inner.iter().any(is_of_caches);
        let reason = format!(
            "where it answers for other paths, it would have the header fields of {}, and not \
                those of its own location",
            describe(other)
        );
        if is_kept {
            let reason = format!(
                "{reason}; paths without a file are 404 instead: write a rule with `unless_file` \
                    and `rewrite` if it may be kept so long"
            );
            self.notes.refused(place, file, reason);
        } else {
            self.notes.differs(place, file, reason.replace("would have", "has"));
        }
        is_kept
    }

    /// Whether an argument is a file of the site, whatever the path is.
    fn is_file_of(&self, file: &str, site: &Site) -> bool {
        let root = site.root.as_deref().unwrap_or_default();
        let is_fixed = file.starts_with('/') && !file.contains('$');
        is_fixed && self.disk.is_file(&Path::new(root).join(file.trim_start_matches('/')))
    }

    /// The rewrites of a location `@name`, or the one script that it runs.
    pub(super) fn named(
        &mut self,
        directive: &Directive,
        name: &str,
        scope: &Scope,
        served: bool,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let place = &directive.place;
        let named = self.named.iter().find(|(own, _)| name.strip_prefix('@') == Some(own));
        let steps = &*named.map(|(_, steps)| steps.clone()).unwrap_or_default();
        if let Some(script) = self.script_of_named(steps, site) {
            let rule = Rule { unless_file: served, ..Rule::at(place, scope.clone()) };
            plan.fallback.push(rule.rewrite(script.clone()));
            plan.intercepts.push((place.clone(), false));
            plan.php.push(php::Scripts::named(vec![script], false));
            return;
        }
        let rewrites = |step: &Directive| step.name == "rewrite";
        let is_quiet = |step: &Directive| {
            matches!(&*step.name, "break" | "access_log" | "log_not_found")
                || known::is_silent(step)
        };
        if !steps.iter().any(rewrites) || !steps.iter().all(|it| rewrites(it) || is_quiet(it)) {
            let reason = "the location of that name does more than rewrite; paths without a file \
                are 404";
            self.notes.left(place, &directive.line(), reason);
            site.rules.push(Rule::at(place, scope.clone()).serve(Serve::Existing));
            return;
        }
        let mut own = Site::new(place.clone());
        self.steps(steps, scope, served, &mut own);
        site.front_controller_for.push("hidden");
        plan.fallback.extend(own.rules);
    }

    /// The script that a location `@name` runs for all paths.
    fn script_of_named(&mut self, steps: &[Directive], site: &mut Site) -> Option<String> {
        let runs = steps.iter().any(|step| step.name == "fastcgi_pass");
        let is_of_php = |step: &Directive| step.name.starts_with("fastcgi_");
        if !runs || !steps.iter().all(is_of_php) {
            return None;
        }
        let mut block = Block::default();
        self.in_location = true;
        self.read(steps, &mut block);
        self.in_location = false;
        let (place, file) = block.params.get("SCRIPT_FILENAME")?;
        let script = php::named_script(file, site)?;
        if !self.params(place, &block, site) {
            return None;
        }
        if block.params.get("SCRIPT_NAME").is_none_or(|(_, name)| *name != script) {
            let line = format!("SCRIPT_FILENAME of {script}");
            self.notes.differs(place, &line, "its SCRIPT_NAME is its own path");
        }
        Some(script)
    }
}

/// A rule for paths without a file.
fn missing(place: &Place, scope: &Scope) -> Rule {
    Rule { unless_file: true, ..Rule::at(place, scope.clone()) }
}
