//! The slowest requests of the last minutes, one of each path, for the dashboard. Each event loop
//! has a table of a fixed size, so any number of different URLs takes no more memory. Once a
//! table is full, a request that is not among the slowest costs two loads and two comparisons.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokamak_cost::Ledger;

use crate::request_summary::{RequestSummary, kept};

/// Requests that a table has room for: about as many as a page shows. With ten times more, a slow
/// request would be compared with as many others.
pub const PLACES: usize = 16;
/// A request that is faster is not slow. With a tenth, requests that PHP answers at once would take
/// the lock; with ten times more, a page that takes 5 ms would not be shown on a quiet server.
pub const FLOOR: u64 = 1_000_000;
/// For how long a request is among the slowest, in nanoseconds. Ten times longer, and one bad
/// minute would hide what is slow now.
pub const WINDOW: u64 = 300_000_000_000;
/// The slowest requests of one event loop, which alone writes here; the admin listener reads.
#[derive(Debug)]
pub struct Slowest {
    /// No request that took less or just as long finds a place.
    bar: AtomicU64,
    /// When the present table becomes the one before.
    until: AtomicU64,
    tables: Mutex<Tables>,
}

/// What is older than a window goes as a whole, when the table before is replaced.
#[derive(Debug, Default)]
struct Tables {
    present: Vec<RequestSummary>,
    before: Vec<RequestSummary>,
}

impl Default for Slowest {
    fn default() -> Slowest {
        Slowest { bar: FLOOR.into(), until: 0.into(), tables: Mutex::default() }
    }
}

