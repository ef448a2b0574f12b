//! The connections to one address: bounded, kept, shared by all event loops.
//!
//! Invariants:
//!
//! 1. A request holds a permit from before it has a connection until after it has given it up, so no more than the bound
//!    are in use, and those who wait are served in their order.
//! 2. In use and idle together are no more than the bound: before one is opened, idle ones are closed until there are no
//!    more of them than permits nobody holds.
//! 3. An idle connection has nothing unread, and the application is waiting for its next request on it.
//!
//! An application may have fewer processes than the bound allows connections, and each idle connection keeps one of them
//! waiting. A request on a new connection that is not answered soon may be waiting for just such a process: while there is
//! one, no connection stays idle ([`Pool::starve`]).

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::fault::Fault;
use super::stream::{Endpoint, Stream};
use super::upstream::Bounds;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: Stream,
    /// What is read next lands here; between requests it is empty and only memory.
    pub buffer: BytesMut,
    /// Requests that were begun on it.
    pub requests: u64,
    /// Set for the deadline of some request, maybe an earlier one: see [`Connection::poll_deadline`].
    timer: Option<Pin<Box<Sleep>>>,
}

/// The connections to one address.
#[derive(Debug)]
pub(super) struct Pool {
    endpoint: Endpoint,
    bounds: Bounds,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// The longest idle one first.
    idle: Mutex<VecDeque<Idle>>,
    /// Requests that may be waiting for a process which waits for us.
    starving: AtomicUsize,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// The event loop in which it is registered.
    home: usize,
    since: u64,
}

/// The use of a connection. Dropped, it closes the connection, unless it was [kept](Lease::keep).
#[derive(Debug)]
pub(super) struct Lease {
    pub pool: Arc<Pool>,
    connection: Option<Connection>,
    home: usize,
    /// Dropped last: invariant 1.
    _permit: OwnedSemaphorePermit,
}

/// A request that may be waiting for a process which waits for us.
#[derive(Debug)]
pub(super) struct Starving(Arc<Pool>);

impl Pool {
    pub fn new(endpoint: Endpoint, bounds: Bounds) -> Pool {
        Pool {
            endpoint,
            permits: Arc::new(Semaphore::new(bounds.connections)),
            bounds,
            waiting: AtomicUsize::new(0),
            idle: Mutex::default(),
            starving: AtomicUsize::new(0),
        }
    }

    /// Whether a request would not have to wait.
    pub fn has_room(&self) -> bool {
        self.permits.available_permits() > 0
    }

    /// Requests that have, or open, a connection.
    pub fn in_use(&self) -> usize {
        self.bounds.connections - self.permits.available_permits()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Gives no more permits: those who wait for one hear of it, idle connections are closed, others when they are given up.
    pub fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    /// The right to use a connection.
    ///
    /// # Errors
    /// Too many wait already, it took too long, or the pool is closed.
    pub async fn permit(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = Waiting::enter(&self.waiting, self.bounds.queue).ok_or(Fault::Full)?;
        match timeout(self.bounds.queue_timeout, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Fault::Withdrawn),
            Err(_) => Err(Fault::Waited),
        }
    }

    /// An idle connection that is as good as new, for the event loop `home`. `for_sure` asks the kernel and not only the
    /// event loop, for a request that could not be repeated.
    pub fn reuse(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        home: usize,
        for_sure: bool,
    ) -> Result<Lease, OwnedSemaphorePermit> {
        loop {
            let found = {
                let mut idle = self.idle();
                // The one used last, which is the least likely to have been closed; of this event loop if there is one.
                let place = idle.iter().rposition(|idle| idle.home == home).or(idle.len().checked_sub(1));
                place.and_then(|place| idle.remove(place))
            };
            let Some(Idle { mut connection, home: from, .. }) = found else { return Err(permit) };
            if !connection.stream.is_quiet() || (for_sure && !connection.stream.is_quiet_now()) {
                continue;
            }
            if from != home {
                // Its timer belongs to the other event loop too.
                connection.timer = None;
                match connection.stream.adopt() {
                    Ok(stream) => connection.stream = stream,
                    Err(_) => continue,
                }
            }
            return Ok(self.lease(connection, home, permit));
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// The address cannot be reached now.
    pub async fn connect(self: &Arc<Self>, permit: OwnedSemaphorePermit, home: usize) -> io::Result<Lease> {
        {
            let mut idle = self.idle();
            // Invariant 2.
            while idle.len() > self.permits.available_permits() {
                idle.pop_front();
            }
        }
        let connect = Stream::connect(&self.endpoint);
        let stream = match timeout(self.bounds.connect_timeout, connect).await {
            Ok(stream) => stream,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
        };
        let connection = Connection { stream: stream?, buffer: BytesMut::new(), requests: 0, timer: None };
        Ok(self.lease(connection, home, permit))
    }

    fn lease(
        self: &Arc<Self>,
        mut connection: Connection,
        home: usize,
        permit: OwnedSemaphorePermit,
    ) -> Lease {
        connection.requests += 1;
        Lease { pool: self.clone(), connection: Some(connection), home, _permit: permit }
    }

    /// Closes the connections of an event loop that were idle for too long, or that the application has closed.
    pub fn tick(&self, home: usize, now: u64) {
        let limit = self.bounds.idle.as_nanos() as u64;
        self.idle().retain(|idle| {
            idle.home != home
                || (now.saturating_sub(idle.since) <= limit && idle.connection.stream.is_quiet())
        });
    }

    /// No connection stays idle as long as the result lives.
    pub fn starve(self: &Arc<Self>) -> Starving {
        self.starving.fetch_add(1, Ordering::Relaxed);
        self.idle().clear();
        Starving(self.clone())
    }

    /// No connection is kept from now on.
    pub fn keep_none(self: &Arc<Self>) {
        std::mem::forget(self.starve());
    }

    fn put_back(&self, connection: Connection, home: usize) {
        let used_up = self.bounds.requests > 0 && connection.requests >= self.bounds.requests;
        let mut idle = self.idle();
        // Both are asked with the lock held, so that no connection is left behind by `close` and `starve`.
        if !used_up && self.starving.load(Ordering::Relaxed) == 0 && !self.permits.is_closed() {
            idle.push_back(Idle { connection, home, since: tokamak_cost::now() });
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        // A panic elsewhere cannot leave the list half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are idle.
    pub fn idle_count(&self) -> usize {
        self.idle().len()
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        self.0.starving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lease {
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("only `keep` takes it, and takes the lease with it")
    }

    /// Whether the connection had a request before.
    pub fn is_reused(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.requests > 1)
    }

    /// Keeps the connection for the next request: invariant 3 holds for it.
    pub fn keep(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put_back(connection, self.home);
        }
    }
}

impl Connection {
    /// Whether a deadline has passed. The timer is set once and seldom moved: one that goes off too early, for a request
    /// that has been answered long ago, is set anew then. Most requests find it set and never see it go off.
    pub fn poll_deadline(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

/// A place among those who wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn enter(count: &AtomicUsize, most: usize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
