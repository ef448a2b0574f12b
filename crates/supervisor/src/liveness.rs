//! Whether a process that should say so now and then still lives.
//!
//! Only the time that the supervisor itself ran counts: if it was stopped too, or the machine was
//! suspended, that was no silence of anybody else. So it takes several looks without a sign of
//! life, whatever the clock does, and after such a pause everybody has the whole time again: others
//! may go on a moment later than the supervisor.

use std::time::Duration;

use crate::watch::since;

/// Time between two questions to a process.
pub const ASK_EVERY: Duration = Duration::from_millis(500);
/// The same while its pool is idle, so that nobody needs the process.
pub const ASK_IDLE_EVERY: Duration = Duration::from_secs(60);
/// Longest time between two looks of the supervisor while something happens.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The least that may count between two looks, on a busy machine.
const STEP: Duration = Duration::from_millis(500);
/// Time between two looks after which the supervisor was stopped, or the machine. A busy machine
/// delays a look by less.
const PAUSE: Duration = Duration::from_secs(5);

/// Longest time between two looks while nothing happens, with this limit of silence. It is more
/// than the time between two signs of life of a front (`Timeouts::heartbeat`), each of which brings
/// a look, so that hardly any comes for itself. A request that waits for a worker brings one, too.
pub fn idle_look_every(limit: Duration) -> Duration {
    let longest = Duration::from_secs(3);
    if limit.is_zero() { longest } else { (limit * 3 / 10).clamp(LOOK_EVERY, longest) }
}

/// The silence of one process, or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    silent: Duration,
    looked: Option<u64>,
}

impl Liveness {
    /// It has given a sign of life.
    pub fn sign_of_life(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// A look: whether it has been silent for longer than `limit`, if there is one.
    pub fn is_still(&mut self, limit: Duration, now: u64) -> bool {
        let last = self.looked.replace(now).unwrap_or(now);
        let step = since(last, now);
        self.silent = if step < PAUSE {
            self.silent + step.min(idle_look_every(limit).max(STEP))
        } else {
            Duration::ZERO
        };
        !limit.is_zero() && self.silent > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LIMIT: Duration = Duration::from_secs(10);

    /// Looks four times a second from `from` on, for so many seconds; whether it was still at the
    /// end.
    fn look(liveness: &mut Liveness, from: u64, seconds: u64) -> bool {
        (1..=seconds * 4)
            .map(|quarter| liveness.is_still(LIMIT, from + quarter * SECOND / 4))
            .last()
            .unwrap()
    }

    #[test]
    fn silence_is_what_the_supervisor_has_seen() {
        let mut liveness = Liveness::default();
        assert!(!look(&mut liveness, 0, 10));
        assert!(look(&mut liveness, 10 * SECOND, 1));
        liveness.sign_of_life();
        assert!(!look(&mut liveness, 11 * SECOND, 10));
    }

    #[test]
    fn a_clock_that_jumps_and_a_supervisor_that_was_stopped_are_no_silence() {
        let mut liveness = Liveness::default();
        assert!(!look(&mut liveness, 0, 9));
        for hour in 1..=2 {
            assert!(!liveness.is_still(LIMIT, hour * 3600 * SECOND), "one look says nothing");
        }
        assert!(!look(&mut liveness, 7200 * SECOND, 10), "the others have the whole time again");
        assert!(look(&mut liveness, 7210 * SECOND, 1));
    }

    #[test]
    fn a_supervisor_that_is_slow_on_a_busy_machine_counts_less() {
        let mut liveness = Liveness::default();
        let mut looks = (1..=12).map(|look| liveness.is_still(LIMIT, look * 4 * SECOND));
        assert_eq!(looks.position(|is_still| is_still), Some(4), "three seconds for each look");
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut liveness = Liveness::default();
        assert!((0..4000).all(|quarter| !liveness.is_still(Duration::ZERO, quarter * SECOND / 4)));
    }
}
