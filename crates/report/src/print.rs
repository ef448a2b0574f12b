//! The report for people, and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json as object};

use crate::boot_reads::BootRead;
use crate::compare::{Finding, Verdict};
use crate::stale::Stale;
use crate::{Report, Run};

/// Longest name that is shown; the middle of a longer one is left out.
const WIDEST: usize = 70;

/// The report as a table. `all`: caches too.
pub fn table(report: &Report, all: bool) -> String {
    let mut text = String::new();
    let requests = report.rounds * report.targets.len();
    let _ = writeln!(
        text,
        "{requests} requests looked at: {} × {}\n",
        report.rounds,
        report.targets.join(" ")
    );
    let run = report.worker.as_ref().or(report.sealed.as_ref().ok());
    for (target, status) in run.iter().flat_map(|run| &run.errors) {
        let _ = writeln!(text, "note: {target} was answered with {status}\n");
    }
    if let Some(run) = &report.worker {
        worker(&mut text, run, all);
    }
    match &report.sealed {
        Err(why) => {
            let _ = writeln!(text, "sealed mode: not looked at: {why}");
        }
        Ok(sealed) if sealed.findings.is_empty() => {
            let _ = writeln!(
                text,
                "sealed mode: nothing is left behind ({} values and things, the same after each \
                    of {} rounds)",
                sealed.nodes, report.rounds
            );
        }
        Ok(sealed) => {
            text += "sealed mode: these differ from round to round, which is a bug of Tokamak; \
                please report it\n";
            findings(&mut text, &sealed.findings.iter().collect::<Vec<_>>());
        }
    }
    if !report.stale.is_empty() {
        text += "\nthe application keeps its request: in sealed mode every visitor gets an answer \
            of the warm-up\n";
        for Stale { target, answered_as } in &report.stale {
            let _ = writeln!(text, "  {target} is answered as {answered_as} was");
        }
    }
    if !report.held_connections.is_empty() {
        text += "\npersistent connections of the boot: in sealed mode every request finds them \
            closed\n";
        for holder in &report.held_connections {
            let _ = writeln!(text, "  {holder}");
        }
    }
    if !report.frozen.is_empty() {
        text += "\nin the image: the same for every visitor, and another one at each boot\n";
        findings(&mut text, &report.frozen.iter().collect::<Vec<_>>());
    }
    if !report.read_before_image.is_empty() {
        text += "\nread before the image: the same for every visitor from then on\n";
        reads(&mut text, &report.read_before_image);
    }
    text.push('\n');
    costs(&mut text, report);
    text
}

fn worker(text: &mut String, run: &Run, all: bool) {
    let shown: Vec<_> =
        run.findings.iter().filter(|f| all || f.verdict != Verdict::FillsOnce).collect();
    let hidden = run.findings.len() - shown.len();
    if shown.is_empty() {
        *text += "worker mode: nothing is left behind\n";
    } else {
        *text += "worker mode: left behind between requests, with every reset off\n";
        findings(text, &shown);
        if shown.iter().any(|found| found.reset.is_some()) {
            *text += "  * put back by Tokamak's worker mode, unless `keep` names it\n";
        }
    }
    if hidden > 0 {
        let _ = writeln!(
            text,
            "  filled once, so caches most likely: {hidden} more (--all shows them)"
        );
    }
    text.push('\n');
}

