//! The front's side: one [`Producer`] for each event loop.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use tokamak_cost::{Calls, Ledger, RequestId};

use super::fifo::Fifo;
use super::frame::Malformed;
use super::job::Outcome;
use super::layout::*;
use super::segment::Segment;

/// Withdrawn requests that the head is moved past at once: some microseconds. It bounds the loop if
/// a worker moves the head about at the same time. With a tenth, clearing a full queue would take
/// several looks; ten times more could be felt by other requests.
const LONGEST_PASS: u32 = 4096;

/// A slot of this producer: taken by [`Producer::submit`], given back by [`Producer::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(u16);

impl SlotId {
    /// Position below the geometry's `slots_per_loop`.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The slots that [`Producer::take_ready`] has found marked, in their order. An event loop looks
/// several times for each request and finds nothing or one slot, so it must cost next to nothing:
/// as a chain of iterators over all words it took a thousand instructions of each request.
#[derive(Debug)]
pub struct Ready {
    words: [u64; READY_WORDS],
    /// A bit for each word that may have marks left.
    marked: u32,
    slots: usize,
}

impl Iterator for Ready {
    type Item = SlotId;

    fn next(&mut self) -> Option<SlotId> {
        while self.marked != 0 {
            let at = self.marked.trailing_zeros() as usize;
            let word = &mut self.words[at];
            if *word != 0 {
                let slot = at * 64 + word.trailing_zeros() as usize;
                *word &= *word - 1;
                return (slot < self.slots).then_some(SlotId(slot as u16));
            }
            self.marked &= self.marked - 1;
        }
        None
    }
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// No slot is free.
    Slots,
    /// The record does not fit a slot.
    Record,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Slots => "the queue is full",
            Full::Record => "the request's head is larger than a queue slot",
        })
    }
}

impl std::error::Error for Full {}

/// The holder of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Still in the queue.
    Queued,
    /// The worker with this instance number.
    Worker(u32),
    /// It was withdrawn.
    Withdrawn,
}

/// What [`Producer::drain`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The response goes on.
    Open,
    /// All has been read, and the worker is done with the slot.
    Finished {
        /// How it ended.
        outcome: Outcome,
        /// The request's name, with the time of its claim by the worker's own word.
        id: RequestId,
        /// When the worker finished, by its own word, in nanoseconds.
        finished_at: u64,
    },
}

/// How many tickets were given out, out of the workers' reach. The event loops of a front share it
/// and write it with every request, so it has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tickets(AtomicU32);

impl Tickets {
    /// As if so many had been given out.
    pub fn from(count: u32) -> Tickets {
        Tickets(AtomicU32::new(count))
    }
}

/// One event loop's end of the queue. Private state is kept outside of the segment.
pub struct Producer {
    segment: Arc<Segment>,
    index: u16,
    tickets: Arc<Tickets>,
    /// The head when it was last looked at: it moves with every request, on a line that all
    /// processors want.
    head_seen: Cell<u32>,
    free: Vec<u16>,
    slots: Vec<Mine>,
    /// Workers that are to be woken.
    owed: u32,
}

/// What the front remembers of a slot: all that it must not read back from shared memory.
#[derive(Clone, Copy, Default)]
struct Mine {
    ticket: u32,
    body_at: u32,
    body_left: u64,
    body_tail: u64,
    response_head: u64,
}

impl Producer {
    /// The end for event loop `index`. All loops of one front share `tickets`.
    ///
    /// # Panics
    /// If the geometry has no such loop.
    pub fn new(segment: Arc<Segment>, index: u16, tickets: Arc<Tickets>) -> Producer {
        let geometry = segment.geometry();
        assert!(index < geometry.loops);
        let head = segment.head().load(Ordering::Acquire);
        Producer {
            segment,
            index,
            head_seen: Cell::new(head),
            tickets,
            // The last slot given back is taken first: its memory is warm.
            free: (0..geometry.slots_per_loop).rev().collect(),
            slots: vec![Mine::default(); geometry.slots_per_loop.into()],
            owed: 0,
        }
    }

