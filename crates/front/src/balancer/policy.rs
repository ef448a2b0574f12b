//! Decides how many event loops serve, from what they have done lately. It uses no clock and no
//! system call.
//!
//! ```text
//!        all busy, and processors have nothing to do: up to twice as many
//!      ┌───────────────────────────────────────────────────────────┐
//!      │                                                           ▼
//!   few loops                                                  many loops
//!      ▲                                                           │
//!      └───────────────────────────────────────────────────────────┘
//!        fewer would be half idle, for a while: as many as are needed
//!
//!   one is held up: all of them, for a minute; many clients: one for each 256
//! ```

use std::time::Duration;

/// Fraction of its time for which a busy loop wants a processor. The rest is the time in which
/// another loop can begin to serve: near 1 requests would queue before that, at 0.1 every loop
/// would always serve.
const BUSY: f64 = 0.7;

/// Fewer loops suffice if each would want a processor for at most this fraction of its time. The
/// distance to [`BUSY`] keeps the number from swinging.
const AMPLE: f64 = 0.5;

/// Processors that must have nothing to do before another loop may serve: without one, loops would
/// take turns. Chosen by measurement: a loop and a client that have two processors for themselves
/// leave 0.05 to 0.2 of one, a loop that another one could help leaves 0.4.
const SPARE: f64 = 0.3;

/// Decisions in a row that must agree before another loop serves.
const TWICE: u32 = 2;

/// HTTP connections for which one loop is enough. Each may have a request in the queue, and this is
/// the smallest number of slots that a loop has there.
pub const CLIENTS: usize = 256;

/// Of the loops that serve, so many wait for new clients; they hand most of them over. The kernel
/// wakes each loop that waits for every connection, and all but one find it taken: with 16, a
/// connection cost 15 calls of accept and 17 context switches, with 4 it costs 5 and 7. A single
/// one would let all new clients wait for its turn.
const LISTENING: usize = 4;

/// How long fewer loops must have sufficed before fewer serve. Much shorter, and each pause between
/// two bursts would move connections; much longer only wastes context switches.
const CALM: Duration = Duration::from_secs(1);

/// How long all loops serve after one was held up, because what held it up will probably come
/// again.
const WARY: Duration = Duration::from_secs(60);

/// What is known at the time of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The time, in nanoseconds.
    pub now: u64,
    /// How many processors all loops have wanted lately, whether they had them or not.
    pub demand: f64,
    /// HTTP connections.
    pub clients: usize,
    /// Whether a loop was held up.
    pub is_held_up: bool,
}

/// How many loops do what. They are the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// They have connections of HTTP clients.
    pub serving: usize,
    /// They accept them, too.
    pub listening: usize,
}

impl Duty {
    /// Of one loop, until there is more to do.
    pub const ALONE: Duty = Duty { serving: 1, listening: 1 };
}

/// The number of loops that serve, and what led to it. Times in nanoseconds.
#[derive(Debug)]
pub struct ScalingPolicy {
    loops: usize,
    serving: usize,
    /// Decisions in a row that have found both more work and idle processors.
    wanting: u32,
    /// Since when fewer loops would suffice.
    calm_since: Option<u64>,
    wary_until: u64,
}

impl ScalingPolicy {
    /// A policy for this many loops. One of them serves until there is more to do.
    pub fn new(loops: usize) -> ScalingPolicy {
        ScalingPolicy { loops, serving: 1, wanting: 0, calm_since: None, wary_until: 0 }
    }

