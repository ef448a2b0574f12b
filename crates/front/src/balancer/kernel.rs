//! Reads counters of the kernel: how long the processors were idle that this process may use, what
//! its control groups leave it of them, how long a thread has waited for one, and how much of them
//! this process and its workers have used.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tokamak_sys::control_groups::{self, ControlGroup};
use tokamak_sys::proc::{self, Processor, Task};

/// The kernel counts in hundredths of a second (`USER_HZ`), whatever its own clock.
const HUNDREDTH: f64 = 1e7;

/// Longest time between two readings that are compared, in nanoseconds. Decisions are a tick of 200
/// ms apart: a tenth of this would reject every reading, and ten times as much would average over
/// load that is long over.
const STALE: u64 = 1_000_000_000;

/// Compares two readings of the kernel's counters.
#[derive(Debug, Default)]
pub struct Spare {
    /// The time of the last reading, and what it was.
    last: Option<(u64, Reading)>,
}

#[derive(Debug, Default, PartialEq)]
struct Reading {
    /// The idle time of the processors that this process may use, in hundredths of a second.
    idle: u64,
    /// The control groups with a quota that it is in.
    groups: Vec<Group>,
}

/// A control group with a quota.
#[derive(Debug, PartialEq)]
struct Group {
    /// How many processors its processes may use.
    quota: f64,
    /// How much processor time they have used, in microseconds.
    used: u64,
}

impl Spare {
    /// How many processors were idle since the last reading and may be used. 0 if that was too long
    /// ago to compare: the next reading will tell. `None` if the kernel does not provide the
    /// number.
    pub fn look(&mut self, now: u64) -> Option<f64> {
        let reading = Reading::take()?;
        let last = self.last.take();
        let spare = match &last {
            Some((then, before)) if (1..=STALE).contains(&now.saturating_sub(*then)) => {
                reading.spare_since(before, (now - then) as f64)
            }
            _ => 0.0,
        };
        self.last = Some((now, reading));
        Some(spare)
    }
}

impl Reading {
    fn take() -> Option<Reading> {
        let status = proc::values(Task::Current, "status")?;
        let idle = idle(&proc::processors()?, proc::value(&status, "Cpus_allowed_list:")?)?;
        Some(Reading {
            idle,
            groups: limited(Path::new(control_groups::ROOT), &proc::own_control_groups()),
        })
    }

    /// The processors that were idle for the `passed` nanoseconds since `before`, as far as each
    /// group had something left.
    fn spare_since(&self, before: &Reading, passed: f64) -> f64 {
        let idle = self.idle.saturating_sub(before.idle) as f64 * HUNDREDTH / passed;
        let left = self.groups.iter().zip(&before.groups).map(|(group, before)| {
            group.quota - group.used.saturating_sub(before.used) as f64 * 1e3 / passed
        });
        left.fold(idle, f64::min).max(0.0)
    }
}

/// Adds up the processor time of this process and of workers, which come and go.
#[derive(Debug, Default)]
pub struct Used {
    /// What each worker had used at the last reading, by its process id.
    workers: HashMap<u32, u64>,
    /// What all of them have used so far, in nanoseconds.
    by_workers: u64,
}

impl Used {
    /// Nanoseconds so far. What a worker has used between the last reading and its end is not in
    /// it, nor what those have used that the kernel does not show to this process.
    pub fn look(&mut self, workers: impl IntoIterator<Item = u32>) -> u64 {
        let used = |pid| Some((pid, proc::scheduled(Task::Process(pid))?.ran));
        let now: HashMap<u32, u64> = workers.into_iter().filter_map(used).collect();
        let since_last = |(pid, used): (&u32, &u64)| {
            used.saturating_sub(self.workers.get(pid).copied().unwrap_or(0))
        };
        self.by_workers += now.iter().map(since_last).sum::<u64>();
        self.workers = now;
        self.by_workers + tokamak_cost::process_time()
    }
}

/// Nanoseconds for which the calling thread has waited for a processor since it began. `None` if
/// the kernel does not provide the number.
pub fn waited() -> Option<u64> {
    proc::scheduled(Task::Current).map(|times| times.waited)
}

/// Idle time of the processors in the list `allowed`.
fn idle(rows: &[Processor], allowed: &str) -> Option<u64> {
    let is_allowed = |row: &&Processor| row.number.is_some_and(|number| contains(allowed, number));
    // None of them found is no number, rather than none idle.
    rows.iter().filter(is_allowed).map(|row| row.idle).reduce(|sum, one| sum + one)
}

/// Whether a number is in a list like `0-3,8`.
fn contains(list: &str, number: usize) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first| number >= first)
            && last.parse().is_ok_and(|last| number <= last)
    })
}

/// Of the control groups that this process is in, by the text of `/proc/self/cgroup`, those with a
/// quota.
fn limited(root: &Path, text: &str) -> Vec<Group> {
    let quota = |group: ControlGroup| {
        if group.is_v1 { v1_group(root, &group.path) } else { v2_group(root, &group.path) }
    };
    control_groups::around(text, "cpu").into_iter().filter_map(quota).collect()
}

/// The control group of version 2 with this path; `None` if it has no quota.
fn v2_group(root: &Path, path: &Path) -> Option<Group> {
    let read = |name: &str| fs::read_to_string(root.join(path).join(name)).ok();
    let max = read("cpu.max")?;
    let (quota, period) = max.trim().split_once(' ')?;
    let quota = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
    let used = read("cpu.stat")?.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse();
    Some(Group { quota, used: used.ok()? })
}

