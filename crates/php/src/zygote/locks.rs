//! Ends workers with a view to the memory that they share with others, APCu's and opcache's: a
//! process that is killed while it holds a lock there leaves it locked for ever.

use std::ffi::c_int;
use std::time::Duration;

use crate::engine;

/// How often a worker is looked at, a millisecond apart: one that uses such memory all the time is
/// seldom met outside of it.
const LOOKS: u32 = 20;
/// How long the kernel may take to stop a process, in milliseconds. One that waits for a disk is
/// not stopped before that answers.
const STOPS: u32 = 20;

/// Kills a child that has not been reaped, if it is in shared memory or if it is not, as wanted. It
/// is stopped while that is found out, since it could go there meanwhile.
pub(super) fn kill_if(pid: libc::pid_t, memory: c_int, in_locks: bool) {
    for look in 1..=LOOKS {
        super::kill(pid, libc::SIGSTOP);
        let is_stopped = is_stopped(pid);
        if is_stopped && engine::is_in_locks(pid, memory) == in_locks {
            return super::kill(pid, libc::SIGKILL);
        }
        super::kill(pid, libc::SIGCONT);
        if in_locks || !is_stopped || look == LOOKS {
            return; // for now: the supervisor asks again
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_stopped(pid: libc::pid_t) -> bool {
    (0..STOPS).any(|look| {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}
