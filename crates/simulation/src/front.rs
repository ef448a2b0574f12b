//! A front: event loops with real gates, and the thread that obeys the supervisor.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tokamak_config::{PoolSize, Server};
use tokamak_sys::control::{FromFront, Heard, ToFront, Why};
use tokamak_sys::queue::Segment;
use tokamak_upstream::shm::{
    Alarm as Spoiled, Bounds, Death, Gate, OnDrained, QueuedRequest, Source, Want,
};

use crate::births::{Link, identity};
use crate::wire::{Alarm, Theirs};
use crate::zygote::version;

/// Time between two signs of life.
const BEAT: u64 = 500_000_000;
/// Time between two looks of an event loop at what has become too late.
const TICK: u64 = 200_000_000;

/// A request that an event loop has in a queue.
pub struct Running {
    pub number: u64,
    pub exchange: QueuedRequest,
    pub body: Vec<u8>,
}

/// Whether a task of the loop is to run.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub struct EventLoop {
    pub at: u64,
    /// Until then something holds it up.
    pub spins: u64,
    pub is_parked: bool,
    pub gates: Vec<Arc<Gate>>,
    pub running: Vec<Running>,
    pub inbox: Vec<u64>,
    pub flag: Arc<Flag>,
    next_tick: u64,
    turns: u64,
    said: u64,
}

impl EventLoop {
    /// What is done between two sleeps, but for the requests themselves.
    pub fn begin_turn(&mut self, now: u64) {
        self.gates.iter().for_each(|gate| gate.wake_up());
        self.is_parked = false;
        self.turns += 1;
        if now >= self.next_tick {
            self.gates.iter().for_each(|gate| gate.tick(now));
            self.next_tick = now + TICK;
        }
    }

    /// Falls asleep, unless there is something to do.
    pub fn park(&mut self, now: u64) {
        self.gates.iter().for_each(|gate| gate.fall_asleep());
        let is_busy = self.flag.0.swap(false, Ordering::Relaxed) || !self.inbox.is_empty();
        self.is_parked = true;
        self.at = if is_busy { now + 1_000 } else { self.next_tick };
    }

    pub fn waker(&self) -> Waker {
        Waker::from(self.flag.clone())
    }
}

/// What the front knows of a site's queue.
pub struct Queue {
    pub site: usize,
    pub number: u32,
    pub key: u64,
    segment: Arc<Segment>,
}

pub struct Front {
    pub pid: u32,
    pub line: Theirs,
    pub alarm: Alarm,
    pub stopped: u64,
    pub version: u64,
    pub queues: Vec<Queue>,
    /// Queues that are not in use any more: number and key.
    pub earlier: Vec<(u32, u64)>,
    pub loops: Vec<EventLoop>,
    pub accepts: bool,
    pub is_ready: bool,
    pub drains: bool,
    pub says: Arc<Mutex<Vec<FromFront>>>,
    ready: u64,
    beat: u64,
}

/// What came of a front's turn.
pub enum Turned {
    Nothing,
    /// These workers are said to be dead: number of the pool, instance.
    Buried(u32, u32),
    /// All processes of this pool are said to be dead.
    Forgotten(u32),
    /// It ends.
    Exits(u8),
}

impl Front {
    pub fn new(
        pid: u32,
        (line, alarm): (Theirs, Alarm),
        server: &Server,
        links: Vec<Link>,
        now: u64,
    ) -> Front {
        let says: Arc<Mutex<Vec<FromFront>>> = Arc::default();
        let mut queues = Vec::new();
        let mut gates: Vec<Vec<Arc<Gate>>> = vec![Vec::new(); server.loops];
        use std::os::fd::AsFd;
        for link in links {
            let pool = &server.sites[link.site].pool;
            let source = Source {
                number: link.number,
                segment: link.segment.clone(),
                tail: Arc::new(AtomicU32::new(0)),
            };
            let bounds = Bounds {
                queue: pool.queue_timeout.as_nanos() as u64,
                inbox: 100_000,
                queued: pool.queue,
                share: pool.queue.div_ceil(server.loops),
            };
            let ours = says.clone();
            let want: Want = Arc::new(move |pool| {
                ours.lock().expect("one thread").push(FromFront::Want { pool });
            });
            let can_grow = !matches!(pool.size, PoolSize::Static { .. });
            let ours = says.clone();
            let alarm: Spoiled = Arc::new(move |pool, reason| {
                let reason = reason.to_owned();
                ours.lock().expect("one thread").push(FromFront::Spoiled { pool, reason });
            });
            for (index, gates) in gates.iter_mut().enumerate() {
                let want = can_grow.then(|| want.clone());
                let alarm = Some(alarm.clone());
                let gate = Gate::new(source.clone(), index as u16, bounds, want, alarm);
                gates.push(Arc::new(gate));
            }
            let key = identity(link.segment.fd().as_fd());
            let Link { site, number, segment } = link;
            queues.push(Queue { site, number, key, segment });
        }
        let event_loop = |gates| EventLoop {
            at: now,
            spins: 0,
            is_parked: false,
            gates,
            running: Vec::new(),
            inbox: Vec::new(),
            flag: Arc::default(),
            next_tick: now + TICK,
            turns: 0,
            said: 0,
        };
        Front {
            pid,
            line,
            alarm,
            stopped: 0,
            version: server.sites.first().map(version).unwrap_or(0),
            queues,
            earlier: Vec::new(),
            loops: gates.into_iter().map(event_loop).collect(),
            accepts: false,
            is_ready: false,
            drains: false,
            says,
            ready: now + 2_000_000,
            beat: now,
        }
    }

