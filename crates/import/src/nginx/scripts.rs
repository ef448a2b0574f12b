//! Locations with scripts, beyond the choice of scripts: other paths that their expressions match,
//! one script for all paths, and the fallback for scripts that do not exist.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::source::Place;

use super::block::Block;
use super::matcher::{Match, closed, describe};
use super::plan::Plan;
use super::reader::Reader;
use super::target::{self, is_script};
use super::{php, regions};

impl Reader<'_> {
    /// A location that runs scripts.
    pub(super) fn script_location(
        &mut self,
        place: &Place,
        found: &Match,
        region: &Scope,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let named = block.params.get("SCRIPT_FILENAME").map(|(_, file)| file.as_str());
        let only = named.and_then(|file| php::named_script(file, site));
        if let Some(script) = only.filter(|script| *found != Match::Exact(script.clone())) {
            self.one_script(place, region, script, block, site, plan);
            return;
        }
        let scripts = match found {
            Match::Exact(path) if path.ends_with(".php") => {
                Some(php::Scripts::named(vec![path.clone()], false))
            }
            Match::Prefix(path, _) if path.ends_with(".php") => {
                // php-fpm refuses longer names that only begin with this one.
                let longer = Scope::pattern(format!("^{}[^/]", regex_lite::escape(path)));
                site.rules.push(Rule::at(place, longer).refuse_all(403));
                Some(php::Scripts::named(vec![path.clone()], true))
            }
            // A list of expressions is that of a whole site.
            Match::Pattern(expression) => php::of_expression(expression)
                .filter(|scripts| scripts.expression.is_none() || self.depth == 0),
            _ => None,
        };
        let Some(scripts) = scripts else {
            let reason = "which scripts run there cannot be said by a rule, so these paths are \
                refused; see `scripts`";
            self.notes.refused(place, &describe(found), reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        };
        if !self.params(place, block, site) {
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        if let Match::Pattern(expression) = found {
            self.refuse_others(place, found, expression, site);
        }
        if block.is_internal {
            plan.internal.push((place.clone(), found.refused()));
        }
        if let Some(directive) = &block.try_files {
            self.missing_script(directive, region, block, site, plan);
        } else if let Some(page) = block.missing.as_ref().filter(|_| block.intercepts) {
            // php-fpm may run another script then, or refuse it.
            let reason = "scripts that do not exist are 404, also where their answers are \
                intercepted; write `try_files` into their location";
            self.notes.left(
                place,
                &format!("error_page 404 = {}", page.args.last().map_or("", String::as_str)),
                reason,
            );
        }
        site.rules.extend(regions::hidden_headers(place, block));
        if scripts.expression.is_some() {
            plan.fallback.push(Rule::at(place, region.clone()).serve(Serve::Existing));
        }
        let path_info = block.params.get("PATH_INFO").map(|(_, value)| self.path_info_of(value));
        plan.path_infos.extend(path_info.unwrap_or_default());
        plan.intercepts.push((place.clone(), block.intercepts));
        plan.php.push(scripts);
    }

    /// Refuses the paths without `.php` at their end that an expression for scripts matches, too:
    /// php-fpm runs none of them by default.
    pub(super) fn refuse_others(
        &mut self,
        place: &Place,
        found: &Match,
        expression: &str,
        site: &mut Site,
    ) {
        let (has_others, is_meant) = php::has_others(expression);
        if is_meant {
            let reason = "only names that end in `.php` run, as php-fpm wants it by default; the \
                others of these are refused";
            self.notes.refused(place, &describe(found), reason);
        }
        if has_others {
            let mut scope = found.refused();
            scope.and.push(format!("!(?i){}", php::NAMES));
            site.rules.push(Rule::at(place, scope).refuse_all(403));
        }
    }

    /// Writes the rules of a location in which one script answers for all paths.
    pub(super) fn one_script(
        &mut self,
        place: &Place,
        region: &Scope,
        script: String,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        if !self.params(place, block, site) {
            site.rules.push(Rule::at(place, closed(region)).refuse_all(404));
            return;
        }
        if block.params.get("SCRIPT_NAME").is_none_or(|(_, name)| *name != script) {
            let line = format!("SCRIPT_FILENAME of {script}");
            self.notes.differs(place, &line, "its SCRIPT_NAME is its own path");
        }
        let rule = match &block.try_files {
            Some(_) => Rule { unless_file: true, ..Rule::at(place, region.clone()) },
            None => Rule::at(place, region.clone()),
        };
        site.rules.push(rule.rewrite(script.clone()));
        plan.intercepts.push((place.clone(), block.intercepts));
        plan.php.push(php::Scripts::named(vec![script], false));
    }

    /// Writes the rules of a `try_files` in a location with scripts: its fallback answers for
    /// scripts that do not exist.
    pub(super) fn missing_script(
        &mut self,
        directive: &Directive,
        region: &Scope,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        const OWN: [&str; 4] =
            ["$uri", "$uri/", "$fastcgi_script_name", "$document_root$fastcgi_script_name"];
        let args = directive.args.iter().map(String::as_str);
        let own = args.clone().rfind(|file| OWN.contains(file) && file.contains("script_name"));
        let mut others = args.filter(|file| !OWN.contains(file));
        match others.next() {
            Some("=404") => {
                let own = own.unwrap_or_default();
                plan.asks_for(&directive.place, region, own, block.split.as_deref());
            }
            Some(name) if name.starts_with('@') => {
                self.named(directive, name, region, true, site, plan);
            }
            Some(fallback) if is_script(fallback) => {
                let (script, passes) = target::without_query(fallback);
                // Only the last one leads to another location, and names its query.
                let is_last = directive.args.last().is_some_and(|last| last == fallback);
                let end = if passes || !is_last { "" } else { "?" };
                let rule = Rule::at(&directive.place, region.clone());
                let mut rule = Rule { unless_file: true, ..rule };
                // What follows the name of a script is no part of the file that nginx looks for.
                if own.is_none() || block.split.is_none() {
                    rule.ignore_folders();
                }
                plan.fallback.push(rule.rewrite(format!("{script}{end}")));
            }
            _ => {
                let own = own.unwrap_or_default();
                plan.asks_for(&directive.place, region, own, block.split.as_deref());
                let reason = "scripts that do not exist are 404";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }
}
