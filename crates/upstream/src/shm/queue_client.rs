use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use tokamak_cost::{Ledger, Phase};
use tokamak_sys::queue::{Drained, Full, Holder, Outcome, Producer, Segment, SlotId};

use super::health::{Health, View};
use super::queued_request::QueuedRequest;
use crate::body::Body;

/// A request that has waited for so long is late, in nanoseconds; or for half of the time that it
/// may wait, if that is less.
const LATE: u64 = 1_000_000_000;

/// How long requests wait, and how much memory responses may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Longest wait for a worker, in nanoseconds.
    pub queue: u64,
    /// Bytes of a response that may lie in the front's memory before the worker has to wait.
    pub inbox: usize,
    /// Requests of all event loops that may wait for a worker.
    pub queued: usize,
    /// Those that this one may have in any case.
    pub share: usize,
}

/// Why a worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It crashed or was killed.
    Crashed,
    /// It was ended because its request took too long.
    TimedOut,
}

/// Why a request has no response, or only a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerError {
    /// No worker was free in time; nothing has run.
    Waited,
    /// The worker died.
    Died {
        /// How.
        death: Death,
        /// Whether it had published a part of the response.
        answered: bool,
    },
    /// What the worker wrote is no response.
    Malformed,
    /// The body could not be read back from its spool file.
    Spool,
}

/// Why a request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full.
    Full,
    /// The request's head does not fit a slot.
    TooLarge,
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkerError::Waited => "no worker was free in time",
            WorkerError::Died { death: Death::Crashed, .. } => "the worker died",
            WorkerError::Died { death: Death::TimedOut, .. } => {
                "the request took too long and its worker was ended"
            }
            WorkerError::Malformed => "the worker's response is damaged",
            WorkerError::Spool => "the spooled request body could not be read back",
        })
    }
}

impl std::error::Error for WorkerError {}

/// One event loop's access to one pool.
pub struct QueueClient {
    inner: Mutex<Inner>,
    /// Tells the supervisor that a request waits and no worker could be woken.
    want: Option<Box<dyn Fn() + Send + Sync>>,
}

pub(super) struct Inner {
    producer: Producer,
    bounds: Bounds,
    /// Which request has the slot.
    owners: Vec<Option<usize>>,
    exchanges: Vec<RequestState>,
    free: Vec<usize>,
    /// Requests that no worker had taken at the last look at each; never fewer than there are now.
    waiting: usize,
    health: Health,
    /// A worker has taken one of them since the last look.
    has_moved: bool,
}

/// What the client keeps for one request.
#[derive(Default)]
pub(super) struct RequestState {
    slot: Option<SlotId>,
    queued_at: u64,
    /// Counted in [`Inner::waiting`].
    waiting: bool,
    /// The worker that was first seen to hold the request. Its death ends the request, even if it
    /// has overwritten its claim since.
    holder: Option<Holder>,
    pub body: Body,
    /// The worker has room for more of the body, which is in a file.
    pub wants_body: bool,
    /// Response frames, copied out of the ring.
    pub inbox: Vec<u8>,
    pub ended: Option<Ended>,
    pub fault: Option<WorkerError>,
    pub waker: Option<Waker>,
    /// The [`QueuedRequest`] was dropped; only the slot is still held.
    abandoned: bool,
    /// Whether any part of the response was seen.
    answered: bool,
}

/// How a worker ended a response, by its own word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub outcome: Outcome,
    pub claimed_at: u64,
    pub finished_at: u64,
    pub seen_at: u64,
}

impl Ended {
    pub fn stamp(&self, ledger: &mut Ledger) {
        // The worker's times are its own word: they count within what the front knows itself.
        ledger.stamp(Phase::Queue, self.claimed_at.min(self.seen_at));
        ledger.stamp(Phase::Php, self.finished_at.min(self.seen_at));
        ledger.stamp(Phase::Relay, self.seen_at);
    }
}

