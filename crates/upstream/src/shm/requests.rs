//! The state of an event loop's requests in one queue, without the lock around it.

use std::sync::Arc;
use std::task::Waker;

use tokamak_cost::{Calls, Ledger, Phase, RequestId};
use tokamak_sys::queue::{Drained, Full, Holder, Outcome, Producer, Segment, SlotId, Tickets};

use super::error::{Death, Refused, WorkerError};
use super::health::{Health, View};
use super::spooled::Spooled;
use crate::body::Body;
use crate::flow::{Flow, Turns};
use crate::spool::SpoolQuota;

mod spooling;

/// A request that has waited for so long is late, in nanoseconds; or for half of the time that it
/// may wait, if that is less.
const LATE: u64 = 1_000_000_000;

/// What the workers of a flow's requests, all together, may have before them, as a multiple of what
/// they serve at once. With one, a worker that has answered would idle until the next request is
/// queued; ten times more would keep others waiting for ten rounds of the flow's requests.
const ROUNDS: usize = 2;

/// How long requests wait, how much memory responses may take, and what is kept of each request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Longest wait for a worker, in nanoseconds.
    pub queue: u64,
    /// Bytes of a response that may lie in the front's memory before the rest goes to a file, or
    /// the worker has to wait.
    pub inbox: usize,
    /// Requests of all event loops that may wait for a worker.
    pub queued: usize,
    /// Those that this one may have in any case.
    pub share: usize,
    /// Requests that a worker serves at once.
    pub concurrency: usize,
    /// Whether the ledger of each request lies beside it, for the slow log.
    pub has_slow_log: bool,
}

/// What the queue needs of a request beside its record and its body.
#[derive(Clone, Copy, Default)]
pub struct Metadata<'a> {
    /// Its own ledger, if it has one, for the slow log.
    pub ledger: Option<&'a Ledger>,
    /// The flow that it belongs to. A flow's requests go before others only so far; the rest waits
    /// outside of the queue.
    pub flow: Option<Flow>,
}

/// The requests of one event loop that are in a queue, or of which something is left to read.
pub(super) struct Requests {
    producer: Producer,
    bounds: Bounds,
    /// Which of [`Requests::states`] has the slot.
    owners: Vec<Option<usize>>,
    states: Vec<RequestState>,
    /// Of [`Requests::states`], those that no request has.
    free: Vec<usize>,
    /// Requests that no worker had taken at the last look at each; never fewer than there are now.
    waiting: usize,
    /// Which requests of flows may be in the queue.
    turns: Turns,
    health: Health,
    /// A worker has taken one of them since the last look.
    has_moved: bool,
    /// What responses may take in files, if they may go there.
    quota: Option<Arc<SpoolQuota>>,
    /// Requests so far.
    submitted: u64,
    /// Requests whose responses fill their memory since the last look.
    crowded: Vec<RequestName>,
}

/// A request, distinguished from earlier and later ones with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestName {
    key: usize,
    number: u64,
}

/// What the client keeps for one request.
#[derive(Default)]
pub(super) struct RequestState {
    slot: Option<SlotId>,
    /// Its number among all requests of this client.
    number: u64,
    /// The flow that it belongs to, until its slot is given back.
    flow: Option<Flow>,
    /// What is to be queued when it is its flow's turn.
    parked: Option<Box<Parked>>,
    queued_at: u64,
    /// Counted in [`Requests::waiting`].
    waiting: bool,
    /// The worker that was first seen to hold the request. Its death ends the request, even if it
    /// has overwritten its claim since.
    holder: Option<Holder>,
    pub body: Body,
    /// The worker has room for more of the body, which is in a file.
    pub wants_body: bool,
    /// Response frames that come before those in the inbox, in a file.
    pub spooled: Option<Box<Spooled>>,
    /// Response frames, copied out of the ring.
    pub inbox: Vec<u8>,
    /// How often the inbox was taken.
    pub taken: u32,
    /// A task looks whether it is to go to a file.
    is_watched: bool,
    pub ended: Option<Ended>,
    pub fault: Option<WorkerError>,
    pub waker: Option<Waker>,
    /// The [`QueuedRequest`] was dropped; only the slot is still held.
    abandoned: bool,
    /// Whether any part of the response was seen.
    answered: bool,
}

