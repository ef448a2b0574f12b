//! The content cache as status shows it.

use std::fmt::{self, Write};

use serde::{Serialize, Serializer};
use tokamak_metrics::CacheFigures;

use super::{mebibytes, row, write_table};

/// The content cache now, and what it did since the front began.
#[derive(Debug)]
pub struct CacheReport(pub CacheFigures);

impl Serialize for CacheReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.named())
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
        let CacheReport(figures) = self;
        let numbers = [
            figures.entries,
            figures.hits,
            figures.stale,
            figures.misses,
            figures.coalesced,
            figures.revalidated,
            figures.bypassed,
            figures.stored,
        ];
        let sizes = [mebibytes(figures.bytes), mebibytes(figures.memory)];
        let cells = sizes.into_iter().chain(numbers.map(|number| number.to_string())).collect();
        f.write_char('\n')?;
        write_table(f, &[row(heading), cells])
    }
}
