//! Looking at a pool: the board, the limits, the size.

use std::time::Duration;

use tokamak_config::{Mode, PoolSize};
use tokamak_sys::control::{Signal, Status, ToFront, ToZygote};
use tokamak_sys::memory::{self, Memory};
use tokamak_sys::process;
use tokamak_sys::queue::{PoolNumber, Snapshot, WorkerState};

use super::in_flight::lost;
use super::{PROOF, Pool, RenewalReason, WorkerSlot, fpm};
use crate::failing::{self, Answers};
use crate::liveness::{LOOK_EVERY, idle_look_every};
use crate::log::Level;
use crate::machine::{Event, KillReason, Worker};
use crate::size::{self, Change, Count};
use crate::watch::{Finding, since};
use crate::zygote::{Launch, SLOW};

/// Time between two measurements of memory.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// Time between two sizings of a dynamic pool; the growth doubles at each.
const SIZE_EVERY: Duration = Duration::from_millis(100);
/// The same where a worker has nothing to boot: it is there within a millisecond, so whether more
/// are needed shows soon. Not shorter, because two workers take twenty short requests out of the
/// queue in less.
const SIZE_SEALED_EVERY: Duration = Duration::from_millis(10);
/// A worker whose request is younger is about to be free, so it is no reason to start another one.
/// Short requests take less than this; ten times more would start workers too late under load, a
/// tenth would start some for every burst.
const SHORT: Duration = Duration::from_millis(1);
/// An automatic pool does not grow where less than one part in so many of the memory is left. With
/// one in a hundred, what the workers need while they serve could use it up.
const MEMORY_KEPT: u64 = 8;
/// Time after which an orphan counts as dead although its end was not seen: its process id is
/// unknown.
const ORPHAN_LIMIT: Duration = Duration::from_secs(1);
/// Time that a worker which is to be killed has to give back locks of shared memory. Who holds one
/// needs it for microseconds, or for as long as a script's own function runs. With a tenth, a
/// worker that uses such memory all the time might be killed inside; with ten times more, others
/// that need the lock would wait that much longer.
const LOCKS_HELD: Duration = Duration::from_secs(1);
/// Time after which a worker that is inside of such memory waits for a lock whose holder is dead,
/// and time between two looks.
const FREE_EVERY: Duration = Duration::from_secs(1);

impl Pool {
    /// Looks at the board, the limits and the size.
    pub fn tick(&mut self, launch: Launch<'_>, now: u64, deaths: &mut Vec<ToFront>) {
        self.send(None, now);
        self.mind_zygote(launch, now);
        let is_idle = self.is_idle(&self.count(now));
        if self.zygote.is_still(self.watchdog, is_idle, now) {
            self.renewal_reason.get_or_insert(RenewalReason::Silent);
        }
        let measure = self.limits.memory > 0 && since(self.measured, now) >= MEASURE_EVERY;
        if measure {
            self.measured = now;
        }
        for index in 0..self.slots.len() as u16 {
            self.look(index, measure, now, deaths);
        }
        self.free_waiting(now);
        self.mind_slow(now);
        self.end_late_slow_entries(now);
        self.mind_errors(now, deaths);
        self.resize(launch, now, deaths);
        self.finish(now);
        let is_barren = self.is_barren(now);
        self.segment.set_barren(is_barren);
    }

    /// Whether a request need not wait for a worker.
    fn is_barren(&mut self, now: u64) -> bool {
        let count = self.count(now);
        let living = count.idle + count.busy + count.draining;
        self.has_lived |= living > 0;
        let failures = self.storm.failures().max(self.zygote.failures());
        let is_hopeless = || is_barren(failures, living, self.has_lived) || self.boots_in_vain(now);
        self.ending.is_none() && living == 0 && is_hopeless()
    }

