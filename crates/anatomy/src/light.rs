//! The same requests once more, watched by what costs them least: the kernel notes the end of each
//! call in memory (the tracepoint `raw_syscalls:sys_exit`, by `perf record`) and stops no process.
//!
//! It notes thread, time, number and result of a call, but no arguments. So a call's phase is taken
//! from the trace of strace: it is that of the same call of the same program at the same place of a
//! request there.
//!
//! In requests of their own the kernel notes the beginning of each call, too
//! (`raw_syscalls:sys_enter`): up to there its thread has computed. That costs twice as much, so
//! only the proportions are taken from these.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::iter;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use tokamak_sys::process::end_with_parent;

use crate::driver::Exchange;
use crate::follow::Purpose;
use crate::line::{Call, call, nanoseconds};
use crate::phase::{Kind, Phase, kind};

/// How long perf may take to answer a command.
const PATIENCE: Duration = Duration::from_secs(20);
/// Calls by which the cost of one is measured.
const CALLS: u32 = 2000;
/// More notes are not read: each becomes a call of some 250 bytes, so these take half a gigabyte.
/// They are those of a thousand requests of a large application.
const MOST_NOTES: usize = 2_000_000;

/// What the kernel is to note of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEvents {
    /// Its end.
    Ends,
    /// Its beginning and its end.
    Both,
}

/// The beginning or the end of a call, as the kernel noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    thread: u32,
    /// Nanoseconds of the clock that never jumps.
    time: u64,
    number: u32,
    /// Whether it has failed; none at its beginning.
    failed: Option<bool>,
}

/// A running perf, which records while it is enabled.
pub struct Light {
    perf: Child,
    /// Open until perf has ended, as its output is: it leaves its file unfinished if either is
    /// closed before.
    input: ChildStdin,
    /// Whether it has answered all commands.
    done: Receiver<()>,
    folder: TempDir,
}

