//! Every order in which event loops and workers can do their steps, a preemption at each of them
//! included, as far as [`PREEMPTIONS`] reach. A worker here takes one request and is busy with it
//! for ever: so if a request waits beside a worker that sleeps, no thread can go on, and loom says
//! "deadlock".

use std::sync::atomic::{AtomicU32 as StdAtomicU32, Ordering};
use std::time::Duration;

use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Fifo, QueuedRequest, Word};

/// How often a thread may be interrupted in one order of events. Two find a missing wake-up within
/// seconds; three take minutes, and found no more.
const PREEMPTIONS: usize = 2;
/// Workers, and slots.
const WORKERS: usize = 2;
const CELLS: usize = 4;

macro_rules! words {
    ($($Atomic:ident $number:ident)*) => {$(
        impl Word<$number> for $Atomic {
            fn load(&self, order: Ordering) -> $number {
                exact(order, || self.load(order))
            }
            fn store(&self, value: $number, order: Ordering) {
                exact(order, || self.store(value, order));
            }
            fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                exact(order, || self.fetch_add(value, order))
            }
            fn fetch_and(&self, bits: $number, order: Ordering) -> $number {
                exact(order, || self.fetch_and(bits, order))
            }
            fn fetch_or(&self, bits: $number, order: Ordering) -> $number {
                exact(order, || self.fetch_or(bits, order))
            }
            fn compare_exchange(
                &self,
                old: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                exact(success, || self.compare_exchange(old, new, success, failure))
            }
        }
    )*};
}

words! { AtomicU32 u32 AtomicU64 u64 }

/// loom takes a sequentially consistent access for acquire and release only, but knows fences.
fn exact<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
    if order != Ordering::SeqCst {
        return access();
    }
    fence(Ordering::SeqCst);
    let result = access();
    fence(Ordering::SeqCst);
    result
}

/// A queue in loom's words; its futex is a lock and a condition.
struct Model {
    tail: AtomicU32,
    head: AtomicU32,
    cells: Vec<AtomicU64>,
    claims: Vec<AtomicU64>,
    sleepers: [AtomicU64; 1],
    bells: Vec<(AtomicU32, Mutex<()>, Condvar)>,
    /// For a machine with one processor: who is woken takes all that waits before the other goes
    /// on, and sleeps again. How often that was.
    wakes: Option<StdAtomicU32>,
}

impl Fifo for Model {
    type Half = AtomicU32;
    type Full = AtomicU64;

    fn head(&self) -> &AtomicU32 {
        &self.head
    }
    fn cell(&self, ticket: u32) -> &AtomicU64 {
        &self.cells[ticket as usize % CELLS]
    }
    fn claim(&self, slot: u32) -> &AtomicU64 {
        &self.claims[slot as usize]
    }
    fn sleepers(&self) -> &[AtomicU64] {
        &self.sleepers
    }
    fn bell(&self, worker: u16) -> &AtomicU32 {
        &self.bells[usize::from(worker)].0
    }
    fn slots(&self) -> u32 {
        self.claims.len() as u32
    }
    fn workers(&self) -> u16 {
        WORKERS as u16
    }
    fn wait(&self, worker: u16, _limit: Duration) {
        let (bell, lock, rung) = &self.bells[usize::from(worker)];
        let guard = lock.lock().unwrap();
        if bell.load(Ordering::Relaxed) == 1 {
            drop(rung.wait(guard).unwrap());
        }
    }
    fn wake(&self, worker: u16) {
        if let Some(wakes) = &self.wakes {
            wakes.fetch_add(1, Ordering::Relaxed);
            while let Some(next) = self.front() {
                self.take(next, u32::from(worker) + 1);
            }
            return self.lie_down(worker);
        }
        let (_, lock, rung) = &self.bells[usize::from(worker)];
        let _guard = lock.lock().unwrap();
        rung.notify_one();
    }
}

impl Model {
    fn new() -> Model {
        // As `Segment::create` fills them: the first lap's tickets begin at 0.
        let empty = u64::from(u32::MAX) << 32;
        Model {
            tail: AtomicU32::new(0),
            head: AtomicU32::new(0),
            cells: (0..CELLS).map(|_| AtomicU64::new(empty)).collect(),
            claims: (0..2).map(|_| AtomicU64::new(empty)).collect(),
            sleepers: [AtomicU64::new(0)],
            bells: (0..WORKERS)
                .map(|_| (AtomicU32::new(0), Mutex::new(()), Condvar::new()))
                .collect(),
            wakes: None,
        }
    }

