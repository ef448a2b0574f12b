//! Requests that stand for many: of each bucket of a histogram the last one that belongs to a
//! recorded trace, so that a slow bucket leads to a request that was slow.
//!
//! One thread writes and others read, as with all counters here. A writer says by an odd version
//! that it is at work, and a reader that has seen two versions takes nothing.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::histogram::{BUCKETS, bucket};

/// An observation that belongs to a recorded trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// The name of the trace.
    pub trace: u128,
    /// The name of the span.
    pub span: u64,
    /// What was observed.
    pub nanoseconds: u64,
    /// When, by the writer's clock, in nanoseconds.
    pub at: u64,
}

/// The last exemplar of each bucket.
#[derive(Debug, Default)]
pub struct Exemplars([Cell; BUCKETS]);

#[derive(Debug, Default)]
struct Cell {
    /// Odd while it is written; zero before.
    version: AtomicU64,
    words: [AtomicU64; 5],
}

impl Exemplars {
    /// Keeps an exemplar in the place of the last one of its bucket. Only one thread may.
    pub fn keep(&self, exemplar: Exemplar) {
        let Exemplar { trace, span, nanoseconds, at } = exemplar;
        self.0[bucket(nanoseconds)].write([
            (trace >> 64) as u64,
            trace as u64,
            span,
            nanoseconds,
            at,
        ]);
    }

    /// Puts those into `latest` that are later than what is there.
    pub fn read(&self, latest: &mut [Option<Exemplar>; BUCKETS]) {
        for (cell, latest) in self.0.iter().zip(latest) {
            let found = cell.read();
            if found.is_some_and(|found| latest.is_none_or(|latest| latest.at < found.at)) {
                *latest = found;
            }
        }
    }
}

impl Cell {
    fn write(&self, values: [u64; 5]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }

    /// What is there; nothing if it is being written. Then the next scrape finds it.
    fn read(&self) -> Option<Exemplar> {
        let version = self.version.load(Ordering::Acquire);
        let words = [0, 1, 2, 3, 4].map(|nth: usize| self.words[nth].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = version > 0 && version.is_multiple_of(2);
        if !is_whole || self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let [high, low, span, nanoseconds, at] = words;
        let trace = u128::from(high) << 64 | u128::from(low);
        Some(Exemplar { trace, span, nanoseconds, at })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn exemplar(nanoseconds: u64, at: u64) -> Exemplar {
        Exemplar { trace: u128::from(at) << 64 | u128::from(at), span: at, nanoseconds, at }
    }

    #[test]
    fn each_bucket_has_its_last_one() {
        let (one, other) = (Exemplars::default(), Exemplars::default());
        one.keep(exemplar(1_000, 1));
        one.keep(exemplar(2_000, 2));
        one.keep(exemplar(u64::MAX, 3));
        other.keep(exemplar(3_000, 1));
        let mut latest = [None; BUCKETS];
        other.read(&mut latest);
        one.read(&mut latest);
        other.read(&mut latest);
        assert_eq!(latest[0], Some(exemplar(2_000, 2)));
        assert_eq!(latest[BUCKETS - 1], Some(exemplar(u64::MAX, 3)));
        assert_eq!(latest.iter().flatten().count(), 2);
    }

    #[test]
    fn no_reader_sees_parts_of_two() {
        let (exemplars, is_over) = (Exemplars::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in 1..200_000 {
                    exemplars.keep(exemplar(1_000, at));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let mut latest = [None; BUCKETS];
                exemplars.read(&mut latest);
                let found = latest[0];
                assert!(found.is_none_or(|found| found == exemplar(1_000, found.at)), "{found:?}");
            }
        });
    }
}
