//! What the request of a slot has called: SQL and outgoing HTTP. The worker writes it at each such
//! call (`crates/php/c/ground/calls.c`), in sites that count calls. The front reads it when the
//! response is complete; for the slow log the supervisor reads it while the request runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokamak_cost::{CallKind, CallSum, Calls};

/// `shim_call_sum` of `shim.h`.
#[derive(Debug, Default)]
#[repr(C)]
struct SumWords {
    count: AtomicU32,
    /// Calls that have not returned.
    open: AtomicU32,
    /// Nanoseconds of all calls, for which each open one has taken away the time of its begin.
    time: AtomicU64,
}

/// `shim_calls` of `shim.h`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CallWords {
    sums: [SumWords; CallKind::ALL.len()],
    /// The longest call that has returned (nanoseconds and kind), for the slow log alone.
    longest: [AtomicU64; 2],
    /// When, and its kind. 0: it has returned.
    latest: [AtomicU64; 2],
}

const _: () = assert!(size_of::<CallWords>() == 64);

impl CallWords {
    /// Those of a request whose calls are not counted.
    pub const fn unread() -> CallWords {
        CallWords {
            sums: [const { SumWords::none() }; CallKind::ALL.len()],
            longest: [const { AtomicU64::new(0) }; 2],
            latest: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// The request begins.
    pub(super) fn clear(&self) {
        for sum in &self.sums {
            sum.count.store(0, Ordering::Relaxed);
            sum.open.store(0, Ordering::Relaxed);
            sum.time.store(0, Ordering::Relaxed);
        }
        for word in self.longest.iter().chain(&self.latest) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// What was called between these times; calls that have not returned end now.
    pub(super) fn read(&self, since: u64, now: u64) -> Calls {
        Calls { sums: self.sums.each_ref().map(|sum| sum.read(since, now)) }
    }

    /// The longest call between these times, and its nanoseconds; one that has not returned ends
    /// now.
    pub(super) fn longest(&self, since: u64, now: u64) -> Option<(CallKind, u64)> {
        let [longest, longest_kind] =
            self.longest.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [latest, latest_kind] = self.latest.each_ref().map(|word| word.load(Ordering::Relaxed));
        let open = if latest == 0 { 0 } else { now.saturating_sub(latest) };
        // A worker may write anything, and may be in the middle of it.
        let most = now.saturating_sub(since);
        let calls = [(longest, longest_kind), (open, latest_kind)];
        let sound = calls.into_iter().filter(|(nanos, _)| (1..=most).contains(nanos));
        let (nanos, kind) = sound.max_by_key(|(nanos, _)| *nanos)?;
        Some((*CallKind::ALL.get(usize::try_from(kind).ok()?)?, nanos))
    }
}

impl SumWords {
    const fn none() -> SumWords {
        SumWords { count: AtomicU32::new(0), open: AtomicU32::new(0), time: AtomicU64::new(0) }
    }

    fn read(&self, since: u64, now: u64) -> CallSum {
        let (count, open) = (self.count.load(Ordering::Relaxed), self.open.load(Ordering::Relaxed));
        let time = self.time.load(Ordering::Relaxed);
        let nanos = time.wrapping_add(u64::from(open).wrapping_mul(now));
        // A worker may write anything. No call takes longer than the request, and those that
        // overlap are counted.
        let most = now.saturating_sub(since).saturating_mul(count.max(open).max(1).into());
        CallSum { count, nanos: if nanos <= most { nanos } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(count: u32, open: u32, time: u64) -> CallWords {
        let words = CallWords::unread();
        words.sums[1].count.store(count, Ordering::Relaxed);
        words.sums[1].open.store(open, Ordering::Relaxed);
        words.sums[1].time.store(time, Ordering::Relaxed);
        words
    }

    #[test]
    fn open_calls_end_now() {
        let http = |words: &CallWords, now| words.read(100, now).of(CallKind::Http);
        let done = words(2, 0, 30);
        assert_eq!(http(&done, 500), CallSum { count: 2, nanos: 30 });
        // 30 of those that have returned, and two that began at 110 and at 140.
        let open = words(4, 2, 30_u64.wrapping_sub(110 + 140));
        assert_eq!(http(&open, 150), CallSum { count: 4, nanos: 30 + 40 + 10 });
        open.clear();
        assert_eq!(open.read(100, 150), Calls::default());
    }

    #[test]
    fn the_longest_call_may_still_be_open() {
        let words = CallWords::unread();
        assert_eq!(words.longest(100, 500), None);
        let set = |to: &[AtomicU64; 2], values: [u64; 2]| {
            to.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        };
        set(&words.longest, [70, CallKind::Sql as u64]);
        set(&words.latest, [440, CallKind::Http as u64]);
        assert_eq!(words.longest(100, 500), Some((CallKind::Sql, 70)));
        assert_eq!(words.longest(100, 520), Some((CallKind::Http, 80)));
        // No call lasts longer than its request, and there are only so many kinds.
        set(&words.longest, [1000, CallKind::Sql as u64]);
        assert_eq!(words.longest(100, 500), Some((CallKind::Http, 60)));
        set(&words.latest, [440, 9]);
        assert_eq!(words.longest(100, 500), None);
    }

    proptest! {
        #[test]
        fn any_words_are_read_as_what_can_be(
            count: u32, open: u32, time: u64, since: u64, now: u64,
        ) {
            let calls = words(count, open, time).read(since, now);
            let most = now.saturating_sub(since).saturating_mul(count.max(open).max(1).into());
            prop_assert!(calls.of(CallKind::Http).nanos <= most);
        }

        #[test]
        fn any_longest_call_is_shorter_than_its_request(
            values: [u64; 4], since: u64, now: u64,
        ) {
            let words = CallWords::unread();
            for (word, value) in words.longest.iter().chain(&words.latest).zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            if let Some((_, nanos)) = words.longest(since, now) {
                prop_assert!(nanos <= now.saturating_sub(since));
            }
        }
    }
}
