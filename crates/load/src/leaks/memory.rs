//! The memory of a server's processes: what they have filled themselves, and by how much that grew.

use std::collections::{BTreeMap, BTreeSet};

use tokamak_sys::proc::{self, Task};

/// What a process has filled itself.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// In bytes.
    pub bytes: u64,
    /// Whether these are the pages as they are, and no figure that is behind.
    pub is_exact: bool,
}

/// The pages that a process has filled itself, in memory or swapped out. Files and shared
/// memory are not among them, nor what it promised to give back; pages that it still shares with
/// the process that it was copied from are, so to write to them is no growth.
///
/// `smaps_rollup` counts pages, and only its owner and root may read it. `status`, which all may
/// read, may be some hundred kilobytes behind.
pub fn of(pid: u32) -> Option<Filled> {
    let task = Task::Process(pid);
    let exact = proc::values(task, "smaps_rollup").and_then(|text| {
        let value = |name| proc::value_in_bytes(&text, name);
        let held = value("Anonymous:")? + value("Swap:")?;
        let bytes = held.saturating_sub(value("LazyFree:")?);
        Some(Filled { bytes, is_exact: true })
    });
    let rough = || {
        let text = proc::values(task, "status")?;
        let value = |name| proc::value_in_bytes(&text, name);
        let bytes = value("RssAnon:")? + value("VmSwap:")?;
        Some(Filled { bytes, is_exact: false })
    };
    exact.or_else(rough)
}

/// By how much the processes of a server grew since the first look. A process counts from the first
/// look at which it was there, and what one that ended had grown by stays counted: so neither is
/// growth or loss of its own.
#[derive(Debug, Default)]
pub struct Ledger {
    last: BTreeMap<u32, u64>,
    grown: BTreeMap<u32, i64>,
    /// What each process had filled, at each look but the first.
    looks: Vec<BTreeMap<u32, u64>>,
    is_begun: bool,
    /// Processes that were started after the first look.
    pub born: usize,
    /// Processes that have ended since.
    pub ended: usize,
    /// Whether a figure was behind.
    pub is_rough: bool,
}

impl Ledger {
    /// Looks at these processes, and says by how much all have grown.
    pub fn look(&mut self, pids: &BTreeSet<u32>) -> i64 {
        let filled = pids.iter().filter_map(|pid| Some((*pid, of(*pid)?)));
        let now = filled.map(|(pid, filled)| {
            self.is_rough |= !filled.is_exact;
            (pid, filled.bytes)
        });
        let now = now.collect();
        self.note(now)
    }

    fn note(&mut self, now: BTreeMap<u32, u64>) -> i64 {
        for (pid, bytes) in &now {
            match self.last.get(pid) {
                Some(before) => {
                    *self.grown.entry(*pid).or_default() += *bytes as i64 - *before as i64;
                }
                None if self.is_begun => self.born += 1,
                None => {}
            }
        }
        self.ended += self.last.keys().filter(|pid| !now.contains_key(pid)).count();
        if self.is_begun {
            self.looks.push(now.clone());
        }
        self.last = now;
        self.is_begun = true;
        self.grown.values().sum()
    }

    /// The bytes of the processes that were there at every look from this one on, after each look.
    pub fn of_those_that_stayed(&self, from: usize) -> Vec<i64> {
        let stayed = |pid: &u32| self.looks[from..].iter().all(|look| look.contains_key(pid));
        let pids: Vec<u32> = self.last.keys().copied().filter(stayed).collect();
        let bytes = |look: &BTreeMap<u32, u64>| -> u64 {
            pids.iter().filter_map(|pid| look.get(pid)).sum()
        };
        self.looks.iter().map(|look| bytes(look) as i64).collect()
    }

    /// The process that grew most, if one did.
    pub fn largest(&self) -> Option<u32> {
        let grown = self.grown.iter().filter(|(_, by)| **by > 0);
        grown.max_by_key(|(_, by)| **by).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_come_and_go_are_no_growth() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.note(BTreeMap::from([(1, 100), (2, 900)])), 0);
        assert_eq!(ledger.note(BTreeMap::from([(1, 150), (2, 890)])), 40);
        assert_eq!(ledger.note(BTreeMap::from([(1, 150), (3, 5000)])), 40);
        assert_eq!(ledger.note(BTreeMap::from([(1, 150), (3, 5007)])), 47);
        assert_eq!((ledger.born, ledger.ended, ledger.largest()), (1, 1, Some(1)));
        // Only the first process was there from the beginning to the end.
        assert_eq!(ledger.of_those_that_stayed(0), [150, 150, 150]);
        assert_eq!(ledger.of_those_that_stayed(1), [150, 5150, 5157]);
    }

    #[test]
    fn what_this_process_fills_is_its_own() {
        let own = std::process::id();
        let before = of(own).unwrap().bytes;
        let filled = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = of(own).unwrap().bytes;
        // Other tests of this process fill and give back memory, too.
        assert!(after.saturating_sub(before) > 32 << 20, "{before} {after}");
        drop(filled);
        assert!(of(u32::MAX).is_none());
    }
}
