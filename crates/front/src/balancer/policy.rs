//! Decides how many event loops serve, from what they have done lately. It uses no clock and no
//! system call.
//!
//! ```text
//!        all busy, and processors have nothing to do: up to twice as many, for a trial
//!      ┌───────────────────────────────────────────────────────────┐
//!      │                                                           ▼
//!   few loops                                                  many loops
//!      ▲                                                           │
//!      └───────────────────────────────────────────────────────────┘
//!        the trial did not pay, or a later trial of few showed that many do not pay any more
//!        fewer would be half idle, for a while: as many as are needed
//!
//!   one is held up: all of them, for a minute; many clients: one for each 256
//! ```
//!
//! A trial compares two numbers of loops by what was answered in a second with each. Idle
//! processors alone do not say that another loop pays: where it has to share one with a worker or a
//! client, each request costs more, and fewer are answered.

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

/// Decisions for which what serves is measured before another number is tried. For more loops, all
/// of them and the one before must have found both more work and idle processors.
const AGREED: u32 = 3;

/// Decisions after a change of the number before it is judged: connections move behind their next
/// answers.
const SETTLED: u32 = 2;

/// Decisions for which a trial is measured. Rates of a steady load differ by some percent between
/// seconds, and by three times as much between single decisions.
const MEASURED: u32 = 5;

/// What is answered more by more loops, so that they pay: a quarter of what they could do at best,
/// and at most this. Half as much would be chance.
const GAIN: f64 = 0.05;

/// Requests in the time that is compared; with fewer, chance decides their number. Then loops serve
/// where processors are idle.
const MEANINGFUL: u64 = 1000;

/// More loops also pay if they answer about as much, and a request costs at most this times as
/// much: it waits less for its turn.
const AS_MUCH: f64 = 0.97;
const AS_CHEAP: f64 = 1.1;

/// After a trial, the pause before the next one of the same two numbers; each one with the same
/// outcome makes it longer by a factor, up to the longest. A trial takes 1.4 seconds, and may
/// answer a third less meanwhile.
const PAUSE: Duration = Duration::from_secs(10);
const LONGER: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(640);

/// The pause ends early if this times as much is answered, or as many clients are there: the load
/// is another one.
const OTHER_LOAD: f64 = 1.3;

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
    /// Requests that have come to all loops since they began.
    pub requests: u64,
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

/// A stretch of time in which loops are measured.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Facts,
    /// Sum of the demands at the decisions since.
    demand: f64,
    decisions: u32,
}

impl Window {
    fn begin(facts: Facts) -> Window {
        Window { began: facts, demand: 0.0, decisions: 0 }
    }

    fn add(&mut self, facts: Facts) {
        self.demand += facts.demand;
        self.decisions += 1;
    }

    /// What this many loops have done in it.
    fn end(&self, loops: usize, facts: Facts) -> Throughput {
        let seconds = facts.now.saturating_sub(self.began.now).max(1) as f64 / 1e9;
        let requests = facts.requests.saturating_sub(self.began.requests);
        let demand = self.demand / f64::from(self.decisions.max(1));
        let rate = requests as f64 / seconds;
        Throughput { loops, requests, rate, cost: demand / rate.max(f64::MIN_POSITIVE) }
    }
}

/// What a number of loops has done.
#[derive(Clone, Copy, Debug)]
struct Throughput {
    loops: usize,
    requests: u64,
    /// Requests in a second.
    rate: f64,
    /// Seconds of a processor that loops wanted for each.
    cost: f64,
}

/// What the policy finds out.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing.
    Steady,
    /// How much the loops that serve do, since more are to be tried, or fewer.
    Baseline { more: bool, window: Window },
    /// How much another number does: beside what the one before has done, the decisions since the
    /// change, and what is done since connections have moved.
    Trial { baseline: Throughput, decisions: u32, window: Window },
}

/// The smaller number of a trial that has paid, which is tried again later: load changes.
#[derive(Clone, Copy, Debug)]
struct Recheck {
    fewer: usize,
    at: u64,
    /// The time between that and the last trial.
    pause: Duration,
}

/// No larger number of loops is tried for some time, since the last one did not pay.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    until: u64,
    pause: Duration,
    /// For this load.
    rate: f64,
    clients: usize,
}

/// The number of loops that serve, and what led to it. Times in nanoseconds.
#[derive(Debug)]
pub struct ScalingPolicy {
    loops: usize,
    serving: usize,
    phase: Phase,
    refusal: Option<Refusal>,
    recheck: Option<Recheck>,
    /// The facts of the last decision.
    last: Option<Facts>,
    /// Since when fewer loops would suffice.
    calm_since: Option<u64>,
    wary_until: u64,
}

