//! Signals as something to read: blocked everywhere, taken from one descriptor by one loop.
//!
//! A handler could do next to nothing; a descriptor in the loop's `poll` can do everything.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The signals that a supervisor acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`
    Terminate,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
    /// `SIGHUP`
    HangUp,
    /// `SIGUSR1`
    User1,
    /// `SIGUSR2`
    User2,
    /// `SIGCHLD`
    Child,
}

const ALL: [(Signal, libc::c_int); 7] = [
    (Signal::Terminate, libc::SIGTERM),
    (Signal::Interrupt, libc::SIGINT),
    (Signal::Quit, libc::SIGQUIT),
    (Signal::HangUp, libc::SIGHUP),
    (Signal::User1, libc::SIGUSR1),
    (Signal::User2, libc::SIGUSR2),
    (Signal::Child, libc::SIGCHLD),
];

/// All of [`Signal`], blocked for the calling thread and what it starts, readable here.
///
/// Threads started earlier would still be interrupted; so this comes first in a process.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. A child made by `fork` stays blocked, so that a
    /// terminal's Ctrl-C does not end it before the supervisor says so.
    pub fn take() -> io::Result<Signals> {
        // SAFETY: a `sigset_t` is plain data, and `sigemptyset` initialises it before its first
        // use.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: `set` is valid for both calls, the numbers are valid signals.
        unsafe {
            libc::sigemptyset(&mut set);
            for (_, number) in ALL {
                libc::sigaddset(&mut set, number);
            }
        }
        // SAFETY: `set` is initialised; the old mask is not asked for.
        let failure = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if failure != 0 {
            return Err(io::Error::from_raw_os_error(failure));
        }
        // SAFETY: `set` is initialised; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and has no other owner.
        Ok(Signals { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The next signal that has arrived, if one has.
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: an all-zero `signalfd_siginfo` is valid plain data.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let size = mem::size_of_val(&info);
        // SAFETY: `info` is writable for `size` bytes.
        let count = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
        if count != size as isize {
            return None; // nothing there: the descriptor is non-blocking
        }
        ALL.iter().find(|(_, number)| *number as u32 == info.ssi_signo).map(|(signal, _)| *signal)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Watch, poll};
    use std::time::Duration;

    #[test]
    fn a_signal_is_read_and_interrupts_no_call() {
        let signals = Signals::take().unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: sends a signal, blocked here, to this very thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        poll(&mut [Watch::read(signals.as_fd())], Some(Duration::from_secs(5))).unwrap();
        assert_eq!(signals.next(), Some(Signal::User1));
        assert_eq!(signals.next(), None);
    }
}