    /// Queues a request: its record, the length of its body and as much of the body as is there
    /// already and fits. Returns the slot and how many body bytes were taken; the rest goes through
    /// [`Producer::feed`]. No worker is woken before [`Producer::wake_owed`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn submit(
        &mut self,
        record: &[u8],
        body_len: u64,
        body: &[u8],
    ) -> Result<(SlotId, usize), Full> {
        self.submit_booked(record, body_len, body, None)
    }

    /// The same, with the request's ledger so far for the slow log. Of a pool, either all requests
    /// have one or none: a slot keeps that of the request before.
    ///
    /// # Errors
    /// [`Full`].
    pub fn submit_booked(
        &mut self,
        record: &[u8],
        body_len: u64,
        body: &[u8],
        ledger: Option<&Ledger>,
    ) -> Result<(SlotId, usize), Full> {
        let geometry = self.segment.geometry();
        if !self.fits(record) {
            return Err(Full::Record);
        }
        let body_at = body_at(record);
        // A worker may have written any head: the sum must not overflow.
        let is_full =
            |queued: u32| queued.saturating_add(geometry.loops.into()) >= geometry.cells();
        let at_most = self.tickets.0.load(Ordering::Relaxed).wrapping_sub(self.head_seen.get());
        if is_full(at_most) && is_full(self.backlog()) {
            return Err(Full::Slots);
        }
        let id = self.free.pop().ok_or(Full::Slots)?;
        let slot = self.global(SlotId(id));
        let head = self.segment.slot(slot);
        self.slots[usize::from(id)] = Mine {
            ticket: 0,
            body_at: body_at as u32,
            body_left: body_len,
            body_tail: 0,
            response_head: 0,
        };
        self.segment.request_area(slot, 0).put(0, record);
        head.record_len.store(record.len() as u32, Ordering::Relaxed);
        head.body_at.store(body_at as u32, Ordering::Relaxed);
        head.body_len.store(body_len, Ordering::Relaxed);
        head.aborted.store(0, Ordering::Relaxed);
        head.worker.outcome.store(0, Ordering::Relaxed);
        head.worker.claimed_at.store(0, Ordering::Relaxed);
        head.body_tail.store(0, Ordering::Relaxed);
        head.worker.body_head.store(0, Ordering::Relaxed);
        head.response_head.store(0, Ordering::Relaxed);
        head.worker.response_tail.store(0, Ordering::Relaxed);
        head.worker.waits.store(0, Ordering::Relaxed);
        head.worker.watcher.store(0, Ordering::Relaxed);
        if let Some(ledger) = ledger {
            head.booked.set(ledger);
        }
        let taken = put_body(&self.segment, slot, &mut self.slots[usize::from(id)], body);

        let (ticket, owed) = self.segment.publish(slot, &self.tickets.0);
        self.slots[usize::from(id)].ticket = ticket;
        self.owed = self.owed.saturating_add(owed);
        Ok((SlotId(id), taken))
    }

    /// Whether a slot has room for this record.
    pub fn fits(&self, record: &[u8]) -> bool {
        // A body ring of less than a page would crawl.
        body_at(record) + 4096 <= self.segment.geometry().request as usize
    }

    /// Gives more of the body to the worker; returns how many bytes found room.
    pub fn feed(&mut self, id: SlotId, body: &[u8]) -> usize {
        let slot = self.global(id);
        let taken = put_body(&self.segment, slot, &mut self.slots[id.index()], body);
        if taken > 0 {
            self.wake_waiting(id);
        }
        taken
    }

    /// Appends what the worker has published since the last call to `out`: whole frames for
    /// [`super::split_frame`]. With [`Drained::Finished`] all of the response has been read.
    ///
    /// # Errors
    /// [`Malformed`]: the slot is spoiled; abort it and close the connection.
    pub fn drain(&mut self, id: SlotId, out: &mut Vec<u8>) -> Result<Drained, Malformed> {
        let slot = self.global(id);
        let head = self.segment.slot(slot);
        // The outcome is read before the tail: what is published before the outcome is seen with
        // it.
        let outcome = head.worker.outcome.load(Ordering::Acquire);
        let tail = head.worker.response_tail.load(Ordering::Acquire);
        let ring = self.segment.response_ring(slot);
        let mine = &mut self.slots[id.index()];
        let (published, ticket) = (tail.wrapping_sub(mine.response_head), mine.ticket);
        if published > ring.size() {
            return Err(Malformed("more bytes than the ring holds"));
        }
        if published > 0 {
            ring.append_to(mine.response_head, published as usize, out);
            mine.response_head = tail;
            head.response_head.store(tail, Ordering::SeqCst);
            if outcome == 0 {
                self.wake_waiting(id);
            }
        }
        match Outcome::from_number(outcome) {
            None => Ok(Drained::Open),
            Some(outcome) => Ok(Drained::Finished {
                outcome,
                id: RequestId::new(head.worker.claimed_at.load(Ordering::Relaxed), ticket),
                finished_at: head.worker.finished_at.load(Ordering::Relaxed),
            }),
        }
    }

    /// What the request of a slot has called since it was queued, by its worker's word, when that
    /// has finished; none if its site does not count calls. Before [`Producer::release`].
    pub fn calls(&self, id: SlotId, queued_at: u64, seen_at: u64) -> Option<Calls> {
        let words = &self.segment.slot(self.global(id)).worker;
        if words.counts_calls.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let finished_at = words.finished_at.load(Ordering::Relaxed);
        Some(words.calls.read(queued_at, finished_at.min(seen_at)))
    }

    /// Lets the worker know that the client has gone. The slot stays taken until the worker is done
    /// with it.
    pub fn abort(&mut self, id: SlotId) {
        let head = self.segment.slot(self.global(id));
        head.aborted.store(1, Ordering::SeqCst);
        self.wake_waiting(id);
        self.segment.ring_watcher(&head.worker.watcher);
    }

    /// Takes a request back that no worker has claimed; `false`: too late, a worker has it.
    pub fn withdraw(&mut self, id: SlotId) -> bool {
        let done = self.segment.withdraw(self.slots[id.index()].ticket, self.global(id));
        if done {
            self.pass_withdrawn();
        }
        done
    }

    /// The holder of the request.
    pub fn holder(&self, id: SlotId) -> Holder {
        match self.segment.slot(self.global(id)).claim.load(Ordering::Acquire) as u32 {
            0 => Holder::Queued,
            WITHDRAWN => Holder::Withdrawn,
            instance => Holder::Worker(instance),
        }
    }

    /// Whether it is this request that runs, of those that its worker has at once; none: a worker
    /// has one at a time.
    pub fn is_running(&self, id: SlotId) -> Option<bool> {
        let words = &self.segment.slot(self.global(id)).worker;
        (self.segment.geometry().doorbells > 0).then(|| words.doing.is_running())
    }

    /// Whether the request, which a worker has claimed, takes longer than requests may.
    pub fn is_overdue(&self, id: SlotId) -> bool {
        let words = &self.segment.slot(self.global(id)).worker;
        let due = self.segment.due(words.claimed_at.load(Ordering::Acquire));
        due.is_some_and(|due| due <= tokamak_cost::now())
    }

    /// Whether the worker has begun to answer: it has published something.
    #[cfg(test)]
    pub(super) fn has_response(&self, id: SlotId) -> bool {
        self.segment.slot(self.global(id)).worker.response_tail.load(Ordering::Acquire) != 0
    }

    /// Whether the worker says that it is done with the slot; for one that cannot be drained any
    /// more.
    pub fn has_ended(&self, id: SlotId) -> bool {
        self.segment.slot(self.global(id)).worker.outcome.load(Ordering::Acquire) != 0
    }

    /// Gives a slot back. Its worker has finished, is dead, or never had it (invariant 6).
    pub fn release(&mut self, id: SlotId) {
        debug_assert!(!self.free.contains(&id.0));
        self.free.push(id.0);
    }

    /// The segment behind it.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    #[cfg(test)]
    pub(super) fn slot_for_test(&self, index: u16) -> SlotId {
        SlotId(index)
    }

    /// Slots that are not taken.
    #[cfg(test)]
    pub(super) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Wakes a sleeping worker, if there is one.
    pub fn wake_worker(&self) -> bool {
        self.segment.wake_one()
    }

    /// Wakes workers for what was queued since the last time and still waits. Whether they were too
    /// few.
    pub fn wake_owed(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            let tail = self.tickets.0.load(Ordering::Relaxed);
            self.segment.header().tail.0.store(tail, Ordering::Relaxed);
        }
        !self.segment.wake_for(owed, &self.tickets.0)
    }

    /// Whether workers are to be woken.
    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Whether no slot is taken. No worker has anything to say then: a mark on a free slot has come
    /// too late, and all that it costs is a look when the slot is taken again (invariant 4).
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Takes the marks of the slots in which something happened since the last look.
    pub fn take_ready(&self) -> Ready {
        // A worker may have marked slots that are not there.
        let slots = self.slots.len();
        let mut ready = Ready { words: [0; READY_WORDS], marked: 0, slots };
        let marks = &self.segment.event_loop(self.index).ready.0;
        for (at, marks) in marks.iter().enumerate().take(slots.div_ceil(64)) {
            // Most words are empty, and a look costs less than a swap.
            if marks.load(Ordering::SeqCst) != 0 {
                ready.words[at] = marks.swap(0, Ordering::SeqCst);
                ready.marked |= 1 << at;
            }
        }
        ready
    }

    /// The event loop is about to sleep: from now on workers ring its bell. Look at
    /// [`Producer::take_ready`] once more after this.
    pub fn fall_asleep(&self) {
        self.segment.event_loop(self.index).asleep.0.store(1, Ordering::SeqCst);
    }

    /// Whether it has fallen asleep, and no worker has rung it since.
    pub fn is_asleep(&self) -> bool {
        self.segment.event_loop(self.index).asleep.0.load(Ordering::SeqCst) != 0
    }

    /// The event loop is awake: no bell is needed.
    pub fn wake_up(&self) {
        self.segment.event_loop(self.index).asleep.0.store(0, Ordering::Relaxed);
    }

    fn wake_waiting(&self, id: SlotId) {
        let waits = &self.segment.slot(self.global(id)).worker.waits;
        // Orders our store (ring position, abort) before this load; the worker sets `waits` before
        // it looks at the positions.
        fence(Ordering::SeqCst);
        if waits.load(Ordering::SeqCst) != 0 {
            self.segment.end_wait(waits);
        }
    }

    /// Requests that no worker has claimed, those of other event loops too; withdrawn ones may be
    /// among them.
    pub fn backlog(&self) -> u32 {
        let head = self.segment.head().load(Ordering::Acquire);
        self.head_seen.set(head);
        self.tickets.0.load(Ordering::Relaxed).wrapping_sub(head)
    }

    /// The most requests that [`Producer::backlog`] can count in a sound queue.
    pub fn cells(&self) -> u32 {
        self.segment.geometry().cells()
    }

    /// Moves the head past withdrawn requests, so that they do not fill the queue while all workers
    /// are busy.
    fn pass_withdrawn(&self) {
        for _ in 0..LONGEST_PASS {
            match self.segment.front() {
                Some(next) if self.segment.is_taken(next) => self.segment.pass(next.ticket),
                _ => return,
            }
        }
    }

    fn global(&self, id: SlotId) -> u32 {
        u32::from(self.index) * u32::from(self.segment.geometry().slots_per_loop) + u32::from(id.0)
    }
}

/// Where the body ring of a slot with this record begins.
fn body_at(record: &[u8]) -> usize {
    record.len().next_multiple_of(64)
}

fn put_body(segment: &Segment, slot: u32, mine: &mut Mine, body: &[u8]) -> usize {
    if body.is_empty() {
        return 0;
    }
    let head = segment.slot(slot);
    let ring = segment.request_area(slot, mine.body_at);
    let used = mine.body_tail.wrapping_sub(head.worker.body_head.load(Ordering::Acquire));
    // A worker that lies about what it has read gets no more.
    let room = ring.size().saturating_sub(used);
    let taken = (body.len() as u64).min(room).min(mine.body_left);
    ring.put(mine.body_tail, &body[..taken as usize]);
    mine.body_tail += taken;
    mine.body_left -= taken;
    head.body_tail.store(mine.body_tail, Ordering::SeqCst);
    taken as usize
}
