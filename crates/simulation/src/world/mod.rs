//! The world of one schedule: who is there, who acts next, what happens.

macro_rules! trace {
    ($self:ident, $($what:tt)*) => {
        if $self.traces {
            let at = ($self.clock.get() + $crate::world::LEAD - $crate::world::BEGIN) as f64 / 1e9;
            let line = format!("{at:>13.6} {}", format_args!($($what)*));
            tokamak_supervisor::log::divert(|lines| lines.push(line));
        }
    };
}

mod check;
mod faults;
mod traffic;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokamak_supervisor::fleet::{Fleet, Outside};
use tokamak_supervisor::generation::Patience;
use tokamak_supervisor::log;
use tokamak_supervisor::means::Means;
use tokamak_sys::control::{EXIT_BOOT_FAILED, FromZygote, Status};
use tokamak_sys::queue::Job;

use crate::births::{Birth, Births, Kind};
use crate::faults::{Fault, FaultSchedule};
use crate::front::{EventLoop, Front};
use crate::random::Random;
use crate::requests::{End, Request, Taken};
use crate::shape;
use crate::supervisor::Around;
use crate::wire::{Alarm, Parent, ring};
use crate::worker::{Behaviour, Limits, Phase, StepResult, Worker};
use crate::zygote::{Inherited, Query, Zygote};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// When faults begin: the first generation mostly serves by then.
pub const BEGIN: u64 = 1_000 * SECOND;
/// For how long there are faults.
pub const FAULTS: u64 = 1_000 * MILLI;
/// Time before that.
pub(crate) const LEAD: u64 = 150 * MILLI;
/// After the last fault everything must serve again within this time: longest pauses of renewals
/// and of replaced fronts (a minute each), a boot that hangs (a minute), and room for one of them
/// to meet another.
const RECOVERY: u64 = 300 * SECOND;
/// The same where all that goes wrong shows by itself, so that no process has to be found silent:
/// twice what the slowest of 100 000 schedules took.
const RECOVERY_SOON: u64 = 15 * SECOND;
/// An idle worker may sit beside a waiting request for so long where no process was stopped:
/// what messages and steps take.
const BESIDE: u64 = 10 * MILLI;
/// And otherwise: until an event loop looks for it, twice.
const BESIDE_FAULTS: u64 = 450 * MILLI;
/// Time between two looks at what must hold all the time.
const LOOK_EVERY: u64 = MILLI;
/// How long everything has to be well at the end.
const CALM: u64 = 200 * MILLI;
/// Steps of a schedule that does not come to an end.
const MOST_STEPS: u64 = 3_000_000;

/// What a schedule has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// Steps.
    pub steps: u64,
    /// Requests, and those that were answered.
    pub requests: u64,
    /// Of them.
    pub answered: u64,
    /// Nanoseconds from the last fault until everything served again.
    pub recovery: u64,
    /// Renewals of a site's processes.
    pub renewals: u64,
    /// Generations.
    pub generations: u64,
}

#[derive(Clone, Copy)]
enum Actor {
    Supervisor,
    Front(usize),
    EventLoop(usize, usize),
    Zygote(usize),
    Worker(usize),
    Client,
    Fault,
}

