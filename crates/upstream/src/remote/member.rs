//! One address of an application: its connections, its health, and what it has been asked.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokamak_sys::control::{AddressState, AddressStatus, Connections};

use super::balance::health::{Health, HealthState, Rules, Severity};
use super::balance::{Candidate, hash};
use super::connector::Connector;
use super::http2::{EACH, Http2Connections};
use super::mux_connections::{Capacity, MuxConnections};
use super::pool::Pool;
use super::settings::{Bounds, Multiplex};
use super::stream::Endpoint;

/// An address and its share of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// At least 1.
    pub weight: u32,
}

/// One address in service, or leaving it.
#[derive(Debug)]
pub(super) struct Member {
    pub endpoint: Endpoint,
    /// As in the configuration and in logs.
    pub name: String,
    /// The source that has it, by its index, if it is there because of one.
    pub source: Option<usize>,
    pub pool: Arc<Pool>,
    /// Its connections, where several requests share one.
    pub mux_connections: MuxConnections,
    /// Its connections in HTTP/2.
    pub http2: Http2Connections,
    /// Requests share connections, and nobody has asked yet.
    has_news: AtomicBool,
    bounds: Bounds,
    weight: AtomicU32,
    identity: u64,
    /// [`Health::due`], for a look without the lock.
    due: AtomicU64,
    health: Mutex<Health>,
    /// When it was told to leave; 0 if it was not.
    left: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
}