    /// For how long workers boot by now.
    fn boots(&self, now: u64) -> impl Iterator<Item = Duration> {
        let boots = |(_, place, entry): &(u16, &WorkerSlot, Snapshot)| {
            doing(place.worker, entry.state) == Doing::Starting
        };
        self.workers().filter(boots).map(move |(_, place, _)| since(place.forked, now))
    }

    /// Whether waiting for boots is likely to be in vain: all of them take long, or one took too
    /// long and none has succeeded since. Also where there is room for more workers, whose boots
    /// would do the same. Where nothing boots, a request has to wait, so that something does.
    fn boots_in_vain(&self, now: u64) -> bool {
        if !self.has_zygote() {
            return self.boot_hung || self.zygote.starts_slowly(now);
        }
        let is_in_vain = |age| self.boot_hung || age > SLOW;
        let mut ages = self.boots(now);
        ages.next().is_some_and(is_in_vain) && ages.all(is_in_vain)
    }

    /// Replaces a worker that fails alone. Only where a worker keeps something from request to
    /// request that can be broken.
    fn mind_errors(&mut self, now: u64, deaths: &mut Vec<ToFront>) {
        let keeps = matches!(self.site.mode, Mode::Worker | Mode::Async);
        if !keeps || since(self.judged, now) < failing::EVERY {
            return;
        }
        for index in 0..self.slots.len() as u16 {
            let Snapshot { requests: count, errors, .. } = self.entry(index);
            self.slots[usize::from(index)].record.look(Answers { count, errors });
        }
        let serving = (0..).zip(&self.slots).filter(|(_, place)| place.worker == Worker::Serving);
        let records = serving.map(|(index, place)| (index, &place.record));
        let Some((index, Answers { count, errors })) = failing::outlier(records) else { return };
        self.judged = now;
        let pid = self.slots[usize::from(index)].pid.unwrap_or(0);
        self.say(
            Level::Warn,
            format_args!(
                "a worker is replaced: {errors} of its last {count} answers were errors (5xx), and \
                    those of its neighbours were not, pid={pid}"
            ),
        );
        self.slots[usize::from(index)].is_failing = true;
        self.act(index, Event::Retire, now, deaths);
    }

    /// A worker that was to be killed is still there.
    fn kill_again(&mut self, index: u16, now: u64) {
        let place = &mut self.slots[usize::from(index)];
        if place.is_forced {
            return;
        }
        let (instance, pid) = (place.instance, place.pid.unwrap_or(0));
        place.is_forced = since(place.changed, now) > LOCKS_HELD;
        let signal = if place.is_forced { Signal::Kill } else { Signal::KillOutsideLocks };
        if signal == Signal::Kill {
            self.say(
                Level::Warn,
                format_args!(
                    "a worker is killed although it holds a lock of shared memory, pid={pid}"
                ),
            );
        }
        self.send(Some(&ToZygote::Kill { index, instance, signal }), now);
    }

    /// Kills those that wait for a lock whose holder is dead; their requests may be repeated, and
    /// the pool that has succeeded this one has other locks.
    fn free_waiting(&mut self, now: u64) {
        if self.freed.is_none_or(|freed| since(freed, now) < FREE_EVERY) {
            return;
        }
        self.freed = Some(now);
        for index in 0..self.slots.len() as u16 {
            let WorkerSlot { worker, instance, .. } = self.slots[usize::from(index)];
            let is_there = matches!(worker, Worker::Serving | Worker::Leaving);
            if is_there && since(self.entry(index).since, now) > FREE_EVERY {
                let signal = Signal::KillInsideLocks;
                self.send(Some(&ToZygote::Kill { index, instance, signal }), now);
            }
        }
    }

