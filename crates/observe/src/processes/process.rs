//! Processes and threads: names, parents, CPU time, descriptors.

use std::collections::{BTreeMap, BTreeSet};

use tokamak_sys::proc::{self, Stat, Task};

use crate::text::for_terminal;

/// One process or thread.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its parent.
    pub parent: u32,
    /// Seconds of CPU time so far.
    pub cpu: f64,
    /// Seconds so far for which it could run, and no processor was free for it. Only of threads; 0
    /// where the kernel does not count them.
    pub waited: f64,
}

impl Process {
    fn new(stat: &Stat, waited: f64) -> Process {
        Process {
            // A process chooses its name; it gives no orders to a terminal.
            name: for_terminal(&stat.name).into_owned(),
            parent: stat.parent,
            cpu: seconds(stat.ticks),
            waited,
        }
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / proc::ticks_per_second() as f64
}

/// All processes of the machine that this user may see.
pub fn all() -> BTreeMap<u32, Process> {
    let of = |pid| Some((pid, Process::new(&proc::stat(Task::Process(pid))?, 0.0)));
    proc::processes().filter_map(of).collect()
}

/// The threads of these processes.
pub fn threads(pids: &BTreeSet<u32>) -> BTreeMap<(u32, u32), Process> {
    let of = |pid: &u32| {
        let pid = *pid;
        proc::threads(pid).filter_map(move |thread| {
            let task = Task::Thread(pid, thread);
            let stat = proc::stat(task)?;
            let waited = proc::scheduled(task).map_or(0.0, |times| times.waited as f64 / 1e9);
            Some(((pid, thread), Process::new(&stat, waited)))
        })
    };
    pids.iter().flat_map(of).collect()
}

/// CPU time of this process in seconds, with the threads that have ended.
pub fn own_cpu() -> f64 {
    proc::stat(Task::Process(std::process::id())).map_or(0.0, |own| seconds(own.ticks))
}

/// These processes, their children, and so on.
pub fn with_descendants(roots: &BTreeSet<u32>, all: &BTreeMap<u32, Process>) -> BTreeSet<u32> {
    let mut found = roots.clone();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, process)| found.contains(&process.parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Descriptors that a process has open, and may have.
pub fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let open = proc::descriptors(pid).count() as u64;
    let limits = proc::values(Task::Process(pid), "limits")?;
    let most = proc::value(&limits, "Max open files")?;
    Some((open, most.split_whitespace().next()?.parse().ok()?))
}

/// CPU time of the whole machine in seconds: used, and all that there was.
pub fn machine_cpu() -> Option<(f64, f64)> {
    let all = proc::processors()?.into_iter().find(|row| row.number.is_none())?;
    Some((seconds(all.all - all.idle), seconds(all.all)))
}

/// The process that a thread belongs to; itself, if it has ended.
pub fn process_of(thread: u32) -> u32 {
    let status = proc::values(Task::Process(thread), "status").unwrap_or_default();
    proc::value(&status, "Tgid:").and_then(|group| group.parse().ok()).unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_no_orders_to_a_terminal() {
        let stat = Stat {
            name: "php (\u{9b}2J\x1b)".to_owned(),
            state: 'S',
            parent: 3,
            ticks: proc::ticks_per_second() * 3,
            ticks_of_children: 0,
        };
        let process = Process::new(&stat, 0.0);
        assert_eq!((process.name.as_str(), process.parent, process.cpu), ("php (?2J?)", 3, 3.0));
    }

    #[test]
    fn a_name_that_is_cut_within_a_letter_hides_nothing() {
        let of_test = std::thread::Builder::new().name("fourteen-bytes\u{e9}".to_owned());
        let found = of_test.spawn(|| threads(&BTreeSet::from([std::process::id()])));
        let names = found.unwrap().join().unwrap().into_values().map(|thread| thread.name);
        assert!(names.into_iter().any(|name| name.starts_with("fourteen-bytes")));
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let of = |parent| Process { name: String::new(), parent, cpu: 0.0, waited: 0.0 };
        let all = BTreeMap::from([(9, of(1)), (3, of(9)), (2, of(3)), (5, of(1))]);
        assert_eq!(with_descendants(&BTreeSet::from([9]), &all), BTreeSet::from([9, 3, 2]));
    }

    #[test]
    fn the_machines_time_is_used_or_idle() {
        let (used, all) = machine_cpu().unwrap();
        assert!(0.0 < used && used <= all);
    }

    #[test]
    fn a_thread_belongs_to_its_process() {
        let own = std::process::id();
        // The test's own thread: another could have ended before it is looked at.
        let path = std::fs::read_link("/proc/thread-self").unwrap();
        let thread = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(threads(&BTreeSet::from([own])).contains_key(&(own, thread)));
        assert_eq!(process_of(thread), own);
        assert_eq!(process_of(u32::MAX), u32::MAX);
    }
}