pub struct World {
    clock: Rc<Cell<u64>>,
    random: Random,
    faults: std::vec::IntoIter<(u64, Fault)>,
    next_fault: Option<(u64, Fault)>,
    /// What happens to the worker that makes a step, after so many others.
    ambush: Option<(u64, Fault)>,
    /// What happens to the next process of its kind as it begins.
    at_birth: Option<Fault>,
    /// When the last fault that ends is over.
    calm: u64,
    /// How long after that everything may take to serve again.
    recovery: u64,
    fleet: Fleet,
    around: Around,
    births: Births,
    supervisor: Alarm,
    /// When there is something to hear for it.
    mail: Alarm,
    supervisor_stopped: u64,
    /// Children of the supervisor that have ended.
    ended: Vec<(u32, Status)>,
    fronts: Vec<Front>,
    zygotes: Vec<Zygote>,
    workers: Vec<Worker>,
    /// Jobs of workers that were killed: dropped in the middle they would do what the dead do not.
    graves: Vec<Job>,
    /// The same of fronts.
    dead_loops: Vec<Vec<EventLoop>>,
    /// Workers that a front may still believe to live: they may hold requests.
    deaths: Vec<Dead>,
    requests: Vec<Request>,
    next_client: u64,
    burst: u32,
    /// Queues into which a worker has written garbage.
    spoiled: Vec<u64>,
    broken: u64,
    crashes: u64,
    hangs: u64,
    deaf: u64,
    /// When the clock has jumped.
    jumped: u64,
    version: u64,
    site_count: usize,
    loop_count: usize,
    well: u64,
    /// When processes have failed to start, and those of which queue.
    failed_starts: VecDeque<(u64, u64)>,
    /// Queues whose front has ended, and when: their workers are to leave.
    left: Vec<(u64, u64)>,
    /// Queues whose zygote was stopped.
    silent: Vec<u64>,
    /// Words of the front may be lost.
    may_be_deaf: bool,
    wrong: Option<String>,
    /// When it is looked again at what must hold all the time.
    looks: u64,
    ran: Ran,
    traces: bool,
}

/// A worker that has died, and may have a request or a wake-up.
struct Dead {
    key: u64,
    instance: u32,
    zygote: u32,
    /// Since when it is dead, and its zygote too if that has died as well.
    since: u64,
    is_orphan: bool,
    /// Whether there was a front that knew it. A later one does not hear of its death.
    has_front: bool,
    /// When its front heard of it.
    known_since: Option<u64>,
}

impl World {
    pub fn new(seed: u64, faults: FaultSchedule, traces: bool) -> World {
        let mut random = Random::new(seed);
        let clock = Rc::new(Cell::new(BEGIN - LEAD));
        let server = shape::server(&mut random);
        let supervisor: Alarm = Rc::new(Cell::new(clock.get()));
        let mail: Alarm = Rc::new(Cell::new(0));
        let parent = Parent { acts: supervisor.clone(), mail: mail.clone() };
        let births = Births::new(clock.clone(), Random::new(random.next()), parent);
        log::keep(traces);
        let (site_count, loop_count) = (server.sites.len(), server.loops);
        let mut around = Around { next: server.clone(), serves: 1, given_up: 0 };
        let mut fleet = Fleet::new(server.clone());
        let resolved = around.resolve(&server).expect("nothing to be found");
        fleet.start(&mut around, resolved, Patience::Eager, clock.get()).expect("memory");
        let is_plain = faults.iter().all(|(_, fault)| fault.shows());
        let recovery = if is_plain { RECOVERY_SOON } else { RECOVERY };
        let may_be_deaf = faults.iter().any(|(_, fault)| matches!(fault, Fault::Deaf(_)));
        let mut faults = faults.into_iter();
        let next_fault = faults.next();
        let next_client = clock.get();
        World {
            clock,
            random,
            faults,
            next_fault,
            ambush: None,
            at_birth: None,
            calm: BEGIN,
            recovery,
            fleet,
            around,
            births,
            supervisor,
            mail,
            supervisor_stopped: 0,
            ended: Vec::new(),
            fronts: Vec::new(),
            zygotes: Vec::new(),
            workers: Vec::new(),
            graves: Vec::new(),
            dead_loops: Vec::new(),
            deaths: Vec::new(),
            requests: Vec::new(),
            next_client,
            burst: 0,
            spoiled: Vec::new(),
            broken: 0,
            crashes: 0,
            hangs: 0,
            deaf: 0,
            jumped: 0,
            version: 1,
            site_count,
            loop_count,
            well: u64::MAX,
            failed_starts: VecDeque::new(),
            left: Vec::new(),
            silent: Vec::new(),
            may_be_deaf,
            wrong: None,
            looks: 0,
            ran: Ran::default(),
            traces,
        }
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        log::divert(|kept| lines = std::mem::take(kept));
        lines
    }