    fn look(&mut self, index: u16, measure: bool, now: u64, deaths: &mut Vec<ToFront>) {
        let place = &self.slots[usize::from(index)];
        let (worker, pid, changed) = (place.worker, place.pid, place.changed);
        match worker {
            Worker::Absent => return,
            Worker::Killed(_) => return self.kill_again(index, now),
            Worker::Orphan if since(changed, now) > ORPHAN_LIMIT => {
                return self.act(index, Event::Exited(Status::Signal(9)), now, deaths);
            }
            Worker::Orphan => return,
            Worker::Starting | Worker::Serving | Worker::Leaving => {}
        }
        let entry = self.entry(index);
        if worker == Worker::Starting && is_ready(entry.state) {
            self.act(index, Event::Booted, now, deaths);
        }
        let proven = entry.requests > 0 || since(changed, now) > PROOF;
        if worker == Worker::Serving && self.storm.is_ended_by(changed) && proven {
            self.storm.over();
            self.failure = None;
            self.say(Level::Info, format_args!("workers boot again"));
        }
        let memory = pid
            .filter(|_| measure)
            .and_then(process::memory)
            .map(|memory| memory.resident.saturating_sub(memory.shared));
        let limits = self.limits;
        let finding =
            self.slots[usize::from(index)].seen.look(&entry, changed, memory, &limits, now);
        if let Some(finding) = finding {
            self.found(index, finding, now, deaths);
        }
    }

    fn found(&mut self, index: u16, finding: Finding, now: u64, deaths: &mut Vec<ToFront>) {
        let place = &self.slots[usize::from(index)];
        let (pid, instance) = (place.pid.unwrap_or(0), place.instance);
        let shown = self.segment.shown_request(index);
        let request = format!("method={} uri={}", shown.method, shown.uri);
        match finding {
            Finding::TimedOut(age) => {
                let seconds = age.as_secs_f64();
                let lost = lost(&self.in_flight_of(instance, now));
                let id = self.id_of_request(instance, now);
                self.say(
                    Level::Error,
                    format_args!(
                        "request_timeout: the worker is killed seconds={seconds:.1} pid={pid}{id} \
                            {request}{lost}"
                    ),
                );
                self.act(index, Event::Kill(KillReason::Request), now, deaths);
            }
            Finding::Slow(age) => {
                self.segment.count_pool_number(PoolNumber::SlowRequests);
                let held = self.segment.in_flight(now).find(|one| one.instance == instance);
                if let Some(held) = held.filter(|_| self.site.fpm.is_none()) {
                    return self.begin_slow_entry(index, &held, age, None, now);
                }
                // The response is complete, or this is a pool of `tokamak fpm`, whose slow log is
                // a file of its own.
                let seconds = age.as_secs_f64();
                self.say(
                    Level::Warn,
                    format_args!("slow request seconds={seconds:.1} pid={pid} {request}"),
                );
                if self.site.fpm.is_some() {
                    let signal = Signal::Backtrace(None);
                    self.send(Some(&ToZygote::Kill { index, instance, signal }), now);
                }
            }
            Finding::TooBig(bytes) => {
                if self.slots[usize::from(index)].worker == Worker::Serving {
                    let mib = bytes >> 20;
                    self.say(
                        Level::Info,
                        format_args!("max_memory: a worker is replaced mib={mib} pid={pid}"),
                    );
                }
                self.act(index, Event::Retire, now, deaths);
            }
            Finding::BootStuck(age) => {
                let seconds = age.as_secs();
                self.say(
                    Level::Error,
                    format_args!("a worker does not boot, killed seconds={seconds} pid={pid}"),
                );
                self.boot_hung = true;
                self.act(index, Event::Kill(KillReason::Boot), now, deaths);
            }
        }
    }

    /// What the request of a worker is called in other lines; nothing if it has just ended, or in
    /// async mode, where a worker has several.
    pub(super) fn id_of_request(&self, instance: u32, now: u64) -> String {
        if self.site.mode == Mode::Async {
            return String::new();
        }
        let request = self.segment.in_flight(now).find(|one| one.instance == instance);
        request.map_or(String::new(), |one| format!(" id={}", one.id))
    }

    /// A worker's entry; an empty one if another process wrote it.
    pub(super) fn entry(&self, index: u16) -> Snapshot {
        let mut entry = self.segment.board(index);
        if entry.instance != self.slots[usize::from(index)].instance {
            entry.state = WorkerState::Empty;
            (entry.requests, entry.errors) = (0, 0);
        }
        entry
    }

