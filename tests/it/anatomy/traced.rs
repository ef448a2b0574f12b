//! Processes that are watched: which ones a server has, and whether strace has hold of them.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::harness::{Server, eventually};

/// How long strace may take to attach, or to let go.
const PATIENCE: Duration = Duration::from_secs(60);

/// A field of `/proc/PID/status`; nothing if the process has ended.
fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// All processes of a server: those that the test has started, their children, and so on.
pub fn processes(server: &mut Server) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([server.first_process().pid(), server.main_process().pid()]);
    loop {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_child = |pid: &u32| {
            let parent = status(*pid, "PPid").and_then(|parent| parent.parse().ok());
            parent.is_some_and(|parent| found.contains(&parent))
        };
        let more: Vec<u32> = numbers.filter(|pid| !found.contains(pid)).filter(is_child).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Whether a tracer has hold of the process.
fn is_traced(pid: u32) -> bool {
    status(pid, "TracerPid").is_some_and(|tracer| tracer != "0")
}

/// Waits until a tracer has hold of all of them.
#[track_caller]
pub fn wait_until_traced(pids: &BTreeSet<u32>) {
    let all = || pids.iter().all(|pid| is_traced(*pid)).then_some(());
    assert!(eventually(PATIENCE, all).is_some(), "{pids:?} are not traced");
}

/// Waits until no tracer has hold of any of them, and none is stopped.
#[track_caller]
pub fn wait_until_free(pids: &BTreeSet<u32>) {
    let is_stopped =
        |pid: u32| status(pid, "State").is_some_and(|state| state.starts_with(['T', 't']));
    let free = || pids.iter().all(|pid| !is_traced(*pid) && !is_stopped(*pid)).then_some(());
    assert!(eventually(PATIENCE, free).is_some(), "{pids:?} are still traced, or stopped");
}

/// Waits until all threads of these processes sleep, at several looks one after the other: then
/// they have done what they had to do for the requests.
pub fn wait_until_at_rest(pids: &BTreeSet<u32>) {
    let sleeps = |pid: &u32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        threads.all(|thread| status(thread, "State").is_none_or(|state| state.starts_with('S')))
    };
    let mut looks = 0;
    let at_rest = eventually(PATIENCE, || {
        looks = if pids.iter().all(sleeps) { looks + 1 } else { 0 };
        (looks >= 10).then_some(())
    });
    assert!(at_rest.is_some(), "{pids:?} are never at rest");
}
