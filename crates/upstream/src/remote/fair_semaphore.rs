//! A semaphore: a bounded number of permits, and the requests that wait for one, by event loop.
//!
//! A permit that becomes free goes to a request of the same event loop, unless one elsewhere has
//! waited for long: the connection that comes with it is registered there, and no other thread has
//! to be woken. Under load each loop then keeps about as many connections as it can use, and waits
//! are about as long everywhere.
//!
//! Within a loop flows take turns: however many requests of one wait, the first one of another is
//! not behind them all.

mod line;

use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::flow::Flow;
use line::{WaitQueue, Waiter};

/// How long a loop's own requests go before those of others, in nanoseconds: some times what waking
/// another thread takes. With a tenth, connections would move between threads all the time; with
/// ten times more, a request could wait 10 ms longer than its turn.
const PREFERENCE: u64 = 1_000_000;

/// The free permits, and the requests that wait for one. `P` is what a request gets.
#[derive(Debug)]
pub(super) struct FairSemaphore<P> {
    all: usize,
    free: usize,
    /// Permits that were in use when it became smaller, beyond what it has now.
    excess: usize,
    /// Requests that wait in each event loop.
    loops: Vec<WaitQueue<P>>,
    is_closed: bool,
}

impl<P> FairSemaphore<P> {
    pub fn new(permits: usize) -> FairSemaphore<P> {
        FairSemaphore {
            all: permits,
            free: permits,
            excess: 0,
            loops: Vec::new(),
            is_closed: false,
        }
    }

    /// Changes the number of permits. If more are in use, no request gets one until enough of them
    /// have been given back.
    pub fn resize(&mut self, permits: usize) {
        let held = self.held();
        self.all = permits;
        self.free = permits.saturating_sub(held);
        self.excess = held.saturating_sub(permits);
    }

    /// Permits in use.
    pub fn held(&self) -> usize {
        self.all - self.free + self.excess
    }

