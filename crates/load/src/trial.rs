//! A rate that was tried, and what it showed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::answers::{self, Outcome, quantile};
use crate::client::Load;
use crate::judge::{Bound, Verdict};
use crate::watch::Sight;

/// A rate that was tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Requests a second that arrived.
    pub rate: f64,
    /// For so many seconds.
    pub seconds: f64,
    /// Requests in all.
    pub sent: usize,
    /// Good answers a second.
    pub throughput: f64,
    /// Response times in seconds of 50, 90 and 99 %; infinite if more than the rest had no answer.
    pub quantiles: [f64; 3],
    /// The response time of the first bound's part, in seconds.
    pub bounded: f64,
    /// Requests without a good answer, by what happened.
    pub failures: BTreeMap<Outcome, usize>,
    /// By how many seconds 99 % of the requests were sent late at most.
    pub late: f64,
    /// Whether it ended early.
    pub is_cut: bool,
    /// What it says.
    pub verdict: Verdict,
    /// What was seen meanwhile.
    pub sight: Sight,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial {
            rate: 0.0,
            seconds: 0.0,
            sent: 0,
            throughput: 0.0,
            quantiles: [0.0; 3],
            bounded: 0.0,
            failures: BTreeMap::new(),
            late: 0.0,
            is_cut: false,
            verdict: Verdict::Holds,
            sight: Sight::default(),
        }
    }
}

impl Trial {
    /// Sums up what was answered.
    pub(crate) fn new(
        rate: f64,
        load: &Load,
        bounds: &[Bound],
        verdict: Verdict,
        sight: Sight,
    ) -> Trial {
        let responses = answers::responses(&load.answers);
        let seconds_of = |part| match quantile(&responses, part) {
            Duration::MAX => f64::INFINITY,
            taken => taken.as_secs_f64(),
        };
        let mut late: Vec<Duration> = load.answers.iter().map(|answer| answer.late).collect();
        late.sort_unstable();
        let good = load.answers.iter().filter(|answer| answer.outcome.is_good());
        // Answers that came after the last arrival are no throughput of the time before.
        let in_time = good.filter(|answer| answer.at + answer.taken <= load.sent_for).count();
        let seconds = load.sent_for.as_secs_f64();
        Trial {
            rate,
            seconds,
            sent: load.answers.len(),
            throughput: in_time as f64 / seconds.max(1e-3),
            quantiles: [0.5, 0.9, 0.99].map(seconds_of),
            bounded: bounds.first().map_or(0.0, |bound| seconds_of(bound.part)),
            failures: answers::failures(&load.answers),
            late: quantile(&late, 0.99).as_secs_f64(),
            is_cut: load.is_cut,
            verdict,
            sight,
        }
    }
}
