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
//! A trial compares two numbers of loops by the requests that came in a second, and by the
//! processor time of front and workers for each. Idle processors alone do not say that another loop
//! pays: where it has to share one with a worker or a client, each request costs more, and fewer
//! are answered. The number before is measured before the trial and after it, unless the first look
//! is clear: so a load that rises or falls meanwhile speaks for neither.

use std::time::Duration;

/// Fraction of its time for which a busy loop wants a processor. The rest is the time in which
/// another loop can begin to serve: near 1 requests would queue before that, at 0.1 every loop
/// would always serve.
const BUSY: f64 = 0.7;

/// Fraction of its time for which a loop wants a processor that has no time left: it never sleeps.
const FULL: f64 = 0.95;

/// Fewer loops suffice if each would want a processor for at most this fraction of its time. The
/// distance to [`BUSY`] keeps the number from swinging.
const AMPLE: f64 = 0.5;

/// Processors that must have nothing to do before another loop may serve: without one, loops would
/// take turns. Chosen by measurement: a loop and a client that have two processors for themselves
/// leave 0.05 to 0.2 of one, a loop that another one could help leaves 0.4.
const SPARE: f64 = 0.3;

/// Decisions after a change of the number before it is measured: connections move behind their next
/// answers.
const SETTLED: u32 = 2;

/// Decisions for which a number is measured: a second. Rates of a steady load differ by some
/// percent between seconds, and by three times as much between single decisions. For more loops,
/// all of them must have found both more work and idle processors.
const MEASURED: u32 = 5;

/// What is answered more by more loops, so that they pay: a quarter of what they could do at best,
/// and at most this. Half as much would be chance.
const GAIN: f64 = 0.05;

/// What a request may cost more with more loops, beside a quarter of what is answered more. At 0.01
/// chance would decide; at 0.3 half of a processor would be spent on nothing but turns.
const DEARER: f64 = 0.03;

/// More loops also pay if they answer about as much, and a request costs at most this times as
/// much.
const AS_MUCH: f64 = 0.97;
const CHEAPER: f64 = 0.95;

/// Requests in the time that is compared; with fewer, chance decides their number. Then more loops
/// serve if processors are idle beside few.
const MEANINGFUL: u64 = 1000;

/// After a trial, the pause before the next one of the same two numbers; each one with the same
/// outcome makes it longer by a factor, up to the longest. A trial takes 1.4 seconds, or 2.8 if the
/// number before is measured again, and may answer a third less meanwhile.
const PAUSE: Duration = Duration::from_secs(10);
const LONGER: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(640);

/// The load is another one if this times as much is answered or as many clients are there, which
/// ends the pause before a trial of more loops; or if this times less is answered, which shortens
/// the pause before one of fewer.
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

/// What the kernel knows, and what takes a while to read.
pub trait Kernel {
    /// How many processors were idle lately. If it gives `None`, enough are assumed to be idle.
    fn spare(&mut self) -> Option<f64>;
    /// Nanoseconds of processor time that front and workers have used so far.
    fn used(&mut self) -> u64;
}

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

/// Requests in a second between two decisions.
fn rate(from: Facts, to: Facts) -> f64 {
    let seconds = to.now.saturating_sub(from.now).max(1) as f64 / 1e9;
    to.requests.saturating_sub(from.requests) as f64 / seconds
}

/// A stretch of time in which loops are measured.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Facts,
    /// The processor time at its beginning.
    used: u64,
    /// Sum of the demands at the decisions since.
    demand: f64,
    decisions: u32,
}

impl Window {
    fn begin(facts: Facts, kernel: &mut impl Kernel) -> Window {
        Window { began: facts, used: kernel.used(), demand: 0.0, decisions: 0 }
    }

    /// Adds a decision. Returns whether it is long enough.
    fn goes_on(&mut self, facts: Facts) -> bool {
        self.demand += facts.demand;
        self.decisions += 1;
        self.decisions >= MEASURED
    }

    /// What this many loops have done in it.
    fn end(&self, loops: usize, facts: Facts, kernel: &mut impl Kernel) -> Throughput {
        let requests = facts.requests.saturating_sub(self.began.requests);
        let used = kernel.used().saturating_sub(self.used) as f64;
        let cost = used / requests.max(1) as f64;
        let demand = self.demand / f64::from(self.decisions.max(1));
        Throughput { loops, requests, rate: rate(self.began, facts), cost, demand }
    }
}

/// What a number of loops has done.
#[derive(Clone, Copy, Debug)]
struct Throughput {
    loops: usize,
    requests: u64,
    /// Requests in a second.
    rate: f64,
    /// Nanoseconds of processor time of front and workers for each.
    cost: f64,
    /// How many processors the loops wanted.
    demand: f64,
}

