//! The pages for people, and for programs.

use std::fmt::Write;

use serde_json::{Value, json as object};

use super::{Course, Page};

/// What else to know if `smaps_rollup` could not be read.
const ROUGH: &str = "read from /proc/PID/status, which may be some hundred kilobytes behind; root \
    may read more";

/// What stands above the rows.
pub fn heading(page: &Page) -> String {
    format!("memory of {} processes of the server after each request\n\n", page.processes)
}

/// A page as a row, and what is to be known about it; `wide` is the room for its URL.
pub fn row(page: &Page, wide: usize) -> String {
    let mut text = format!("  {:wide$}  {}\n", page.url, course(page));
    if let Some(error) = &page.error {
        let _ = writeln!(text, "  {:wide$}    note: it was answered with {error}", "");
    }
    if page.is_rough {
        let _ = writeln!(text, "  {:wide$}    note: {ROUGH}", "");
    }
    text
}

fn course(page: &Page) -> String {
    let requests = page.requests;
    match page.course {
        Course::Grows(by) => {
            let process = match &page.process {
                Some((name, pid)) => format!(", most of it in {name} (pid {pid})"),
                None => String::new(),
            };
            format!(
                "grows by {:.0} B a request ({:.0} to {:.0}), {requests} requests{process}",
                by.slope, by.low, by.high
            )
        }
        Course::Stable { since, unseen } => {
            let since = match since {
                1 => "stable from the first request on".to_owned(),
                nth => format!("stable since request {nth}"),
            };
            format!("{since}; less than {unseen:.0} B a request would not be seen")
        }
        Course::Unsteady => {
            format!("unclear: {} B more, and not all the time; try more --requests", page.grown)
        }
        Course::Replaced(count) => format!(
            "unclear: {count} processes were replaced meanwhile, and what they leak goes with \
             them; let the server keep them (pm = static, pm.max_requests = 0)"
        ),
    }
}

/// One object for programs.
pub fn json(pages: &[Page]) -> String {
    let page = |page: &Page| {
        let (verdict, by, stable) = match page.course {
            Course::Grows(by) => ("grows", Some(by), None),
            Course::Stable { since, unseen } => ("stable", None, Some((since, unseen))),
            Course::Unsteady | Course::Replaced(_) => ("unclear", None, None),
        };
        object!({
            "target": page.url,
            "requests": page.requests,
            "processes": page.processes,
            "verdict": verdict,
            "bytes": page.grown,
            "per_request": by.map(|by| by.slope),
            "per_request_low": by.map(|by| by.low),
            "per_request_high": by.map(|by| by.high),
            "stable_since": stable.map(|(since, _)| since),
            "unseen_below": stable.map(|(_, unseen)| unseen),
            "process": page.process.as_ref().map(|(name, _)| name),
            "pid": page.process.as_ref().map(|(_, pid)| pid),
            "exact": !page.is_rough,
            "error": page.error,
        })
    };
    let pages: Vec<Value> = pages.iter().map(page).collect();
    format!("{}\n", object!({"pages": pages}))
}
