//! One application: its addresses, and how a request finds an address that answers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokamak_sys::control::AddressStatus;
use tokio::sync::watch;
use tokio::time::timeout;

use super::attempts::{Attempts, ResponseStart};
use super::balance::health::{Rules, Severity};
use super::balance::{Balancing, Key};
use super::error::UpstreamError;
use super::exchange::Exchange;
use super::exclusive::ExclusiveStream;
use super::member::{Address, Member};
use super::members::Members;
use super::names::Source;
use super::request::FcgiRequest;
use super::stream::Endpoint;

/// Limits of one application.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections to each address.
    pub connections: usize,
    /// Whether it is asked if it takes several requests on a connection.
    pub multiplex: bool,
    /// Requests after which a connection is closed; 0: never.
    pub requests: u64,
    /// How long an idle connection is kept.
    pub idle: Duration,
    /// Whether a kept connection is used even for a request that would be lost if the application
    /// closed it at that moment, because the request may not be repeated.
    pub reuse_for_all: bool,
    /// Requests that wait for a connection.
    pub queue: usize,
    /// Longest wait for one.
    pub queue_timeout: Duration,
    /// Longest time to open one.
    pub connect_timeout: Duration,
    /// Longest time between two writes of a request.
    pub send_timeout: Duration,
    /// Longest time from the end of the request to the first byte of the response.
    pub first_byte_timeout: Duration,
    /// Longest time between two reads of the response.
    pub read_timeout: Duration,
}

/// How one application is asked.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How requests without a key are spread.
    pub policy: Balancing,
    /// Whether a request waits for the address of its key, however busy that is.
    pub stays: bool,
    /// When an address is left out.
    pub rules: Rules,
    /// Limits.
    pub bounds: Bounds,
}

/// Writes a line of the log: what has happened to which address.
pub struct LogSink(Box<dyn Fn(&str) + Send + Sync>);

