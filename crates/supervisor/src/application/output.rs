//! What a process writes to its standard output and error, as lines of the error log.

use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokamak_sys::channel::{Watch, poll};

use crate::log::{self, Level};
use crate::output_lines::OutputLines;

/// Most bytes taken at one look, so that a process that never stops writing holds up only
/// itself.
const AT_ONCE: usize = 64 * 1024;

/// The reading end of a process's output.
#[derive(Debug)]
pub struct Output {
    pipe: PipeReader,
    lines: OutputLines,
    is_closed: bool,
}

impl Output {
    /// Reads from `pipe`.
    pub fn new(pipe: PipeReader) -> Output {
        Output { pipe, lines: OutputLines::default(), is_closed: false }
    }

    /// What to wait for, until its other end is closed.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.pipe.as_fd())
    }

    /// Tells what has been written, as far as that is no more than [`AT_ONCE`].
    pub fn log_lines(&mut self, name: &str, pid: u32) {
        let mut bytes = [0; AT_ONCE];
        let Some(count) = self.read(&mut bytes) else { return };
        self.lines.feed(&bytes[..count], |line| say(name, pid, line));
    }

    /// The process has ended: writes the rest of its output.
    pub fn finish(mut self, name: &str, pid: u32) {
        self.log_lines(name, pid);
        self.lines.end(|line| say(name, pid, line));
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let mut watch = [Watch::read(self.fd()?)];
        // Asked first, because reading an empty pipe would wait.
        let is_readable = poll(&mut watch, Some(Duration::ZERO)).is_ok() && watch[0].readable;
        let count = if is_readable { self.pipe.read(bytes).unwrap_or(0) } else { return None };
        self.is_closed = count == 0;
        Some(count)
    }
}

fn say(name: &str, pid: u32, line: &str) {
    log::site(Level::Warn, name, format_args!("pid={pid}: {line}"));
}
