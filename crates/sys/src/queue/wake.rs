//! Sleeping and waking across processes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Longest sleep before a worker looks at the queue by itself. The protocol does not need it: it
/// bounds the harm if a wake-up were lost. Much shorter, and idle workers cost processor time.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(2);

/// Sleeps while `word` is `value`, for at most `limit`. May return early for no reason: callers
/// look again.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: `word` and `limit` live through the call; the kernel only reads them. Not
    // FUTEX_PRIVATE: the word lies in memory shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &limit, 0, 0) };
}

/// Wakes one sleeper of `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: `word` lives through the call, which reads nothing but its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1, 0, 0, 0) };
}

/// Makes an eventfd readable, which wakes the event loop that polls it.
pub(super) fn ring(bell: &OwnedFd) {
    let one: u64 = 1;
    // SAFETY: eight bytes are read from `one`, which lives through the call. A full counter
    // (EAGAIN) is readable already, so the result does not matter.
    unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
}
