//! The state of one HTTP/1 connection, shared by its task, its requests and the timeouts.

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};
use tokamak_upstream::Flow;
use tokamak_upstream::remote::Tunnel;

use super::screen::Violation;
use crate::client::activity::{Activity, Waiting};
use crate::client::{Addresses, Client};
use crate::failure::Failure;
use crate::http::transport::WriteHalf;
use crate::websocket::Upgraded;

/// A request has come in part.
const UNFINISHED: u32 = u32::MAX;

/// What is known of a connection when an event loop begins to serve it.
pub struct ConnHistory {
    /// Its addresses.
    pub addresses: Arc<Addresses>,
    /// Requests that another event loop has answered on it.
    pub requests: u32,
}

/// The state of a connection. There is at most one request at a time.
pub struct ConnState {
    addresses: Arc<Addresses>,
    /// What the connection waits for.
    pub activity: Activity,
    pub(super) write: WriteHalf,
    /// Requests so far.
    requests: AtomicU32,
    /// Requests that have come whole; [`UNFINISHED`] if a next request has come in part.
    heard: AtomicU32,
    /// Bytes that have come and are not counted yet.
    received: AtomicU64,
    head_began: AtomicU64,
    is_serving: AtomicBool,
    /// Whether the kernel did not accept all bytes of the last write.
    is_stalled: AtomicBool,
    /// Whether the connection is to rest, or rests: its task holds no buffers then.
    is_resting: AtomicBool,
    /// The rule that the client broke.
    violation: OnceLock<Violation>,
    /// What the connection is for from now on, in place of requests.
    upgraded: OnceLock<Upgraded>,
}

impl ConnState {
    /// The state of a connection with this history.
    pub fn new(write: WriteHalf, history: ConnHistory) -> ConnState {
        ConnState {
            addresses: history.addresses,
            activity: Activity::new(),
            write,
            requests: AtomicU32::new(history.requests),
            heard: AtomicU32::new(history.requests),
            received: AtomicU64::new(0),
            head_began: AtomicU64::new(0),
            is_serving: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            violation: OnceLock::new(),
            upgraded: OnceLock::new(),
        }
    }

    /// Gives back the socket, and the history for another event loop.
    pub fn into_parts(self) -> (WriteHalf, ConnHistory) {
        let requests = self.requests.into_inner();
        (self.write, ConnHistory { addresses: self.addresses, requests })
    }

