//! The words that decide who serves which request: which ticket is next, who takes it, who sleeps
//! and who is woken for it.
//!
//! They are all here, over [`Word`], so that a test can run them on words that try every order of
//! events (`fifo/tests.rs`) and the programs run them on the segment's.
//!
//! # No worker sleeps beside a request
//!
//! Every request has a wake-up of its own, and it comes after that request and all before it have
//! been published: a worker that is woken earlier finds the head unpublished and sleeps again. An
//! event loop may be preempted between taking a ticket and publishing it, while others publish the
//! tickets behind. So a loop that publishes looks at the tickets published behind its own, and
//! owes a wake-up for each. Two event loops that do this at the same time may both wake for a
//! request; none is forgotten, because each publishes before it looks (both sequentially
//! consistent): of two neighbours, at least the later one sees the other.
//!
//! A worker that has lain down gets up and looks at the head before it does anything else. If it
//! then takes nothing although something is there, because it leaves, it wakes another one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::layout::WITHDRAWN;

/// The request at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedRequest {
    /// Its number in the order of all requests.
    pub ticket: u32,
    /// Where its record is.
    pub slot: u32,
}

/// An atomic number.
pub(super) trait Word<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    fn fetch_and(&self, bits: T, order: Ordering) -> T;
    fn fetch_or(&self, bits: T, order: Ordering) -> T;
    fn compare_exchange(
        &self,
        old: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;
}

macro_rules! words {
    ($($Atomic:ident $number:ident)*) => {$(
        impl Word<$number> for $Atomic {
            #[inline]
            fn load(&self, order: Ordering) -> $number {
                self.load(order)
            }
            #[inline]
            fn store(&self, value: $number, order: Ordering) {
                self.store(value, order);
            }
            #[inline]
            fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                self.fetch_add(value, order)
            }
            #[inline]
            fn fetch_and(&self, bits: $number, order: Ordering) -> $number {
                self.fetch_and(bits, order)
            }
            #[inline]
            fn fetch_or(&self, bits: $number, order: Ordering) -> $number {
                self.fetch_or(bits, order)
            }
            #[inline]
            fn compare_exchange(
                &self,
                old: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                self.compare_exchange(old, new, success, failure)
            }
        }
    )*};
}

words! { AtomicU32 u32 AtomicU64 u64 }

/// A queue of slots and the workers that take from it.
pub(super) trait Fifo {
    /// Its words of 32 bits.
    type Half: Word<u32>;
    /// Its words of 64 bits.
    type Full: Word<u64>;

    /// The next ticket to be claimed.
    fn head(&self) -> &Self::Half;
    /// The cell of a ticket: the ticket in the upper half, its slot in the lower.
    fn cell(&self, ticket: u32) -> &Self::Full;
    /// The claim of a slot: the ticket in the upper half, who holds it in the lower.
    fn claim(&self, slot: u32) -> &Self::Full;
    /// One bit for each worker that sleeps and wants to be woken.
    fn sleepers(&self) -> &[Self::Full];
    /// The futex word of a worker: 1 while it sleeps.
    fn bell(&self, worker: u16) -> &Self::Half;
    /// How many slots there are.
    fn slots(&self) -> u32;
    /// How many workers there may be.
    fn workers(&self) -> u16;
    /// Sleeps while the worker's bell is 1, for this long at most; may return early.
    fn wait(&self, worker: u16, limit: Duration);
    /// Ends [`Fifo::wait`] of that worker.
    fn wake(&self, worker: u16);

    /// Takes a ticket for the request in `slot` and publishes it. Answers the ticket, and how many
    /// workers are to be woken. `tail` is out of the workers' reach, so nothing that they write
    /// makes this take long.
    fn publish(&self, slot: u32, tail: &Self::Half) -> (u32, u32) {
        let ticket = tail.fetch_add(1, Ordering::SeqCst);
        self.claim(slot).store(queued(ticket), Ordering::Relaxed);
        // Publishes the request too. SeqCst also orders it before the looks below and at the
        // sleepers.
        self.cell(ticket).store(queued(ticket) | u64::from(slot), Ordering::SeqCst);
        let end = tail.load(Ordering::SeqCst);
        let mut behind = ticket.wrapping_add(1);
        while behind != end && self.slot_of(behind).is_some() {
            behind = behind.wrapping_add(1);
        }
        (ticket, behind.wrapping_sub(ticket))
    }

    /// The slot of a ticket, if it has been published.
    fn slot_of(&self, ticket: u32) -> Option<u32> {
        let cell = self.cell(ticket).load(Ordering::SeqCst);
        let slot = cell as u32;
        ((cell >> 32) as u32 == ticket && slot < self.slots()).then_some(slot)
    }

