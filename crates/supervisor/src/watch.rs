//! Time and memory limits of the workers, from what the board says about each.
//!
//! The board is the worker's own word, and workers run other people's code. So a request's age is
//! the longer of what the worker claims and what this watch has seen itself; a lie costs the liar's
//! pool at most.

use std::time::Duration;

use tokamak_config::Mode;
use tokamak_sys::queue::{Snapshot, WorkerState};

/// Time that a worker has for booting, if requests have less. A boot from a cold disk takes some
/// seconds and must not count as a failure, as it would with a tenth; with ten times more, a boot
/// that hangs would be noticed after ten minutes.
pub const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// Time that a worker of async mode has beyond `request_timeout`: it ends a request that waits by
/// itself, and the request may then wait for what it has to clean up. With a tenth, a worker that
/// is merely busy would be killed with all that it has under way; with ten times more, one that
/// computes without end would hold them for almost half a minute.
const GRACE: Duration = Duration::from_millis(2500);

/// The time after which the process of a request is ended; zero: never.
pub fn patience(mode: Mode, request_timeout: Duration) -> Duration {
    match mode {
        Mode::Async if !request_timeout.is_zero() => request_timeout + GRACE,
        _ => request_timeout,
    }
}

/// The limits of a pool. Zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// End the worker of a request that takes longer.
    pub request: Duration,
    /// Log a request that takes longer.
    pub slow: Duration,
    /// Replace a worker that holds more, in bytes.
    pub memory: u64,
    /// The first two count on while a script goes on after its response. In php-fpm's pools only.
    pub finished: bool,
}

/// What is remembered about one worker between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastRequest {
    /// The request that was being served.
    request: Option<Request>,
    /// The slow log has this request already.
    slow_logged: bool,
}

/// How the board names a request, and when we first saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    number: u64,
    since: u64,
    first_seen: u64,
}

impl Request {
    /// A worker counts a request before it says that it is idle: until then the request has the
    /// number of the next one, and its own beginning.
    fn is(&self, entry: &Snapshot) -> bool {
        self.number == entry.requests || self.since == entry.since
    }
}

/// What is wrong with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Its request takes longer than allowed.
    TimedOut(Duration),
    /// Its request takes longer than usual; said once a request.
    Slow(Duration),
    /// It holds more memory than allowed.
    TooBig(u64),
    /// It does not become ready.
    BootStuck(Duration),
}

impl LastRequest {
    /// A look at one worker: its entry on the board, when it was forked, and its memory if it was
    /// measured now.
    pub fn look(
        &mut self,
        entry: &Snapshot,
        forked: u64,
        memory: Option<u64>,
        limits: &Limits,
        now: u64,
    ) -> Option<Finding> {
        let too_big = memory
            .filter(|memory| {
                limits.memory > 0 && *memory > limits.memory && entry.state != WorkerState::Starting
            })
            .map(Finding::TooBig);
        match entry.state {
            WorkerState::Busy | WorkerState::Draining => self.busy(entry, limits, now).or(too_big),
            WorkerState::Finishing if limits.finished => self.busy(entry, limits, now).or(too_big),
            WorkerState::Starting | WorkerState::Empty => {
                *self = LastRequest::default();
                let age = since(forked, now);
                (age > BOOT_LIMIT.max(limits.request)).then_some(Finding::BootStuck(age))
            }
            WorkerState::Idle | WorkerState::Leaving | WorkerState::Finishing => {
                *self = LastRequest::default();
                too_big
            }
        }
    }

    fn busy(&mut self, entry: &Snapshot, limits: &Limits, now: u64) -> Option<Finding> {
        let first_seen = match self.request {
            Some(request) if request.is(entry) => request.first_seen,
            _ => {
                let request =
                    Request { number: entry.requests, since: entry.since, first_seen: now };
                *self = LastRequest { request: Some(request), slow_logged: false };
                now
            }
        };
        let age = since(entry.since, now).max(since(first_seen, now));
        if !limits.request.is_zero() && age > limits.request {
            return Some(Finding::TimedOut(age));
        }
        if !limits.slow.is_zero() && age > limits.slow && !self.slow_logged {
            self.slow_logged = true;
            return Some(Finding::Slow(age));
        }
        None
    }
}

/// Time passed since `then`; none for a time to come, which only a liar writes.
pub fn since(then: u64, now: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(then))
}

#[cfg(test)]
mod tests {

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LIMITS: Limits = Limits {
        request: Duration::from_secs(10),
        slow: Duration::from_secs(2),
        memory: 1000,
        finished: false,
    };

    fn entry(state: WorkerState, since: u64, requests: u64) -> Snapshot {
        Snapshot {
            state,
            pid: 1,
            instance: 1,
            since,
            requests,
            errors: 0,
            roll_back: 0,
            dirty_pages: 0,
            under_way: 0,
            held: 0,
            memory: 0,
            started: 0,
        }
    }

    fn busy(since: u64, requests: u64) -> Snapshot {
        entry(WorkerState::Busy, since, requests)
    }

