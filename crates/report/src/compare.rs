//! Compares the listings of several rounds, thing by thing. Pure: what was listed in, findings out.
//!
//! A thing that is there in every round is judged by its *rest*: its own size and content, with all
//! below it that is not there in every round. So a log that grows by an entry a request is named,
//! not its entries and not what leads to it, and each byte of growth belongs to one finding.

use std::collections::HashMap;

use crate::listing::{Listing, MEMORY, Node, Style};

/// What is wrong with a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It holds what an earlier request has brought.
    Foreign,
    /// It is larger after each round.
    Grows,
    /// It is another one after each round, and not larger.
    CarriesOver,
    /// A request has changed it for good.
    Stays,
    /// It was filled once; most likely a cache.
    FillsOnce,
    /// In sealed mode: it is not the same in each round.
    Differs,
    /// A warm-up request drew it: it is in the image, the same for every visitor.
    FrozenByWarmUp,
    /// The boot drew it.
    FrozenAtBoot,
}

impl Verdict {
    /// The verdict in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Foreign => "foreign",
            Verdict::Grows => "grows",
            Verdict::CarriesOver => "carries over",
            Verdict::Stays => "stays",
            Verdict::FillsOnce => "fills once",
            Verdict::Differs => "differs",
            Verdict::FrozenByWarmUp => "frozen by warm-up",
            Verdict::FrozenAtBoot => "frozen at boot",
        }
    }
}

/// One thing that something is wrong with.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong.
    pub verdict: Verdict,
    /// Kind of the thing, as `globals`.
    pub kind: String,
    /// Its name.
    pub path: String,
    /// Bytes in the last round, with all that it leads to; for objects and descriptors, how many.
    pub size: u64,
    /// How much of that comes with each request.
    pub per_request: f64,
    /// One of the things that have come with the last round.
    pub example: Option<String>,
    /// The name in `keep` under which Tokamak's worker mode resets it.
    pub reset: Option<&'static str>,
}

/// Kinds that requests should leave as they were at boot.
const STAYING: &[&str] = &[
    "handlers",
    "settings",
    "engine",
    "environment",
    "resources",
    "persistent resources",
    "descriptors",
    "process",
];

/// Kinds whose names come and go without harm to the next request.
const OPENED: &[&str] = &["resources", "persistent resources", "descriptors"];

/// What worker mode leaves, given the listing before the first request and those after the rounds.
pub fn leaks(before: &Listing, rounds: &[Listing], requests: usize) -> Vec<Finding> {
    let mut findings = compare(rounds, requests, false);
    findings.extend(changed_for_good(before, rounds, &findings));
    let Some(last) = rounds.last() else { return findings };
    let filled = compare_kinds(&[before, last], 1, true);
    let is_new = |found: &Finding| {
        !findings.iter().any(|known| known.kind == found.kind && known.path == found.path)
    };
    let filled: Vec<_> = filled
        .into_iter()
        .filter(|found| {
            found.kind != MEMORY && !STAYING.contains(&&found.kind[..]) && is_new(found)
        })
        .map(|found| Finding { verdict: Verdict::FillsOnce, per_request: 0.0, ..found })
        .collect();
    findings.extend(filled);
    sort(&mut findings);
    findings
}

/// What is not equal in all rounds of sealed mode.
pub fn differences(rounds: &[Listing]) -> Vec<Finding> {
    let mut findings = compare(rounds, 1, true);
    for finding in &mut findings {
        if finding.verdict != Verdict::Foreign {
            finding.verdict = Verdict::Differs;
        }
        finding.reset = None;
    }
    sort(&mut findings);
    findings
}

/// Kinds of things that the application itself keeps.
const KEPT: &[&str] = &["globals", "static properties", "function statics", "running functions"];

/// Boots without warm-up, and what the warm-up's requests make of one of them.
pub struct Plain<'a> {
    /// Two boots, before any request.
    pub boots: [&'a Listing; 2],
    /// The second one after the warm-up's requests, in the same process.
    pub played: &'a Listing,
}

impl Plain<'_> {
    /// Whether the boot drew a thing. Either the process that booted with it has it still after the
    /// warm-up's requests, or it differs between boots that had none. The first alone would accuse
    /// requests of what a boot draws and each request draws anew, the second alone of what two
    /// boots draw alike by chance: a die, the second of the clock.
    fn drawn_by_boot(&self) -> impl Fn(&Finding) -> bool {
        let by_path = |listing: &Listing| -> HashMap<(String, String), (u64, u64)> {
            let look = |id| (listing.path(id), (listing.node(id).whole, listing.node(id).total));
            (0..listing.len()).map(look).collect()
        };
        let (before, after) = (by_path(self.boots[1]), by_path(self.played));
        let at_boot = drawn(self.boots);
        move |found| {
            let place = (found.kind.clone(), found.path.clone());
            let is_kept = before.get(&place).is_some_and(|value| after.get(&place) == Some(value));
            is_kept || at_boot.iter().any(|f| (&f.kind, &f.path) == (&found.kind, &found.path))
        }
    }
}

