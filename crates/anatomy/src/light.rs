//! The same requests once more, watched by what costs them least: the kernel notes the end of each
//! call in memory (the tracepoint `raw_syscalls:sys_exit`, by `perf record`) and stops no process.
//!
//! It notes thread, time, number and result of a call, but no arguments. So a call's phase is taken
//! from the trace of strace: it is that of the same call of the same program at the same place of a
//! request there.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use tokamak_sys::process::end_with_parent;

use crate::driver::Exchange;
use crate::follow::Place;
use crate::line::{Call, call, nanoseconds};
use crate::phase::{Kind, Phase, kind};

/// How long perf may take to begin.
const BEGIN: Duration = Duration::from_secs(20);
/// Calls by which the cost of one is measured.
const CALLS: u32 = 2000;
/// More notes are not read: each becomes a call of some 250 bytes, so these take half a gigabyte.
/// They are those of a thousand requests of a large application.
const MOST_NOTES: usize = 2_000_000;

/// The end of a call, as the kernel noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    thread: u32,
    /// Nanoseconds of the clock that never jumps.
    time: u64,
    number: u32,
    failed: bool,
}

/// A perf that notes.
pub struct Light {
    perf: Child,
    /// Open until perf has ended, as its output is: it leaves its file unfinished if either is
    /// closed before.
    _input: ChildStdin,
    folder: TempDir,
}

impl Light {
    /// Begins to note the calls of all threads of these processes, or says why it cannot. Returns
    /// when the kernel notes.
    pub fn attach(pids: impl Iterator<Item = u32>) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
        let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
        let mut command = perf(&folder);
        // It begins when it is told to, and says so.
        command.args(["-D", "-1", "--control", "fd:0,1", "-p", &pids.join(",")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut perf = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "perf is not installed (Debian: linux-perf)".to_owned(),
            _ => format!("perf does not start: {error}"),
        })?;
        let mut output = perf.stdout.take().expect("a pipe");
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            let mut answer = [0; 4];
            let is_said = output.read_exact(&mut answer).is_ok() && answer == *b"ack\n";
            let _ = say.send(is_said);
            let _ = io::copy(&mut output, &mut io::sink());
        });
        let mut input = perf.stdin.take().expect("a pipe");
        let is_asked = input.write_all(b"enable\n").is_ok();
        let light = Self { perf, _input: input, folder };
        match is_asked && said.recv_timeout(BEGIN) == Ok(true) {
            true => Ok(light),
            false => Err("perf may not: see /proc/sys/kernel/perf_event_paranoid".to_owned()),
        }
    }

    /// Ends it; the calls that it noted, by the names that strace has for their numbers, or why
    /// there are none.
    pub fn finish(mut self, names: &BTreeMap<u32, String>) -> Result<Vec<Call>, String> {
        self.stop();
        let ends = read(&self.folder)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let offset = (since_1970.as_nanos() as u64).saturating_sub(now());
        let named = |end: &End| {
            let name = names.get(&end.number)?;
            let result = if end.failed { "-1 E" } else { "0" };
            Some(call(end.thread, name, "", result, end.time + offset, 0))
        };
        Ok(ends.iter().filter_map(named).collect())
    }

    fn stop(&mut self) {
        let pid = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.perf.try_wait()) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.perf.wait();
    }
}

impl Drop for Light {
    fn drop(&mut self) {
        self.stop();
    }
}

/// perf, which writes what the kernel notes into the folder.
fn perf(folder: &TempDir) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-k", "CLOCK_MONOTONIC", "-e", "raw_syscalls:sys_exit"]);
    // Memory for the notes of each thread that there is: 2 MiB, of some 30 000 calls. Threads to
    // come are not watched; for those there would have to be memory for each processor.
    command.args(["--per-thread", "--no-inherit", "-m", "512", "-o"]);
    command.arg(folder.path().join("notes"));
    end_with_parent(&mut command);
    command
}

