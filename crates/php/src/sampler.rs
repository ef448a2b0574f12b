//! Takes a profile: a process that the zygote forks for it, which reads the stacks of the workers a
//! number of times a second, and ends with its profile. The zygote goes on with its own work
//! meanwhile, and the workers notice nothing.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tokamak_sys::channel::{Channel, Received, Watch, poll};
use tokamak_sys::proc::StateFile;

use crate::engine;

/// Different stacks, calls and URLs that a profile holds; what is beyond is counted as lost. Ten
/// times more could be some hundred megabytes, a tenth is what a large application has in a minute.
const MOST_STACKS: usize = 100_000;
const MOST_CALLS: usize = 100_000;
const MOST_URLS: usize = 10_000;
/// Stands for all paths beyond that number; no path of a request begins so.
const OTHER_PATHS: &str = "(other paths)";
/// In which a client has to take the whole profile. It does nothing but read, so a tenth would be
/// enough where the machine is not busy; ten times more would keep a process for a client that
/// hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is to be sampled.
pub struct Order {
    /// Time between two samples.
    pub period: Duration,
    /// For how long.
    pub length: Duration,
    /// Only requests whose path begins so.
    pub prefix: String,
}

/// A worker to look at.
pub struct Target {
    pid: libc::pid_t,
    memory: Option<OwnedFd>,
    /// Says whether it runs; none: it cannot be read.
    state: Option<StateFile>,
}

impl Target {
    /// A worker, by its process id and a descriptor of its memory.
    pub fn new(pid: libc::pid_t, memory: Option<OwnedFd>) -> Target {
        Target { pid, memory, state: StateFile::open(pid.unsigned_abs()) }
    }

    /// Whether it runs or waits for a processor.
    fn is_runnable(&self) -> bool {
        self.state.as_ref().and_then(StateFile::read) == Some('R')
    }
}

/// Announces a worker that begins while the sampler runs. A sampler that does not keep up misses
/// it.
pub fn notify(line: &Channel, pid: libc::pid_t, memory: Option<&OwnedFd>) {
    let memory: Vec<_> = memory.iter().map(|fd| fd.as_fd()).collect();
    let _ = line.send(&pid.to_le_bytes(), &memory);
}

/// Says why there is no profile.
pub fn refuse(client: OwnedFd, why: &str) {
    let mut client = UnixStream::from(client);
    // It has asked for nothing else, so there is room.
    let _ = client.set_nonblocking(true).and_then(|()| writeln!(client, "error {why}"));
}

/// Samples until the time is over or the client has gone, and gives the client the profile.
///
/// # Errors
/// Fails if the client does not take it.
pub fn run(order: &Order, mut targets: Vec<Target>, line: Channel, to: OwnedFd) -> io::Result<()> {
    // As in a root directory of the pool's own.
    if !targets.is_empty() && targets.iter().all(|target| target.state.is_none()) {
        refuse(to, "the PHP process cannot read /proc");
        return Ok(());
    }
    let client = UnixStream::from(to);
    client.set_nonblocking(false)?;
    let mut profile = Profile::default();
    let begin = Instant::now();
    let mut due = Duration::ZERO;
    while due < order.length {
        std::thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        let mut watches = [Watch::read(client.as_fd())];
        poll(&mut watches, Some(Duration::ZERO))?;
        if watches[0].readable {
            return Ok(());
        }
        while let Ok(Received::Message(bytes, fds)) = line.receive() {
            if let Ok(pid) = bytes.try_into() {
                let pid = libc::pid_t::from_le_bytes(pid);
                targets.push(Target::new(pid, fds.into_iter().next()));
            }
        }
        targets.retain(|target| profile.look_at(target, &order.prefix));
        profile.ticks += 1;
        // Samples that could not be taken in time are not made up for: they would be of one moment.
        let late = begin.elapsed().saturating_sub(due);
        let periods = late.as_nanos() / order.period.as_nanos().max(1);
        profile.late += periods as u64;
        due += order.period * (periods as u32 + 1);
    }
    // Before the client can ask for the next profile.
    drop(line);
    let client = Patient { client, until: Instant::now() + PATIENCE };
    profile.write(order, &mut BufWriter::new(client))
}

/// Bytes that one of the kernel's buffers for a Unix socket holds.
const ONE_BUFFER: usize = 16 << 10;

