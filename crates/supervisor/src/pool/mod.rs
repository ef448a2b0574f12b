//! One pool: its segment, its zygote, its workers.
//!
//! Everything that the zygote says and the board shows is bounded and checked, and decides about
//! this pool only.

mod advice;
mod fpm;
mod look;
mod output;
mod slow;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokamak_config::{Mode, Server, Site};
use tokamak_sys::control::{
    EXIT_MISMATCH, EXIT_OUTDATED, EXIT_RETIRED, FromZygote, Signal, Status, ToFront, ToZygote, Why,
    key,
};
use tokamak_sys::process::Demand;
use tokamak_sys::queue::{Segment, Snapshot, WorkerState};

use crate::endpoint::Endpoint;
use crate::log::{self, Level};
use crate::machine::{Act, Event, Fate, Worker, step};
use crate::means::{PoolPlan, ZygoteStart};
use crate::settings;
use crate::size::Sizer;
use crate::storm::Storm;
use crate::watch::{BOOT_LIMIT, Limits, Seen, since};
use crate::words::{cause, signal_name};
use crate::zygote::{self, Launch, Need, Zygote};

use output::Output;

pub use look::{Doing, doing};

/// Messages taken at one look, so that a zygote that never stops sending does not delay the other
/// pools. More than a zygote with all its workers can have to say.
const AT_ONCE: usize = 1024;
/// A worker that has lived so long ends a crash storm even if it has not had a request yet.
const PROOF: Duration = Duration::from_secs(1);

/// One place on the board.
#[derive(Clone, Debug)]
pub struct Place {
    /// What is known of its worker.
    pub worker: Worker,
    /// Which process; 0 before the first.
    pub instance: u32,
    /// As the zygote says.
    pub pid: Option<u32>,
    forked: u64,
    changed: u64,
    seen: Seen,
    /// What it had wanted of the processors when the pool was last sized.
    demand: Option<Demand>,
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
    bells: Arc<[OwnedFd]>,
    settings: Vec<(String, String)>,
    limits: Limits,
    zygote: Zygote,
    storm: Storm,
    places: Vec<Place>,
    /// Of the worker at each place, if it is caught; the last one is the zygote's.
    outputs: Vec<Option<Output>>,
    /// Lines of them are written whole.
    buffers_output: bool,
    sizer: Sizer,
    sized: u64,
    measured: u64,
    /// No process is started any more, and the remaining ones are ended after this time.
    ending: Option<u64>,
    next_instance: u32,
    /// Workers that are to be started for others that have ended of themselves.
    replacing: u32,
    served: u64,
    failure: Option<String>,
    renewal_reason: Option<RenewalReason>,
    /// How long its zygote may be silent; zero: for ever.
    watchdog: Duration,
    version: Option<String>,
    exposes_php: bool,
    /// Whether it had too few workers when it was last looked at, and no more were allowed.
    was_short: bool,
    /// When workers died of faults in memory; emptied when it is read.
    faults: Vec<u64>,
}

impl Pool {
    /// The pool of a site, without processes. All pools of a site have the same bells.
    ///
    /// # Errors
    /// Fails if its memory or descriptors cannot be made.
    pub fn new(
        server: &Server,
        site_index: usize,
        number: u32,
        bells: Arc<[OwnedFd]>,
    ) -> io::Result<Pool> {
        let site = server.sites[site_index].clone();
        let own = settings::settings(&site).map_err(io::Error::other)?;
        // In a pool of `tokamak fpm` its configuration decides.
        let caught = match &site.fpm {
            None => vec![(key::CATCH_OUTPUT.to_owned(), String::new())],
            Some(_) => Vec::new(),
        };
        let geometry = settings::geometry(server, &site);
        let segment = Segment::create(&site.name, geometry)?;
        if let Some(advice) = advice::for_site(&site) {
            log::site(Level::Warn, &site.name, format_args!("{advice}"));
        }
        if let Some(pool) = &site.fpm {
            fpm::introduce(&segment, pool, site.pool.queue);
        }
        let empty = Place {
            worker: Worker::Absent,
            instance: 0,
            pid: None,
            forked: 0,
            changed: 0,
            seen: Seen::default(),
            demand: None,
        };
        Ok(Pool {
            site_index,
            number,
            segment: Arc::new(segment),
            bells,
            settings: [settings::defined(server), own, caught].concat(),
            limits: Limits {
                request: site.pool.request_timeout,
                slow: site.pool.slow,
                memory: site.pool.max_memory,
                finished: site.fpm.as_ref().is_some_and(|pool| pool.terminate_track_finished),
            },
            zygote: Zygote::default(),
            storm: Storm::default(),
            places: vec![empty; usize::from(geometry.workers)],
            outputs: (0..=geometry.workers).map(|_| None).collect(),
            buffers_output: server.fpm.as_ref().is_some_and(|fpm| fpm.global.log_buffering),
            sizer: Sizer::default(),
            sized: 0,
            measured: 0,
            ending: None,
            next_instance: 1,
            replacing: 0,
            served: 0,
            failure: None,
            renewal_reason: None,
            watchdog: server.timeouts.watchdog,
            version: None,
            exposes_php: false,
            was_short: false,
            faults: Vec::new(),
            site,
        })
    }

