//! One generation: a front, its pools, the applications that it starts, and what becomes of them
//! together.
//!
//! ```text
//!   Booting ──► Fronted ──► Serving ──► Draining ──► Ending ──► gone
//!      │           │           │  front dies ──────────▲
//!      └───────────┴───────────┴──── given up ─────────┘
//! ```
//!
//! | state | holds |
//! | --- | --- |
//! | Booting | zygotes start; no front yet |
//! | Fronted | the front has been forked and is not ready |
//! | Serving | the front accepts connections |
//! | Draining | the front accepts no more and answers what it has; workers are replaced as before |
//! | Ending | no front; the workers leave, then their zygotes; applications are told to end |

mod front;
mod renewal;

use std::io;
use std::time::Duration;

use tokamak_config::Server;
use tokamak_sys::control::{Status, ToFront};

use crate::application::{Application, Folder};
use crate::change::{Change, Changes};
use crate::front::Front;
use crate::identities::Identities;
use crate::liveness::Liveness;
use crate::log::{self, Level};
use crate::means::Means;
use crate::pool::Pool;
use crate::reminder::Reminder;
use crate::settings;
use crate::site_links::{HubLines, SiteLinks};
use crate::succession::END_LIMIT;
use crate::watch::since;
use crate::zygote::Launch;

pub use renewal::{Handover, History, SitePool};

/// Least time that workers have for leaving after their front is gone, however long draining took:
/// a worker script may have something to finish after its loop.
const LEAVE: Duration = Duration::from_millis(500);
/// Where a generation is in its life; with the time since when, where a limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Zygotes start; no front yet.
    Booting,
    /// The front has been forked and is not ready.
    Fronted,
    /// The front accepts connections.
    Serving,
    /// The front finishes what it has.
    Draining(u64),
    /// No front; the workers leave, until then at most, and the zygotes end.
    Ending(u64),
}

/// When a generation gets its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As soon as PHP is there, or a sealed application has failed to boot: no other generation
    /// serves, and requests can wait for the workers.
    Eager,
    /// When all workers are there: another generation serves meanwhile.
    Careful,
}

/// What a generation begins with, beside its configuration.
pub struct Beginning<'a> {
    /// Counted from 1.
    pub number: u32,
    /// Where the sockets of its applications are, if it starts any.
    pub folder: Option<&'a Folder>,
    /// The lines to the hubs.
    pub hubs: &'a mut HubLines,
    /// When it gets its front.
    pub patience: Patience,
    /// The time.
    pub now: u64,
}

/// A front with its pools.
#[derive(Debug)]
pub struct Generation {
    /// Counted from 1.
    pub number: u32,
    /// The configuration as it was read, symlinks not resolved.
    pub configured: Server,
    /// When it began.
    pub begun: u64,
    server: Server,
    identities: Identities,
    site_pools: Vec<SitePool>,
    /// By the indexes of the sites.
    histories: Vec<History>,
    /// The number of the next pool.
    numbered: u32,
    applications: Vec<Application>,
    front: Option<Front>,
    life: Life,
    patience: Patience,
    /// Until its front says otherwise.
    accepts: bool,
    changes: Changes,
    /// Why the front cannot go on, if it cannot.
    front_failure: Option<String>,
    stuck_loop: Option<usize>,
    /// The silence of its front before it has said that it is ready.
    starting: Liveness,
    /// That its front did not finish in time.
    overdue: Reminder,
    /// When its front last waited for an answer to a client of the admin listener.
    owed: Option<u64>,
}

