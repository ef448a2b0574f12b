//! The report as one HTML page with nothing outside of it: a bar of phases, a waterfall of the
//! calls, and the tables.

use std::fmt::Write;

use tokamak_observe::text::for_html;

use crate::phase::{Phase, ROWS};
use crate::text::{count, letter, listed, load, taken_off};
use crate::{Report, Row};

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>The anatomy of a request</title>
<style>
:root { color-scheme: light dark; --text: #1c2330; --back: #fff; --line: #d5dae2; --soft: #59657a }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ef; --back: #14181f; --line: #343c4a; --soft: #9aa6b8 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem; overflow-wrap: anywhere }
h3 { font-size: 1rem; margin: 1.5rem 0 .3rem } p { margin: .3rem 0 } .soft { color: var(--soft) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left } td:first-child { white-space: pre-wrap }
.wide { overflow-x: auto } svg { display: block; width: 100%; height: auto; font: 12px system-ui }
svg text { fill: var(--text) } i { display: inline-block; width: .7em; height: .7em;
  margin-right: .5em } .note { border-left: 3px solid #c77700; padding-left: .6rem }
</style></head><body>
<h1>The anatomy of a request</h1>
";

/// Width of the pictures, in their own units; the page scales them.
const WIDTH: f64 = 1000.0;
/// Room for the names of the calls.
const NAMES: f64 = 420.0;
/// Height of a row of the waterfall.
const ROW: f64 = 16.0;

/// The page about all servers.
pub fn html(reports: &[Report]) -> String {
    let mut page = HEAD.to_owned();
    if reports.len() > 1 {
        compared(&mut page, reports);
    }
    reports.iter().for_each(|report| one(&mut page, report));
    page + "</body></html>\n"
}

/// Milliseconds, from nanoseconds.
fn ms(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e6)
}

/// The colour of a phase: neighbours differ, and all are visible on both backgrounds.
fn colour(phase: Phase) -> String {
    let at = ROWS.iter().position(|row| row.0 == phase).unwrap_or(0);
    format!("hsl({} 60% 50%)", at * 139 % 360)
}

fn one(page: &mut String, report: &Report) {
    let _ = writeln!(
        page,
        "<h2>{}</h2><p>{}</p><p class=\"soft\">{}; mean {} ms, under strace {} ms; {}</p>",
        for_html(&report.url),
        for_html(&listed(&report.programs)),
        load(report),
        ms(report.untraced.mean),
        ms(report.traced.mean),
        for_html(&taken_off(report))
    );
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", for_html(note));
    }
    bar(page, report);
    page.push_str(
        "<div class=\"wide\"><table><tr><th>phase<th>mean ms<th>quiet ms<th>± ms<th>%<th>calls\
         <th>after ms</tr>\n",
    );
    for row in &report.rows {
        let _ = writeln!(
            page,
            "<tr><td><i style=\"background:{}\"></i>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{}<td>{}</tr>",
            colour(row.phase),
            row.phase.name(),
            ms(row.mean),
            ms(row.quiet),
            ms(row.spread),
            100.0 * row.mean / report.sum(),
            count(row.calls),
            if row.after > 0.0 { ms(row.after) } else { String::new() }
        );
    }
    let _ = writeln!(
        page,
        "<tr><td>sum<td>{}<td><td><td><td><td></tr></table></div>",
        ms(report.sum())
    );
    waterfall(page, report);
    calls(page, report);
    findings(page, report);
}

/// All phases of the response time beside each other.
fn bar(page: &mut String, report: &Report) {
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} 30\" role=\"img\" aria-label=\"shares of the phases\">"
    );
    let mut left = 0.0;
    for row in &report.rows {
        let width = WIDTH * row.mean / report.sum();
        let _ = write!(
            page,
            "<rect x=\"{left:.2}\" y=\"4\" width=\"{width:.2}\" height=\"22\" fill=\"{}\"><title>\
             {} {} ms</title></rect>",
            colour(row.phase),
            row.phase.name().trim(),
            ms(row.mean)
        );
        left += width;
    }
    page.push_str("</svg>\n");
}

