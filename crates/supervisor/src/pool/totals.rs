//! What the processes of a pool have done that counts beyond their lives.

use std::time::Duration;

use tokamak_metrics::Reading;
use tokamak_sys::process;

use super::Pool;
use super::endings::{Ending, Endings};
use crate::machine::Worker;

/// Sums over all processes of a pool, or of all pools of a site.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Why workers have ended.
    pub endings: Endings,
    /// Their processor time, and that of their zygotes.
    pub processor: Duration,
    /// Times of roll-backs.
    pub roll_backs: Reading,
    /// Pages that each of them has copied.
    pub pages: Reading,
    /// Waits, in async mode, that held all requests of a worker.
    pub held: u64,
}

impl Totals {
    /// Adds those of others.
    pub fn add(&mut self, others: &Totals) {
        self.endings.add(&others.endings);
        self.processor += others.processor;
        self.roll_backs.add(&others.roll_backs);
        self.pages.add(&others.pages);
        self.held = self.held.saturating_add(others.held);
    }
}

/// Processor time of a pool: it never becomes less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessorTime {
    /// Of zygotes that have ended, and of their workers.
    earlier: Duration,
    /// Of the zygote that runs and of its workers: the most that was seen.
    current: Duration,
}

impl ProcessorTime {
    /// A worker that is waited for while its zygote is looked at may be missing once.
    fn see(&mut self, current: Duration) {
        self.current = self.current.max(current);
    }

    /// The zygote has ended.
    pub(super) fn end(&mut self) {
        self.earlier += std::mem::take(&mut self.current);
    }

    fn total(&self) -> Duration {
        self.earlier + self.current
    }
}

impl Pool {
    /// Looks how long processors have worked for it. The last look before its zygote ends counts.
    pub fn measure(&mut self) {
        let Some(zygote) = self.zygote.pid() else { return };
        let living = self.slots.iter().filter(|place| place.worker != Worker::Absent);
        // The zygote has the time of workers that it has waited for. It comes first: a worker must
        // not count twice.
        let pids = std::iter::once(zygote).chain(living.filter_map(|place| place.pid));
        let sum = pids.filter_map(process::processor_time).sum();
        self.processor.see(sum);
    }

    /// Books a worker that has ended.
    pub(super) fn book(&mut self, index: u16, ending: Ending) {
        let entry = self.entry(index);
        self.served = self.served.saturating_add(entry.requests);
        let mut past = std::mem::take(&mut self.past);
        past.endings.note(ending);
        self.add_worker(index, &mut past);
        self.past = past;
    }

    /// What its processes have done so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.past.clone();
        totals.processor += self.processor.total();
        for (index, place) in (0..).zip(&self.slots) {
            if place.worker != Worker::Absent {
                self.add_worker(index, &mut totals);
            }
        }
        totals
    }

    /// Adds what the worker at this place says of itself.
    fn add_worker(&self, index: u16, totals: &mut Totals) {
        let entry = self.segment.board(index);
        if entry.instance == self.slots[usize::from(index)].instance {
            totals.held = totals.held.saturating_add(entry.held.into());
            self.segment.add_roll_backs(index, &mut totals.roll_backs, &mut totals.pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_never_becomes_less() {
        let mut time = ProcessorTime::default();
        for (seen, total) in [(3, 3), (2, 3), (5, 5)] {
            time.see(Duration::from_secs(seen));
            assert_eq!(time.total(), Duration::from_secs(total));
        }
        time.end();
        time.see(Duration::from_secs(1));
        assert_eq!(time.total(), Duration::from_secs(6));
    }
}
