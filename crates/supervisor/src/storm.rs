//! Crash-loop breaker: processes that die before they are of any use are not started in a tight
//! loop.
//!
//! After each failure the pool waits, twice as long as before, up to [`LONGEST`], then tries with a
//! single process. The first that boots ends the storm. If no worker is left, requests are answered
//! 503 by the front at once.

use std::time::Duration;

/// Wait after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// Longest wait. With a tenth, a boot that fails after a second of work would take all of a
/// processor; with ten times more, visitors would be refused for that long after the cause is
/// mended.
pub const LONGEST: Duration = Duration::from_secs(2);

/// Failures in a row, the last one, and until when to wait. Times are nanoseconds of
/// `tokamak_cost::now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storm {
    failures: u32,
    last: u64,
    until: u64,
}

impl Storm {
    /// A process failed. Answers how long to wait, for a message; [`None`] for one more failure of
    /// the same wave: processes that had been started before the first failure was known.
    pub fn failed(&mut self, now: u64) -> Option<Duration> {
        self.last = now;
        if now < self.until {
            return None;
        }
        let wait =
            LONGEST.min(FIRST.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)));
        self.failures += 1;
        self.until = now + wait.as_nanos() as u64;
        Some(wait)
    }

    /// Whether a process that works, and has begun to at `then`, shows that the storm is over. One
    /// that began before the last failure shows nothing: what has changed since, it has not met.
    pub fn is_ended_by(&self, then: u64) -> bool {
        self.failures > 0 && then >= self.last
    }

    /// A process works.
    pub fn over(&mut self) {
        *self = Storm::default();
    }

    /// How many of the `wanted` processes may be started now, when `starting` are under way.
    pub fn allowed(&self, wanted: usize, starting: usize, now: u64) -> usize {
        if self.failures == 0 {
            wanted
        } else if now >= self.until && starting == 0 {
            wanted.min(1)
        } else {
            0
        }
    }

    /// Failures in a row so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut storm = Storm::default();
        let mut now = 5 * SECOND;
        let mut waits = Vec::new();
        for _ in 0..40 {
            let wait = storm.failed(now).unwrap();
            waits.push(wait.as_millis());
            now += wait.as_nanos() as u64;
        }
        assert_eq!(waits[..7], [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(waits[39], 2000);
        assert_eq!(storm.failures(), 40);
    }

    #[test]
    fn a_wave_counts_once() {
        let mut storm = Storm::default();
        assert_eq!(storm.failed(SECOND), Some(FIRST));
        assert_eq!(storm.failed(SECOND + 1), None);
        assert_eq!(storm.failed(SECOND + SECOND / 11), None);
        assert_eq!(storm.failures(), 1);
    }

    #[test]
    fn only_a_process_that_began_after_the_last_failure_ends_it() {
        let mut storm = Storm::default();
        assert!(!storm.is_ended_by(SECOND), "there is none");
        storm.failed(SECOND);
        storm.failed(SECOND + 5);
        assert!(!storm.is_ended_by(SECOND + 4));
        assert!(storm.is_ended_by(SECOND + 5));
    }

    #[test]
    fn after_the_wait_one_process_tries() {
        let mut storm = Storm::default();
        assert_eq!(storm.allowed(8, 3, 0), 8);
        storm.failed(SECOND);
        assert_eq!(storm.allowed(8, 0, SECOND), 0);
        let later = SECOND + SECOND / 10;
        assert_eq!(storm.allowed(8, 0, later), 1);
        assert_eq!(storm.allowed(0, 0, later), 0);
        assert_eq!(storm.allowed(8, 1, later), 0);
        storm.over();
        assert_eq!(storm.allowed(8, 1, later), 8);
        assert_eq!(storm.failed(later), Some(FIRST));
    }
}