impl Throughput {
    /// The mean of two measurements of the same number.
    fn and(self, other: Throughput) -> Throughput {
        Throughput {
            loops: self.loops,
            requests: self.requests.min(other.requests),
            rate: f64::midpoint(self.rate, other.rate),
            cost: f64::midpoint(self.cost, other.cost),
            demand: f64::midpoint(self.demand, other.demand),
        }
    }
}

/// The processors that are idle, if they matter now.
#[derive(Clone, Copy, Debug)]
struct Spare {
    /// How many more loops could use; `None` if no more are wanted.
    wanted: Option<f64>,
    is_there: bool,
}

/// What the policy finds out.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing.
    Steady,
    /// How much the loops that serve do, since more are to be tried, or fewer.
    Baseline { more: bool, window: Window },
    /// How much another number does, or the one before once more.
    Trial(Trial),
}

/// What is known of a trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// What the number before has done.
    before: Throughput,
    /// What the other number has done; `None` as long as it serves. Afterwards the number before
    /// serves again.
    other: Option<Throughput>,
    /// Decisions since the number has changed.
    settled: u32,
    window: Window,
}

/// A smaller number of loops is tried again at times, since load changes.
#[derive(Clone, Copy, Debug)]
struct Recheck {
    fewer: usize,
    /// When the last trial ended.
    since: u64,
    /// The time from then on.
    pause: Duration,
    /// Requests in a second at that trial.
    rate: f64,
}

/// No larger number of loops is tried for some time, since the last one did not pay.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    since: u64,
    pause: Duration,
    /// Whether the loops had no time left.
    was_full: bool,
    /// For this load.
    rate: f64,
    clients: usize,
}

