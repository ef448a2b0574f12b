//! A worker as a list of steps, with the queue's real consumer. It can be killed or stopped between
//! any two of them.

use std::sync::Arc;

use tokamak_sys::queue::{Claim, Consumer, Job, Next, Outcome, Search, Segment, Step, WorkerState};

use crate::random::Random;

/// A request as it stands in the queue: number, and whether it hangs for ever.
pub const RECORD: usize = 16;

/// A worker's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Born,
    Booting,
    Seeking,
    Asleep,
    Reading,
    Working,
    Ending,
}

/// What a step has led to, beside the next one.
pub enum Told {
    Nothing,
    /// It has this request.
    Takes(u64),
    /// It runs this request.
    Runs(u64),
    /// It ends with this status.
    Exits(u8),
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
    pub stopped: u64,
    /// Since when it sleeps.
    pub since: u64,
    pub segment: Arc<Segment>,
    pub consumer: Consumer,
    search: Search,
    pub job: Option<Job>,
    request: Option<u64>,
    hangs: bool,
    served: u64,
    max_requests: u64,
}

/// How the application behaves at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
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
        (index, instance): (u16, u32),
        key: u64,
        version: u64,
        segment: Arc<Segment>,
        bells: Vec<std::os::fd::OwnedFd>,
        max_requests: u64,
        at: u64,
    ) -> Worker {
        let consumer = Consumer::without_place(segment.clone(), bells);
        consumer.take_place(index, instance);
        Worker {
            pid,
            zygote,
            index,
            instance,
            key,
            version,
            phase: Phase::Born,
            at,
            stopped: 0,
            since: 0,
            segment,
            consumer,
            search: Search::default(),
            job: None,
            request: None,
            hangs: false,
            served: 0,
            max_requests,
        }
    }

    /// Whether it sleeps and nobody has rung it.
    pub fn is_asleep(&self) -> bool {
        self.phase == Phase::Asleep && self.consumer.is_asleep()
    }

    /// Its next step.
    pub fn step(&mut self, now: u64, mood: Mood, random: &mut Random) -> Told {
        match self.phase {
            Phase::Born => {
                self.consumer.board().enter_at(self.instance, now);
                let boot = if random.chance(50) { 400_000_000 } else { 5_000_000 };
                self.next(Phase::Booting, now + random.between(50_000, boot));
                Told::Nothing
            }
            Phase::Booting if mood.is_broken => Told::Exits(tokamak_sys::control::EXIT_BOOT_FAILED),
            Phase::Booting => {
                self.next(Phase::Seeking, now);
                Told::Nothing
            }
            Phase::Seeking | Phase::Asleep => {
                let step =
                    self.consumer.advance(&mut self.search, &mut |_| Claim::Go, &mut || (), || now);
                match step {
                    Step::Done => {
                        // Now and then the kernel lets another process run.
                        let most = if random.chance(30) { 2_000_000 } else { 3_000 };
                        self.next(Phase::Seeking, now + random.between(100, most));
                    }
                    Step::Sleep => {
                        self.since = now;
                        // As long as a futex is waited for.
                        self.next(Phase::Asleep, now + 2_000_000_000);
                    }
                    Step::Found(Next::Retire) => return Told::Exits(0),
                    Step::Found(Next::Request(job)) => {
                        self.search = Search::default();
                        let taken = number(job.record());
                        self.job = Some(job);
                        self.next(Phase::Reading, now + random.between(1_000, 20_000));
                        return taken.map_or(Told::Nothing, Told::Takes);
                    }
                }
                Told::Nothing
            }
            Phase::Reading => self.read(now, mood, random),
            Phase::Working if self.hangs => {
                self.at = now + 1_000_000_000_000;
                Told::Nothing
            }
            Phase::Working => {
                self.answer();
                self.next(Phase::Ending, now + random.between(1_000, 50_000));
                Told::Nothing
            }
            Phase::Ending => {
                if let Some(job) = self.job.take() {
                    job.finish(Outcome::Complete);
                }
                self.request = None;
                self.served += 1;
                self.consumer.board().count_request(1 << 20);
                if self.max_requests > 0 && self.served >= self.max_requests {
                    self.consumer.board().set_state_at(WorkerState::Leaving, now);
                    return Told::Exits(0);
                }
                self.next(Phase::Seeking, now + random.between(500, 20_000));
                Told::Nothing
            }
        }
    }

    fn next(&mut self, phase: Phase, at: u64) {
        (self.phase, self.at) = (phase, at);
    }

    fn read(&mut self, now: u64, mood: Mood, random: &mut Random) -> Told {
        let record = self.job.as_ref().map(|job| job.record().to_vec()).unwrap_or_default();
        let Some(request) = number(&record) else {
            // Not understood: the response is broken off.
            self.job = None;
            self.next(Phase::Seeking, now + 1_000);
            return Told::Nothing;
        };
        self.consumer.board().set_request(b"GET", b"/");
        self.request = Some(request);
        self.hangs = random.chance(mood.hangs);
        if random.chance(mood.crashes) {
            return Told::Exits(7);
        }
        let most = if random.chance(20) { 300_000_000 } else { 8_000_000 };
        self.next(Phase::Working, now + random.between(20_000, most));
        Told::Runs(request)
    }

    fn answer(&mut self) {
        let (Some(job), Some(request)) = (&mut self.job, self.request) else { return };
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
