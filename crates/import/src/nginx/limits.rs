//! `limit_req` and `limit_conn` as limits of rules. They guard nothing, so what is not translated
//! of them is left out.
//!
//! nginx counts in the one location that answers, after rewrites, also for what leads there by
//! itself. Here a limit is for the paths that clients ask for. Where both are not the same, the
//! limit is left out.

use crate::directive::Directive;
use crate::model::{Limit, Most, Rule, Scope, Site};

use super::block::Block;
use super::locations::Locations;
use super::matcher::{Match, describe};
use super::reader::Reader;
use super::sizes;
use super::zones::{GREATEST, value, zone_of};

/// Whether nothing that one limit lets through is too much for the other.
fn is_within(one: &Most, other: &Most) -> bool {
    let in_a_minute = |rate: &str| -> u64 {
        let (requests, unit) = rate.split_once('/').unwrap_or_default();
        requests.parse().unwrap_or(0) * if unit == "s" { 60 } else { 1 }
    };
    match (one, other) {
        (Most::Rate { rate, burst }, Most::Rate { rate: others, burst: most }) => {
            in_a_minute(rate) <= in_a_minute(others) && burst <= most
        }
        (Most::Connections(own), Most::Connections(most)) => own <= most,
        _ => false,
    }
}

/// All directives of a name in inner locations.
fn inner<'a>(locations: &'a [Directive], name: &str) -> Vec<&'a Directive> {
    let mut found = Vec::new();
    for directive in locations.iter().flat_map(Directive::inner) {
        if directive.name == name {
            found.push(directive);
        }
        if directive.name == "location" {
            found.extend(inner(std::slice::from_ref(directive), name));
        }
    }
    found
}

