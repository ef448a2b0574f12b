//! Lines that PHP processes could not write to the error log, because nobody reads there.

use std::sync::atomic::Ordering;

use super::Segment;

impl Segment {
    /// Says that a line of a process of this pool was lost.
    pub fn count_lost_line(&self) {
        self.header().lost_lines.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were lost.
    pub fn lost_lines(&self) -> u64 {
        self.header().lost_lines.load(Ordering::Relaxed)
    }

    /// If lines were lost since that was told, has one process tell how many; `tell` says whether
    /// it could.
    pub fn tell_lost_lines(&self, tell: impl FnOnce(u64) -> bool) {
        let (lost, told) = (self.lost_lines(), &self.header().told_lines);
        // Of several that see it, one raises the number, and has to tell.
        let before = told.fetch_max(lost, Ordering::Relaxed);
        if before < lost && !tell(lost - before) {
            told.fetch_sub(lost - before, Ordering::Relaxed);
        }
    }
}
