//! What must hold.

use tokamak_supervisor::generation::Life;

use super::{BESIDE, BESIDE_FAULTS, SECOND, World};
use crate::requests::{End, Request};

impl World {
    /// An idle worker beside a request that waits.
    pub(super) fn look_for_idle(&mut self) {
        let now = self.clock.get();
        let is_quiet = now.saturating_sub(self.disturbed) > 2 * SECOND;
        for front in self.fronts.iter().filter(|front| now >= front.stopped) {
            for event_loop in front.loops.iter().filter(|other| other.spins <= now) {
                for running in &event_loop.running {
                    let request = &self.requests[running.number as usize];
                    // One that was stopped or killed with it has not said so, but the claim does.
                    let is_held = request.is_taken || running.exchange.worker().is_some();
                    if is_held
                        || now < request.queued + BESIDE
                        || self.spoiled.contains(&request.key)
                        || self
                            .unburied
                            .iter()
                            .any(|(key, _, until)| *key == request.key && now < *until)
                    {
                        continue;
                    }
                    let mine = || self.workers.iter().filter(|other| other.key == request.key);
                    // One that is stopped may have the wake-up.
                    let is_stopped = mine().any(|other| other.stopped + BESIDE_FAULTS > now);
                    let bound = if is_quiet && !is_stopped { BESIDE } else { BESIDE_FAULTS };
                    let began = request.queued.max(self.jumped).max(front.stopped);
                    let began = began.max(event_loop.spins);
                    let idle = mine().find(|worker| {
                        let since = worker.since.max(worker.stopped);
                        worker.is_asleep() && now > began.max(since) + bound
                    });
                    if let Some(worker) = idle {
                        let pid = worker.pid;
                        let (id, waited) = (running.number, (now - request.queued) / 1_000);
                        return self.fail(format!(
                            "request {id} waits for {waited} µs beside worker {pid}, which is idle"
                        ));
                    }
                }
            }
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
        if self.fronts.len() != 1 || self.zygotes.len() != pools {
            let (fronts, zygotes) = (self.fronts.len(), self.zygotes.len());
            return format!("{fronts} fronts and {zygotes} zygotes live");
        }
        let old = |request: &&Request| {
            request.end.is_none() && self.clock.get() > request.arrived + 10 * SECOND
        };
        if let Some(request) = self.requests.iter().find(old) {
            return format!("a request has no end: {request:?}");
        }
        String::new()
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