impl Member {
    pub fn new(
        connector: Connector,
        weight: u32,
        source: Option<usize>,
        bounds: Bounds,
        rules: Rules,
    ) -> Member {
        let name = connector.endpoint.to_string();
        let member = Member {
            identity: hash::hash(name.as_bytes()),
            name,
            source,
            pool: Arc::new(Pool::new(connector.clone(), bounds)),
            mux_connections: MuxConnections::new(connector.clone(), bounds),
            http2: Http2Connections::new(connector.clone(), bounds),
            has_news: AtomicBool::new(false),
            bounds,
            endpoint: connector.endpoint,
            weight: AtomicU32::new(weight),
            due: AtomicU64::new(0),
            health: Mutex::new(Health::new(rules, tokamak_cost::now())),
            left: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        if bounds.http2.is_some() {
            member.pool.resize(bounds.connections * EACH, true);
        }
        member
    }

    /// Whether it is worth asking now.
    pub fn is_due(&self, now: u64) -> bool {
        self.due.load(Ordering::Relaxed) <= now
    }

    /// Whether it takes no more requests.
    pub fn is_leaving(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Gives it another share.
    pub fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Requests that it has are answered, those that wait go elsewhere, and there will be no more.
    pub fn leave(&self) {
        // The first time counts.
        let _ = self.left.compare_exchange(
            0,
            tokamak_cost::now(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        self.pool.close();
        self.mux_connections.retire();
        self.http2.retire();
    }

    /// Asks the application whether requests may share connections, if that comes first and has not
    /// been done; `tell` gets a no.
    ///
    /// # Errors
    /// Fails if the address cannot be reached.
    pub async fn learn(&self, tell: impl Fn(&str)) -> io::Result<()> {
        if self.bounds.multiplex != Multiplex::First || self.bounds.requests == 1 {
            return Ok(());
        }
        let learned = |capacity: Option<Capacity>| match capacity {
            Some(capacity) => self.share(capacity),
            None => {
                tell("does not say that it takes several requests on a connection: each has one")
            }
        };
        self.mux_connections.capacity(learned).await.map(drop)
    }

    /// Requests share connections from now on.
    fn share(&self, capacity: Capacity) {
        self.pool.resize(capacity.requests, true);
        self.mux_connections.set_shared(true);
    }

    /// What the application has done on a shared connection shows that requests cannot share one.
    /// Returns whether they do not any more, and did until now.
    pub fn stop_sharing(&self) -> bool {
        let stops =
            self.bounds.multiplex == Multiplex::WhenKept && self.mux_connections.set_shared(false);
        if stops {
            self.mux_connections.retire();
            self.pool.resize(self.bounds.connections, false);
        }
        stops
    }

    /// Looks after the connections of an event loop.
    pub fn tick(self: &Arc<Self>, loop_index: usize, now: u64) {
        self.mux_connections.tick(loop_index);
        self.http2.tick(loop_index);
        self.pool.tick(loop_index, now);
        if self.mux_connections.is_to_be_asked() && self.pool.connections() == Connections::Kept {
            let member = self.clone();
            tokio::spawn(async move {
                if let Some(capacity) = member.mux_connections.ask_aside().await {
                    member.share(capacity);
                    member.has_news.store(true, Ordering::Relaxed);
                }
            });
        }
    }

    /// Whether it has just been found that requests may share connections, which they do.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed) && self.has_news.swap(false, Ordering::Relaxed)
    }

    /// No connection is kept from now on.
    pub fn keep_none(&self) {
        self.pool.keep_none();
        self.mux_connections.retire();
        self.http2.retire();
    }

    /// The right to ask it. While an address that was out is on trial, no other request gets it.
    pub fn admit(self: &Arc<Self>, now: u64) -> Option<Admission> {
        // Nearly always: no lock.
        let is_up = self.due.load(Ordering::Relaxed) == 0;
        if !is_up && !self.with_health(|health| health.admit(now)) {
            return None;
        }
        Some(Admission { member: self.clone(), is_trial: !is_up })
    }

    /// What has come of a request; a pause, if the address is left out from now on.
    pub fn failed(&self, severity: Severity) -> Option<Duration> {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.with_health(|health| health.failed(severity, tokamak_cost::now()))
    }

    /// It answers; `true` if it was left out until now.
    pub fn succeeded(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let was_out = self.due.load(Ordering::Relaxed) != 0;
        was_out && self.with_health(|health| health.succeeded(tokamak_cost::now()))
    }

    /// A check has been made; `Some` if it comes back or is left out for it.
    pub fn checked(&self, is_good: bool) -> Option<bool> {
        self.with_health(|health| health.checked(is_good, tokamak_cost::now()))
    }

    /// How it stands.
    pub fn status(&self) -> AddressStatus {
        let (state, since) = self.health().state();
        let left = self.left.load(Ordering::Relaxed);
        let in_use = self.pool.in_use();
        let (state, since) = match state {
            _ if left > 0 && in_use > 0 => (AddressState::Draining, left),
            _ if left > 0 => (AddressState::Drained, left),
            HealthState::Up => (AddressState::Up, since),
            HealthState::Out { .. } => (AddressState::Out, since),
            HealthState::Trial => (AddressState::Trial, since),
            HealthState::Down => (AddressState::Down, since),
        };
        AddressStatus {
            address: self.name.clone(),
            weight: self.weight(),
            state,
            since: Duration::from_nanos(tokamak_cost::now().saturating_sub(since)),
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            in_use: count(in_use),
            idle: count(self.pool.idle_count()),
            waiting: count(self.pool.waiting()),
            connections: if self.bounds.http2.is_some() || self.mux_connections.is_shared() {
                Connections::Shared
            } else {
                self.pool.connections()
            },
        }
    }

    fn with_health<T>(&self, act: impl FnOnce(&mut Health) -> T) -> T {
        let mut health = self.health();
        let result = act(&mut health);
        self.due.store(health.due(), Ordering::Relaxed);
        result
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // A panic elsewhere cannot leave it half changed.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Candidate for Arc<Member> {
    fn weight(&self) -> u32 {
        Member::weight(self)
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    fn busy(&self) -> usize {
        self.pool.in_use() + self.pool.waiting()
    }
}

/// A request's right to ask a member.
#[derive(Debug)]
pub(super) struct Admission {
    pub member: Arc<Member>,
    is_trial: bool,
}

impl Admission {
    /// All others are out too.
    pub fn of_last_hope(member: Arc<Member>) -> Admission {
        Admission { member, is_trial: false }
    }
}

/// A trial without a verdict: the client went away, or others were in front of it for too long.
impl Drop for Admission {
    fn drop(&mut self) {
        if self.is_trial {
            self.member.with_health(|health| health.trial_abandoned(tokamak_cost::now()));
        }
    }
}
