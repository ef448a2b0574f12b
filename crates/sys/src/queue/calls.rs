//! What the request of a slot has called: SQL and outgoing HTTP. The worker writes it at each such
//! call (`crates/php/c/calls.c`), in sites that count calls. The front reads it when the response
//! is complete; for the slow log C reads it while the request runs (`crates/php/c/backtrace.c`).

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
    /// The longest call, and the one that began last, for the slow log alone.
    longest: [AtomicU64; 2],
    latest: [AtomicU64; 2],
}

const _: () = assert!(size_of::<CallWords>() == 64);

impl CallWords {
    /// Those of a request that nobody looks at.
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

    proptest! {
        #[test]
        fn any_words_are_read_as_what_can_be(
            count: u32, open: u32, time: u64, since: u64, now: u64,
        ) {
            let calls = words(count, open, time).read(since, now);
            let most = now.saturating_sub(since).saturating_mul(count.max(open).max(1).into());
            prop_assert!(calls.of(CallKind::Http).nanos <= most);
        }
    }
}