/// A request that waits for its flow's turn.
struct Parked {
    record: Box<[u8]>,
    ledger: Option<Ledger>,
}

/// How a worker ended a response, by its own word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub outcome: Outcome,
    pub id: RequestId,
    pub finished_at: u64,
    pub seen_at: u64,
    pub calls: Option<Calls>,
}

impl Ended {
    pub fn stamp(&self, ledger: &mut Ledger) {
        // The worker's times are its own word: they count within what the front knows itself.
        ledger.set_request(self.id);
        if let Some(calls) = &self.calls {
            ledger.add_calls(calls);
        }
        ledger.stamp(Phase::Queue, self.id.taken_at().min(self.seen_at));
        ledger.stamp(Phase::Php, self.finished_at.min(self.seen_at));
        ledger.stamp(Phase::Relay, self.seen_at);
    }
}

impl Requests {
    /// None yet. `index` is that of the event loop.
    pub fn new(
        segment: Arc<Segment>,
        index: u16,
        tickets: Arc<Tickets>,
        bounds: Bounds,
        quota: Option<Arc<SpoolQuota>>,
    ) -> Requests {
        let slots = segment.geometry().slots_per_loop.into();
        Requests {
            producer: Producer::new(segment, index, tickets),
            bounds,
            owners: vec![None; slots],
            states: Vec::new(),
            free: Vec::new(),
            waiting: 0,
            turns: Turns::new(ROUNDS),
            health: Health::default(),
            has_moved: false,
            quota,
            submitted: 0,
            crowded: Vec::new(),
        }
    }

