//! What a connection waits for, and since when. Its task sets it; the timeouts of the event loop
//! read it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// An idle connection of a draining front is closed after this long: a client that has just been
/// answered may be about to send its next request, which is still served. An HTTP/2 client has as
/// long to answer when it is told that its connection ends, or half as long if it has no request.
pub const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// What a connection waits for. Each state has a timeout of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Waiting {
    /// The next request.
    Idle = 0,
    /// The rest of a request's head.
    Head = 1,
    /// The server itself: no timeout applies here.
    Serving = 2,
    /// The client, to take more of the response.
    Sending = 3,
    /// The rest of a request's body, from a web server.
    Body = 4,
    /// Either end of a WebSocket.
    Tunnel = 5,
}

/// What a connection waits for, shared by its task and the timeouts.
pub struct Activity {
    waiting: AtomicU8,
    since: AtomicU64,
    /// Bytes that the client has taken since it was last looked at.
    taken: AtomicU64,
    /// The waker of a task that does not notice by itself that its client has gone.
    listener: Mutex<Option<Waker>>,
    was_called: AtomicBool,
}

impl Activity {
    /// The activity of a new connection.
    pub fn new() -> Activity {
        Activity {
            waiting: AtomicU8::new(Waiting::Idle as u8),
            since: AtomicU64::new(tokamak_cost::coarse()),
            taken: AtomicU64::new(0),
            listener: Mutex::new(None),
            was_called: AtomicBool::new(false),
        }
    }

    /// What the connection waits for, and since when in nanoseconds.
    pub fn get(&self) -> (Waiting, u64) {
        let waiting = match self.waiting.load(Ordering::Relaxed) {
            0 => Waiting::Idle,
            1 => Waiting::Head,
            2 => Waiting::Serving,
            3 => Waiting::Sending,
            4 => Waiting::Body,
            _ => Waiting::Tunnel,
        };
        (waiting, self.since.load(Ordering::Relaxed))
    }

    /// Whether the connection is in this state.
    pub fn is(&self, waiting: Waiting) -> bool {
        self.get().0 == waiting
    }

    /// Sets the state of the connection.
    pub fn set(&self, waiting: Waiting, now: u64) {
        self.since.store(now, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.waiting.store(waiting as u8, Ordering::Relaxed);
    }

    /// Records that a client that is waited for has taken so many bytes.
    pub fn took(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Since when a client takes too little of its response: each byte that it has taken gives it
    /// the time that the byte takes at the lowest rate, in bytes a second. At none each byte begins
    /// the wait anew.
    pub fn behind(&self, rate: u64, now: u64) -> u64 {
        let taken = self.taken.swap(0, Ordering::Relaxed);
        let since = self.since.load(Ordering::Relaxed);
        let since = now.min(since.saturating_add(time_of(taken, rate)));
        self.since.store(since, Ordering::Relaxed);
        since
    }

    /// Registers a sleeping task to be woken by [`Activity::call`].
    pub fn listen(&self, waker: &Waker) {
        let mut listener = self.listener();
        if !listener.as_ref().is_some_and(|other| other.will_wake(waker)) {
            *listener = Some(waker.clone());
        }
    }

    /// Wakes the registered task. It has waited so long that it should check whether its client is
    /// still there.
    pub fn call(&self) {
        if let Some(waker) = self.listener().take() {
            self.was_called.store(true, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// Whether the task was woken by [`Activity::call`].
    pub fn was_called(&self) -> bool {
        self.was_called.load(Ordering::Relaxed)
    }

    fn listener(&self) -> MutexGuard<'_, Option<Waker>> {
        // A panic under the lock cannot leave the waker half changed.
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time that a client gets for so many bytes at the lowest rate, in nanoseconds.
pub fn time_of(bytes: u64, rate: u64) -> u64 {
    match rate {
        0 if bytes > 0 => u64::MAX,
        0 => 0,
        rate => bytes.saturating_mul(1_000_000_000) / rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn bytes_give_time_at_the_lowest_rate() {
        let activity = Activity::new();
        activity.set(Waiting::Sending, 100 * SECOND);
        assert_eq!(activity.behind(500, 105 * SECOND), 100 * SECOND);
        activity.took(1);
        let since = activity.behind(500, 105 * SECOND);
        assert!(since < 101 * SECOND, "single bytes do not begin the wait anew");
        activity.took(1000);
        assert_eq!(activity.behind(500, 105 * SECOND), since + 2 * SECOND);
        activity.took(1 << 40);
        assert_eq!(activity.behind(500, 105 * SECOND), 105 * SECOND, "no time is saved up");
        activity.took(1);
        assert_eq!(activity.behind(0, 200 * SECOND), 200 * SECOND, "without a rate they do");
        assert_eq!(activity.behind(0, 201 * SECOND), 200 * SECOND);
    }
}
