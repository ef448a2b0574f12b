//! The purges, in the order of the stream.

use std::collections::VecDeque;

use tokamak_cache::{Key, Purge};
use tokamak_outbound::redis::streams;

/// A position in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64, u64);

impl Position {
    /// Size of its binary form.
    pub const SIZE: usize = 16;

    /// Parses the form of Redis.
    pub fn parse(text: &[u8]) -> Option<Position> {
        let (time, number) = str::from_utf8(text).ok()?.split_once('-')?;
        Some(Position(time.parse().ok()?, number.parse().ok()?))
    }

    /// The form of Redis.
    pub fn text(self) -> Vec<u8> {
        format!("{}-{}", self.0, self.1).into_bytes()
    }

    /// The binary form, which stored responses contain.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.0.to_be_bytes(), self.1.to_be_bytes()].concat()
    }

    /// Reads the binary form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Position> {
        let (time, number) = bytes.split_at_checked(8)?;
        Some(Position(
            u64::from_be_bytes(time.try_into().ok()?),
            u64::from_be_bytes(number.try_into().ok()?),
        ))
    }
}

/// Encodes a purge for the stream.
pub fn to_bytes(purge: &Purge) -> Vec<u8> {
    match purge {
        Purge::All => b"a".to_vec(),
        Purge::Key(key) => [b"k", &key[..]].concat(),
        Purge::Prefix(start) => [b"p", &start[..]].concat(),
        Purge::Tag(tag) => [b"t", tag.as_bytes()].concat(),
    }
}

/// Decodes a purge. Bytes that cannot be decoded, as from a newer version, count as a purge of
/// everything.
fn from_bytes(bytes: &[u8]) -> Purge {
    match bytes {
        [b'k', key @ ..] => Purge::Key(key.to_vec()),
        [b'p', start @ ..] => Purge::Prefix(start.to_vec()),
        [b't', tag @ ..] => {
            str::from_utf8(tag).map_or(Purge::All, |tag| Purge::Tag(tag.to_owned()))
        }
        _ => Purge::All,
    }
}

/// A purge, and where it stands in the stream.
pub type PurgeEntry = (Position, Purge);

/// The purges in entries of the stream.
pub fn of_entries(entries: Vec<streams::StreamEntry>) -> Vec<PurgeEntry> {
    let entry = |entry: streams::StreamEntry| {
        let what = entry.fields.first().map_or(Purge::All, |(_, what)| from_bytes(what));
        Some((Position::parse(&entry.id)?, what))
    };
    entries.into_iter().filter_map(entry).collect()
}

/// The part of the stream that a node has read.
#[derive(Default)]
pub struct Log {
    /// How far it has read; `None` while it cannot.
    position: Option<Position>,
    /// How far it had read when it lost the stream.
    lost: Option<Position>,
    /// The purges before this position are not known.
    floor: Position,
    /// The purges, the newest last.
    purges: VecDeque<PurgeEntry>,
    /// Purges of this node that it has not read back yet, the newest last.
    own: Vec<Own>,
    /// How many purges this node has had.
    announced: u64,
}

/// A purge of this node, on its way into the stream.
#[derive(Clone)]
pub struct Own {
    number: u64,
    pub outgoing: Outgoing,
    /// Its position, once the server has it.
    id: Option<Position>,
}

impl Own {
    /// Whether it is for a response that was asked for at that position.
    fn is_for(&self, at: Position, key: &[u8], tags: &[Box<str>]) -> bool {
        self.id.is_none_or(|id| at < id)
            && match &self.outgoing {
                Outgoing::Invalidate(own) => Key::is_of(key, own),
                Outgoing::Purge(what) => is_for(what, key, tags),
            }
    }
}

/// A purge for the other nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A request has changed what is stored under this key.
    Invalidate(Vec<u8>),
    /// A script or the operator wants this purged.
    Purge(Purge),
}

impl Log {
    /// How far the node has read; `None` if it cannot.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Records that the stream cannot be read.
    pub fn lose(&mut self) {
        self.lost = self.position.take().or(self.lost);
    }

    /// Records a purge of this node, which counts from now on. If more than `most` wait for the
    /// server, which has been away for long, they become one purge of everything.
    pub fn announce(&mut self, outgoing: Outgoing, most: usize) {
        let outgoing = if self.unsent().count() < most {
            outgoing
        } else {
            self.own.retain(|own| own.id.is_some());
            Outgoing::Purge(Purge::All)
        };
        self.announced += 1;
        self.own.push(Own { number: self.announced, outgoing, id: None });
    }

    /// The purges that have to be sent.
    pub fn unsent(&self) -> impl Iterator<Item = &Own> {
        self.own.iter().filter(|own| own.id.is_none())
    }

