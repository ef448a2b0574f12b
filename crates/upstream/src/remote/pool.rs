//! The connections to one address: bounded, kept, shared by all event loops.
//!
//! Invariants:
//!
//! 1. A request holds a permit from before it has a connection until after it has given it up, so
//!    no more than the bound are in use. Requests that wait for one are served in the order of
//!    [`FairSemaphore`].
//! 2. In use and idle together are no more than the bound: before one is opened, idle ones are
//!    closed until there are no more of them than free permits.
//! 3. An idle connection has nothing unread, and the application is waiting for its next request on
//!    it.
//!
//! An application may have fewer processes than the bound allows connections, and each idle
//! connection keeps one of them waiting. A request on a new connection that is not answered soon
//! may be waiting for just such a process: while there is one, no connection stays idle
//! ([`Pool::starve`]).

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokamak_sys::control::Connections;
use tokio::sync::oneshot::Sender;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::connector::Connector;
use super::error::UpstreamError;
use super::fair_semaphore::FairSemaphore;
use super::keeping::Keeping;
use super::settings::Bounds;
use super::stream::Stream;
use crate::flow::Flow;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: Stream,
    /// Requests that were begun on it.
    pub requests: u64,
    /// When the last one was answered; 0 if none was.
    answered: u64,
    /// Set for the deadline of some request, maybe an earlier one: see
    /// [`Connection::poll_deadline`].
    timer: Option<Pin<Box<Sleep>>>,
}

/// The connections to one address.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    bounds: Bounds,
    state: Mutex<PoolState>,
    /// The application is found to close its connections, and nobody has asked yet.
    has_news: AtomicBool,
}

#[derive(Debug)]
struct PoolState {
    semaphore: FairSemaphore<Permit>,
    /// The longest idle one first.
    idle: VecDeque<Idle>,
    /// Requests that may be waiting for a process which waits for us.
    starving: usize,
    /// Requests share connections, which are not the pool's, so it keeps none.
    is_shared: bool,
    keeping: Keeping,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// The event loop in which it is registered.
    loop_index: usize,
    since: u64,
}

/// The right to use a connection in the event loop of this index.
#[derive(Debug)]
pub(super) struct Permit {
    pool: Arc<Pool>,
    loop_index: usize,
}

/// The right to a connection that is not shared, where others are.
#[derive(Debug)]
pub(super) struct ExclusiveCount(Arc<AtomicUsize>);

impl ExclusiveCount {
    /// One more of those that are counted here.
    pub fn taken(count: &Arc<AtomicUsize>) -> ExclusiveCount {
        count.fetch_add(1, Ordering::Relaxed);
        ExclusiveCount(count.clone())
    }
}

impl Drop for ExclusiveCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The use of a connection. Dropped, it closes the connection, unless it was [kept](Lease::keep).
#[derive(Debug)]
pub(super) struct Lease {
    connection: Option<Connection>,
    /// Where others share connections, this one is not kept.
    place: Option<ExclusiveCount>,
    /// Dropped last: invariant 1.
    permit: Permit,
}

/// A request that may be waiting for a process which waits for us.
#[derive(Debug)]
pub(super) struct Starving(Arc<Pool>);

impl Pool {
    pub fn new(connector: Connector, bounds: Bounds) -> Pool {
        let semaphore = FairSemaphore::new(bounds.connections);
        let state = Mutex::new(PoolState {
            semaphore,
            idle: VecDeque::new(),
            starving: 0,
            is_shared: false,
            keeping: Keeping::default(),
        });
        Pool { connector, bounds, state, has_news: AtomicBool::new(false) }
    }

    /// Whether a request would not have to wait.
    pub fn has_room(&self) -> bool {
        self.state().semaphore.free() > 0
    }

    /// Requests that have, or open, a connection.
    pub fn in_use(&self) -> usize {
        self.state().semaphore.held()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.state().semaphore.waiting()
    }

    /// Gives no more permits: requests that wait for one get an error, idle connections are closed
    /// now, others when they are given up.
    pub fn close(&self) {
        let mut state = self.state();
        state.semaphore.close();
        let closed = std::mem::take(&mut state.idle);
        drop(state);
        drop(closed);
    }

