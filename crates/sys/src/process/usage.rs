//! What a process takes of the machine's memory and processors.

use std::fs;
use std::time::Duration;

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident, in bytes.
    pub resident: u64,
    /// The part of it that is shared memory or pages of files: opcode cache, libraries.
    pub shared: u64,
}

/// The memory of a process, if it exists. The number may come from anybody: it is only looked at.
pub fn memory(pid: u32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
    let page = rustix::param::page_size() as u64;
    let (resident, shared) = (pages.next()?, pages.next()?);
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
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut times = text.split(' ').map_while(|field| field.parse::<u64>().ok());
    let time = times.next()? + times.next()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name, in which there may be anything.
    let is_runnable = stat.rsplit_once(") ")?.1.starts_with('R');
    (time > 0).then_some(Demand { time, is_runnable })
}

/// The time for which processors have worked for a process and for the children that it has waited
/// for, if it exists; in steps of a hundredth of a second.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // utime, stime, cutime, cstime; the state, the third field, follows the name.
    let fields = stat.rsplit_once(") ")?.1.split(' ').skip(11).take(4);
    let ticks = fields.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    let second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_secs_f64(ticks as f64 / second as f64))
}
