//! The headers of locations. nginx sends those of the one location that it has chosen for what
//! answers in the end: after `try_files`, index files and rewrites. So they become rules by the
//! path of what answers, in the order in which nginx chooses, each of which is the last that holds.

use crate::model::{Headers, Rule, Scope, Site};
use crate::source::Place;

use super::block::{Block, Expires, Header};
use super::matcher::Match;

/// A location, and what it sends.
#[derive(Clone, Debug)]
pub(super) struct Region {
    place: Place,
    found: Match,
    /// The prefix that it stands in, if it is an expression.
    parent: Option<String>,
    /// The prefixes that it stands in, if it is one itself: the innermost comes first.
    around: Vec<String>,
    /// The expressions that it stands in, which have to fit, too.
    outer: Vec<String>,
    sent: Sent,
}

/// Header fields, and how long responses may be kept.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    headers: Vec<Header>,
    expires: Option<Expires>,
}

impl Sent {
    fn of(block: &Block) -> Sent {
        Sent { headers: block.headers.clone(), expires: block.expires.clone() }
    }
}

impl Region {
    pub(super) fn of(place: &Place, found: &Match, block: &Block) -> Region {
        let (place, found) = (place.clone(), found.clone());
        let (parent, around, outer) = (None, Vec::new(), Vec::new());
        Region { place, found, parent, around, outer, sent: Sent::of(block) }
    }

    /// The same within a location with a prefix.
    pub(super) fn within(mut self, prefix: &str) -> Region {
        if self.prefix().is_some() {
            self.around.push(prefix.to_owned());
        }
        Region { parent: self.parent.or_else(|| Some(prefix.to_owned())), ..self }
    }

    /// The same within a location with an expression.
    pub(super) fn also(mut self, outer: &str) -> Region {
        self.outer.push(outer.to_owned());
        self
    }

    /// Whether it is the region of this location, and stands in no other expression.
    pub(super) fn is_of(&self, found: &Match) -> bool {
        self.found == *found && self.outer.is_empty()
    }

    /// The paths that it is for, wherever it stands.
    fn scope(&self) -> Scope {
        let mut scope = self.found.scope();
        scope.and.extend(self.outer.iter().cloned());
        scope
    }

    fn prefix(&self) -> Option<(&str, bool)> {
        match &self.found {
            Match::Prefix(path, is_final) => Some((path, *is_final)),
            _ => None,
        }
    }

    fn is_pattern_in(&self, parent: Option<&str>) -> bool {
        matches!(self.found, Match::Pattern(_)) && self.parent.as_deref() == parent
    }
}

/// Writes the headers of a site whose own block is `block`. `moved`: the paths that this block
/// redirects, before nginx chooses a location.
pub(super) fn write_headers(
    place: &Place,
    regions: &[Region],
    moved: &[Scope],
    block: &Block,
    site: &mut Site,
) {
    let own = Sent::of(block);
    if regions.iter().all(|region| region.sent == own) {
        if site.owns_headers {
            site.rules.extend(rules(place, &Scope::default(), &own));
        }
        return;
    }
    site.owns_headers = true;
    for mount in site.mounts.iter_mut().filter(|mount| !mount.owns_headers) {
        mount.owns_headers = true;
        mount.rules.extend(rules(place, &Scope::default(), &own));
    }
    let mut order: Vec<_> = moved.iter().map(|scope| (place, scope.clone(), &own)).collect();
    order.extend(self::order(regions));
    order.push((place, Scope::default(), &own));
    // The last ones may all send what is sent anyway.
    while order.len() > 1 && order[order.len() - 2].2 == &own {
        order.remove(order.len() - 2);
    }
    for (place, scope, sent) in order {
        let mut rules = rules(place, &scope, sent);
        if rules.is_empty() {
            rules.push(Rule::at(place, scope));
        }
        rules.iter_mut().for_each(|rule| rule.of_answer = true);
        rules.last_mut().into_iter().for_each(|rule| rule.is_last = true);
        site.rules.extend(rules);
    }
}

