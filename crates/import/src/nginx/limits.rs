//! `limit_req` and `limit_conn` as limits of rules. They guard nothing, so what is not translated
//! of them is left out.
//!
//! nginx counts in the one location that answers, after rewrites, also for what leads there by
//! itself. Here a limit is for the paths that clients ask for. Where both are not the same, the
//! limit is left out.

use std::collections::BTreeMap;

use crate::directive::Directive;
use crate::model::{Limit, Most, Rule, Scope, Site};
use crate::source::Place;

use super::Reader;
use super::block::Block;
use super::location::{Locations, Match, describe};
use super::sizes;

/// The greatest number of a limit, as `tokamak check` has it.
const GREATEST: u32 = 1_000_000;

/// Both kinds of limits.
const NAMES: [&str; 2] = ["limit_req", "limit_conn"];

/// A zone, in which clients are counted.
#[derive(Debug)]
pub(super) struct Zone {
    /// Whether a client is an address.
    is_by_address: bool,
    /// As `rate` of a rule.
    rate: Option<String>,
    /// How many places count in it.
    uses: usize,
}

/// The zones of a configuration by their names.
pub(super) fn zones(directives: &[Directive]) -> BTreeMap<String, Zone> {
    let mut zones = BTreeMap::new();
    find(directives, &mut zones);
    count(directives, 1, &mut zones);
    zones
}

fn find(directives: &[Directive], zones: &mut BTreeMap<String, Zone>) {
    for directive in directives {
        if matches!(&*directive.name, "limit_req_zone" | "limit_conn_zone") {
            let zone = value(directive, "zone=").and_then(|zone| zone.split(':').next());
            let zone = zone.unwrap_or_default().to_owned();
            let rate = value(directive, "rate=").and_then(rate);
            zones.insert(zone, Zone { is_by_address: is_by_address(directive), rate, uses: 0 });
        }
        find(directive.inner(), zones);
    }
}

/// Counts the places of each zone. What stands around servers holds in each of them.
fn count(directives: &[Directive], times: usize, zones: &mut BTreeMap<String, Zone>) {
    let servers = directives.iter().filter(|it| it.name == "server" && it.block.is_some()).count();
    for directive in directives {
        if NAMES.contains(&&*directive.name)
            && let Some(zone) = zones.get_mut(zone_of(directive))
        {
            zone.uses += times * servers.max(1);
        }
        count(directive.inner(), times, zones);
    }
}

/// Whether a zone tells clients by their addresses.
pub(super) fn is_by_address(zone: &Directive) -> bool {
    matches!(zone.arg(0), "$binary_remote_addr" | "$remote_addr")
}

fn value<'a>(directive: &'a Directive, name: &str) -> Option<&'a str> {
    directive.args.iter().find_map(|arg| arg.strip_prefix(name))
}

fn zone_of(directive: &Directive) -> &str {
    match &*directive.name {
        "limit_conn" => directive.arg(0),
        _ => value(directive, "zone=").unwrap_or_default(),
    }
}

/// `10r/s` as a rule has it.
fn rate(text: &str) -> Option<String> {
    let (requests, unit) = text.split_once("r/")?;
    let requests: u32 = requests.parse().ok().filter(|it| (1..=GREATEST).contains(it))?;
    matches!(unit, "s" | "m").then(|| format!("{requests}/{unit}"))
}

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

impl Locations {
    /// A location that nginx prefers for some of the paths of another one, and that is not quiet.
    pub(super) fn rival(
        &self,
        found: &Match,
        is_also_quiet: &dyn Fn(&[Directive]) -> bool,
    ) -> Option<&Match> {
        let own = self.all.iter().position(|(_, other, _)| other == found);
        let is_preferred = |(at, (_, other, directives)): &(usize, &Item)| {
            if Some(*at) == own || is_quiet(other, directives) || is_also_quiet(directives) {
                return false;
            }
            let meets = || found.scope().may_meet(&other.scope());
            match (found, other) {
                (Match::Exact(_), _) => false,
                (Match::Prefix(path, _), Match::Exact(inner) | Match::Prefix(inner, _)) => {
                    inner.starts_with(path.as_str()) && inner != path
                }
                (Match::Prefix(_, is_final), Match::Pattern(_)) => !is_final && meets(),
                (Match::Pattern(_), Match::Exact(path)) => found.scope().fits(path),
                (Match::Pattern(_), Match::Prefix(_, is_final)) => *is_final && meets(),
                (Match::Pattern(_), Match::Pattern(_)) => Some(*at) < own && meets(),
            }
        };
        let mut all = self.all.iter().enumerate();
        all.find(|it| is_preferred(it)).map(|(_, (_, other, _))| other)
    }
}

type Item = (Place, Match, Vec<Directive>);

/// Whether it makes no difference that requests for a location are counted, too: it refuses them,
/// or it is a single file that is asked for now and then.
fn is_quiet(found: &Match, directives: &[Directive]) -> bool {
    const SILENT: [&str; 4] = ["access_log", "log_not_found", "allow", "deny"];
    let refuses = directives.iter().any(|it| match &*it.name {
        "deny" => it.arg(0) == "all",
        "return" => it.arg(0).starts_with('4'),
        _ => false,
    });
    let is_silent = |it: &Directive| SILENT.contains(&&*it.name);
    let is_file = matches!(found, Match::Exact(_)) && directives.iter().all(is_silent);
    is_file || refuses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared() {
        let most = |text: &str, burst| Most::Rate { rate: rate(text).unwrap(), burst };
        for (one, other, expected) in [
            (most("1r/s", 2), most("10r/s", 2), true),
            (most("60r/m", 2), most("1r/s", 2), true),
            (most("61r/m", 2), most("1r/s", 2), false),
            (most("1r/s", 3), most("1r/s", 2), false),
            (Most::Connections(1), Most::Connections(2), true),
            (Most::Connections(3), Most::Connections(2), false),
            (Most::Connections(1), most("1r/s", 2), false),
        ] {
            assert_eq!(is_within(&one, &other), expected, "{one:?} {other:?}");
        }
        assert_eq!(
            [rate("0r/s"), rate("1r/h"), rate("1"), rate("9999999r/s")],
            [const { None }; 4]
        );
    }
}
