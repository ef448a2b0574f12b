//! What the kernel says in `/proc` of processes, threads, sockets and processors. The formats are
//! those of proc(5); nobody else reads these files.
//!
//! A process id may come from anybody: it is only looked at. What cannot be read, because the
//! process has ended or belongs to somebody else, is `None` or empty.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Memory of the calling process, as a file.
pub const OWN_MEMORY: &CStr = c"/proc/self/mem";
/// What the kernel knows of each page of the calling process.
pub const OWN_PAGEMAP: &CStr = c"/proc/self/pagemap";

/// Whose counters are read.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// The first thread of a process.
    Process(u32),
    /// A thread of a process: the process, the thread.
    Thread(u32, u32),
    /// The calling thread.
    Current,
}

impl Task {
    fn file(self, name: &str) -> String {
        match self {
            Task::Process(pid) => format!("/proc/{pid}/{name}"),
            Task::Thread(pid, thread) => format!("/proc/{pid}/task/{thread}/{name}"),
            Task::Current => format!("/proc/thread-self/{name}"),
        }
    }
}

/// What `stat` has of a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name, as it chose it: control characters included.
    pub name: String,
    /// What it does: `R` runs or waits for a processor, `S` sleeps, `T` is stopped, `Z` has ended.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Processor time in ticks, see [`ticks_per_second`].
    pub ticks: u64,
    /// That of the children that it has waited for.
    pub ticks_of_children: u64,
}

/// The row `stat` of a process or thread.
pub fn stat(task: Task) -> Option<Stat> {
    parse_stat(&read(&task.file("stat"))?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name may contain blanks and parentheses.
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |nth: usize| fields.get(nth)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        ticks_of_children: number(13)? + number(14)?,
    })
}

/// The state of one process, for those who ask for it often: its `stat`, kept open.
#[derive(Debug)]
pub struct StateFile(File);

impl StateFile {
    /// Opens that of a process.
    pub fn open(pid: u32) -> Option<StateFile> {
        File::open(Task::Process(pid).file("stat")).ok().map(StateFile)
    }

    /// The state, as in [`Stat`].
    pub fn read(&self) -> Option<char> {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let name = text[..len].windows(2).rposition(|pair| pair == b") ")?;
        text[..len].get(name + 2).copied().map(char::from)
    }
}

/// What the scheduler has of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// For which it has been on a processor.
    pub ran: u64,
    /// For which it could run, and no processor was free for it.
    pub waited: u64,
}

/// The times of a thread; `None` also where the kernel does not count them.
pub fn scheduled(task: Task) -> Option<Scheduled> {
    let mut text = [0; 96];
    let len = File::open(task.file("schedstat")).ok()?.read(&mut text).ok()?;
    parse_scheduled(str::from_utf8(&text[..len]).ok()?)
}

fn parse_scheduled(text: &str) -> Option<Scheduled> {
    let mut times = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some(Scheduled { ran: times.next()?, waited: times.next()? })
}

/// Ticks in which [`Stat`] and [`processors`] count.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// Pages of a process: resident, and those of them that are shared or of files.
pub fn pages(pid: u32) -> Option<(u64, u64)> {
    let text = read(&format!("/proc/{pid}/statm"))?;
    let mut pages = text.split(' ').skip(1).map_while(|field| field.parse().ok());
    Some((pages.next()?, pages.next()?))
}

/// The text of a file that has a value behind each name: `status`, `limits`, `smaps`,
/// `smaps_rollup`.
pub fn values(task: Task, file: &str) -> Option<String> {
    read(&task.file(file))
}

