//! One pool: its segment, its zygote, its workers.
//!
//! Everything that the zygote says and the board shows is bounded and checked, and decides about
//! this pool only.

mod advice;
mod endings;
mod fpm;
mod in_flight;
mod look;
mod output;
mod slow;
mod slow_log;
mod totals;
mod worker;
mod zygote;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokamak_config::{Mode, Server, Site};
use tokamak_sys::control::key;
use tokamak_sys::process::Demand;
use tokamak_sys::queue::{InFlight, Segment, Snapshot};

use crate::endpoint::Endpoint;
use crate::failing;
use crate::log::{self, Level};
use crate::machine::Worker;
use crate::means::PoolPlan;
use crate::renew::PendingChanges;
use crate::settings;
use crate::site_links::SiteLinks;
use crate::size::Sizer;
use crate::storm::Storm;
use crate::watch::{self, BOOT_LIMIT, LastRequest, Limits};
use crate::zygote::{LIMIT, Zygote};

use output::Output;
use totals::ProcessorTime;

pub use look::{Doing, doing};
pub use totals::Totals;

/// A worker that has lived so long ends a crash storm even if it has not had a request yet.
const PROOF: Duration = Duration::from_secs(1);

/// One place on the board.
#[derive(Clone, Debug)]
pub struct WorkerSlot {
    /// What is known of its worker.
    pub worker: Worker,
    /// Which process; 0 before the first.
    pub instance: u32,
    /// As the zygote says.
    pub pid: Option<u32>,
    forked: u64,
    changed: u64,
    seen: LastRequest,
    /// What it had wanted of the processors when the pool was last sized.
    demand: Option<Demand>,
    /// Its last answers.
    record: failing::Record,
    /// It leaves because it fails alone.
    is_failing: bool,
    /// It was killed although it held a lock of shared memory.
    is_forced: bool,
}

/// Why a site is to get other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewalReason {
    /// What has changed since the image was taken that the workers serve.
    Outdated(String),
    /// What is wrong with the queue.
    Spoiled(String),
    /// The zygote gives no sign of life.
    Silent,
    /// A worker had to be killed while it held a lock of memory that all of them share.
    Locked,
    /// What somebody has changed of what the zygote's workers inherit.
    Changed(String),
}

/// A pool and all that belongs to it.
#[derive(Debug)]
pub struct Pool {
    /// The site, its paths resolved.
    pub site: Site,
    /// The site's index among the server's sites.
    pub site_index: usize,
    /// Its number, by which the front knows it.
    pub number: u32,
    segment: Arc<Segment>,
    links: Arc<SiteLinks>,
    settings: Vec<(String, String)>,
    limits: Limits,
    zygote: Zygote,
    storm: Storm,
    /// Whether a worker has been there for requests since the pool began.
    has_lived: bool,
    slots: Vec<WorkerSlot>,
    /// Of the worker at each place, if it is caught; the last one is the zygote's.
    outputs: Vec<Option<Output>>,
    /// Slow requests of async mode that the log has.
    slow_logged: in_flight::SlowLogged,
    slow_log: slow_log::SlowLog,
    /// Lines of them are written whole.
    buffers_output: bool,
    sizer: Sizer,
    sized: u64,
    measured: u64,
    /// When a worker was last replaced because it fails alone.
    judged: u64,
    /// No process is started any more, and the remaining ones are ended after this time.
    ending: Option<u64>,
    next_instance: u32,
    /// Workers that are to be started for others that have ended of themselves.
    replacing: u32,
    served: u64,
    /// Of workers that have ended.
    past: Totals,
    processor: ProcessorTime,
    failure: Option<String>,
    /// A worker has booted once.
    has_booted: bool,
    /// A boot did not end in its time, and none has succeeded since.
    boot_hung: bool,
    renewal_reason: Option<RenewalReason>,
    /// What has changed since the image was taken.
    pending_changes: PendingChanges,
    /// What the boot depends on, if no image could be taken of it.
    boot_files: Option<OwnedFd>,
    /// How long its zygote may be silent; zero: for ever.
    watchdog: Duration,
    version: Option<String>,
    exposes_php: bool,
    /// Whether it had too few workers when it was last looked at, and no more were allowed.
    was_short: bool,
    /// When workers were last looked at that wait for such a lock; none: there is none.
    freed: Option<u64>,
    /// When workers died of faults in memory; emptied when it is read.
    faults: Vec<u64>,
}

