//! Sleeping and waking across processes.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

/// Longest sleep of a worker. The protocol does not need it: it bounds the harm if a wake-up were
/// lost.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(2);
/// The same of a worker that has had no request for [`IDLE_AFTER`]. A hundred that looked each
/// [`LONGEST_SLEEP`] took 0.2 % of a processor.
pub(super) const LONGEST_IDLE_SLEEP: Duration = Duration::from_secs(300);
/// Until then a worker without a request looks each [`LONGEST_SLEEP`]: after two seconds it gives
/// up what it holds from one request to the next, such as opcache's lock.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(4);

/// Sleeps while `word` is `value`, for at most `limit`. May return early for no reason: callers
/// look again.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, limit: Duration) {
    // Not FUTEX_PRIVATE: the word lies in memory shared between processes.
    let limit = Timespec::try_from(limit).ok();
    let _ = futex::wait(word, futex::Flags::empty(), value, limit.as_ref());
}

/// Wakes one sleeper of `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

/// Makes an eventfd readable, which wakes the event loop that polls it.
pub(super) fn ring(bell: &OwnedFd) {
    // A full counter (EAGAIN) is readable already, so the result does not matter.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
