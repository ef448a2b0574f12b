//! The report as JSON; times are milliseconds.

use serde_json::{Value, json as object};

use crate::{Report, Spread};

fn ms(nanoseconds: f64) -> f64 {
    // Nanoseconds are the finest that was measured.
    (nanoseconds).round() / 1e6
}

fn spread(of: &Spread) -> Value {
    object!({ "mean": ms(of.mean), "deviation": ms(of.deviation), "median": ms(of.median),
        "quiet": ms(of.quiet) })
}

/// One object with a list of reports, one for each server.
pub fn json(reports: &[Report]) -> String {
    let servers: Vec<Value> = reports.iter().map(one).collect();
    format!("{:#}\n", object!({ "servers": servers }))
}

fn one(report: &Report) -> Value {
    let requests = report.load.requests as f64;
    let phases: Vec<Value> = report
        .rows
        .iter()
        .map(|row| {
            object!({
                "phase": row.phase.key(), "name": row.phase.name().trim(),
                "mean_ms": ms(row.mean), "quiet_ms": ms(row.quiet),
                "spread_ms": ms(row.spread), "after_ms": ms(row.after), "calls": row.calls,
            })
        })
        .collect();
    let calls: Vec<Value> = report
        .calls
        .iter()
        .map(|((program, name), count)| {
            object!({
                "program": program, "name": name, "count": count.calls,
                "failed": count.failed, "per_request": count.calls as f64 / requests,
            })
        })
        .collect();
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            object!({
                "what": finding.what, "how": finding.how, "calls": finding.calls,
                "ms": ms(finding.time),
            })
        })
        .collect();
    let typical: Vec<Value> = report
        .typical
        .iter()
        .map(|step| {
            object!({
                "phase": step.phase.key(), "what": step.what, "start_ms": ms(step.start),
                "ms": ms(step.length), "after": step.is_after,
            })
        })
        .collect();
    object!({
        "url": report.url,
        "processes": report.programs.iter()
            .map(|(pid, name)| object!({ "pid": pid, "program": name })).collect::<Vec<_>>(),
        "requests": report.load.requests, "clients": report.load.clients,
        "keep_alive": report.load.keep_alive,
        "sum_ms": ms(report.sum()), "difference": report.difference(),
        "untraced_ms": spread(&report.untraced), "before_ms": spread(&report.before),
        "traced_ms": spread(&report.traced),
        "overhead_of_a_call_ms": ms(report.overhead),
        "noted_by_the_kernel": report.noted_cost.is_ok(),
        "overhead_of_a_noted_call_ms": report.noted_cost.as_ref().ok().map(|cost| ms(*cost)),
        "overhead_of_a_loop_ms": ms(report.loop_cost as f64),
        "phases": phases, "calls": calls, "calls_of_no_request": report.of_nobody,
        "avoidable": findings, "typical_request": typical, "notes": report.notes,
    })
}
