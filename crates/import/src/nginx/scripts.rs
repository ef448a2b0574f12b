//! What locations of scripts say beside which scripts run: what their expressions are also for, one
//! script for all paths, and what answers for scripts that do not exist.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::source::Place;

use super::Reader;
use super::block::Block;
use super::location::{Match, describe, is_script};
use super::php;
use super::server::Plan;
use super::steps::closed;
use super::target;

impl Reader<'_> {
    /// What an expression for scripts is also for: php-fpm runs none of that by default.
    pub(super) fn others(
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

    /// One script that answers for all paths of a location.
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

    /// `try_files` of scripts: what answers for those that do not exist.
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
                self.named(directive, name, (region, true), site, plan);
            }
            Some(fallback) if is_script(fallback) => {
                let (script, passes) = target::without_query(fallback);
                // Only the last one leads to another location, and names its query.
                let is_last = directive.args.last().is_some_and(|last| last == fallback);
                let end = if passes || !is_last { "" } else { "?" };
                let rule = Rule::at(&directive.place, region.clone());
                let mut rule = Rule { unless_file: true, ..rule };
                rule.ignore_folders();
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
