//! The stacks of a profile as a tree: calls below their callers, equal ones together.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::profile::{By, Clock, OUTSIDE, Profile, Sample};

/// What a frame stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The whole profile, a site, a URL, a worker, or a request without a call.
    Group,
    /// Code of a file.
    Code,
    /// A function of PHP itself.
    Internal,
}

/// What distinguishes frames with the same caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The name to show.
    pub label: String,
    /// File and line; empty: none.
    pub place: String,
    pub kind: Kind,
}

/// A call with this caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub name: Name,
    /// 0: the whole profile.
    pub depth: usize,
    pub wall: u64,
    pub cpu: u64,
}

/// All frames, each before the calls that it makes, of which the one with most samples is first.
pub(crate) fn frames(profile: &Profile, by: &[By]) -> Vec<Frame> {
    let mut tree = Tree::default();
    for sample in &profile.samples {
        tree.add(names(profile, sample, by), sample);
    }
    tree.in_order()
}

/// Without the frames that have less than this part of all samples, by either clock. A frame has no
/// fewer samples than what it calls, so no call loses its caller.
pub(crate) fn without_small(mut frames: Vec<Frame>, part: f64) -> Vec<Frame> {
    let Some(&Frame { wall, cpu, .. }) = frames.first() else { return frames };
    let is_large = |count: u64, all: u64| count as f64 > all as f64 * part;
    frames.retain(|frame| is_large(frame.wall, wall) || is_large(frame.cpu, cpu));
    frames
}

fn names(profile: &Profile, sample: &Sample, by: &[By]) -> Vec<Name> {
    let group = |label: String| Name { label, place: String::new(), kind: Kind::Group };
    let mut names: Vec<_> = by.iter().map(|by| group(sample.root(*by))).collect();
    names.extend(sample.calls.iter().map(|call| {
        let call = &profile.calls[*call];
        let label = call.label().into_owned();
        match &call.file[..] {
            "" => Name { label, place: String::new(), kind: Kind::Internal },
            file => Name { label, place: format!("{file}:{}", call.line), kind: Kind::Code },
        }
    }));
    if sample.calls.is_empty() {
        names.push(group(OUTSIDE.to_owned()));
    }
    names
}

/// Nodes by number; the first one is the whole profile.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    wall: u64,
    cpu: u64,
    below: HashMap<Name, usize>,
}

impl Tree {
    fn add(&mut self, names: Vec<Name>, sample: &Sample) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        self.count(at, sample);
        for name in names {
            let new = self.nodes.len();
            at = *self.nodes[at].below.entry(name).or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
            self.count(at, sample);
        }
    }

    fn count(&mut self, at: usize, sample: &Sample) {
        self.nodes[at].wall += sample.count(Clock::Wall);
        self.nodes[at].cpu += sample.count(Clock::Cpu);
    }

    /// Not by a function that calls itself: the stacks of a profile may be deeper than ours.
    fn in_order(self) -> Vec<Frame> {
        let all = Name { label: "all".into(), place: String::new(), kind: Kind::Group };
        let mut next: Vec<_> = self.nodes.first().map(|_| (all, 0, 0)).into_iter().collect();
        let mut frames = Vec::new();
        while let Some((name, at, depth)) = next.pop() {
            let Node { wall, cpu, below } = &self.nodes[at];
            frames.push(Frame { name, depth, wall: *wall, cpu: *cpu });
            let mut below: Vec<_> = below.iter().collect();
            below.sort_by_key(|(name, at)| (Reverse(self.nodes[**at].wall), *name));
            let below = below.into_iter().rev();
            next.extend(below.map(|(name, at)| (name.clone(), *at, depth + 1)));
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{read, tests::TEXT};

    fn rows(frames: &[Frame]) -> Vec<(usize, &str, u64, u64)> {
        frames.iter().map(|f| (f.depth, &f.name.label[..], f.wall, f.cpu)).collect()
    }

    #[test]
    fn calls_are_below_their_callers() {
        let frames = frames(&read("default", TEXT).unwrap(), &[]);
        assert_eq!(
            rows(&frames),
            [
                (0, "all", 11, 9),
                (1, "/srv/index.php", 10, 8),
                (2, "App::hot", 8, 8),
                (2, "App\\{closure:app.php:9}", 2, 0),
                (3, "usleep", 2, 0),
                (1, "(no PHP call)", 1, 1),
            ]
        );
        assert_eq!(frames[2].name.place, "/srv/app.php:7");
        assert_eq!(frames[4].name.kind, Kind::Internal);
    }

    #[test]
    fn urls_and_workers_are_frames() {
        let frames = frames(&read("default", TEXT).unwrap(), &[By::Worker, By::Url]);
        let above: Vec<_> = rows(&frames).into_iter().filter(|row| row.0 < 3).collect();
        assert_eq!(
            above,
            [
                (0, "all", 11, 9),
                (1, "worker 7", 10, 8),
                (2, "/a", 8, 8),
                (2, "/b", 2, 0),
                (1, "worker 8", 1, 1),
                (2, "/a", 1, 1)
            ]
        );
    }

    #[test]
    fn small_frames_go_with_all_below_them() {
        let frames = frames(&read("default", TEXT).unwrap(), &[]);
        let left = without_small(frames, 0.15);
        let left: Vec<_> = rows(&left).into_iter().map(|row| row.1).collect();
        assert_eq!(
            left,
            ["all", "/srv/index.php", "App::hot", "App\\{closure:app.php:9}", "usleep"]
        );
    }

    #[test]
    fn a_stack_of_any_depth_is_a_tree() {
        let text = TEXT.replace("\t1 0 \n", &format!("\t{} 0 \n", "1 ".repeat(200_000)));
        let frames = frames(&read("default", &text).unwrap(), &[]);
        assert_eq!(frames.iter().map(|frame| frame.depth).max(), Some(200_001));
    }

    #[test]
    fn nothing_has_no_frames() {
        assert!(without_small(frames(&Profile::default(), &[]), 0.1).is_empty());
    }
}
