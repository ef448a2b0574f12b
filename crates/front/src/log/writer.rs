//! Writes lines to the disk, off the hot path: lines wait in memory, and one thread writes them. An
//! event loop never waits, neither for a disk nor for a pipe that is not read. If the disk is
//! slower than the requests, lines are dropped and counted, and the number is written to the error
//! log as soon as possible.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderName, header};
use tokamak_config::LogFormat;
use tokamak_cost::Ledger;

use super::{LogEntry, errors};
use crate::clock::Clock;

/// Size at which an event loop hands its lines over: some 150 lines, so that the lock is taken
/// seldom.
const FULL: usize = 32 * 1024;
/// Bytes that may wait for the disk. This is enough for a short stall of a busy server; a tenth
/// would drop lines at each slow write, and ten times more would be 20 MiB for each log.
const WAITING: usize = 2 << 20;
/// How long a closing log waits for the disk.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lines of this process's access logs, and of its error log, that were dropped.
static LOST_ACCESS: AtomicU64 = AtomicU64::new(0);
static LOST_ERRORS: AtomicU64 = AtomicU64::new(0);

/// How many lines were dropped.
#[derive(Clone, Copy, Debug)]
pub struct LostLines {
    /// Of access logs.
    pub access: u64,
    /// Of the error log.
    pub error: u64,
}

/// Lines of this process's logs that were dropped so far.
pub fn lost_lines() -> LostLines {
    let lost = |count: &AtomicU64| count.load(Ordering::Relaxed);
    LostLines { access: lost(&LOST_ACCESS), error: lost(&LOST_ERRORS) }
}

