//! What workers write to their standard output and error, as lines of the error log, for which they
//! have nothing else: so neither a script nor a program that it has started writes lines there that
//! look like the server's. For a pool of `tokamak fpm` it is php-fpm's `catch_workers_output`.
//!
//! The descriptors come from the zygote, whose workers may have made them of anything: they are
//! only read when there is something, and only so much.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use tokamak_fpm::worker_output::{Stream, WorkerOutput};
use tokamak_sys::channel::{Watch, poll};

use crate::log::{self, Level};
use crate::output_lines::OutputLines;

/// Most bytes taken of a stream at one look, so that a worker that never stops writing holds up
/// only itself: what a pipe holds.
const AT_ONCE: usize = 64 * 1024;

/// The reading ends of a worker's output, or of a zygote's.
#[derive(Debug)]
pub struct Output {
    said: Said,
    streams: Vec<(Stream, File)>,
}

/// What was read and is not logged yet.
#[derive(Debug)]
enum Said {
    /// In php-fpm's manner.
    Fpm(WorkerOutput),
    /// By a process of this site: standard output and error.
    Site { site: String, whose: String, lines: [OutputLines; 2] },
}

impl Output {
    /// Of a process of a site (`whose`), if its zygote has sent what belongs to it.
    pub fn of_site(ends: Vec<OwnedFd>, site: &str, whose: String) -> Option<Output> {
        Output::new(ends, Said::Site { site: site.to_owned(), whose, lines: Default::default() })
    }

    /// Of the worker of a pool of `tokamak fpm` with this process id, likewise.
    pub fn of_fpm(
        ends: Vec<OwnedFd>,
        pool: &tokamak_fpm::Pool,
        buffer: bool,
        pid: u32,
    ) -> Option<Output> {
        let style = log::style()?;
        let said = WorkerOutput::new(style, pool.decorate_workers_output, buffer, &pool.name, pid);
        Output::new(ends, Said::Fpm(said))
    }

    fn new(ends: Vec<OwnedFd>, said: Said) -> Option<Output> {
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

    /// Logs what has been written.
    pub fn log_lines(&mut self) {
        let Output { said, streams } = self;
        streams.retain_mut(|(stream, end)| {
            let mut bytes = [0; AT_ONCE];
            let mut watch = [Watch::read(end.as_fd())];
            // Asked first, because reading an empty pipe would wait.
            if poll(&mut watch, Some(Duration::ZERO)).is_err() || !watch[0].readable {
                return true;
            }
            let count = end.read(&mut bytes).unwrap_or(0);
            said.feed(*stream, &bytes[..count]);
            count > 0
        });
    }

    /// Whether the worker has begun a line that its next order to flush would end.
    pub fn is_unfinished(&self) -> bool {
        matches!(&self.said, Said::Fpm(said) if said.is_unfinished())
    }

    /// The worker has ended: logs what is left.
    pub fn finish(mut self) {
        self.log_lines();
        match self.said {
            Said::Fpm(mut said) => log::write_raw(&said.end(SystemTime::now())),
            Said::Site { site, whose, lines } => {
                for (stream, mut lines) in [Stream::Stdout, Stream::Stderr].into_iter().zip(lines) {
                    lines.end(|line| say(&site, &whose, stream, line));
                }
            }
        }
    }
}

impl Said {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        match self {
            Said::Fpm(said) => log::write_raw(&said.feed(stream, bytes, SystemTime::now())),
            Said::Site { site, whose, lines } => {
                lines[stream as usize].feed(bytes, |line| say(site, whose, stream, line));
            }
        }
    }
}

fn say(site: &str, whose: &str, stream: Stream, line: &str) {
    log::site(Level::Warn, site, format_args!("{whose} said into {}: \"{line}\"", stream.name()));
}

#[cfg(test)]
mod tests {
    #[test]
    fn workers_and_their_reader_mean_the_same_flush() {
        assert_eq!(tokamak_sys::control::FLUSH, tokamak_fpm::worker_output::FLUSH);
    }
}