impl ScalingPolicy {
    /// A policy for this many loops. One of them serves until there is more to do.
    pub fn new(loops: usize) -> ScalingPolicy {
        ScalingPolicy {
            loops,
            serving: 1,
            phase: Phase::Steady,
            refusal: None,
            recheck: None,
            last: None,
            calm_since: None,
            wary_until: 0,
        }
    }

    /// What the loops do from now on. While one is held up, all of them accept: those that
    /// otherwise do could all be held up. `spare` gives the number of processors that were idle
    /// lately. It is called only if that matters. If it gives `None`, enough are assumed to be
    /// idle.
    pub fn decide(&mut self, facts: Facts, spare: impl FnOnce() -> Option<f64>) -> Duty {
        let Facts { now, demand, clients, is_held_up, .. } = facts;
        if is_held_up {
            self.wary_until = now + nanos(WARY);
        }
        let is_wary = now < self.wary_until;
        let least = if is_wary { self.loops } else { clients.div_ceil(CLIENTS) }.min(self.loops);
        let enough = ((demand / AMPLE).ceil() as usize).max(least).clamp(1, self.loops);
        self.calm_since = self.calm_since.or(Some(now)).filter(|_| enough < self.serving);
        let is_calm = self.calm_since.is_some_and(|since| now.saturating_sub(since) >= nanos(CALM));
        self.mind_refusal(facts);
        let may_grow = self.serving < self.loops
            && demand > BUSY * self.serving as f64
            && self.refusal.is_none_or(|refusal| now >= refusal.until);
        let spare = may_grow.then(|| spare().unwrap_or(f64::INFINITY));
        let spare = spare.filter(|spare| *spare >= SPARE);
        if least > self.serving {
            self.settle(least);
        } else if is_calm {
            self.settle(enough);
        } else if !is_wary {
            self.advance(facts, least, spare);
        }
        let listening = if is_wary { self.serving } else { self.serving.min(LISTENING) };
        Duty { serving: self.serving, listening }
    }

    /// This many serve, whatever a trial would show.
    fn settle(&mut self, serving: usize) {
        self.serving = serving;
        self.phase = Phase::Steady;
        self.recheck = None;
        self.calm_since = None;
    }

    /// Forgets a refusal that was for another load.
    fn mind_refusal(&mut self, facts: Facts) {
        let rate = self
            .last
            .replace(facts)
            .map_or(0.0, |last| Window::begin(last).end(self.serving, facts).rate);
        self.refusal = self.refusal.filter(|refusal| {
            rate <= refusal.rate * OTHER_LOAD
                && facts.clients as f64 <= refusal.clients as f64 * OTHER_LOAD
        });
    }

    /// Takes the next step of a trial, or begins one. `spare`: the processors that more loops could
    /// use; `None` if no more are wanted.
    fn advance(&mut self, facts: Facts, least: usize, spare: Option<f64>) {
        let is_due = |recheck: &Recheck| {
            facts.now >= recheck.at && (least..self.serving).contains(&recheck.fewer)
        };
        let baseline = |more| Phase::Baseline { more, window: Window::begin(facts) };
        self.phase = match self.phase {
            Phase::Steady if spare.is_some() => baseline(true),
            Phase::Steady if self.recheck.as_ref().is_some_and(is_due) => baseline(false),
            Phase::Steady => Phase::Steady,
            Phase::Baseline { more: true, .. } if spare.is_none() => Phase::Steady,
            Phase::Baseline { more, mut window } => {
                window.add(facts);
                if window.decisions < AGREED {
                    Phase::Baseline { more, window }
                } else {
                    let throughput = window.end(self.serving, facts);
                    let fewer = self.recheck.map_or(1, |recheck| recheck.fewer.max(least));
                    let to = spare.filter(|_| more).map_or(fewer, |spare| self.more(facts, spare));
                    self.try_out(to, throughput, facts)
                }
            }
            Phase::Trial { baseline, decisions, .. } if decisions < SETTLED => {
                let (decisions, window) = (decisions + 1, Window::begin(facts));
                Phase::Trial { baseline, decisions, window }
            }
            Phase::Trial { baseline, decisions, mut window } => {
                window.add(facts);
                if window.decisions < MEASURED {
                    Phase::Trial { baseline, decisions, window }
                } else {
                    self.judge(baseline, window.end(self.serving, facts), facts, spare)
                }
            }
        };
    }

    /// How many loops more are tried. What else is done for the requests, mostly by workers, needs
    /// its part of the idle processors too. There are as many processors as loops, unless the
    /// configuration says otherwise.
    fn more(&self, facts: Facts, spare: f64) -> usize {
        let used = (self.loops as f64 - spare).max(facts.demand);
        let more = ((spare * facts.demand / used) as usize).clamp(1, self.serving);
        (self.serving + more).min(self.loops)
    }

