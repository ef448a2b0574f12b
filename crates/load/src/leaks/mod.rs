//! Which page makes a running server of any make grow: its memory after each of many requests, one
//! at a time.

mod growth;
mod memory;
mod print;

use std::collections::BTreeSet;
use std::time::Duration;

use tokamak_observe::processes;

pub use growth::Course;
pub use print::{heading, json, row};

use crate::answers::Outcome;
use crate::client::SequentialClient;
use crate::target::Target;
use crate::watch::Watch;
use growth::judge;
use memory::Ledger;

/// Requests between two searches for processes that were started; one that ends is noticed at once.
/// With a tenth the search would take longer than the requests; a process is only counted from then
/// on, so ten times more would miss what a new one grows by.
const SEARCH: usize = 20;

/// Most time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// One page.
#[derive(Clone, Debug)]
pub struct Page {
    /// What was requested.
    pub url: String,
    /// How often.
    pub requests: usize,
    /// Processes of the server at the end.
    pub processes: usize,
    /// Bytes by which they grew, all together.
    pub grown: i64,
    /// How their memory goes on.
    pub course: Course,
    /// The process that grew most, by name and number.
    pub process: Option<(String, u32)>,
    /// Whether its memory was read where it may be behind.
    pub is_rough: bool,
    /// The last answer that was no success.
    pub error: Option<String>,
}

/// Requests a page so often, and looks at its server. If it is not stable, it is requested as often
/// again, and judged by that: a server, or one of its workers, that is still warming up does not
/// grow for ever.
///
/// # Errors
/// Fails if no process of the server can be seen, or the server does not answer.
pub fn look(target: &Target, watch: &Watch<'_>, requests: usize) -> Result<Page, String> {
    let mut visit = Visit::new(target, watch)?;
    visit.request(requests / 2)?;
    let mut course = visit.judge_after(requests - requests / 2)?;
    if !matches!(course, Course::Stable { .. }) {
        course = visit.judge_after(requests)?;
    }
    let process = visit.ledger.largest();
    let all = processes::all();
    Ok(Page {
        url: target.url.clone(),
        requests: visit.levels.len(),
        processes: visit.pids.len(),
        grown: visit.levels.last().copied().unwrap_or(0),
        course,
        process: process.and_then(|pid| Some((all.get(&pid)?.name.clone(), pid))),
        is_rough: visit.ledger.is_rough,
        error: visit.error,
    })
}

/// A page while it is requested.
struct Visit<'a> {
    url: &'a str,
    watch: &'a Watch<'a>,
    client: SequentialClient,
    pids: BTreeSet<u32>,
    ledger: Ledger,
    /// Processes that had ended at the last search.
    ended: usize,
    /// Bytes by which the server has grown, after each request.
    levels: Vec<i64>,
    error: Option<String>,
}

impl<'a> Visit<'a> {
    fn new(target: &'a Target, watch: &'a Watch<'a>) -> Result<Visit<'a>, String> {
        let url = &target.url;
        let client = SequentialClient::new(target, PATIENCE)
            .map_err(|error| format!("{url}: no event loop: {error}"))?;
        let pids = watch.server();
        if !pids.iter().any(|pid| memory::of(*pid).is_some()) {
            return Err(format!(
                "{url}: no process of this machine that this user may see listens at {}: run this \
                 where the server runs, as its user or root, or name the server by --pid",
                watch.address
            ));
        }
        let mut ledger = Ledger::default();
        ledger.look(&pids);
        Ok(Visit { url, watch, client, pids, ledger, ended: 0, levels: Vec::new(), error: None })
    }

    fn request(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let nth = self.levels.len();
            let outcome = self.client.ask();
            match outcome {
                Outcome::Status(200..=299) => {}
                Outcome::Status(300..=399) => {
                    self.error = Some(format!(
                        "{}, a redirect: name the address that it leads to",
                        outcome.name()
                    ));
                }
                Outcome::Status(_) => self.error = Some(outcome.name()),
                _ => return Err(format!("{}: request {}: {}", self.url, nth + 1, outcome.name())),
            }
            if nth.is_multiple_of(SEARCH) || self.ledger.ended > self.ended {
                self.ended = self.ledger.ended;
                self.pids = self.watch.server();
            }
            self.levels.push(self.ledger.look(&self.pids));
        }
        Ok(())
    }

    /// Requests on, and judges these requests: they are half of all.
    fn judge_after(&mut self, count: usize) -> Result<Course, String> {
        let (born, ended, from) = (self.ledger.born, self.ledger.ended, self.levels.len());
        self.request(count)?;
        let (born, ended) = (self.ledger.born - born, self.ledger.ended - ended);
        if born + ended > 0 {
            // Those that were there all the time may grow, though others came and went.
            let stayed = judge(&self.ledger.of_those_that_stayed(from));
            if matches!(stayed, Course::Grows(_)) {
                return Ok(stayed);
            }
        }
        Ok(match judge(&self.levels) {
            // A new process grows until it is warm.
            Course::Grows(_) if born > 0 => Course::Replaced(born),
            // What a process has leaked goes with it.
            Course::Stable { .. } | Course::Unsteady if ended > 0 => Course::Replaced(ended),
            other => other,
        })
    }
}
