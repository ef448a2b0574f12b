//! A worker as a list of steps, with the queue's real consumer. It can be killed or stopped between
//! any two of them.

use std::sync::Arc;

use tokamak_config::{Mode, Site};
use tokamak_sys::queue::{Claim, Consumer, Job, Next, Outcome, Search, Segment, Step, WorkerState};

use crate::random::Random;

/// A request as it stands in the queue: number, and whether it hangs for ever.
pub const RECORD: usize = 16;

/// What a worker does, beside the requests that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Born,
    Booting,
    Seeking,
    Asleep,
    /// It takes no more requests, and ends with its last one.
    Leaving,
    /// It computes for ever.
    Computing,
}

/// What a step of a worker did.
pub enum StepResult {
    Nothing,
    /// It has this request.
    Takes(u64),
    /// It runs this request.
    Runs(u64),
    /// It ends with this status.
    Exits(u8),
}

/// What a worker knows of its site's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// It takes further requests while those that it has wait.
    pub is_async: bool,
    /// Requests that it has at once, at most.
    pub concurrency: usize,
    /// Requests that it serves, at most; zero: any number.
    pub requests: u64,
}

impl Limits {
    pub fn of(site: &Site) -> Limits {
        Limits {
            is_async: site.mode == Mode::Async,
            concurrency: site.concurrency,
            requests: site.pool.max_requests,
        }
    }
}

/// How far a request is that a worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reading,
    Working,
    Ending,
}

struct UnderWay {
    job: Job,
    request: Option<u64>,
    stage: Stage,
    /// When it goes on.
    at: u64,
    since: u64,
}

pub struct Worker {
    pub pid: u32,
    pub zygote: u32,
    pub index: u16,
    pub instance: u32,
    pub key: u64,
    pub version: u64,
    pub phase: Phase,
    pub at: u64,
    /// When it was forked.
    pub forked: u64,
    pub stopped: u64,
    /// Since when it sleeps.
    pub since: u64,
    pub limits: Limits,
    pub segment: Arc<Segment>,
    pub consumer: Consumer,
    search: Search,
    /// When it goes on with its search.
    seeks: u64,
    /// The oldest first.
    under_way: Vec<UnderWay>,
    /// It goes on with requests before it looks for another.
    is_serving: bool,
    served: u64,
}

