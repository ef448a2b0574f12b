//! Processes and threads: names, parents, CPU time, descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

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

/// A file of /proc. The name in it need not be UTF-8: the kernel cuts it after 15 bytes, which may
/// be within a letter.
fn read(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses `/proc/PID/stat`; `tick` is the number of ticks of a second.
fn parse_stat(text: &str, tick: f64) -> Option<Process> {
    // The name may contain blanks and parentheses.
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
    Some(Process {
        // A process chooses its name; it gives no orders to a terminal.
        name: for_terminal(name).into_owned(),
        parent: fields.get(1)?.parse().ok()?,
        cpu: (ticks(11)? + ticks(12)?) / tick,
        waited: 0.0,
    })
}

/// Parses `/proc/PID/task/TID/schedstat`: the second number is the time on a run queue, in
/// nanoseconds.
fn parse_waited(text: &str) -> Option<f64> {
    Some(text.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1e9)
}

/// Ticks of a second.
fn tick() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// All processes of the machine that this user may see.
pub fn all() -> BTreeMap<u32, Process> {
    let tick = tick();
    numbers("/proc")
        .filter_map(|pid| {
            let text = read(&format!("/proc/{pid}/stat"))?;
            Some((pid, parse_stat(&text, tick)?))
        })
        .collect()
}

/// The threads of these processes.
pub fn threads(pids: &BTreeSet<u32>) -> BTreeMap<(u32, u32), Process> {
    let tick = tick();
    let of = |pid: &u32| {
        let pid = *pid;
        numbers(&format!("/proc/{pid}/task")).filter_map(move |thread| {
            let folder = format!("/proc/{pid}/task/{thread}");
            let found = parse_stat(&read(&format!("{folder}/stat"))?, tick)?;
            let waited = read(&format!("{folder}/schedstat")).and_then(|text| parse_waited(&text));
            Some(((pid, thread), Process { waited: waited.unwrap_or(0.0), ..found }))
        })
    };
    pids.iter().flat_map(of).collect()
}

/// CPU time of this process in seconds, with the threads that have ended.
pub fn own_cpu() -> f64 {
    let text = read("/proc/self/stat").unwrap_or_default();
    parse_stat(&text, tick()).map_or(0.0, |own| own.cpu)
}

/// The entries of a folder whose names are numbers.
pub(crate) fn numbers(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
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
    let open = numbers(&format!("/proc/{pid}/fd")).count() as u64;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some((open, line.split_whitespace().next()?.parse().ok()?))
}

/// CPU time of the whole machine in seconds: used, and all that there was.
pub fn machine_cpu() -> Option<(f64, f64)> {
    parse_machine_cpu(&fs::read_to_string("/proc/stat").ok()?, tick())
}

fn parse_machine_cpu(text: &str, tick: f64) -> Option<(f64, f64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<f64> =
        line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let idle = values.get(3)? + values.get(4)?;
    let all: f64 = values.iter().sum();
    Some(((all - idle) / tick, all / tick))
}

/// The process that a thread belongs to; itself, if it has ended.
pub fn process_of(thread: u32) -> u32 {
    let status = read(&format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|group| group.trim().parse().ok()).unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_one_name() {
        let line = "7 (php (pool) 1) S 3 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 1";
        let process = parse_stat(line, 100.0).unwrap();
        assert_eq!((process.name.as_str(), process.parent, process.cpu), ("php (pool) 1", 3, 3.0));
        assert!(parse_stat("7 (php", 100.0).is_none());
        let orders = parse_stat(&line.replace("pool", "\u{9b}2J\x1b"), 100.0).unwrap();
        assert_eq!(orders.name, "php (?2J?) 1");
    }

    #[test]
    fn a_name_that_is_cut_within_a_letter_hides_nothing() {
        let of_test = std::thread::Builder::new().name("fourteen-bytes\u{e9}".to_owned());
        let found = of_test.spawn(|| threads(&BTreeSet::from([std::process::id()])));
        let names = found.unwrap().join().unwrap().into_values().map(|thread| thread.name);
        assert!(names.into_iter().any(|name| name.starts_with("fourteen-bytes")));
    }

    #[test]
    fn the_time_on_a_run_queue_is_the_second_number() {
        assert_eq!(parse_waited("232490299 1500000000 900\n"), Some(1.5));
        assert_eq!(parse_waited(""), None);
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let of = |parent| Process { name: String::new(), parent, cpu: 0.0, waited: 0.0 };
        let all = BTreeMap::from([(9, of(1)), (3, of(9)), (2, of(3)), (5, of(1))]);
        assert_eq!(with_descendants(&BTreeSet::from([9]), &all), BTreeSet::from([9, 3, 2]));
    }

    #[test]
    fn the_machines_time_is_used_or_idle() {
        let found = parse_machine_cpu("cpu  100 0 100 700 100 0 0 0 5 5\n", 100.0);
        assert_eq!(found, Some((2.0, 10.0)));
    }

    #[test]
    fn a_thread_belongs_to_its_process() {
        let own = std::process::id();
        // The test's own thread: another could have ended before it is looked at.
        let path = fs::read_link("/proc/thread-self").unwrap();
        let thread = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(threads(&BTreeSet::from([own])).contains_key(&(own, thread)));
        assert_eq!(process_of(thread), own);
        assert_eq!(process_of(u32::MAX), u32::MAX);
    }
}
