//! Where standard output and error of the zygote and of its workers go. Not to the server's log,
//! where a script, or a program that it starts, could write lines that look like the server's.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokamak_sys::channel::Channel;
use tokamak_sys::control::{self, FromZygote};

use crate::log::{self, Manner};
use crate::settings::Settings;

/// Where a worker's standard output and error go.
pub enum Output {
    /// Where the zygote's go: no pipe catches them.
    Kept,
    /// Nowhere: `/dev/null`, opened while there was one.
    Dropped(OwnedFd),
    /// To the supervisor.
    Caught,
}

impl Output {
    /// Takes the log apart from standard error, if the workers get another one. Before PHP begins,
    /// and before the root directory changes.
    pub fn of(settings: &Settings, channel: &Channel) -> io::Result<Output> {
        let is_fpm = settings.fpm.is_some();
        if !is_fpm && !settings.catch_output {
            return Ok(Output::Kept);
        }
        // The log is the standard error that the zygote was started with. SAFETY: takes numbers;
        // the result is a fresh descriptor.
        let log = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
        log::write_to(owned(log)?, if is_fpm { Manner::Fpm } else { Manner::Site });
        if !is_fpm {
            let pipes = Pipes::new()?;
            pipes.take()?;
            control::send(channel, &FromZygote::Output, &pipes.reading_ends())?;
        }
        if settings.catch_output {
            return Ok(Output::Caught);
        }
        Ok(Output::Dropped(File::options().write(true).open("/dev/null")?.into()))
    }

    /// The pipes of a worker that is about to be forked; none if its output is not caught.
    pub fn pipes(&self) -> io::Result<Option<Pipes>> {
        match self {
            Output::Caught => Pipes::new().map(Some),
            Output::Kept | Output::Dropped(_) => Ok(None),
        }
    }

    /// In the worker: standard output and error are what they are to be from now on.
    pub fn take(&self, pipes: Option<&Pipes>) -> io::Result<()> {
        match (self, pipes) {
            (Output::Dropped(null), _) => {
                put(null.as_fd(), libc::STDOUT_FILENO)?;
                put(null.as_fd(), libc::STDERR_FILENO)
            }
            (Output::Caught, Some(pipes)) => pipes.take(),
            _ => Ok(()),
        }
    }

    /// The same in a worker that was sent its [`Pipes::writing_ends`].
    pub fn take_ends(&self, ends: &[OwnedFd]) -> io::Result<()> {
        let [output, error] = ends else { return self.take(None) };
        put(output.as_fd(), libc::STDOUT_FILENO)?;
        put(error.as_fd(), libc::STDERR_FILENO)
    }
}

/// Reading and writing ends.
pub struct Pipes {
    output: (OwnedFd, OwnedFd),
    error: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn new() -> io::Result<Pipes> {
        Ok(Pipes { output: pipe()?, error: pipe()? })
    }

    /// What the supervisor gets.
    pub fn reading_ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.output.0.as_fd(), self.error.0.as_fd()]
    }

    /// What the worker gets.
    pub fn writing_ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.output.1.as_fd(), self.error.1.as_fd()]
    }

    /// This process writes into them from now on.
    fn take(&self) -> io::Result<()> {
        put(self.output.1.as_fd(), libc::STDOUT_FILENO)?;
        put(self.error.1.as_fd(), libc::STDERR_FILENO)
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the array takes two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((owned(ends[0])?, owned(ends[1])?))
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the callers have just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn put(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers; `at` is a standard descriptor, which no value here owns.
    match unsafe { libc::syscall(libc::SYS_dup3, fd.as_raw_fd(), at, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
