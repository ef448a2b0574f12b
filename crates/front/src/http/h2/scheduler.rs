//! Which response of a connection may hand its next bytes to the library.
//!
//! The library sends what it holds frame by frame, in turns: what has been handed over cannot be
//! overtaken any more. So it gets little at a time. When it holds enough, responses wait here, and
//! the first in the order of their priorities goes on when the client has taken some bytes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::http::multiplex::Priority;

/// Bytes of a connection's responses with which the library gets no more. One response may be all
/// of it. With a tenth, a fast client would wait for the responses' tasks again and again; with ten
/// times more, what is urgent would come a second late on a line of ten megabits.
pub const SEND_BUFFER: usize = 128 * 1024;

/// The responses of one connection that want to send.
#[derive(Default)]
pub struct Scheduler {
    /// Bytes that have been handed over and may not have been sent.
    unsent: AtomicUsize,
    waiting: Mutex<Waiters>,
    has_waiting: AtomicBool,
    /// The connection has ended: no response waits any more.
    is_closed: AtomicBool,
}

/// Those that wait.
#[derive(Default)]
struct Waiters {
    /// In the order in which they began to.
    waiters: Vec<Waiter>,
    /// Whether the last turn was that of one which is of use only as a whole.
    was_whole: bool,
}

/// A response that waits.
struct Waiter {
    /// The number of its request on the connection.
    number: u32,
    priority: Priority,
    waker: Waker,
}

impl Scheduler {
    /// Waits until the response of this request may hand over bytes.
    pub fn poll_turn(&self, number: u32, priority: Priority, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_waiting.load(Ordering::Relaxed) && self.has_room() {
            return Poll::Ready(());
        }
        let line = &mut *self.waiting();
        let index = line.waiters.iter().position(|waiter| waiter.number == number);
        let index = index.unwrap_or_else(|| {
            line.waiters.push(Waiter { number, priority, waker: cx.waker().clone() });
            self.has_waiting.store(true, Ordering::Relaxed);
            line.waiters.len() - 1
        });
        if self.has_room() && line.first() == Some(index) {
            line.waiters.remove(index);
            line.was_whole = !priority.is_incremental;
            self.wake_first(line);
            return Poll::Ready(());
        }
        line.waiters[index].waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// The response of this request has another priority from now on.
    pub fn change(&self, number: u32, priority: Priority) {
        if self.has_waiting.load(Ordering::Relaxed) {
            let line = &mut *self.waiting();
            let waiters = line.waiters.iter_mut();
            for waiter in waiters.filter(|waiter| waiter.number == number) {
                waiter.priority = priority;
            }
            self.wake_first(line);
        }
    }

    /// So many bytes have been handed over.
    pub fn handed_over(&self, count: usize) {
        self.unsent.fetch_add(count, Ordering::Relaxed);
    }

    /// So many bytes have been sent, frames of all kinds.
    pub fn sent(&self, count: usize) {
        let unsent = self.unsent.load(Ordering::Relaxed);
        self.set_unsent(unsent.saturating_sub(count));
    }

    /// Everything has been sent that the client's windows allow.
    pub fn sent_all(&self) {
        self.set_unsent(0);
    }

    /// The response sends no more.
    pub fn leave(&self, number: u32) {
        if self.has_waiting.load(Ordering::Relaxed) {
            let line = &mut *self.waiting();
            line.waiters.retain(|waiter| waiter.number != number);
            self.wake_first(line);
        }
    }

    /// The connection has ended.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.waiting().waiters.drain(..).for_each(|waiter| waiter.waker.wake());
        self.has_waiting.store(false, Ordering::Relaxed);
    }