    fn try_out(&mut self, serving: usize, baseline: Throughput, facts: Facts) -> Phase {
        self.serving = serving;
        Phase::Trial { baseline, decisions: 0, window: Window::begin(facts) }
    }

    /// Ends a trial: the number that is better serves.
    fn judge(
        &mut self,
        baseline: Throughput,
        trial: Throughput,
        facts: Facts,
        spare: Option<f64>,
    ) -> Phase {
        let was_more = trial.loops > baseline.loops;
        let (few, many) = if was_more { (baseline, trial) } else { (trial, baseline) };
        if !pays(few, many) {
            self.serving = few.loops;
            self.recheck = None;
            let pause = self.refusal.map_or(PAUSE, |refusal| longer(refusal.pause));
            let (until, rate) = (facts.now + nanos(pause), few.rate);
            self.refusal = Some(Refusal { until, pause, rate, clients: facts.clients });
            return Phase::Steady;
        }
        self.serving = many.loops;
        let before = self.recheck.filter(|_| !was_more);
        let pause = before.map_or(PAUSE, |recheck| longer(recheck.pause));
        let (fewer, at) = (few.loops, facts.now + nanos(pause));
        self.recheck = Some(Recheck { fewer, at, pause });
        self.refusal = None;
        match spare.filter(|_| was_more) {
            Some(spare) => self.try_out(self.more(facts, spare), trial, facts),
            None => Phase::Steady,
        }
    }
}

/// Whether many loops are better than few, by what each number has done.
fn pays(few: Throughput, many: Throughput) -> bool {
    let gain = GAIN.min((many.loops - few.loops) as f64 / few.loops as f64 / 4.0);
    few.requests < MEANINGFUL
        || many.rate >= few.rate * (1.0 + gain)
        || many.rate >= few.rate * AS_MUCH && many.cost <= few.cost * AS_CHEAP
}

