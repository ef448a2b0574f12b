//! The way of a line to the disk, off the hot path: event loops fill buffers of their own and hand over
//! whole ones to one thread. A loop never waits. When the disk is slower than the requests, lines are lost,
//! counted, and the number is told in the error log.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use tokamak_config::LogFormat;
use tokamak_cost::Ledger;

use super::{Entry, errors};
use crate::clock::Clock;

/// Size at which a buffer is handed over. Chosen arbitrarily; some 150 lines.
const FULL: usize = 32 * 1024;
/// Buffers that may wait for the disk: 2 MiB together.
const WAITING: usize = 64;
/// How long a closing log waits for the disk.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What an event loop hands over.
enum Message {
    Lines {
        bytes: Vec<u8>,
        count: u64,
    },
    /// Write to this file from now on.
    Reopen(File),
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    /// The next file, while the channel is too full for telling.
    next: Mutex<Option<File>>,
    lost: AtomicU64,
}

/// An open access log.
#[derive(Debug)]
pub struct Log {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Starts the thread that writes, to `file` (opened for appending) or else to standard output.
    ///
    /// # Errors
    /// A thread that cannot be had.
    pub fn open(file: Option<File>) -> io::Result<Log> {
        Log::start(file.map_or(Sink::Output, Sink::File))
    }

    fn start(sink: Sink) -> io::Result<Log> {
        let (sender, inbox) = sync_channel(WAITING);
        let shared = Arc::<Shared>::default();
        let writer = Writer { sink, shared: shared.clone(), told: 0, broken: false };
        let thread =
            std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run(&inbox))?;
        Ok(Log { sender, shared, thread: Some(thread) })
    }

    /// A buffer for one event loop.
    pub fn buffer(&self) -> Buffer {
        Buffer {
            sender: self.sender.clone(),
            shared: self.shared.clone(),
            clock: Clock::default(),
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// Writes to `file` from now on, because the old one has been moved away.
    pub fn reopen(&self, file: File) {
        if let Err(TrySendError::Full(Message::Reopen(file))) = self.sender.try_send(Message::Reopen(file)) {
            *lock(&self.shared.next) = Some(file);
        }
    }

    /// Lines that were lost because the disk was too slow or refused them.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Log {
    /// Lets the thread write what it has been given, but waits for no disk that hangs.
    fn drop(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        let mut told = false;
        while Instant::now() < until {
            told = told || self.sender.try_send(Message::Stop).is_ok();
            match &self.thread {
                Some(thread) if !thread.is_finished() => sleep(Duration::from_millis(1)),
                _ => break,
            }
        }
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            // A writer that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// The lines of one event loop on their way.
#[derive(Debug)]
pub struct Buffer {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    clock: Clock,
    bytes: Vec<u8>,
    count: u64,
}

impl Buffer {
    /// Adds the line of a request whose response is complete.
    pub fn write(&mut self, format: LogFormat, entry: &Entry, sent: u64, ledger: &Ledger) {
        let (line, now) = (entry.line(sent), SystemTime::now());
        match format {
            LogFormat::Combined => line.combined(&mut self.clock, now, &mut self.bytes),
            LogFormat::Json => line.json(ledger, &mut self.clock, now, &mut self.bytes),
        }
        self.count_line();
    }

    /// Adds a line that has been written already.
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

    /// Hands over what there is; to be called a few times a second, so that lines show up soon.
    pub fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let room = Vec::with_capacity(self.bytes.capacity());
        let lines = Message::Lines { bytes: std::mem::replace(&mut self.bytes, room), count: self.count };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(lines) {
            self.shared.lost.fetch_add(self.count, Ordering::Relaxed);
        }
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
            Sink::File(file) => file.write_all(bytes),
            #[cfg(test)]
            Sink::Test(to) => to.write_all(bytes),
        }
    }
}

struct Writer {
    sink: Sink,
    shared: Arc<Shared>,
    /// Lost lines that the error log knows of.
    told: u64,
    /// Whether the last write failed.
    broken: bool,
}

impl Writer {
    fn run(mut self, inbox: &Receiver<Message>) {
        for message in inbox {
            if let Some(file) = lock(&self.shared.next).take() {
                self.sink = Sink::File(file);
            }
            match message {
                Message::Lines { bytes, count } => self.write(&bytes, count),
                Message::Reopen(file) => self.sink = Sink::File(file),
                Message::Stop => break,
            }
            self.tell_losses();
        }
        self.tell_losses();
    }

    fn write(&mut self, bytes: &[u8], count: u64) {
        match self.sink.write(bytes) {
            Ok(()) => self.broken = false,
            Err(error) => {
                self.shared.lost.fetch_add(count, Ordering::Relaxed);
                if !self.broken {
                    errors::server(&format!("cannot write the access log: {error}"));
                }
                self.broken = true;
            }
        }
    }

    fn tell_losses(&mut self) {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        if lost > self.told && !self.broken {
            errors::server(&format!("the access log lost {} lines", lost - self.told));
            self.told = lost;
        }
    }
}

fn lock(next: &Mutex<Option<File>>) -> std::sync::MutexGuard<'_, Option<File>> {
    // Nothing is done under the lock that could panic half-way.
    next.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc;

    use http::Request;

    use super::*;

    fn entry(target: &str) -> Entry {
        Entry::new("192.0.2.1", &Request::get(target).body(()).unwrap(), None)
    }

    fn append(path: &Path) -> Option<File> {
        Some(fs::OpenOptions::new().append(true).create(true).open(path).unwrap())
    }

    fn write(buffer: &mut Buffer, target: &str) {
        buffer.write(LogFormat::Combined, &entry(target), 0, &Ledger::begin(0));
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

    #[test]
    fn lines_of_all_loops_arrive_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        fs::write(&path, "before\n").unwrap();
        let log = Log::open(append(&path)).unwrap();
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
        assert_eq!(log.lost(), 0);
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
        let log = Log::open(append(&path)).unwrap();
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
        struct Hanging(Receiver<()>);
        impl Write for Hanging {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv_timeout(Duration::from_secs(2));
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (go, wait) = mpsc::channel();
        let log = Log::start(Sink::Test(Box::new(Hanging(wait)))).unwrap();
        let mut buffer = log.buffer();
        let began = Instant::now();
        for _ in 0..WAITING + 10 {
            write(&mut buffer, "/");
            buffer.flush();
        }
        assert!(began.elapsed() < Duration::from_secs(1));
        // One buffer is in the hands of the writer, or still counts as waiting.
        assert!((9..=10).contains(&log.lost()), "{}", log.lost());
        drop(go);
        drop(log);
    }

    #[test]
    fn a_disk_that_refuses_costs_lines() {
        let log = Log::open(append(Path::new("/dev/full"))).unwrap();
        let mut buffer = log.buffer();
        write(&mut buffer, "/");
        write(&mut buffer, "/");
        buffer.flush();
        let until = Instant::now() + Duration::from_secs(5);
        while log.lost() < 2 && Instant::now() < until {
            sleep(Duration::from_millis(2));
        }
        assert_eq!(log.lost(), 2);
    }
}
