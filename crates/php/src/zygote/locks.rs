//! Ends workers with a view to the memory that they share with others, APCu's and opcache's: a
//! process that is killed while it holds a lock there leaves it locked for ever.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use tokamak_sys::proc::{self, Task};

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

/// Time between two looks for a lock whose holder is dead. Requests wait for the lock meanwhile, so
/// it is short; a zygote whose worker has crashed once wakes up this often from then on, so it is
/// not ten times shorter.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A worker that was found waiting so many times in a row, without any time on a processor in
/// between, waits in vain: the holder of such a lock needs it for microseconds, unless it calls a
/// script's function. With fewer, a machine without a free processor might look like that; each
/// more is another second for those who wait.
const ENOUGH: u32 = 3;

/// Finds out that a worker has died with a lock of APCu. The kernel gives back those of files,
/// which opcache uses, and of System V semaphores; APCu's are words in memory that no process gives
/// back.
pub(super) struct DeadLocks {
    /// When the zygote looks next. None before a worker has died like that, and after the
    /// supervisor was notified of a lock.
    due: Option<Instant>,
    waiting: BTreeMap<libc::pid_t, Waiting>,
}

/// A worker that waits.
#[derive(Clone, Copy)]
struct Waiting {
    /// Its time on a processor so far, as the kernel writes it.
    ran: u64,
    /// How often it was found like that, one look after the other.
    looks: u32,
}

impl DeadLocks {
    pub fn new() -> DeadLocks {
        DeadLocks { due: None, waiting: BTreeMap::new() }
    }

    /// A worker has died otherwise than by its own exit, so it may have held a lock.
    pub fn suspect(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
    }

    /// How long until the next look; none: there is none to come.
    pub fn patience(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Looks at the workers, each with a descriptor of its memory, if that is due. Returns whether
    /// one of them waits for somebody who is dead.
    pub fn look(&mut self, workers: impl Iterator<Item = (libc::pid_t, c_int)>) -> bool {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return false;
        }
        self.due = Some(Instant::now() + LOOK_EVERY);
        let before = std::mem::take(&mut self.waiting);
        for (pid, memory) in workers.filter(|(pid, memory)| engine::is_in_locks(*pid, *memory)) {
            let is_idle = state(pid) == Some('S') && engine::waits_in_apcu(pid, memory);
            let Some(ran) = ran(pid).filter(|_| is_idle) else {
                // It may hold what the others wait for.
                self.waiting.clear();
                return false;
            };
            let looks =
                before.get(&pid).filter(|seen| seen.ran == ran).map_or(0, |seen| seen.looks);
            self.waiting.insert(pid, Waiting { ran, looks: looks + 1 });
        }
        let is_dead = self.waiting.values().any(|waiting| waiting.looks >= ENOUGH);
        if is_dead {
            *self = DeadLocks::new();
        }
        is_dead
    }
}

/// What a process does, as a letter of the kernel's.
fn state(pid: libc::pid_t) -> Option<char> {
    Some(proc::stat(Task::Process(pid.unsigned_abs()))?.state)
}

/// Nanoseconds that a process has been on a processor.
fn ran(pid: libc::pid_t) -> Option<u64> {
    Some(proc::scheduled(Task::Process(pid.unsigned_abs()))?.ran)
}

fn is_stopped(pid: libc::pid_t) -> bool {
    (0..STOPS).any(|look| {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        state(pid) == Some('T')
    })
}