/// How the application behaves at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// It does not boot.
    pub is_broken: bool,
    /// Requests in a thousand that never end.
    pub hangs: u64,
    /// Requests in a thousand whose worker dies.
    pub crashes: u64,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "each is a fact of its own")]
    pub fn new(
        pid: u32,
        zygote: u32,
        index: u16,
        instance: u32,
        key: u64,
        version: u64,
        segment: Arc<Segment>,
        bells: Vec<std::os::fd::OwnedFd>,
        limits: Limits,
        at: u64,
    ) -> Worker {
        let consumer = Consumer::without_entry(segment.clone(), bells);
        consumer.take_entry(index, instance);
        Worker {
            pid,
            zygote,
            index,
            instance,
            key,
            version,
            phase: Phase::Born,
            at,
            forked: at,
            stopped: 0,
            since: 0,
            limits,
            segment,
            consumer,
            search: Search::default(),
            seeks: at,
            under_way: Vec::new(),
            is_serving: false,
            served: 0,
        }
    }

    /// Whether it sleeps, has room for a request, and was not woken. One of async mode may
    /// have others under way.
    pub fn is_asleep(&self) -> bool {
        self.phase == Phase::Asleep && self.consumer.is_asleep()
    }

    /// It was rung, and goes on then.
    pub fn wake(&mut self, at: u64) {
        (self.at, self.seeks) = (at, at);
    }

    /// Takes what it has under way.
    pub fn take_jobs(&mut self) -> impl Iterator<Item = Job> {
        std::mem::take(&mut self.under_way).into_iter().map(|request| request.job)
    }

    /// Its next step.
    pub fn step(&mut self, now: u64, behaviour: Behaviour, random: &mut Random) -> StepResult {
        let result = match self.phase {
            Phase::Born => {
                self.consumer.board().enter_at(self.instance, now);
                let boot = if random.chance(50) { 400_000_000 } else { 5_000_000 };
                self.next(Phase::Booting, now + random.between(50_000, boot));
                StepResult::Nothing
            }
            Phase::Booting if behaviour.is_broken => {
                StepResult::Exits(tokamak_sys::control::EXIT_BOOT_FAILED)
            }
            Phase::Booting => {
                self.next(Phase::Seeking, now);
                StepResult::Nothing
            }
            Phase::Computing => StepResult::Nothing,
            Phase::Seeking | Phase::Asleep | Phase::Leaving => self.serve(now, behaviour, random),
        };
        let goes_on = self.under_way.iter().map(|request| request.at);
        self.at = match self.phase {
            Phase::Computing => u64::MAX,
            Phase::Born | Phase::Booting | Phase::Asleep => goes_on.fold(self.seeks, u64::min),
            Phase::Seeking if self.has_room() => self.seeks,
            Phase::Seeking | Phase::Leaving => goes_on.fold(u64::MAX, u64::min),
        };
        result
    }

    fn next(&mut self, phase: Phase, at: u64) {
        (self.phase, self.seeks) = (phase, at);
    }

    /// Whether it looks for requests.
    fn has_room(&self) -> bool {
        self.phase != Phase::Leaving && self.under_way.len() < self.limits.concurrency
    }

    /// In turns, as the loop of async mode: it looks for a request until it has one or there is
    /// none, and goes on with those that can. Who was woken looks first.
    fn serve(&mut self, now: u64, behaviour: Behaviour, random: &mut Random) -> StepResult {
        let due = self.under_way.iter().position(|request| request.at <= now);
        if self.has_room() && !(self.is_serving && due.is_some()) {
            self.is_serving = due.is_some() && self.consumer.finds_nothing(&self.search);
        }
        match due {
            Some(at) if self.is_serving || !self.has_room() => {
                self.go_on(at, now, behaviour, random)
            }
            _ => self.seek(now, random),
        }
    }

    fn seek(&mut self, now: u64, random: &mut Random) -> StepResult {
        if self.limits.is_async {
            if self.is_worn_out(self.under_way.len()) {
                self.consumer.leave(&mut self.search);
                return self.leave(now);
            }
            self.search.stay_busy(!self.under_way.is_empty());
        }
        let step = self.consumer.advance(&mut self.search, &mut |_| Claim::Go, &mut || (), || now);
        match step {
            Step::Done => {
                // Now and then the kernel lets another process run.
                let most = if random.chance(30) { 2_000_000 } else { 3_000 };
                self.next(Phase::Seeking, now + random.between(100, most));
            }
            Step::Sleep => {
                self.since = now;
                // It needs no limit: nothing may depend on that of the futex.
                self.next(Phase::Asleep, u64::MAX);
            }
            Step::Found(Next::Retire) => return self.leave(now),
            Step::Found(Next::Request(job)) => return self.take(job, now, random),
        }
        StepResult::Nothing
    }

    fn take(&mut self, job: Job, now: u64, random: &mut Random) -> StepResult {
        (self.search, self.is_serving) = (Search::default(), true);
        self.next(Phase::Seeking, now + random.between(100, 3_000));
        // As the worker program does in async mode: its client has gone.
        if self.limits.is_async && job.is_aborted() {
            return StepResult::Nothing;
        }
        let taken = number(job.record());
        let at = now + random.between(1_000, 20_000);
        self.under_way.push(UnderWay { job, request: None, stage: Stage::Reading, at, since: now });
        self.show(now);
        taken.map_or(StepResult::Nothing, StepResult::Takes)
    }

    fn go_on(
        &mut self,
        at: usize,
        now: u64,
        behaviour: Behaviour,
        random: &mut Random,
    ) -> StepResult {
        match self.under_way[at].stage {
            Stage::Reading => return self.read(at, now, behaviour, random),
            Stage::Working => {
                self.answer(at);
                let request = &mut self.under_way[at];
                request.stage = Stage::Ending;
                request.at = now + random.between(1_000, 50_000);
            }
            Stage::Ending => {
                self.under_way.remove(at).job.finish(Outcome::Complete);
                self.served += 1;
                self.consumer.board().count_request(1 << 20, 200);
                self.show(now);
                if self.phase != Phase::Leaving {
                    self.next(Phase::Seeking, now + random.between(500, 20_000));
                }
                if self.phase == Phase::Leaving || self.is_worn_out(0) {
                    return self.leave(now);
                }
            }
        }
        StepResult::Nothing
    }

    /// Whether it has served as many requests as it may, with so many that it has.
    fn is_worn_out(&self, under_way: usize) -> bool {
        self.limits.requests > 0 && self.served + under_way as u64 >= self.limits.requests
    }

    /// Takes no more, and ends when it has nothing under way.
    fn leave(&mut self, now: u64) -> StepResult {
        self.phase = Phase::Leaving;
        self.show(now);
        if self.under_way.is_empty() { StepResult::Exits(0) } else { StepResult::Nothing }
    }

    /// The board says since when the oldest request is under way.
    fn show(&self, now: u64) {
        let board = self.consumer.board();
        if self.limits.is_async {
            board.set_under_way(self.under_way.len() as u32, 0);
        }
        match self.under_way.first() {
            Some(oldest) => board.set_state_at(WorkerState::Busy, oldest.since),
            None if self.phase == Phase::Leaving => board.set_state_at(WorkerState::Leaving, now),
            // It says so itself when it sleeps.
            None => {}
        }
    }

    fn read(
        &mut self,
        at: usize,
        now: u64,
        behaviour: Behaviour,
        random: &mut Random,
    ) -> StepResult {
        let Some(request) = number(self.under_way[at].job.record()) else {
            // Not understood: the response is broken off.
            self.under_way.remove(at);
            self.show(now);
            self.next(self.phase, now + 1_000);
            return if self.phase == Phase::Leaving {
                self.leave(now)
            } else {
                StepResult::Nothing
            };
        };
        self.consumer.board().set_request(b"GET", b"/");
        if random.chance(behaviour.crashes) {
            return StepResult::Exits(7);
        }
        let most = if random.chance(20) { 300_000_000 } else { 8_000_000 };
        let mut ends = now + random.between(20_000, most);
        if random.chance(behaviour.hangs) {
            // What waits is cancelled in async mode when its time is over.
            match self.segment.due(now).filter(|_| self.limits.is_async && random.chance(500)) {
                Some(due) => ends = due,
                None => self.phase = Phase::Computing,
            }
        }
        let under_way = &mut self.under_way[at];
        (under_way.request, under_way.stage, under_way.at) = (Some(request), Stage::Working, ends);
        StepResult::Runs(request)
    }

    fn answer(&mut self, at: usize) {
        let UnderWay { job, request: Some(request), .. } = &mut self.under_way[at] else { return };
        // Never waits: where the ring's positions are spoiled, nothing is written.
        if !job.has_room(256) {
            return;
        }
        let body = [request.to_le_bytes(), self.key.to_le_bytes(), self.version.to_le_bytes()];
        let sent = job.send_head(200, std::iter::empty()).and_then(|()| job.write(&body.concat()));
        // The client has gone.
        let _ = sent.and_then(|()| job.flush());
    }
}

/// The number of a request, if the record is one.
fn number(record: &[u8]) -> Option<u64> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*number);
    (rest.len() == 8 && rest == number.wrapping_mul(3).to_le_bytes()).then_some(number)
}

/// A request's record.
pub fn record(number: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..].copy_from_slice(&number.wrapping_mul(3).to_le_bytes());
    record
}