/// What is in the image and another one at each boot: a token, a key, a time. Each visitor gets the
/// same. Boots without warm-up show which of them the boot drew, and which the warm-up.
pub fn frozen(plain: &Plain<'_>, warmed: [&Listing; 2]) -> Vec<Finding> {
    let is_of_boot = plain.drawn_by_boot();
    let mut findings: Vec<_> = drawn(warmed)
        .into_iter()
        .map(|found| {
            let by_boot = is_of_boot(&found);
            let verdict = if by_boot { Verdict::FrozenAtBoot } else { Verdict::FrozenByWarmUp };
            Finding { verdict, per_request: 0.0, example: None, reset: None, ..found }
        })
        .collect();
    sort(&mut findings);
    findings
}

/// What an application keeps, and is another one in each of two boots.
fn drawn(boots: [&Listing; 2]) -> Vec<Finding> {
    let found = compare_kinds(&boots, 1, true).into_iter();
    found
        .filter(|found| KEPT.contains(&&found.kind[..]) && !is_of_the_request(&found.path))
        .collect()
}

/// The time of the warm-up request, in a copy of its `$_SERVER`: each request brings its own.
fn is_of_the_request(path: &str) -> bool {
    path.ends_with("['REQUEST_TIME']") || path.ends_with("['REQUEST_TIME_FLOAT']")
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let largest = |f: &Finding| (f.per_request.abs() * 16.0) as u64;
        (a.verdict, largest(b), b.size, &a.path).cmp(&(b.verdict, largest(a), a.size, &b.path))
    });
}

fn compare(rounds: &[Listing], requests: usize, any: bool) -> Vec<Finding> {
    compare_kinds(&rounds.iter().collect::<Vec<_>>(), requests, any)
}

/// `any`: a single change is enough.
fn compare_kinds(rounds: &[&Listing], requests: usize, any: bool) -> Vec<Finding> {
    let mut comparison =
        Comparison { rounds, requests: requests.max(1), any, findings: Vec::new() };
    let Some(first) = rounds.first() else { return Vec::new() };
    for root in first.roots() {
        let name = &first.node(root).name;
        if let Some(same) =
            rounds.iter().map(|listing| listing.root(name)).collect::<Option<Vec<_>>>()
        {
            comparison.visit(&same);
        }
    }
    comparison.findings
}

struct Comparison<'a> {
    rounds: &'a [&'a Listing],
    requests: usize,
    any: bool,
    findings: Vec<Finding>,
}

impl<'a> Comparison<'a> {
    fn nodes(&self, same: &[usize]) -> Vec<&'a Node> {
        self.rounds.iter().zip(same).map(|(listing, id)| listing.node(*id)).collect()
    }

    /// Judges one thing, known by its number in each round, and all below it.
    fn visit(&mut self, same: &[usize]) {
        let nodes = self.nodes(same);
        let is_constant = nodes
            .windows(2)
            .all(|two| (two[0].whole, two[0].total) == (two[1].whole, two[1].total));
        if is_constant && !nodes.iter().any(|node| node.any_foreign) {
            return;
        }
        if is_replaced(&nodes) {
            let whole = |node: &&Node| Rest {
                size: node.total as i64,
                digest: node.whole,
                foreign: node.any_foreign,
            };
            let rest: Vec<Rest> = nodes.iter().map(whole).collect();
            let found = self.classify(same, &rest, None);
            return self.findings.extend(found);
        }
        let children: Vec<_> =
            self.rounds.iter().zip(same).map(|(listing, id)| listing.children(*id)).collect();
        let mut names: Vec<_> = children[0].keys().copied().collect();
        names.sort_unstable_by_key(|name| children[0][name]);
        let below = self.findings.len();
        let mut rest: Vec<Rest> = nodes.iter().map(|node| Rest::of(node)).collect();
        for name in names {
            let Some(child) =
                children.iter().map(|of| of.get(&name).copied()).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            for (rest, node) in rest.iter_mut().zip(self.nodes(&child)) {
                rest.size -= node.total as i64;
            }
            self.visit(&child);
        }
        for ((rest, listing), of) in rest.iter_mut().zip(self.rounds).zip(&children) {
            let others =
                of.iter().filter(|(name, _)| !children.iter().all(|of| of.contains_key(*name)));
            for (_, id) in others {
                let node = listing.node(*id);
                rest.foreign |= node.any_foreign;
                // Values at the same key may be compared, those at new keys are distinguished by
                // the table's own digest.
                rest.digest = rest.digest.wrapping_add(node.whole);
            }
        }
        let found = self.classify(same, &rest, self.example(&children));
        if found.as_ref().is_some_and(|found| found.verdict == Verdict::Foreign) {
            // Named once: its older parts say nothing new.
            let of_children = self.findings.split_off(below);
            let says_more = |f: &Finding| f.verdict != Verdict::Foreign || f.per_request > 0.0;
            self.findings.extend(of_children.into_iter().filter(says_more));
        }
        self.findings.extend(found);
    }

    /// The newest of the things that were not there before.
    fn example(&self, children: &[HashMap<(Style, &str), usize>]) -> Option<String> {
        let (last, before) = children.split_last()?;
        let new =
            last.iter().filter(|(name, _)| !before.last().is_some_and(|of| of.contains_key(*name)));
        let (_, id) = new.max_by_key(|(_, id)| **id)?;
        Some(self.rounds.last()?.path(*id).1)
    }

    fn classify(&self, same: &[usize], rest: &[Rest], example: Option<String>) -> Option<Finding> {
        let (first, last, id) = (rest.first()?, rest.last()?, same.last()?);
        let steps = rest.len().saturating_sub(1);
        let count = |is: fn(&Rest, &Rest) -> bool| {
            rest.windows(2).filter(|two| is(&two[0], &two[1])).count()
        };
        let rises = count(|a, b| b.size > a.size);
        let changes = count(|a, b| (a.size, a.digest) != (b.size, b.digest));
        let listing = self.rounds[self.rounds.len() - 1];
        let (kind, path) = listing.path(*id);
        // Numbers of bytes go up and down; only their growth says something.
        let is_number = kind == MEMORY || kind == "objects";
        let is_change =
            if self.any { changes > 0 } else { changes * 2 >= steps.max(1) && !is_number };
        let verdict = if last.foreign {
            Verdict::Foreign
        } else if steps > 0 && rises * 10 >= steps * 9 && last.size > first.size {
            Verdict::Grows
        } else if is_change {
            Verdict::CarriesOver
        } else {
            return None;
        };
        let requests = (steps.max(1) * self.requests) as f64;
        let per_request = (last.size - first.size).max(0) as f64 / requests;
        let reset = reset_of(&kind, &path);
        let size = listing.node(*id).total;
        Some(Finding { verdict, kind, path, size, per_request, example, reset })
    }
}

