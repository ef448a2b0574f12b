//! The report as one HTML file that needs nothing else.

use std::fmt::Write;

use crate::capacity::Report;
use crate::judge::Verdict;
use crate::plot::{Point, endless, place, points, span};
use crate::print;
use crate::trial::Trial;
use crate::words::{rate, time};

const STYLE: &str = "\
:root { color-scheme: light dark; --page: #fff; --ink: #1d2329; --faint: #5b6670; --line: #d8dee4;
  --good: #0b64c0; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14181c; --ink: #e6eaee; --faint: #9aa6b1;
  --line: #333b43; --good: #5aa9ff; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--page);
  color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; max-width: 60rem; } .faint { color: var(--faint); }
strong { color: var(--good); font-size: 1.9rem; }
svg { display: block; width: 100%; max-width: 60rem; height: auto; margin: 1rem 0;
  font: 12px system-ui, sans-serif; } svg text { fill: var(--faint); }
.axis { stroke: var(--line); } .way { stroke: var(--faint); fill: none; stroke-width: 1.5; }
.bound { stroke: var(--bad); stroke-dasharray: 6 4; } .holds { fill: var(--good); }
.breaks { stroke: var(--bad); stroke-width: 2.5; } .wide { overflow-x: auto; }
@media (max-width: 40rem) { body { padding: 1rem; } svg { font-size: 26px; }
  .holds { r: 9px; } .breaks { stroke-width: 5; } th, td { padding: .2rem .4rem; } }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; font-weight: normal; white-space: nowrap; }
thead th { color: var(--faint); } td:last-child, th:last-child { text-align: left; }
";

const WIDE: f64 = 720.0;
const HIGH: f64 = 400.0;
/// Room for the labels of the axes, which are larger on a phone.
const LEFT: f64 = 104.0;
const FOOT: f64 = 68.0;
const HEAD: f64 = 40.0;

/// The whole page.
pub fn page(report: &Report) -> String {
    let url = escaped(&report.url);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <title>Capacity of {url}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
        <h1>Capacity of {url}</h1>\n"
    );
    if let Some(peak) = report.peak {
        let _ = writeln!(text, "<p><strong>{}</strong></p>", rate(peak));
    }
    let _ = writeln!(text, "<p>{}.</p>", escaped(&print::result(report)));
    let (ends, why) = (report.ends.name(), escaped(&report.why));
    let _ = writeln!(text, "<p>It ends by: <b>{ends}</b>: {why}.</p>");
    for note in &report.notes {
        let _ = writeln!(text, "<p>Note: {}.</p>", escaped(note));
    }
    picture(&mut text, report);
    table(&mut text, &report.trials);
    let _ = writeln!(
        text,
        "<p class=\"faint\">Arrivals did not wait for answers, and response times count from the \
        moment at which a request was to be sent. One request alone takes {}. Measured in {:.0} \
        s.</p>\n</body>\n</html>",
        time(report.calm),
        report.seconds
    );
    text
}

fn picture(text: &mut String, report: &Report) {
    let points = points(report);
    let Some(bound) = report.bounds.first() else { return };
    let limit = bound.limit.as_secs_f64();
    let across = span(points.iter().map(|point| point.rate));
    let top = endless(&points, limit);
    let up = span(points.iter().map(|point| point.taken.min(top)).chain([limit]));
    let x = |rate| LEFT + place(rate, across) * (WIDE - LEFT - 20.0);
    let y = |taken: f64| HIGH - FOOT - place(taken.min(top), up) * (HIGH - FOOT - HEAD);
    let name = bound.name();
    let _ = writeln!(
        text,
        "<svg viewBox=\"0 0 {WIDE} {HIGH}\" role=\"img\" aria-label=\"{name} of response times \
        over the requests that arrive each second: {}\">\n\
        <text x=\"{LEFT}\" y=\"24\">{name} of response times</text>\n\
        <text x=\"{}\" y=\"{}\" text-anchor=\"end\">requests that arrive each second</text>",
        escaped(&print::result(report)),
        WIDE - 20.0,
        HIGH - 8.0
    );
    let is_endless = points.iter().any(|point| !point.taken.is_finite());
    let heights = ticks(up).into_iter().filter(|value| !is_endless || *value < 0.7 * top);
    for value in heights.chain(is_endless.then_some(f64::INFINITY)) {
        let at = y(value);
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
            <text x=\"{}\" y=\"{at:.1}\" dy=\".35em\" text-anchor=\"end\">{}</text>",
            WIDE - 20.0,
            LEFT - 8.0,
            time(value)
        );
    }
    for value in ticks(across) {
        let at = x(value);
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{HEAD}\" y2=\"{}\"/>\
            <text x=\"{at:.1}\" y=\"{}\" dy=\"1.1em\" text-anchor=\"middle\">{value}</text>",
            HIGH - FOOT,
            HIGH - FOOT
        );
    }
    let at = y(limit);
    let _ = writeln!(
        text,
        "<line class=\"bound\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
        <text x=\"{}\" y=\"{:.1}\">{name} ≤ {}</text>",
        WIDE - 20.0,
        LEFT + 6.0,
        at - 6.0,
        time(limit)
    );
    let way: Vec<String> =
        points.iter().map(|p| format!("{:.1},{:.1}", x(p.rate), y(p.taken))).collect();
    let _ = writeln!(text, "<polyline class=\"way\" points=\"{}\"/>", way.join(" "));
    for point in &points {
        mark(text, point, x(point.rate), y(point.taken));
    }
    *text += "</svg>\n<p class=\"faint\">● the bound holds, × it does not, ∞ no answer; both axes \
        are logarithmic.</p>\n";
}

