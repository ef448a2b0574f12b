//! One site of a generation gets other processes; the front and the other sites go on.

use std::io;

use tokamak_sys::control::ToFront;

use super::{Generation, LEAVE, Life};
use crate::log::{self, Level};
use crate::pool::{Pool, RenewalReason, Totals};
use crate::renew::Renewals;
use crate::succession::{Action, Limits, PoolState, Role, decide};

/// A pool and what it is for its site.
#[derive(Debug)]
pub struct SitePool {
    /// The pool.
    pub pool: Pool,
    /// What it is for its site.
    pub role: Role,
    /// How far the front is with sending new requests to it.
    pub handover: Handover,
    /// The front has said that no request is left in it.
    pub has_left: bool,
}

/// How far the front is with sending new requests to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It was not asked to.
    None,
    /// It was asked to then; not all of its event loops do yet.
    Since(u64),
    /// All of its event loops do, or did.
    Done,
}

impl SitePool {
    /// A pool that serves from the beginning.
    pub fn serving(pool: Pool) -> SitePool {
        SitePool { pool, role: Role::Serving, handover: Handover::Done, has_left: false }
    }
}

/// What has become of a site since the generation began.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// When it may be renewed.
    pace: Renewals,
    /// How often it has been.
    pub renewals: u32,
    /// Requests that its earlier pools have served.
    served: u64,
    /// What their processes have done.
    totals: Totals,
}