impl QueueClient {
    /// The access of event loop `index`. All loops of a front share `tail`. `want` is called
    /// (seldom) when a request waits and no worker sleeps.
    pub fn new(
        segment: Arc<Segment>,
        index: u16,
        tail: Arc<AtomicU32>,
        bounds: Bounds,
        want: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> QueueClient {
        let slots = segment.geometry().slots_per_loop.into();
        QueueClient {
            inner: Mutex::new(Inner {
                producer: Producer::new(segment, index, tail),
                bounds,
                owners: vec![None; slots],
                exchanges: Vec::new(),
                free: Vec::new(),
                waiting: 0,
                health: Health::default(),
                has_moved: false,
            }),
            want,
        }
    }

    /// Queues a request. A worker that sleeps is woken for it when the event loop has done what it
    /// can do ([`super::Notifier::before_sleep`]): by then a busy worker may have taken it, and the
    /// wake-up is saved.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit_at(
        self: &Arc<Self>,
        record: &[u8],
        body: Body,
        now: u64,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        if inner.is_full() {
            inner.recount();
            if inner.is_full() {
                return Err((Refused::Full, body));
            }
        }
        let inline: &[u8] = match &body {
            Body::Memory(bytes) => bytes,
            _ => b"",
        };
        let (slot, taken) = match inner.producer.submit(record, body.left(), inline) {
            Ok(taken) => taken,
            Err(Full::Slots) => return Err((Refused::Full, body)),
            Err(Full::Record) => return Err((Refused::TooLarge, body)),
        };
        let has_file = matches!(body, Body::Spool { .. });
        let mut body = body;
        if let Body::Memory(bytes) = &mut body {
            bytes::Buf::advance(bytes, taken);
        }
        let key = inner.free.pop().unwrap_or_else(|| {
            inner.exchanges.push(RequestState::default());
            inner.exchanges.len() - 1
        });
        inner.owners[slot.index()] = Some(key);
        inner.waiting += 1;
        inner.exchanges[key] = RequestState {
            slot: Some(slot),
            queued_at: now,
            waiting: true,
            body,
            ..RequestState::default()
        };
        if inner.exchanges[key].body.left() > 0 {
            inner.refill(key);
        }
        drop(guard);
        Ok(QueuedRequest::new(self.clone(), key, has_file))
    }

    #[cfg(test)]
    pub(super) fn submit(
        self: &Arc<Self>,
        record: &[u8],
        body: Body,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        self.submit_at(record, body, tokamak_cost::now())
    }

    /// A worker has died: fails the requests that it held.
    pub fn worker_died(&self, instance: u32, death: Death) {
        let mut inner = self.lock();
        for slot in 0..inner.owners.len() {
            let Some(key) = inner.owners[slot] else { continue };
            let Some(id) = inner.exchanges[key].slot else { continue };
            let dead = Holder::Worker(instance);
            if inner.producer.holder(id) == dead || inner.exchanges[key].holder == Some(dead) {
                inner.lose(key, death);
            }
        }
        // The wake-up for a queued request may have gone to the dead one.
        if inner.producer.backlog() > 0 {
            inner.producer.wake_worker();
        }
    }

    /// Whether no request is in the queue.
    pub fn is_idle(&self) -> bool {
        self.lock().owners.iter().all(Option::is_none)
    }

    /// All workers are dead: requests that still wait end with an error.
    pub fn give_up(&self) {
        let mut inner = self.lock();
        for slot in 0..inner.owners.len() {
            if let Some(key) = inner.owners[slot] {
                inner.lose(key, Death::Crashed);
            }
        }
    }

    /// Ends the waits that have become too long. Called a few times a second.
    pub fn tick(&self, now: u64) {
        let mut inner = self.lock();
        let oldest = now.saturating_sub(inner.bounds.queue);
        for key in 0..inner.exchanges.len() {
            let state = &inner.exchanges[key];
            if let (true, Some(slot)) = (state.waiting && state.queued_at < oldest, state.slot)
                && inner.producer.withdraw(slot)
            {
                inner.fail(key, WorkerError::Waited);
            }
        }
        inner.recount();
        if inner.producer.backlog() > 0 {
            let woken = inner.producer.wake_worker();
            drop(inner);
            if !woken && let Some(want) = &self.want {
                want();
            }
        }
    }