    /// Records that the server has a purge of this node. It has no position if nobody else had what
    /// it is for.
    pub fn sent(&mut self, own: &Own, id: Option<Position>) {
        // If it was read back before this call, it has been carried out twice, which is harmless.
        let waits = id.filter(|id| self.position.is_some_and(|position| position < *id));
        self.own.retain_mut(|kept| {
            if kept.number == own.number {
                kept.id = waits;
            }
            kept.number != own.number || waits.is_some()
        });
    }

    /// Adds new entries, and returns the purges to carry out.
    pub fn append(&mut self, entries: Vec<PurgeEntry>, most: usize) -> Vec<Purge> {
        let mut due = Vec::new();
        for (id, what) in entries {
            self.position = self.position.max(Some(id));
            if !self.own.iter().any(|own| own.id == Some(id)) {
                due.push(what.clone());
            }
            self.purges.push_back((id, what));
        }
        while self.purges.len() > most {
            self.floor = self.purges.pop_front().map_or(self.floor, |(id, _)| id);
        }
        if let Some(position) = self.position {
            self.own.retain(|own| own.id.is_none_or(|id| id > position));
        }
        due
    }

    /// Takes the whole stream, and returns the purges to carry out. If there are `most` entries,
    /// older ones may be missing.
    pub fn load(&mut self, entries: Vec<PurgeEntry>, most: usize) -> Vec<Purge> {
        self.floor = if entries.len() < most { Position::default() } else { entries[0].0 };
        self.position = Some(entries.last().map(|(id, _)| *id).or(self.lost).unwrap_or_default());
        self.own.retain(|own| own.id.is_none());
        let since = self.lost.take();
        let due = match since {
            // The node has just started, so its cache has nothing to purge.
            None => Vec::new(),
            Some(since) if since < self.floor => vec![Purge::All],
            Some(since) => {
                entries.iter().filter(|(id, _)| *id > since).map(|(_, what)| what.clone()).collect()
            }
        };
        self.purges = entries.into();
        due
    }

    /// Whether a response that was asked for at that position has been purged since. Purges of this
    /// node count although the server may not have them yet: their visitors must not get from it
    /// what they have just changed.
    pub fn has_purged(&self, at: Position, key: &Key, tags: &[Box<str>]) -> bool {
        let since = self.purges.iter().rev().take_while(|(id, _)| *id > at);
        at < self.floor
            || since.into_iter().any(|(_, what)| is_for(what, key.bytes(), tags))
            || self.own.iter().any(|own| own.is_for(at, key.bytes(), tags))
    }
}