/// The paths of the regions, in the order in which nginx asks: what fits first is chosen.
///
/// The longest prefix decides whether expressions are asked, and which ones: those within it, then
/// those beside it, unless it says `^~`, and so on with each prefix that it stands in. Where no
/// prefix says anything of that, the expressions come once before all prefixes.
fn order(regions: &[Region]) -> Vec<(&Place, Scope, &Sent)> {
    let whole = Region::scope;
    let exact = regions.iter().filter(|region| matches!(region.found, Match::Exact(_)));
    let mut order: Vec<(&Region, Scope)> = exact.map(|region| (region, whole(region))).collect();
    let mut prefixes: Vec<(&Region, &str, bool)> = regions
        .iter()
        .filter_map(|region| region.prefix().map(|(path, is_final)| (region, path, is_final)))
        .collect();
    prefixes.sort_by_key(|(_, path, _)| std::cmp::Reverse(path.len()));
    let is_special = |path: &str| {
        prefixes.iter().any(|(_, other, is_final)| {
            path.starts_with(other) && (*is_final || patterns_in(regions, Some(other)).count() > 0)
        })
    };
    let (special, plain): (Vec<_>, Vec<_>) =
        prefixes.iter().partition(|(_, path, _)| is_special(path));
    let is_final = |path: &str| prefixes.iter().any(|(_, own, is_final)| *own == path && *is_final);
    for &(region, path, _) in special {
        let below = |inner| {
            let path = (path != "/").then(|| format!("{path}*"));
            (inner, Scope { path, ..whole(inner) })
        };
        order.extend(patterns_in(regions, Some(path)).map(below));
        let mut inner = path;
        for outer in region.around.iter().map(|it| Some(&**it)).chain([None]) {
            if !is_final(inner) {
                order.extend(patterns_in(regions, outer).map(below));
            }
            inner = outer.unwrap_or_default();
        }
        order.push((region, whole(region)));
    }
    order.extend(patterns_in(regions, None).map(|region| (region, whole(region))));
    order.extend(plain.iter().map(|(region, _, _)| (*region, whole(region))));
    order.into_iter().map(|(region, scope)| (&region.place, scope, &region.sent)).collect()
}

/// The expressions that stand within a prefix, or beside all.
fn patterns_in<'a>(
    regions: &'a [Region],
    parent: Option<&str>,
) -> impl Iterator<Item = &'a Region> {
    regions.iter().filter(move |it| it.is_pattern_in(parent))
}

/// What a location sends, as rules for a scope.
fn rules(place: &Place, scope: &Scope, sent: &Sent) -> Vec<Rule> {
    let mut rules = Vec::new();
    let place = sent.headers.first().map_or(place, |header| &header.place);
    let is_cache_control = |header: &&Header| header.name.eq_ignore_ascii_case("cache-control");
    if let Some(expires) = &sent.expires {
        let mut rule = Rule::at(place, scope.clone());
        let more = sent.headers.iter().filter(is_cache_control);
        let more: String = more.map(|header| format!(", {}", header.value)).collect();
        match expires {
            Expires::Never => rule.headers.cache_control = Some(format!("no-cache{more}")),
            Expires::Seconds(seconds) => {
                rule.headers.cache_control = Some(format!("max-age={seconds}{more}"));
                // A rule's longest time; `max-age` counts for all newer browsers.
                rule.headers.expires = Some(*seconds).filter(|seconds| *seconds <= 365 * 86_400);
            }
        }
        rules.push(rule);
    }
    let own = sent.headers.iter().filter(|it| sent.expires.is_none() || !is_cache_control(it));
    for header in own {
        // One table has a name once; what is added twice stands in two.
        let takes = |rule: &&mut Rule| {
            let changes = &rule.headers;
            let is_same = |name: &String| name.eq_ignore_ascii_case(&header.name);
            changes.cache_control.is_none()
                && changes.always == header.always
                && !changes.add.keys().any(is_same)
        };
        let (name, value) = (header.name.clone(), header.value.clone());
        match rules.iter_mut().find(takes) {
            Some(rule) => drop(rule.headers.add.insert(name, value)),
            None => {
                let headers = Headers { always: header.always, ..Headers::default() };
                let mut rule = Rule { headers, ..Rule::at(place, scope.clone()) };
                rule.headers.add.insert(name, value);
                rules.push(rule);
            }
        }
    }
    rules
}

/// The header fields of scripts that are not passed on.
pub(super) fn hidden_headers(place: &Place, block: &Block) -> Option<Rule> {
    let mut rule = Rule::at(place, Scope::default());
    rule.headers.remove.clone_from(&block.hidden_headers);
    (!block.hidden_headers.is_empty()).then_some(rule)
}
