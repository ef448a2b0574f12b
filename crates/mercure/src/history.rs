//! The last updates, in their order: what subscribers get that come back, and what those have still
//! to get that are there. Old ones go when there are too many, or when they take too much memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::update::Update;

/// In place of an update's name: all that there are, or that none comes before.
pub const EARLIEST: &str = "earliest";

/// From where on a subscriber gets updates again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The number of the first update.
    pub from: u64,
    /// The name of the update before, or [`EARLIEST`].
    pub before: String,
}

/// The last updates. Each has a number, one more than that of the update before.
#[derive(Debug)]
pub struct History {
    updates: VecDeque<Arc<Update>>,
    /// The number of the first one that is kept.
    first: u64,
    /// Bytes that all of them take.
    weight: usize,
    most: usize,
    most_bytes: usize,
}

impl History {
    /// A history of at most so many updates and bytes, but always of the last update.
    pub fn new(most: usize, most_bytes: usize) -> History {
        History { updates: VecDeque::new(), first: 0, weight: 0, most: most.max(1), most_bytes }
    }

    /// Adds an update.
    pub fn push(&mut self, update: Update) {
        self.weight += update.weight();
        self.updates.push_back(Arc::new(update));
        while self.updates.len() > self.most
            || (self.weight > self.most_bytes && self.updates.len() > 1)
        {
            let Some(old) = self.updates.pop_front() else { return };
            self.weight -= old.weight();
            self.first += 1;
        }
    }

    /// The number of the first update that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next update.
    pub fn end(&self) -> u64 {
        self.first + self.updates.len() as u64
    }

    /// The update of this number, if it is kept.
    pub fn get(&self, number: u64) -> Option<&Arc<Update>> {
        let index = number.checked_sub(self.first)?;
        self.updates.get(usize::try_from(index).ok()?)
    }

    /// The updates from this number on, with their numbers.
    pub fn since(&self, from: u64) -> impl Iterator<Item = (u64, &Arc<Update>)> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        (self.first.max(from)..).zip(self.updates.iter().skip(skipped))
    }

    /// Where a subscriber goes on that has this update as its last. If there is no such update any
    /// more, with all that there are: it may have missed some before, and the name says so.
    pub fn after(&self, last: &str) -> Replay {
        let found = self.updates.iter().rposition(|update| update.id == last);
        match found.filter(|_| last != EARLIEST) {
            Some(index) => Replay { from: self.first + index as u64 + 1, before: last.into() },
            None => Replay { from: self.first, before: EARLIEST.into() },
        }
    }

    /// How many updates are kept, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.updates.len(), self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::Draft;

    fn update(id: &str, data: &str) -> Update {
        let draft = Draft { topics: vec!["/a".into()], data: data.into(), ..Draft::default() };
        Update::new(draft, || id.into())
    }

    fn ids(history: &History, from: u64) -> Vec<String> {
        history.since(from).map(|(number, update)| format!("{number}:{}", update.id)).collect()
    }

    #[test]
    fn the_last_updates_are_kept() {
        let mut history = History::new(2, usize::MAX);
        for id in ["a", "b", "c"] {
            history.push(update(id, ""));
        }
        assert_eq!(ids(&history, 0), ["1:b", "2:c"]);
        assert_eq!(ids(&history, 2), ["2:c"]);
        assert_eq!(ids(&history, 3), [""; 0]);
        assert_eq!(ids(&history, u64::MAX), [""; 0]);
        assert_eq!((history.first(), history.end()), (1, 3));
        assert!(history.get(0).is_none() && history.get(3).is_none());
        assert_eq!(history.get(1).map(|update| &*update.id), Some("b"));
        let replay = |from, before: &str| Replay { from, before: before.into() };
        assert_eq!(history.after("b"), replay(2, "b"));
        assert_eq!(history.after("c"), replay(3, "c"));
        assert_eq!(history.after("a"), replay(1, EARLIEST));
        assert_eq!(history.after(EARLIEST), replay(1, EARLIEST));
    }

    #[test]
    fn of_two_with_the_same_name_the_last_counts() {
        let mut history = History::new(3, usize::MAX);
        for id in ["a", "b", "a"] {
            history.push(update(id, ""));
        }
        assert_eq!(history.after("a").from, 3);
    }

    #[test]
    fn the_bytes_are_bounded() {
        let one = update("a", &"x".repeat(1000)).weight();
        let mut history = History::new(100, 3 * one);
        for id in ["a", "b", "c", "d", "e"] {
            history.push(update(id, &"x".repeat(1000)));
            assert!(history.size().1 <= 3 * one);
        }
        assert_eq!(ids(&history, 0), ["2:c", "3:d", "4:e"]);
        history.push(update("f", &"x".repeat(5000)));
        assert_eq!(ids(&history, 0), ["5:f"], "the last one stays, whatever it takes");
    }
}