impl Refusal {
    /// Whether more loops may be tried again: after the pause, or after the shortest one if the
    /// loops have no time left by now, since then more are answered by more.
    fn is_over(&self, now: u64, is_full: bool) -> bool {
        let pause = if is_full && !self.was_full { PAUSE } else { self.pause };
        now >= self.since + nanos(pause)
    }
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
    /// otherwise do could all be held up. The kernel is only asked if that matters.
    pub fn decide(&mut self, facts: Facts, kernel: &mut impl Kernel) -> Duty {
        let Facts { now, demand, clients, is_held_up, .. } = facts;
        if is_held_up {
            self.wary_until = now + nanos(WARY);
        }
        let is_wary = now < self.wary_until;
        let least = if is_wary { self.loops } else { clients.div_ceil(CLIENTS) }.min(self.loops);
        let enough = ((demand / AMPLE).ceil() as usize).max(least).clamp(1, self.loops);
        self.calm_since = self.calm_since.or(Some(now)).filter(|_| enough < self.serving);
        let is_calm = self.calm_since.is_some_and(|since| now.saturating_sub(since) >= nanos(CALM));
        let rate = self.last.replace(facts).map_or(0.0, |last| rate(last, facts));
        self.refusal = self.refusal.filter(|refusal| {
            rate <= refusal.rate * OTHER_LOAD
                && clients as f64 <= refusal.clients as f64 * OTHER_LOAD
        });
        let may_grow = self.serving < self.loops
            && demand > BUSY * self.serving as f64
            && self
                .refusal
                .is_none_or(|refusal| refusal.is_over(now, is_full(demand, self.serving)));
        let matters = may_grow || matches!(self.phase, Phase::Trial(_));
        let spare = matters.then(|| kernel.spare().unwrap_or(f64::INFINITY));
        let spare = spare.filter(|spare| *spare >= SPARE);
        let wanted = spare.filter(|_| may_grow);
        if least > self.serving {
            self.settle(least);
        } else if is_calm {
            self.settle(enough);
        } else if !is_wary {
            let fewer = self.fewer_to_try(now, rate, least);
            self.advance(facts, fewer, Spare { wanted, is_there: spare.is_some() }, kernel);
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

    /// The smaller number of loops that is to be tried now, at this rate: at the end of the pause,
    /// or after the shortest one if less is answered. Where no trial has led to the number that
    /// serves, it is half of it. Fewer than `least` may not serve.
    fn fewer_to_try(&mut self, now: u64, rate: f64, least: usize) -> Option<usize> {
        let first = Recheck { fewer: self.serving / 2, since: now, pause: PAUSE, rate };
        let recheck = self.recheck.get_or_insert(first);
        let is_less = rate * OTHER_LOAD < recheck.rate;
        let pause = if is_less { PAUSE } else { recheck.pause };
        let fewer = recheck.fewer.max(least).max(1);
        (now >= recheck.since + nanos(pause) && fewer < self.serving).then_some(fewer)
    }

    /// Takes the next step of a trial, or begins one: of `fewer` loops, or of more.
    fn advance(
        &mut self,
        facts: Facts,
        fewer: Option<usize>,
        spare: Spare,
        kernel: &mut impl Kernel,
    ) {
        let Spare { wanted, .. } = spare;
        self.phase = match self.phase {
            Phase::Steady if wanted.is_some() || fewer.is_some() => {
                Phase::Baseline { more: wanted.is_some(), window: Window::begin(facts, kernel) }
            }
            Phase::Steady => Phase::Steady,
            Phase::Baseline { more, mut window } => {
                let to = if more { wanted.map(|spare| self.more(facts, spare)) } else { fewer };
                match to {
                    None => Phase::Steady,
                    Some(to) if window.goes_on(facts) => {
                        let before = window.end(self.serving, facts, kernel);
                        self.try_out(to, before, None, Window::begin(facts, kernel))
                    }
                    Some(_) => Phase::Baseline { more, window },
                }
            }
            Phase::Trial(Trial { before, other, settled, .. }) if settled < SETTLED => {
                let window = Window::begin(facts, kernel);
                Phase::Trial(Trial { before, other, settled: settled + 1, window })
            }
            Phase::Trial(mut trial) => {
                if trial.window.goes_on(facts) {
                    self.judge(trial, facts, spare, kernel)
                } else {
                    Phase::Trial(trial)
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

    /// This many serve from now on, and are measured.
    fn try_out(
        &mut self,
        serving: usize,
        before: Throughput,
        other: Option<Throughput>,
        window: Window,
    ) -> Phase {
        self.serving = serving;
        Phase::Trial(Trial { before, other, settled: 0, window })
    }

    /// Ends a trial: the number that is better serves. One that seems better than the one before is
    /// compared with it once more, unless it is far better.
    fn judge(
        &mut self,
        trial: Trial,
        facts: Facts,
        spare: Spare,
        kernel: &mut impl Kernel,
    ) -> Phase {
        let now = trial.window.end(self.serving, facts, kernel);
        let before = if trial.other.is_some() { trial.before.and(now) } else { trial.before };
        let other = trial.other.unwrap_or(now);
        let was_more = other.loops > before.loops;
        let (few, many) = if was_more { (before, other) } else { (other, before) };
        let pays = pays(few, many, !was_more, spare.is_there);
        let seems_better = trial.other.is_none() && pays == was_more;
        if seems_better && !is_far_better(other, before) {
            return self.try_out(before.loops, before, Some(other), Window::begin(facts, kernel));
        }
        if !pays {
            self.serving = few.loops;
            self.recheck = None;
            let pause = self.refusal.map_or(PAUSE, |refusal| longer(refusal.pause));
            self.refusal = Some(Refusal {
                since: facts.now,
                pause,
                was_full: is_full(few.demand, few.loops),
                rate: few.rate,
                clients: facts.clients,
            });
            return Phase::Steady;
        }
        self.serving = many.loops;
        let last = self.recheck.filter(|_| !was_more);
        let pause = last.map_or(PAUSE, |recheck| longer(recheck.pause));
        let (fewer, since, rate) = (few.loops, facts.now, many.rate);
        self.recheck = Some(Recheck { fewer, since, pause, rate });
        self.refusal = None;
        match spare.wanted.filter(|_| seems_better) {
            Some(spare) => {
                let window = Window::begin(facts, kernel);
                self.try_out(self.more(facts, spare), other, None, window)
            }
            None => Phase::Steady,
        }
    }
}

/// Whether this many loops have no time left.
fn is_full(demand: f64, loops: usize) -> bool {
    demand > FULL * loops as f64
}

/// What more loops could do more at best, as a fraction of what few do.
fn at_best(few: usize, many: usize) -> f64 {
    (many - few) as f64 / few as f64
}

/// Whether many loops are better than few, by what each number has done. `are_there`: many are, and
/// not on trial. Then half the gain is enough, at twice the cost: that keeps the number from
/// swinging. `is_spare`: processors are idle.
fn pays(few: Throughput, many: Throughput, are_there: bool, is_spare: bool) -> bool {
    if few.requests < MEANINGFUL {
        return !are_there || is_spare;
    }
    let (gain, dearer) = if are_there { (GAIN / 2.0, DEARER * 2.0) } else { (GAIN, DEARER) };
    let gain = gain.min(at_best(few.loops, many.loops) / 4.0);
    let rise = many.rate / few.rate.max(f64::MIN_POSITIVE) - 1.0;
    rise >= gain && many.cost <= few.cost * (1.0 + dearer + rise / 4.0)
        || many.rate >= few.rate * AS_MUCH && many.cost <= few.cost * CHEAPER
}

/// Whether the number that was tried is so much better than the one before that this is no chance:
/// more loops do half of what they could at best.
fn is_far_better(tried: Throughput, before: Throughput) -> bool {
    let more =
        if tried.loops > before.loops { at_best(before.loops, tried.loops) / 2.0 } else { 0.0 };
    tried.rate >= before.rate * (1.0 + more.max(GAIN))
        || tried.requests.min(before.requests) < MEANINGFUL
}

fn longer(pause: Duration) -> Duration {
    (pause * LONGER).min(LONGEST_PAUSE)
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests;