fn findings(text: &mut String, shown: &[&Finding]) {
    let rows: Vec<[String; 5]> = shown.iter().map(|found| row(found)).collect();
    let head = ["", "kind", "name", "size", "a request"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    for row in [&head].into_iter().chain(&rows) {
        let line = format!(
            "  {:a$}  {:b$}  {:c$}  {:>d$}  {:>e$}",
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3],
            e = widths[4]
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn reads(text: &mut String, shown: &[BootRead]) {
    let width = |of: fn(&BootRead) -> &str| {
        shown.iter().map(|read| of(read).chars().count()).max().unwrap_or(0)
    };
    let (kind, what) = (width(|read| &read.kind), width(|read| &read.what));
    for read in shown {
        let BootRead { file, line, .. } = read;
        let _ = writeln!(text, "  {:kind$}  {:what$}  {file}:{line}", read.kind, read.what);
    }
}

fn row(found: &Finding) -> [String; 5] {
    let mut name = match &found.example {
        Some(newest) if found.path.is_empty() => format!("such as {}", shorten(newest)),
        _ => shorten(&found.path),
    };
    if found.reset.is_some() {
        name += " *";
    }
    let is_count = ["objects", "descriptors"].contains(&&found.kind[..]);
    let amount = |bytes: f64| if is_count { format!("{bytes:.1}") } else { size(bytes) };
    let per_request = if found.per_request == 0.0 {
        String::new()
    } else {
        format!("+{}", amount(found.per_request))
    };
    let total = match found.size {
        // Its content is known by a digest, or was counted elsewhere.
        0 => String::new(),
        many if is_count => many.to_string(),
        bytes => size(bytes as f64),
    };
    [found.verdict.name().to_owned(), found.kind.clone(), name, total, per_request]
}

fn shorten(path: &str) -> String {
    let all: Vec<char> = path.chars().collect();
    if all.len() <= WIDEST {
        return path.to_owned();
    }
    let (begin, end) = (WIDEST / 3, WIDEST - WIDEST / 3 - 1);
    format!(
        "{}…{}",
        all[..begin].iter().collect::<String>(),
        all[all.len() - end..].iter().collect::<String>()
    )
}

fn costs(text: &mut String, report: &Report) {
    let columns = [("worker", report.worker.as_ref()), ("sealed", report.sealed.as_ref().ok())];
    let columns = if report.worker.is_some() { &columns[..] } else { &columns[1..] };
    let mut line = |name: &str, of: &dyn Fn(&str, &Run) -> String| {
        let _ = write!(text, "{name:24}");
        for (column, run) in columns {
            let _ = write!(text, "{:>12}", run.map_or("-".to_owned(), |run| of(column, run)));
        }
        text.push('\n');
    };
    line("", &|column, _| column.to_owned());
    line("CPU time a request", &|_, run| format!("{:.0} µs", run.cpu as f64 / 1e3));
    let requests = (report.rounds.saturating_sub(1) * report.targets.len()).max(1) as f64;
    line("PHP heap a request", &|_, run| {
        format!("{:+.0} B", (run.heap.1 as f64 - run.heap.0 as f64) / requests)
    });
    line("memory of its own", &|_, run| size(run.private as f64));
}

/// `1.2 kB`, in thousands.
fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

/// The report as one JSON object, with all findings.
pub fn json(report: &Report) -> String {
    let list = |findings: &[Finding]| -> Vec<Value> {
        findings
            .iter()
            .map(|f| {
                object!({
                    "verdict": f.verdict.name(),
                    "kind": f.kind,
                    "name": f.path,
                    "size": f.size,
                    "per_request": f.per_request,
                    "example": f.example,
                    "reset": f.reset,
                })
            })
            .collect()
    };
    let run = |run: &Run| {
        object!({
            "findings": list(&run.findings),
            "nodes": run.nodes,
            "cpu_ns_per_request": run.cpu,
            "private_bytes": run.private,
            "heap_bytes": [run.heap.0, run.heap.1],
            "errors": run.errors,
        })
    };
    let reads: Vec<Value> = report
        .read_before_image
        .iter()
        .map(|read| {
            object!({ "kind": read.kind, "what": read.what, "file": read.file, "line": read.line })
        })
        .collect();
    let stale: Vec<Value> = report
        .stale
        .iter()
        .map(|stale| object!({ "target": stale.target, "answered_as": stale.answered_as }))
        .collect();
    let sealed = match &report.sealed {
        Ok(sealed) => run(sealed),
        Err(why) => object!({ "error": why }),
    };
    let all = object!({
        "rounds": report.rounds,
        "targets": report.targets,
        "leaks": report.has_leaks(),
        "worker": report.worker.as_ref().map(run),
        "sealed": sealed,
        "stale": stale,
        "held_connections": report.held_connections,
        "frozen": list(&report.frozen),
        "read_before_image": reads,
    });
    format!("{all:#}\n")
}