    /// Free permits. While there is one, no request waits.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Closes it: requests that wait get an error, and no more may wait.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.loops.clear();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.loops.iter().map(WaitQueue::waiting).sum()
    }

    /// Takes a free permit, if there is one.
    pub fn take(&mut self) -> bool {
        let is_free = self.free > 0;
        self.free -= usize::from(is_free);
        is_free
    }

    /// Waits in the event loop of this index, behind others of its flow if it has one; nothing if
    /// `most` wait already.
    pub fn wait(
        &mut self,
        loop_index: usize,
        flow: Option<Flow>,
        now: u64,
        most: usize,
    ) -> Option<Receiver<P>> {
        if self.loops.iter().map(WaitQueue::len).sum::<usize>() >= most {
            // Some may have gone away.
            self.loops.iter_mut().for_each(WaitQueue::sweep);
            if self.waiting() >= most {
                return None;
            }
        }
        if self.loops.len() <= loop_index {
            self.loops.resize_with(loop_index + 1, WaitQueue::new);
        }
        let (sender, receiver) = oneshot::channel();
        self.loops[loop_index].push(flow, Waiter { sender, since: now });
        Some(receiver)
    }

    /// A permit was given back in the event loop of this index: whose turn it is, and where;
    /// nobody, and it is free.
    pub fn give(&mut self, loop_index: usize, now: u64) -> Option<(Sender<P>, usize)> {
        if self.excess > 0 {
            self.excess -= 1;
            return None;
        }
        for line in &mut self.loops {
            while line.first().is_some_and(|waiter| waiter.sender.is_closed()) {
                line.pop();
            }
        }
        let since = |index: usize| self.loops.get(index)?.first().map(|waiter| waiter.since);
        let longest = (0..self.loops.len()).filter_map(|index| Some((since(index)?, index))).min();
        let next = match (longest, since(loop_index)) {
            (Some((first, _)), Some(_)) if now.saturating_sub(first) < PREFERENCE => {
                Some(loop_index)
            }
            (longest, _) => longest.map(|(_, index)| index),
        };
        let next = next.and_then(|index| Some((self.loops[index].pop()?.sender, index)));
        self.free += usize::from(next.is_none());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who of the receivers has got something, by its index.
    fn served(receivers: &mut [Receiver<()>]) -> Vec<usize> {
        (0..receivers.len()).filter(|index| receivers[*index].try_recv().is_ok()).collect()
    }

    fn give(semaphore: &mut FairSemaphore<()>, loop_index: usize, now: u64) -> Option<usize> {
        semaphore.give(loop_index, now).map(|(sender, index)| {
            let _ = sender.send(());
            index
        })
    }

    #[test]
    fn permits_are_counted() {
        let mut semaphore: FairSemaphore<()> = FairSemaphore::new(2);
        assert!(semaphore.take() && semaphore.take() && !semaphore.take());
        assert_eq!(give(&mut semaphore, 0, 0), None);
        assert_eq!(semaphore.free(), 1);
        assert!(semaphore.take() && !semaphore.take());
    }

    #[test]
    fn what_is_in_use_counts_when_it_becomes_larger_or_smaller() {
        let mut semaphore: FairSemaphore<()> = FairSemaphore::new(1);
        assert!(semaphore.take());
        semaphore.resize(4);
        assert_eq!((semaphore.held(), semaphore.free()), (1, 3));
        assert!(semaphore.take() && semaphore.take() && semaphore.take() && !semaphore.take());
        semaphore.resize(2);
        assert_eq!((semaphore.held(), semaphore.free()), (4, 0));
        let mut waiting = [semaphore.wait(0, None, 0, 9).unwrap()];
        assert_eq!((give(&mut semaphore, 0, 0), give(&mut semaphore, 0, 0)), (None, None));
        assert_eq!((semaphore.held(), served(&mut waiting)), (2, Vec::new()));
        assert_eq!(give(&mut semaphore, 0, 0), Some(0));
        assert_eq!((semaphore.held(), served(&mut waiting)), (2, vec![0]));
        give(&mut semaphore, 0, 0);
        assert_eq!((semaphore.held(), semaphore.free()), (1, 1));
    }

    #[test]
    fn a_loop_serves_its_own_unless_others_wait_for_long() {
        let mut semaphore = FairSemaphore::new(0);
        let mut waiting: Vec<_> = [(0, 1), (1, 2), (1, 3), (0, 4)]
            .map(|(loop_index, now)| semaphore.wait(loop_index, None, now, 9).unwrap())
            .into();
        assert_eq!(give(&mut semaphore, 1, 10), Some(1));
        assert_eq!(served(&mut waiting), [1]);
        // The first one has waited long enough; then it is loop 1's turn again.
        assert_eq!(give(&mut semaphore, 1, 1 + PREFERENCE), Some(0));
        assert_eq!(served(&mut waiting), [0]);
        assert_eq!(give(&mut semaphore, 1, 10), Some(1));
        // No request of its own loop waits.
        assert_eq!(give(&mut semaphore, 1, 10), Some(0));
        assert_eq!(served(&mut waiting), [2, 3]);
        assert_eq!(give(&mut semaphore, 7, 10), None);
        assert_eq!(semaphore.free(), 1);
    }

    #[test]
    fn flows_take_turns() {
        let mut semaphore = FairSemaphore::new(0);
        let (one, other) = (Some(Flow::fresh()), Some(Flow::fresh()));
        let mut waiting: Vec<_> = [one, one, one, None, other, other, None]
            .map(|flow| semaphore.wait(0, flow, 0, 9).unwrap())
            .into();
        let mut order = Vec::new();
        for _ in 0..7 {
            assert_eq!(give(&mut semaphore, 0, 0), Some(0));
            order.extend(served(&mut waiting));
        }
        assert_eq!(order, [0, 3, 4, 6, 1, 5, 2]);
        assert_eq!(semaphore.waiting(), 0);
    }

    #[test]
    fn a_waiter_that_is_dropped_leaves_the_rest_of_its_flow() {
        let mut semaphore = FairSemaphore::new(0);
        let flow = Some(Flow::fresh());
        let mut wait = |flow| semaphore.wait(0, flow, 0, 3);
        let (gone, mut next, alone) = (wait(flow), wait(flow).unwrap(), wait(None));
        drop((gone, alone));
        let mut last = wait(None).expect("two have gone");
        assert_eq!((give(&mut semaphore, 0, 0), give(&mut semaphore, 0, 0)), (Some(0), Some(0)));
        assert!(next.try_recv().is_ok() && last.try_recv().is_ok());
    }

    #[test]
    fn waiters_end_when_the_semaphore_is_closed() {
        let mut semaphore: FairSemaphore<()> = FairSemaphore::new(0);
        let mut waiting = semaphore.wait(0, None, 0, 9).unwrap();
        semaphore.close();
        assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(
            (
                semaphore.is_closed(),
                semaphore.waiting(),
                give(&mut semaphore, 0, 0),
                semaphore.free()
            ),
            (true, 0, None, 1)
        );
    }

    #[test]
    fn a_dropped_waiter_is_passed_over_and_not_counted() {
        let mut semaphore = FairSemaphore::new(0);
        let first = semaphore.wait(0, None, 0, 2).unwrap();
        let mut second = semaphore.wait(1, None, 0, 2).unwrap();
        assert!(semaphore.wait(0, None, 0, 2).is_none());
        drop(first);
        assert_eq!(semaphore.waiting(), 1);
        let mut third = semaphore.wait(0, None, 0, 2).unwrap();
        assert_eq!((give(&mut semaphore, 0, 0), give(&mut semaphore, 0, 0)), (Some(0), Some(1)));
        assert!(second.try_recv().is_ok() && third.try_recv().is_ok());
    }
}