    fn has_room(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) < SEND_BUFFER || self.is_closed.load(Ordering::Relaxed)
    }

    fn set_unsent(&self, unsent: usize) {
        self.unsent.store(unsent, Ordering::Relaxed);
        if self.has_waiting.load(Ordering::Relaxed) {
            self.wake_first(&self.waiting());
        }
    }

    /// Wakes the first that waits, if there is room. When it has its turn it wakes the next one: it
    /// may be waiting for its own window only.
    fn wake_first(&self, line: &Waiters) {
        match line.first() {
            Some(index) if self.has_room() => line.waiters[index].waker.wake_by_ref(),
            Some(_) => {}
            None => self.has_waiting.store(false, Ordering::Relaxed),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiters> {
        // Each change leaves a list that means something.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    /// Whose turn it is (RFC 9218 section 10). Of the most urgent ones those which are of use only
    /// as a whole go one by one, in the order of their requests, and the others side by side. How
    /// these two kinds share is left open by the RFC: they have every second turn each, so that a
    /// script is not behind all images of its urgency, nor an endless file before them.
    fn first(&self) -> Option<usize> {
        let waiters = || self.waiters.iter().enumerate();
        let most = waiters().map(|(_, waiter)| waiter.priority.urgency).min()?;
        let of_kind = |is_incremental| {
            let kind = Priority { urgency: most, is_incremental };
            waiters().filter(move |(_, waiter)| waiter.priority == kind)
        };
        let longest = of_kind(true).next().map(|(index, _)| index);
        let earliest = of_kind(false).min_by_key(|(_, waiter)| waiter.number);
        let earliest = earliest.map(|(index, _)| index);
        if self.was_whole { longest.or(earliest) } else { earliest.or(longest) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    const fn priority(urgency: u8, is_incremental: bool) -> Priority {
        Priority { urgency, is_incremental }
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Responses by their numbers, and which of them have been woken.
    struct World {
        scheduler: Scheduler,
        responses: Vec<(Priority, Arc<Woken>)>,
    }

    impl World {
        fn new(priorities: &[Priority]) -> World {
            let woken = || Arc::new(Woken(AtomicBool::new(false)));
            let responses = priorities.iter().map(|priority| (*priority, woken())).collect();
            World { scheduler: Scheduler::default(), responses }
        }

        /// Whether it is the turn of this one; if so, it hands over so many bytes.
        fn try_send(&self, number: usize, bytes: usize) -> bool {
            let (priority, woken) = &self.responses[number];
            let waker = Waker::from(woken.clone());
            let turn = self.scheduler.poll_turn(
                number as u32,
                *priority,
                &mut Context::from_waker(&waker),
            );
            if turn.is_ready() {
                self.scheduler.handed_over(bytes);
            }
            turn.is_ready()
        }

        /// Lets those that have been woken send, until none is; returns their numbers.
        fn run(&self, bytes: usize) -> Vec<usize> {
            let mut order = Vec::new();
            loop {
                let woken =
                    |(_, woken): &(Priority, Arc<Woken>)| woken.0.swap(false, Ordering::Relaxed);
                let Some(number) = self.responses.iter().position(woken) else { return order };
                if self.try_send(number, bytes) {
                    order.push(number);
                }
            }
        }
    }

    #[test]
    fn all_streams_send_while_there_is_room() {
        let world = World::new(&[priority(7, true), priority(0, false), priority(3, false)]);
        assert!(world.try_send(0, SEND_BUFFER - 1) && world.try_send(1, 1));
        assert!(!world.try_send(2, 1));
        world.scheduler.sent(1);
        assert_eq!(world.run(1), [2]);
        assert!(!world.scheduler.has_waiting.load(Ordering::Relaxed));
    }

    #[test]
    fn the_most_urgent_goes_first_and_those_of_use_as_a_whole_in_order() {
        let (style, script) = (priority(0, false), priority(1, false));
        let image = priority(5, true);
        let world = World::new(&[image, image, script, script, style, image]);
        assert!(world.try_send(0, SEND_BUFFER));
        for number in [0, 1, 3, 2, 5, 4] {
            assert!(!world.try_send(number, 0));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            world.scheduler.sent(SEND_BUFFER);
            order.extend(world.run(SEND_BUFFER));
        }
        assert_eq!(order, [4, 2, 3, 0, 1, 5]);
    }

    #[test]
    fn a_whole_one_keeps_its_place_and_incremental_ones_take_turns() {
        let world = World::new(&[priority(3, false), priority(3, false), priority(3, true)]);
        assert!(world.try_send(2, SEND_BUFFER));
        for number in [2, 1, 0] {
            assert!(!world.try_send(number, 0));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            world.scheduler.sent(SEND_BUFFER);
            let turn = world.run(SEND_BUFFER);
            turn.iter().for_each(|number| assert!(!world.try_send(*number, 0)));
            order.extend(turn);
        }
        assert_eq!(order, [0, 2, 0, 2, 0, 2]);
        world.scheduler.leave(0);
        world.scheduler.sent(SEND_BUFFER);
        assert_eq!(world.run(SEND_BUFFER), [1]);
        world.scheduler.sent(SEND_BUFFER);
        assert_eq!(world.run(SEND_BUFFER), [2]);
    }

    #[test]
    fn a_response_gets_another_place_when_its_priority_changes() {
        let world = World::new(&[priority(3, false), priority(3, false), priority(3, false)]);
        assert!(world.try_send(0, SEND_BUFFER));
        (1..3).for_each(|number| assert!(!world.try_send(number, 0)));
        world.scheduler.change(2, priority(0, false));
        assert_eq!(world.run(0), [0; 0], "there is no room");
        world.scheduler.sent(SEND_BUFFER);
        assert!(world.responses[2].1.0.swap(false, Ordering::Relaxed), "it is woken");
        assert!(!world.responses[1].1.0.load(Ordering::Relaxed));
    }

    /// One that has its turn and cannot use it, because of its window, does not hold up the others.
    #[test]
    fn a_turn_that_is_not_used_goes_on() {
        let world = World::new(&[priority(0, false), priority(1, false), priority(2, false)]);
        assert!(world.try_send(0, SEND_BUFFER));
        (0..3).for_each(|number| assert!(!world.try_send(number, 0)));
        world.scheduler.sent_all();
        assert_eq!(world.run(0), [0, 1, 2]);
    }

    #[test]
    fn all_streams_are_woken_when_the_first_leaves_or_the_connection_ends() {
        let world = World::new(&[priority(0, false), priority(1, false), priority(2, false)]);
        assert!(world.try_send(0, SEND_BUFFER));
        (0..3).for_each(|number| assert!(!world.try_send(number, 0)));
        world.scheduler.sent_all();
        // It was woken, and ends instead.
        world.responses[0].1.0.store(false, Ordering::Relaxed);
        world.scheduler.leave(0);
        assert_eq!(world.run(SEND_BUFFER), [1]);
        world.scheduler.close();
        assert_eq!(world.run(SEND_BUFFER), [2]);
        assert!(world.try_send(1, SEND_BUFFER) && world.try_send(0, SEND_BUFFER));
    }
}