impl Reader<'_> {
    /// The limits of a block that are not those of the block around it.
    pub(super) fn limits(
        &mut self,
        found: Option<(&Match, &Locations)>,
        scope: &Scope,
        block: &Block,
        outer: &Block,
    ) -> Vec<Rule> {
        let lines = |all: &[Directive]| all.iter().map(Directive::line).collect::<Vec<_>>();
        let mut rules = Vec::new();
        for (own, around) in
            [(&block.requests, &outer.requests), (&block.connections, &outer.connections)]
        {
            if lines(own) == lines(around) {
                continue;
            }
            for directive in own {
                let most = self.most(directive).and_then(|most| {
                    let problem = self.other_paths(directive, &most, found, block);
                    problem.map_or(Ok(most), Err)
                });
                let most = match most {
                    Ok(most) => most,
                    Err(problem) => {
                        self.notes.left(&directive.place, &directive.line(), problem);
                        continue;
                    }
                };
                let limit = self.limit(directive, most, block, around);
                rules.push(Rule::at(&directive.place, scope.clone()).limit(limit));
            }
        }
        rules
    }

    /// What a directive lets each client do, or why no rule says the same.
    fn most(&self, directive: &Directive) -> Result<Most, String> {
        let zone = self.zones.get(zone_of(directive)).filter(|zone| zone.is_by_address);
        let Some(zone) = zone else {
            return Err("only zones with the key `$binary_remote_addr` are translated".into());
        };
        let number = |text: &str| text.parse::<u32>().ok().filter(|it| *it <= GREATEST);
        if directive.name == "limit_conn" {
            let most = number(directive.arg(1)).filter(|most| *most > 0);
            return most.map(Most::Connections).ok_or_else(|| "no number of requests".into());
        }
        let Some(rate) = zone.rate.clone() else { return Err("no rate of requests".into()) };
        let burst = value(directive, "burst=").map_or(Some(0), number);
        let Some(burst) = burst else { return Err("no number of requests".into()) };
        let delay = match directive.args.iter().any(|arg| arg == "nodelay") {
            true => Some(GREATEST),
            false => value(directive, "delay=").map_or(Some(0), number),
        };
        if delay.is_none_or(|delay| delay < burst) {
            return Err(format!(
                "nginx lets requests of the burst wait, and here they are answered at once; write \
                    `rate = \"{rate}\"` and `burst = {burst}` if you want that"
            ));
        }
        Ok(Most::Rate { rate, burst })
    }

    /// Why a limit would be for other paths than those for which nginx counts.
    fn other_paths(
        &self,
        directive: &Directive,
        most: &Most,
        found: Option<(&Match, &Locations)>,
        block: &Block,
    ) -> Option<String> {
        if block.hides_clients(&self.proxies) {
            return Some("whose addresses are counted is not translated".into());
        }
        let is_looser = |it: &&&Directive| {
            it.line() != directive.line()
                && !self.most(it).is_ok_and(|inner| is_within(&inner, most))
        };
        if let Some(inner) = inner(&block.locations, &directive.name).iter().find(is_looser) {
            return Some(format!(
                "a location in it has `{}` in its place, and rules add up",
                inner.line()
            ));
        }
        let (found, locations) = found?;
        if self.depth > 0 {
            return Some("only those of locations of the site's own root are translated".into());
        }
        if !block.steps.is_empty() {
            return Some("nginx rewrites before it counts".into());
        }
        let rival = locations.rival(found, &|_| false)?;
        Some(format!(
            "nginx asks {} for some of its paths, and does not count then",
            describe(rival)
        ))
    }

    fn limit(
        &mut self,
        directive: &Directive,
        most: Most,
        block: &Block,
        around: &[Directive],
    ) -> Limit {
        let (status, dry_run) = match &most {
            Most::Rate { .. } => (&block.requests_status, block.requests_dry_run),
            Most::Connections(_) => (&block.connections_status, block.connections_dry_run),
        };
        let status = status.as_deref().unwrap_or("503");
        let mut differences = Vec::new();
        if status != "429" && !dry_run {
            differences.push(format!("more is answered 429 with `Retry-After`, not {status}"));
        }
        if self.zones.get(zone_of(directive)).is_some_and(|zone| zone.uses > 1) {
            differences.push("each place with this zone counts by itself".to_owned());
        }
        if !around.is_empty() {
            differences.push("the limit around it counts here, too".to_owned());
        }
        if !differences.is_empty() {
            let reason = differences.join("; ");
            self.notes.differs(&directive.place, &directive.line(), reason);
        }
        Limit { most, dry_run }
    }

    /// Leaves out limits of paths that other paths lead to: nginx counts those, too.
    pub(super) fn reached_otherwise(&mut self, site: &mut Site) {
        let targets = sizes::targets(site);
        let index = |name: &String| format!("/{}$", regex_lite::escape(name));
        let indexes: Vec<String> = site.index.iter().flatten().map(index).collect();
        let Site { rules, .. } = site;
        rules.retain(|rule| {
            if rule.limit.is_none() || rule.scope.is_all() {
                return true;
            }
            let is_index = |end: &String| {
                rule.scope.pattern.as_ref().is_some_and(|own| own.ends_with(end.as_str()))
            };
            let is_reached = targets.iter().any(|target| rule.scope.fits(target));
            if is_reached || indexes.iter().any(is_index) {
                let reason = "nginx also counts the pages that lead there, as by the front \
                    controller; see `rate` and `connections`";
                self.notes.left(&rule.place, "", reason);
                return false;
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared() {
        let most = |rate: &str, burst| Most::Rate { rate: rate.to_owned(), burst };
        for (one, other, expected) in [
            (most("1/s", 2), most("10/s", 2), true),
            (most("60/m", 2), most("1/s", 2), true),
            (most("61/m", 2), most("1/s", 2), false),
            (most("1/s", 3), most("1/s", 2), false),
            (Most::Connections(1), Most::Connections(2), true),
            (Most::Connections(3), Most::Connections(2), false),
            (Most::Connections(1), most("1/s", 2), false),
        ] {
            assert_eq!(is_within(&one, &other), expected, "{one:?} {other:?}");
        }
    }
}