    /// The queue, for the front.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The event loops' bells, for the front.
    pub fn bells(&self) -> &Arc<[OwnedFd]> {
        &self.bells
    }

    /// What a front is told of it.
    pub fn plan(&self) -> PoolPlan<'_> {
        let access = self.site.fpm.as_ref().and_then(|pool| pool.access.as_ref());
        PoolPlan {
            site_index: self.site_index,
            number: self.number,
            segment: &self.segment,
            bells: &self.bells,
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
            Ok(place) if index < self.places.len() => {
                self.segment.note_unfinished_line(place, true);
                output.tell();
                self.segment.note_unfinished_line(place, output.is_unfinished());
            }
            _ => output.tell(),
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
        let serving = self.places.iter().filter(|place| place.worker == Worker::Serving).count();
        self.has_zygote() && serving >= Sizer::at_start(&self.site.pool.size)
    }

    /// Whether no process is left.
    pub fn is_gone(&self) -> bool {
        self.zygote.is_down() && self.places.iter().all(|place| place.worker == Worker::Absent)
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

    /// The front says that the queue is spoiled.
    pub fn spoiled(&mut self, reason: String) {
        if !self.watchdog.is_zero() {
            self.renewal_reason = Some(RenewalReason::Spoiled(reason));
        }
    }

    /// How long its zygote may be silent; zero: for ever.
    pub fn watchdog(&self) -> Duration {
        self.watchdog
    }

    /// Longest time until the first worker is there, wherever the application boots.
    pub fn start_limit(&self) -> Duration {
        zygote::LIMIT + BOOT_LIMIT.max(self.limits.request)
    }

    /// PHP's version, if responses tell it.
    pub fn exposed_version(&self) -> Option<&str> {
        self.version().filter(|_| self.exposes_php)
    }

    /// PHP's version, as its zygote said.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Reads the zygote's messages. Deaths that the front has to know are added to `deaths`.
    pub fn receive(&mut self, launch: Launch<'_>, now: u64, deaths: &mut Vec<ToFront>) {
        self.hear_all(now, deaths);
        self.resize(launch, now, deaths);
    }

    fn hear_all(&mut self, now: u64, deaths: &mut Vec<ToFront>) {
        for _ in 0..AT_ONCE {
            match self.zygote.receive(now) {
                Ok(Some((message, fds))) => self.handle(message, fds, now, deaths),
                Ok(None) => return,
                Err(error) => {
                    return self
                        .say(Level::Error, format_args!("the PHP zygote is killed: {error}"));
                }
            }
        }
    }

    fn handle(
        &mut self,
        message: FromZygote,
        fds: Vec<OwnedFd>,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) {
        match message {
            FromZygote::Ready { version, exposes } => {
                self.exposes_php = exposes;
                self.version =
                    Some(version.chars().filter(|c| c.is_ascii_graphic()).take(40).collect());
                // Whatever was wrong with an earlier one.
                self.failure = None;
                // But for the queue, which is the same.
                self.renewal_reason.take_if(|reason| !matches!(reason, RenewalReason::Spoiled(_)));
            }
            FromZygote::Spawned { index, instance, pid } => {
                let Some(place) = self.place(index, instance) else { return };
                place.pid = Some(pid);
                let output = match &self.site.fpm {
                    Some(pool) => Output::of_fpm(fds, pool, self.buffers_output, pid),
                    None => Output::of_site(fds, &self.site.name, format!("worker {pid}")),
                };
                self.outputs[usize::from(index)] = output;
                if self.site.fpm.is_some() {
                    fpm::started(&self.site.name, pid, self.replacing > 0);
                    self.replacing = self.replacing.saturating_sub(1);
                }
            }
            FromZygote::Exited { index, instance, status } => {
                if self.place(index, instance).is_some() {
                    // A quick worker may have booted, served and left between two looks.
                    let entry = self.segment.board(index);
                    if entry.instance == instance && entry.requests > 0 {
                        self.act(index, Event::Booted, now, deaths);
                    }
                    self.act(index, Event::Exited(status), now, deaths);
                }
            }
            FromZygote::Failed { message } => {
                let what = if self.is_sealed() {
                    "the application cannot be sealed"
                } else {
                    "PHP cannot start"
                };
                self.fail(format!("{what}: {message}"));
            }
            FromZygote::Outdated { reason } => self.outdate(&reason),
            FromZygote::Changed { reason } => {
                self.renewal_reason.get_or_insert(RenewalReason::Changed(reason));
            }
            FromZygote::Output => {
                let output = Output::of_site(fds, &self.site.name, "the zygote".to_owned());
                if let (Some(last), true) = (self.outputs.last_mut(), self.site.fpm.is_none())
                    && let Some(before) = std::mem::replace(last, output)
                {
                    before.finish();
                }
            }
            FromZygote::Alive => {} // as every word
            FromZygote::Slow { index, instance, trace } => {
                let pid = self.place(index, instance).and_then(|place| place.pid);
                if let (Some(pid), Some(pool)) = (pid, &self.site.fpm) {
                    slow::tell(pool, pid, &trace);
                }
            }
        }
    }

    /// Logs why no worker can be started, and keeps the reason for `tokamak status`.
    fn fail(&mut self, failure: String) {
        self.say(Level::Error, format_args!("{failure}"));
        self.failure = Some(failure);
    }

    /// A new image is wanted. Not in other modes: they have none, and no pool may trouble the
    /// others without need.
    fn outdate(&mut self, reason: &str) {
        if self.is_sealed() {
            self.renewal_reason.get_or_insert(RenewalReason::Outdated(reason.to_owned()));
        }
    }

    /// The slot of this instance, unless the zygote names an unknown one.
    fn place(&mut self, index: u16, instance: u32) -> Option<&mut Place> {
        self.places
            .get_mut(usize::from(index))
            .filter(|place| place.instance == instance && place.worker != Worker::Absent)
    }

    /// One step of a worker's life, and what follows from it.
    fn act(&mut self, index: u16, event: Event, now: u64, deaths: &mut Vec<ToFront>) {
        let place = &mut self.places[usize::from(index)];
        let before = place.worker;
        let (after, act) = step(before, event);
        place.worker = after;
        if after != before {
            place.changed = now;
        }
        match act {
            Act::Nothing | Act::Welcome => {}
            Act::Fork => {
                let instance = self.next_instance;
                // Neither 0 (no worker) nor the largest number, which the queue uses itself.
                self.next_instance = instance.wrapping_add(1).clamp(1, u32::MAX - 1);
                *place = Place {
                    worker: after,
                    instance,
                    pid: None,
                    forked: now,
                    changed: now,
                    seen: Seen::default(),
                    demand: None,
                };
                self.send(Some(&ToZygote::Spawn { index, instance }), now);
            }
            Act::AskToLeave => self.segment.retire(index),
            Act::Kill => {
                let instance = place.instance;
                self.send(Some(&ToZygote::Kill { index, instance, signal: Signal::Kill }), now);
            }
            Act::Reap(why, fate) => self.reap(index, before, why, fate, now, deaths),
        }
    }

    fn reap(
        &mut self,
        index: u16,
        before: Worker,
        why: Why,
        fate: Fate,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) {
        let entry = self.entry(index);
        let Place { instance, pid, forked: started, .. } = self.places[usize::from(index)];
        let pid = pid.unwrap_or(0);
        self.served = self.served.saturating_add(entry.requests);
        deaths.push(ToFront::Death { pool: self.number, index, instance, why });
        if matches!(why, Why::Crash(number) if matches!(signal_name(number), Some("SIGSEGV" | "SIGBUS")))
        {
            self.faults.push(now);
        }
        self.segment.clear_place(index);
        if let Some(output) = self.outputs[usize::from(index)].take() {
            output.finish();
        }
        if self.ending.is_some() {
            return;
        }
        let busy = entry.state == WorkerState::Busy;
        let asked = before == Worker::Leaving;
        if self.site.fpm.is_some() {
            fpm::exited(&self.site.name, pid, why, since(started, now), asked);
            self.replacing += u32::from(!asked);
        }
        match fate {
            Fate::BootFailed => self.boot_failed(why, now),
            // Said already, in php-fpm's words.
            Fate::Lost if self.site.fpm.is_some() => {}
            Fate::Lost => {
                let request = if busy {
                    format!(" while serving method={} uri={}", entry.method, entry.uri)
                } else {
                    String::new()
                };
                self.say(
                    Level::Error,
                    format_args!("a worker died: {}, pid={pid}{request}", cause(why)),
                );
            }
            // Wanted, but an operator will ask why workers change.
            Fate::Expected if why != Why::Exit(EXIT_RETIRED) => {
                self.say(
                    Level::Info,
                    format_args!("a worker is replaced: {}, pid={pid}", cause(why)),
                );
                // Its zygote may have said more.
                if why == Why::Exit(EXIT_OUTDATED) && self.renewal_reason.is_none() {
                    self.outdate("a worker has found it so");
                }
            }
            Fate::Expected | Fate::TimedOut | Fate::Orphaned => {}
        }
        // A worker that leaves at once, unasked and without a single request, would be replaced in
        // a tight loop.
        let useless = entry.requests == 0 && !busy && !asked && since(started, now) < PROOF;
        if useless
            && matches!(fate, Fate::Lost | Fate::Expected)
            && let Some(wait) = self.storm.failed(now)
        {
            let (cause, wait) = (cause(why), wait.as_secs_f64());
            self.say(
                Level::Warn,
                format_args!(
                    "a worker left before its first request: {cause}; next attempt in {wait:.1} s"
                ),
            );
        }
    }

    fn boot_failed(&mut self, why: Why, now: u64) {
        let script = match &self.site.worker {
            Some(script) => format!(" ({})", script.display()),
            None => String::new(),
        };
        self.failure = Some(format!(
            "the workers of site {} do not boot{script}: {}",
            self.site.name,
            cause(why)
        ));
        if let Some(wait) = self.storm.failed(now) {
            let count = self.storm.failures();
            self.say(
                Level::Error,
                format_args!(
                    "workers do not boot{script}: {}; the reason stands above. Failure {count} in \
                        a row, next attempt in {:.1} s",
                    cause(why),
                    wait.as_secs_f64()
                ),
            );
        }
    }

    fn send(&mut self, message: Option<&ToZygote>, now: u64) {
        if self.zygote.tell(message, now).is_err() {
            self.say(Level::Error, format_args!("the PHP zygote does not answer and is killed"));
        }
    }

    /// Starts a zygote if one is due.
    fn mind_zygote(&mut self, launch: Launch<'_>, now: u64) {
        let (limit, slow, late) = if self.is_sealed() {
            (self.start_limit(), "the application still boots", "the application does not boot")
        } else {
            (zygote::LIMIT, "PHP still starts", "PHP does not start")
        };
        match self.zygote.tick(limit, now) {
            Need::Nothing => {}
            Need::Slow => {
                let (after, most) = (zygote::SLOW.as_secs(), limit.as_secs());
                self.say(Level::Warn, format_args!("{slow} after {after} s; it has {most} s"));
            }
            Need::Late => self.fail(format!("{late} within {} s and is killed", limit.as_secs())),
            Need::Start => {
                // Places of the last one's workers must be free before the next one may fill them.
                if self.ending.is_some()
                    || self.places.iter().any(|place| place.worker != Worker::Absent)
                {
                    return;
                }
                let Pool { zygote, site, segment, bells, settings, .. } = self;
                let identity = launch.identity;
                let start = ZygoteStart { identity, site, segment, bells, settings };
                if let Err(error) = zygote.start(launch.means, start, now) {
                    self.fail(error.to_string());
                }
            }
        }
    }

    /// A child has ended: is it this pool's zygote?
    pub fn zygote_exited(
        &mut self,
        pid: u32,
        status: Status,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) -> bool {
        if !self.zygote.is(pid) {
            return false;
        }
        self.hear_all(now, deaths); // its last words
        let wait = self.zygote.exited(now).as_secs_f64();
        if self.ending.is_some() && status == Status::Code(0) {
            // It has ended and reaped them before itself.
            self.places.iter_mut().for_each(|place| place.worker = Worker::Absent);
            return true;
        }
        for index in 0..self.places.len() as u16 {
            self.act(index, Event::ZygoteGone, now, deaths);
        }
        // An earlier zygote has understood the queue, so a worker has spoiled it since. No later
        // one will understand it either.
        if status == Status::Code(EXIT_MISMATCH) && self.version.is_some() {
            self.renewal_reason =
                Some(RenewalReason::Spoiled("its description is damaged".to_owned()));
        }
        if self.ending.is_none() && self.zygote.has_failed() {
            self.say(Level::Info, format_args!("PHP is started again in {wait:.1} s"));
        } else if self.ending.is_none() {
            self.say(
                Level::Error,
                format_args!(
                    "the PHP zygote ended: {status}; its workers end with it, next attempt in \
                        {wait:.1} s"
                ),
            );
            self.failure.get_or_insert(format!("PHP ended: {status}"));
        }
        true
    }

    /// When workers died of faults in memory, since the last time.
    pub fn take_faults(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.faults)
    }