/// A client that has so long to take all that is written to it, however little it takes at a time.
struct Patient {
    client: UnixStream,
    until: Instant,
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_write_timeout(Some(left))?;
        // The kernel begins anew with the time for each buffer of its own that a write fills.
        self.client.write(&bytes[..bytes.len().min(ONE_BUFFER)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How often stacks were seen.
#[derive(Default)]
struct Profile {
    calls: Numbers,
    urls: Numbers,
    stacks: HashMap<Stack, LastSample>,
    ticks: u64,
    late: u64,
    torn: u64,
    lost: u64,
}

/// Texts in the order in which they came.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    /// The number of this one; none if there are too many.
    fn of(&mut self, text: &str, most: usize) -> Option<u32> {
        if let Some(number) = self.0.get(text) {
            return Some(*number);
        }
        let number = u32::try_from(self.0.len()).ok().filter(|_| self.0.len() < most)?;
        self.0.insert(text.to_owned(), number);
        Some(number)
    }

    fn in_order(&self) -> Vec<&str> {
        let mut texts: Vec<_> = self.0.iter().map(|(text, number)| (number, &text[..])).collect();
        texts.sort_unstable();
        texts.into_iter().map(|(_, text)| text).collect()
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Stack {
    pid: libc::pid_t,
    url: u32,
    /// The innermost first.
    calls: Vec<u32>,
}

/// Samples of a stack.
#[derive(Clone, Copy, Default)]
struct LastSample {
    wall: u64,
    /// In how many of them its worker ran.
    cpu: u64,
}

impl Profile {
    /// Samples a worker; false: it has gone.
    fn look_at(&mut self, target: &Target, prefix: &str) -> bool {
        let runs = target.is_runnable();
        let memory = target.memory.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let Some(text) = engine::sample(target.pid, memory) else { return false };
        for stack in text.split_terminator("\n\n") {
            let (head, calls) = stack.split_once('\n').unwrap_or((stack, ""));
            match head.chars().next() {
                Some(state @ ('R' | 'W')) => {
                    let path = head[1..].split(['?', '#']).next().unwrap_or_default();
                    if path.starts_with(prefix) {
                        self.count(target.pid, path, calls, runs && state == 'R');
                    }
                }
                _ => self.torn += 1,
            }
        }
        true
    }

    fn count(&mut self, pid: libc::pid_t, path: &str, calls: &str, on_cpu: bool) {
        let other = |urls: &mut Numbers| urls.of(OTHER_PATHS, MOST_URLS + 1);
        let url = self.urls.of(path, MOST_URLS).or_else(|| other(&mut self.urls));
        let calls = calls.lines().map(|call| self.calls.of(call, MOST_CALLS)).collect();
        let (Some(url), Some(calls)) = (url, calls) else { return self.lost += 1 };
        let is_full = self.stacks.len() >= MOST_STACKS;
        let stack = Stack { pid, url, calls };
        if is_full && !self.stacks.contains_key(&stack) {
            return self.lost += 1;
        }
        let seen = self.stacks.entry(stack).or_default();
        seen.wall += 1;
        seen.cpu += u64::from(on_cpu);
    }

    /// As `crates/profile/src/read.rs` reads it.
    fn write(&self, order: &Order, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "ok")?;
        writeln!(to, "period\t{}", order.period.as_nanos())?;
        for url in self.urls.in_order() {
            writeln!(to, "url\t{url}")?;
        }
        for call in self.calls.in_order() {
            writeln!(to, "call\t{call}")?;
        }
        for (Stack { pid, url, calls }, LastSample { wall, cpu }) in &self.stacks {
            write!(to, "stack\t{pid}\t{url}\t{wall}\t{cpu}\t")?;
            for call in calls {
                write!(to, "{call} ")?;
            }
            writeln!(to)?;
        }
        let Profile { ticks, late, torn, lost, .. } = self;
        writeln!(to, "end\t{ticks}\t{late}\t{torn}\t{lost}")?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;

    #[test]
    fn paths_beyond_the_limit_have_one_name() {
        let mut profile = Profile::default();
        for number in 0..MOST_URLS + 5 {
            profile.count(7, &format!("/{number}"), "f\t\t0", true);
        }
        assert_eq!((profile.lost, profile.urls.0.len()), (0, MOST_URLS + 1));
        let other = profile.urls.0[OTHER_PATHS];
        let seen: u64 = profile
            .stacks
            .iter()
            .filter(|(stack, _)| stack.url == other)
            .map(|(_, s)| s.wall)
            .sum();
        assert_eq!(seen, 5);
        profile.count(7, "/3", "f\t\t0", true);
        assert_eq!(
            profile.stacks.values().map(|seen| seen.wall).sum::<u64>(),
            MOST_URLS as u64 + 6
        );
    }

    /// It takes a little now and then for ever.
    #[test]
    fn a_slow_client_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let mut some = [0; 4096];
            while theirs.read(&mut some).is_ok_and(|count| count > 0) {
                thread::sleep(Duration::from_millis(2));
            }
        });
        let begin = Instant::now();
        let mut client = Patient { client: ours, until: begin + Duration::from_millis(200) };
        let wrong = client.write_all(&vec![0; 64 << 20]).unwrap_err();
        // The clock of the socket may end a write, or ours.
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(kinds.contains(&wrong.kind()), "{wrong:?}");
        assert!(begin.elapsed() >= Duration::from_millis(200));
        drop(client);
        reader.join().unwrap();
    }
}