fn longer(pause: Duration) -> Duration {
    (pause * LONGER).min(LONGEST_PAUSE)
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions with a fifth of a second between them.
    struct Shift {
        policy: ScalingPolicy,
        now: u64,
        requests: u64,
    }

    impl Shift {
        fn of(loops: usize) -> Shift {
            Shift { policy: ScalingPolicy::new(loops), now: 0, requests: 0 }
        }

        fn decide(&mut self, change: impl FnOnce(&mut Facts), spare: Option<f64>) -> usize {
            self.now += 200_000_000;
            let Shift { now, requests, .. } = *self;
            let mut facts = Facts { now, demand: 0.1, requests, clients: 64, is_held_up: false };
            change(&mut facts);
            let duty = self.policy.decide(facts, || spare);
            let is_wary = self.now < self.policy.wary_until;
            assert_eq!(duty.listening, if is_wary { duty.serving } else { duty.serving.min(4) });
            duty.serving
        }

        fn then(&mut self, demand: f64, spare: Option<f64>) -> usize {
            self.decide(|facts| facts.demand = demand, spare)
        }

        /// A tick in which the loops that serve have done this.
        fn work(&mut self, of: impl Fn(usize) -> Load) -> usize {
            let load = of(self.policy.serving);
            self.requests += (load.rate / 5.0) as u64;
            self.then(load.demand, Some(load.spare))
        }

        /// How many serve after so many seconds of such work, and how many requests in a second
        /// were served on the average.
        fn seconds(&mut self, seconds: usize, of: impl Fn(usize) -> Load) -> (usize, f64) {
            let before = self.requests;
            let serving = (0..seconds * 5).map(|_| self.work(&of)).last().expect("a second");
            (serving, (self.requests - before) as f64 / seconds as f64)
        }
    }

    /// What a number of loops does.
    #[derive(Clone, Copy)]
    struct Load {
        rate: f64,
        demand: f64,
        spare: f64,
    }

    /// Loops that have enough to do, and processors for all of them.
    fn plenty(serving: usize) -> Load {
        let serving = serving as f64;
        Load { rate: 10_000.0 * serving, demand: serving, spare: 8.0 }
    }

    /// Two processors, which a second loop has to share with the workers and the clients.
    fn crowded(serving: usize) -> Load {
        match serving {
            1 => Load { rate: 65_000.0, demand: 0.85, spare: 0.35 },
            _ => Load { rate: 45_000.0, demand: 1.4, spare: 0.1 },
        }
    }

    #[test]
    fn more_serve_only_if_there_are_processors_for_them() {
        let mut shift = Shift::of(8);
        let busy = |spare| move |serving| Load { spare, ..plenty(serving) };
        assert_eq!(
            shift.seconds(9, |_| Load { demand: 0.5, ..plenty(1) }).0,
            1,
            "it has time left"
        );
        assert_eq!(shift.seconds(9, busy(0.1)).0, 1, "and now there is nothing to be had");
        assert_eq!((0..3).map(|_| shift.work(plenty)).last(), Some(1));
        assert_eq!(shift.seconds(1, busy(0.1)).0, 1, "that was too short");
        let counts: Vec<_> = (0..25).map(|_| shift.work(plenty)).collect();
        let [one, two, four] =
            [1, 2, 4].map(|count| counts.iter().filter(|of| **of == count).count());
        assert_eq!([one, two, four, counts[24]], [3, 7, 7, 8], "each is measured before the next");
        let mut alone = Shift::of(1);
        assert_eq!(alone.seconds(9, plenty).0, 1);
        let mut odd = Shift::of(3);
        assert_eq!(odd.seconds(9, plenty).0, 3);
    }

    #[test]
    fn more_that_do_not_pay_are_taken_back() {
        let mut shift = Shift::of(2);
        let tried = (0..12).map(|_| shift.work(crowded)).filter(|serving| *serving == 2).count();
        assert_eq!((tried, shift.policy.serving), (7, 1), "they were tried, for 1.4 s");
        let (serving, rate) = shift.seconds(60, crowded);
        assert_eq!(serving, 1);
        assert!(rate > 0.97 * 65_000.0, "hardly ever again: {rate}");
        // Another load is another matter: it is not refused for what the last one has shown.
        shift.policy.refusal = shift.policy.refusal.map(|of| Refusal { until: u64::MAX, ..of });
        let double =
            |serving| Load { rate: 100_000.0 * serving as f64, demand: serving as f64, spare: 1.0 };
        assert_eq!(shift.seconds(3, double).0, 2);
    }

    #[test]
    fn more_that_do_not_pay_any_more_are_taken_back_too() {
        let mut shift = Shift::of(2);
        assert_eq!(shift.seconds(5, plenty).0, 2);
        let (serving, rate) = shift.seconds(300, plenty);
        assert_eq!(serving, 2);
        assert!(rate > 0.97 * 20_000.0, "one is hardly ever tried: {rate}");
        let mut shift = Shift::of(2);
        assert_eq!(shift.seconds(5, plenty).0, 2);
        assert_eq!(shift.seconds(12, crowded).0, 1);
    }

    #[test]
    fn more_pay_that_cost_nothing() {
        let mut shift = Shift::of(2);
        let as_much =
            |serving| Load { rate: 9_000.0, demand: 0.75 + 0.05 * serving as f64, spare: 1.0 };
        assert_eq!(shift.seconds(5, as_much).0, 2, "each request finds a loop that has time");
        let mut shift = Shift::of(2);
        let dearer =
            |serving| Load { rate: 9_000.0, demand: 0.5 + 0.25 * serving as f64, spare: 1.0 };
        assert_eq!(shift.seconds(5, dearer).0, 1);
    }

    #[test]
    fn with_few_requests_idle_processors_decide() {
        let mut shift = Shift::of(2);
        let slow =
            |serving| Load { rate: 50.0 / serving as f64, demand: serving as f64, spare: 1.0 };
        assert_eq!(shift.seconds(5, slow).0, 2);
    }

    #[test]
    fn fewer_serve_when_that_has_sufficed_for_a_while() {
        let mut shift = Shift::of(8);
        assert_eq!(shift.seconds(9, plenty).0, 8);
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
        let model = |serving: usize| {
            let serving = serving as f64;
            // Either the loops have no more time, or the machine has none.
            let rate = (serving / of_loop).min(cores as f64 / (of_loop + of_worker));
            let spare = cores as f64 - rate * (of_loop + of_worker);
            Load { rate: rate * 1e6, demand: rate * of_loop, spare }
        };
        let counts: Vec<_> = (0..300).map(|_| shift.work(model)).collect();
        // Later trials of fewer end with what was before.
        let most = *counts.iter().max().expect("counts");
        let since = counts.iter().position(|count| *count == most).expect("the most");
        assert_eq!(*counts.last().expect("counts"), most);
        (most, if most == 1 { 0.0 } else { (since + 1) as f64 / 5.0 })
    }

    /// The costs, and what comes of them, are those of `bench/driver/many_cores.py`.
    #[test]
    fn as_many_loops_serve_as_there_are_cores_for_them() {
        let of_cores = [(1, 1, 0.0), (2, 2, 0.8), (4, 3, 2.2), (16, 13, 6.4), (64, 50, 9.2)];
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
        assert_eq!(shift.seconds(5, plenty).0, 2);
        shift.now += 1_000_000_000;
        shift.then(0.1, None);
        shift.now -= 900_000_000;
        assert_eq!(shift.then(0.1, None), 2);
    }
}
