//! Whether an application keeps its connections open, as it is asked to: found out by what becomes
//! of them. It uses no clock and no system call.
//!
//! ```text
//!             a second response on a connection
//!   unknown ───────────────────────────────────► kept
//!      │                                          ▲
//!      │ some closed at once after one response   │ the same, of a connection that is tried
//!      ▼                                          │
//!   closed: none is kept, but one every five minutes
//! ```

use std::time::Duration;

use tokamak_sys::control::Connections;

/// Connections in a row that were closed after one response, so that all will be. A single one may
/// have been that of a process which ended; ten would cost ten requests a second attempt.
const ENOUGH: u32 = 3;

/// A connection that was closed so soon after its response was closed for it, and not because it
/// was idle.
const SOON: Duration = Duration::from_secs(1);

/// After that time one connection is kept again, to see what becomes of it: the application may be
/// another one. A tenth would lose a connection twice a minute, ten times more would be an hour.
const TRIED_AGAIN: Duration = Duration::from_secs(300);

/// What is known of one address. Times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// Connections in a row that were closed after one response.
    closed: u32,
    is_kept: bool,
    /// Since when connections count as closed.
    judged: Option<u64>,
    /// Whether they ever did.
    was_judged: bool,
}

impl Keeping {
    /// A connection has had more than one response.
    pub fn used_again(&mut self) {
        *self = Keeping { is_kept: true, was_judged: self.was_judged, ..Keeping::default() };
    }

    /// The application has closed a connection that had one response, at the time `responded`.
    /// Returns whether it is known from now on, and never was before, that it always does.
    pub fn closed_after_one(&mut self, responded: u64, now: u64) -> bool {
        if self.is_kept || now.saturating_sub(responded) > SOON.as_nanos() as u64 {
            return false;
        }
        self.closed += 1;
        if self.closed < ENOUGH {
            return false;
        }
        self.judged = Some(now);
        !std::mem::replace(&mut self.was_judged, true)
    }

    /// Whether a connection that has been answered is worth keeping.
    pub fn is_worth_it(&mut self, now: u64) -> bool {
        match self.judged {
            Some(at) if now.saturating_sub(at) < TRIED_AGAIN.as_nanos() as u64 => false,
            Some(_) => {
                // The next ones are not kept until it is known what becomes of this one.
                self.judged = Some(now);
                self.closed = ENOUGH - 1;
                true
            }
            None => true,
        }
    }

    /// For status.
    pub fn connections(&self) -> Connections {
        match (self.is_kept, self.judged) {
            (true, _) => Connections::Kept,
            (false, Some(_)) => Connections::Closed,
            (false, None) => Connections::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn closed_at(keeping: &mut Keeping, now: u64) -> bool {
        keeping.closed_after_one(now, now)
    }

    #[test]
    fn some_that_are_closed_at_once_tell_and_are_told_once() {
        let mut keeping = Keeping::default();
        assert_eq!(keeping.connections(), Connections::Unknown);
        assert_eq!(
            [1, 2, 3, 4].map(|now| closed_at(&mut keeping, now)),
            [false, false, true, false]
        );
        assert_eq!(keeping.connections(), Connections::Closed);
        assert!(!keeping.is_worth_it(5));
    }

    #[test]
    fn idle_ones_that_are_closed_later_tell_nothing() {
        let mut keeping = Keeping::default();
        for now in (1..20).map(|nth| nth * 10 * SECOND) {
            assert!(!keeping.closed_after_one(now - 2 * SECOND, now));
        }
        assert_eq!(keeping.connections(), Connections::Unknown);
        assert!(keeping.is_worth_it(200 * SECOND));
    }

    #[test]
    fn one_that_is_used_again_tells_that_they_are_kept() {
        let mut keeping = Keeping::default();
        keeping.used_again();
        assert!((1..9).all(|now| !closed_at(&mut keeping, now)), "processes end now and then");
        assert_eq!(keeping.connections(), Connections::Kept);
    }

    #[test]
    fn one_is_tried_again_after_a_while() {
        let mut keeping = Keeping::default();
        assert!((1..=3).any(|now| closed_at(&mut keeping, now)));
        let later = TRIED_AGAIN.as_nanos() as u64 + 3;
        assert!(keeping.is_worth_it(later));
        assert!(!keeping.is_worth_it(later), "one, until it is known what becomes of it");
        assert!(!closed_at(&mut keeping, later + 1), "the log has it already");
        assert!(!keeping.is_worth_it(later + TRIED_AGAIN.as_nanos() as u64));
        assert!(keeping.is_worth_it(later + TRIED_AGAIN.as_nanos() as u64 + 1));
        keeping.used_again();
        assert_eq!(keeping.connections(), Connections::Kept);
        assert!(keeping.is_worth_it(later));
    }
}