    #[test]
    fn a_long_request_is_slow_once_and_then_too_long() {
        let mut seen = LastRequest::default();
        let look = |seen: &mut LastRequest, now| seen.look(&busy(SECOND, 0), 0, None, &LIMITS, now);
        assert_eq!(look(&mut seen, 2 * SECOND), None);
        assert_eq!(look(&mut seen, 4 * SECOND), Some(Finding::Slow(Duration::from_secs(3))));
        assert_eq!(look(&mut seen, 5 * SECOND), None);
        assert_eq!(look(&mut seen, 12 * SECOND), Some(Finding::TimedOut(Duration::from_secs(11))));
    }

    #[test]
    fn a_request_that_has_just_been_counted_is_no_other_one() {
        let mut seen = LastRequest::default();
        let slow = Some(Finding::Slow(Duration::from_secs(3)));
        assert_eq!(seen.look(&busy(SECOND, 0), 0, None, &LIMITS, 4 * SECOND), slow);
        assert_eq!(seen.look(&busy(SECOND, 1), 0, None, &LIMITS, 5 * SECOND), None);
        assert_eq!(seen.look(&busy(6 * SECOND, 1), 0, None, &LIMITS, 9 * SECOND), slow);
    }

    #[test]
    fn a_script_that_goes_on_after_its_response_is_timed_only_if_that_is_wanted() {
        let finishing = entry(WorkerState::Finishing, SECOND, 1);
        let timed = Limits { finished: true, ..LIMITS };
        let (mut seen, mut also) = (LastRequest::default(), LastRequest::default());
        assert_eq!(seen.look(&busy(SECOND, 0), 0, None, &LIMITS, 2 * SECOND), None);
        assert_eq!(seen.look(&finishing, 0, None, &LIMITS, 60 * SECOND), None);
        let found = also.look(&finishing, 0, None, &timed, 12 * SECOND);
        assert_eq!(found, Some(Finding::TimedOut(Duration::from_secs(11))));
    }

    #[test]
    fn the_next_request_may_be_slow_again() {
        let mut seen = LastRequest::default();
        let slow = Some(Finding::Slow(Duration::from_secs(3)));
        assert_eq!(seen.look(&busy(SECOND, 0), 0, None, &LIMITS, 4 * SECOND), slow);
        assert_eq!(seen.look(&busy(5 * SECOND, 1), 0, None, &LIMITS, 8 * SECOND), slow);
        assert_eq!(seen.look(&busy(5 * SECOND, 1), 0, None, &LIMITS, 9 * SECOND), None);
        let idle = entry(WorkerState::Idle, 10 * SECOND, 2);
        assert_eq!(seen.look(&idle, 0, None, &LIMITS, 60 * SECOND), None);
    }

    #[test]
    fn a_worker_that_lies_about_its_time_is_found_out() {
        let mut seen = LastRequest::default();
        assert_eq!(seen.look(&busy(u64::MAX, 0), 0, None, &LIMITS, SECOND), None);
        let found = seen.look(&busy(u64::MAX, 0), 0, None, &LIMITS, 12 * SECOND);
        assert_eq!(found, Some(Finding::TimedOut(Duration::from_secs(11))));
    }

    #[test]
    fn a_worker_that_ends_requests_by_itself_has_more_time() {
        let limit = Duration::from_secs(10);
        assert_eq!(patience(Mode::Worker, limit), limit);
        assert_eq!(patience(Mode::Async, limit), limit + GRACE);
        assert_eq!(patience(Mode::Async, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn without_limits_nothing_is_wrong() {
        let mut seen = LastRequest::default();
        assert_eq!(seen.look(&busy(0, 0), 0, Some(u64::MAX), &Limits::default(), u64::MAX), None);
    }

    #[test]
    fn a_big_worker_is_found_in_any_state_but_starting() {
        for (state, found) in [
            (WorkerState::Idle, Some(Finding::TooBig(1001))),
            (WorkerState::Busy, Some(Finding::TooBig(1001))),
            (WorkerState::Starting, None),
        ] {
            let look =
                LastRequest::default().look(&entry(state, 0, 0), 0, Some(1001), &LIMITS, SECOND);
            assert_eq!(look, found, "{state:?}");
        }
        let fits = LastRequest::default().look(&busy(0, 0), 0, Some(1000), &LIMITS, SECOND);
        assert_eq!(fits, None);
    }

    #[test]
    fn a_boot_that_takes_too_long_is_a_finding() {
        let starting = entry(WorkerState::Starting, 0, 0);
        let look = |limits: &Limits, now| {
            LastRequest::default().look(&starting, SECOND, None, limits, now)
        };
        assert_eq!(look(&LIMITS, 61 * SECOND), None);
        assert_eq!(look(&LIMITS, 62 * SECOND), Some(Finding::BootStuck(Duration::from_secs(61))));
        let patient = Limits { request: Duration::from_secs(90), ..LIMITS };
        assert_eq!(look(&patient, 62 * SECOND), None);
    }
}