impl Pool {
    /// The pool of a site, without processes. All pools of a site have the same links.
    ///
    /// # Errors
    /// Fails if its memory or descriptors cannot be made.
    pub fn new(
        server: &Server,
        site_index: usize,
        number: u32,
        links: Arc<SiteLinks>,
    ) -> io::Result<Pool> {
        let site = server.sites[site_index].clone();
        let own = settings::settings(&site).map_err(io::Error::other)?;
        // In a pool of `tokamak fpm` its configuration decides.
        let caught = match &site.fpm {
            None => vec![(key::CATCH_OUTPUT.to_owned(), String::new())],
            Some(_) => Vec::new(),
        };
        let hub = links.setting().into_iter().collect();
        let geometry = settings::geometry(server, &site);
        let segment = Segment::create(&site.name, geometry)?.with_doorbells(&links.bells)?;
        segment.set_request_timeout(site.pool.request_timeout);
        if let Some(advice) = advice::for_site(&site) {
            log::site(Level::Warn, &site.name, format_args!("{advice}"));
        }
        if let Some(pool) = &site.fpm {
            fpm::introduce(&segment, pool, site.pool.queue);
        }
        let empty = WorkerSlot {
            worker: Worker::Absent,
            instance: 0,
            pid: None,
            forked: 0,
            changed: 0,
            seen: LastRequest::default(),
            demand: None,
            record: failing::Record::default(),
            is_failing: false,
            is_forced: false,
        };
        Ok(Pool {
            site_index,
            number,
            segment: Arc::new(segment),
            settings: [settings::defined(server), own, caught, hub].concat(),
            links,
            limits: Limits {
                request: watch::patience(site.mode, site.pool.request_timeout),
                // In async mode each request is looked at, not each worker.
                slow: if site.mode == Mode::Async { Duration::ZERO } else { site.pool.slow },
                memory: site.pool.max_memory,
                finished: site.fpm.as_ref().is_some_and(|pool| pool.terminate_track_finished),
            },
            zygote: Zygote::default(),
            storm: Storm::default(),
            has_lived: false,
            slots: vec![empty; usize::from(geometry.workers)],
            outputs: (0..=geometry.workers).map(|_| None).collect(),
            slow_logged: in_flight::SlowLogged::default(),
            slow_log: slow_log::SlowLog::default(),
            buffers_output: server.fpm.as_ref().is_some_and(|fpm| fpm.global.log_buffering),
            sizer: Sizer::default(),
            sized: 0,
            measured: 0,
            judged: 0,
            ending: None,
            next_instance: 1,
            replacing: 0,
            served: 0,
            past: Totals::default(),
            processor: ProcessorTime::default(),
            failure: None,
            has_booted: false,
            boot_hung: false,
            renewal_reason: None,
            pending_changes: PendingChanges::default(),
            boot_files: None,
            watchdog: server.timeouts.watchdog,
            version: None,
            exposes_php: false,
            was_short: false,
            freed: None,
            faults: Vec::new(),
            site,
        })
    }

    /// The queue, for the front.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// What it shares with other pools of its site.
    pub fn links(&self) -> &Arc<SiteLinks> {
        &self.links
    }