impl Generation {
    /// A new generation with no process yet. `server` is resolved, `configured` is not.
    ///
    /// # Errors
    /// Fails if the queues or the sockets cannot be made.
    pub fn new(
        configured: Server,
        mut server: Server,
        identities: Identities,
        Beginning { number, folder, hubs, patience, now }: Beginning<'_>,
    ) -> io::Result<Generation> {
        let applications = applications_of(&mut server, number, folder, &identities)?;
        let sites = (0..server.sites.len()).filter(|site| server.sites[*site].has_workers());
        let site_pools = sites.zip(0..).map(|(site, number)| {
            let bells = settings::geometry(&server, &server.sites[site]).bells();
            let links = SiteLinks::new(bells, hubs.of(&server.sites[site])?)?;
            Ok(SitePool::serving(Pool::new(&server, site, number, links.into())?))
        });
        let site_pools = site_pools.collect::<io::Result<Vec<_>>>()?;
        let life = Life::Booting;
        Ok(Generation {
            number,
            configured,
            begun: now,
            histories: vec![History::default(); server.sites.len()],
            numbered: site_pools.len() as u32,
            server,
            identities,
            site_pools,
            applications,
            front: None,
            life,
            patience,
            accepts: true,
            changes: Changes::default(),
            front_failure: None,
            stuck_loop: None,
            starting: Liveness::default(),
            overdue: Reminder::default(),
            owed: None,
        })
    }

    /// Whether its front may still accept connections.
    pub fn accepts(&self) -> bool {
        self.accepts && self.front.is_some()
    }

    /// Where it is in its life.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The configuration with resolved paths.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// When workers died of faults in memory, since the last time.
    pub fn take_faults(&mut self) -> Vec<u64> {
        self.site_pools.iter_mut().flat_map(|site_pool| site_pool.pool.take_faults()).collect()
    }

    /// The applications that it starts.
    pub fn applications(&self) -> &[Application] {
        &self.applications
    }

    /// Its front, while there is one.
    pub fn front(&self) -> Option<&Front> {
        self.front.as_ref()
    }

    /// Whether no process is left and none will come.
    pub fn is_gone(&self) -> bool {
        matches!(self.life, Life::Ending(_)) && self.front.is_none() && self.are_processes_gone()
    }

    fn are_processes_gone(&self) -> bool {
        self.all_pools().all(Pool::is_gone) && self.applications.iter().all(Application::is_gone)
    }

    /// The first reason for which the front, a pool or an application does not start.
    pub fn failure(&self) -> Option<&str> {
        let front = self.front_failure.as_deref();
        let pool = || self.pools().find_map(Pool::failure);
        front.or_else(pool).or_else(|| self.applications.iter().find_map(Application::failure))
    }

    /// Longest time until its pools are there.
    pub fn start_limit(&self) -> Duration {
        self.pools().map(Pool::start_limit).max().unwrap_or_default()
    }

    /// The index of an upstream in the configuration.
    pub fn upstream_index(&self, name: &str) -> Option<u16> {
        let index = self.server.upstreams.iter().position(|upstream| upstream.name == name)?;
        u16::try_from(index).ok()
    }

    /// Changes that hold for this generation beside its configuration.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// These changes hold from its start.
    pub fn inherit(&mut self, changes: Changes) {
        self.changes = changes;
    }

    /// A change that holds from now on; the front gets a message, unless it knows already.
    pub fn change(&mut self, change: &Change, front_knows: bool) {
        self.changes.add(change.clone());
        if !front_knows {
            self.send_change(change);
        }
    }

    /// A zygote has said something.
    pub fn hear_pool(&mut self, pool: usize, means: &dyn Means, now: u64) {
        let pool = &mut self.site_pools[pool].pool;
        let launch = Launch { means, identity: self.identities.site(pool.site_index) };
        let mut deaths = Vec::new();
        pool.receive(launch, now, &mut deaths);
        self.announce(&deaths);
    }

    /// A worker of a pool has written something.
    pub fn hear_output(&mut self, pool: usize, worker: usize) {
        self.site_pools[pool].pool.hear_output(worker);
    }

    /// Workers may have written something.
    pub fn hear_outputs(&mut self) {
        self.site_pools.iter_mut().for_each(|site_pool| site_pool.pool.hear_outputs());
    }

    /// A process of an application has written something.
    pub fn hear_application(&mut self, application: usize, process: usize) {
        self.applications[application].receive(process);
    }