impl Generation {
    /// The pools that serve, in the order of the sites.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.site_pools
            .iter()
            .filter(|site_pool| site_pool.role == Role::Serving)
            .map(|site_pool| &site_pool.pool)
    }

    /// The same, to send them something.
    pub fn pools_mut(&mut self) -> impl Iterator<Item = &mut Pool> {
        let serving =
            self.site_pools.iter_mut().filter(|site_pool| site_pool.role == Role::Serving);
        serving.map(|site_pool| &mut site_pool.pool)
    }

    /// All pools: those that serve, that start, and that end.
    pub fn all_pools(&self) -> impl Iterator<Item = &Pool> {
        self.site_pools.iter().map(|site_pool| &site_pool.pool)
    }

    /// What has become of the site of a pool, and the requests that it has served.
    pub fn history(&self, pool: &Pool) -> (&History, u64) {
        let history = &self.histories[pool.site_index];
        let others = self.all_pools().filter(|other| other.site_index == pool.site_index);
        (history, others.fold(history.served, |sum, other| sum.saturating_add(other.served())))
    }

    /// What the processes of the site of a pool have done since the generation began.
    pub fn totals(&self, pool: &Pool) -> Totals {
        let mut totals = self.histories[pool.site_index].totals.clone();
        let others = self.all_pools().filter(|other| other.site_index == pool.site_index);
        others.for_each(|other| totals.add(&other.totals()));
        totals
    }

    /// Looks how long processors have worked for its pools.
    pub fn measure(&mut self) {
        self.site_pools.iter_mut().for_each(|site_pool| site_pool.pool.measure());
    }

    /// The pool with this number.
    pub fn site_pool(&self, pool: u32) -> Option<&SitePool> {
        self.site_pools.iter().find(|site_pool| site_pool.pool.number == pool)
    }

    /// The number of the pool that serves a site now.
    pub fn serving(&self, site_index: usize) -> Option<u32> {
        self.pools().find(|pool| pool.site_index == site_index).map(|pool| pool.number)
    }

    /// Whether other processes start for a site.
    pub fn is_renewing(&self, site_index: usize) -> bool {
        let is_next = |site_pool: &SitePool| matches!(site_pool.role, Role::Next(_));
        self.site_pools
            .iter()
            .any(|site_pool| site_pool.pool.site_index == site_index && is_next(site_pool))
    }

    /// The first site that wants other processes, and may have them: its index.
    pub fn wants_renewal(&self, now: u64) -> Option<usize> {
        let wants = |pool: &&Pool| pool.renewal_reason().is_some() && pool.is_quiet(now);
        let mut wanting = self.pools().filter(wants).map(|pool| pool.site_index);
        wanting.find(|site_index| {
            !self.is_renewing(*site_index) && self.histories[*site_index].pace.allowed(now)
        })
    }

    /// Says why a site gets other processes, and how often it may.
    pub fn announce_renewal(&mut self, site_index: usize, now: u64) {
        let pause = self.histories[site_index].pace.begun(now);
        let Some(pool) = self.pools().find(|pool| pool.site_index == site_index) else { return };
        match pool.renewal_reason() {
            Some(RenewalReason::Outdated(reason)) => {
                let what = if pool.is_sealed() {
                    "the image is outdated, a new one is made"
                } else {
                    "taking an image is tried again"
                };
                pool.say(Level::Info, format_args!("{what}: {reason}"));
                if let Some(pause) = pause {
                    let seconds = pause.as_secs();
                    pool.say(
                        Level::Warn,
                        format_args!(
                            "the application keeps changing; after this image none for {seconds} s"
                        ),
                    );
                }
            }
            Some(RenewalReason::Spoiled(reason)) => {
                pool.say(
                    Level::Error,
                    format_args!("the queue is spoiled, other processes start: {reason}"),
                );
            }
            Some(RenewalReason::Silent) => {
                let seconds = pool.watchdog().as_secs_f64();
                let message = format_args!(
                    "the PHP zygote gives no sign of life for {seconds} s, other processes start"
                );
                pool.say(Level::Error, message);
            }
            Some(RenewalReason::Locked) => {
                pool.say(
                    Level::Error,
                    format_args!(
                        "a lock of shared memory is held for ever by a worker that has died, \
                            other processes start"
                    ),
                );
            }
            Some(RenewalReason::Changed(reason)) => {
                pool.say(
                    Level::Error,
                    format_args!(
                        "the PHP zygote was changed from outside, other processes start: {reason}"
                    ),
                );
            }
            None => {}
        }
    }

    /// Starts another pool for a site, and gives its number.
    ///
    /// # Errors
    /// Fails if its memory or descriptors cannot be made.
    pub fn renew(&mut self, site_index: usize, now: u64) -> io::Result<u32> {
        let serving = self.pools().find(|pool| pool.site_index == site_index);
        let links = serving.ok_or(io::ErrorKind::NotFound)?.links().clone();
        let pool = Pool::new(&self.server, site_index, self.numbered, links)?;
        let number = pool.number;
        self.numbered += 1;
        self.site_pools.push(SitePool {
            pool,
            role: Role::Next(now),
            handover: Handover::None,
            has_left: false,
        });
        Ok(number)
    }

    /// An attempt to renew a site has ended, well or not.
    pub fn end_renewal(&mut self, site_index: usize, now: u64) {
        self.histories[site_index].pace.ended(now);
    }

    /// Lets no further pool take over.
    pub(super) fn give_up_renewals(&mut self, now: u64) {
        for site_pool in
            self.site_pools.iter_mut().filter(|site_pool| matches!(site_pool.role, Role::Next(_)))
        {
            site_pool.role = Role::Ending(now);
            site_pool.pool.kill(now);
        }
    }

    /// What follows from where the pools are now.
    pub(super) fn advance_renewals(&mut self, now: u64) {
        if matches!(self.life, Life::Ending(_)) {
            return;
        }
        let drain = self.server.timeouts.drain;
        let mut at = 0;
        while at < self.site_pools.len() {
            let SitePool { pool, role, has_left, .. } = &self.site_pools[at];
            let seen = PoolState {
                is_up: pool.is_up(),
                failure: pool.failure(),
                has_left: *has_left,
                is_gone: pool.is_gone(),
            };
            let limits = Limits { start: pool.start_limit(), drain };
            match decide(*role, seen, limits, now) {
                Action::Nothing => {}
                Action::TakeOver => self.take_over(at, now),
                Action::GiveUp(why) => {
                    pool.say(Level::Error, format_args!("the old processes go on: {why}"));
                    let site_index = pool.site_index;
                    self.site_pools[at].role = Role::Ending(now);
                    self.site_pools[at].pool.kill(now);
                    self.end_renewal(site_index, now);
                }
                Action::End => {
                    // What still runs there has as long as in a generation that drains.
                    let left = match role {
                        Role::Leaving(from) => {
                            (*from + drain.as_nanos() as u64).saturating_sub(now)
                        }
                        _ => 0,
                    };
                    let deadline = now + left.max(LEAVE.as_nanos() as u64);
                    self.site_pools[at].role = Role::Ending(deadline);
                    self.site_pools[at].pool.quit(deadline, now);
                }
                Action::Kill => self.site_pools[at].pool.kill(now),
                Action::Forget => {
                    let pool = self.site_pools.remove(at).pool;
                    let history = &mut self.histories[pool.site_index];
                    history.served = history.served.saturating_add(pool.served());
                    history.totals.add(&pool.totals());
                    self.send_to_front(&ToFront::Forget { pool: pool.number }, Vec::new());
                    continue;
                }
            }
            at += 1;
        }
    }

    /// The front is to send new requests to this pool.
    fn take_over(&mut self, next: usize, now: u64) {
        let site_index = self.site_pools[next].pool.site_index;
        let is_before = |site_pool: &SitePool| {
            site_pool.role == Role::Serving && site_pool.pool.site_index == site_index
        };
        let Some(before) = self.site_pools.iter().position(is_before) else { return };
        let (old, new) = (self.site_pools[before].pool.number, self.site_pools[next].pool.number);
        let memory = match self.site_pools[next].pool.segment().fd().try_clone_to_owned() {
            Ok(memory) => memory,
            // Tried again at the next look.
            Err(error) => {
                return log::line(Level::Error, format_args!("cannot hand over a queue: {error}"));
            }
        };
        self.send_to_front(&ToFront::Renew { old, new }, vec![memory]);
        self.site_pools[next].role = Role::Serving;
        self.site_pools[next].handover = Handover::Since(now);
        self.site_pools[before].role = Role::Leaving(now);
        self.site_pools[before].pool.note_succession();
        // No worker takes requests from a spoiled queue: those in it are lost, and tried again
        // elsewhere.
        self.site_pools[before].has_left |= matches!(
            self.site_pools[before].pool.renewal_reason(),
            Some(RenewalReason::Spoiled(_))
        );
        // The order of the sites stays.
        self.site_pools.swap(before, next);
        self.end_renewal(site_index, now);
    }

    /// All event loops of the front send new requests to this pool.
    pub(super) fn has_taken_over(&mut self, pool: u32) {
        let Some(site_pool) =
            self.site_pools.iter_mut().find(|site_pool| site_pool.pool.number == pool)
        else {
            return;
        };
        if matches!(std::mem::replace(&mut site_pool.handover, Handover::Done), Handover::Since(_))
        {
            self.histories[site_pool.pool.site_index].renewals += 1;
            site_pool
                .pool
                .say(Level::Info, format_args!("new processes serve, the old ones finish"));
        }
    }
}