    /// What the loops do from now on. While one is held up, all of them accept: those that
    /// otherwise do could all be held up. `spare` gives the number of processors that were idle
    /// lately. It is called only if that matters. If it gives `None`, enough are assumed to be
    /// idle.
    pub fn decide(&mut self, facts: Facts, spare: impl FnOnce() -> Option<f64>) -> Duty {
        let Facts { now, demand, clients, is_held_up } = facts;
        if is_held_up {
            self.wary_until = now + WARY.as_nanos() as u64;
        }
        let is_wary = now < self.wary_until;
        let least = if is_wary { self.loops } else { clients.div_ceil(CLIENTS) };
        let enough = ((demand / AMPLE).ceil() as usize).max(least).clamp(1, self.loops);
        let is_busy = self.serving < self.loops && demand > BUSY * self.serving as f64;
        let spare = if is_busy { spare().unwrap_or(f64::INFINITY) } else { 0.0 };
        self.wanting = if spare >= SPARE { self.wanting + 1 } else { 0 };
        self.calm_since = self.calm_since.or(Some(now)).filter(|_| enough < self.serving);
        let is_calm = self
            .calm_since
            .is_some_and(|since| now.saturating_sub(since) >= CALM.as_nanos() as u64);
        if self.wanting >= TWICE {
            self.wanting = 0;
            // What else is done for the requests, mostly by workers, needs its part of the idle
            // processors too. There are as many processors as loops, unless the configuration says
            // otherwise.
            let used = (self.loops as f64 - spare).max(demand);
            let more = ((spare * demand / used) as usize).clamp(1, self.serving);
            self.serving = (self.serving + more).min(self.loops);
        } else if is_calm {
            self.calm_since = None;
            self.serving = enough;
        }
        self.serving = self.serving.max(least.min(self.loops));
        let listening = if is_wary { self.serving } else { self.serving.min(LISTENING) };
        Duty { serving: self.serving, listening }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions with a fifth of a second between them.
    struct Shift {
        policy: ScalingPolicy,
        now: u64,
    }

    impl Shift {
        fn of(loops: usize) -> Shift {
            Shift { policy: ScalingPolicy::new(loops), now: 0 }
        }

        fn decide(&mut self, change: impl FnOnce(&mut Facts), spare: Option<f64>) -> usize {
            self.now += 200_000_000;
            let mut facts = Facts { now: self.now, demand: 0.1, clients: 64, is_held_up: false };
            change(&mut facts);
            let duty = self.policy.decide(facts, || spare);
            let is_wary = self.now < self.policy.wary_until;
            assert_eq!(duty.listening, if is_wary { duty.serving } else { duty.serving.min(4) });
            duty.serving
        }

        fn then(&mut self, demand: f64, spare: Option<f64>) -> usize {
            self.decide(|facts| facts.demand = demand, spare)
        }
    }

    #[test]
    fn more_serve_only_if_there_are_processors_for_them() {
        let mut shift = Shift::of(8);
        for (work, spare, expected) in [
            (0.5, Some(7.0), 1), // it has time left
            (1.0, Some(0.1), 1), // and now there is nothing to be had
            (1.0, Some(1.0), 1),
            (1.0, Some(0.1), 1), // it was an accident
            (1.0, Some(1.0), 1),
            (1.0, Some(1.0), 2),
            (1.1, Some(1.0), 2),
            (1.9, Some(1.0), 2),
            (1.9, Some(0.3), 3), // not more than there are processors
            (2.9, Some(0.9), 3),
            (2.9, Some(0.9), 4),
            (4.0, None, 4), // unknown is enough
            (4.0, None, 8),
            (8.0, Some(9.0), 8), // there are no more loops
        ] {
            assert_eq!(shift.then(work, spare), expected, "{work} {spare:?}");
        }
        let mut alone = Shift::of(1);
        assert_eq!([(); 3].map(|()| alone.then(1.0, Some(9.0))), [1; 3]);
        let mut odd = Shift::of(3);
        assert_eq!([(); 5].map(|()| odd.then(2.0, None)), [1, 2, 2, 3, 3]);
    }

    #[test]
    fn fewer_serve_when_that_has_sufficed_for_a_while() {
        let mut shift = Shift::of(8);
        while shift.then(8.0, None) < 8 {}
        let calm =
            |shift: &mut Shift, work| (0..5).map(|_| shift.then(work, None)).collect::<Vec<_>>();
        assert_eq!(calm(&mut shift, 1.4), [8; 5]);
        assert_eq!(shift.then(4.0, Some(0.0)), 8, "from the beginning");
        assert_eq!(calm(&mut shift, 1.4), [8; 5]);
        assert_eq!(shift.then(1.4, None), 3, "each works half its time");
        assert_eq!(calm(&mut shift, 0.0), [3; 5]);
        assert_eq!(shift.then(0.0, None), 1);
    }

    #[test]
    fn a_loop_that_is_held_up_brings_all_for_a_minute() {
        let mut shift = Shift::of(4);
        assert_eq!(shift.decide(|facts| facts.is_held_up = true, Some(0.0)), 4);
        let until = shift.now + 60_000_000_000;
        while shift.now + 200_000_000 < until + 1_000_000_000 {
            assert_eq!(shift.then(0.1, None), 4);
        }
        assert_eq!(shift.then(0.1, None), 1);
    }

    #[test]
    fn many_clients_are_never_with_one_loop() {
        let mut shift = Shift::of(4);
        let mut with = |clients: usize| shift.decide(|facts| facts.clients = clients, Some(0.0));
        assert_eq!([with(256), with(257), with(600), with(100_000)], [1, 2, 3, 4]);
        let fewer: Vec<_> = (0..7).map(|_| with(300)).collect();
        assert_eq!(fewer, [4, 4, 4, 4, 4, 2, 2]);
    }

    /// How many loops serve in the end, and after how many seconds, on a machine whose clients ask
    /// as soon as they are answered. A request takes so many microseconds of a loop, and of a
    /// worker.
    fn serving_in_the_end(cores: usize, of_loop: f64, of_worker: f64) -> (usize, f64) {
        let mut shift = Shift::of(cores);
        let mut since = (1, 0);
        for tick in 1..100 {
            let serving = since.0 as f64;
            // Either the loops have no more time, or the machine has none.
            let rate = (serving / of_loop).min(cores as f64 / (of_loop + of_worker));
            let spare = cores as f64 - rate * (of_loop + of_worker);
            let now = shift.then(rate * of_loop, Some(spare));
            since = if now == since.0 { since } else { (now, tick) };
        }
        (since.0, f64::from(since.1) / 5.0)
    }

    /// The costs, and what comes of them, are those of `bench/driver/many_cores.py`.
    #[test]
    fn as_many_loops_serve_as_there_are_cores_for_them() {
        let of_cores = [(1, 1, 0.0), (2, 2, 0.4), (4, 3, 0.8), (16, 13, 2.0), (64, 50, 2.8)];
        for (cores, loops, seconds) in of_cores {
            assert_eq!(
                serving_in_the_end(cores, 12.6, 3.7),
                (loops, seconds),
                "{cores} cores, empty script"
            );
            assert_eq!(serving_in_the_end(cores, 12.6, 5000.0), (1, 0.0), "{cores} cores, 5 ms");
        }
    }

    #[test]
    fn time_that_goes_back_is_no_calm() {
        let mut shift = Shift::of(2);
        while shift.then(2.0, None) < 2 {}
        shift.now += 1_000_000_000;
        shift.then(0.1, None);
        shift.now -= 900_000_000;
        assert_eq!(shift.then(0.1, None), 2);
    }
}