    /// Runs until everything is well again.
    pub fn run(&mut self) -> Result<Ran, String> {
        loop {
            self.step();
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
            self.ran.steps += 1;
            let now = self.clock.get();
            if self.next_fault.is_none() && now > self.calm {
                if !self.is_well() {
                    self.well = u64::MAX;
                } else if self.well == u64::MAX {
                    self.well = now;
                } else if now - self.well > CALM
                    && self.is_complete()
                    && self.all_answered_since(self.well)
                {
                    self.ran.recovery = self.well - self.calm;
                    let last = self.fleet.generations.last();
                    self.ran.generations = last.map_or(0, |last| last.number.into());
                    self.ran.requests = self.requests.len() as u64;
                    let answered = |request: &&Request| request.end == Some(End::Answered);
                    self.ran.answered = self.requests.iter().filter(answered).count() as u64;
                    return Ok(self.ran);
                }
                if now - self.calm > self.recovery {
                    let what = match self.what_is_not_well() {
                        what if !what.is_empty() => what,
                        _ if !self.is_complete() => "a pool has too few workers".to_owned(),
                        _ => "requests are not answered".to_owned(),
                    };
                    return Err(format!("not well again in time: {what}"));
                }
            }
            if self.ran.steps > MOST_STEPS {
                return Err("it goes on for ever".to_owned());
            }
        }
    }

    fn fail(&mut self, what: String) {
        trace!(self, "WRONG {what}");
        self.wrong.get_or_insert(what);
    }

    /// The clock goes on to the first process that is due, and that process acts.
    fn step(&mut self) {
        let mut first = (self.supervisor.get().max(self.supervisor_stopped), Actor::Supervisor);
        let mut look = |at: u64, actor: Actor| {
            if at < first.0 {
                first = (at, actor);
            }
        };
        for (index, front) in self.fronts.iter().enumerate() {
            look(front.alarm.get().max(front.stopped), Actor::Front(index));
            for (number, event_loop) in front.loops.iter().enumerate() {
                let at = event_loop.at.max(event_loop.spins).max(front.stopped);
                look(at, Actor::EventLoop(index, number));
            }
        }
        for (index, zygote) in self.zygotes.iter().enumerate() {
            look(zygote.alarm.get().max(zygote.stopped), Actor::Zygote(index));
        }
        for (index, worker) in self.workers.iter().enumerate() {
            look(worker.at.max(worker.stopped), Actor::Worker(index));
        }
        look(self.next_client, Actor::Client);
        look(self.next_fault.map_or(u64::MAX, |(at, _)| at), Actor::Fault);
        let (at, actor) = first;
        self.clock.set(self.clock.get().max(at));
        // Nothing has happened since the last step, so what has lasted too long shows now.
        if self.clock.get() >= self.looks {
            self.looks = self.clock.get() + LOOK_EVERY;
            self.look();
        }
        match actor {
            Actor::Supervisor => self.supervise(),
            Actor::Front(index) => self.turn_front(index),
            Actor::EventLoop(front, number) => self.turn_loop(front, number),
            Actor::Zygote(index) => self.turn_zygote(index),
            Actor::Worker(index) => self.step_worker(index),
            Actor::Client => self.arrive(),
            Actor::Fault => self.break_something(),
        }
        if !matches!(actor, Actor::Client | Actor::Zygote(_)) {
            self.rouse(matches!(actor, Actor::Worker(_) | Actor::Fault));
        }
    }

    /// A worker or event loop that was woken goes on.
    fn rouse(&mut self, loops_too: bool) {
        let now = self.clock.get();
        for worker in &mut self.workers {
            if worker.phase == Phase::Asleep && worker.at > now + MILLI && !worker.is_asleep() {
                worker.wake(now + self.random.between(500, 60_000));
            }
        }
        if !loops_too {
            return;
        }
        for event_loop in self.fronts.iter_mut().flat_map(|front| &mut front.loops) {
            let is_rung = || !event_loop.gates.iter().all(|gate| gate.is_asleep());
            if event_loop.is_parked && event_loop.at > now + MILLI && is_rung() {
                event_loop.at = now + self.random.between(500, 60_000);
            }
        }
    }

    // The supervisor.

