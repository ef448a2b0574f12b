//! A front: event loops with real gates, and the thread that executes the supervisor's messages.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tokamak_config::{PoolSize, Server};
use tokamak_sys::control::{FromFront, Heard, LostLines, ToFront, Why};
use tokamak_sys::queue::Segment;
use tokamak_upstream::Flow;
use tokamak_upstream::shm::{
    Alarm as Spoiled, Bounds, Death, Gate, OnLastDrop, QueuedRequest, Source, Want,
};

use crate::births::{Link, identity};
use crate::wire::{Alarm, Theirs};
use crate::zygote::version;

/// Time between two signs of life.
const BEAT: u64 = 500_000_000;
/// Time between two looks of an event loop at what has become too late.
const TICK: u64 = 200_000_000;
/// How long its thread waits for event loops that are to accept nothing any more.
const DRAIN_PATIENCE: u64 = 1_000_000_000;

/// A request that an event loop has in a queue.
pub struct Running {
    pub number: u64,
    pub exchange: QueuedRequest,
    pub body: Vec<u8>,
}

/// A message of the front's thread to each event loop.
#[derive(Clone)]
pub enum Message {
    Death { pool: u32, instance: u32, death: Death },
    Renew { place: usize, old: u32, key: u64, source: Source, taken: OnLastDrop, left: OnLastDrop },
    Forget { pool: u32 },
    Drain,
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
    pub accepts: bool,
    pub gates: Vec<Arc<Gate>>,
    /// The queues that new requests go to, by the places of the gates.
    pub keys: Vec<u64>,
    /// The requests of one connection that has many, among those of others.
    pub flow: Flow,
    pub running: Vec<Running>,
    pub inbox: Vec<u64>,
    mail: Vec<Message>,
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
        for message in std::mem::take(&mut self.mail) {
            self.apply(message);
        }
        if now >= self.next_tick {
            self.gates.iter().for_each(|gate| gate.tick(now));
            self.next_tick = now + TICK;
        }
    }

    fn apply(&mut self, message: Message) {
        match message {
            Message::Death { pool, instance, death } => {
                self.gates.iter().for_each(|gate| gate.worker_died(pool, instance, death));
            }
            Message::Renew { place, old, key, source, taken, left } => {
                self.gates[place].renew(old, source, left);
                self.keys[place] = key;
                drop(taken);
            }
            Message::Forget { pool } => self.gates.iter().for_each(|gate| gate.forget(pool)),
            Message::Drain => self.accepts = false,
        }
    }

    /// Another thread sends it a message.
    fn send(&mut self, message: Message, now: u64) {
        self.mail.push(message);
        if self.is_parked {
            self.at = self.at.min(now + 1_000);
        }
    }

    /// Falls asleep, unless there is something to do.
    pub fn park(&mut self, now: u64) {
        self.gates.iter().for_each(|gate| gate.fall_asleep());
        let is_woken = self.flag.0.swap(false, Ordering::Relaxed);
        let is_busy = is_woken || !self.inbox.is_empty() || !self.mail.is_empty();
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
    pub is_ready: bool,
    /// Since when it waits for its event loops, that they accept nothing any more.
    waits: Option<u64>,
    pub drains: bool,
    pub says: Arc<Mutex<Vec<FromFront>>>,
    /// When it begins to serve.
    ready: u64,
    /// Since when its thread listens.
    listens: u64,
    beat: u64,
}

/// What came of a front's turn.
pub enum Turned {
    Nothing,
    /// These workers are said to be dead: number of the pool, instance.
    Buried(u32, u32),
    /// All processes of this pool are said to be dead.
    Forgotten(u32),
    /// A site's requests go to another queue.
    Renewed,
    /// It ends.
    Exits(u8),
}

impl Front {
    pub fn new(
        pid: u32,
        line: Theirs,
        alarm: Alarm,
        server: &Server,
        links: Vec<Link>,
        now: u64,
    ) -> Front {
        let says: Arc<Mutex<Vec<FromFront>>> = Arc::default();
        let mut queues = Vec::new();
        let mut gates: Vec<Vec<Arc<Gate>>> = vec![Vec::new(); server.loops];
        for link in links {
            let pool = &server.sites[link.site].pool;
            let source = Source {
                number: link.number,
                segment: link.segment.clone(),
                tickets: Arc::default(),
            };
            let bounds = Bounds {
                queue: pool.queue_timeout.as_nanos() as u64,
                inbox: 100_000,
                queued: pool.queue,
                share: pool.queue.div_ceil(server.loops),
                concurrency: server.sites[link.site].concurrency,
                has_slow_log: false,
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
                let gate = Gate::new(source.clone(), index as u16, bounds, None, want, alarm);
                gates.push(Arc::new(gate));
            }
            let key = identity(link.segment.fd().as_fd());
            let Link { site, number, segment } = link;
            queues.push(Queue { site, number, key, segment });
        }
        let keys: Vec<u64> = queues.iter().map(|queue: &Queue| queue.key).collect();
        let event_loop = |gates| EventLoop {
            at: now,
            spins: 0,
            is_parked: false,
            accepts: true,
            gates,
            keys: keys.clone(),
            flow: Flow::fresh(),
            running: Vec::new(),
            inbox: Vec::new(),
            mail: Vec::new(),
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
            is_ready: false,
            waits: None,
            drains: false,
            says,
            ready: now + 2_000_000,
            listens: u64::MAX,
            beat: now,
        }
    }

