//! Reports as text, and several of them side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::Report;
use crate::phase::{Phase, ROWS};

/// Milliseconds with three places, from nanoseconds.
fn ms(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e6)
}

/// Programs with their process numbers: `nginx (12, 13), php-fpm (14)`.
pub fn listed(programs: &BTreeMap<u32, String>) -> String {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pid, name) in programs {
        by_name.entry(name).or_default().push(pid.to_string());
    }
    let one = |(name, pids): (&str, Vec<String>)| format!("{name} ({})", pids.join(", "));
    by_name.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Describes the load.
pub fn load(report: &Report) -> String {
    let load = report.load;
    format!(
        "{} requests, {} client{}, {}",
        load.requests,
        load.clients,
        if load.clients == 1 { "" } else { "s" },
        if load.keep_alive { "kept connections" } else { "a connection for each request" }
    )
}

/// A count with at most two decimals: 24 or 0.02.
pub fn count(calls: f64) -> String {
    let text = format!("{calls:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All reports, then what compares them if there are several.
pub fn text(reports: &[Report]) -> String {
    let mut text = reports.iter().map(one).collect::<Vec<_>>().join("\n");
    if reports.len() > 1 {
        text += "\n";
        text += &side_by_side(reports);
    }
    text
}

/// Says which tracer measured the times, and what was subtracted for it.
pub fn taken_off(report: &Report) -> String {
    match &report.noted_cost {
        Ok(cost) => format!(
            "times: calls as the kernel noted them (perf), without {:.2} µs for each note, as \
             measured in a program that only calls",
            cost / 1e3
        ),
        Err(why) => format!(
            "times: calls under strace, without {:.1} µs for each, so that the sum agrees (a \
             program that only calls: {:.1} µs); the kernel's own notes are not used: {why}",
            report.overhead / 1e3,
            report.loop_cost as f64 / 1e3
        ),
    }
}

fn one(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(format!("{}: {}", report.url, listed(&report.programs)));
    line(load(report));
    line(String::new());
    line(format!(
        "{:<28} {:>9} {:>9} {:>9} {:>6} {:>8} {:>9}",
        "phase", "mean ms", "quiet ms", "± ms", "%", "calls", "after ms"
    ));
    let sum = report.sum();
    for row in &report.rows {
        let after = if row.after > 0.0 { ms(row.after) } else { String::new() };
        line(format!(
            "{:<28} {:>9} {:>9} {:>9} {:>6.1} {:>8} {after:>9}",
            row.phase.name(),
            ms(row.mean),
            ms(row.quiet),
            ms(row.spread),
            100.0 * row.mean / sum,
            count(row.calls)
        ));
    }
    line(format!(
        "{:<28} {:>9} {:>9} {:>9} {:>6} {:>8}",
        "sum",
        ms(sum),
        ms(report.rows.iter().map(|row| row.quiet).sum()),
        "",
        "",
        count(report.rows.iter().map(|row| row.calls).sum())
    ));
    line(format!(
        "{:<28} {:>9} {:>9} {:>9} {:>+6.1}",
        "measured without tracer",
        ms(report.untraced.mean),
        ms(report.untraced.quiet),
        ms(report.untraced.deviation),
        100.0 * report.difference()
    ));
    line(format!(
        "{:<28} {:>9} {:>9} {:>9}",
        "measured before tracing",
        ms(report.before.mean),
        ms(report.before.quiet),
        ms(report.before.deviation)
    ));
    line(format!(
        "{:<28} {:>9} {:>9} {:>9}",
        "measured under strace",
        ms(report.traced.mean),
        ms(report.traced.quiet),
        ms(report.traced.deviation)
    ));
    line(taken_off(report));
    line(
        "quiet: mean of the quickest tenth of the requests; ±: half of the middle half".to_owned(),
    );
    line("after: when the client has its response already; not in the sum".to_owned());
    for note in &report.notes {
        line(format!("note: {note}"));
    }
    line(String::new());
    calls(report, &mut line);
    if !report.findings.is_empty() {
        line(String::new());
        line("avoidable".to_owned());
    }
    for finding in &report.findings {
        line(format!(
            "  {} ({} calls, {} ms)",
            finding.what,
            count(finding.calls),
            ms(finding.time)
        ));
        line(format!("    {}", finding.how));
    }
    out
}

/// Calls for each request: a row for each name, a column for each program.
fn calls(report: &Report, line: &mut impl FnMut(String)) {
    let programs: BTreeSet<&str> = report.calls.keys().map(|(program, _)| &**program).collect();
    let names: BTreeSet<&str> = report.calls.keys().map(|(_, name)| &**name).collect();
    let requests = report.load.requests as f64;
    let row = |title: &str, values: &[f64]| {
        let values: String = values.iter().map(|value| format!(" {:>12}", count(*value))).collect();
        format!("{title:<28}{values}")
    };
    let titles: String = programs.iter().map(|program| format!(" {program:>12}")).collect();
    line(format!("{:<28}{titles} {:>12}", "calls for each request", "all"));
    let mut table: Vec<(&str, Vec<f64>)> = names
        .iter()
        .map(|name| {
            let value = |program: &&str| {
                let key = ((*program).to_owned(), (*name).to_owned());
                report.calls.get(&key).map_or(0, |count| count.calls) as f64 / requests
            };
            let mut values: Vec<f64> = programs.iter().map(value).collect();
            values.push(values.iter().sum());
            (*name, values)
        })
        .collect();
    table.sort_by(|a, b| b.1.last().partial_cmp(&a.1.last()).expect("counts"));
    let mut sums = vec![0.0; programs.len() + 1];
    for (name, values) in &table {
        line(row(name, values));
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    line(row("all", &sums));
    if report.of_nobody > 0 {
        let part = report.of_nobody as f64 / requests;
        line(format!("of these {} belong to no request, such as timers", count(part)));
    }
}

/// The phases of all servers in one table.
fn side_by_side(reports: &[Report]) -> String {
    let mut out = String::new();
    for (number, report) in reports.iter().enumerate() {
        let _ = writeln!(out, "{}: {}", letter(number), report.url);
    }
    let titles: String =
        (0..reports.len()).map(|number| format!(" {:>9} {:>8}", letter(number), "calls")).collect();
    let _ = writeln!(out, "\n{:<28}{titles}", "mean ms");
    for (phase, _, name) in ROWS {
        if let Some(values) = compared(reports, *phase) {
            let _ = writeln!(out, "{name:<28}{values}");
        }
    }
    let sums: String = reports
        .iter()
        .map(|report| {
            let calls = report.rows.iter().map(|row| row.calls).sum();
            format!(" {:>9} {:>8}", ms(report.sum()), count(calls))
        })
        .collect();
    let _ = writeln!(out, "{:<28}{sums}", "sum");
    out
}

/// How a server is called in a comparison.
pub fn letter(number: usize) -> char {
    char::from_u32('A' as u32 + number as u32 % 26).unwrap_or('?')
}

fn compared(reports: &[Report], phase: Phase) -> Option<String> {
    let rows = reports.iter().map(|report| report.rows.iter().find(|row| row.phase == phase));
    let rows: Vec<_> = rows.collect();
    rows.iter().any(Option::is_some).then(|| {
        let cell = |row: &Option<&crate::Row>| match row {
            Some(row) => format!(" {:>9} {:>8}", ms(row.mean), count(row.calls)),
            None => format!(" {:>9} {:>8}", "–", ""),
        };
        rows.iter().map(cell).collect()
    })
}
