//! One application: its addresses, and how a request finds one that answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokamak_fastcgi::ProtocolStatus;

use super::call::Call;
use super::exchange::{Event, Exchange};
use super::fault::Fault;
use super::pool::{Lease, Pool};
use super::stream::Endpoint;

/// Limits of one application.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections to each address.
    pub connections: usize,
    /// Requests after which a connection is closed; 0: never.
    pub requests: u64,
    /// How long an idle connection is kept.
    pub idle: Duration,
    /// Requests that wait for a connection.
    pub queue: usize,
    /// Longest wait for one.
    pub queue_timeout: Duration,
    /// Longest time to open one.
    pub connect_timeout: Duration,
    /// Longest time between two writes of a request.
    pub send_timeout: Duration,
    /// Longest time from the end of the request to the first byte of the response.
    pub first_byte_timeout: Duration,
    /// Longest time between two reads of the response.
    pub read_timeout: Duration,
}

/// One application with all its addresses; the same for all event loops.
#[derive(Debug)]
pub struct Upstream {
    pools: Vec<Arc<Pool>>,
    bounds: Bounds,
    next: AtomicUsize,
}

/// The beginning of a response.
#[derive(Debug)]
pub struct Answer {
    /// The rest of it.
    pub exchange: Exchange,
    /// The first that the application said.
    pub event: Event,
    /// When there was a connection to use or the right to open one, in nanoseconds.
    pub permitted: u64,
    /// When there was a connection.
    pub connected: u64,
}

impl Upstream {
    /// An application at these addresses, of which there is at least one.
    pub fn new(endpoints: Vec<Endpoint>, bounds: Bounds) -> Upstream {
        let pools = endpoints.into_iter().map(|endpoint| Arc::new(Pool::new(endpoint, bounds))).collect();
        Upstream { pools, bounds, next: AtomicUsize::new(0) }
    }

    /// Whether connections are kept between requests.
    pub fn keeps(&self) -> bool {
        self.bounds.requests != 1
    }

    /// Asks, on a kept connection if there is one, until something comes back. `home` is the caller's event loop.
    ///
    /// A kept connection may be closed by the application at any time. If that is what happened, and the application cannot
    /// have acted on the request or may act on it again, it is asked on a new connection. One that is lost on a new connection
    /// is asked once more if it may be, at the next address if there are several: a process may have been killed.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn ask(&self, home: usize, call: Arc<Call>) -> Result<Answer, Fault> {
        let mut avoid_kept = false;
        let mut was_lost = false;
        let mut refusals = 0;
        loop {
            let (lease, permitted) = self.lease(home, avoid_kept, !call.is_repeatable).await?;
            let connected = tokamak_cost::now();
            let is_reused = lease.is_reused();
            let mut exchange = Exchange::new(lease, call.clone(), self.bounds);
            match exchange.next().await {
                Ok(event) => return Ok(Answer { exchange, event, permitted, connected }),
                Err(Fault::Closed { answered: false })
                    if is_reused && (call.is_repeatable || !exchange.has_written()) =>
                {
                    avoid_kept = true;
                }
                Err(Fault::Closed { answered: false }) if call.is_repeatable && !was_lost => was_lost = true,
                // It has not been served (§5.5), so another address may be asked.
                Err(Fault::Refused(ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex))
                    if refusals + 1 < self.pools.len() =>
                {
                    refusals += 1;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Closes what one event loop has kept for too long.
    pub fn tick(&self, home: usize, now: u64) {
        self.pools.iter().for_each(|pool| pool.tick(home, now));
    }

    /// A connection, and when it was this request's turn for one.
    async fn lease(&self, home: usize, avoid_kept: bool, for_sure: bool) -> Result<(Lease, u64), Fault> {
        let first = self.choose();
        let mut unreachable = None;
        for pool in self.pools[first..].iter().chain(&self.pools[..first]) {
            let mut permit = pool.permit().await?;
            let permitted = tokamak_cost::now();
            if !avoid_kept {
                match pool.reuse(permit, home, for_sure) {
                    Ok(lease) => return Ok((lease, permitted)),
                    Err(unused) => permit = unused,
                }
            }
            match pool.connect(permit, home).await {
                Ok(lease) => return Ok((lease, permitted)),
                Err(error) => unreachable = Some(error),
            }
        }
        Err(Fault::Unreachable(unreachable.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())))
    }

    /// The address whose turn it is, of those that can be reached and, if possible, have room.
    fn choose(&self) -> usize {
        let count = self.pools.len();
        if count <= 1 {
            return 0;
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let now = tokamak_cost::now();
        let order = || (turn..turn + count).map(|nth| nth % count);
        let reachable = || order().filter(|nth| self.pools[*nth].is_reachable(now));
        reachable().find(|nth| self.pools[*nth].has_room()).or_else(|| reachable().next()).unwrap_or(turn)
    }

    /// How many connections are idle.
    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.pools.iter().map(|pool| pool.idle_count()).sum()
    }
}