/// A row for each call of a request, as far to the right as it is late.
fn waterfall(page: &mut String, report: &Report) {
    let end = report.typical.iter().map(|step| step.start + step.length).fold(1.0, f64::max);
    let height = ROW * report.typical.len() as f64 + 4.0;
    let _ = write!(
        page,
        "<h3>A request without disturbances, call by call ({} ms)</h3><svg viewBox=\"0 0 {WIDTH} \
         {height}\" role=\"img\" aria-label=\"waterfall of the calls\">",
        ms(end)
    );
    for (number, step) in report.typical.iter().enumerate() {
        let y = ROW * number as f64;
        let scale = (WIDTH - NAMES) / end;
        let what: String = step.what.chars().take(66).collect();
        let _ = write!(
            page,
            "<text x=\"0\" y=\"{:.0}\"{}>{}</text><rect x=\"{:.2}\" y=\"{:.0}\" width=\"{:.2}\" \
             height=\"12\" fill=\"{}\"><title>{}: {} µs</title></rect>",
            y + 12.0,
            if step.is_after { " opacity=\".6\"" } else { "" },
            for_html(&what),
            NAMES + step.start * scale,
            y + 2.0,
            (step.length * scale).max(1.0),
            colour(step.phase),
            step.phase.name().trim(),
            (step.length / 1e3).round()
        );
    }
    page.push_str("</svg><p class=\"soft\">Pale: the client has its response already.</p>\n");
}

fn calls(page: &mut String, report: &Report) {
    let requests = report.load.requests as f64;
    page.push_str("<h3>Calls for each request</h3><div class=\"wide\"><table>");
    page.push_str("<tr><th>call<th>program<th>calls</tr>\n");
    let mut rows: Vec<_> = report.calls.iter().collect();
    rows.sort_by(|a, b| b.1.calls.cmp(&a.1.calls).then(a.0.cmp(b.0)));
    for ((program, name), number) in rows {
        let each = count(number.calls as f64 / requests);
        let _ =
            writeln!(page, "<tr><td>{}<td>{}<td>{each}</tr>", for_html(name), for_html(program));
    }
    page.push_str("</table></div>\n");
}

fn findings(page: &mut String, report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    page.push_str(
        "<h3>Avoidable</h3><div class=\"wide\"><table><tr><th>what<th>calls<th>ms</tr>\n",
    );
    for finding in &report.findings {
        let _ = writeln!(
            page,
            "<tr><td>{}<br><span class=\"soft\">{}</span><td>{}<td>{}</tr>",
            for_html(&finding.what),
            for_html(finding.how),
            count(finding.calls),
            ms(finding.time)
        );
    }
    page.push_str("</table></div>\n");
}

/// The phases of all servers in one table.
fn compared(page: &mut String, reports: &[Report]) {
    page.push_str("<h2>Side by side</h2>\n");
    for (number, report) in reports.iter().enumerate() {
        let _ = writeln!(page, "<p>{}: {}</p>", letter(number), for_html(&report.url));
        bar(page, report);
    }
    page.push_str("<div class=\"wide\"><table><tr><th>mean ms");
    for number in 0..reports.len() {
        let _ = write!(page, "<th>{}<th>calls", letter(number));
    }
    page.push_str("</tr>\n");
    for (phase, _, name) in ROWS {
        let row = |report: &Report| report.rows.iter().find(|row| row.phase == *phase).cloned();
        let rows: Vec<Option<Row>> = reports.iter().map(row).collect();
        if rows.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(page, "<tr><td>{name}");
        for row in rows {
            let cells = row.map(|row| (ms(row.mean), count(row.calls))).unwrap_or_default();
            let _ = write!(page, "<td>{}<td>{}", cells.0, cells.1);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("<tr><td>sum");
    for report in reports {
        let calls = report.rows.iter().map(|row| row.calls).sum();
        let _ = write!(page, "<td>{}<td>{}", ms(report.sum()), count(calls));
    }
    page.push_str("</tr></table></div>\n");
}