/// The same of version 1. What it has used is counted by another controller. Where that one does
/// not know the group, the whole quota counts as left.
fn v1_group(root: &Path, path: &Path) -> Option<Group> {
    let read = |controller: &str, name: &str| {
        let text = fs::read_to_string(root.join(controller).join(path).join(name)).ok()?;
        text.trim().parse::<i64>().ok()
    };
    let quota = read("cpu", "cpu.cfs_quota_us").filter(|quota| *quota > 0)?;
    let period = read("cpu", "cpu.cfs_period_us").filter(|period| *period > 0)?;
    let used = read("cpuacct", "cpuacct.usage").unwrap_or(0) / 1000;
    Some(Group { quota: quota as f64 / period as f64, used: used as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_the_processors_that_may_be_used() {
        let row = |number, idle| Processor { number, idle, all: 2000 };
        let rows = [row(None, 1111), row(Some(0), 11), row(Some(1), 100), row(Some(10), 1000)];
        assert_eq!(idle(&rows, "0-63"), Some(1111));
        assert_eq!(idle(&rows, "0,10"), Some(1011));
        assert_eq!(idle(&rows, "1-9"), Some(100));
        assert_eq!(idle(&rows, "11"), None);
        assert_eq!(idle(&[], "0-63"), None);
    }

    #[test]
    fn what_a_control_group_may_not_use_is_not_spare() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("a/b");
        fs::create_dir_all(&own).unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        write("cpu.stat", "usage_usec 9000000\n");
        write("a/cpu.max", "250000 100000\n");
        write("a/cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
        write("a/b/cpu.max", "max 100000\n");
        write("a/b/cpu.stat", "usage_usec 1000000\n");
        let groups = limited(root.path(), "1:cpu:/x\n0::/a/b\n");
        assert_eq!(groups, [Group { quota: 2.5, used: 5_000_000 }]);
        assert_eq!(limited(root.path(), "1:cpu:/a\n"), []);

        let before = Reading { idle: 0, groups };
        let after = |used: u64| Reading { idle: 600, groups: vec![Group { quota: 2.5, used }] };
        // 60 processors were idle for a tenth of a second.
        assert_eq!(after(5_100_000).spare_since(&before, 1e8), 1.5);
        assert_eq!(after(5_260_000).spare_since(&before, 1e8), 0.0);
        let unlimited = Reading { idle: 600, groups: Vec::new() };
        assert_eq!(unlimited.spare_since(&before, 1e8), 60.0);
    }

    #[test]
    fn control_groups_of_version_1_have_quotas_too() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, text) in [
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
            ("cpu/a/cpu.cfs_quota_us", "150000\n"),
            ("cpu/a/cpu.cfs_period_us", "100000\n"),
            ("cpuacct/a/cpuacct.usage", "5000000999\n"),
            ("cpu/a/b/cpu.cfs_quota_us", "50000\n"),
            ("cpu/a/b/cpu.cfs_period_us", "50000\n"),
        ] {
            write(name, text);
        }
        let counted = Group { quota: 1.5, used: 5_000_000 };
        let uncounted = Group { quota: 1.0, used: 0 };
        let seen = |groups: &str| limited(root.path(), groups);
        assert_eq!(seen("5:cpu,cpuacct:/a\n4:cpuset:/\n0::/\n"), [counted]);
        assert_eq!(seen("1:cpu:/a/b\n")[0], uncounted);
        assert_eq!(seen("1:cpu:/a/b\n").len(), 2, "its own, and that of the group around it");
        assert_eq!(seen("1:cpu:/\n0::/\n"), [], "-1 is no quota");
        // In a container the path is that of the host, and the container's group is the root.
        write("cpu/cpu.cfs_quota_us", "200000\n");
        assert_eq!(seen("1:cpu:/docker/f00\n"), [Group { quota: 2.0, used: 0 }]);
    }

    #[test]
    fn waiting_time_never_decreases() {
        let before = waited().expect("this kernel says it");
        (0..100).for_each(|_| std::thread::yield_now());
        assert!(waited().unwrap() >= before);
    }

    #[test]
    fn what_workers_use_is_added_up_while_they_come_and_go() {
        let mut used = Used::default();
        let own = used.look([]);
        // The kernel counts the thread that began the process, and that one only.
        let pid = std::process::id();
        let worker = proc::scheduled(Task::Process(pid)).expect("this kernel says it").ran;
        let first = used.look([pid]);
        assert!(first >= own + worker, "{first}, {own} and {worker}");
        let later = used.look([pid, u32::MAX]);
        let passed = tokamak_cost::process_time() - own;
        assert!(later - first <= 2 * passed, "what was counted before is not counted again");
        assert!(used.look([]) >= later, "what one has used that has ended stays");
    }

    #[test]
    fn only_what_lies_between_two_looks_counts() {
        let mut spare = Spare::default();
        let start = tokamak_cost::now();
        assert_eq!(spare.look(start), Some(0.0), "nothing to compare with");
        let processors = std::thread::available_parallelism().unwrap().get() as f64;
        let spare_now = spare.look(start + STALE).expect("this kernel says it");
        assert!((0.0..=processors + 1.0).contains(&spare_now), "{spare_now}");
        assert_eq!(spare.look(start + 9 * STALE), Some(0.0), "too long ago");
    }
}