/// Nanoseconds of the clock that perf uses.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What perf has noted, in the order of time, or why it is not known.
fn read(folder: &TempDir) -> Result<Vec<End>, String> {
    let mut command = Command::new("perf");
    command.args(["script", "--ns", "-F", "tid,time,trace", "-i"]).arg(folder.path().join("notes"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let unreadable = |error| format!("its notes cannot be read: {error}");
    let mut script = command.spawn().map_err(unreadable)?;
    let lines = BufReader::new(script.stdout.take().expect("a pipe")).lines();
    let ends = ends(lines, MOST_NOTES);
    // Nobody reads the rest, so perf ends in any case.
    let status = script.wait().map_err(unreadable)?;
    let mut ends = ends?;
    if !status.success() {
        return Err(format!("its notes cannot be read: perf script: {status}"));
    }
    ends.sort_by_key(|end| end.time);
    Ok(ends)
}

/// The calls of these lines, unless there are more than so many. A call without a number (-1) is
/// one that a signal has ended: it is made again.
fn ends(lines: impl Iterator<Item = io::Result<String>>, most: usize) -> Result<Vec<End>, String> {
    let found = lines.filter_map(|line| line.map(|line| end(&line)).transpose());
    let found: Vec<End> = found
        .take(most + 1)
        .collect::<io::Result<_>>()
        .map_err(|error| format!("its notes cannot be read: {error}"))?;
    match found.len() > most {
        true => Err(format!("it noted more than {most} calls: make fewer requests (-n)")),
        false => Ok(found),
    }
}

/// A line of `perf script`: `442 84333.406032519: NR 43 = 5`.
fn end(line: &str) -> Option<End> {
    let mut words = line.split_whitespace();
    let thread = words.next()?.parse().ok()?;
    let time = nanoseconds(words.next()?.strip_suffix(':')?)?;
    let number = (words.next()? == "NR").then(|| words.next())??.parse().ok()?;
    let result: i64 = (words.next()? == "=").then(|| words.next())??.parse().ok()?;
    Some(End { thread, time, number, failed: (-4095..0).contains(&result) })
}

/// What a noted call costs, in nanoseconds: as much longer it is from the end of one call to the
/// end of the next in a program that does nothing else (`dd`) than without perf.
pub fn cost_of_a_call() -> Option<f64> {
    let folder = tempfile::tempdir().ok()?;
    let mut command = perf(&folder);
    let count = format!("count={}", CALLS / 2);
    command.args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().ok()?.success() {
        return None;
    }
    let ends = read(&folder).ok()?;
    let mut gaps: Vec<u64> = ends.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
    gaps.sort_unstable();
    let noted = *gaps.get(gaps.len() / 2)? as f64;
    (ends.len() as u32 >= CALLS).then(|| (noted - bare().unwrap_or(0.0)).max(0.0))
}

/// The same calls without perf: nanoseconds for each, in the quickest of some rounds.
fn bare() -> Option<f64> {
    let (mut zero, mut null) = (File::open("/dev/zero").ok()?, File::create("/dev/null").ok()?);
    let mut byte = [0];
    let mut round = || {
        let begun = Instant::now();
        for _ in 0..CALLS / 2 {
            zero.read_exact(&mut byte).ok()?;
            null.write_all(&byte).ok()?;
        }
        Some(begun.elapsed().as_nanos() as f64 / f64::from(CALLS))
    };
    (0..5).filter_map(|_| round()).min_by(f64::total_cmp)
}

/// The program of a call, its name, and whether it failed.
type Kindred<'a> = (&'a str, &'a str, bool);

/// Which phase the calls of a program have, by their place among those of the same name in a
/// request: for each place how often each phase was it, and how often none.
pub struct Habits<'a> {
    places: HashMap<Kindred<'a>, Vec<HashMap<Option<Phase>, usize>>>,
}

/// The request whose time a moment is in: from its start to that of the next.
fn request_at(exchanges: &[Exchange], time: u64) -> Option<usize> {
    exchanges.partition_point(|exchange| exchange.start <= time).checked_sub(1)
}

/// A thread's sleep until one of many descriptors has news: its phase is that of what comes next.
fn is_wait(call: &Call) -> bool {
    kind(&call.name) == Kind::Wait
}

impl<'a> Habits<'a> {
    /// Learns from calls of which the phases are known.
    pub fn learn(
        calls: &'a [Call],
        places: &[Place],
        exchanges: &[Exchange],
        program: impl Fn(u32) -> &'a str,
    ) -> Self {
        let mut habits = Self { places: HashMap::new() };
        let mut seen: HashMap<(usize, Kindred<'a>), usize> = HashMap::new();
        for (call, place) in calls.iter().zip(places).filter(|(call, _)| !is_wait(call)) {
            let Some(request) = request_at(exchanges, call.end) else { continue };
            let kindred = (program(call.thread), &*call.name, call.error.is_some());
            let nth = seen.entry((request, kindred)).or_default();
            let of = habits.places.entry(kindred).or_default();
            of.resize_with(of.len().max(*nth + 1), HashMap::new);
            *of[*nth].entry(place.map(|place| place.1)).or_default() += 1;
            *nth += 1;
        }
        habits
    }

    /// The places of calls of which nothing but program, name and time is known.
    pub fn places(
        &self,
        calls: &[Call],
        exchanges: &[Exchange],
        program: impl Fn(u32) -> &'a str,
    ) -> Vec<Place> {
        let mut seen: HashMap<(usize, &str, &str, bool), usize> = HashMap::new();
        let mut waits: HashMap<u32, usize> = HashMap::new();
        let mut found: Vec<Place> = vec![None; calls.len()];
        for (index, call) in calls.iter().enumerate() {
            let Some(request) = request_at(exchanges, call.end) else { continue };
            if is_wait(call) {
                waits.insert(call.thread, index);
                continue;
            }
            let (who, failed) = (program(call.thread), call.error.is_some());
            let nth = seen.entry((request, who, &call.name, failed)).or_default();
            let of = self.places.get(&(who, &*call.name, failed));
            let votes = of.and_then(|of| of.get(*nth).or(of.last()));
            *nth += 1;
            let most = votes.and_then(|votes| votes.iter().max_by_key(|(phase, n)| (**n, **phase)));
            let Some(phase) = most.and_then(|(phase, _)| *phase) else { continue };
            found[index] = Some((request, phase));
            if let Some(wait) = waits.remove(&call.thread) {
                let is_of_it = calls[wait].end >= exchanges[request].start;
                found[wait] = is_of_it.then_some((request, phase));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_are_read_and_others_are_not() {
        let read = end("  442 84333.406032519: NR 43 = 5").unwrap();
        let expected = End { thread: 442, time: 84_333_406_032_519, number: 43, failed: false };
        assert_eq!(read, expected);
        assert!(end("442 1.0: NR 0 = -11").unwrap().failed);
        assert!(!end("442 1.0: NR 9 = -140000000000000").unwrap().failed, "an address");
        for wrong in ["", "442", "442 1.0 NR 0 = 1", "442 1.0: NR x = 1", "442 1.0: NR 1 1"] {
            assert_eq!(end(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn more_notes_than_memory_is_for_are_refused() {
        let read = |most| {
            ends(
                ["1 1.0: NR 0 = 1", "x", "1 2.0: NR 0 = 1"]
                    .map(|line| Ok(line.to_owned()))
                    .into_iter(),
                most,
            )
        };
        assert_eq!(read(2).unwrap().len(), 2);
        assert!(read(1).unwrap_err().contains("more than 1 calls"));
        let broken = || Err(io::Error::other("broken"));
        assert!(ends([broken()].into_iter(), 1).unwrap_err().ends_with("read: broken"));
    }

    #[test]
    fn calls_without_arguments_take_the_phases_of_those_with() {
        let at = |name: &str, end: u64, result: &str| call(1, name, "", result, end, 0);
        let exchanges =
            [(100, 150), (200, 250)].map(|(start, end)| Exchange { port: 1, start, end });
        let known = [
            at("accept4", 101, "3"),
            at("read", 110, "-1 EAGAIN (x)"),
            at("read", 120, "8"),
            at("write", 125, "8"),
            at("read", 130, "8"),
        ];
        let place = |phase| Some((0, phase));
        let places = [
            place(Phase::Accept),
            place(Phase::Accept),
            place(Phase::ReadRequest),
            None,
            place(Phase::ReadResponse),
        ];
        let habits = Habits::learn(&known, &places, &exchanges, |_| "server");
        let calls = [
            at("read", 90, "8"),
            at("epoll_wait", 205, "1"),
            at("read", 210, "8"),
            at("write", 215, "8"),
            at("epoll_wait", 220, "1"),
            at("epoll_wait", 225, "1"),
            at("read", 230, "8"),
            at("read", 240, "8"),
            at("open", 241, "8"),
        ];
        let places = habits.places(&calls, &exchanges, |_| "server");
        let (first, second) = (Some((1, Phase::ReadRequest)), Some((1, Phase::ReadResponse)));
        let expected = [None, first, first, None, None, second, second, second, None];
        assert_eq!(places, expected);
    }

    #[test]
    fn the_kernel_notes_the_calls_of_a_program() {
        // perf is not on every machine, nor may each user have the kernel note for him.
        if let Some(cost) = cost_of_a_call() {
            assert!(cost < 1e6, "{cost}");
        }
    }
}