    /// What is wrong with the queue, if it cannot work any more. Called after
    /// [`QueueClient::tick`].
    pub fn examine(&self, now: u64) -> Option<&'static str> {
        let mut inner = self.lock();
        let has_moved = std::mem::take(&mut inner.has_moved);
        let view = inner.view(has_moved, now);
        inner.health.look(view)
    }

    /// Requests of this event loop that are queued or running.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.lock().owners.iter().flatten().count()
    }

    pub(super) fn fall_asleep(&self) {
        let mut inner = self.lock();
        let starved = inner.producer.wake_owed();
        inner.producer.fall_asleep();
        // What is found may wake no task, and the loop sleep all the same: the bell stays on.
        inner.sweep();
        drop(inner);
        if starved && let Some(want) = &self.want {
            want();
        }
    }

    /// Does what is otherwise done when the event loop falls asleep: for a loop that has so much to
    /// do that it never does.
    pub fn attend(&self) {
        let mut inner = self.lock();
        let starved = inner.producer.wake_owed();
        inner.sweep();
        drop(inner);
        if starved && let Some(want) = &self.want {
            want();
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.lock().producer.is_asleep()
    }

    pub(super) fn wake_up(&self) {
        self.lock().producer.wake_up();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock is held is a bug that has been reported; the state may still be
        // used to end the other exchanges.
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    pub fn state(&mut self, key: usize) -> &mut RequestState {
        &mut self.exchanges[key]
    }

    /// The process id of the worker that was first seen to hold the request.
    pub fn worker(&self, key: usize) -> Option<u32> {
        match self.exchanges[key].holder {
            Some(Holder::Worker(instance)) => self.producer.segment().pid_of(instance),
            _ => None,
        }
    }

    /// Looks at every slot in which something happened.
    fn sweep(&mut self) {
        let mut ready = [0usize; 64];
        let mut count = 0;
        let mut more = Vec::new();
        let owners = &self.owners;
        self.producer.for_each_ready(|id| {
            let Some(key) = owners[id.index()] else { return };
            if count < ready.len() {
                ready[count] = key;
                count += 1;
            } else {
                more.push(key);
            }
        });
        for key in ready[..count].iter().copied().chain(more) {
            self.collect(key);
        }
    }

    /// Moves what the worker has published into the exchange, gives it more of the body, and wakes
    /// the request's task. Frees the slot when the worker has finished.
    pub fn collect(&mut self, key: usize) {
        self.collect_within(key, self.bounds.inbox);
    }

    fn collect_within(&mut self, key: usize, bound: usize) {
        let state = &mut self.exchanges[key];
        let Some(slot) = state.slot else { return };
        if state.waiting {
            match self.producer.holder(slot) {
                // A ready bit for a request that no worker has taken: a worker lies.
                Holder::Queued => return,
                holder => {
                    state.holder = Some(holder);
                    state.waiting = false;
                    self.waiting -= 1;
                    self.has_moved = true;
                }
            }
        }
        if state.body.left() > 0 {
            self.refill(key);
        }
        let state = &mut self.exchanges[key];
        if state.abandoned {
            state.inbox.clear();
        } else if state.inbox.len() >= bound {
            return;
        }
        let before = state.inbox.len();
        match self.producer.drain(slot, &mut state.inbox) {
            Ok(Drained::Open) => state.answered |= state.inbox.len() > before,
            Ok(Drained::Finished { outcome, claimed_at, finished_at }) => {
                state.ended =
                    Some(Ended { outcome, claimed_at, finished_at, seen_at: tokamak_cost::now() });
                self.give_back(key);
            }
            Err(_) => {
                state.fault = Some(WorkerError::Malformed);
                // The slot stays taken until the worker is done with it or dead.
                if self.producer.has_ended(slot) {
                    self.give_back(key);
                } else {
                    self.producer.abort(slot);
                }
            }
        }
        if let Some(waker) = self.exchanges[key].waker.take() {
            waker.wake();
        }
    }

    fn refill(&mut self, key: usize) {
        let state = &mut self.exchanges[key];
        let Some(slot) = state.slot else { return };
        // A file is read by the exchange's own task: here the event loop may be about to sleep.
        state.wants_body = matches!(state.body, Body::Spool { .. });
        let producer = &mut self.producer;
        state.body.pour(|bytes| producer.feed(slot, bytes));
    }

    /// Gives the worker more of a body, which was read from its file; as much as it has room for.
    pub fn feed(&mut self, key: usize, bytes: &[u8]) {
        let state = &mut self.exchanges[key];
        let Some(slot) = state.slot else { return };
        let taken = self.producer.feed(slot, bytes);
        state.body.advance(taken);
        // With less room than that it says when it has more.
        state.wants_body = taken == bytes.len() && state.body.left() > 0;
    }

    /// The file of a body cannot be read.
    pub fn lose_body(&mut self, key: usize) {
        let state = &mut self.exchanges[key];
        let Some(slot) = state.slot else { return };
        state.body = Body::Empty;
        state.wants_body = false;
        state.fault = Some(WorkerError::Spool);
        self.producer.abort(slot);
    }

    /// The worker that has the request is dead. It may have finished before: everything that it
    /// left in the slot counts, however much that is.
    fn lose(&mut self, key: usize, death: Death) {
        self.collect_within(key, usize::MAX);
        let state = &self.exchanges[key];
        if state.slot.is_some() {
            let answered = state.answered;
            self.fail(key, WorkerError::Died { death, answered });
        }
    }

    fn fail(&mut self, key: usize, fault: WorkerError) {
        self.exchanges[key].fault = Some(fault);
        self.give_back(key);
        if let Some(waker) = self.exchanges[key].waker.take() {
            waker.wake();
        }
    }

    /// Gives the slot back; an abandoned request ends with it.
    fn give_back(&mut self, key: usize) {
        let state = &mut self.exchanges[key];
        let Some(slot) = state.slot.take() else { return };
        if state.waiting {
            state.waiting = false;
            self.waiting -= 1;
        }
        state.body = Body::Empty;
        self.owners[slot.index()] = None;
        self.producer.release(slot);
        if state.abandoned {
            *state = RequestState::default();
            self.free.push(key);
        }
    }

    /// The client has gone: withdraws the request, or drops the rest of its response.
    pub fn abandon(&mut self, key: usize) {
        let state = &mut self.exchanges[key];
        state.abandoned = true;
        state.waker = None;
        match state.slot {
            None => {
                *state = RequestState::default();
                self.free.push(key);
            }
            Some(slot) if self.producer.withdraw(slot) => self.give_back(key),
            Some(slot) => {
                self.producer.abort(slot);
                self.collect(key);
            }
        }
    }

    /// What was taken out of the inbox may have made room.
    pub fn resume(&mut self, key: usize) {
        if self.exchanges[key].slot.is_some() {
            self.collect(key);
        }
    }

    /// Whether no further request may wait: not because of others that were given up, which the
    /// backlog counts for a while, as long as this event loop has less than its share.
    fn is_full(&self) -> bool {
        self.waiting >= self.bounds.share && self.producer.backlog() as usize >= self.bounds.queued
    }

    fn view(&self, has_moved: bool, now: u64) -> View {
        let segment = self.producer.segment();
        let late = LATE.min(self.bounds.queue / 2);
        let is_late =
            |state: &RequestState| state.waiting && now.saturating_sub(state.queued_at) > late;
        let is_astray = |state: &RequestState| {
            let nobody = match state.holder {
                Some(Holder::Worker(instance)) => segment.pid_of(instance).is_none(),
                Some(Holder::Withdrawn) => true,
                Some(Holder::Queued) | None => false,
            };
            state.slot.is_some() && nobody
        };
        let has_waited = self.exchanges.iter().any(is_late);
        View {
            backlog: self.producer.backlog(),
            cells: self.producer.cells(),
            has_waited,
            has_moved,
            is_idle: has_waited && segment.has_idle_worker(),
            is_astray: self.exchanges.iter().any(is_astray),
        }
    }

    fn recount(&mut self) {
        for key in 0..self.exchanges.len() {
            let state = &mut self.exchanges[key];
            if let (true, Some(slot)) = (state.waiting, state.slot)
                && let holder = self.producer.holder(slot)
                && holder != Holder::Queued
            {
                state.holder = Some(holder);
                state.waiting = false;
                self.waiting -= 1;
                self.has_moved = true;
            }
        }
    }
}