    /// An unknown child has ended: is it one of this pool's orphans?
    pub fn orphan_exited(
        &mut self,
        pid: u32,
        status: Status,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) -> bool {
        let mine = |place: &Place| place.worker == Worker::Orphan && place.pid == Some(pid);
        let Some(index) = self.places.iter().position(mine) else { return false };
        self.act(index as u16, Event::Exited(status), now, deaths);
        true
    }

    /// Lets every worker leave after its request; ends the remaining ones at `deadline`.
    pub fn quit(&mut self, deadline: u64, now: u64) {
        self.ending = Some(deadline);
        for index in 0..self.places.len() as u16 {
            // Their deaths need no report: without a front there are no requests.
            self.act(index, Event::Retire, now, &mut Vec::new());
        }
        self.finish(now);
    }

    /// Lets the zygote go once its workers have left, or have had their time.
    fn finish(&mut self, now: u64) {
        let alone = self.places.iter().all(|place| place.worker == Worker::Absent);
        if self.ending.is_some_and(|deadline| alone || now > deadline) {
            self.zygote.quit(now);
        }
    }

    /// Ends all processes at once.
    pub fn kill(&mut self, now: u64) {
        self.ending = Some(now);
        self.zygote.kill(now);
    }

    /// The places that have a worker, with what the board says of each.
    pub fn workers(&self) -> impl Iterator<Item = (&Place, Snapshot)> {
        (0..)
            .zip(&self.places)
            .filter(|(_, place)| place.worker != Worker::Absent)
            .map(|(index, place)| (place, self.entry(index)))
    }

    /// Requests served by all workers so far, by their own word.
    pub fn served(&self) -> u64 {
        self.workers().fold(self.served, |sum, (_, entry)| sum.saturating_add(entry.requests))
    }

    /// Writes a line about the site to the error log.
    pub fn say(&self, level: Level, message: std::fmt::Arguments<'_>) {
        log::site(level, &self.site.name, message);
    }
}

#[cfg(test)]
mod tests;
