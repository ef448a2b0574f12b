//! Tells the operator which spans were lost, in moderation.

use std::time::{Duration, Instant};

use super::{Fate, SpanQueue};
use crate::log;

/// A line at most in this time. With a tenth, a collector that is away for a night would fill the
/// log; with ten times more, an operator who looks for the reason would wait for it.
const INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of a reason that are logged: it may be the collector's own text.
const LONGEST_REASON: usize = 200;

/// The fates that are losses.
const LOSSES: [Fate; 3] = [Fate::Rejected, Fate::Undelivered, Fate::Dropped];

/// The losses that have been logged.
#[derive(Default)]
pub struct Losses {
    reported: [u64; LOSSES.len()],
    reported_at: Option<Instant>,
    /// Why the last spans were not taken.
    reason: String,
}

impl Losses {
    /// Spans were not taken, for this reason.
    pub fn because(&mut self, reason: &str) {
        self.reason = reason.chars().take(LONGEST_REASON).collect();
    }

    /// Writes a line if spans were lost, and the last line was not just now or this is the end.
    pub fn report(&mut self, queue: &SpanQueue, is_last: bool) {
        let counted = LOSSES.map(|fate| queue.counted(fate));
        let is_soon = self.reported_at.is_some_and(|at| at.elapsed() < INTERVAL);
        if counted == self.reported || (is_soon && !is_last) {
            return;
        }
        let [rejected, undelivered, dropped] =
            [0, 1, 2].map(|nth| counted[nth] - self.reported[nth]);
        log::server(&line(rejected, undelivered, dropped, &self.reason));
        self.reported = counted;
        self.reported_at = Some(Instant::now());
        self.reason.clear();
    }
}

fn line(rejected: u64, undelivered: u64, dropped: u64, reason: &str) -> String {
    let mut parts = Vec::new();
    if undelivered > 0 {
        parts.push(format!("{undelivered} could not be delivered"));
    }
    if rejected > 0 {
        parts.push(format!("the collector rejected {rejected}"));
    }
    if dropped > 0 {
        parts.push(format!(
            "{dropped} were more than `trace.export_rate` allows, or than may wait for the \
                collector"
        ));
    }
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    format!("spans of traces were lost: {}{reason}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_and_why() {
        assert_eq!(
            line(0, 7, 0, "the collector answered 503"),
            "spans of traces were lost: 7 could not be delivered (the collector answered 503)"
        );
        assert_eq!(
            line(1, 2, 0, ""),
            "spans of traces were lost: 2 could not be delivered, the collector rejected 1"
        );
    }
}
