//! `limit_req_zone` and `limit_conn_zone`: where clients are counted, and in how many places.

use std::collections::BTreeMap;

use crate::directive::Directive;

/// The greatest number of a limit, as `tokamak check` has it.
pub(super) const GREATEST: u32 = 1_000_000;

/// A zone, in which clients are counted.
#[derive(Debug)]
pub(super) struct Zone {
    /// Whether a client is an address.
    pub is_by_address: bool,
    /// As `rate` of a rule.
    pub rate: Option<String>,
    /// How many places count in it.
    pub uses: usize,
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
        if matches!(&*directive.name, "limit_req" | "limit_conn")
            && let Some(zone) = zones.get_mut(zone_of(directive))
        {
            zone.uses += times * servers.max(1);
        }
        count(directive.inner(), times, zones);
    }
}

/// Whether a zone distinguishes clients by their addresses.
pub(super) fn is_by_address(zone: &Directive) -> bool {
    matches!(zone.arg(0), "$binary_remote_addr" | "$remote_addr")
}

pub(super) fn value<'a>(directive: &'a Directive, name: &str) -> Option<&'a str> {
    directive.args.iter().find_map(|arg| arg.strip_prefix(name))
}

pub(super) fn zone_of(directive: &Directive) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_rules() {
        let rates = ["5r/s", "0r/s", "1r/h", "1", "9999999r/s"].map(rate);
        assert_eq!(rates, [Some("5/s".to_owned()), None, None, None, None]);
    }
}