fn is_for(what: &Purge, key: &[u8], tags: &[Box<str>]) -> bool {
    match what {
        Purge::All => true,
        Purge::Key(own) => Key::is_of(key, own),
        Purge::Prefix(start) => key.starts_with(start),
        Purge::Tag(tag) => tags.iter().any(|own| **own == **tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Position {
        Position(number, 0)
    }

    fn tag(number: u64, name: &str) -> PurgeEntry {
        (at(number), Purge::Tag(name.to_owned()))
    }

    #[test]
    fn what_was_asked_for_before_a_purge_does_not_count() {
        let mut log = Log::default();
        assert_eq!(log.load(vec![tag(5, "a"), tag(7, "b")], 10), []);
        assert_eq!(log.append(vec![tag(9, "c")], 10), [Purge::Tag("c".into())]);
        let key = Key::of(b"h/x");
        for (number, tags, forgets) in [
            (4, &["a"][..], true),
            (5, &["a"], false),
            (5, &["x", "b"], true),
            (7, &["c"], true),
            (9, &["a", "b", "c"], false),
            (0, &[], false),
        ] {
            let tags: Vec<Box<str>> = tags.iter().map(|tag| (*tag).into()).collect();
            assert_eq!(log.has_purged(at(number), &key, &tags), forgets, "{number} {tags:?}");
        }
        log.append(
            vec![(at(10), Purge::Prefix(b"h/".to_vec())), (at(11), Purge::Key(b"h/y".to_vec()))],
            10,
        );
        assert!(log.has_purged(at(9), &key, &[]) && !log.has_purged(at(10), &key, &[]));
        assert!(log.has_purged(at(10), &Key::of(b"h/y"), &[]));
    }

    /// Announces a purge of this node, and returns it.
    fn announced(log: &mut Log, outgoing: Outgoing) -> Own {
        log.announce(outgoing, 10);
        log.own.last().unwrap().clone()
    }

    #[test]
    fn a_node_does_not_repeat_its_own_purges() {
        let mut log = Log::default();
        log.load(Vec::new(), 10);
        let own = announced(&mut log, Outgoing::Purge(Purge::Tag("own".into())));
        log.sent(&own, Some(at(3)));
        assert_eq!(log.append(vec![tag(2, "x"), tag(3, "own"), tag(4, "y")], 10).len(), 2);
        let own = announced(&mut log, Outgoing::Purge(Purge::Tag("own".into())));
        log.sent(&own, Some(at(4)));
        assert!(log.own.is_empty(), "it has been read already");
    }

    #[test]
    fn what_a_node_purges_itself_counts_before_the_server_has_it() {
        let mut log = Log::default();
        log.load(vec![tag(5, "a")], 10);
        let (key, other) = (Key::of(b"h/x"), Key::of(b"h/y"));
        let own = announced(&mut log, Outgoing::Invalidate(b"h/x".to_vec()));
        assert!(log.has_purged(at(5), &key, &[]) && !log.has_purged(at(5), &other, &[]));
        // Sent, but not read back. What a node that has read it asks for afterwards is good.
        log.sent(&own, Some(at(7)));
        assert!(log.has_purged(at(6), &key, &[]) && !log.has_purged(at(7), &key, &[]));
        log.append(vec![(at(7), Purge::Key(b"h/x".to_vec()))], 10);
        assert!(log.has_purged(at(6), &key, &[]) && log.own.is_empty());
        // No other node had it.
        let own = announced(&mut log, Outgoing::Invalidate(b"h/y".to_vec()));
        log.sent(&own, None);
        assert!(!log.has_purged(at(7), &other, &[]));
        // One that could not be sent outlives the connection.
        announced(&mut log, Outgoing::Purge(Purge::Tag("b".into())));
        log.lose();
        log.load(vec![tag(8, "c")], 10);
        assert!(log.has_purged(at(8), &key, &["b".into()]) && log.unsent().count() == 1);
    }

    #[test]
    fn too_many_purges_that_wait_become_one_of_everything() {
        let mut log = Log::default();
        log.load(Vec::new(), 10);
        for number in 0..3 {
            log.announce(Outgoing::Invalidate(vec![number]), 3);
        }
        let first = log.unsent().next().unwrap().clone();
        log.announce(Outgoing::Invalidate(b"h/x".to_vec()), 3);
        let outgoing: Vec<_> = log.unsent().map(|own| own.outgoing.clone()).collect();
        assert_eq!(outgoing, [Outgoing::Purge(Purge::All)]);
        // The answer to one that was under way does not stand for it.
        log.sent(&first, Some(at(1)));
        assert_eq!(log.unsent().count(), 1);
    }

    #[test]
    fn a_node_that_was_away_does_what_it_has_missed() {
        let mut log = Log::default();
        log.load(vec![tag(5, "a")], 10);
        log.lose();
        assert_eq!(log.position(), None);
        log.lose();
        assert_eq!(log.load(vec![tag(5, "a"), tag(6, "b")], 10), [Purge::Tag("b".into())]);
        log.lose();
        assert_eq!(
            log.load(vec![tag(8, "c"), tag(9, "d")], 2),
            [Purge::All],
            "it cannot know what else"
        );
        assert!(
            log.has_purged(at(7), &Key::of(b"h/x"), &[])
                && !log.has_purged(at(9), &Key::of(b"h/x"), &[])
        );
        // The server has been emptied.
        log.lose();
        assert_eq!(log.load(Vec::new(), 2), []);
        assert_eq!(log.position(), Some(at(9)));
    }

    #[test]
    fn purges_are_written_and_read() {
        for purge in [
            Purge::All,
            Purge::Key(b"h/\xff".to_vec()),
            Purge::Prefix(b"".to_vec()),
            Purge::Tag("ü".into()),
        ] {
            assert_eq!(from_bytes(&to_bytes(&purge)), purge);
        }
        for strange in [&b""[..], b"z", b"t\xff"] {
            assert_eq!(from_bytes(strange), Purge::All);
        }
        let position = Position(1_700_000_000_000, 3);
        assert_eq!(Position::parse(&position.text()), Some(position));
        assert_eq!(Position::from_bytes(&position.to_bytes()), Some(position));
        assert_eq!(Position::parse(b"x-1"), None);
    }

    #[test]
    fn entries_are_read() {
        let entry = |id: &str, what: &[&str]| {
            let fields = what.iter().map(|what| (b"what".to_vec(), what.as_bytes().to_vec()));
            streams::StreamEntry { id: id.into(), fields: fields.collect() }
        };
        let entries = vec![entry("1-0", &["a"]), entry("x", &["a"]), entry("2-1", &["kx"])];
        let expected = [(Position(1, 0), Purge::All), (Position(2, 1), Purge::Key(b"x".to_vec()))];
        assert_eq!(of_entries(entries), expected);
        assert_eq!(of_entries(vec![entry("3-0", &[])]), [(Position(3, 0), Purge::All)]);
    }
}
