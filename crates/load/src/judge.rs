//! Whether a trial kept its bounds.

use std::time::Duration;

use tokamak_observe::trend::{median, trend};

use crate::answers::{Answer, Outcome, quantile, responses};
use crate::client::Load;

/// A part of all requests takes at most a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The part, from 0 to 1.
    pub part: f64,
    /// The time.
    pub limit: Duration,
}

impl Bound {
    /// As people say it: `p90`.
    pub fn name(&self) -> String {
        format!("p{}", (self.part * 1000.0).round() / 10.0)
    }
}

/// What a trial says of its rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All bounds hold.
    Holds,
    /// A bound does not, and why.
    Breaks(String),
    /// The bounds hold still, but response times grow all the time: more requests come than are
    /// answered, and with time any bound would break. By so many seconds a second.
    Grows(f64),
    /// The load generator could not keep to its times, so the trial says nothing of the server.
    Generator(String),
}

/// Growth of response times that is more than noise, in seconds a second: a server that is short of
/// 4 % of what arrives. A tenth could not be distinguished from chance in a trial of some seconds;
/// ten times more would let a rate pass that is far too high.
const GROWTH: f64 = 0.04;

/// Stretches of a trial whose medians are compared. Neighbours in a queue wait for the same reason,
/// so with ten times more stretches chance would look like growth; a tenth shows nothing.
const STRETCHES: usize = 12;

/// The part of a bound by which requests may be sent too late. More would be seen in the response
/// times that are judged.
const LATE: f64 = 0.2;

/// The part of a core with which a sending thread counts as full. No thread gets all of a core.
const FULL: f64 = 0.9;

/// Judges a trial. `scarce`: the load generator has hardly more connections than a server that does
/// not queue would use at this rate; so it may be the one that makes requests wait.
pub fn judge(load: &Load, bounds: &[Bound], scarce: bool) -> Verdict {
    let broken = bounds.iter().find_map(|bound| breach(&load.answers, *bound));
    if broken.is_some()
        && let Some(why) = generator_is_late(load, bounds, scarce)
    {
        return Verdict::Generator(why);
    }
    if let Some(why) = broken {
        return Verdict::Breaks(why);
    }
    match growth(&load.answers) {
        Some(growth) => Verdict::Grows(growth),
        None => Verdict::Holds,
    }
}

fn breach(answers: &[Answer], bound: Bound) -> Option<String> {
    let found = quantile(&responses(answers), bound.part);
    if found <= bound.limit {
        return None;
    }
    let failed = answers
        .iter()
        .filter(|answer| !answer.outcome.is_good() && answer.outcome != Outcome::Unanswered)
        .count();
    let allowed = (1.0 - bound.part) * answers.len() as f64;
    Some(if failed as f64 > allowed { "failures" } else { "too slow" }.to_owned())
}

/// By how many seconds a second response times grow, if that is no chance.
fn growth(answers: &[Answer]) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = answers
        .iter()
        .filter(|answer| answer.outcome.is_good())
        .map(|answer| (answer.at.as_secs_f64(), answer.taken.as_secs_f64()))
        .collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let stretches: Vec<(f64, f64)> = points
        .chunks(points.len().div_ceil(STRETCHES).max(1))
        .filter_map(|stretch| {
            let taken: Vec<f64> = stretch.iter().map(|point| point.1).collect();
            Some((stretch.first()?.0, median(&taken)?))
        })
        .collect();
    let found = trend(&stretches)?;
    (found.low > GROWTH / 4.0 && found.slope > GROWTH).then_some(found.slope)
}