    /// How many requests the application takes at once from now on. `is_shared`: on connections
    /// that they share.
    pub fn resize(self: &Arc<Self>, requests: usize, is_shared: bool) {
        let mut state = self.state();
        state.is_shared = is_shared;
        state.semaphore.resize(requests);
        let closed = if is_shared { std::mem::take(&mut state.idle) } else { VecDeque::new() };
        let mut turns = Vec::new();
        while state.semaphore.waiting() > 0 && state.semaphore.take() {
            turns.extend(state.semaphore.give(0, tokamak_cost::now()));
        }
        drop(state);
        drop(closed);
        turns.into_iter().for_each(|turn| self.hand_over(turn));
    }

    /// Gives a permit to a request that waits for one.
    fn hand_over(self: &Arc<Self>, (waiter, loop_index): (Sender<Permit>, usize)) {
        // A request that is dropped this very moment does not take it, and it is given back again.
        drop(waiter.send(Permit { pool: self.clone(), loop_index }));
    }

    /// The right to use a connection.
    ///
    /// # Errors
    /// Fails if too many wait already, it took too long, or the pool is closed.
    pub async fn permit(
        self: &Arc<Self>,
        loop_index: usize,
        flow: Option<Flow>,
    ) -> Result<Permit, UpstreamError> {
        let turn = {
            let mut state = self.state();
            if state.semaphore.is_closed() {
                return Err(UpstreamError::Withdrawn);
            }
            if state.semaphore.take() {
                return Ok(Permit { pool: self.clone(), loop_index });
            }
            state
                .semaphore
                .wait(loop_index, flow, tokamak_cost::now(), self.bounds.queue)
                .ok_or(UpstreamError::Full)?
        };
        match timeout(self.bounds.queue_timeout, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(UpstreamError::Withdrawn),
            Err(_) => Err(UpstreamError::Waited),
        }
    }

    /// An idle connection that is as good as new. `for_sure` asks the kernel and not only the event
    /// loop, for a request that could not be repeated.
    pub fn reuse(&self, permit: Permit, for_sure: bool) -> Result<Lease, Permit> {
        loop {
            let Some(Idle { mut connection, loop_index, since }) =
                self.take_idle(permit.loop_index)
            else {
                return Err(permit);
            };
            if !connection.stream.is_quiet() || (for_sure && !connection.stream.is_quiet_now()) {
                self.note_closed(&mut self.state().keeping, connection.requests, since);
                continue;
            }
            connection.answered = since;
            if loop_index != permit.loop_index {
                // Its timer belongs to the other event loop too.
                connection.timer = None;
                match connection.stream.adopt() {
                    Ok(stream) => connection.stream = stream,
                    Err(_) => continue,
                }
            }
            return Ok(Lease::new(connection, permit));
        }
    }

    /// The idle connection used last, which is the least likely to have been closed; of the event
    /// loop of this index if it has one.
    fn take_idle(&self, loop_index: usize) -> Option<Idle> {
        let mut state = self.state();
        let own = state.idle.iter().rposition(|idle| idle.loop_index == loop_index);
        let index = own.or(state.idle.len().checked_sub(1))?;
        state.idle.remove(index)
    }

    /// A new connection. If others are idle, the request may not use them, and the one that was
    /// used the longest ago is closed for it: otherwise all processes of the application might
    /// wait for us on idle connections, and none would accept the new one.
    ///
    /// # Errors
    /// Fails if the address cannot be reached now.
    pub async fn connect(&self, permit: Permit) -> io::Result<Lease> {
        let too_many: Vec<Idle> = {
            let mut state = self.state();
            // Invariant 2.
            let surplus = state.idle.len().saturating_sub(state.semaphore.free());
            let replaced = surplus.max(1).min(state.idle.len());
            state.idle.drain(..replaced).collect()
        };
        drop(too_many);
        let stream = self.connector.connect().await?;
        let connection = Connection { stream, requests: 0, answered: 0, timer: None };
        Ok(Lease::new(connection, permit))
    }