    /// What the pool looks like now.
    pub fn count(&self, now: u64) -> Count {
        let mut count = Count::default();
        for (_, place, entry) in self.workers() {
            match doing(place.worker, entry.state) {
                Doing::Starting => count.starting += 1,
                Doing::Idle => {
                    count.idle += 1;
                    count.rested += usize::from(self.has_rested(&entry, now));
                }
                Doing::Busy => count.busy += 1,
                Doing::Draining => count.draining += 1,
                Doing::Leaving => count.leaving += 1,
            }
        }
        // After the workers: a worker that takes a request meanwhile counts as spare, and its
        // request is not waiting.
        count.waiting = (self.segment.depth() as usize).min(self.site.pool.queue);
        count
    }

    /// Whether a request could be answered now, or as soon as a worker is made for it. A balancer
    /// must not leave a machine out because its only worker is renewed: requests wait for the
    /// successor, unless workers do not boot any more.
    pub fn can_serve(&self, now: u64) -> bool {
        let count = self.count(now);
        let on_demand = matches!(self.site.pool.size, PoolSize::Ondemand { .. });
        let boots = self.storm.failures() == 0 && self.boots(now).all(|age| age <= SLOW);
        let comes = (on_demand || self.has_booted) && boots;
        self.has_zygote() && (comes || count.idle + count.busy > 0)
    }

    fn has_rested(&self, entry: &Snapshot, now: u64) -> bool {
        match self.site.pool.size {
            PoolSize::Ondemand { idle, .. } => since(entry.since, now) > idle,
            PoolSize::Auto { .. } => since(entry.since, now) > size::REST,
            PoolSize::Static { .. } | PoolSize::Dynamic { .. } => false,
        }
    }

    /// Workers that have computed since the pool was last sized, for half of the time or at the end
    /// of it; those in the middle of a longer request that have not, wait for something else than a
    /// processor. Not known unless requests have waited all the time, so that no worker was idle.
    fn computing(&mut self, waiting: usize, now: u64) -> Option<usize> {
        let elapsed = since(self.sized, now).as_nanos() as u64;
        let mut computing = Some(0);
        for index in 0..self.slots.len() {
            let age = since(self.entry(index as u16).since, now);
            let place = &mut self.slots[index];
            if place.worker == Worker::Absent {
                continue;
            }
            let before = place.demand.take().map(|before| before.time);
            // One that was started since then has done all that it has done since then.
            let before = before.or((place.forked >= self.sized).then_some(0));
            place.demand = place.pid.filter(|_| waiting > 0).and_then(process::demand);
            let computes = before.zip(place.demand).map(|(before, after)| {
                age < SHORT || after.is_runnable || after.time.saturating_sub(before) > elapsed / 2
            });
            computing = computing.zip(computes).map(|(sum, computes)| sum + usize::from(computes));
        }
        computing
    }