    /// The key of the queue with this number.
    pub fn key(&self, number: u32) -> Option<u64> {
        let now = self.queues.iter().map(|queue| (queue.number, queue.key));
        let mut all = now.chain(self.earlier.iter().copied());
        all.find(|(other, _)| *other == number).map(|(_, key)| key)
    }

    /// Says what the loops have left to say; `drops` some of it, as a full line does.
    pub fn speak(&mut self, mut drops: impl FnMut() -> bool) {
        for message in std::mem::take(&mut *self.says.lock().expect("one thread")) {
            if !drops() {
                self.line.send(&message);
            }
        }
    }

    /// A turn of the thread that listens to the supervisor. One message at most.
    pub fn turn(&mut self, now: u64, mut drops: impl FnMut() -> bool) -> Turned {
        if !self.is_ready {
            if now < self.ready {
                self.alarm.set(self.ready);
                return Turned::Nothing;
            }
            (self.is_ready, self.accepts) = (true, true);
            self.line.send(&FromFront::Ready);
        }
        if now >= self.beat {
            self.beat = now + BEAT;
            let mut turned = Vec::new();
            for (index, event_loop) in self.loops.iter_mut().enumerate() {
                if event_loop.turns != event_loop.said {
                    event_loop.said = event_loop.turns;
                    turned.push(index as u16);
                }
            }
            if !drops() {
                self.line.send(&FromFront::Turned { loops: turned });
            }
        }
        let heard = self.line.receive::<ToFront>();
        self.alarm.set(self.beat.min(self.line.due()));
        let is_idle = |this: &Front| {
            this.loops.iter().all(|other| other.running.is_empty() && other.inbox.is_empty())
        };
        let turned = match heard {
            Heard::Message(ToFront::Death { pool, instance, why, .. }, _) => {
                let death = if why == Why::TimedOut { Death::TimedOut } else { Death::Crashed };
                for gate in self.loops.iter().flat_map(|event_loop| &event_loop.gates) {
                    gate.worker_died(pool, instance, death);
                }
                Turned::Buried(pool, instance)
            }
            Heard::Message(ToFront::Renew { old, new }, files) => {
                self.renew(old, new, files);
                Turned::Nothing
            }
            Heard::Message(ToFront::Forget { pool }, _) => {
                for gate in self.loops.iter().flat_map(|event_loop| &event_loop.gates) {
                    gate.forget(pool);
                }
                Turned::Forgotten(pool)
            }
            Heard::Message(ToFront::Drain, _) => {
                (self.accepts, self.drains) = (false, true);
                self.line.send(&FromFront::Draining);
                Turned::Nothing
            }
            Heard::Message(..) | Heard::Nothing => Turned::Nothing,
            Heard::Closed => return Turned::Exits(1),
        };
        for event_loop in self.loops.iter_mut() {
            // A task that was woken from another thread.
            if event_loop.flag.0.load(Ordering::Relaxed) {
                event_loop.at = event_loop.at.min(now + 1_000);
            }
        }
        if self.drains && is_idle(self) && matches!(turned, Turned::Nothing) {
            self.line.send(&FromFront::Drained);
            return Turned::Exits(0);
        }
        turned
    }

    fn renew(&mut self, old: u32, new: u32, files: Vec<std::os::fd::OwnedFd>) {
        use std::os::fd::AsFd;
        let Some(memory) = files.into_iter().next() else { return };
        let Some(place) = self.queues.iter().position(|queue| queue.number == old) else { return };
        let queue = &mut self.queues[place];
        let key = identity(memory.as_fd());
        let segment = Segment::map_as(memory, queue.segment.geometry()).expect("memory");
        let segment = Arc::new(segment);
        self.earlier.push((queue.number, queue.key));
        (queue.number, queue.key, queue.segment) = (new, key, segment.clone());
        let source = Source { number: new, segment, tail: Arc::default() };
        let says = self.says.clone();
        let farewell = OnDrained::new(move || {
            // Not from a front that ends.
            if let Ok(mut says) = says.lock() {
                says.push(FromFront::Left { pool: old });
            }
        });
        for event_loop in &self.loops {
            event_loop.gates[place].renew(old, source.clone(), farewell.clone());
        }
    }
}