/// The queue of lines for one thread.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    /// Wakes the thread.
    wake: Condvar,
    /// Lines that were dropped.
    lost: AtomicU64,
    /// The same, of all logs of this kind.
    all_lost: &'static AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    lines: u64,
    /// The new file, if the log was reopened.
    next: Option<File>,
    is_closing: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds lines, or drops them if there is no room.
    fn put(&self, bytes: &[u8], lines: u64) {
        let mut state = self.state();
        if state.bytes.len() + bytes.len() > WAITING {
            self.lose(lines);
            return;
        }
        state.bytes.extend_from_slice(bytes);
        state.lines += lines;
        drop(state);
        self.wake.notify_one();
    }

    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        self.all_lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Waits for work. `None` when all lines are taken and the log closes.
    fn take(&self) -> Option<State> {
        let mut state = self.state();
        loop {
            if !state.bytes.is_empty() || state.next.is_some() {
                let is_closing = state.is_closing;
                let rest = State { is_closing, ..State::default() };
                return Some(std::mem::replace(&mut *state, rest));
            }
            if state.is_closing {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// An open log, whose lines a thread of its own writes.
#[derive(Debug)]
pub struct Log {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens an access log that is written to `file` (opened for appending, from `path`) or else to
    /// standard output.
    ///
    /// # Errors
    /// A thread that cannot be had.
    pub fn open(path: Option<&Path>, file: Option<File>) -> io::Result<Log> {
        let name = match path {
            Some(path) => format!("access log {}", path.display()),
            None => "access log".into(),
        };
        Log::start(name, "access-log", file.map_or(Sink::Output, Sink::File))
    }

    /// Opens the error log, which is standard error.
    ///
    /// # Errors
    /// A thread that cannot be had.
    pub fn errors() -> io::Result<Log> {
        Log::start("error log".into(), "error-log", Sink::Errors)
    }

    fn start(name: String, thread: &str, sink: Sink) -> io::Result<Log> {
        let all_lost = if matches!(sink, Sink::Errors) { &LOST_ERRORS } else { &LOST_ACCESS };
        let (state, wake, lost) = Default::default();
        let queue = Arc::new(Queue { state, wake, lost, all_lost });
        let writer = Writer { name, sink, queue: queue.clone(), reported: 0, broken: false };
        let thread = std::thread::Builder::new().name(thread.into());
        Ok(Log { queue, thread: Some(thread.spawn(move || writer.run())?) })
    }

    /// A buffer for one event loop.
    pub fn buffer(&self) -> Buffer {
        Buffer { queue: self.queue.clone(), clock: Clock::default(), bytes: Vec::new(), count: 0 }
    }

    /// Queues a line.
    pub fn line(&self, line: &[u8]) {
        self.queue.put(line, 1);
    }

    /// Writes to `file` from now on, because the old one has been moved away.
    pub fn reopen(&self, file: File) {
        self.queue.state().next = Some(file);
        self.queue.wake.notify_one();
    }
}

impl Drop for Log {
    /// Waits until the thread has written the queued lines, but not for ever if the disk hangs.
    fn drop(&mut self) {
        self.queue.state().is_closing = true;
        self.queue.wake.notify_one();
        let until = Instant::now() + LAST_WORDS;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < until
        {
            sleep(Duration::from_millis(1));
        }
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            // If the writer has panicked, the panic has been written to standard error.
            let _ = thread.join();
        }
    }
}

/// The lines that one event loop has collected.
#[derive(Debug)]
pub struct Buffer {
    queue: Arc<Queue>,
    clock: Clock,
    bytes: Vec<u8>,
    count: u64,
}

/// The access log of one event loop: the lines that it has not passed on yet, and their format.
pub struct AccessLog {
    buffer: Mutex<Buffer>,
    format: LogFormat,
    /// What its pattern names of a request's head.
    fields: Vec<HeaderName>,
}

impl AccessLog {
    /// Lines of this format for `log`.
    pub fn new(log: &Log, format: LogFormat) -> AccessLog {
        let names = match &format {
            LogFormat::Pattern(pattern) => &pattern.fields[..],
            _ => &[],
        };
        // A name that is none has no value; the configuration lets only letters through.
        let fields = names.iter().map(|name| name.parse().unwrap_or(header::TE)).collect();
        AccessLog { buffer: Mutex::new(log.buffer()), format, fields }
    }

    /// Fields of a request's head that its lines have.
    pub fn fields(&self) -> &[HeaderName] {
        &self.fields
    }

    /// Whether lines name the site, also if there is only one.
    pub fn names_sites(&self) -> bool {
        match &self.format {
            LogFormat::Vhost => true,
            LogFormat::Pattern(pattern) => pattern.names_sites(),
            LogFormat::Combined | LogFormat::Json => false,
        }
    }

    /// Writes the line of a request whose response is complete.
    pub fn write(&self, entry: &LogEntry, sent: u64, ledger: &Ledger) {
        self.buffer().write(&self.format, entry, sent, ledger);
    }

    /// Passes the collected lines to the thread. Called a few times a second, so that lines show up
    /// soon.
    pub fn flush(&self) {
        self.buffer().flush();
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        // If a panic has poisoned the lock, it has been reported. The lines are still usable.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// Adds the line of a request whose response is complete.
    pub fn write(&mut self, format: &LogFormat, entry: &LogEntry, sent: u64, ledger: &Ledger) {
        let (line, now) = (entry.line(sent), SystemTime::now());
        match format {
            LogFormat::Combined => line.combined(&mut self.clock, now, &mut self.bytes),
            LogFormat::Vhost => line.vhost(&mut self.clock, now, &mut self.bytes),
            LogFormat::Json => line.json(ledger, &mut self.clock, now, &mut self.bytes),
            LogFormat::Pattern(pattern) => {
                line.pattern(pattern, ledger, &mut self.clock, now, &mut self.bytes);
            }
        }
        self.count_line();
    }

    /// Adds a formatted line.
    pub fn add(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.count_line();
    }

    fn count_line(&mut self) {
        self.count += 1;
        if self.bytes.len() >= FULL {
            self.flush();
        }
    }

    /// Passes the collected lines to the thread. Called a few times a second, so that lines show up
    /// soon.
    pub fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        self.queue.put(&self.bytes, self.count);
        self.bytes.clear();
        self.count = 0;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Where lines end up.
enum Sink {
    Output,
    Errors,
    File(File),
    #[cfg(test)]
    Test(Box<dyn Write + Send>),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Output => {
                let mut output = io::stdout().lock();
                output.write_all(bytes)?;
                output.flush()
            }
            Sink::Errors => errors::write(bytes),
            Sink::File(file) => file.write_all(bytes),
            #[cfg(test)]
            Sink::Test(to) => to.write_all(bytes),
        }
    }
}

struct Writer {
    /// What messages call the log.
    name: String,
    sink: Sink,
    queue: Arc<Queue>,
    /// Dropped lines that have been reported in the error log.
    reported: u64,
    /// Whether the last write failed.
    broken: bool,
}

impl Writer {
    fn run(mut self) {
        while let Some(State { bytes, lines, next, .. }) = self.queue.take() {
            if let Some(file) = next {
                self.sink = Sink::File(file);
            }
            self.write(&bytes, lines);
            self.report_losses();
        }
    }

    fn write(&mut self, bytes: &[u8], lines: u64) {
        match self.sink.write(bytes) {
            Ok(()) => self.broken = false,
            Err(error) => {
                self.queue.lose(lines);
                if !self.broken {
                    self.report(&format!("cannot write the {}: {error}", self.name));
                }
                self.broken = true;
            }
        }
    }

    fn report_losses(&mut self) {
        let lost = self.queue.lost.load(Ordering::Relaxed);
        if lost > self.reported && !self.broken {
            self.report(&format!("the {} lost {} lines", self.name, lost - self.reported));
            if !self.broken {
                self.reported = lost;
            }
        }
    }

    /// Reports a problem in the error log. The writer of the error log itself writes directly.
    fn report(&mut self, message: &str) {
        match self.sink {
            Sink::Errors => {
                // If this fails, the losses are reported after the next successful write.
                self.broken = self.sink.write(&errors::warning(message)).is_err();
            }
            _ => errors::server(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{self, Receiver};

    use http::Request;

    use super::*;
    use crate::log::EntryContext;

    fn entry(target: &str) -> LogEntry {
        let about = EntryContext {
            peer: "192.0.2.1",
            scheme: "http",
            port: 80,
            site: None,
            host: None,
            route: None,
            trace: None,
            fields: &[],
        };
        LogEntry::new(&Request::get(target).body(()).unwrap(), &about)
    }

    fn append(path: &Path) -> Option<File> {
        Some(fs::OpenOptions::new().append(true).create(true).open(path).unwrap())
    }

    fn write(buffer: &mut Buffer, target: &str) {
        buffer.write(&LogFormat::Combined, &entry(target), 0, &Ledger::begin(0));
    }

    /// Waits until `path` holds `count` lines.
    fn lines(path: &Path, count: usize) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            if lines.len() >= count || Instant::now() > until {
                return lines;
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Lines that were lost because the disk was too slow or refused them.
    fn lost(log: &Log) -> u64 {
        log.queue.lost.load(Ordering::Relaxed)
    }

    #[test]
    fn lines_of_all_loops_arrive_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        fs::write(&path, "before\n").unwrap();
        let log = Log::open(None, append(&path)).unwrap();
        let buffers: Vec<_> = (0..3).map(|_| log.buffer()).collect();
        std::thread::scope(|scope| {
            for (index, mut buffer) in buffers.into_iter().enumerate() {
                // Handed over when full, and the rest when dropped.
                scope.spawn(move || {
                    for number in 0..1000 {
                        write(&mut buffer, &format!("/{index}/{number}"));
                        if number % 200 == 0 {
                            sleep(Duration::from_millis(5));
                        }
                    }
                });
            }
        });
        assert_eq!(lost(&log), 0);
        drop(log);
        let found = lines(&path, 3001);
        assert_eq!(found.len(), 3001);
        assert_eq!(found[0], "before", "the file is appended to");
        for index in 0..3 {
            let of_loop: Vec<_> =
                found.iter().filter(|line| line.contains(&format!("GET /{index}/"))).collect();
            assert_eq!(of_loop.len(), 1000);
            assert!(
                of_loop
                    .iter()
                    .enumerate()
                    .all(|(at, line)| line.contains(&format!("/{index}/{at} HTTP/1.1\"")))
            );
        }
    }

    #[test]
    fn a_moved_file_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
        let log = Log::open(None, append(&path)).unwrap();
        let mut buffer = log.buffer();
        write(&mut buffer, "/first");
        buffer.flush();
        assert_eq!(lines(&path, 1).len(), 1);
        fs::rename(&path, &old).unwrap();
        log.reopen(append(&path).unwrap());
        write(&mut buffer, "/second");
        buffer.flush();
        assert!(lines(&path, 1)[0].contains("/second"));
        assert_eq!(lines(&old, 1).len(), 1);
    }

    #[test]
    fn a_hanging_disk_costs_lines_and_no_time() {
        /// A disk that takes nothing until it is told to, or the test has failed long ago.
        struct Hanging(mpsc::Sender<()>, Receiver<()>);
        impl Write for Hanging {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.send(());
                let _ = self.1.recv_timeout(Duration::from_secs(5));
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (busy, is_busy) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let log =
            Log::start("test".into(), "test", Sink::Test(Box::new(Hanging(busy, wait)))).unwrap();
        let line = [b'x'; 1024];
        log.line(&line);
        is_busy.recv_timeout(Duration::from_secs(5)).expect("the writer writes");
        let mut buffer = log.buffer();
        let began = Instant::now();
        for _ in 0..WAITING / line.len() + 10 {
            buffer.add(&line);
            buffer.flush();
        }
        assert!(began.elapsed() < Duration::from_secs(4), "nobody waits for the disk");
        assert_eq!(lost(&log), 10);
        drop(go);
        drop(log);
    }

    #[test]
    fn a_disk_that_refuses_costs_lines() {
        let log = Log::open(None, append(Path::new("/dev/full"))).unwrap();
        let mut buffer = log.buffer();
        write(&mut buffer, "/");
        write(&mut buffer, "/");
        buffer.flush();
        let until = Instant::now() + Duration::from_secs(5);
        while lost(&log) < 2 && Instant::now() < until {
            sleep(Duration::from_millis(2));
        }
        assert_eq!(lost(&log), 2);
    }
}
