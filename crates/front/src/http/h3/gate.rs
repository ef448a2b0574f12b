//! What is known of a request's stream outside of the library that reads and writes it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use quinn::{SendStream, StoppedError, VarInt};

use crate::http::multiplex::{ConnState, Priority};

/// How many ranks each urgency has: the responses of one urgency that are of use only as a whole
/// are sent in the order of their requests.
const RANKS: i32 = 1 << 24;

type Stopped = dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send;

/// Stands at a request's stream.
pub struct Gate {
    connection: Arc<ConnState>,
    /// Whether the library may read more.
    is_open: AtomicBool,
    /// Bytes that the library has read and made nothing of.
    unused: AtomicUsize,
    /// With more, the client sends too much: a head that is too large, or frames that mean nothing.
    most: usize,
    /// The place among the connection's responses, as quinn has it: a larger one goes first.
    rank: AtomicI32,
    /// Whether the response has begun: if it breaks off, the client has to learn that.
    is_answered: AtomicBool,
    stopped: Mutex<Pin<Box<Stopped>>>,
}

impl Gate {
    /// That of a new stream.
    pub fn new(connection: Arc<ConnState>, sending: &SendStream, most: usize) -> Arc<Gate> {
        Arc::new(Gate {
            connection,
            is_open: AtomicBool::new(true),
            unused: AtomicUsize::new(0),
            most,
            rank: AtomicI32::new(0),
            is_answered: AtomicBool::new(false),
            stopped: Mutex::new(Box::pin(sending.stopped())),
        })
    }

    /// The library is to make something of what it has read before it reads more.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// The library may read more.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether the library may read more.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The library has made something of what it has read.
    pub fn used(&self) {
        self.unused.store(0, Ordering::Relaxed);
    }

    /// The library reads so many bytes. Returns whether it may hold them.
    pub fn read(&self, count: usize) -> bool {
        self.connection.received(count, false, tokamak_cost::coarse());
        self.unused.fetch_add(count, Ordering::Relaxed) + count <= self.most
    }

    /// The response of the request with this number is that urgent.
    pub fn set_priority(&self, number: u32, priority: Priority) {
        let urgency = i32::from(7_u8.saturating_sub(priority.urgency)) * RANKS;
        let place = i32::try_from(number % (RANKS as u32 - 1)).unwrap_or(0);
        let rank = if priority.is_incremental { 0 } else { RANKS - 1 - place };
        self.rank.store(urgency + rank, Ordering::Relaxed);
    }

    /// The place among the connection's responses.
    pub fn rank(&self) -> i32 {
        self.rank.load(Ordering::Relaxed)
    }

    /// The response begins.
    pub fn answer(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    /// Whether the response has begun.
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    /// Ready when the client does not want the response any more, or has gone.
    pub fn poll_stopped(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.stopped().as_mut().poll(cx).map(drop)
    }

    fn stopped(&self) -> MutexGuard<'_, Pin<Box<Stopped>>> {
        // A panic under the lock is one of the library, which leaves nothing half changed here.
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rank of a response without a stream.
    fn rank(number: u32, urgency: u8, is_incremental: bool) -> i32 {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 443));
        let addresses = crate::client::Addresses::new(address, address, 0);
        let gate = Gate {
            connection: Arc::new(ConnState::new(Arc::new(addresses))),
            is_open: AtomicBool::new(true),
            unused: AtomicUsize::new(0),
            most: 10,
            rank: AtomicI32::new(0),
            is_answered: AtomicBool::new(false),
            stopped: Mutex::new(Box::pin(std::future::pending())),
        };
        assert!(gate.read(10) && !gate.read(1));
        gate.used();
        assert!(gate.read(10));
        gate.set_priority(number, Priority { urgency, is_incremental });
        gate.rank()
    }

    #[test]
    fn urgent_responses_go_first_and_whole_ones_in_their_order() {
        let order = [
            rank(9, 0, false),
            rank(10, 0, false),
            rank(1, 0, true),
            rank(2, 3, false),
            rank(3, 3, true),
            rank(1, 7, false),
            rank(u32::MAX, 7, false),
            rank(1, 7, true),
        ];
        assert!(order.is_sorted_by(|one, next| one > next), "{order:?}");
        assert_eq!(rank(4, 3, true), rank(5, 3, true), "these take turns");
    }
}
