//! What the ledger of a request had booked when the front queued it: for the slow log, which is
//! written while the front has not heard of the request again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokamak_cost::{Ledger, Phase};

/// The front writes it before it queues the request, in pools with a slow log.
#[derive(Debug, Default)]
#[repr(C)]
pub struct BookedWords {
    /// Nanoseconds at which the last phase was booked; 0: nothing is known.
    last: AtomicU64,
    /// Microseconds of each phase. More than an hour counts as an hour and 11 minutes.
    spent: [AtomicU32; Phase::ALL.len()],
}

impl BookedWords {
    /// Those of a request that is being queued.
    pub(super) fn set(&self, ledger: &Ledger) {
        for (word, phase) in self.spent.iter().zip(Phase::ALL) {
            let micros = u32::try_from(ledger.spent(*phase) / 1000).unwrap_or(u32::MAX);
            word.store(micros, Ordering::Relaxed);
        }
        let last = if ledger.is_read() { ledger.start() + ledger.total() } else { 0 };
        self.last.store(last, Ordering::Relaxed);
    }

    /// Nanoseconds of each phase, in order, of a request that a worker claimed then and still
    /// holds. Without a ledger only the worker's part is known.
    pub(super) fn so_far(&self, claimed_at: u64, now: u64) -> Vec<(Phase, u64)> {
        let last = self.last.load(Ordering::Relaxed);
        let nanos = |(phase, word): (&Phase, &AtomicU32)| {
            let booked = match last {
                0 => 0,
                _ => u64::from(word.load(Ordering::Relaxed)) * 1000,
            };
            let more = match phase {
                Phase::Queue if last != 0 => claimed_at.saturating_sub(last),
                Phase::Php => now.saturating_sub(claimed_at),
                _ => 0,
            };
            (*phase, booked.saturating_add(more))
        };
        Phase::ALL.iter().zip(&self.spent).map(nanos).filter(|(_, nanos)| *nanos > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_request_go_on_where_the_front_has_left_them() {
        let words = BookedWords::default();
        assert_eq!(words.so_far(5_000, 9_000), [(Phase::Php, 4_000)]);
        let mut ledger = Ledger::begin(1_000_000);
        ledger.stamp(Phase::Head, 1_030_000);
        ledger.stamp(Phase::Php, 1_050_000);
        words.set(&ledger);
        let expected = [(Phase::Head, 30_000), (Phase::Queue, 7_000), (Phase::Php, 220_000)];
        assert_eq!(words.so_far(1_057_000, 1_257_000), expected);
        // A worker's word is no word of the front's.
        assert_eq!(words.so_far(7, 8), [(Phase::Head, 30_000), (Phase::Php, 20_001)]);
        words.set(&Ledger::unread(2_000_000));
        assert_eq!(words.so_far(5_000, 9_000), [(Phase::Php, 4_000)]);
    }
}