    fn supervise(&mut self) {
        let now = self.clock.get();
        let means: &dyn Means = &self.births;
        let has_mail = self.mail.get() <= now;
        if has_mail {
            self.mail.set(u64::MAX);
        }
        for at in (0..self.fleet.generations.len()).filter(|_| has_mail) {
            let generation = &mut self.fleet.generations[at];
            generation.hear_front(means, now);
            for pool in 0..generation.all_pools().count() {
                generation.hear_pool(pool, means, now);
            }
        }
        let ended = std::mem::take(&mut self.ended);
        self.fleet.reap(ended.into_iter(), now);
        self.fleet.tick(means, now);
        let before: Vec<u32> = self.fleet.generations.iter().map(|other| other.number).collect();
        self.fleet.advance(&mut self.around, now);
        let next =
            (now + self.fleet.next_look(now).as_nanos() as u64).min(self.mail.get().max(now));
        self.supervisor.set(next + self.random.between(1_000, 100_000));
        if self.traces {
            for number in before {
                if !self.fleet.generations.iter().any(|other| other.number == number) {
                    trace!(self, "generation {number} is gone");
                }
            }
        }
        self.check_watchdog();
        self.bear();
        let killed = std::mem::take(&mut *self.births.killed.borrow_mut());
        for pid in killed {
            self.die(pid, Status::Signal(9));
        }
    }

    /// What the supervisor has started comes to life.
    fn bear(&mut self) {
        let now = self.clock.get();
        let born = std::mem::take(&mut *self.births.born.borrow_mut());
        for Birth { pid, line, alarm, what } in born {
            match what {
                Kind::Zygote { memory, bells, site } => {
                    let inherited = Inherited { line, alarm, memory, bells };
                    let zygote = Zygote::new(pid, inherited, &site, now, &mut self.random);
                    trace!(self, "zygote {pid} of {} version {}", site.name, zygote.version);
                    self.zygotes.push(zygote);
                    self.spring_at_zygote();
                }
                Kind::Front { server, pools } => {
                    trace!(self, "front {pid} begins");
                    self.fronts.push(Front::new(pid, line, alarm, &server, pools, now));
                    self.spring_at_front();
                }
            }
        }
    }

    /// A process ends.
    fn die(&mut self, pid: u32, status: Status) {
        let now = self.clock.get();
        if let Some(at) = self.fronts.iter().position(|front| front.pid == pid) {
            trace!(self, "front {pid} ends: {status}");
            self.left.extend(self.fronts[at].known().map(|(_, key)| (key, now)));
            let Front { line, loops, .. } = self.fronts.remove(at);
            drop(line);
            self.dead_loops.push(loops);
            for request in &mut self.requests {
                if request.front == pid && request.end.is_none() {
                    request.end = Some(End::Lost);
                }
            }
            self.ended.push((pid, status));
        } else if let Some(at) = self.zygotes.iter().position(|zygote| zygote.pid == pid) {
            trace!(self, "zygote {pid} ends: {status}");
            let zygote = self.zygotes.remove(at);
            if !zygote.is_ready() && matches!(status, Status::Code(_)) {
                self.has_failed_to_start(zygote.key);
            }
            self.ended.push((pid, status));
            for dead in self.deaths.iter_mut().filter(|dead| dead.zygote == pid) {
                (dead.since, dead.is_orphan) = (now, true);
            }
            // The kernel kills its workers, and the supervisor inherits them.
            let orphans: Vec<u32> =
                self.workers.iter().filter(|other| other.zygote == pid).map(|o| o.pid).collect();
            for orphan in orphans {
                self.die(orphan, Status::Signal(9));
            }
        } else if let Some(at) = self.workers.iter().position(|worker| worker.pid == pid) {
            let mut worker = self.workers.remove(at);
            trace!(self, "worker {pid} ({}) ends: {status}", worker.instance);
            self.graves.extend(worker.take_jobs());
            if status == Status::Code(EXIT_BOOT_FAILED) {
                self.has_failed_to_start(worker.key);
            }
            let Worker { key, instance, zygote, .. } = worker;
            self.deaths.push(Dead {
                key,
                instance,
                zygote,
                since: now,
                is_orphan: self.zygotes.iter().all(|other| other.pid != zygote),
                has_front: self.fronts.iter().any(|front| front.knows(key)),
                known_since: None,
            });
            match self.zygotes.iter_mut().find(|zygote| zygote.pid == worker.zygote) {
                Some(zygote) => {
                    zygote.ended.push((worker.index, worker.instance, status));
                    ring(&zygote.alarm, now + 10_000);
                }
                None => self.ended.push((pid, status)),
            }
        }
        ring(&self.supervisor, now + self.random.between(1_000, 50_000));
    }