    /// Queues a request, or lets it wait for its flow's turn, and gives its key.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit(
        &mut self,
        record: &[u8],
        mut body: Body,
        metadata: Metadata<'_>,
        now: u64,
    ) -> Result<usize, (Refused, Body)> {
        let Metadata { ledger, flow } = metadata;
        let has_turn = flow.is_none_or(|flow| self.take_turn(flow));
        // A web server's request over FastCGI has no ledger: its time begins here.
        let fresh = (self.bounds.has_slow_log && ledger.is_none())
            .then(|| Ledger::begin(tokamak_cost::now()));
        let ledger = ledger.filter(|_| self.bounds.has_slow_log).or(fresh.as_ref());
        let placed = match self.check(record, has_turn) {
            Ok(()) if has_turn => self.enqueue(record, &mut body, ledger).map(Some),
            checked => checked.map(|()| None),
        };
        let slot = match placed {
            Ok(slot) => slot,
            Err(refused) => {
                if let Some(flow) = flow.filter(|_| has_turn) {
                    self.turns.give_back(flow);
                }
                return Err((refused, body));
            }
        };
        let key = self.free.pop().unwrap_or_else(|| {
            self.states.push(RequestState::default());
            self.states.len() - 1
        });
        self.submitted += 1;
        let number = self.submitted;
        self.states[key] =
            RequestState { queued_at: now, number, flow, body, ..RequestState::default() };
        match (slot, flow) {
            (Some(slot), _) => self.queued(key, slot),
            (None, flow) => {
                let parked = Parked { record: record.into(), ledger: ledger.cloned() };
                self.states[key].parked = Some(Box::new(parked));
                flow.into_iter().for_each(|flow| self.turns.wait(flow, key));
            }
        }
        Ok(key)
    }

    fn take_turn(&mut self, flow: Flow) -> bool {
        if self.turns.take(flow) {
            return true;
        }
        self.count_turns();
        self.turns.take(flow)
    }

    /// Counts how many turns a flow has: there may be more workers now, or fewer.
    fn count_turns(&mut self) {
        let at_once = self.producer.segment().worker_count().max(1) * self.bounds.concurrency;
        self.turns.set_most(ROUNDS * at_once);
    }

    /// Whether a request with this record may wait, in the queue or for its flow's turn.
    fn check(&mut self, record: &[u8], has_turn: bool) -> Result<(), Refused> {
        if self.producer.segment().is_barren() {
            return Err(Refused::Barren);
        }
        if self.is_full(has_turn) {
            self.recount();
            if self.is_full(has_turn) {
                return Err(Refused::Full);
            }
        }
        // Of one that is queued at once the producer says so itself.
        if has_turn || self.producer.fits(record) { Ok(()) } else { Err(Refused::TooLarge) }
    }

    /// Puts a request into the queue, with as much of its body as there is room for.
    fn enqueue(
        &mut self,
        record: &[u8],
        body: &mut Body,
        ledger: Option<&Ledger>,
    ) -> Result<SlotId, Refused> {
        let inline: &[u8] = match &*body {
            Body::Memory(bytes) => bytes,
            _ => b"",
        };
        let submitted = self.producer.submit_booked(record, body.left(), inline, ledger);
        let (slot, taken) = submitted.map_err(|full| match full {
            Full::Slots => Refused::Full,
            Full::Record => Refused::TooLarge,
        })?;
        if let Body::Memory(bytes) = body {
            bytes::Buf::advance(bytes, taken);
        }
        Ok(slot)
    }

    /// A request has got this slot.
    fn queued(&mut self, key: usize, slot: SlotId) {
        self.owners[slot.index()] = Some(key);
        self.waiting += 1;
        let state = &mut self.states[key];
        state.slot = Some(slot);
        state.waiting = true;
        if state.body.left() > 0 {
            self.refill(key);
        }
    }

    /// Queues the requests of the flow whose turn it is.
    fn advance(&mut self, flow: Flow) {
        if self.turns.waiting() == 0 {
            return;
        }
        self.count_turns();
        while let Some(key) = self.turns.next_of(flow) {
            let Some(parked) = self.states[key].parked.take() else {
                unreachable!("what waits for a turn is parked")
            };
            let mut body = std::mem::take(&mut self.states[key].body);
            let queued = self.enqueue(&parked.record, &mut body, parked.ledger.as_ref());
            self.states[key].body = body;
            match queued {
                Ok(slot) => self.queued(key, slot),
                Err(_) => {
                    // There is no slot for anybody: `tick` tries again.
                    self.states[key].parked = Some(parked);
                    self.turns.wait_again(flow, key);
                    return;
                }
            }
        }
    }

    /// A request does not wait for its flow's turn any more.
    fn unpark(&mut self, key: usize) {
        let state = &mut self.states[key];
        state.parked = None;
        state.body = Body::Empty;
        if let Some(flow) = state.flow.take() {
            self.turns.leave(flow, key);
        }
    }

    /// A worker has died: fails the requests that it held.
    pub fn worker_died(&mut self, instance: u32, death: Death) {
        for slot in 0..self.owners.len() {
            let Some(key) = self.owners[slot] else { continue };
            let Some(id) = self.states[key].slot else { continue };
            let dead = Holder::Worker(instance);
            if self.producer.holder(id) == dead || self.states[key].holder == Some(dead) {
                let is_running = self.producer.is_running(id);
                let death = death.as_seen_by(is_running, self.producer.is_overdue(id));
                self.lose(key, death);
            }
        }
        // The wake-up for a queued request may have gone to the dead one.
        self.wake_for_backlog();
    }

    /// How many are queued or running, or wait for their flow's turn.
    pub fn running(&self) -> usize {
        self.owners.iter().flatten().count() + self.turns.waiting()
    }

    /// All workers are dead: requests that still wait end with an error.
    pub fn give_up(&mut self) {
        // Before the others, whose ends would be turns.
        for key in 0..self.states.len() {
            if self.states[key].parked.is_some() {
                self.unpark(key);
                self.fail(key, WorkerError::Died { death: Death::Crashed, answered: false });
            }
        }
        for slot in 0..self.owners.len() {
            if let Some(key) = self.owners[slot] {
                self.lose(key, Death::Crashed);
            }
        }
    }

    /// Ends the waits that have become too long. `true`: requests wait, and no worker sleeps.
    pub fn tick(&mut self, now: u64) -> bool {
        let is_barren = self.producer.segment().is_barren();
        let why = if is_barren { WorkerError::Barren } else { WorkerError::Waited };
        let oldest = now.saturating_sub(self.bounds.queue);
        for key in 0..self.states.len() {
            let state = &self.states[key];
            let is_over = is_barren || state.queued_at < oldest;
            if is_over && state.parked.is_some() {
                self.unpark(key);
                self.fail(key, why);
            } else if let (true, Some(slot)) = (is_over && state.waiting, state.slot)
                && self.producer.withdraw(slot)
            {
                self.fail(key, why);
            }
        }
        self.recount();
        self.count_turns();
        for flow in self.turns.ready() {
            self.advance(flow);
        }
        !self.wake_for_backlog()
    }

    /// Wakes a worker if requests wait. `false`: none sleeps.
    fn wake_for_backlog(&mut self) -> bool {
        self.producer.backlog() == 0 || self.producer.wake_worker()
    }

    /// What is wrong with the queue, if it cannot work any more.
    pub fn examine(&mut self, now: u64) -> Option<&'static str> {
        let has_moved = std::mem::take(&mut self.has_moved);
        let view = self.view(has_moved, now);
        self.health.look(view)
    }

    /// Takes in what has happened, before the event loop sleeps. `true`: requests wait, and no
    /// worker sleeps.
    pub fn fall_asleep(&mut self) -> bool {
        let starved = self.producer.wake_owed();
        self.producer.fall_asleep();
        // What is found may wake no task, and the loop sleep all the same: the bell stays on.
        self.sweep();
        // An answer may have been the turn of a flow's next request.
        (self.producer.owes() && self.producer.wake_owed()) || starved
    }

    /// As [`Requests::fall_asleep`], for an event loop that goes on.
    pub fn attend(&mut self) -> bool {
        let starved = self.producer.wake_owed();
        self.sweep();
        starved
    }

    /// Whether workers are still to be woken.
    #[cfg(test)]
    pub fn owes(&self) -> bool {
        self.producer.owes()
    }

    pub fn is_asleep(&self) -> bool {
        self.producer.is_asleep()
    }

    /// The event loop is awake: takes in the answers for which it was rung.
    pub fn wake_up(&mut self) {
        self.producer.wake_up();
        self.sweep();
    }

    pub fn state(&mut self, key: usize) -> &mut RequestState {
        &mut self.states[key]
    }

    /// The process id of the worker that was first seen to hold the request.
    pub fn worker(&self, key: usize) -> Option<u32> {
        match self.states[key].holder {
            Some(Holder::Worker(instance)) => self.producer.segment().pid_of(instance),
            _ => None,
        }
    }

    /// Looks at every slot in which something happened.
    fn sweep(&mut self) {
        if self.producer.is_idle() {
            return;
        }
        for slot in self.producer.take_ready() {
            if let Some(key) = self.owners[slot.index()] {
                self.collect(key);
            }
        }
    }

    /// Moves what the worker has published into the exchange, gives it more of the body, and wakes
    /// the request's task. Frees the slot when the worker has finished.
    pub fn collect(&mut self, key: usize) {
        self.collect_within(key, self.bounds.inbox);
    }

    fn collect_within(&mut self, key: usize, bound: usize) {
        let state = &mut self.states[key];
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
        let state = &mut self.states[key];
        if state.abandoned {
            state.inbox.clear();
        } else if state.inbox.len() >= bound {
            return;
        }
        let before = state.inbox.len();
        match self.producer.drain(slot, &mut state.inbox) {
            Ok(Drained::Open) => {
                state.answered |= state.inbox.len() > before;
                if state.inbox.len() >= bound && !state.is_watched && self.quota.is_some() {
                    state.is_watched = true;
                    self.crowded.push(RequestName { key, number: state.number });
                }
            }
            Ok(Drained::Finished { outcome, id, finished_at }) => {
                let seen_at = tokamak_cost::now();
                let calls = self.producer.calls(slot, state.queued_at, seen_at);
                state.ended = Some(Ended { outcome, id, finished_at, seen_at, calls });
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
        if let Some(waker) = self.states[key].waker.take() {
            waker.wake();
        }
    }

    fn refill(&mut self, key: usize) {
        let state = &mut self.states[key];
        let Some(slot) = state.slot else { return };
        // A file is read by the exchange's own task: here the event loop may be about to sleep.
        state.wants_body = matches!(state.body, Body::Spool { .. });
        let producer = &mut self.producer;
        state.body.pour(|bytes| producer.feed(slot, bytes));
    }

    /// Gives the worker more of a body, which was read from its file; as much as it has room for.
    pub fn feed(&mut self, key: usize, bytes: &[u8]) {
        let state = &mut self.states[key];
        let Some(slot) = state.slot else { return };
        let taken = self.producer.feed(slot, bytes);
        state.body.advance(taken);
        // With less room than that it says when it has more.
        state.wants_body = taken == bytes.len() && state.body.left() > 0;
    }

    /// The file of a body cannot be read.
    pub fn lose_body(&mut self, key: usize) {
        let state = &mut self.states[key];
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
        let state = &self.states[key];
        if state.slot.is_some() {
            let answered = state.answered;
            self.fail(key, WorkerError::Died { death, answered });
        }
    }

    fn fail(&mut self, key: usize, fault: WorkerError) {
        self.states[key].fault = Some(fault);
        self.give_back(key);
        if let Some(waker) = self.states[key].waker.take() {
            waker.wake();
        }
    }

    /// Gives the slot back; an abandoned request ends with it.
    fn give_back(&mut self, key: usize) {
        let state = &mut self.states[key];
        let Some(slot) = state.slot.take() else { return };
        if state.waiting {
            state.waiting = false;
            self.waiting -= 1;
        }
        state.body = Body::Empty;
        self.owners[slot.index()] = None;
        self.producer.release(slot);
        let flow = state.flow.take();
        if state.abandoned {
            *state = RequestState::default();
            self.free.push(key);
        }
        if let Some(flow) = flow {
            self.turns.give_back(flow);
            self.advance(flow);
        }
    }

    /// The client has gone: withdraws the request, or drops the rest of its response.
    pub fn abandon(&mut self, key: usize) {
        if self.states[key].parked.is_some() {
            self.unpark(key);
        }
        let state = &mut self.states[key];
        state.abandoned = true;
        state.waker = None;
        state.spooled = None;
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
        if self.states[key].slot.is_some() {
            self.collect(key);
        }
    }

    /// Whether no further request may wait: not because of others that were given up, which the
    /// backlog counts for a while, as long as this event loop has less than its share.
    /// Those that wait for their flow's turn count for others of the kind alone.
    fn is_full(&self, has_turn: bool) -> bool {
        let outside = if has_turn { 0 } else { self.turns.waiting() };
        self.waiting + outside >= self.bounds.share
            && self.producer.backlog() as usize + outside >= self.bounds.queued
    }

    fn view(&self, has_moved: bool, now: u64) -> View {
        let segment = self.producer.segment();
        let late = LATE.min(self.bounds.queue / 2);
        let is_late =
            |state: &RequestState| state.waiting && now.saturating_sub(state.queued_at) > late;
        let is_astray = |state: &RequestState| {
            let Some(slot) = state.slot else { return false };
            let is_nobody_at_it = match state.holder {
                Some(Holder::Worker(instance)) => !segment.is_at_work(instance),
                Some(Holder::Withdrawn) => true,
                Some(Holder::Queued) | None => false,
            };
            // What a worker has finished lies there for as long as a slow client reads it.
            is_nobody_at_it && !self.producer.has_ended(slot)
        };
        let has_waited = self.states.iter().any(is_late);
        View {
            backlog: self.producer.backlog(),
            cells: self.producer.cells(),
            has_waited,
            has_moved,
            is_idle: has_waited && segment.has_idle_worker(),
            is_astray: self.states.iter().any(is_astray),
        }
    }

    fn recount(&mut self) {
        for key in 0..self.states.len() {
            let state = &mut self.states[key];
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
