//! Many event loops and workers against one queue, and nothing else: what the shared lines cost.
//! `bench/contention` runs it and reads what it prints.
//!
//! ```text
//! contention lines                          what a cache line costs that two processors want
//! contention queue LOOPS WORKERS REQUESTS   threads, as many requests under way as slots
//! contention trace LOOPS WORKERS REQUESTS   the same by turns in one thread, for valgrind's lackey
//! ```

use std::collections::VecDeque;
use std::env;
use std::hint::{black_box, spin_loop};
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tokamak_sys::channel::{self, Watch};
use tokamak_sys::queue::{
    Claim, Consumer, Drained, Geometry, LAYOUT_VERSION, Next, Outcome, Producer, Search, Segment,
    SlotId, Step, Tickets,
};

/// Slots of a loop: as many requests as it has under way.
const SLOTS: u16 = 64;
/// The record of a small request and the response to it, in bytes.
const RECORD: usize = 700;
const RESPONSE: &[u8] = br#"{"errno":0,"errmsg":"success","data":"e"}"#;
/// Accesses of each thread to a line: a millisecond or less, so that others seldom interrupt them.
const ACCESSES: u64 = 10_000;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| words[at].parse().expect("a number");
    match words.first().map(String::as_str) {
        Some("lines") if words.len() == 1 => lines(),
        Some("queue") if words.len() == 4 => {
            Queue::new(number(1), number(2)).run(number(3));
        }
        Some("trace") if words.len() == 4 => {
            Queue::new(number(1), number(2)).trace(number(3));
        }
        _ => panic!("lines, queue LOOPS WORKERS REQUESTS, or trace LOOPS WORKERS REQUESTS"),
    }
}

/// The queue of a pool with so many loops and workers.
struct Queue {
    segment: Arc<Segment>,
    tickets: Arc<Tickets>,
    bells: Vec<OwnedFd>,
    workers: u16,
}

impl Queue {
    fn new(loops: u32, workers: u32) -> Queue {
        let (loops, workers) = (loops as u16, workers as u16);
        let geometry = Geometry::new(loops, SLOTS, workers, 20 * 1024, 64 * 1024);
        let segment = Arc::new(Segment::create("contention", geometry).expect("memory"));
        let bells = (0..loops).map(|_| channel::bell().expect("an eventfd")).collect();
        Queue { segment, tickets: Arc::default(), bells, workers }
    }

    fn producer(&self, index: u16) -> Producer {
        Producer::new(self.segment.clone(), index, self.tickets.clone())
    }

    fn consumer(&self, index: u16) -> Consumer {
        let bells = self.bells.iter().map(|bell| bell.try_clone().expect("a descriptor"));
        Consumer::new(self.segment.clone(), bells.collect(), index, u32::from(index) + 1)
    }

    /// Prints, for each request: nanoseconds, nanoseconds of processor time, claims that were
    /// tried, and sleeps of workers.
    fn run(&self, requests: u32) {
        let claims = AtomicU64::new(0);
        let sleeps = AtomicU64::new(0);
        let (began, cpu) = (Instant::now(), cpu_time());
        let mut took = (0.0, 0.0);
        let each = requests / self.bells.len() as u32;
        thread::scope(|scope| {
            for index in 0..self.workers {
                let (consumer, claims, sleeps) = (self.consumer(index), &claims, &sleeps);
                scope.spawn(move || {
                    let (tried, slept) = work(consumer);
                    claims.fetch_add(tried, Ordering::Relaxed);
                    sleeps.fetch_add(slept, Ordering::Relaxed);
                });
            }
            let loops: Vec<_> = (self.bells.iter().zip(0..))
                .map(|(bell, index)| {
                    let producer = self.producer(index);
                    scope.spawn(move || serve(producer, bell, each))
                })
                .collect();
            loops.into_iter().for_each(|one| one.join().expect("a loop"));
            took = (began.elapsed().as_nanos() as f64, (cpu_time() - cpu) as f64);
            (0..self.workers).for_each(|index| self.segment.retire(index));
        });
        let all = f64::from(each * self.bells.len() as u32);
        let [claims, sleeps] = [claims, sleeps].map(|count| count.into_inner() as f64);
        println!("{:.1} {:.1} {:.4} {:.4}", took.0 / all, took.1 / all, claims / all, sleeps / all);
    }

    /// Lets loops and workers take turns, one request each, and says before each turn whose it is:
    /// by a write to that one's word of `turns`. Prints where these words are and how many, where
    /// the tail is, and the layout's version; and where the first slot's record is.
    fn trace(&self, requests: u32) {
        let mut turns = vec![0_u64; self.bells.len() + usize::from(self.workers)];
        println!(
            "{:p} {} {:p} {LAYOUT_VERSION}",
            turns.as_ptr(),
            turns.len(),
            &raw const *self.tickets
        );
        let mut producers: Vec<_> =
            (0..self.bells.len()).map(|at| self.producer(at as u16)).collect();
        let mut consumers: Vec<_> = (0..self.workers).map(|at| self.consumer(at)).collect();
        let loops = producers.len();
        let mut waiting = VecDeque::new();
        for number in 0..requests as usize {
            let turn = |turns: &mut [u64], who: usize| black_box(turns)[who] += 1;
            let (at, worker) = (number % loops, number % consumers.len());
            turn(&mut turns, at);
            let id = submit(&mut producers[at]);
            producers[at].wake_owed();
            turn(&mut turns, loops + worker);
            let mut search = Search::default();
            loop {
                let step = consumers[worker].advance(
                    &mut search,
                    &mut |_| Claim::Go,
                    &mut || {},
                    tokamak_cost::now,
                );
                match step {
                    Step::Done => {}
                    Step::Found(Next::Request(job)) => {
                        if number == 0 {
                            println!("{:p}", job.record().as_ptr());
                        }
                        answer(job);
                        break;
                    }
                    _ => panic!("a request was queued"),
                }
            }
            waiting.push_back((at, id));
            turn(&mut turns, at);
            producers[at].take_ready().for_each(drop);
            let (at, id) = waiting.pop_front().expect("one waits");
            assert!(is_answered(&mut producers[at], id, &mut Vec::with_capacity(256)));
            producers[at].release(id);
        }
        black_box(&mut consumers);
    }
}

