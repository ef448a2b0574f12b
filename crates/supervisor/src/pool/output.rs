//! What a worker writes to its standard output and error, as lines of the error log
//! (`catch_workers_output`).
//!
//! The descriptors come from the zygote, whose workers may have made them of anything: they are
//! only read when there is something, and only so much.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use tokamak_fpm::worker_output::{Stream, WorkerOutput};
use tokamak_sys::channel::{Watch, poll};

use crate::log;

/// Most bytes taken of a stream at one look, so that a worker that never stops writing holds up
/// nobody but itself: what a pipe holds.
const AT_ONCE: usize = 64 * 1024;

/// The reading ends of a worker's output.
#[derive(Debug)]
pub struct Output {
    said: WorkerOutput,
    streams: Vec<(Stream, File)>,
}

impl Output {
    /// Of the worker with this process id, if its zygote has sent what belongs to it.
    pub fn new(
        ends: Vec<OwnedFd>,
        pool: &tokamak_fpm::Pool,
        buffer: bool,
        pid: u32,
    ) -> Option<Output> {
        let style = log::style()?;
        let said = WorkerOutput::new(style, pool.decorate_workers_output, buffer, &pool.name, pid);
        let streams: Vec<_> = [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .zip(ends.into_iter().map(File::from))
            .collect();
        (streams.len() == 2).then_some(Output { said, streams })
    }

    /// What to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|(_, end)| end.as_fd())
    }

    /// Tells what has been written.
    pub fn tell(&mut self) {
        let Output { said, streams } = self;
        streams.retain_mut(|(stream, end)| {
            let mut bytes = [0; AT_ONCE];
            let mut watch = [Watch::read(end.as_fd())];
            // Asked first, because reading an empty pipe would wait.
            if poll(&mut watch, Some(Duration::ZERO)).is_err() || !watch[0].readable {
                return true;
            }
            let count = end.read(&mut bytes).unwrap_or(0);
            log::write_raw(&said.feed(*stream, &bytes[..count], SystemTime::now()));
            count > 0
        });
    }

    /// Whether the worker has begun a line that is not told yet.
    pub fn is_unfinished(&self) -> bool {
        self.said.is_unfinished()
    }

    /// The worker has ended: tells what is left.
    pub fn finish(mut self) {
        self.tell();
        log::write_raw(&self.said.end(SystemTime::now()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn workers_and_their_reader_mean_the_same_flush() {
        assert_eq!(tokamak_sys::control::FLUSH, tokamak_fpm::worker_output::FLUSH);
    }
}