    /// What a front needs to know of it.
    pub fn plan(&self) -> PoolPlan<'_> {
        let access = self.site.fpm.as_ref().and_then(|pool| pool.access.as_ref());
        PoolPlan {
            site_index: self.site_index,
            number: self.number,
            segment: &self.segment,
            links: &self.links,
            exposed_version: self.exposed_version(),
            access_log: access.map(|access| access.file.as_path()),
        }
    }

    /// The endpoint of the zygote's channel, if one runs.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.zygote.endpoint()
    }

    /// The output of workers that there is to listen to, and whose it is.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let outputs = self.outputs.iter().enumerate();
        outputs.flat_map(|(index, output)| {
            output.iter().flat_map(Output::fds).map(move |fd| (index, fd))
        })
    }

    /// A worker has written something.
    pub fn hear_output(&mut self, index: usize) {
        let Some(output) = &mut self.outputs[index] else { return };
        match u16::try_from(index) {
            Ok(place) if index < self.slots.len() => {
                self.segment.note_unfinished_line(place, true);
                output.log_lines();
                self.segment.note_unfinished_line(place, output.is_unfinished());
            }
            _ => output.log_lines(),
        }
    }

    /// Workers may have written something.
    pub fn hear_outputs(&mut self) {
        (0..self.outputs.len()).for_each(|index| self.hear_output(index));
    }

    /// Whether it can take requests: module start-up is done.
    pub fn has_zygote(&self) -> bool {
        self.zygote.is_ready()
    }

    /// Whether all the workers of its start are there.
    pub fn is_up(&self) -> bool {
        let serving = self.slots.iter().filter(|place| place.worker == Worker::Serving).count();
        self.has_zygote() && serving >= Sizer::at_start(&self.site.pool.size)
    }

    /// Whether no process is left.
    pub fn is_gone(&self) -> bool {
        self.zygote.is_down() && self.slots.iter().all(|place| place.worker == Worker::Absent)
    }

    /// The last reason for which a process could not start.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether its application is booted by the zygote: it forks workers that can serve at once.
    pub fn is_sealed(&self) -> bool {
        self.site.mode == Mode::Sealed
    }

    /// Why its site is to get other processes, if it is.
    pub fn renewal_reason(&self) -> Option<&RenewalReason> {
        self.renewal_reason.as_ref()
    }

    /// Whether that may be done now: an application is quiet for a moment.
    pub fn is_quiet(&self, now: u64) -> bool {
        !matches!(self.renewal_reason, Some(RenewalReason::Outdated(_)))
            || self.pending_changes.is_over(now)
    }

    /// The front says that the queue is spoiled.
    pub fn spoiled(&mut self, reason: String) {
        if !self.watchdog.is_zero() {
            self.renewal_reason = Some(RenewalReason::Spoiled(reason));
        }
    }

    /// Other processes take its requests from now on.
    pub fn note_succession(&mut self) {
        if self.renewal_reason == Some(RenewalReason::Locked) {
            self.freed = Some(0);
        }
    }

    /// How long its zygote may be silent; zero: for ever.
    pub fn watchdog(&self) -> Duration {
        self.watchdog
    }

    /// Longest time until the first worker is there, wherever the application boots.
    pub fn start_limit(&self) -> Duration {
        LIMIT + BOOT_LIMIT.max(self.limits.request)
    }

    /// PHP's version, if responses have it.
    pub fn exposed_version(&self) -> Option<&str> {
        self.version().filter(|_| self.exposes_php)
    }

    /// PHP's version, as its zygote said.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// When workers died of faults in memory, since the last time.
    pub fn take_faults(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.faults)
    }

    /// The places that have a worker, with the number of each and what the board says of it.
    pub fn workers(&self) -> impl Iterator<Item = (u16, &WorkerSlot, Snapshot)> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, place)| place.worker != Worker::Absent)
            .map(|(index, place)| (index, place, self.entry(index)))
    }

    /// The requests that its workers have under way, the oldest first.
    pub fn in_flight(&self, now: u64) -> Vec<InFlight> {
        let mut found: Vec<_> = self.segment.in_flight(now).collect();
        found.sort_by_key(|one| one.claimed_at);
        found
    }

    /// Requests served by all workers so far, by their own word.
    pub fn served(&self) -> u64 {
        self.workers().fold(self.served, |sum, (_, _, entry)| sum.saturating_add(entry.requests))
    }

    /// Writes a line about the site to the error log.
    pub fn say(&self, level: Level, message: std::fmt::Arguments<'_>) {
        log::site(level, &self.site.name, message);
    }
}

#[cfg(test)]
mod tests;
