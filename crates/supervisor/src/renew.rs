//! When a sealed application that has changed gets a new image: when it has been quiet for a while,
//! since a deployment is many changes, and the first of them is not the application. Until then
//! each request boots the application as it is, so no request waits for the image.
//!
//! A file that changes again and again must not keep its site booting. After each renewal there is
//! a pause. The next one doubles it if it comes soon, up to `LONGEST`; after a quiet time the first
//! pause applies again.

use std::time::Duration;

use tokamak_sys::control::Newer;

use crate::watch::since;

/// A change that so much time has passed since was the last one for now. With a tenth, a deployment
/// that copies file after file would get an image of its middle; ten times more, and requests would
/// boot for themselves that much longer.
const QUIET: Duration = Duration::from_secs(1);
/// The same for PHP's settings: a package that is upgraded is without its file for some seconds,
/// and an image of that moment would be without the extension. The old image is right meanwhile,
/// but for the settings.
const QUIET_SETTINGS: Duration = Duration::from_secs(10);
/// Changes without a quiet moment for so long are worth a line in the log.
const RESTLESS: Duration = Duration::from_secs(30);

/// The changes since an image was taken. Times are nanoseconds of `tokamak_cost::now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingChanges {
    first: Option<u64>,
    application: Option<u64>,
    settings: Option<u64>,
    is_reported: bool,
}

impl PendingChanges {
    /// One more.
    pub fn note(&mut self, newer: Newer, now: u64) {
        self.first.get_or_insert(now);
        match newer {
            Newer::Application | Newer::Cache => self.application = Some(now),
            Newer::Settings => self.settings = Some(now),
        }
    }

    /// Whether that was the last one for now.
    pub fn is_over(&self, now: u64) -> bool {
        let is_quiet = |last: Option<u64>, quiet| last.is_none_or(|last| since(last, now) >= quiet);
        is_quiet(self.application, QUIET) && is_quiet(self.settings, QUIET_SETTINGS)
    }

    /// Whether it goes on for so long that somebody should know; once.
    pub fn is_endless(&mut self, now: u64) -> bool {
        let is_endless = self.first.is_some_and(|first| since(first, now) >= RESTLESS);
        is_endless && !self.is_over(now) && !std::mem::replace(&mut self.is_reported, true)
    }
}

/// Pause after a renewal that follows a quiet time.
const FIRST: Duration = Duration::from_secs(1);
/// Longest pause. Even a boot of several seconds then costs less than a tenth of a core. With a
/// tenth it could cost half of one; ten times more, and requests would boot for themselves for ten
/// minutes after the last change.
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
    fn a_renewal_waits_for_a_quiet_moment() {
        use Newer::{Application, Cache, Settings};
        let ms = |time: u64| time * SECOND / 1000;
        for (changes, now, is_over) in [
            (vec![], 0, true),
            (vec![(Application, 0)], 999, false),
            (vec![(Application, 0)], 1000, true),
            (vec![(Cache, 0)], 1000, true),
            (vec![(Application, 0), (Application, 900), (Application, 1800)], 2700, false),
            (vec![(Application, 0), (Application, 900), (Application, 1800)], 2800, true),
            (vec![(Settings, 0)], 9_999, false),
            (vec![(Settings, 0)], 10_000, true),
            (vec![(Settings, 0), (Application, 1000)], 2000, false),
            (vec![(Settings, 0), (Settings, 3000)], 10_000, false),
        ] {
            let mut pending_changes = PendingChanges::default();
            changes.iter().for_each(|(newer, at)| pending_changes.note(*newer, ms(*at)));
            assert_eq!(pending_changes.is_over(ms(now)), is_over, "{changes:?} {now}");
        }
    }

    #[test]
    fn changes_without_end_are_reported_once() {
        let mut pending_changes = PendingChanges::default();
        let mut reported = Vec::new();
        for now in 0..100 {
            pending_changes.note(Newer::Application, now * SECOND / 2);
            if pending_changes.is_endless(now * SECOND / 2) {
                reported.push(now / 2);
            }
        }
        assert_eq!(reported, [30]);
        let mut calm = PendingChanges::default();
        calm.note(Newer::Application, 0);
        assert!(!calm.is_endless(40 * SECOND), "it waits for its pause to end");
    }

    #[test]
    fn after_a_quiet_time_no_request_waits() {
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