    /// The ticket at the head and its slot, if a request has been published there.
    fn front(&self) -> Option<QueuedRequest> {
        let ticket = self.head().load(Ordering::Acquire);
        Some(QueuedRequest { ticket, slot: self.slot_of(ticket)? })
    }

    /// Claims the request for a worker; `false`: another has it, or it was withdrawn. The head is
    /// to be passed in every case: claimed by us or by another, withdrawn, or reused since.
    fn claim_for(&self, request: QueuedRequest, instance: u32) -> bool {
        self.change(request.ticket, request.slot, instance)
    }

    /// Takes a request back; `false`: a worker has it.
    fn withdraw(&self, ticket: u32, slot: u32) -> bool {
        self.change(ticket, slot, WITHDRAWN)
    }

    /// Sets the holder of a request that no worker has.
    fn change(&self, ticket: u32, slot: u32, holder: u32) -> bool {
        let (old, new) = (queued(ticket), queued(ticket) | u64::from(holder));
        self.claim(slot).compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether a worker has this request, or had it.
    fn is_taken(&self, request: QueuedRequest) -> bool {
        self.claim(request.slot).load(Ordering::Acquire) != queued(request.ticket)
    }

    /// Moves the head past `ticket` unless another process has done so already.
    fn pass(&self, ticket: u32) {
        let next = ticket.wrapping_add(1);
        let _ = self.head().compare_exchange(ticket, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// A worker says that it is going to sleep. It must look once more before it does: a producer
    /// first publishes a request, then looks which workers sleep.
    fn lie_down(&self, worker: u16) {
        self.bell(worker).store(1, Ordering::SeqCst);
        self.sleepers()[usize::from(worker) / 64].fetch_or(1u64 << (worker % 64), Ordering::SeqCst);
    }

    /// A worker that lay down says that it is awake.
    fn get_up(&self, worker: u16) {
        let bit = 1u64 << (worker % 64);
        self.sleepers()[usize::from(worker) / 64].fetch_and(!bit, Ordering::SeqCst);
        self.bell(worker).store(0, Ordering::Relaxed);
    }

    /// A worker takes no more requests, whether it has lain down or not: the wake-up that it may
    /// have got for a request is passed on.
    fn leave(&self, worker: u16) {
        self.get_up(worker);
        if self.front().is_some() {
            self.wake_one();
        }
    }

    /// Requests that no worker has claimed; withdrawn ones may be among them.
    fn backlog(&self, tail: &Self::Half) -> u32 {
        let head = self.head().load(Ordering::Acquire);
        tail.load(Ordering::Relaxed).wrapping_sub(head)
    }

    /// Wakes workers for `owed` requests that were published, as far as they still wait. `false`:
    /// too few workers sleep.
    fn wake_for(&self, owed: u32, tail: &Self::Half) -> bool {
        for _ in 0..owed {
            // Looked at each time: where processors are few, a worker runs in place of this loop as
            // soon as it is woken, and takes all that waits. It would sleep again by now, and be
            // woken for nothing once for each request.
            if self.backlog(tail) == 0 {
                return true;
            }
            if !self.wake_one() {
                return false;
            }
        }
        true
    }

    /// Wakes one sleeping worker, the lowest-numbered one: it is the one that ran last and has warm
    /// caches, and the idle ones above it can be retired. Whether there was one.
    fn wake_one(&self) -> bool {
        for (word, bits) in self.sleepers().iter().enumerate() {
            let mut seen = bits.load(Ordering::SeqCst);
            while seen != 0 {
                let bit = seen & seen.wrapping_neg();
                let worker = word as u32 * 64 + bit.trailing_zeros();
                // Every worker may write to the bitmap: a bit of a worker that cannot exist is only
                // cleared, and each bit is looked at once, so a worker that sets them again and
                // again cannot keep this loop running.
                let before = bits.fetch_and(!bit, Ordering::SeqCst);
                if before & bit != 0 && worker < u32::from(self.workers()) {
                    self.ring(worker as u16);
                    return true;
                }
                seen &= !bit;
            }
        }
        false
    }

    /// Wakes this worker.
    fn ring(&self, worker: u16) {
        self.bell(worker).store(0, Ordering::SeqCst);
        self.wake(worker);
    }
}

/// The claim of a request that no worker has.
fn queued(ticket: u32) -> u64 {
    u64::from(ticket) << 32
}

#[cfg(test)]
mod tests;
