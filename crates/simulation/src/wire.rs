//! Lines between the supervisor and its children, in memory: a message arrives late, in order, and
//! not at all when a process has died before it read it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use tokamak_supervisor::means::MessageChannel;
use tokamak_sys::channel::Received;
use tokamak_sys::control::{Heard, Message, understand};

use crate::random::Random;

/// When a process is to act next; a process that sends it something may make that earlier.
pub type Alarm = Rc<Cell<u64>>;

/// How the supervisor hears that there is something for it on a line.
#[derive(Clone, Debug)]
pub struct Parent {
    /// When it acts next.
    pub acts: Alarm,
    /// When there is something on any line.
    pub mail: Alarm,
}

impl Parent {
    fn ring(&self, at: u64) {
        ring(&self.acts, at);
        ring(&self.mail, at);
    }
}

/// Makes it no later than `at`.
pub fn ring(alarm: &Alarm, at: u64) {
    alarm.set(alarm.get().min(at));
}

#[derive(Debug, Default)]
struct Way {
    waiting: VecDeque<(u64, Vec<u8>, Vec<OwnedFd>)>,
    last: u64,
    is_closed: bool,
}

impl Way {
    fn put(&mut self, at: u64, bytes: &[u8], fds: Vec<OwnedFd>) -> u64 {
        self.last = self.last.max(at);
        self.waiting.push_back((self.last, bytes.to_vec(), fds));
        self.last
    }

    fn take(&mut self, now: u64) -> Received {
        match self.waiting.front() {
            Some((at, ..)) if *at <= now => {
                let (_, bytes, fds) = self.waiting.pop_front().expect("it was there");
                Received::Message(bytes, fds)
            }
            None if self.is_closed => Received::Closed,
            _ => Received::Nothing,
        }
    }

    /// When there is something to take.
    fn due(&self) -> u64 {
        match self.waiting.front() {
            Some((at, ..)) => *at,
            None if self.is_closed => 0,
            None => u64::MAX,
        }
    }
}

#[derive(Debug)]
struct Pair {
    clock: Rc<Cell<u64>>,
    random: Random,
    down: Way,
    up: Way,
    parent: Parent,
    child: Alarm,
}

impl Pair {
    /// When a message that is sent now arrives: mostly soon.
    fn arrival(&mut self) -> u64 {
        let most = if self.random.chance(30) { 50_000_000 } else { 200_000 };
        self.clock.get() + self.random.between(1_000, most)
    }
}

/// The supervisor's end.
#[derive(Debug)]
pub struct Ours(Rc<RefCell<Pair>>);

/// The child's end.
#[derive(Debug)]
pub struct Theirs(Rc<RefCell<Pair>>);

/// Both ends of a new line. The alarms are those of the two who talk.
pub fn line(clock: Rc<Cell<u64>>, random: Random, parent: Parent, child: Alarm) -> (Ours, Theirs) {
    let (down, up) = (Way::default(), Way::default());
    let pair = Rc::new(RefCell::new(Pair { clock, random, down, up, parent, child }));
    (Ours(pair.clone()), Theirs(pair))
}

impl MessageChannel for Ours {
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut pair = self.0.borrow_mut();
        if pair.up.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let fds = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
        let at = pair.arrival();
        let at = pair.down.put(at, bytes, fds);
        ring(&pair.child, at);
        Ok(())
    }

    fn receive(&self) -> io::Result<Received> {
        let mut pair = self.0.borrow_mut();
        let now = pair.clock.get();
        let received = pair.up.take(now);
        // One that is closed has been heard by then, and stays so.
        if !pair.up.waiting.is_empty() {
            pair.parent.ring(pair.up.due());
        }
        Ok(received)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let mut pair = self.0.borrow_mut();
        pair.down.is_closed = true;
        ring(&pair.child, pair.clock.get());
    }
}

impl Theirs {
    /// Sends a message.
    pub fn send<M: Message>(&self, message: &M) {
        let mut pair = self.0.borrow_mut();
        let at = pair.arrival();
        let at = pair.up.put(at, &message.encode(), Vec::new());
        pair.parent.ring(at);
    }

    /// The next message.
    pub fn receive<M: Message>(&self) -> Heard<M> {
        let mut pair = self.0.borrow_mut();
        let now = pair.clock.get();
        understand(pair.down.take(now)).expect("the supervisor speaks our language")
    }

    /// When there is something to receive.
    pub fn due(&self) -> u64 {
        self.0.borrow().down.due()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let mut pair = self.0.borrow_mut();
        pair.up.is_closed = true;
        pair.down.waiting.clear();
        pair.parent.ring(pair.clock.get());
    }
}