fn mark(text: &mut String, point: &Point, x: f64, y: f64) {
    let title = format!("<title>{}: {}</title>", rate(point.rate), time(point.taken));
    let _ = if point.held {
        writeln!(
            text,
            "<circle class=\"holds\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\">{title}</circle>"
        )
    } else {
        writeln!(
            text,
            "<path class=\"breaks\" d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\">{title}</path>",
            x - 5.0,
            y - 5.0
        )
    };
}

/// Powers of ten within an axis, and their doubles and quintuples if it is short.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if high / low > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (low.log10().floor() as i32..=high.log10().ceil() as i32)
        .flat_map(|power| {
            steps.iter().map(move |step| {
                // Written out, so that 0.3 is not 0.30000000000000004.
                format!("{step}e{power}").parse().unwrap_or(*step)
            })
        })
        .filter(|value| (low..=high).contains(value))
        .collect()
}

fn table(text: &mut String, trials: &[Trial]) {
    // The keyboard scrolls what has the focus.
    *text += "<div class=\"wide\" role=\"region\" aria-label=\"All trials\" tabindex=\"0\">\n\
        <table>\n<thead><tr>";
    for name in ["arriving", "answered", "p50", "p90", "p99", "sent late", "CPU", "result"] {
        let _ = write!(text, "<th scope=\"col\">{name}</th>");
    }
    *text += "</tr></thead>\n<tbody>\n";
    for trial in trials {
        let [p50, p90, p99] = trial.quantiles.map(time);
        let mut result = print::verdict(trial);
        if !trial.failures.is_empty() {
            let _ = write!(result, " ({})", print::failures(trial));
        }
        let holds = trial.verdict == Verdict::Holds;
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{p50}</td><td>{p90}</td><td>{p99}</td><td>{}</td>\
            <td>{:.0} %</td><td>{} {}</td></tr>",
            rate(trial.rate),
            rate(trial.throughput),
            time(trial.late),
            100.0 * trial.sight.machine_share(),
            if holds { "●" } else { "×" },
            escaped(&result)
        );
    }
    *text += "</tbody>\n</table></div>\n";
}

/// A text for HTML. URLs are typed by people, and statuses are sent by servers.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ends::Ends;
    use crate::judge::Bound;

    #[test]
    fn a_page_needs_nothing_else_and_has_no_tags_of_others() {
        let trial = |rate, bounded, verdict| Trial { rate, bounded, verdict, ..Trial::default() };
        let report = Report {
            url: "http://127.0.0.1/<script>".into(),
            bounds: vec![Bound { part: 0.9, limit: Duration::from_secs(1) }],
            peak: Some(100.0),
            is_at_no_rate: false,
            beyond: Some(105.0),
            is_sure: true,
            calm: 0.01,
            trials: vec![
                trial(100.0, 0.5, Verdict::Holds),
                trial(105.0, f64::INFINITY, Verdict::Breaks("too slow".into())),
            ],
            ends: Ends::Workers,
            why: "a & b".into(),
            seconds: 9.0,
            notes: Vec::new(),
        };
        let page = page(&report);
        assert!(page.contains("<title>105/s: ∞</title>"), "{page}");
        for absent in ["<script", "src=", "href=", "@import", "url(", "NaN", "inf"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
        for present in ["100/s", "a &amp; b", "class=\"holds\"", "class=\"breaks\"", "workers"] {
            assert!(page.contains(present), "{present} not in {page}");
        }
        let terminal = print::text(&report);
        assert!(terminal.contains('●') && terminal.contains('×'), "{terminal}");
        let json: serde_json::Value = serde_json::from_str(&print::json(&report)).unwrap();
        assert_eq!((json["ends"].as_str(), json["peak"].as_f64()), (Some("workers"), Some(100.0)));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks((0.09, 3.0)), [0.1, 0.2, 0.5, 1.0, 2.0]);
        assert_eq!(ticks((0.9, 5000.0)), [1.0, 10.0, 100.0, 1000.0]);
    }
}
