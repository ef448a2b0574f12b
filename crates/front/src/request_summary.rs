//! A request that is over, in short: what the lists of the dashboard keep of it.

use std::borrow::Cow;

use tokamak_cost::{Ledger, Phase};

/// Bytes of a path that are kept; a client may send many thousand.
pub const LONGEST_PATH: usize = 200;

/// A request that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSummary {
    /// The index of its site.
    pub site: usize,
    /// The path of its URL as it came, without the query; the beginning of a long one.
    pub path: String,
    /// From begin to end, in nanoseconds.
    pub took: u64,
    /// When it was over, in nanoseconds of [`tokamak_cost::now`].
    pub at: u64,
    /// The status of its response; 0: there was none.
    pub status: u16,
    /// The phase that took the most of it.
    pub phase: Phase,
}

impl RequestSummary {
    /// What a ledger says; the path is still missing, since it is not always kept.
    pub fn without_path(site: usize, status: u16, ledger: &Ledger) -> RequestSummary {
        let longest = Phase::ALL.iter().max_by_key(|phase| ledger.spent(**phase));
        let phase = longest.copied().unwrap_or(Phase::Send);
        let took = ledger.total();
        RequestSummary { site, path: String::new(), took, at: ledger.start() + took, status, phase }
    }
}

/// As much of a path as is kept.
pub fn kept(path: &str) -> Cow<'_, str> {
    String::from_utf8_lossy(&path.as_bytes()[..path.len().min(LONGEST_PATH)])
}
