//! What became of the requests of one trial.

use std::collections::BTreeMap;
use std::time::Duration;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was answered, with this status.
    Status(u16),
    /// The connection was not accepted.
    Refused,
    /// There is no way to the server's host.
    Unreachable,
    /// The server accepted the connection, and there was no TLS handshake.
    NoTls,
    /// The connection ended before the answer.
    Broken,
    /// No answer within the time limit.
    TimedOut,
    /// The trial ended before, because its result was clear.
    Unanswered,
    /// The load generator had no socket for it.
    NoSocket,
}

impl Outcome {
    /// Whether it is what visitors want: a status from 200 to 299.
    pub fn is_good(self) -> bool {
        matches!(self, Outcome::Status(200..=299))
    }

    /// In words.
    pub fn name(self) -> String {
        match self {
            Outcome::Status(status) => format!("status {status}"),
            Outcome::Refused => "connection refused".into(),
            Outcome::Unreachable => "host or network unreachable".into(),
            Outcome::NoTls => "no TLS handshake".into(),
            Outcome::Broken => "connection broken".into(),
            Outcome::TimedOut => "no answer in time".into(),
            Outcome::Unanswered => "not waited for".into(),
            Outcome::NoSocket => "no socket left for the load generator".into(),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When it was to be sent, from the trial's beginning.
    pub at: Duration,
    /// By how much it was sent later.
    pub late: Duration,
    /// From the moment at which it was to be sent to its end.
    pub taken: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

impl Answer {
    /// Its response time; [`Duration::MAX`] if it has no good answer.
    pub fn response(&self) -> Duration {
        if self.outcome.is_good() { self.taken } else { Duration::MAX }
    }
}

/// How many of `count` values are a part `q` of them, at least one.
pub fn part_of(count: usize, q: f64) -> usize {
    ((q * count as f64).ceil() as usize).clamp(1, count.max(1))
}

/// The smallest value that a part `q` of all does not exceed; zero of nothing.
pub fn quantile(sorted: &[Duration], q: f64) -> Duration {
    sorted.get(part_of(sorted.len(), q) - 1).copied().unwrap_or_default()
}

/// Response times in order; those without a good answer are the longest.
pub fn responses(answers: &[Answer]) -> Vec<Duration> {
    let mut all: Vec<Duration> = answers.iter().map(Answer::response).collect();
    all.sort_unstable();
    all
}

/// How many requests failed, by what happened.
pub fn failures(answers: &[Answer]) -> BTreeMap<Outcome, usize> {
    let mut found = BTreeMap::new();
    for answer in answers.iter().filter(|answer| !answer.outcome.is_good()) {
        *found.entry(answer.outcome).or_default() += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantile_splits_the_values(
            mut values in prop::collection::vec(0..1000u64, 1..200), q in 0.0..=1.0f64
        ) {
            values.sort_unstable();
            let sorted: Vec<Duration> = values.iter().copied().map(Duration::from_millis).collect();
            let found = quantile(&sorted, q);
            let below = sorted.iter().filter(|value| **value < found).count() as f64;
            let within = sorted.iter().filter(|value| **value <= found).count() as f64;
            prop_assert!(within >= q * sorted.len() as f64);
            prop_assert!(below <= q * sorted.len() as f64);
        }
    }

    #[test]
    fn failures_are_the_longest_responses() {
        let answer = |taken, outcome| Answer {
            at: Duration::ZERO,
            late: Duration::ZERO,
            taken: Duration::from_millis(taken),
            outcome,
        };
        let all = [answer(1, Outcome::Status(503)), answer(5, Outcome::Status(204))];
        assert_eq!(responses(&all), [Duration::from_millis(5), Duration::MAX]);
        assert_eq!(failures(&all), BTreeMap::from([(Outcome::Status(503), 1)]));
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
    }
}
