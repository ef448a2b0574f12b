//! What a zygote of `tokamak fpm` does beyond any other: its workers' root directory, user and
//! output.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokamak_sys::process::Guard;

use crate::log;
use crate::settings::Fpm;

/// Where a worker's standard output and error go.
pub enum Output {
    /// Where the zygote's go: the server's log.
    Kept,
    /// To nobody: `/dev/null`, opened while there was one.
    Dropped(OwnedFd),
    /// To the supervisor.
    Caught,
}

impl Output {
    /// For a site, or for such a pool. Before PHP begins, and before the root directory changes.
    pub fn of(fpm: Option<&Fpm>) -> io::Result<Output> {
        let Some(fpm) = fpm else { return Ok(Output::Kept) };
        // The pool's log is the standard error that the zygote was started with; the workers' own
        // is another one. SAFETY: takes numbers; the result is a fresh descriptor.
        let log = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
        log::write_for_fpm(owned(log)?);
        if fpm.catch_output {
            return Ok(Output::Caught);
        }
        Ok(Output::Dropped(File::options().write(true).open("/dev/null")?.into()))
    }

    /// The pipes of a worker that is about to be forked; none if nobody catches its output.
    pub fn pipes(&self) -> io::Result<Option<Pipes>> {
        match self {
            Output::Caught => Ok(Some(Pipes { output: pipe()?, error: pipe()? })),
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
            (Output::Caught, Some(pipes)) => {
                put(pipes.output.1.as_fd(), libc::STDOUT_FILENO)?;
                put(pipes.error.1.as_fd(), libc::STDERR_FILENO)
            }
            _ => Ok(()),
        }
    }
}

/// Reading and writing ends.
pub struct Pipes {
    output: (OwnedFd, OwnedFd),
    error: (OwnedFd, OwnedFd),
}

impl Pipes {
    /// What the supervisor gets.
    pub fn reading_ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.output.0.as_fd(), self.error.0.as_fd()]
    }
}

/// Takes on the workers' root directory, user and current directory. After module start-up, which
/// may need files that are out of reach afterwards, and before a script runs.
pub fn enter(fpm: &Fpm, guard: Option<Guard>) -> Result<(), String> {
    if let Some(root) = &fpm.chroot {
        let path =
            CString::new(root.as_str()).map_err(|_| "the root directory's path contains a NUL")?;
        // SAFETY: the path lives through the calls. By number, because libc's own are watched for
        // what scripts do.
        let entered = unsafe {
            libc::syscall(libc::SYS_chroot, path.as_ptr()) == 0
                && libc::syscall(libc::SYS_chdir, c"/".as_ptr()) == 0
        };
        if !entered {
            return Err(format!(
                "cannot change the root directory to {root}: {}",
                io::Error::last_os_error()
            ));
        }
    }
    if let Some(identity) = &fpm.identity {
        let become_user = guard.map_or_else(|| identity.assume(), |guard| guard.assume(identity));
        become_user.map_err(|e| format!("cannot become user {}: {e}", identity.uid()))?;
        // SAFETY: takes numbers. The kernel forgot it with the change of user.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
    if let Some(directory) = &fpm.chdir {
        let path =
            CString::new(directory.as_str()).map_err(|_| "the directory's path contains a NUL")?;
        // SAFETY: the path lives through the call.
        if unsafe { libc::syscall(libc::SYS_chdir, path.as_ptr()) } != 0 {
            return Err(format!(
                "cannot change to directory {directory}: {}",
                io::Error::last_os_error()
            ));
        }
    }
    Ok(())
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
    // SAFETY: takes numbers; `at` is a standard descriptor, which nobody here owns.
    match unsafe { libc::syscall(libc::SYS_dup3, fd.as_raw_fd(), at, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
