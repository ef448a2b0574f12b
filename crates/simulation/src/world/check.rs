//! Checks the invariants of the simulated world: deaths are reported, requests end, no worker is
//! left.

use tokamak_supervisor::generation::Life;
use tokamak_supervisor::pool::{Pool, RenewalReason};

use super::{BESIDE, BESIDE_FAULTS, Dead, MILLI, SECOND, World};
use crate::births::identity;
use crate::requests::{End, Request};

/// Processes of a pool that may fail to start within a second: a wave of workers, then one at a
/// time with pauses that double, and the same again after a reload.
const MOST_FAILED_STARTS: usize = 12;
/// Longest time until a front knows of a worker's death: three messages and a look.
const DEATH_KNOWN: u64 = 250 * MILLI;
/// The same if its zygote is dead too: its process id may be unknown, so that its end is not seen.
const ORPHANS_DEATH_KNOWN: u64 = 1_500 * MILLI;
/// Longest time until a worker with a request has ended or been killed, and its event loop knows:
/// the time that a request may take, two looks, and messages.
const LONGEST_RUN: u64 = 1_800 * MILLI;
/// The same in async mode, whose processes get more time: requests that wait end by themselves.
const LONGEST_ASYNC_RUN: u64 = LONGEST_RUN + 2_500 * MILLI;
/// Longest time until a request ends whose worker was stopped as soon as it had claimed it: its
/// event loop looks for three seconds; the site gets other processes, which may have to wait for a
/// minute since the last time, or hang in their start for 90 seconds; the old ones are killed.
const LONGEST_HOLD: u64 = 180 * SECOND;
/// Longest time until a request that no worker takes is refused: its limit, and two looks of its
/// loop.
const LONGEST_WAIT: u64 = 1_950 * MILLI;

impl World {
    /// Checks what must hold all the time.
    pub(super) fn look(&mut self) {
        let now = self.clock.get();
        let (fronts, zygotes) = (&self.fronts, &self.zygotes);
        self.deaths.retain(|dead| {
            if dead.has_front {
                // The event loops have yet to look.
                let is_fresh = dead.known_since.is_none_or(|known| now < known + BESIDE_FAULTS);
                return is_fresh && fronts.iter().any(|front| front.knows(dead.key));
            }
            // It is kept until the supervisor knows, and has cleared the worker's slot.
            let zygote = zygotes.iter().find(|zygote| zygote.pid == dead.zygote);
            let listens = zygote.map_or(0, |zygote| zygote.stopped).max(self.supervisor_stopped);
            now < dead.since.max(listens) + ORPHANS_DEATH_KNOWN
        });
        let wrong = self.deaths.iter().find_map(|dead| self.check_death(dead));
        let wrong = wrong.or_else(|| self.check_requests());
        if let Some(wrong) = wrong.or_else(|| self.check_leaving()) {
            self.fail(wrong);
        }
    }

    /// The failure if the front does not know of a death in time.
    fn check_death(&self, dead: &Dead) -> Option<String> {
        let now = self.clock.get();
        let front = self.fronts.iter().find(|front| front.knows(dead.key))?;
        let zygote = self.zygotes.iter().find(|other| other.pid == dead.zygote);
        let bound = if dead.is_orphan { ORPHANS_DEATH_KNOWN } else { DEATH_KNOWN };
        let held_up = [
            self.supervisor_stopped,
            self.jumped,
            front.listens(),
            zygote.map_or(0, |zygote| zygote.stopped),
        ];
        let begun = held_up.into_iter().fold(dead.since, u64::max);
        (dead.has_front && dead.known_since.is_none() && now > begun.saturating_add(bound)).then(
            || {
                let (instance, millis) = (dead.instance, (now - dead.since) / MILLI);
                format!("the front has not heard of the death of worker {instance} for {millis} ms")
            },
        )
    }

    /// The failure if a worker sleeps on that no front uses any more.
    fn check_leaving(&self) -> Option<String> {
        let now = self.clock.get();
        let is_sound = |key: &u64| !self.spoiled.contains(key);
        for (key, left) in self.left.iter().filter(|(key, _)| is_sound(key)) {
            let begun = self.supervisor_stopped.max(self.jumped).max(*left);
            let stays = self.workers.iter().find(|worker| {
                // A worker that is to be killed gets no message, and its zygote may be stopped.
                let zygote = self.zygotes.iter().find(|zygote| zygote.pid == worker.zygote);
                let begun = begun.max(zygote.map_or(0, |zygote| zygote.stopped));
                let begun = begun.max(worker.stopped).max(worker.since);
                worker.key == *key && worker.is_asleep() && now > begun + BESIDE_FAULTS
            });
            if let Some(worker) = stays {
                return Some(format!("worker {} sleeps on without a front", worker.pid));
            }
        }
        None
    }

