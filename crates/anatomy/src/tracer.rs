//! Runs strace beside the processes of a server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use tempfile::TempDir;
use tokamak_observe::processes::process_of;
use tokamak_sys::process::end_with_parent;

use crate::Error;
use crate::trace::Trace;

/// How long strace may take to attach to everything.
const ATTACH: Duration = Duration::from_secs(20);
/// strace's nice value: before all ordinary programs.
const PRIORITY: i32 = -10;
/// The server is at rest when no call ends for so long. Shorter than what servers do after a
/// response would lose calls; a second would only be waited.
const REST: Duration = Duration::from_millis(100);
/// A server that is never at rest is watched no longer than this after the load.
const NO_REST: Duration = Duration::from_secs(2);

/// An strace that watches.
pub struct Tracer {
    strace: Child,
    folder: TempDir,
    said: Receiver<String>,
}

impl Tracer {
    /// Attaches to all processes, their threads, and their children to come. Returns when all
    /// are attached.
    pub fn attach(pids: &BTreeMap<u32, String>) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(|error| Error(format!("a folder: {error}")))?;
        let mut command = strace();
        command.args(["-f", "-y", "-C"]).arg("-o").arg(folder.path().join("trace"));
        for pid in pids.keys() {
            command.args(["-p", &pid.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut strace = command.spawn().map_err(cannot_start)?;
        // Each call waits for strace, so it should not wait for other programs itself. A user who
        // may not raise priorities measures without it.
        if let Some(pid) = i32::try_from(strace.id()).ok().and_then(Pid::from_raw) {
            let _ = setpriority_process(Some(pid), PRIORITY);
        }
        let stderr = strace.stderr.take().expect("a pipe");
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        let tracer = Self { strace, folder, said };
        tracer.wait_until_attached(pids)?;
        Ok(tracer)
    }

    fn wait_until_attached(&self, pids: &BTreeMap<u32, String>) -> Result<(), Error> {
        let mut left: Vec<u32> = pids.keys().copied().collect();
        let mut complaints = Vec::new();
        let until = Instant::now() + ATTACH;
        while !left.is_empty() {
            let rest = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.said.recv_timeout(rest) else {
                return Err(explained(&complaints));
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["strace:", "Process", pid, "attached", ..] => {
                    left.retain(|left| Ok(*left) != pid.parse());
                }
                _ => {
                    // One process that has ended meanwhile does not end the others' watching.
                    let numbers = line.split(|c: char| !c.is_ascii_digit());
                    let gone = left
                        .iter()
                        .copied()
                        .find(|pid| numbers.clone().any(|number| number.parse() == Ok(*pid)));
                    match gone.filter(|_| line.contains("No such process")) {
                        Some(gone) => left.retain(|pid| *pid != gone),
                        None => complaints.push(line),
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the server is at rest, lets it go, and reads what was seen; with the process
    /// of each thread.
    pub fn finish(mut self) -> Result<(Trace, BTreeMap<u32, u32>), Error> {
        let path = self.folder.path().join("trace");
        let size = || fs::metadata(&path).map_or(0, |data| data.len());
        let begun = Instant::now();
        let mut last = (size(), Instant::now());
        while last.1.elapsed() < REST && begun.elapsed() < NO_REST {
            std::thread::sleep(REST / 10);
            if size() != last.0 {
                last = (size(), Instant::now());
            }
        }
        self.stop();
        let wrong = |error: std::io::Error| Error(format!("strace's output: {error}"));
        let mut text = String::new();
        File::open(&path).and_then(|mut file| file.read_to_string(&mut text)).map_err(wrong)?;
        let trace = Trace::parse(&text).map_err(|error| Error(error.to_string()))?;
        if let Some((name, counted, read)) = trace.miscounted() {
            return Err(Error(format!(
                "strace counted {counted} calls of {name}, and {read} were read from its output: \
                 no table, since it would be false"
            )));
        }
        let threads = trace.calls.iter().map(|call| call.thread);
        let processes = threads.map(|thread| (thread, 0)).collect::<BTreeMap<_, _>>();
        let processes = processes.into_keys().map(|thread| (thread, process_of(thread))).collect();
        Ok((trace, processes))
    }

    /// strace lets all processes go when it is interrupted.
    fn stop(&mut self) {
        let pid = i32::try_from(self.strace.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.strace.try_wait()) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.strace.wait();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// strace with the form of lines that `line` reads. With `-yy` it would show the peers of sockets
/// too, but for each new socket it asks the kernel for all that there are, which takes longer than
/// the request.
fn strace() -> Command {
    let mut command = Command::new("strace");
    command
        .args(["--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"])
        // No contents of reads and writes: what clients send is private. Paths are always whole.
        .args(["-n", "-xx", "-s", "0", "-a", "1"]);
    // If this program is killed, strace lets the server go: it ends by a signal that it can catch.
    // And it is never stopped from a terminal, for then the server would stop too.
    end_with_parent(&mut command);
    command
}

/// What one traced call costs in a program that does nothing else: the median, in nanoseconds,
/// from the end of a call to the end of the next. The program is `dd`, which reads and writes.
pub fn cost_of_a_call() -> Result<u64, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error(format!("a folder: {error}")))?;
    let path = folder.path().join("trace");
    let mut command = strace();
    command.args(["-f", "-y"]).arg("-o").arg(&path);
    command.args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(cannot_start)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(explained(&said.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    let text = fs::read_to_string(&path).map_err(|error| Error(error.to_string()))?;
    let trace = Trace::parse(&text).map_err(|error| Error(error.to_string()))?;
    let ends: Vec<u64> = trace
        .calls
        .iter()
        .filter(|call| call.name == "read" || call.name == "write")
        .map(|call| call.end)
        .collect();
    let mut gaps: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().ok_or_else(|| Error("strace saw no calls of dd".to_owned()))
}

fn cannot_start(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error(
            "strace is not installed: install the package strace (Debian: apt install strace)"
                .to_owned(),
        ),
        _ => Error(format!("strace does not start: {error}")),
    }
}

/// What strace complains of, and what helps.
fn explained(complaints: &[String]) -> Error {
    let all = complaints.join("; ");
    let help = if all.contains("Operation not permitted") {
        ": this user may not watch the processes of the server: run as root or as its user, and \
         see /proc/sys/kernel/yama/ptrace_scope; a process that is traced already cannot be \
         traced twice"
    } else if all.contains("invalid") || all.contains("unrecognized") {
        ": strace 5.11 or newer is needed"
    } else {
        ""
    };
    let all = if all.is_empty() { "strace did not attach to all processes" } else { &all };
    Error(format!("{all}{help}"))
}