    /// Looks at everything whose time may have come.
    pub fn tick(&mut self, means: &dyn Means, now: u64) {
        let mut deaths = Vec::new();
        for SitePool { pool, .. } in &mut self.site_pools {
            let launch = Launch { means, identity: self.identities.site(pool.site_index) };
            pool.tick(launch, now, &mut deaths);
        }
        self.announce(&deaths);
        self.applications.iter_mut().for_each(|application| application.tick(now));
        self.advance_renewals(now);
        if let Some(front) = &mut self.front {
            front.flush();
        }
        self.mind_front(now);
        match self.life {
            Life::Booting if self.is_time_for_front(now) => self.start_front(means),
            Life::Draining(from) if self.is_front_late(from, now) => self.kill_late_front(now),
            Life::Ending(deadline) if since(deadline, now) > END_LIMIT => {
                self.site_pools.iter_mut().for_each(|site_pool| site_pool.pool.kill(now));
            }
            _ => {}
        }
    }

    /// Lets the front finish, then ends. `is_replaced`: by another one.
    pub fn drain(&mut self, is_replaced: bool, now: u64) {
        match (&mut self.front, self.life) {
            (Some(front), Life::Serving | Life::Fronted) => {
                front.send(&ToFront::Drain { is_replaced }, Vec::new());
                self.site_pools.iter().for_each(|site_pool| site_pool.pool.drain());
                self.life = Life::Draining(now);
                self.give_up_renewals(now);
            }
            (_, Life::Draining(_) | Life::Ending(_)) => {}
            _ => self.end(now),
        }
    }

    /// Ends without waiting for requests; idle workers leave in an orderly way.
    pub fn end(&mut self, now: u64) {
        if let Some(front) = &self.front {
            front.kill();
        }
        if !matches!(self.life, Life::Ending(_)) {
            let nanos = |time: Duration| time.as_nanos() as u64;
            let drained = match self.life {
                Life::Draining(from) => from + nanos(self.server.timeouts.drain),
                _ => now,
            };
            let deadline = drained.max(now + nanos(LEAVE));
            self.life = Life::Ending(deadline);
            self.site_pools.iter_mut().for_each(|site_pool| site_pool.pool.quit(deadline, now));
            self.applications.iter_mut().for_each(|application| application.quit(now));
        }
    }

    /// Kills every process.
    pub fn kill(&mut self, now: u64) {
        self.end(now);
        self.site_pools.iter_mut().for_each(|site_pool| site_pool.pool.kill(now));
        self.applications.iter_mut().for_each(|application| application.kill(now));
    }

    /// A child has ended: is it the front, a zygote or an application's process of this generation?
    pub fn child_exited(&mut self, pid: u32, status: Status, now: u64) -> bool {
        if self.front.as_ref().is_some_and(|front| front.is(pid)) {
            self.front = None;
            if !matches!(self.life, Life::Draining(_) | Life::Ending(_)) {
                log::line(Level::Error, format_args!("the front ended: {status}"));
            }
            self.end(now);
            return true;
        }
        if self
            .applications
            .iter_mut()
            .any(|application| application.child_exited(pid, status, now))
        {
            return true;
        }
        let mut deaths = Vec::new();
        let mine = self
            .site_pools
            .iter_mut()
            .any(|site_pool| site_pool.pool.zygote_exited(pid, status, now, &mut deaths));
        self.announce(&deaths);
        mine
    }

    /// An unknown child has ended: is it an orphaned worker of this generation?
    pub fn orphan_exited(&mut self, pid: u32, status: Status, now: u64) -> bool {
        let mut deaths = Vec::new();
        let mine = self
            .site_pools
            .iter_mut()
            .any(|site_pool| site_pool.pool.orphan_exited(pid, status, now, &mut deaths));
        self.announce(&deaths);
        mine
    }
}

/// The applications of these upstreams, without processes; the upstreams get their addresses.
fn applications_of(
    server: &mut Server,
    number: u32,
    folder: Option<&Folder>,
    identities: &Identities,
) -> io::Result<Vec<Application>> {
    let mut applications = Vec::new();
    for (index, upstream) in server.upstreams.iter_mut().enumerate() {
        if let (Some(spawn), Some(folder)) = (&upstream.spawn, folder) {
            let path = |nth: usize| folder.socket(&upstream.name, index, number, nth);
            let paths = (0..spawn.sockets()).map(path).collect();
            let (identity, client) = (identities.upstream(index), identities.front.as_ref());
            let application = Application::new(upstream, spawn, paths, identity, client)?;
            upstream.addresses = application.addresses(upstream.protocol.scheme());
            applications.push(application);
        }
    }
    Ok(applications)
}