    fn check_requests(&self) -> Option<String> {
        let now = self.clock.get();
        for front in self.fronts.iter().filter(|front| now >= front.stopped) {
            for event_loop in front.loops.iter().filter(|other| other.spins <= now) {
                let goes_on = front.stopped.max(event_loop.spins).max(self.jumped);
                for running in &event_loop.running {
                    let request = &self.requests[running.number as usize];
                    if now < request.queued + BESIDE || self.spoiled.contains(&request.key) {
                        continue;
                    }
                    // A worker that was stopped or killed with it has not reported it, but the
                    // claim shows it.
                    let is_held = request.taken.is_some() || running.exchange.worker().is_some();
                    let wrong = match is_held {
                        true => self.check_taken(request, goes_on),
                        false => self.check_waiting(request, goes_on),
                    };
                    if let Some(wrong) = wrong {
                        return Some(format!("request {} {wrong}", running.number));
                    }
                }
            }
        }
        None
    }

    /// What is wrong with a request that a worker has. Its event loop has run since `goes_on`.
    fn check_taken(&self, request: &Request, goes_on: u64) -> Option<String> {
        let now = self.clock.get();
        let waits = |from: u64, bound: u64| now > from.max(goes_on) + bound;
        if let Some(known) = request.orphaned.filter(|known| waits(*known, BESIDE)) {
            let millis = (now - known) / MILLI;
            return Some(format!("has no end {millis} ms after its worker was said to be dead"));
        }
        let Some(taken) = request.taken else {
            // A dead worker may have it.
            let is_known = self.deaths.iter().any(|dead| dead.key == request.key);
            let millis = (now - request.queued) / MILLI;
            let is_late = !is_known && waits(request.queued, LONGEST_HOLD);
            return is_late
                .then(|| format!("is held by a worker that does not run it, for {millis} ms"));
        };
        let worker = self.workers.iter().find(|worker| worker.pid == taken.pid)?;
        let zygote = self.zygotes.iter().find(|zygote| zygote.pid == worker.zygote)?;
        let begun = taken.at.max(self.supervisor_stopped).max(zygote.stopped);
        let bound = if worker.limits.is_async { LONGEST_ASYNC_RUN } else { LONGEST_RUN };
        waits(begun, bound)
            .then(|| format!("is with worker {} for {} ms", taken.pid, (now - taken.at) / MILLI))
    }

    /// What is wrong with a request that waits.
    fn check_waiting(&self, request: &Request, goes_on: u64) -> Option<String> {
        let now = self.clock.get();
        // A dead worker may have it, or a wake-up for it, until the front hears of that.
        let mut known = 0;
        for dead in self.deaths.iter().filter(|dead| dead.key == request.key) {
            known = known.max(dead.known_since?);
        }
        let waited = (now - request.queued) / 1_000;
        let mine = || self.workers.iter().filter(|other| other.key == request.key);
        // A stopped worker may have it, too.
        let is_stopped = mine().any(|other| other.stopped + BESIDE_FAULTS > now);
        // A new worker gives a flow more turns only when the event loop looks next.
        let has_grown =
            request.is_of_flow && mine().any(|other| other.forked + BESIDE_FAULTS > now);
        let bound = if is_stopped || has_grown { BESIDE_FAULTS } else { BESIDE };
        let begun = request.queued.max(goes_on).max(known);
        let idle = mine().find(|worker| {
            let since = worker.since.max(worker.stopped);
            worker.is_asleep() && now > begun.max(since) + bound
        });
        if let Some(worker) = idle {
            let pid = worker.pid;
            return Some(format!("waits for {waited} µs beside worker {pid}, which is idle"));
        }
        (now > begun + LONGEST_WAIT).then(|| format!("waits for {waited} µs"))
    }

