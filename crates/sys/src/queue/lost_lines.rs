//! Lines that PHP processes could not write to the error log, because its reader does not keep up.

use std::sync::atomic::Ordering;

use super::Segment;

impl Segment {
    /// Counts that a line of a process of this pool was lost.
    pub fn count_lost_line(&self) {
        self.header().lost_lines.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were lost.
    pub fn lost_lines(&self) -> u64 {
        self.header().lost_lines.load(Ordering::Relaxed)
    }

    /// If lines were lost since the last report, lets one process report how many; `report` returns
    /// whether it could write.
    pub fn report_lost_lines(&self, report: impl FnOnce(u64) -> bool) {
        let (lost, reported) = (self.lost_lines(), &self.header().reported_lines);
        // Of several processes that see the loss, the one that raises the number reports it.
        let before = reported.fetch_max(lost, Ordering::Relaxed);
        if before < lost && !report(lost - before) {
            reported.fetch_sub(lost - before, Ordering::Relaxed);
        }
    }
}