    /// Closes the connections of an event loop that were idle for too long, or that the application
    /// has closed.
    pub fn tick(&self, loop_index: usize, now: u64) {
        let limit = self.bounds.idle.as_nanos() as u64;
        let PoolState { idle, keeping, .. } = &mut *self.state();
        idle.retain_mut(|idle| {
            if idle.loop_index != loop_index {
                return true;
            }
            let is_quiet = idle.connection.stream.is_quiet();
            if !is_quiet {
                self.note_closed(keeping, idle.connection.requests, idle.since);
            }
            is_quiet && now.saturating_sub(idle.since) <= limit
        });
    }

    /// No connection stays idle as long as the result lives.
    fn starve(self: &Arc<Self>) -> Starving {
        let mut state = self.state();
        state.starving += 1;
        let closed = std::mem::take(&mut state.idle);
        drop(state);
        drop(closed);
        Starving(self.clone())
    }

    /// No connection is kept from now on.
    pub fn keep_none(self: &Arc<Self>) {
        std::mem::forget(self.starve());
    }

    fn put_back(&self, connection: Connection, loop_index: usize) {
        let is_used_up = self.bounds.requests > 0 && connection.requests >= self.bounds.requests;
        let now = tokamak_cost::now();
        let mut state = self.state();
        if connection.requests > 1 {
            state.keeping.used_again();
        }
        let may_stay =
            !is_used_up && !state.is_shared && state.starving == 0 && !state.semaphore.is_closed();
        if may_stay && state.keeping.is_worth_it(now) {
            state.idle.push_back(Idle { connection, loop_index, since: now });
        }
    }

    /// The application has closed a connection. It had answered so many requests there, the last
    /// one at the time `answered`.
    fn note_closed(&self, keeping: &mut Keeping, responses: u64, answered: u64) {
        if responses == 1 && keeping.closed_after_one(answered, tokamak_cost::now()) {
            self.has_news.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it has just been found that the application closes each connection after its
    /// response.
    pub fn has_news(&self) -> bool {
        // Nearly always nothing is written.
        self.has_news.load(Ordering::Relaxed) && self.has_news.swap(false, Ordering::Relaxed)
    }

    /// What becomes of the connections.
    pub fn connections(&self) -> Connections {
        self.state().keeping.connections()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        // A panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are idle.
    pub fn idle_count(&self) -> usize {
        self.state().idle.len()
    }
}

impl Permit {
    /// The event loop of the request.
    pub fn loop_index(&self) -> usize {
        self.loop_index
    }
}

/// Hands the permit over to a request that waits for one.
impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.pool.state().semaphore.give(self.loop_index, tokamak_cost::now());
        if let Some(turn) = next {
            self.pool.hand_over(turn);
        }
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        self.0.state().starving -= 1;
    }
}

impl Lease {
    fn new(mut connection: Connection, permit: Permit) -> Lease {
        connection.requests += 1;
        Lease { connection: Some(connection), place: None, permit }
    }

    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("only `keep` takes it, and takes the lease with it")
    }

    /// The same, not to be kept.
    pub fn apart(self, place: Option<ExclusiveCount>) -> Lease {
        Lease { place, ..self }
    }

    /// Whether the connection had a request before.
    pub fn is_reused(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.requests > 1)
    }

    /// The application has closed the connection before it answered this request.
    pub fn note_closed(&self) {
        if let Some(Connection { requests, answered, .. }) = &self.connection {
            let pool = &self.permit.pool;
            pool.note_closed(&mut pool.state().keeping, requests - 1, *answered);
        }
    }

    /// No connection of the pool stays idle as long as the result lives.
    pub fn starve(&self) -> Starving {
        self.permit.pool.starve()
    }

    /// Keeps the connection for the next request: invariant 3 holds for it.
    pub fn keep(mut self) {
        if let Some(mut connection) = self.connection.take().filter(|_| self.place.is_none()) {
            connection.stream.stop_writing();
            self.permit.pool.put_back(connection, self.permit.loop_index);
        }
    }
}

impl Connection {
    /// Whether a deadline has passed. The timer is set once and seldom moved: one that goes off too
    /// early, for a request that has been answered long ago, is set anew then. Most requests find
    /// it set and never see it go off.
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
