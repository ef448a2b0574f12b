//! The report for people in a terminal, and for programs.

use std::fmt::Write;

use serde_json::{Value, json as object};

use crate::capacity::Report;
use crate::judge::Verdict;
use crate::plot;
use crate::trial::Trial;
use crate::words::{rate, time};

/// The verdict in a few words.
pub fn verdict(trial: &Trial) -> String {
    match &trial.verdict {
        Verdict::Holds => "holds".into(),
        Verdict::Breaks(why) => why.clone(),
        Verdict::Grows(by) => format!("backlog grows by {} a second", time(*by)),
        Verdict::Generator(why) => format!("the load generator: {why}"),
    }
}

/// What happened to the requests without a good answer.
pub fn failures(trial: &Trial) -> String {
    let each = trial.failures.iter().map(|(outcome, count)| format!("{count} {}", outcome.name()));
    each.collect::<Vec<_>>().join(", ")
}

/// The bounds as people say them.
pub fn bounds(report: &Report) -> String {
    let each = report.bounds.iter().map(|bound| {
        let part = (bound.part * 1000.0).round() / 10.0;
        format!("{part} % within {}", time(bound.limit.as_secs_f64()))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The result in one sentence.
pub fn result(report: &Report) -> String {
    let bounds = bounds(report);
    match (report.peak, report.beyond) {
        (None, _) if report.is_at_no_rate => {
            format!("at no rate {bounds}: one request alone takes {}", time(report.calm))
        }
        (None, _) => format!(
            "not known for {bounds}: no rate held until the end, one request alone takes {}",
            time(report.calm)
        ),
        (Some(peak), None) => format!("at least {} with {bounds}", rate(peak)),
        (Some(peak), Some(beyond)) => {
            let sure = if report.is_sure { "" } else { ", not tried often enough to be sure" };
            format!("{} with {bounds}; no more at {}{sure}", rate(peak), rate(beyond))
        }
    }
}

/// The heading of the table of trials.
pub fn heading() -> String {
    format!(
        "{:>10} {:>10} {:>8} {:>8} {:>8} {:>8}  result",
        "arriving", "answered", "p50", "p90", "p99", "sent late"
    )
}

/// A trial as a row of that table.
pub fn row(trial: &Trial) -> String {
    let [p50, p90, p99] = trial.quantiles.map(time);
    let mut text = format!(
        "{:>10} {:>10} {p50:>8} {p90:>8} {p99:>8} {:>9}  {}",
        rate(trial.rate),
        rate(trial.throughput),
        time(trial.late),
        verdict(trial)
    );
    if !trial.failures.is_empty() {
        let _ = write!(text, " ({})", failures(trial));
    }
    text
}

/// What is printed after the table.
pub fn text(report: &Report) -> String {
    let mut text = format!("\n{}\n", plot::terminal(report));
    let _ = writeln!(text, "{}: {}", report.url, result(report));
    let _ = writeln!(text, "it ends by: {}: {}", report.ends.name(), report.why);
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// One object for programs.
pub fn json(report: &Report) -> String {
    let bounds: Vec<Value> = report
        .bounds
        .iter()
        .map(|bound| object!({"part": bound.part, "seconds": bound.limit.as_secs_f64()}))
        .collect();
    let trials: Vec<Value> = report.trials.iter().map(trial).collect();
    let whole = object!({
        "url": report.url,
        "bounds": bounds,
        "peak": report.peak,
        "at_no_rate": report.is_at_no_rate,
        "beyond": report.beyond,
        "sure": report.is_sure,
        "alone_seconds": report.calm,
        "ends": report.ends.name(),
        "why": report.why,
        "seconds": report.seconds,
        "notes": report.notes,
        "trials": trials,
    });
    format!("{whole}\n")
}

fn trial(trial: &Trial) -> Value {
    let failures: serde_json::Map<String, Value> =
        trial.failures.iter().map(|(outcome, count)| (outcome.name(), (*count).into())).collect();
    let sight = &trial.sight;
    let used = |of: &Option<crate::tokamak::Use>| {
        of.as_ref().map(|one| {
            object!({"name": one.name, "busy": one.busy, "max": one.most, "queue": one.queue})
        })
    };
    // JSON has no infinity: an unknown time is null.
    object!({
        "rate": trial.rate,
        "seconds": trial.seconds,
        "requests": trial.sent,
        "throughput": trial.throughput,
        "p50": trial.quantiles[0],
        "p90": trial.quantiles[1],
        "p99": trial.quantiles[2],
        "holds": trial.verdict == Verdict::Holds,
        "result": verdict(trial),
        "ended_early": trial.is_cut,
        "failures": failures,
        "sent_late_p99": trial.late,
        "cpu": object!({
            "cores": sight.cores,
            "machine": sight.machine,
            "server": sight.server,
            "server_delayed": sight.delayed,
            "generator": sight.generator,
        }),
        "pool": used(&sight.pool),
        "upstream": used(&sight.upstream),
        "unaccepted": sight.unaccepted,
    })
}