    /// The rule that the client broke, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation.get().copied()
    }

    /// Records that the client has broken this rule.
    pub fn refuse(&self, violation: Violation) {
        let _ = self.violation.set(violation);
    }

    /// Records that a WebSocket follows the response that is sent now.
    pub fn upgrade(&self, upgraded: Upgraded) {
        let _ = self.upgraded.set(upgraded);
    }

    /// Records that nothing of the response that is sent now has been written.
    pub fn begin_head(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Whether all that the HTTP library wanted to write has been written.
    pub fn is_written(&self) -> bool {
        !self.is_stalled.load(Ordering::Relaxed)
    }

    /// Whether a WebSocket follows the last response.
    pub fn is_upgraded(&self) -> bool {
        self.upgraded.get().is_some()
    }

    /// The connection to the application that speaks WebSocket, once.
    pub fn take_tunnel(&self) -> Option<Tunnel> {
        self.upgraded.get()?.take()
    }

    /// Records that a request is being served from now on. Returns when its first byte came.
    pub fn serve(&self, now: u64) -> u64 {
        // No other thread writes it: only this connection's task counts.
        self.requests.store(self.requests() + 1, Ordering::Relaxed);
        self.is_serving.store(true, Ordering::Relaxed);
        self.activity.set(Waiting::Serving, now);
        self.head_began.load(Ordering::Relaxed)
    }

    /// Whether a request is being served.
    pub fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    /// Records that so many bytes have come. `heard`: how many requests have come whole, or `None`
    /// if a next one has come in part. `begins`: the time, if a head begins with these bytes.
    pub fn received(&self, count: usize, heard: Option<u32>, begins: Option<u64>) {
        // Only this connection's task counts them, and takes them.
        let received = self.received.load(Ordering::Relaxed);
        self.received.store(received + count as u64, Ordering::Relaxed);
        self.heard.store(heard.unwrap_or(UNFINISHED), Ordering::Relaxed);
        if let Some(now) = begins {
            self.head_began.store(now, Ordering::Relaxed);
            if !self.is_serving() {
                self.activity.set(Waiting::Head, now);
            }
        }
    }

    /// Records that this many bytes were offered to the kernel, with this result.
    pub fn wrote(&self, offered: usize, result: &io::Result<usize>) {
        let is_complete = matches!(result, Ok(n) if *n == offered) && !self.write.has_unsent();
        self.is_stalled.store(!is_complete, Ordering::Relaxed);
        let is_sending = self.activity.is(Waiting::Sending);
        if is_complete && is_sending {
            let next = if self.is_serving() { Waiting::Serving } else { Waiting::Idle };
            self.activity.set(next, tokamak_cost::now());
        } else if !is_complete && !is_sending {
            self.activity.set(Waiting::Sending, tokamak_cost::now());
        } else if !is_complete && let Ok(taken) = result {
            self.activity.took(*taken as u64);
        }
    }

    /// Records that a client takes bytes that TLS held, as it is recorded without TLS.
    pub fn moved(&self) {
        let moved = self.write.take_moved();
        if moved > 0 && self.activity.is(Waiting::Sending) {
            self.activity.took(moved);
        }
    }

    /// Records that the kernel has taken all bytes.
    pub fn flushed(&self) {
        self.wrote(0, &Ok(0));
    }

    /// Has the buffers of an idle connection given back by its task.
    pub fn rest(&self) {
        // Nearly all connections rest already when the sweep asks them. To write into each of them
        // would cost a cache line that a read leaves alone.
        if !self.is_to_rest() {
            self.is_resting.store(true, Ordering::Relaxed);
            self.activity.call();
        }
    }

    /// Whether the connection is to rest.
    pub fn is_to_rest(&self) -> bool {
        self.is_resting.load(Ordering::Relaxed)
    }

    /// Tells the client that the connection is closed now, if TLS has words for it. Not during a
    /// response: it would look whole.
    pub fn send_close_notify(&self) {
        self.write.end_now();
    }

    /// Records that the connection does not rest any longer.
    pub fn wake(&self) {
        self.is_resting.store(false, Ordering::Relaxed);
    }

    /// Whether another event loop may go on with the connection. One with TLS stays where it is.
    pub fn can_move(&self) -> bool {
        matches!(self.write, WriteHalf::Tcp(_)) && self.is_between_requests()
    }

    /// Whether all requests that have come are answered.
    pub fn is_between_requests(&self) -> bool {
        self.heard.load(Ordering::Relaxed) == self.requests()
            && !self.is_serving()
            && self.activity.is(Waiting::Idle)
            && !self.is_stalled.load(Ordering::Relaxed)
    }
}

impl Client for ConnState {
    fn addresses(&self) -> &Arc<Addresses> {
        &self.addresses
    }

    fn scheme(&self) -> &'static str {
        self.addresses.scheme()
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    fn flow(&self) -> Option<Flow> {
        None
    }

    // The HTTP library does not check for this while a request is answered (see
    // `h1::serve_connection`).
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.write.poll_gone(cx)
    }

    fn takes_websocket(&self) -> bool {
        true
    }

    // Written directly to the socket, because the HTTP library has no interim responses.
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        if self.is_stalled.load(Ordering::Relaxed) {
            return;
        }
        let bytes = interim(status, headers);
        if let Ok(n) = self.write.try_write(&bytes)
            && n < bytes.len()
        {
            // Half an interim response would corrupt the bytes that follow, so the connection is
            // closed. Only a very slow client gets here.
            let _ = self.write.shutdown(Shutdown::Both);
        }
    }

    fn violation(&self) -> Option<Failure> {
        self.violation.get().map(|violation| violation.failure())
    }

    fn served(&self, now: u64) {
        self.is_serving.store(false, Ordering::Relaxed);
        if self.activity.is(Waiting::Serving) {
            self.activity.set(Waiting::Idle, now);
        }
    }

    fn take_received(&self) -> u64 {
        let received = self.received.load(Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
        received
    }
}

/// An interim response as HTTP/1.1 sends it.
fn interim(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or("");
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
