//! The content cache as status shows it.

use std::fmt::{self, Write};

use serde::Serialize;
use tokamak_sys::control::CacheStatus;

use super::{mebibytes, row, write_table};

/// The content cache now, and what it did since the front began.
#[derive(Debug, Serialize)]
pub struct CacheReport {
    /// Keys that it has something for.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub memory: u64,
    /// Requests answered from it, fresh.
    pub hits: u64,
    /// Requests answered from it, stale.
    pub stale: u64,
    /// Requests that it was asked for and that an application answered.
    pub misses: u64,
    /// Requests answered with what another one had asked for.
    pub coalesced: u64,
    /// Responses that an application found still right.
    pub revalidated: u64,
    /// Requests that it has nothing to do with.
    pub bypassed: u64,
    /// Responses that were stored.
    pub stored: u64,
}

impl From<CacheStatus> for CacheReport {
    fn from(status: CacheStatus) -> CacheReport {
        let CacheStatus {
            entries,
            bytes,
            memory,
            hits,
            stale,
            misses,
            coalesced,
            revalidated,
            bypassed,
            stored,
        } = status;
        CacheReport {
            entries,
            bytes,
            memory,
            hits,
            stale,
            misses,
            coalesced,
            revalidated,
            bypassed,
            stored,
        }
    }
}

impl CacheReport {
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = [
            "CACHE",
            "OF",
            "ENTRIES",
            "HITS",
            "STALE",
            "MISSES",
            "COALESCED",
            "REVALIDATED",
            "BYPASSED",
            "STORED",
        ];
        let numbers = [
            self.entries,
            self.hits,
            self.stale,
            self.misses,
            self.coalesced,
            self.revalidated,
            self.bypassed,
            self.stored,
        ];
        let sizes = [mebibytes(self.bytes), mebibytes(self.memory)];
        let cells = sizes.into_iter().chain(numbers.map(|number| number.to_string())).collect();
        f.write_char('\n')?;
        write_table(f, &[row(heading), cells])
    }
}
