//! The generation's front: its start, its messages, its watchdog.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokamak_sys::control::{FromFront, ToFront};

use super::{Generation, Life, Patience};
use crate::application::Application;
use crate::change::Change;
use crate::front::{Front, Hang};
use crate::log::{self, Level};
use crate::means::{FrontPlan, Means};
use crate::pool::Pool;
use crate::watch::since;
use crate::zygote::{Launch, SLOW};

/// How long a front may take to be ready. It needs milliseconds, and seconds where names have to be
/// resolved first; one that was stopped meanwhile would keep the server from serving for ever.
const FRONT_LIMIT: Duration = Duration::from_secs(60);
/// A sealed application that boots within this time is there with the front, so that the first
/// requests find its workers. With a tenth, most would come later; ten times more would keep all
/// sites waiting for one that hangs.
const QUICK_BOOT: Duration = Duration::from_secs(2);
/// Time that a front has for passing an answer on to a client of the admin listener.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Time that a front may live on because it waits for answers. A reload answers two seconds after
/// the old front was told to drain, at most.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Messages of the front taken at one look, so that it does not delay the pools.
const AT_ONCE: usize = 1024;

impl Generation {
    /// The front has said something. Questions, and answers to them, are the caller's.
    pub fn hear_front(&mut self, means: &dyn Means, now: u64) -> Vec<FromFront> {
        let mut answers = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(message) = self.front.as_mut().and_then(Front::receive) else { break };
            match message {
                FromFront::AddressStatus { .. }
                | FromFront::Cache { .. }
                | FromFront::Purged { .. }
                | FromFront::Asks { .. }
                | FromFront::Certificates { .. }
                | FromFront::Wants { .. }
                | FromFront::Answered { .. } => answers.push(message),
                FromFront::Ready if self.life == Life::Fronted => self.life = Life::Serving,
                FromFront::Draining => self.accepts = false,
                // after draining, its exit says the same
                FromFront::Ready | FromFront::Drained => {}
                FromFront::Want { pool } => {
                    let mut deaths = Vec::new();
                    let wanting = self.site_pools.iter_mut().map(|site_pool| &mut site_pool.pool);
                    if let Some(pool) = wanting.into_iter().find(|other| other.number == pool) {
                        let launch =
                            Launch { means, identity: self.identities.site(pool.site_index) };
                        // By now a worker may have taken the request: the queue knows.
                        pool.tick(launch, now, &mut deaths);
                    }
                    self.announce(&deaths);
                }
                FromFront::Renewed { pool } => self.has_taken_over(pool),
                FromFront::Left { pool } => {
                    let leaving = self
                        .site_pools
                        .iter_mut()
                        .filter(|site_pool| site_pool.pool.number == pool);
                    leaving.for_each(|site_pool| site_pool.has_left = true);
                }
                FromFront::Spoiled { pool, reason } => {
                    let spoiled =
                        self.site_pools.iter_mut().find(|site_pool| site_pool.pool.number == pool);
                    if let Some(site_pool) = spoiled {
                        site_pool.pool.spoiled(reason);
                    }
                }
                FromFront::Turned { .. } => {} // handled by the front itself
                FromFront::Failed { message } => {
                    log::line(Level::Error, format_args!("the front cannot go on: {message}"));
                    self.front_failure = Some(message);
                }
            }
        }
        answers
    }

    pub(super) fn send_change(&mut self, change: &Change) {
        if let Some(upstream_index) = self.upstream_index(&change.upstream) {
            let change = Some(change.change(upstream_index));
            self.send_to_front(&ToFront::Upstreams { question: 0, change }, Vec::new());
        }
    }

    /// Tells the front which workers have died.
    pub(super) fn announce(&mut self, deaths: &[ToFront]) {
        if let Some(front) = &mut self.front {
            for death in deaths {
                front.send(death, Vec::new());
            }
        }
    }

    /// Ends a front that does nothing any more. One of whose event loops some still turn is for the
    /// supervisor to replace.
    pub(super) fn mind_front(&mut self, now: u64) {
        self.stuck_loop = None;
        let Some(front) = &mut self.front else { return };
        if self.life == Life::Fronted && self.starting.is_still(FRONT_LIMIT, now) {
            let (seconds, pid) = (FRONT_LIMIT.as_secs(), front.pid());
            log::line(
                Level::Error,
                format_args!("the front is not ready within {seconds} s and is killed pid={pid}"),
            );
            front.kill();
        }
        if self.life != Life::Serving {
            return;
        }
        let limit = self.server.timeouts.watchdog;
        match front.examine(limit, self.server.lua.time, now) {
            None => {}
            Some(Hang::Silent) => {
                let (seconds, pid) = (limit.as_secs_f64(), front.pid());
                log::line(
                    Level::Error,
                    format_args!(
                        "the front gives no sign of life for {seconds} s and is killed pid={pid}"
                    ),
                );
                front.kill();
            }
            Some(Hang::Stuck(event_loop)) => self.stuck_loop = Some(event_loop),
        }
    }

    /// Ends a front that drains for too long. The kernel may take its time for it, as while the
    /// front waits for a disk or a debugger holds one of its threads.
    pub(super) fn kill_late_front(&mut self, now: u64) {
        let Some(front) = &self.front else { return };
        if self.overdue.is_due(now) {
            let pid = front.pid();
            let message =
                format_args!("the old front did not finish in time and is killed pid={pid}");
            log::line(Level::Warn, message);
        }
        front.kill();
    }

    /// An event loop of its front that does not turn any more, while others do.
    pub fn stuck_loop(&self) -> Option<usize> {
        self.stuck_loop
    }

    pub(super) fn is_time_for_front(&self, now: u64) -> bool {
        let is_up = |application: &Application| match self.patience {
            // Requests wait in its socket, or are refused if it does not start.
            Patience::Eager => true,
            Patience::Careful => application.is_up(now),
        };
        self.applications.iter().all(is_up)
            && self.pools().all(|pool| match self.patience {
                // A sealed application that does not boot is tried again, and one that takes its
                // time may hang: the other sites and the admin listener need not wait for it.
                Patience::Eager => {
                    let is_alone = self.server.sites.len() == 1 && self.server.admin.is_none();
                    let limit = if pool.is_sealed() && !is_alone { QUICK_BOOT } else { SLOW };
                    pool.has_zygote()
                        || pool.is_sealed() && pool.failure().is_some()
                        || since(self.begun, now) > limit
                }
                Patience::Careful => pool.is_up(),
            })
    }

    pub(super) fn start_front(&mut self, means: &dyn Means) {
        let front = means.front(FrontPlan {
            server: &self.server,
            pools: self.pools().map(Pool::plan).collect(),
            identity: self.identities.front.as_ref(),
            is_successor: self.patience == Patience::Careful,
        });
        match front {
            Ok(front) => {
                self.front = Some(Front::new(front, self.server.loops));
                self.life = Life::Fronted;
                self.changes.clone().iter().for_each(|change| self.send_change(change));
            }
            // Tried again at the next look.
            Err(error) => log::line(Level::Error, format_args!("cannot start the front: {error}")),
        }
    }

    /// Messages that wait for room in the line to the front; none, if it is gone.
    pub fn backlog(&self) -> usize {
        self.front.as_ref().map_or(0, |front| front.endpoint().backlog())
    }

    /// The front waits for an answer to a client of the admin listener.
    pub fn owes_an_answer(&mut self, now: u64) {
        self.owed = Some(now);
    }

    /// Whether a front that drains since then has had its time. That of requests may be none at
    /// all; who has asked for the reload gets the answer nevertheless.
    pub(super) fn is_front_late(&self, from: u64, now: u64) -> bool {
        let drained = since(from, now).checked_sub(self.server.timeouts.drain);
        let is_done = self.owed.is_none_or(|owed| since(owed, now) > ANSWER_TIME);
        drained.is_some_and(|beyond| !beyond.is_zero() && (is_done || beyond > ANSWER_LIMIT))
    }

    /// Has the front write to these log files from now on: the error log, and the access logs, by
    /// their paths, that its configuration has.
    pub fn reopen_logs(&mut self, error: Option<&File>, access: &[(&Path, File)]) {
        let logs = self.server.access_logs().into_iter().enumerate();
        let access = logs.filter_map(|(index, log)| {
            let (_, file) = access.iter().find(|(path, _)| log.file() == Some(path))?;
            Some((Some(u16::try_from(index).ok()?), file))
        });
        let files: Vec<_> = error.map(|file| (None, file)).into_iter().chain(access).collect();
        for (access, file) in files {
            if let Ok(file) = file.try_clone() {
                self.send_to_front(&ToFront::Reopen { access }, vec![file.into()]);
            }
        }
    }

    /// Sends a message to the front, with descriptors.
    pub fn send_to_front(&mut self, message: &ToFront, fds: Vec<OwnedFd>) {
        if let Some(front) = &mut self.front {
            front.send(message, fds);
        }
    }
}