    /// As `Consumer::advance`.
    fn sleep(&self, worker: u16, has_news: impl FnOnce() -> bool) {
        self.lie_down(worker);
        if self.front().is_none() && !has_news() {
            self.wait(worker, Duration::MAX);
        }
        self.get_up(worker);
    }

    /// As `Consumer::advance`.
    fn take(&self, next: QueuedRequest, instance: u32) -> bool {
        let taken = self.claim_for(next, instance);
        self.pass(next.ticket);
        taken
    }

    /// What an event loop does for a request.
    fn submit(&self, slot: u32) -> u32 {
        let (ticket, owed) = self.publish(slot, &self.tail);
        self.wake_for(owed, &self.tail);
        ticket
    }

    /// What a worker does: the slot of the request that it takes, or nothing if it is asked to
    /// leave before.
    fn next(&self, worker: u16, retired: &AtomicU32) -> Option<u32> {
        loop {
            if retired.load(Ordering::SeqCst) != 0 {
                self.leave(worker);
                return None;
            }
            match self.front() {
                None => self.sleep(worker, || Word::load(retired, Ordering::SeqCst) != 0),
                Some(next) if self.take(next, u32::from(worker) + 1) => return Some(next.slot),
                Some(_) => {}
            }
        }
    }
}

fn worker(
    model: &Arc<Model>,
    index: u16,
    retired: &Arc<AtomicU32>,
) -> thread::JoinHandle<Option<u32>> {
    let (model, retired) = (model.clone(), retired.clone());
    thread::spawn(move || model.next(index, &retired))
}

fn every_order(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}

#[test]
fn two_event_loops_and_two_workers_leave_no_request_beside_a_sleeper() {
    every_order(|| {
        let model = Arc::new(Model::new());
        let stays = Arc::new(AtomicU32::new(0));
        let workers = [worker(&model, 0, &stays), worker(&model, 1, &stays)];
        let other = model.clone();
        let event_loop = thread::spawn(move || other.submit(0));
        let ticket = model.submit(1);
        assert_ne!(event_loop.join().unwrap(), ticket);
        let mut taken = workers.map(|worker| worker.join().unwrap().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [0, 1], "each request is taken once");
    });
}

#[test]
fn a_worker_that_leaves_takes_no_wake_up_with_it() {
    every_order(|| {
        let model = Arc::new(Model::new());
        let (leaves, stays) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let workers = [worker(&model, 0, &leaves), worker(&model, 1, &stays)];
        let other = model.clone();
        let supervisor = thread::spawn(move || {
            Word::store(&*leaves, 1, Ordering::SeqCst);
            other.ring(0);
        });
        model.submit(0);
        supervisor.join().unwrap();
        let [left, stayed] = workers;
        if left.join().unwrap().is_some() {
            model.submit(1);
        }
        assert!(stayed.join().unwrap().is_some());
    });
}

/// A worker of async mode lies down, waits for other things too, and leaves because of one of them.
#[test]
fn a_worker_that_leaves_from_its_sleep_takes_no_wake_up_with_it() {
    every_order(|| {
        let model = Arc::new(Model::new());
        let stays = worker(&model, 1, &Arc::new(AtomicU32::new(0)));
        let other = model.clone();
        let leaves = thread::spawn(move || {
            other.lie_down(0);
            other.leave(0);
        });
        model.submit(0);
        leaves.join().unwrap();
        assert!(stays.join().unwrap().is_some());
        assert_eq!(model.sleepers[0].load(Ordering::SeqCst) & 1, 0, "it is rung no more");
    });
}

#[test]
fn a_request_is_withdrawn_or_taken_and_the_one_behind_it_is_served() {
    every_order(|| {
        let model = Arc::new(Model::new());
        let stays = Arc::new(AtomicU32::new(0));
        let taker = worker(&model, 0, &stays);
        let other = model.clone();
        let event_loop = thread::spawn(move || other.submit(0));
        let ticket = model.submit(1);
        let withdrawn = model.withdraw(ticket, 1);
        event_loop.join().unwrap();
        let taken = taker.join().unwrap();
        assert!(!withdrawn || taken == Some(0), "withdrawn, and yet taken");
    });
}

#[test]
fn a_worker_that_has_taken_all_requests_is_not_woken_for_each_of_them() {
    every_order(|| {
        let model = Model { wakes: Some(StdAtomicU32::new(0)), ..Model::new() };
        model.lie_down(0);
        let owed: u32 = [0, 1].map(|slot| model.publish(slot, &model.tail).1).iter().sum();
        assert!(model.wake_for(owed, &model.tail));
        assert_eq!((owed, model.wakes.unwrap().into_inner()), (2, 1));
    });
}
