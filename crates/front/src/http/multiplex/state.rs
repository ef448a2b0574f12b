//! The state of a connection, shared by its task, its requests and the timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use tokamak_upstream::Flow;

use crate::client::Addresses;
use crate::client::activity::{Activity, Waiting};

/// The state of a connection with any number of requests at the same time.
pub struct ConnState {
    /// The addresses of its ends.
    pub addresses: Arc<Addresses>,
    /// Its requests, for whom applications take turns.
    pub flow: Flow,
    /// What the connection waits for.
    pub activity: Activity,
    /// Requests so far.
    requests: AtomicU32,
    /// Requests that are not answered completely.
    open: AtomicU32,
    /// Bytes that have come and are not counted yet.
    received: AtomicU64,
    /// Whether a request's head has come in part.
    is_in_head: AtomicBool,
    /// Whether bytes wait for the client to take them.
    is_stalled: AtomicBool,
    /// Whether the client is to be told to open no more requests here.
    is_leaving: AtomicBool,
}

impl ConnState {
    /// The state of a new connection.
    pub fn new(addresses: Arc<Addresses>) -> ConnState {
        ConnState {
            addresses,
            flow: Flow::fresh(),
            activity: Activity::new(),
            requests: AtomicU32::new(0),
            open: AtomicU32::new(0),
            received: AtomicU64::new(0),
            is_in_head: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// Records that a request is being served from now on. Returns its number, from 1.
    pub fn begin(&self, now: u64) -> u32 {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.update_waiting(now);
        self.requests.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Records that something is under way that is no request.
    pub fn hold(&self, now: u64) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.update_waiting(now);
    }

    /// How many requests have begun.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Records that a request has been answered, or its client has gone.
    pub fn end(&self, now: u64) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.update_waiting(now);
    }

    /// Records that so many bytes have come, and whether a request's head has come in part.
    pub fn received(&self, count: usize, is_in_head: bool, now: u64) {
        self.received.fetch_add(count as u64, Ordering::Relaxed);
        self.is_in_head.store(is_in_head, Ordering::Relaxed);
        self.update_waiting(now);
    }

    /// Requests that are not answered completely.
    pub fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes that have come since this was last asked.
    pub fn take_received(&self) -> u64 {
        self.received.swap(0, Ordering::Relaxed)
    }

    /// Records whether bytes wait for the client, and how many it has taken now.
    pub fn sending(&self, is_stalled: bool, taken: u64) {
        let was_stalled = self.is_stalled.swap(is_stalled, Ordering::Relaxed);
        if is_stalled && was_stalled {
            self.activity.took(taken);
        } else if is_stalled {
            self.activity.set(Waiting::Sending, tokamak_cost::now());
        } else if !is_stalled && was_stalled {
            self.update_waiting(tokamak_cost::now());
        }
    }

    /// Whether bytes wait for the client to take them.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Whether the client is to be told to open no more requests here.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Has the client told to open no more requests here. Returns whether it was not yet to be
    /// told: then it is the connection's task that ends the connection.
    pub fn leave(&self, now: u64) -> bool {
        if self.is_leaving.swap(true, Ordering::Relaxed) {
            return false;
        }
        if self.activity.is(Waiting::Idle) {
            self.activity.set(Waiting::Idle, now);
        }
        self.activity.call();
        true
    }

    /// The client need not be told after all.
    pub fn stay(&self) {
        self.is_leaving.store(false, Ordering::Relaxed);
    }

    /// Sets what the connection waits for.
    fn update_waiting(&self, now: u64) {
        let waiting = if self.is_stalled() {
            Waiting::Sending
        } else if self.open.load(Ordering::Relaxed) > 0 {
            Waiting::Serving
        } else if self.is_in_head.load(Ordering::Relaxed) && !self.is_leaving() {
            // A client that is to leave gains no time by heads in parts.
            Waiting::Head
        } else {
            Waiting::Idle
        };
        if !self.activity.is(waiting) {
            self.activity.set(waiting, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn state() -> ConnState {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        ConnState::new(Arc::new(Addresses::new(address, address, 0)))
    }

    #[test]
    fn each_timeout_has_its_time() {
        let state = state();
        let waits = || state.activity.get().0;
        state.received(30, true, 1);
        assert_eq!(state.activity.get(), (Waiting::Head, 1));
        state.received(1, true, 2);
        assert_eq!(state.activity.get(), (Waiting::Head, 1), "single bytes do not renew it");
        assert_eq!(state.begin(3), 1);
        state.received(1, false, 3);
        assert_eq!(state.begin(4), 2);
        assert_eq!(state.activity.get(), (Waiting::Serving, 3));
        state.end(5);
        assert_eq!(waits(), Waiting::Serving);
        state.sending(true, 0);
        assert_eq!(waits(), Waiting::Sending);
        state.end(6);
        assert_eq!(waits(), Waiting::Sending, "the bytes of the last response wait");
        state.sending(false, 1);
        assert_eq!(waits(), Waiting::Idle);
        assert_eq!(state.take_received(), 32);
        assert_eq!(state.take_received(), 0);
    }

    #[test]
    fn an_idle_connection_may_leave_once() {
        let state = state();
        assert!(state.leave(7), "its task ends it");
        assert_eq!(state.activity.get(), (Waiting::Idle, 7));
        assert!(!state.leave(8), "its task could not");
        assert!(state.is_leaving());
        state.received(30, true, 9);
        assert_eq!(state.activity.get(), (Waiting::Idle, 7), "a part of a head does not renew it");
    }
}