    // Zygotes and workers.

    fn turn_zygote(&mut self, index: usize) {
        let now = self.clock.get();
        let is_broken = now < self.broken;
        let actions = self.zygotes[index].turn(now, is_broken);
        let pid = self.zygotes[index].pid;
        for query in actions {
            match query {
                Query::Fork { index: place, instance } => self.fork(index, place, instance),
                Query::Kill { index: place, instance } => {
                    let found = self.workers.iter().find(|worker| {
                        (worker.zygote, worker.index, worker.instance) == (pid, place, instance)
                    });
                    if let Some(worker) = found.map(|worker| worker.pid) {
                        self.die(worker, Status::Signal(9));
                    }
                }
                Query::Exit(status, with_workers) => {
                    if with_workers {
                        let mine = self.workers.iter().filter(|worker| worker.zygote == pid);
                        let mine: Vec<u32> = mine.map(|worker| worker.pid).collect();
                        for worker in mine {
                            // Reaped by the zygote itself.
                            self.die(worker, Status::Signal(9));
                        }
                    }
                    return self.die(pid, status);
                }
            }
        }
    }

    fn fork(&mut self, index: usize, place: u16, instance: u32) {
        let now = self.clock.get();
        let pid = self.births.next_pid();
        let zygote = &self.zygotes[index];
        let Some(segment) = zygote.segment.clone() else { return };
        let site = self.around.next.sites.iter().find(|site| site.name == zygote.place);
        let Some(limits) = site.map(Limits::of) else { return };
        let bells = zygote.bells.iter().map(|bell| bell.try_clone().expect("a bell")).collect();
        let at = now + self.random.between(20_000, 300_000);
        let worker = Worker::new(
            pid,
            zygote.pid,
            place,
            instance,
            zygote.key,
            zygote.version,
            segment,
            bells,
            limits,
            at,
        );
        zygote.line.send(&FromZygote::Spawned { index: place, instance, pid });
        trace!(self, "worker {pid} ({instance}) is forked by {}", zygote.pid);
        self.workers.push(worker);
    }

    fn step_worker(&mut self, index: usize) {
        let now = self.clock.get();
        let behaviour = Behaviour {
            is_broken: now < self.broken,
            hangs: if now < self.hangs { 300 } else { 0 },
            crashes: if now < self.crashes { 300 } else { 0 },
        };
        let worker = &mut self.workers[index];
        let (pid, key) = (worker.pid, worker.key);
        match worker.step(now, behaviour, &mut self.random) {
            StepResult::Nothing => {}
            StepResult::Exits(code) => self.die(pid, Status::Code(code)),
            StepResult::Takes(number) => {
                if let Some(request) = self.requests.get_mut(number as usize)
                    && request.key == key
                {
                    let instance = worker.instance;
                    request.taken = Some(Taken { pid, instance, at: now });
                }
            }
            StepResult::Runs(number) => self.runs(pid, key, number),
        }
        if self.ambush.is_some() {
            self.spring(pid);
        }
    }

    fn runs(&mut self, pid: u32, key: u64, number: u64) {
        trace!(self, "worker {pid} runs request {number}");
        let is_sound = !self.spoiled.contains(&key);
        let Some(request) = self.requests.get_mut(number as usize) else {
            if is_sound {
                self.fail(format!("a worker runs request {number}, which there is not"));
            }
            return;
        };
        request.runs += 1;
        let most = if request.is_get { request.tries } else { request.tries.min(1) };
        if is_sound && request.runs > most {
            let (runs, tries) = (request.runs, request.tries);
            self.fail(format!("request {number} runs {runs} times after {tries} tries"));
        } else if is_sound && request.end == Some(End::Refused) {
            self.fail(format!("request {number} runs after it was refused"));
        }
    }
}