/// Why the load generator is to blame, if it is.
fn generator_is_late(load: &Load, bounds: &[Bound], scarce: bool) -> Option<String> {
    if load.answers.iter().any(|answer| answer.outcome == Outcome::NoSocket) {
        return Some("it had no socket left: descriptors or ports are used up".into());
    }
    if scarce && load.waited * 10 > load.answers.len() {
        return Some("all its connections were in use (--connections)".into());
    }
    let mut late: Vec<Duration> = load.answers.iter().map(|answer| answer.late).collect();
    late.sort_unstable();
    let bound = bounds.iter().find(|bound| {
        quantile(&late, bound.part).as_secs_f64() > LATE * bound.limit.as_secs_f64()
    })?;
    let by = quantile(&late, bound.part);
    let why = if load.busiest > FULL { "its thread has a full core" } else { "it had no core" };
    Some(format!("it sent requests up to {by:.1?} late ({}): {why}", bound.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{Spacing, arrivals};

    const BOUND: Bound = Bound { part: 0.9, limit: Duration::from_millis(100) };

    fn load(count: u64, taken: impl Fn(u64) -> u64, late: u64, good: impl Fn(u64) -> bool) -> Load {
        let answers = (0..count)
            .map(|nth| Answer {
                at: Duration::from_millis(10 * nth),
                late: Duration::from_millis(late),
                taken: Duration::from_millis(taken(nth)),
                outcome: if good(nth) { Outcome::Status(200) } else { Outcome::Status(500) },
            })
            .collect();
        let sent_for = Duration::from_millis(10 * count);
        Load { answers, sent_for, is_cut: false, busiest: 0.1, waited: 0 }
    }

    #[test]
    fn quick_answers_hold_and_slow_ones_break() {
        assert_eq!(judge(&load(300, |_| 20, 0, |_| true), &[BOUND], false), Verdict::Holds);
        let slow = load(300, |nth| if nth % 5 == 0 { 150 } else { 20 }, 0, |_| true);
        assert_eq!(judge(&slow, &[BOUND], false), Verdict::Breaks("too slow".into()));
        let median = Bound { part: 0.5, ..BOUND };
        assert_eq!(judge(&slow, &[median], false), Verdict::Holds);
        assert!(matches!(judge(&slow, &[median, BOUND], false), Verdict::Breaks(_)));
    }

    #[test]
    fn errors_are_failures_of_the_bound() {
        let some = load(300, |_| 20, 0, |nth| nth % 5 != 0);
        assert_eq!(judge(&some, &[BOUND], false), Verdict::Breaks("failures".into()));
        assert_eq!(
            judge(&load(300, |_| 20, 0, |nth| nth % 50 != 0), &[BOUND], false),
            Verdict::Holds
        );
    }

    #[test]
    fn a_backlog_that_grows_is_seen_before_it_breaks_the_bound() {
        // After two seconds it would break the bound, and not yet after these 1.7.
        let growing = load(170, |nth| 10 + nth / 2, 0, |_| true);
        assert!(matches!(judge(&growing, &[BOUND], false), Verdict::Grows(by) if by > GROWTH));
    }

    /// The trial of a server that has two workers and takes 10 ms for a request: 200/s.
    fn two_workers(rate: f64, seed: u64) -> Load {
        let length = Duration::from_secs(3);
        let mut free = [Duration::ZERO; 2];
        let answers = arrivals(Spacing::Poisson, rate, length, seed)
            .into_iter()
            .map(|at| {
                let first = free.iter_mut().min().unwrap();
                *first = at.max(*first) + Duration::from_millis(10);
                let taken = *first - at;
                Answer { at, late: Duration::ZERO, taken, outcome: Outcome::Status(200) }
            })
            .collect();
        Load { answers, sent_for: length, is_cut: false, busiest: 0.1, waited: 0 }
    }

    #[test]
    fn a_queue_that_comes_and_goes_is_no_backlog() {
        let patient = Bound { limit: Duration::from_secs(5), ..BOUND };
        let growing = |rate| {
            let trials = (0..100).map(|seed| judge(&two_workers(rate, seed), &[patient], false));
            trials.filter(|verdict| matches!(verdict, Verdict::Grows(_))).count()
        };
        let [calm, busy, beyond] = [100.0, 170.0, 240.0].map(growing);
        assert!(calm <= 1 && busy <= 15 && beyond >= 97, "{calm} {busy} {beyond}");
    }

    #[test]
    fn a_late_generator_says_nothing_of_the_server() {
        let late = load(300, |_| 150, 140, |_| true);
        assert!(matches!(judge(&late, &[BOUND], false), Verdict::Generator(_)));
        let quick = load(300, |_| 60, 50, |_| true);
        assert_eq!(judge(&quick, &[BOUND], false), Verdict::Holds);
    }

    #[test]
    fn a_generator_without_connections_is_named() {
        let few = Load { waited: 100, ..load(300, |_| 150, 0, |_| true) };
        let Verdict::Generator(why) = judge(&few, &[BOUND], true) else { panic!("{few:?}") };
        assert!(why.contains("--connections"), "{why}");
        assert_eq!(judge(&few, &[BOUND], false), Verdict::Breaks("too slow".into()));
    }
}
