//! The requests that a pool's workers of async mode have under way: which of them are slow, and
//! which a worker has lost when it dies.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

use tokamak_config::Mode;
use tokamak_sys::process;
use tokamak_sys::queue::{InFlight, InWords, PoolNumber, State};

use super::Pool;
use crate::watch::since;

/// Requests that a line names. A tenth would seldom name the one that is looked for, ten times more
/// would be a line that nobody reads.
const NAMED: usize = 10;

/// What the slow log has of requests already, by slot and time of the claim.
#[derive(Debug, Default)]
pub struct SlowLogged {
    requests: HashMap<(u32, u64), LoggedRequest>,
    /// When all requests were looked at.
    looked_at: u64,
}

/// Nanoseconds between two looks at all requests, of which there may be thousands: a pool minds its
/// own with each message that comes.
const BETWEEN_LOOKS: u64 = 100_000_000;

#[derive(Debug, Default)]
struct LoggedRequest {
    /// Since when it was running when it was named as the one that holds the others; 0: it was not.
    running_since: u64,
}

/// What the slow log has to say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// It has run for so long, and no other of its worker could.
    Blocks(Duration),
    /// It takes longer than it should.
    Slow,
}

impl SlowLogged {
    /// Forgets requests that are over.
    fn keep(&mut self, requests: &[InFlight]) {
        let there: HashSet<_> = requests.iter().map(key_of).collect();
        self.requests.retain(|key, _| there.contains(key));
    }

    /// What is new of a request.
    fn look(&mut self, request: &InFlight, limit: Duration, now: u64) -> Option<Finding> {
        if since(request.claimed_at, now) <= limit {
            return None;
        }
        let running = since(request.since, now);
        let is_new = !self.requests.contains_key(&key_of(request));
        let logged = self.requests.entry(key_of(request)).or_default();
        let blocks = request.state == State::Running && running > limit;
        if blocks && logged.running_since != request.since {
            logged.running_since = request.since;
            return Some(Finding::Blocks(running));
        }
        is_new.then_some(Finding::Slow)
    }
}

fn key_of(request: &InFlight) -> (u32, u64) {
    (request.slot, request.claimed_at)
}

