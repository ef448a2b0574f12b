//! The worker's side: looking for a request and claiming it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use tokamak_cost::RequestId;

use super::board::{Board, WorkerState};
use super::doing::Peer;
use super::fifo::{Fifo, QueuedRequest};
use super::job::Job;
use super::segment::Segment;
use super::wake;

/// The answer of the worker that is asked before it claims a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Claim it.
    Go,
    /// Claim nothing; leave.
    Quit,
}

/// What [`Consumer::next`] brings.
pub enum Next {
    /// A request, held by this worker until [`Job::finish`].
    Request(Job),
    /// Leave: the supervisor or the worker itself wants it.
    Retire,
}

/// One worker's end of the queue.
pub struct Consumer {
    end: Arc<End>,
}

pub(super) struct End {
    pub segment: Arc<Segment>,
    pub bells: Vec<OwnedFd>,
    // Atomics only because they are set through a shared reference; one thread has them.
    index: AtomicU16,
    instance: AtomicU32,
}

impl End {
    pub fn index(&self) -> u16 {
        self.index.load(Ordering::Relaxed)
    }
}

impl Consumer {
    /// The end of the worker at entry `index` of the scoreboard. `instance` is unique within the
    /// segment's life; `bells` are the eventfds of the front's loops, in order, and then those of
    /// the workers.
    ///
    /// # Panics
    /// If the index or the number of bells does not fit the geometry, or the instance is reserved.
    pub fn new(segment: Arc<Segment>, bells: Vec<OwnedFd>, index: u16, instance: u32) -> Consumer {
        let consumer = Consumer::without_entry(segment, bells);
        consumer.take_entry(index, instance);
        consumer.board().enter(instance);
        consumer
    }

    /// The end of a worker that is not forked yet, in the process that workers are forked from. The
    /// only call that is allowed is [`Consumer::take_entry`].
    ///
    /// # Panics
    /// If the number of bells does not fit the geometry.
    pub fn without_entry(segment: Arc<Segment>, bells: Vec<OwnedFd>) -> Consumer {
        assert!(bells.len() == segment.geometry().bells());
        let end = End { segment, bells, index: AtomicU16::new(0), instance: AtomicU32::new(0) };
        Consumer { end: Arc::new(end) }
    }

    /// Sets which worker this is, without writing to the scoreboard: for a process whose roll-back
    /// has undone that. A new worker also calls [`Board::enter`].
    ///
    /// # Panics
    /// As [`Consumer::new`].
    pub fn take_entry(&self, index: u16, instance: u32) {
        assert!(index < self.end.segment.geometry().workers);
        assert!(instance != 0 && instance != super::layout::WITHDRAWN);
        self.end.index.store(index, Ordering::Relaxed);
        self.end.instance.store(instance, Ordering::Relaxed);
    }

    /// Which worker this is.
    pub fn instance(&self) -> u32 {
        self.end.instance.load(Ordering::Relaxed)
    }