impl Slowest {
    /// A request is over. `path` is asked for only if it was slow.
    #[inline]
    pub fn note<'a>(
        &self,
        site: usize,
        path: impl FnOnce() -> &'a str,
        status: u16,
        ledger: &Ledger,
    ) {
        let took = ledger.total();
        if took <= FLOOR {
            return;
        }
        let at = ledger.start() + took;
        let is_new_window = at >= self.until.load(Ordering::Relaxed);
        if took <= self.bar.load(Ordering::Relaxed) && !is_new_window {
            return;
        }
        self.enter(kept(path()), RequestSummary::without_path(site, status, ledger));
    }

    /// Enters a request whose path is still missing: it is copied only if it is kept.
    fn enter(&self, path: Cow<'_, str>, slow: RequestSummary) {
        // The admin listener reads: an event loop does not wait for it, but leaves one request out.
        let Ok(mut tables) = self.tables.try_lock() else { return };
        let until = self.until.load(Ordering::Relaxed);
        if slow.at >= until {
            tables.before = mem::take(&mut tables.present);
            self.until.store(slow.at + WINDOW, Ordering::Relaxed);
        }
        let present = &mut tables.present;
        let is_same = |other: &&mut RequestSummary| other.site == slow.site && other.path == path;
        if let Some(same) = present.iter_mut().find(is_same) {
            if slow.took > same.took {
                *same = RequestSummary { path: mem::take(&mut same.path), ..slow };
            }
        } else if present.len() < PLACES {
            present.push(RequestSummary { path: path.into_owned(), ..slow });
        } else {
            let least = present.iter_mut().min_by_key(|slow| slow.took);
            if let Some(least) = least.filter(|least| slow.took > least.took) {
                *least = RequestSummary { path: path.into_owned(), ..slow };
            }
        }
        let least = present.iter().map(|slow| slow.took).min();
        let bar = least.filter(|_| present.len() == PLACES).unwrap_or(FLOOR);
        self.bar.store(bar, Ordering::Relaxed);
    }

    /// Adds those of the last window to `all`.
    pub fn read(&self, now: u64, all: &mut Vec<RequestSummary>) {
        let tables = self.tables();
        let both = tables.present.iter().chain(&tables.before);
        all.extend(both.filter(|slow| now.saturating_sub(slow.at) <= WINDOW).cloned());
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Nothing panics while it is held.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slowest of several tables, the slowest first, one of each path.
pub fn merged(mut all: Vec<RequestSummary>) -> Vec<RequestSummary> {
    all.sort_by_key(|slow| Reverse(slow.took));
    let mut seen = BTreeSet::new();
    all.retain(|slow| seen.insert((slow.site, slow.path.clone())));
    all.truncate(PLACES);
    all
}

#[cfg(test)]
mod tests {
    use tokamak_cost::Phase;

    use super::*;
    use crate::request_summary::LONGEST_PATH;

    const MS: u64 = 1_000_000;

    fn ledger(start: u64, took: u64) -> Ledger {
        let mut ledger = Ledger::begin(start);
        ledger.stamp(Phase::Queue, start + took / 4);
        ledger.stamp(Phase::Php, start + took);
        ledger
    }

    fn paths(slowest: &Slowest, now: u64) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        slowest.read(now, &mut all);
        merged(all).into_iter().map(|slow| (slow.path, slow.took / MS)).collect()
    }

    #[test]
    fn one_of_each_path_and_the_slowest_first() {
        let slowest = Slowest::default();
        for (path, took) in [("/a", 5), ("/b", 9), ("/a", 7), ("/a", 6), ("/fast", 1)] {
            slowest.note(0, || path, 200, &ledger(MS, took * MS));
        }
        assert_eq!(paths(&slowest, 20 * MS), [("/b".into(), 9), ("/a".into(), 7)]);
        let mut all = Vec::new();
        slowest.read(20 * MS, &mut all);
        assert_eq!((all[0].status, all[0].phase, all[0].at), (200, Phase::Php, 8 * MS));
    }

    #[test]
    fn no_number_of_paths_makes_it_grow() {
        let slowest = Slowest::default();
        for nth in 1..=100_000_u64 {
            let path = format!("/{nth}{}", "x".repeat(1000));
            slowest.note(0, || &path, 404, &ledger(nth, FLOOR + nth));
        }
        let tables = slowest.tables();
        assert_eq!((tables.present.len(), tables.before.len()), (PLACES, 0));
        assert!(tables.present.iter().all(|slow| slow.took > FLOOR + 99_900));
        assert!(tables.present.iter().all(|slow| slow.path.len() == LONGEST_PATH));
    }

    #[test]
    fn what_is_older_than_the_window_is_gone() {
        let slowest = Slowest::default();
        slowest.note(0, || "/old", 200, &ledger(0, 9 * MS));
        for nth in 0..PLACES as u64 {
            let path = format!("/{nth}");
            slowest.note(0, || &path, 200, &ledger(WINDOW / 2, 20 * MS));
        }
        assert_eq!(paths(&slowest, WINDOW).len(), PLACES);
        // The bar of a full table does not hold in the next window.
        slowest.note(0, || "/new", 200, &ledger(WINDOW + 10 * MS, 5 * MS));
        assert_eq!(paths(&slowest, WINDOW + 20 * MS).len(), PLACES);
        assert_eq!(paths(&slowest, 2 * WINDOW), [("/new".into(), 5)]);
        slowest.note(0, || "/last", 200, &ledger(3 * WINDOW, 3 * MS));
        assert_eq!(paths(&slowest, 3 * WINDOW + 3 * MS), [("/last".into(), 3)]);
    }

    #[test]
    fn an_event_loop_does_not_wait_for_a_reader() {
        let slowest = Slowest::default();
        let reading = slowest.tables();
        slowest.note(0, || "/left/out", 200, &ledger(0, 5 * MS));
        drop(reading);
        slowest.note(0, || "/next", 200, &ledger(0, 5 * MS));
        assert_eq!(paths(&slowest, 5 * MS), [("/next".into(), 5)]);
    }

    #[test]
    fn a_path_is_cut_where_it_may_be() {
        let slowest = Slowest::default();
        let long = format!("/{}", "ä".repeat(200));
        slowest.note(0, || &long, 200, &ledger(0, 5 * MS));
        let path = paths(&slowest, 5 * MS).remove(0).0;
        assert!(path.starts_with("/ää") && path.chars().count() == 101, "{path}");
    }
}