    /// Whether this event loop may accept a request: not if another front has taken over.
    pub(super) fn check_front(&mut self, index: usize, event_loop: usize) {
        let front = &self.fronts[index];
        let held_up =
            [front.stopped, front.loops[event_loop].spins, self.supervisor_stopped, self.jumped];
        let is_late = held_up.into_iter().any(|until| until + 5 * SECOND > self.clock.get());
        let (version, serves) = (front.version, self.around.serves);
        if version < serves && !is_late {
            let pid = front.pid;
            let what = format!("front {pid} of version {version} accepts, {serves} serves");
            self.fail(what);
        }
    }

    /// No process is ended for silence that has never been silent.
    pub(super) fn check_watchdog(&mut self) {
        let killed = self.births.killed.borrow();
        let mut wrong = None;
        for generation in self.fleet.generations.iter() {
            let is_silent = |pool: &&Pool| pool.renewal_reason() == Some(&RenewalReason::Silent);
            for pool in generation.pools().filter(is_silent) {
                if !self.silent.contains(&identity(pool.segment().fd())) {
                    wrong = Some(format!("the zygote of pool {} is called silent", pool.number));
                }
            }
            let Some(pid) = generation.front().map(|front| front.pid()) else { continue };
            let is_blamed = generation.stuck_loop().is_some() || killed.contains(&pid);
            let front = self.fronts.iter().find(|front| front.pid == pid);
            if let Some(front) = front
                && is_blamed
                && generation.life() == Life::Serving
                && front.stopped == 0
                && front.loops.iter().all(|event_loop| event_loop.spins == 0)
                && !self.may_be_deaf
            {
                wrong = Some(format!("front {pid} is called silent"));
            }
        }
        drop(killed);
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    /// A process of this queue has failed to start: not again and again without a pause.
    pub(super) fn has_failed_to_start(&mut self, key: u64) {
        let now = self.clock.get();
        self.failed_starts.push_back((now, key));
        self.failed_starts.retain(|(at, _)| at + SECOND > now);
        let count = self.failed_starts.iter().filter(|(_, other)| *other == key).count();
        if count > MOST_FAILED_STARTS {
            self.fail(format!("{count} processes of a pool have failed to start in a second"));
        }
    }

    /// One generation serves the last configuration, with all its pools, and nothing else is left.
    pub(super) fn is_well(&self) -> bool {
        self.what_is_not_well().is_empty()
    }

    pub(super) fn what_is_not_well(&self) -> String {
        let generations = &self.fleet.generations;
        let [only] = &generations[..] else {
            let lives: Vec<Life> = generations.iter().map(|other| other.life()).collect();
            return format!("there are generations {lives:?}");
        };
        if only.life() != Life::Serving || self.fleet.reloads() {
            return format!("the generation is {:?}", only.life());
        }
        let pools = only.pools().count();
        if only.all_pools().count() != pools || pools != self.site_count {
            return "a pool starts or ends".to_owned();
        }
        if let Some(pool) = only.pools().find(|pool| !pool.has_zygote()) {
            return format!("pool {} has no zygote", pool.number);
        }
        let ([front], zygotes) = (&self.fronts[..], self.zygotes.len()) else {
            return format!("{} fronts live", self.fronts.len());
        };
        if zygotes != pools {
            return format!("{zygotes} zygotes live");
        }
        if ![front.version, self.around.given_up].contains(&self.version) {
            return format!("version {} serves, {} is configured", front.version, self.version);
        }
        let now = self.clock.get();
        if self.zygotes.iter().any(|zygote| zygote.stopped > now) || front.stopped > now {
            return "what is stopped has not been replaced".to_owned();
        }
        let old = |request: &&Request| {
            request.end.is_none() && self.clock.get() > request.arrived + 10 * SECOND
        };
        if let Some(request) = self.requests.iter().find(old) {
            return format!("a request has no end: {request:?}");
        }
        String::new()
    }

    /// Whether all workers are there; not while one is replaced that has had its requests.
    pub(super) fn is_complete(&self) -> bool {
        self.fleet.generations.iter().flat_map(|only| only.pools()).all(Pool::is_up)
    }

    /// Whether requests were answered on each site by each event loop since `then`, the last ones
    /// without exception.
    pub(super) fn all_answered_since(&self, then: u64) -> bool {
        (0..self.site_count).all(|site| {
            (0..self.loop_count).all(|event_loop| {
                let mut last = self.requests.iter().rev().filter(|request| {
                    request.arrived > then
                        && (request.site, request.event_loop) == (site, event_loop)
                        && !matches!(request.end, None | Some(End::Left))
                });
                (0..2).all(|_| last.next().is_some_and(|it| it.end == Some(End::Answered)))
            })
        })
    }
}
