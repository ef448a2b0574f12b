//! Locations within locations.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::pattern;

use super::block::Block;
use super::locations::{Location, Locations, has_fastcgi};
use super::matcher::{Match, describe};
use super::php;
use super::plan::Plan;
use super::reader::Reader;
use super::regions::Region;

impl Reader<'_> {
    pub(super) fn nested(
        &mut self,
        found: &Match,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let locations = self.locations(&block.locations);
        // nginx asks the expressions of an inner block before those around it.
        let mut is_before_php = true;
        self.depth += 1;
        for location in &locations.all {
            let (place, inner, directives) = location;
            let asks_before = is_before_php;
            is_before_php &= !inner.runs_scripts();
            let is_main = *found == Match::Prefix("/".to_owned(), false);
            match (found, inner) {
                (_, Match::Exact(_) | Match::Prefix(..)) => {}
                _ if is_main => {}
                (Match::Prefix(path, _), Match::Pattern(_)) => {
                    self.nested_pattern(location, path, block, asks_before, site, plan);
                    continue;
                }
                (Match::Pattern(outer), Match::Pattern(_))
                    if !runs(directives) || runs_as_outer(block, outer, directives) =>
                {
                    // Which scripts run is what the outer one says.
                    let mut location = location.clone();
                    location.2.retain(|it| it.name != "fastcgi_pass");
                    let asks_before = asks_before && block.fastcgi.is_none();
                    let around = Block { fastcgi: None, ..block.clone() };
                    let (own, inner) = self.alone_in(&location, &around, asks_before, site);
                    let is_outer = |region: &Region| region.is_of(found);
                    let at = plan.regions.iter().rposition(is_outer).unwrap_or(0);
                    let regions = inner.regions.into_iter().map(|region| region.also(outer));
                    plan.regions.splice(at..at, regions);
                    plan.fallback.extend(inner.fallback.into_iter().map(|mut rule| {
                        rule.scope.and.push(outer.clone());
                        rule
                    }));
                    for mut rule in own.rules {
                        let is_guard = rule.guards();
                        let outer = if is_guard { pattern::refusing(outer) } else { outer.clone() };
                        rule.scope.and.push(outer);
                        site.rules.push(rule);
                    }
                    continue;
                }
                _ => {
                    let reason = "an expression within an expression is not translated, so the \
                        outer one is refused";
                    self.notes.refused(place, &describe(inner), reason);
                    site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                    continue;
                }
            }
            let before = plan.regions.len();
            self.location(location, block, &locations, asks_before, site, plan);
            if let Match::Prefix(path, _) = found {
                let own = plan.regions.split_off(before);
                plan.regions.extend(own.into_iter().map(|region| region.within(path)));
            }
        }
        self.depth -= 1;
    }

    /// What a location says by itself, without those beside it, where only `block` is around it.
    fn alone_in(
        &mut self,
        location: &Location,
        block: &Block,
        is_before_php: bool,
        site: &Site,
    ) -> (Site, Plan) {
        let mut own = Site::new(location.0.clone());
        own.root.clone_from(&site.root);
        own.index.clone_from(&site.index);
        let around = Block { root: site.root.clone(), ..block.clone() };
        let (none, mut plan) = (Locations::default(), Plan::default());
        self.location(location, &around, &none, is_before_php, &mut own, &mut plan);
        (own, plan)
    }

    /// An expression within a prefix: both have to fit. Refusals and headers can say that.
    fn nested_pattern(
        &mut self,
        location: &Location,
        path: &str,
        block: &Block,
        is_before_php: bool,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let (inner, own) = self.alone_in(location, block, is_before_php, site);
        plan.intercepts.extend(own.intercepts);
        plan.internal.extend(own.internal);
        plan.files.extend(own.files.into_iter().map(|(place, scope)| {
            let path = scope.path.or_else(|| Some(format!("{path}*")));
            (place, Scope { path, ..scope })
        }));
        plan.fallback.extend(own.fallback.into_iter().map(|mut rule| {
            rule.scope.path.get_or_insert_with(|| format!("{path}*"));
            rule
        }));
        plan.regions.extend(own.regions.into_iter().map(|region| region.within(path)));
        for scripts in own.php {
            let is_all = scripts.are_all();
            let names = if is_all { vec![format!("{path}*")] } else { scripts.names };
            plan.php.push(php::Scripts { names, ..scripts });
        }
        for (place, scope, lists) in own.listings {
            let path = scope.path.or_else(|| Some(format!("{path}*")));
            plan.listings.push((place, Scope { path, ..scope }, lists));
        }
        for mut rule in inner.rules {
            if rule.scope.path.is_none() && !rule.scope.is_all() {
                rule.scope.path = Some(format!("{path}*"));
            }
            site.rules.push(rule);
        }
        site.env.extend(inner.env);
        site.php_value.extend(inner.php_value);
        site.php_admin_value.extend(inner.php_admin_value);
    }
}

/// Whether a location within one for all scripts runs them as that one does.
fn runs_as_outer(block: &Block, outer: &str, directives: &[Directive]) -> bool {
    let runs_alike = |it: &Directive| match &*it.name {
        "fastcgi_param" => {
            let outer = block.params.get(it.arg(0)).map(|(_, value)| &**value);
            php::is_standard(it.arg(0)) && outer.is_none_or(|outer| outer == it.arg(1))
        }
        "try_files" => it.args.last().is_some_and(|last| last == "=404"),
        "fastcgi_hide_header" | "fastcgi_intercept_errors" | "location" | "rewrite" => false,
        _ => true,
    };
    php::of_expression(outer).is_some_and(|scripts| scripts.are_all())
        && directives.iter().all(runs_alike)
}

/// Whether scripts run in a location.
fn runs(directives: &[Directive]) -> bool {
    directives.iter().any(|it| it.name == "fastcgi_pass" || has_fastcgi(it))
}