/// Whether the object at this place is another one in most rounds: its parts would only repeat
/// that.
fn is_replaced(nodes: &[&Node]) -> bool {
    let changes = nodes.windows(2).filter(|two| two[0].handle != two[1].handle).count();
    nodes.iter().all(|node| node.handle != 0) && changes * 2 >= nodes.len()
}

/// What a thing has by itself in one round.
struct Rest {
    size: i64,
    digest: u64,
    foreign: bool,
}

impl Rest {
    /// What is there in every round is taken away from it later.
    fn of(node: &Node) -> Rest {
        Rest { size: node.total as i64, digest: node.digest, foreign: node.foreign }
    }
}

/// What is not as it was before the first request, and is no other finding.
fn changed_for_good(before: &Listing, rounds: &[Listing], known: &[Finding]) -> Vec<Finding> {
    let Some(last) = rounds.last() else { return Vec::new() };
    let mut findings = Vec::new();
    let mut find = |listing: &Listing, id: usize, gone: bool| {
        let (kind, path) = listing.path(id);
        if known.iter().any(|found| found.kind == kind && found.path.starts_with(&path)) {
            return;
        }
        let size = if gone { 0 } else { listing.node(id).total };
        let reset = reset_of(&kind, &path);
        let path = if gone { format!("{path} (gone)") } else { path };
        findings.push(Finding {
            verdict: Verdict::Stays,
            kind,
            path,
            size,
            per_request: 0.0,
            example: None,
            reset,
        });
    };
    for kind in STAYING {
        // Those that were opened before the look began belong to the same leak.
        if OPENED.contains(kind)
            && known.iter().any(|found| found.kind == *kind && found.path.is_empty())
        {
            continue;
        }
        let (Some(old), Some(new)) = (before.root(kind), last.root(kind)) else { continue };
        let (was, is) = (before.children(old), last.children(new));
        for (name, id) in &is {
            let same =
                was.get(name).is_some_and(|old| before.node(*old).whole == last.node(*id).whole);
            // What is new in each round is growth, or an exchange.
            let stays = rounds.iter().all(|round| {
                round.root(kind).is_some_and(|r| round.children(r).contains_key(name))
            });
            if !same && stays {
                find(last, *id, false);
            }
        }
        if !OPENED.contains(kind) {
            was.iter()
                .filter(|(name, _)| !is.contains_key(*name))
                .for_each(|(_, id)| find(before, *id, true));
        }
    }
    findings
}

/// The name in `keep` of what worker mode resets.
fn reset_of(kind: &str, path: &str) -> Option<&'static str> {
    match (kind, path.split(['[', ' ']).next().unwrap_or("")) {
        ("settings", _) => Some("ini"),
        ("handlers", _) => Some("error_handlers"),
        ("environment", _) => Some("env"),
        ("engine", "locale") => Some("locale"),
        ("engine", "timezone") => Some("timezone"),
        ("engine", "session") => Some("session"),
        ("engine", name) if name.starts_with("mb_") => Some("encodings"),
        ("process", "cwd") => Some("cwd"),
        ("process", "umask") => Some("umask"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