impl Pool {
    /// The requests that a worker of async mode has under way.
    pub(super) fn in_flight_of(&self, instance: u32, now: u64) -> Vec<InFlight> {
        match self.site.mode {
            Mode::Async => {
                self.segment.in_flight(now).filter(|one| one.instance == instance).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Writes each request of async mode that is slow to the log, once, and once more for each turn
    /// in which it holds the others.
    pub(super) fn mind_slow(&mut self, now: u64) {
        let limit = self.site.pool.slow;
        if self.site.mode != Mode::Async
            || limit.is_zero()
            || now < self.slow_logged.looked_at + BETWEEN_LOOKS
        {
            return;
        }
        self.slow_logged.looked_at = now;
        let requests: Vec<InFlight> = self.segment.in_flight(now).collect();
        self.slow_logged.keep(&requests);
        for request in &requests {
            let Some(finding) = self.slow_logged.look(request, limit, now) else { continue };
            let Some(index) = self.slots.iter().position(|it| it.instance == request.instance)
            else {
                continue;
            };
            let pid = self.slots[index].pid.unwrap_or(0);
            let held = requests.iter().filter(|one| one.instance == request.instance).count() - 1;
            if finding == Finding::Slow {
                self.segment.count_pool_number(PoolNumber::SlowRequests);
            }
            let (took, doing) =
                (since(request.claimed_at, now), does(request, finding, pid, held, now));
            self.begin_slow_entry(index as u16, request, took, Some(doing), now);
        }
    }
}

fn does(request: &InFlight, finding: Finding, pid: u32, held: usize, now: u64) -> String {
    let seconds = since(request.since, now).as_secs_f64();
    match (&request.state, finding) {
        (_, Finding::Blocks(running)) => {
            let how = match process::demand(pid) {
                Some(demand) if !demand.is_runnable => "in a call that waits",
                _ => "computing",
            };
            let running = running.as_secs_f64();
            format!("blocks its worker for {running:.1} s, {how}, and holds {held} other(s)")
        }
        (State::Running, Finding::Slow) => "runs".to_owned(),
        (State::Ready, Finding::Slow) => {
            format!("waits for its turn, and has waited for {seconds:.1} s")
        }
        (State::Waiting { cause, .. }, Finding::Slow) => {
            format!("waits for {seconds:.1} s for {}", InWords(cause, now))
        }
    }
}

/// What a worker has lost, for the end of a line; nothing if it had no request.
pub fn lost(requests: &[InFlight]) -> String {
    let running = match requests {
        [] => return String::new(),
        [_] => Some(0),
        _ => requests.iter().position(|one| one.state == State::Running),
    };
    let mut words = match running.map(|nth| &requests[nth]) {
        Some(one) => {
            format!(" while serving method={} uri={} id={}", one.method, one.uri, one.id)
        }
        None => " while all of its requests waited".to_owned(),
    };
    let mut others: Vec<_> = (0..).zip(requests).filter(|(nth, _)| Some(*nth) != running).collect();
    others.sort_by_key(|(_, one)| one.claimed_at);
    if !others.is_empty() {
        let _ = write!(words, "; lost with it: {}", others.len());
    }
    for (nth, (_, one)) in others.iter().take(NAMED).enumerate() {
        let before = if nth == 0 { ": " } else { ", " };
        let _ = write!(words, "{before}{} {}", one.method, one.uri);
    }
    if others.len() > NAMED {
        words.push_str(", ...");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokamak_cost::RequestId;
    use tokamak_sys::queue::Cause;

    const SECOND: u64 = 1_000_000_000;
    const LIMIT: Duration = Duration::from_secs(2);

    fn request(slot: u32, state: State, since: u64) -> InFlight {
        InFlight {
            slot,
            instance: 1,
            claimed_at: SECOND,
            method: "GET".into(),
            uri: format!("/{slot}"),
            state,
            since,
            id: RequestId::new(SECOND, slot),
        }
    }

    fn waiting() -> State {
        State::Waiting { cause: Cause::Other("a lock"), others: 0 }
    }

    #[test]
    fn each_slow_request_is_reported_once() {
        let mut logged = SlowLogged::default();
        let one = request(1, waiting(), SECOND);
        assert_eq!(logged.look(&one, LIMIT, 3 * SECOND), None);
        assert_eq!(logged.look(&one, LIMIT, 4 * SECOND), Some(Finding::Slow));
        assert_eq!(logged.look(&one, LIMIT, 5 * SECOND), None);
        let other = request(2, waiting(), SECOND);
        assert_eq!(logged.look(&other, LIMIT, 5 * SECOND), Some(Finding::Slow));
        // The next one in that slot.
        logged.keep(&[other]);
        assert_eq!(logged.look(&one, LIMIT, 6 * SECOND), Some(Finding::Slow));
    }

    #[test]
    fn a_request_that_holds_up_the_others_is_reported_for_each_turn() {
        let mut logged = SlowLogged::default();
        let turn = |since| request(1, State::Running, since * SECOND);
        assert_eq!(logged.look(&turn(4), LIMIT, 5 * SECOND), Some(Finding::Slow));
        let blocks = |seconds| Some(Finding::Blocks(Duration::from_secs(seconds)));
        assert_eq!(logged.look(&turn(4), LIMIT, 7 * SECOND), blocks(3));
        assert_eq!(logged.look(&turn(4), LIMIT, 8 * SECOND), None);
        assert_eq!(logged.look(&turn(9), LIMIT, 10 * SECOND), None);
        assert_eq!(logged.look(&turn(9), LIMIT, 13 * SECOND), blocks(4));
    }

    #[test]
    fn the_requests_lost_with_a_worker_are_listed() {
        assert_eq!(lost(&[]), "");
        let mut all = vec![request(1, waiting(), 1), request(2, State::Running, 1)];
        let (one, two) = (all[0].id, all[1].id);
        assert_eq!(lost(&all[1..]), format!(" while serving method=GET uri=/2 id={two}"));
        assert_eq!(lost(&all[..1]), format!(" while serving method=GET uri=/1 id={one}"));
        let both = format!(" while serving method=GET uri=/2 id={two}; lost with it: 1: GET /1");
        assert_eq!(lost(&all), both);
        all.truncate(1);
        all.extend((2..13).map(|slot| request(slot, waiting(), 1)));
        let words = lost(&all);
        assert!(words.contains(" waited; lost with it: 12: GET /1, GET /2,"), "{words}");
        assert!(words.ends_with("GET /10, ..."), "{words}");
    }
}