fn submit(producer: &mut Producer) -> SlotId {
    producer.submit(&[b'r'; RECORD], 0, b"").expect("a free slot").0
}

fn is_answered(producer: &mut Producer, id: SlotId, out: &mut Vec<u8>) -> bool {
    out.clear();
    matches!(producer.drain(id, out).expect("a sound slot"), Drained::Finished { .. })
}

fn answer(mut job: tokamak_sys::queue::Job) {
    black_box(job.record().iter().map(|byte| u32::from(*byte)).sum::<u32>());
    let done = job.send_head(200, iter::empty()).and_then(|()| job.write(RESPONSE));
    done.expect("nobody aborts");
    job.finish(Outcome::Complete);
}

/// A worker, until it is retired: how many claims it tried, and how often it slept.
fn work(mut consumer: Consumer) -> (u64, u64) {
    let (mut tried, mut slept) = (0, 0);
    loop {
        let claim = |_| {
            tried += 1;
            Claim::Go
        };
        match consumer.next(claim, || slept += 1) {
            Next::Request(job) => answer(job),
            Next::Retire => return (tried, slept),
        }
    }
}

/// A loop: keeps all its slots taken until so many requests are answered.
fn serve(mut producer: Producer, bell: &OwnedFd, requests: u32) {
    let (mut sent, mut answered, mut under_way) = (0, 0, 0);
    let mut ready = Vec::new();
    let mut response = Vec::new();
    while answered < requests {
        while under_way < SLOTS && sent < requests {
            submit(&mut producer);
            under_way += 1;
            sent += 1;
        }
        producer.wake_owed();
        ready.extend(producer.take_ready());
        if ready.is_empty() {
            // As the front does: asks for the bell, looks once more, sleeps.
            producer.fall_asleep();
            ready.extend(producer.take_ready());
            if ready.is_empty() {
                let limit = Some(Duration::from_millis(200));
                channel::poll(&mut [Watch::read(bell.as_fd())], limit).expect("poll");
                let _ = rustix::io::read(bell, &mut [0; 8]);
            }
            producer.wake_up();
        }
        for id in ready.drain(..) {
            if is_answered(&mut producer, id, &mut response) {
                producer.release(id);
                under_way -= 1;
                answered += 1;
            }
        }
    }
}

/// Prints nanoseconds: a line that goes from one processor to the other; a number to which both
/// add, for each addition; two numbers on one line; two numbers on lines of their own.
fn lines() {
    #[repr(align(128))]
    #[derive(Default)]
    struct CacheLine([AtomicU64; 2]);

    let ball = CacheLine::default();
    let passed = both(|who| {
        for round in 0..ACCESSES / 4 {
            while ball.0[0].load(Ordering::Acquire) != 2 * round + who {
                spin_loop();
            }
            ball.0[0].store(2 * round + who + 1, Ordering::Release);
        }
    }) / (ACCESSES / 2) as f64;
    let pair = [CacheLine::default(), CacheLine::default()];
    let adding = |word: fn(usize) -> (usize, usize)| {
        let took = both(|who| {
            let (line, at) = word(who as usize);
            (0..ACCESSES).for_each(|_| {
                pair[line].0[at].fetch_add(1, Ordering::SeqCst);
            });
        });
        took / ACCESSES as f64
    };
    let (one, beside, apart) = (adding(|_| (0, 0)), adding(|who| (0, who)), adding(|who| (who, 0)));
    println!("{passed:.1} {one:.1} {beside:.1} {apart:.1}");
}

/// How many nanoseconds two threads take for this, one on each of the first two processors.
fn both(what: impl Fn(u64) + Sync) -> f64 {
    let start = AtomicU64::new(0);
    let mut took = 0.0;
    thread::scope(|scope| {
        let run = |who: u64| {
            let mut own = CpuSet::new();
            own.set(who as usize);
            sched_setaffinity(None, &own).expect("two processors");
            start.fetch_add(1, Ordering::SeqCst);
            while start.load(Ordering::SeqCst) < 2 {
                spin_loop();
            }
            let began = Instant::now();
            what(who);
            began.elapsed().as_nanos() as f64
        };
        let other = scope.spawn(move || run(1));
        let own = scope.spawn(move || run(0)).join().expect("a thread");
        took = own.max(other.join().expect("a thread"));
    });
    took
}

/// Processor time of this process, in nanoseconds.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