    /// Starts and retires workers as the size asks and the storm allows.
    pub(super) fn resize(&mut self, launch: Launch<'_>, now: u64, deaths: &mut Vec<ToFront>) {
        self.mind_zygote(launch, now);
        let pause = match self.site.pool.size {
            PoolSize::Dynamic { .. } if self.is_sealed() => SIZE_SEALED_EVERY,
            PoolSize::Auto { .. } | PoolSize::Dynamic { .. } => SIZE_EVERY,
            PoolSize::Static { .. } | PoolSize::Ondemand { .. } => Duration::ZERO,
        };
        if self.ending.is_some() || !self.has_zygote() || since(self.sized, now) < pause {
            return;
        }
        let mut count = self.count(now);
        if let PoolSize::Auto { least, .. } = self.site.pool.size {
            count.computing = self.computing(count.waiting, now);
            count.lacks_memory = count.is_blocked(least) && self.lacks_memory(count);
        }
        self.sized = now;
        self.mind_limit(count);
        // Also without a request: a balancer sends none as long as the site is not ready.
        if self.storm.failures() > 0 && count.active() == 0 {
            count.waiting = count.waiting.max(1);
        }
        match self.sizer.look(&self.site.pool.size, count, now) {
            Change::Keep => {}
            Change::Grow(wanted) => {
                for _ in 0..self.storm.allowed(wanted, count.starting, now) {
                    self.spawn(now, deaths);
                }
            }
            // The highest places first: the lowest are woken first, so these have rested longest.
            Change::Shrink(surplus) => {
                let rests = matches!(
                    self.site.pool.size,
                    PoolSize::Auto { .. } | PoolSize::Ondemand { .. }
                );
                let idle: Vec<u16> = (0..self.slots.len() as u16)
                    .rev()
                    .filter(|&index| self.slots[usize::from(index)].worker == Worker::Serving)
                    .filter(|&index| {
                        let entry = self.entry(index);
                        entry.state == WorkerState::Idle && (!rests || self.has_rested(&entry, now))
                    })
                    .take(surplus)
                    .collect();
                for index in idle {
                    self.act(index, Event::Retire, now, deaths);
                }
            }
        }
    }

    /// Whether too little memory is left for more workers than compute at once. Says so once.
    fn lacks_memory(&mut self, count: Count) -> bool {
        let memory = memory::scarcest();
        let scarce = memory.filter(|memory| memory.available < memory.total / MEMORY_KEPT);
        let was_short = std::mem::replace(&mut self.was_short, scarce.is_some());
        if let Some(Memory { total, available }) = scarce.filter(|_| !was_short) {
            let (all, workers) = (total >> 20, count.busy);
            self.say(
                Level::Warn,
                format_args!(
                    "requests wait and {workers} workers wait for something else than a processor, \
                        but no more are started: only {} of {all} MiB of memory are left",
                    available >> 20
                ),
            );
        }
        scarce.is_some()
    }

    /// Says once that a pool of php-fpm's would have more workers if it were allowed to.
    fn mind_limit(&mut self, count: Count) {
        let Some(pool) = &self.site.fpm else { return };
        let spare = count.idle + count.starting;
        let lacks = match self.site.pool.size {
            PoolSize::Dynamic { min_spare, .. } => spare < min_spare,
            PoolSize::Ondemand { .. } => count.waiting > spare,
            PoolSize::Static { .. } | PoolSize::Auto { .. } => false,
        };
        let max = self.site.pool.size.max();
        let is_short = lacks && spare + count.busy + count.leaving >= max;
        if is_short && !self.was_short {
            self.segment.count_pool_number(PoolNumber::MaxChildrenReached);
            fpm::limited(&pool.name, max);
        }
        self.was_short = is_short;
    }

    fn spawn(&mut self, now: u64, deaths: &mut Vec<ToFront>) {
        let free = self.slots.iter().position(|place| place.worker == Worker::Absent);
        if let Some(index) = free {
            self.act(index as u16, Event::Spawn, now, deaths);
        }
    }

    /// Whether nothing happens: all workers that there should be are idle.
    fn is_idle(&self, count: &Count) -> bool {
        let Count { starting, busy, draining, leaving, waiting, .. } = *count;
        let fails = self.storm.failures() + self.zygote.failures() > 0;
        let changes = self.ending.is_some() || self.renewal_reason.is_some();
        self.zygote.is_ready()
            && !fails
            && !changes
            && starting + busy + draining + leaving + waiting == 0
    }