    /// The key of the queue with this number.
    pub fn key(&self, number: u32) -> Option<u64> {
        self.known().find(|(other, _)| *other == number).map(|(_, key)| key)
    }

    /// Whether it has ever had this queue.
    pub fn knows(&self, key: u64) -> bool {
        self.known().any(|(_, other)| other == key)
    }

    /// Numbers and keys of all queues that it has ever had.
    pub fn known(&self) -> impl Iterator<Item = (u32, u64)> {
        let now = self.queues.iter().map(|queue| (queue.number, queue.key));
        now.chain(self.earlier.iter().copied())
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
    pub fn turn(&mut self, now: u64, drops: impl FnMut() -> bool) -> Turned {
        if !self.is_ready {
            if now < self.ready {
                self.alarm.set(self.ready);
                return Turned::Nothing;
            }
            (self.is_ready, self.listens) = (true, now);
            self.line.send(&FromFront::Ready);
        }
        if let Some(since) = self.waits {
            let overdue = since + DRAIN_PATIENCE;
            if now < overdue && self.loops.iter().any(|event_loop| event_loop.accepts) {
                self.alarm.set(overdue);
                return Turned::Nothing;
            }
            (self.waits, self.drains, self.listens) = (None, true, now);
            self.line.send(&FromFront::Draining);
        }
        self.beat(now, drops);
        let heard = self.line.receive::<ToFront>();
        self.alarm.set(self.beat.min(self.line.due()));
        let turned = match heard {
            Heard::Message(message, files) => self.apply(message, files, now),
            Heard::Nothing => Turned::Nothing,
            Heard::Closed => return Turned::Exits(1),
        };
        if self.drains && self.is_idle() && matches!(turned, Turned::Nothing) {
            self.line.send(&FromFront::Drained);
            return Turned::Exits(0);
        }
        turned
    }

    /// Since when its thread listens to the supervisor; the largest number: not now.
    pub fn listens(&self) -> u64 {
        self.listens.max(self.stopped)
    }

    fn is_idle(&self) -> bool {
        let mut loops = self.loops.iter();
        loops.all(|other| !other.accepts && other.running.is_empty() && other.inbox.is_empty())
    }

    /// Says now and then which loops turn.
    fn beat(&mut self, now: u64, mut drops: impl FnMut() -> bool) {
        if now < self.beat {
            return;
        }
        self.beat = now + BEAT;
        let mut turned = Vec::new();
        for (index, event_loop) in self.loops.iter_mut().enumerate() {
            if event_loop.turns != event_loop.said {
                event_loop.said = event_loop.turns;
                turned.push(index as u16);
            }
        }
        if !drops() {
            self.line.send(&FromFront::Turned { loops: turned, lost: LostLines::default() });
        }
    }

    fn apply(&mut self, message: ToFront, files: Vec<OwnedFd>, now: u64) -> Turned {
        match message {
            ToFront::Death { pool, instance, why, .. } => {
                let death = if why == Why::TimedOut { Death::TimedOut } else { Death::Crashed };
                self.broadcast(Message::Death { pool, instance, death }, now);
                Turned::Buried(pool, instance)
            }
            ToFront::Renew { old, new } => {
                self.renew(old, new, files, now);
                Turned::Renewed
            }
            ToFront::Forget { pool } => {
                self.broadcast(Message::Forget { pool }, now);
                Turned::Forgotten(pool)
            }
            ToFront::Drain { .. } => {
                self.broadcast(Message::Drain, now);
                (self.waits, self.listens) = (Some(now), u64::MAX);
                self.alarm.set(now);
                Turned::Nothing
            }
            _ => Turned::Nothing,
        }
    }

    fn broadcast(&mut self, message: Message, now: u64) {
        self.loops.iter_mut().for_each(|event_loop| event_loop.send(message.clone(), now));
    }

    fn renew(&mut self, old: u32, new: u32, files: Vec<OwnedFd>, now: u64) {
        let Some(memory) = files.into_iter().next() else { return };
        let Some(place) = self.queues.iter().position(|queue| queue.number == old) else { return };
        let queue = &mut self.queues[place];
        let key = identity(memory.as_fd());
        let segment = queue.segment.successor(memory).expect("memory");
        let segment = Arc::new(segment);
        self.earlier.push((queue.number, queue.key));
        (queue.number, queue.key, queue.segment) = (new, key, segment.clone());
        let source = Source { number: new, segment, tickets: Arc::default() };
        let taken = self.says_once(FromFront::Renewed { pool: new });
        let left = self.says_once(FromFront::Left { pool: old });
        self.broadcast(Message::Renew { place, old, key, source, taken, left }, now);
    }

    /// Says this when all event loops have dropped it.
    fn says_once(&self, message: FromFront) -> OnLastDrop {
        let says = self.says.clone();
        OnLastDrop::new(move || {
            // Not from a front that ends.
            if let Ok(mut says) = says.lock() {
                says.push(message.clone());
            }
        })
    }
}
