//! When a sealed application that has changed gets a new image: at once, but a file that changes
//! all the time must not keep its site booting.
//!
//! After each renewal there is a pause. The next one doubles it if it comes soon, up to `LONGEST`;
//! after a quiet time the first pause applies again, so that a developer who edits a file by hand
//! need not wait.

use std::time::Duration;

use crate::watch::since;

/// Pause after a renewal that follows a quiet time.
const FIRST: Duration = Duration::from_secs(1);
/// Longest pause. Even a boot of several seconds then costs less than a tenth of a core. With a
/// tenth it could cost half of one; ten times more, and a developer who has changed a file would
/// wait for ten minutes.
const LONGEST: Duration = Duration::from_secs(60);
/// A renewal comes soon within so many pauses after the last one has ended: a worker looks at its
/// files only now and then, so what changes all the time is not found the moment the pause is over.
const SOON: u32 = 4;

/// The renewals so far. Times are nanoseconds of `tokamak_cost::now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewals {
    pause: Duration,
    ended: Option<u64>,
}

impl Renewals {
    /// Whether another one may begin.
    pub fn allowed(&self, now: u64) -> bool {
        self.ended.is_none_or(|ended| since(ended, now) >= self.pause)
    }

    /// One begins. Answers the pause that will follow it, if it had to be lengthened.
    pub fn begun(&mut self, now: u64) -> Option<Duration> {
        let soon = self.ended.is_some_and(|ended| since(ended, now) < self.pause * SOON);
        self.pause = if soon { LONGEST.min(self.pause * 2) } else { FIRST };
        soon.then_some(self.pause)
    }

    /// A new generation serves, or never will. Counted from here, because a boot may take longer
    /// than a pause.
    pub fn ended(&mut self, now: u64) {
        self.ended = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_file_that_changes_all_the_time_is_followed_more_and_more_slowly() {
        let mut renewals = Renewals::default();
        let mut now = 100 * SECOND;
        let mut pauses = Vec::new();
        assert!(renewals.allowed(now));
        assert_eq!(renewals.begun(now), None);
        for _ in 0..8 {
            now += 5 * SECOND; // the boot
            renewals.ended(now);
            assert!(!renewals.allowed(now + SECOND / 2));
            while !renewals.allowed(now) {
                now += SECOND / 10;
            }
            now += 2 * SECOND; // until a worker looks
            pauses.push(renewals.begun(now).unwrap().as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn after_a_quiet_time_nobody_waits() {
        let mut renewals = Renewals::default();
        let mut now = 0;
        for pause in [None, Some(2), Some(4)] {
            assert_eq!(renewals.begun(now), pause.map(Duration::from_secs));
            renewals.ended(now);
            now += 4 * SECOND - 1;
        }
        now += 20 * SECOND;
        assert_eq!(renewals.begun(now), None);
        renewals.ended(now);
        assert!(renewals.allowed(now + SECOND));
    }
}