impl Light {
    /// Starts a perf for all threads of these processes, or says why it cannot. It notes nothing
    /// before [`Light::note`].
    pub fn attach(pids: impl Iterator<Item = u32>, events: TraceEvents) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
        let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
        let mut command = perf(&folder, events);
        command.args(["-D", "-1", "--control", "fd:0,1", "-p", &pids.join(",")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut perf = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "perf is not installed (Debian: linux-perf)".to_owned(),
            _ => format!("perf does not start: {error}"),
        })?;
        let output = perf.stdout.take().expect("a pipe");
        let input = perf.stdin.take().expect("a pipe");
        let (say, done) = mpsc::channel();
        std::thread::spawn(move || {
            // It says `ack`, with a null character that belongs to the next line.
            let is_ack = |line: &Vec<u8>| line.strip_prefix(b"\0").unwrap_or(line) == b"ack";
            let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
            for _ in lines.filter(is_ack) {
                // All is read until perf closes its output, also when no one waits for an answer.
                let _ = say.send(());
            }
        });
        Ok(Self { perf, input, done, folder })
    }

    /// Lets the kernel note calls from now on, or no more. Returns when that is so.
    pub fn note(&mut self, is_on: bool) -> Result<(), String> {
        let command: &[u8] = if is_on { b"enable\n" } else { b"disable\n" };
        let is_sent = self.input.write_all(command).is_ok();
        match is_sent && self.done.recv_timeout(PATIENCE).is_ok() {
            true => Ok(()),
            false => Err("perf may not: see /proc/sys/kernel/perf_event_paranoid".to_owned()),
        }
    }

    /// Ends it; the calls that it noted, by the names that strace has for their numbers, or why
    /// there are none. They begin where they end, if only that was to be noted.
    pub fn finish(mut self, names: &BTreeMap<u32, String>) -> Result<Vec<Call>, String> {
        self.stop();
        let notes = read(&self.folder)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let offset = (since_1970.as_nanos() as u64).saturating_sub(now());
        Ok(calls(&notes, offset, names))
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

/// The calls of these notes, in the order of their ends.
fn calls(notes: &[Note], offset: u64, names: &BTreeMap<u32, String>) -> Vec<Call> {
    let mut begun: HashMap<u32, u64> = HashMap::new();
    let ended = |note: &Note| {
        let Some(failed) = note.failed else {
            begun.insert(note.thread, note.time);
            return None;
        };
        let start = begun.remove(&note.thread).unwrap_or(note.time);
        let result = if failed { "-1 E" } else { "0" };
        let (name, took) = (names.get(&note.number)?, note.time - start);
        Some(call(note.thread, name, "", result, start + offset, took))
    };
    notes.iter().filter_map(ended).collect()
}

/// perf, which writes what the kernel notes into the folder.
fn perf(folder: &TempDir, events: TraceEvents) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-k", "CLOCK_MONOTONIC", "-e", "raw_syscalls:sys_exit"]);
    if events == TraceEvents::Both {
        command.args(["-e", "raw_syscalls:sys_enter"]);
    }
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
fn read(folder: &TempDir) -> Result<Vec<Note>, String> {
    let mut command = Command::new("perf");
    command.args(["script", "--ns", "-F", "tid,time,trace", "-i"]).arg(folder.path().join("notes"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let unreadable = |error| format!("its notes cannot be read: {error}");
    let mut script = command.spawn().map_err(unreadable)?;
    let lines = BufReader::new(script.stdout.take().expect("a pipe")).lines();
    let notes = notes(lines, MOST_NOTES);
    // The rest is not read, so perf ends in any case.
    let status = script.wait().map_err(unreadable)?;
    let mut notes = notes?;
    if !status.success() {
        return Err(format!("its notes cannot be read: perf script: {status}"));
    }
    notes.sort_by_key(|note| note.time);
    Ok(notes)
}

/// The notes of these lines, unless there are more than so many. A call without a number (-1) is
/// one that a signal has ended: it is made again.
fn notes(
    lines: impl Iterator<Item = io::Result<String>>,
    most: usize,
) -> Result<Vec<Note>, String> {
    let found = lines.filter_map(|line| line.map(|line| note(&line)).transpose());
    let found: Vec<Note> = found
        .take(most + 1)
        .collect::<io::Result<_>>()
        .map_err(|error| format!("its notes cannot be read: {error}"))?;
    match found.len() > most {
        true => Err(format!("it noted more than {most} calls: make fewer requests (-n)")),
        false => Ok(found),
    }
}

/// A line of `perf script`: `442 84333.406032519: NR 43 = 5`, or `NR 43 (7, ffff, 0)` where the
/// call begins.
fn note(line: &str) -> Option<Note> {
    let mut words = line.split_whitespace();
    let thread = words.next()?.parse().ok()?;
    let time = nanoseconds(words.next()?.strip_suffix(':')?)?;
    let number = (words.next()? == "NR").then(|| words.next())??.parse().ok()?;
    let failed = match words.next()? {
        "=" => Some((-4095..0).contains(&words.next()?.parse::<i64>().ok()?)),
        arguments => arguments.starts_with('(').then_some(None)?,
    };
    Some(Note { thread, time, number, failed })
}

/// What a noted call costs, in nanoseconds: as much longer it is from the end of one call to the
/// end of the next in a program that does nothing else (`dd`) than without notes.
pub fn cost_of_a_call() -> Option<f64> {
    let folder = tempfile::tempdir().ok()?;
    let mut command = perf(&folder, TraceEvents::Ends);
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

/// The same calls without notes, in the quickest of some rounds: nanoseconds for each. As in a turn
/// without notes, perf is attached: the kernel then goes a longer way through each call.
fn bare() -> Option<f64> {
    let mut idle = Light::attach(iter::once(std::process::id()), TraceEvents::Ends).ok()?;
    // It says that it is attached.
    idle.note(false).ok()?;
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
type CallKey<'a> = (&'a str, &'a str, bool);

/// Which phase the calls of a program have, by their place among those of the same name in a
/// request: for each place how often each phase was it, and how often none.
pub struct Habits<'a> {
    purposes: HashMap<CallKey<'a>, Vec<HashMap<Option<Phase>, usize>>>,
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
        purposes: &[Option<Purpose>],
        exchanges: &[Exchange],
        program: impl Fn(u32) -> &'a str,
    ) -> Self {
        let mut habits = Self { purposes: HashMap::new() };
        let mut seen: HashMap<(usize, CallKey<'a>), usize> = HashMap::new();
        for (call, purpose) in calls.iter().zip(purposes).filter(|(call, _)| !is_wait(call)) {
            let Some(request) = request_at(exchanges, call.end) else { continue };
            let key = (program(call.thread), &*call.name, call.error.is_some());
            let nth = seen.entry((request, key)).or_default();
            let of = habits.purposes.entry(key).or_default();
            of.resize_with(of.len().max(*nth + 1), HashMap::new);
            *of[*nth].entry(purpose.map(|purpose| purpose.phase)).or_default() += 1;
            *nth += 1;
        }
        habits
    }

    /// The purposes of calls of which nothing but program, name and time is known.
    pub fn purposes(
        &self,
        calls: &[Call],
        exchanges: &[Exchange],
        program: impl Fn(u32) -> &'a str,
    ) -> Vec<Option<Purpose>> {
        let mut seen: HashMap<(usize, &str, &str, bool), usize> = HashMap::new();
        let mut waits: HashMap<u32, usize> = HashMap::new();
        let mut found: Vec<Option<Purpose>> = vec![None; calls.len()];
        for (index, call) in calls.iter().enumerate() {
            let Some(request) = request_at(exchanges, call.end) else { continue };
            if is_wait(call) {
                waits.insert(call.thread, index);
                continue;
            }
            let (who, failed) = (program(call.thread), call.error.is_some());
            let nth = seen.entry((request, who, &call.name, failed)).or_default();
            let of = self.purposes.get(&(who, &*call.name, failed));
            let votes = of.and_then(|of| of.get(*nth).or(of.last()));
            *nth += 1;
            let most = votes.and_then(|votes| votes.iter().max_by_key(|(phase, n)| (**n, **phase)));
            let Some(phase) = most.and_then(|(phase, _)| *phase) else { continue };
            found[index] = Some(Purpose { request, phase });
            if let Some(wait) = waits.remove(&call.thread) {
                let is_of_it = calls[wait].end >= exchanges[request].start;
                found[wait] = is_of_it.then_some(Purpose { request, phase });
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
        let read = note("  442 84333.406032519: NR 43 = 5").unwrap();
        let time = 84_333_406_032_519;
        let expected = Note { thread: 442, time, number: 43, failed: Some(false) };
        assert_eq!(read, expected);
        let begun = note("  442 84333.406032519: NR 43 (7, ffff, 0, 0, 0, 0)");
        assert_eq!(begun, Some(Note { failed: None, ..expected }));
        assert_eq!(note("442 1.0: NR 0 = -11").unwrap().failed, Some(true));
        let address = note("442 1.0: NR 9 = -140000000000000").unwrap();
        assert_eq!(address.failed, Some(false));
        for wrong in ["", "442", "442 1.0 NR 0 = 1", "442 1.0: NR x = 1", "442 1.0: NR 1 1"] {
            assert_eq!(note(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_call_lasts_from_its_beginning_to_its_end() {
        let noted = |thread, time, failed| Note { thread, time, number: 43, failed };
        let ended = Some(false);
        let notes = [
            noted(1, 10, ended),
            noted(1, 20, None),
            noted(2, 25, None),
            noted(2, 27, ended),
            noted(1, 30, Some(true)),
        ];
        let calls = calls(&notes, 100, &BTreeMap::from([(43, "accept".to_owned())]));
        let found: Vec<_> =
            calls.iter().map(|it| (it.thread, it.start, it.end, it.error.is_some())).collect();
        // The first one had begun before.
        let expected = [(1, 110, 110, false), (2, 125, 127, false), (1, 120, 130, true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn more_notes_than_memory_is_for_are_refused() {
        let read = |most| {
            notes(
                ["1 1.0: NR 0 = 1", "x", "1 2.0: NR 0 = 1"]
                    .map(|line| Ok(line.to_owned()))
                    .into_iter(),
                most,
            )
        };
        assert_eq!(read(2).unwrap().len(), 2);
        assert!(read(1).unwrap_err().contains("more than 1 calls"));
        let broken = || Err(io::Error::other("broken"));
        assert!(notes([broken()].into_iter(), 1).unwrap_err().ends_with("read: broken"));
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
        let purpose = |phase| Some(Purpose { request: 0, phase });
        let purposes = [
            purpose(Phase::Accept),
            purpose(Phase::Accept),
            purpose(Phase::ReadRequest),
            None,
            purpose(Phase::ReadResponse),
        ];
        let habits = Habits::learn(&known, &purposes, &exchanges, |_| "server");
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
        let purposes = habits.purposes(&calls, &exchanges, |_| "server");
        let (first, second) = (
            Some(Purpose { request: 1, phase: Phase::ReadRequest }),
            Some(Purpose { request: 1, phase: Phase::ReadResponse }),
        );
        let expected = [None, first, first, None, None, second, second, second, None];
        assert_eq!(purposes, expected);
    }

    #[test]
    fn the_kernel_notes_the_calls_of_a_program() {
        // perf is not on every machine, nor may each user have the kernel note for him.
        if let Some(cost) = cost_of_a_call() {
            assert!(cost < 1e6, "{cost}");
        }
    }
}