    /// This worker's place on the board.
    pub fn board(&self) -> Board<'_> {
        Board(self.end.segment.board_entry(self.end.index()))
    }

    #[cfg(test)]
    pub(super) fn segment_for_test(&self) -> Arc<Segment> {
        self.end.segment.clone()
    }

    /// Waits for the oldest request and claims it. `before_claim` is asked each time a request is
    /// there, before it is claimed, with its slot; `on_idle` is called when the worker is
    /// about to sleep.
    pub fn next(
        &mut self,
        mut before_claim: impl FnMut(u32) -> Claim,
        mut on_idle: impl FnMut(),
    ) -> Next {
        let mut search = Search::default();
        let mut idle_since = None;
        loop {
            match self.advance(&mut search, &mut before_claim, &mut on_idle, tokamak_cost::now) {
                Step::Done => {}
                Step::Sleep => {
                    let now = tokamak_cost::coarse();
                    let idle = now.saturating_sub(*idle_since.get_or_insert(now));
                    let limit = if idle < wake::IDLE_AFTER.as_nanos() as u64 {
                        wake::LONGEST_SLEEP
                    } else {
                        wake::LONGEST_IDLE_SLEEP
                    };
                    self.end.segment.wait(self.end.index(), limit);
                }
                Step::Found(next) => return next,
            }
        }
    }

    /// Looks for the oldest request and claims it, without waiting for one. `will_sleep`: the
    /// worker is about to wait for other things; if nothing is found, its doorbell is rung for the
    /// next request until it looks again. `before_claim` is asked as by [`Consumer::next`].
    pub fn look(
        &mut self,
        search: &mut Search,
        will_sleep: bool,
        mut before_claim: impl FnMut(u32) -> Claim,
    ) -> Option<Next> {
        loop {
            if !will_sleep && self.finds_nothing(search) {
                return None;
            }
            match self.advance(search, &mut before_claim, &mut || {}, tokamak_cost::now) {
                Step::Done => {}
                Step::Sleep => return None,
                Step::Found(next) => return Some(next),
            }
        }
    }

    /// Whether the search has come to nothing, and would go on with what is done before a sleep.
    pub fn finds_nothing(&self, search: &Search) -> bool {
        matches!(search.way, Way::Looking)
            && self.end.segment.front().is_none()
            && !self.board().is_retired()
    }

    /// Takes no more requests, however far the search is.
    pub fn leave(&mut self, search: &mut Search) {
        *search = Search::default();
        self.end.segment.leave(self.end.index());
    }

    /// What becomes readable when this worker is rung, if it has a doorbell. It is never read: the
    /// other workers of that place, from a pool that replaces this one or is replaced by it, are
    /// rung by the same.
    pub fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.end.segment.doorbell(self.end.index())
    }

    /// Where this worker says whom its descriptors are connected to; none if it is not asked to.
    pub fn peers(&self) -> Option<&[Peer]> {
        self.end.segment.peers_of(self.end.index())
    }

    /// One step of [`Consumer::next`], which never waits. Between any two of them the process may
    /// be killed, and the others go on.
    pub fn advance(
        &mut self,
        search: &mut Search,
        before_claim: &mut impl FnMut(u32) -> Claim,
        on_idle: &mut impl FnMut(),
        clock: impl FnOnce() -> u64,
    ) -> Step {
        let (segment, board) = (&self.end.segment, self.board());
        let (way, step) = match search.way {
            Way::Looking if board.is_retired() => (Way::Looking, self.retire(clock())),
            Way::Looking => match segment.front() {
                Some(QueuedRequest { slot, .. }) if before_claim(slot) == Claim::Quit => {
                    (Way::Looking, self.retire(clock()))
                }
                Some(next) => (Way::Claiming(next), Step::Done),
                None => {
                    on_idle();
                    // It has been idle since it first slept, also if it woke for a request that
                    // another one took.
                    if !search.is_idle {
                        board.set_state_at(WorkerState::Idle, clock());
                        search.is_idle = true;
                    }
                    (Way::LyingDown, Step::Done)
                }
            },
            Way::LyingDown => {
                segment.lie_down(self.end.index());
                (Way::LookingAgain, Step::Done)
            }
            Way::Claiming(next) => {
                let is_mine = segment.claim_for(next, self.end.instance.load(Ordering::Relaxed));
                (Way::Passing(next, is_mine), Step::Done)
            }
            Way::Passing(QueuedRequest { ticket, slot }, is_mine) => {
                segment.pass(ticket);
                if is_mine {
                    let now = clock();
                    segment.slot(slot).worker.claimed_at.store(now, Ordering::Relaxed);
                    board.set_state_at(WorkerState::Busy, now);
                    let job = Job::new(self.end.clone(), slot, RequestId::new(now, ticket));
                    (Way::Looking, Step::Found(Next::Request(job)))
                } else {
                    (Way::Looking, Step::Done)
                }
            }
            Way::LookingAgain if segment.front().is_none() && !board.is_retired() => {
                (Way::GettingUp, Step::Sleep)
            }
            Way::LookingAgain => (Way::GettingUp, Step::Done),
            Way::GettingUp => {
                segment.get_up(self.end.index());
                (Way::Looking, Step::Done)
            }
        };
        search.way = way;
        step
    }

    /// Whether this worker was not woken since it lay down.
    pub fn is_asleep(&self) -> bool {
        self.end.segment.bell(self.end.index()).load(Ordering::SeqCst) == 1
    }

    fn retire(&self, now: u64) -> Step {
        self.board().set_state_at(WorkerState::Leaving, now);
        self.end.segment.leave(self.end.index());
        Step::Found(Next::Retire)
    }
}

/// How far a worker is in looking for a request.
#[derive(Debug, Default)]
pub struct Search {
    way: Way,
    /// The board says that it is idle, or is not to.
    is_idle: bool,
}

impl Search {
    /// The worker has requests under way: it is not idle, whatever comes of the search.
    pub fn stay_busy(&mut self, is_busy: bool) {
        self.is_idle = is_busy;
    }
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, Default)]
enum Way {
    /// Looks whether there is something for it.
    #[default]
    Looking,
    /// Claims the request that it saw: ticket and slot.
    Claiming(QueuedRequest),
    /// Moves the head past a request that it has claimed, or that another one has.
    Passing(QueuedRequest, bool),
    /// Says that it is going to sleep.
    LyingDown,
    /// Looks once more before it sleeps.
    LookingAgain,
    /// Says that it is awake.
    GettingUp,
}

/// What [`Consumer::advance`] brings.
pub enum Step {
    /// There is more to do.
    Done,
    /// Nothing is to be done before this worker is rung.
    Sleep,
    /// The search has an end.
    Found(Next),
}