    /// How soon the next look should be.
    pub fn next_look(&self, now: u64) -> Duration {
        let count = self.count(now);
        let any = |worker| self.slots.iter().any(|place| place.worker == worker);
        let grows = self.is_sealed() && any(Worker::Absent);
        if any(Worker::Starting) || !self.zygote.is_ready() || grows && count.waiting > 0 {
            Duration::from_millis(10)
        } else if count.busy + count.draining + count.leaving + count.waiting > 0 {
            Duration::from_millis(100)
        } else if self.is_idle(&count) {
            // With looks further apart, a request could exceed its time between two of them.
            let times = [self.limits.request, self.site.pool.slow];
            let shortest = times.into_iter().filter(|time| !time.is_zero()).min();
            let shortest = shortest.unwrap_or(Duration::MAX);
            idle_look_every(self.watchdog).min(shortest.max(LOOK_EVERY))
        } else {
            LOOK_EVERY
        }
    }
}

/// Whether boots fail in a row and no worker is left to answer.
fn is_barren(failures: u32, living: usize, has_lived: bool) -> bool {
    // One failure may be an accident, and the next attempt follows in a tenth of a second. Where
    // workers have lived, what they need may come back soon, such as a database that is restarted:
    // the fifth failure in a row comes after three seconds.
    failures >= if has_lived { 5 } else { 2 } && living == 0
}

/// What a worker does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It boots.
    Starting,
    /// It waits for a request.
    Idle,
    /// It serves one.
    Busy,
    /// It ends when those that it has are served, and takes no more.
    Draining,
    /// It ends.
    Leaving,
}

impl Doing {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Starting => "starting",
            Doing::Idle => "idle",
            Doing::Busy => "busy",
            Doing::Draining => "draining",
            Doing::Leaving => "leaving",
        }
    }
}

/// What the worker in this state does, when the board says that. The board knows first: a worker
/// may have booted, and even served, since the supervisor last looked.
pub fn doing(worker: Worker, board: WorkerState) -> Doing {
    match worker {
        Worker::Leaving if board == WorkerState::Draining => Doing::Draining,
        Worker::Leaving | Worker::Killed(_) | Worker::Orphan => Doing::Leaving,
        Worker::Starting | Worker::Absent if !is_ready(board) => Doing::Starting,
        _ if board == WorkerState::Idle => Doing::Idle,
        _ if board == WorkerState::Draining => Doing::Draining,
        _ => Doing::Busy,
    }
}

pub(super) fn is_ready(state: WorkerState) -> bool {
    matches!(
        state,
        WorkerState::Idle
            | WorkerState::Busy
            | WorkerState::Leaving
            | WorkerState::Finishing
            | WorkerState::Draining
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_as_long_as_somebody_may_answer() {
        for (failures, living, has_lived, barren) in [
            (0, 0, false, false),
            (1, 0, false, false),
            (2, 0, false, true),
            (4, 0, true, false),
            (5, 0, true, true),
            (9, 1, true, false),
            (0, 3, true, false),
        ] {
            let found = is_barren(failures, living, has_lived);
            assert_eq!(found, barren, "{failures} {living} {has_lived}");
        }
    }

    #[test]
    fn a_worker_that_has_booted_since_the_last_look_is_not_starting() {
        assert_eq!(doing(Worker::Starting, WorkerState::Empty), Doing::Starting);
        assert_eq!(doing(Worker::Starting, WorkerState::Starting), Doing::Starting);
        for worker in [Worker::Starting, Worker::Serving] {
            assert_eq!(doing(worker, WorkerState::Idle), Doing::Idle);
            assert_eq!(doing(worker, WorkerState::Busy), Doing::Busy);
        }
    }

    #[test]
    fn a_worker_that_is_to_leave_is_leaving_whatever_it_does() {
        assert_eq!(doing(Worker::Leaving, WorkerState::Busy), Doing::Leaving);
        assert_eq!(doing(Worker::Orphan, WorkerState::Idle), Doing::Leaving);
    }

    #[test]
    fn a_worker_that_takes_no_more_requests_is_draining_for_either_reason() {
        for worker in [Worker::Starting, Worker::Serving, Worker::Leaving] {
            assert_eq!(doing(worker, WorkerState::Draining), Doing::Draining);
        }
        assert_eq!(doing(Worker::Orphan, WorkerState::Draining), Doing::Leaving);
    }
}
