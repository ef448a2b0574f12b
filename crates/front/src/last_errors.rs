//! The last requests that were answered with a status of 5xx, for the dashboard. Each event loop
//! has a list of a fixed size, so no number of errors takes more memory.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokamak_cost::Ledger;

use crate::request_summary::{RequestSummary, kept};

/// Errors that are kept: about as many as a page shows. A tenth would show one of several causes;
/// ten times more are better read in the log.
pub const PLACES: usize = 16;
/// The first status that is an error of the server or the application.
const SERVER_ERROR: u16 = 500;

/// The last errors of one event loop, which alone writes here; the admin listener reads.
#[derive(Debug, Default)]
pub struct LastErrors {
    /// The newest last.
    all: Mutex<VecDeque<RequestSummary>>,
}

impl LastErrors {
    /// A request is over. `path` is asked for only if its status is an error.
    #[inline]
    pub fn note<'a>(
        &self,
        site: usize,
        path: impl FnOnce() -> &'a str,
        status: u16,
        ledger: &Ledger,
    ) {
        if status >= SERVER_ERROR {
            let summary = RequestSummary::without_path(site, status, ledger);
            self.enter(RequestSummary { path: kept(path()).into_owned(), ..summary });
        }
    }

    #[cold]
    fn enter(&self, summary: RequestSummary) {
        // The admin listener reads: an event loop does not wait for it, but leaves one request out.
        let Ok(mut all) = self.all.try_lock() else { return };
        if all.len() == PLACES {
            all.pop_front();
        }
        all.push_back(summary);
    }

    /// Adds those that are kept to `all`.
    pub fn read(&self, all: &mut Vec<RequestSummary>) {
        // Nothing panics while it is held.
        let kept = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(kept.iter().cloned());
    }
}

/// The last of several lists, the newest first.
pub fn merged(mut all: Vec<RequestSummary>) -> Vec<RequestSummary> {
    all.sort_by_key(|error| Reverse(error.at));
    all.truncate(PLACES);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_the_newest_stands_first() {
        let lists = [LastErrors::default(), LastErrors::default()];
        for nth in 0..100_u64 {
            let (path, ledger) = (format!("/{nth}"), Ledger::begin(nth));
            let status = if nth == 98 { 404 } else { 503 };
            lists[(nth % 2) as usize].note(0, || &path, status, &ledger);
        }
        let mut all = Vec::new();
        lists.iter().for_each(|list| list.read(&mut all));
        let shown = merged(all);
        assert_eq!(shown.len(), PLACES);
        assert_eq!((&shown[0].path[..], &shown[1].path[..], shown[0].status), ("/99", "/97", 503));
    }
}
