//! What a process takes of the machine's memory and processors.

use std::time::Duration;

use crate::proc::{self, Task};

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident, in bytes.
    pub resident: u64,
    /// The part of it that is shared memory or pages of files: opcode cache, libraries.
    pub shared: u64,
}

/// The memory of a process, if it exists.
pub fn memory(pid: u32) -> Option<Memory> {
    let (resident, shared) = proc::pages(pid)?;
    let page = rustix::param::page_size() as u64;
    Some(Memory { resident: resident * page, shared: shared * page })
}

/// What a process wants of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Nanoseconds for which it has run, or waited for a processor until it got one.
    pub time: u64,
    /// Whether it runs, or waits for a processor now.
    pub is_runnable: bool,
}

/// The demand of a process's first thread, if it exists and the kernel accounts for that.
pub fn demand(pid: u32) -> Option<Demand> {
    let task = Task::Process(pid);
    let times = proc::scheduled(task)?;
    let time = times.ran + times.waited;
    let is_runnable = proc::stat(task)?.state == 'R';
    (time > 0).then_some(Demand { time, is_runnable })
}

/// The time for which processors have worked for a process and for the children that it has waited
/// for, if it exists; in steps of a hundredth of a second.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let stat = proc::stat(Task::Process(pid))?;
    let ticks = stat.ticks + stat.ticks_of_children;
    Some(Duration::from_secs_f64(ticks as f64 / proc::ticks_per_second() as f64))
}
