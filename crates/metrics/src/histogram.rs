//! Counters that one thread writes and others read: no lock, and no instruction that locks a line
//! of memory. A reader may see an event in one counter and not yet in another.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Exemplar, Row};

/// The smallest bound is 2 to the power of this many microseconds.
const FIRST: u32 = 3;

/// The bounds of the buckets in microseconds: powers of two from 8 µs to 16.8 s, so that the
/// bucket of a time follows from its bits. A quantile that is read from them is at most twice the
/// true one; twice as many buckets would double what a scrape has to carry. Other numbers than
/// times have the same bounds, in their own unit.
pub const BOUNDS: [u64; 22] = {
    let mut bounds = [0; 22];
    let mut nth = 0;
    while nth < bounds.len() {
        bounds[nth] = 1 << (FIRST as usize + nth);
        nth += 1;
    }
    bounds
};

/// How many buckets there are: the last one has no bound.
pub const BUCKETS: usize = BOUNDS.len() + 1;

/// A number that grows. Only one thread may write it: an addition of another would be lost.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often numbers fell between the [`BOUNDS`]. Only one thread may write it. It may lie in
/// memory that processes share, and is empty if all its bytes are zero.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum: Counter,
}

impl Histogram {
    /// Counts a number, in thousandths of the unit of the [`BOUNDS`]: a time in nanoseconds.
    #[inline]
    pub fn observe(&self, thousandths: u64) {
        self.buckets[bucket(thousandths)].add(1);
        self.sum.add(thousandths);
    }

    /// Empties it.
    pub fn clear(&self) {
        for counter in self.buckets.iter().chain([&self.sum]) {
            counter.0.store(0, Ordering::Relaxed);
        }
    }

    /// Adds what was counted to `reading`.
    pub fn read(&self, reading: &mut Reading) {
        let buckets = std::array::from_fn(|nth| self.buckets[nth].get());
        reading.add(&Reading { buckets, sum: self.sum.get(), ..Reading::default() });
    }
}

/// The bucket of a number: the first one whose bound is not less.
#[inline]
pub(crate) fn bucket(thousandths: u64) -> usize {
    // With the lowest bits set it is in the first bucket at least.
    let below = (thousandths.saturating_sub(1) / 1000) | ((1 << FIRST) - 1);
    ((below.ilog2() - (FIRST - 1)) as usize).min(BOUNDS.len())
}

/// What histograms have counted, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How many fell into each bucket; the last one has no bound.
    pub buckets: [u64; BUCKETS],
    /// The sum of all, in thousandths of the unit of the [`BOUNDS`]: of times, nanoseconds.
    pub sum: u64,
    /// Requests that stand for those of each bucket.
    pub exemplars: [Option<Exemplar>; BUCKETS],
}

impl Reading {
    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }

    /// The sum in the unit of this row.
    pub fn sum_in(&self, row: Row) -> f64 {
        self.sum as f64 / (row.whole() * 1e3)
    }

    /// Adds what others have counted, which may be anything. It keeps its own exemplars.
    pub fn add(&mut self, other: &Reading) {
        for (sum, bucket) in self.buckets.iter_mut().zip(other.buckets) {
            *sum = sum.saturating_add(bucket);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_is_not_less() {
        for nanoseconds in (0..64).flat_map(|bit| {
            let bound = (1_u64 << bit).saturating_mul(1000);
            [bound - 1, bound, bound.saturating_add(1)]
        }) {
            let first = BOUNDS.iter().position(|bound| nanoseconds <= bound.saturating_mul(1000));
            assert_eq!(bucket(nanoseconds), first.unwrap_or(BOUNDS.len()), "{nanoseconds} ns");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!((BOUNDS[0], BOUNDS[21]), (8, 16_777_216));
    }

    #[test]
    fn readings_of_several_add_up() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.observe(5_000);
        one.observe(9_000);
        other.observe(u64::MAX / 2);
        let mut reading = Reading::default();
        one.read(&mut reading);
        other.read(&mut reading);
        assert_eq!((reading.buckets[0], reading.buckets[1], reading.buckets[22]), (1, 1, 1));
        assert_eq!(reading.count(), 3);
        assert_eq!(reading.sum, u64::MAX / 2 + 14_000);
        one.clear();
        let mut nothing = Reading::default();
        one.read(&mut nothing);
        assert_eq!(nothing, Reading::default());
    }
}