/// What follows a name at the beginning of a line of such a text.
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The same as bytes: `Anonymous:   1024 kB`.
pub fn value_in_bytes(text: &str, name: &str) -> Option<u64> {
    Some(value(text, name)?.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// All processes that this user may see.
pub fn processes() -> impl Iterator<Item = u32> {
    numbers("/proc")
}

/// The threads of a process.
pub fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// How many threads the calling process has; `None` where `/proc` is not mounted.
pub fn own_threads() -> Option<usize> {
    fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// The descriptors of a process, and what each one leads to: a path, or words such as
/// `socket:[4711]`; no word for one that is closed meanwhile.
pub fn descriptors(pid: u32) -> impl Iterator<Item = (u32, Option<String>)> {
    let folder = format!("/proc/{pid}/fd");
    numbers(&folder).map(move |number| {
        let target = fs::read_link(format!("{folder}/{number}")).ok();
        (number, target.map(|path| path.to_string_lossy().into_owned()))
    })
}

/// The working directory of a process.
pub fn directory(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// A row of the table of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetSocket {
    /// `0100007F:1F90`: words in the machine's order.
    pub local: String,
    /// The same of the other end.
    pub remote: String,
    /// Whether it listens.
    pub is_listening: bool,
    /// Of a socket that listens: connections that wait to be accepted.
    pub waiting: u64,
    /// Its inode.
    pub inode: u64,
}

/// The TCP sockets, of both versions of the protocol, that a process sees.
pub fn inet_sockets(pid: u32) -> Vec<InetSocket> {
    let tables = ["tcp", "tcp6"].map(|table| read(&format!("/proc/{pid}/net/{table}")));
    tables.iter().flatten().flat_map(|table| table.lines().filter_map(parse_inet)).collect()
}

/// A row; the first one of a table names the columns.
fn parse_inet(line: &str) -> Option<InetSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    Some(InetSocket {
        local: (*fields.get(1)?).to_owned(),
        remote: (*fields.get(2)?).to_owned(),
        is_listening: *fields.get(3)? == "0A",
        waiting: u64::from_str_radix(waiting, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// The Unix sockets with a path that a process sees: inode and path.
pub fn unix_sockets(pid: u32) -> Vec<(u64, String)> {
    let table = read(&format!("/proc/{pid}/net/unix")).unwrap_or_default();
    table.lines().filter_map(parse_unix).collect()
}

fn parse_unix(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_whitespace().skip(6);
    Some((fields.next()?.parse().ok()?, fields.next()?.to_owned()))
}

/// Times of the machine's processors in ticks: a row for all together, then one for each. See
/// [`parse_processors`] for the rows.
pub fn processors() -> Option<Vec<Processor>> {
    read("/proc/stat").map(|text| parse_processors(&text))
}

/// The time of one processor, or of all, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its number; none: all processors together.
    pub number: Option<usize>,
    /// For which it had nothing to do, or only waited for a disk.
    pub idle: u64,
    /// All that there was.
    pub all: u64,
}

/// The rows `cpu` of the text of `/proc/stat`; what is no such row, or has no numbers, is left out.
pub fn parse_processors(text: &str) -> Vec<Processor> {
    let row = |line: &str| {
        let (number, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let number = match number {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        let mut times = times.split_ascii_whitespace().map(|time| time.parse::<u64>().ok());
        let mut next = || times.next().flatten();
        let busy = next()? + next()? + next()?;
        let idle = next()? + next()?;
        // Behind these the kernel repeats what guests have used.
        let interrupts_and_stolen = next()? + next()? + next()?;
        Some(Processor { number, idle, all: busy + idle + interrupts_and_stolen })
    };
    text.lines().filter_map(row).collect()
}

/// The control groups of the calling process: a line `number:controllers:path` for each hierarchy.
pub fn own_control_groups() -> String {
    read("/proc/self/cgroup").unwrap_or_default()
}

/// A file of `/proc`. A name in it need not be UTF-8: the kernel cuts it after 15 bytes, which may
/// be within a letter.
fn read(path: &str) -> Option<String> {
    let text = String::from_utf8(fs::read(path).ok()?);
    Some(text.unwrap_or_else(|other| String::from_utf8_lossy(other.as_bytes()).into_owned()))
}

/// The entries of a folder whose names are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_one_name() {
        let line = "7 (php (pool) 1) S 3 7 7 0 -1 4194560 1 0 0 0 250 50 8 2 20 0 1 0 1 1";
        let expected = Stat {
            name: "php (pool) 1".to_owned(),
            state: 'S',
            parent: 3,
            ticks: 300,
            ticks_of_children: 10,
        };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat("7 (php"), None);
    }

    #[test]
    fn the_time_on_a_run_queue_is_the_second_number() {
        let expected = Scheduled { ran: 232_490_299, waited: 1_500_000_000 };
        assert_eq!(parse_scheduled("232490299 1500000000 900\n"), Some(expected));
        assert_eq!(parse_scheduled(""), None);
    }

    #[test]
    fn rows_of_sockets_are_read_and_headings_are_not() {
        let row = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 0 0 0 4711 1";
        let socket = parse_inet(row).unwrap();
        assert_eq!((socket.local.as_str(), socket.inode), ("0100007F:1F90", 4711));
        assert_eq!((socket.is_listening, socket.waiting), (true, 3));
        assert!(!parse_inet(&row.replace(" 0A ", " 01 ")).unwrap().is_listening);
        assert_eq!(parse_inet("  sl  local_address rem_address st tx_queue:rx_queue"), None);
        assert_eq!(parse_inet(""), None);
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/php.sock";
        assert_eq!(parse_unix(line), Some((4712, "/run/php.sock".to_owned())));
        assert_eq!(parse_unix("Num       RefCount Protocol Flags Type St Inode Path"), None);
    }

    #[test]
    fn time_of_processors_is_used_or_idle() {
        let text = "cpu  100 0 100 700 100 0 0 0 5 5\ncpu1 1 2 3 4 5 6 7 8 9\nintr 1 2\ncpu2 x\n";
        let all = Processor { number: None, idle: 800, all: 1000 };
        let one = Processor { number: Some(1), idle: 9, all: 36 };
        assert_eq!(parse_processors(text), [all, one]);
    }

    #[test]
    fn this_process_is_read() {
        let own = std::process::id();
        assert!(processes().any(|pid| pid == own));
        assert!(threads(own).count() > 0 && own_threads().unwrap() > 0);
        let stat = stat(Task::Process(own)).unwrap();
        assert_eq!(Some(stat.parent), value(&status(own), "PPid:").and_then(|it| it.parse().ok()));
        assert!(StateFile::open(own).unwrap().read().is_some());
        assert!(descriptors(own).any(|(_, target)| target.is_some()));
        assert!(value_in_bytes(&status(own), "VmRSS:").unwrap() > 4096);
        assert_eq!(super::stat(Task::Process(u32::MAX)), None);
    }

    fn status(pid: u32) -> String {
        values(Task::Process(pid), "status").unwrap()
    }
}