impl LogSink {
    /// By this function.
    pub fn by(tell: impl Fn(&str) + Send + Sync + 'static) -> LogSink {
        LogSink(Box::new(tell))
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

/// One application with all its addresses; the same for all event loops.
#[derive(Debug)]
pub struct Upstream {
    pub(super) settings: Settings,
    members: RwLock<Members>,
    /// Names whose addresses are among the members, too.
    sources: Vec<Source>,
    /// Those that have not been resolved yet.
    unresolved: watch::Sender<BTreeSet<usize>>,
    tell: LogSink,
}

impl Upstream {
    /// An application at these addresses, and at those that are behind names, which the caller has
    /// to [follow](Upstream::follow).
    pub fn new(
        settings: Settings,
        addresses: Vec<Address>,
        sources: Vec<Source>,
        tell: LogSink,
    ) -> Upstream {
        let unresolved = watch::Sender::new((0..sources.len()).collect());
        let upstream = Upstream { settings, members: RwLock::default(), sources, unresolved, tell };
        addresses.into_iter().for_each(|address| upstream.add(address));
        upstream
    }

    /// Puts an address into service; one that is there gets this weight.
    pub fn add(&self, address: Address) {
        let Settings { bounds, rules, .. } = self.settings;
        self.members_mut().add(address, |address| Member::new(address, None, bounds, rules));
    }

    /// How many names there are to follow.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn source(&self, index: usize) -> Option<&Source> {
        self.sources.get(index)
    }

    /// The addresses that are behind a name now.
    pub(super) fn set_source(&self, source: usize, addresses: Vec<Address>) {
        let Settings { bounds, rules, .. } = self.settings;
        let new = |address| Member::new(address, Some(source), bounds, rules);
        self.members_mut().set_source(source, addresses, new);
        self.unresolved.send_if_modified(|unresolved| unresolved.remove(&source));
    }

    /// Waits until there is an address, if there may be one as soon as a name is resolved: a
    /// request that comes with the start of the server is not to fail.
    pub(super) async fn wait_for_names(&self) -> bool {
        let mut unresolved = self.unresolved.subscribe();
        if unresolved.borrow_and_update().is_empty() {
            // Perhaps the last one just now.
            return self.members().all().iter().any(|member| !member.is_leaving());
        }
        let limit = self.settings.bounds.connect_timeout;
        timeout(limit, unresolved.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// Lets an address leave: requests that it has are answered, and there will be no more.
    /// `false`: it is not there.
    pub fn drain(&self, endpoint: &Endpoint) -> bool {
        self.members_mut().drain(endpoint)
    }

    /// The same, and forgets it.
    pub fn remove(&self, endpoint: &Endpoint) -> bool {
        self.members_mut().remove(endpoint)
    }

    /// How the addresses stand.
    pub fn address_statuses(&self) -> Vec<AddressStatus> {
        self.members().all().iter().map(|member| member.status()).collect()
    }

    /// Whether connections are kept between requests.
    pub fn keeps(&self) -> bool {
        self.settings.bounds.requests != 1
    }

    /// A request that is to be answered by one of the addresses. `loop_index` is that of the
    /// caller's event loop. Requests with the same `key` go to the same address as long as it is in
    /// service.
    pub fn attempts(
        &self,
        loop_index: usize,
        call: Arc<FcgiRequest>,
        key: Option<Key>,
    ) -> Attempts<'_> {
        Attempts::new(self, loop_index, call, key)
    }

    /// Asks one address. A kept connection may be closed by the application at any time. So a
    /// request that may not be repeated gets a new one. Another one is asked again on a new
    /// connection if that happens. `avoid_kept`: it gets a new one from the beginning.
    pub(super) async fn ask_member(
        &self,
        member: &Member,
        loop_index: usize,
        call: &Arc<FcgiRequest>,
        mut avoid_kept: bool,
    ) -> Result<ResponseStart, UpstreamError> {
        let pool = &member.pool;
        let is_at_risk = !call.is_repeatable && !self.settings.bounds.reuse_for_all;
        loop {
            let is_shared = pool.is_shared().await.map_err(UpstreamError::Unreachable)?;
            let permit = pool.permit(loop_index, call.flow).await?;
            let permitted = tokamak_cost::now();
            let wants_new = is_at_risk || avoid_kept;
            // Where connections are shared, a new one is for this request alone.
            let place = if is_shared && wants_new { pool.place() } else { None };
            let (mut exchange, is_reused) = if is_shared && place.is_none() {
                let begun = pool.begin(permit, call, wants_new).await;
                let (stream, is_reused) = begun.map_err(UpstreamError::Unreachable)?;
                // The lost one is not used again; once more is enough, though, whatever becomes of
                // the next.
                (Exchange::shared(stream), is_reused && !avoid_kept)
            } else {
                let reused =
                    if wants_new { Err(permit) } else { pool.reuse(permit, !call.is_repeatable) };
                let lease = match reused {
                    Ok(lease) => lease,
                    Err(permit) => {
                        pool.connect(permit).await.map_err(UpstreamError::Unreachable)?.apart(place)
                    }
                };
                let is_reused = lease.is_reused();
                let stream = ExclusiveStream::new(lease, call.clone(), self.settings.bounds);
                (Exchange::exclusive(stream), is_reused)
            };
            let connected = tokamak_cost::now();
            match exchange.next().await {
                Ok(event) => return Ok(ResponseStart { exchange, event, permitted, connected }),
                Err(UpstreamError::Closed { answered: false })
                    if is_reused && (call.is_repeatable || !exchange.has_written()) =>
                {
                    avoid_kept = true;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// What a fault says about an address.
    pub(super) fn note_failure(&self, member: &Member, fault: &UpstreamError) {
        let severity = match fault {
            UpstreamError::Unreachable(_) => Severity::Unreachable,
            UpstreamError::Closed { .. }
            | UpstreamError::SendSlow
            | UpstreamError::Silent
            | UpstreamError::Stalled
            | UpstreamError::Malformed(_)
            | UpstreamError::Unexpected(_) => Severity::Unanswered,
            // It is busy, or it is not its fault.
            UpstreamError::Full
            | UpstreamError::Waited
            | UpstreamError::Withdrawn
            | UpstreamError::NoAddress
            | UpstreamError::Refused(_)
            | UpstreamError::Spool => return,
        };
        let pause = member.failed(severity);
        if let Some(pause) = pause.filter(|_| self.members().all().len() > 1) {
            self.tell(&format!(
                "{} is left out for {} s: {fault}",
                member.name,
                pause.as_secs_f32()
            ));
        }
    }

    /// Closes what one event loop has kept for too long.
    pub fn tick(&self, loop_index: usize, now: u64) {
        self.members().all().iter().for_each(|member| member.pool.tick(loop_index, now));
    }

    /// No connection is kept from now on, so that the application's processes are free for other
    /// servers.
    pub fn keep_none(&self) {
        self.members().all().iter().for_each(|member| member.pool.keep_none());
    }

    /// Writes a line of the log.
    pub(super) fn tell(&self, news: &str) {
        (self.tell.0)(news);
    }

    fn members_mut(&self) -> RwLockWriteGuard<'_, Members> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn members(&self) -> RwLockReadGuard<'_, Members> {
        // A panic elsewhere cannot leave it half changed.
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections are idle.
    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.members().all().iter().map(|member| member.pool.idle_count()).sum()
    }
}
