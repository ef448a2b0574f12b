//! One application: its addresses, which may come and go.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokamak_sys::control::AddressStatus;
use tokamak_tls::ClientSettings;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connector::Connector;
use super::member::{Address, Member};
use super::members::Members;
use super::names::{Name, Source};
use super::settings::{LogSink, Settings};
use super::stream::Endpoint;

/// One application with all its addresses; the same for all event loops.
#[derive(Debug)]
pub struct Upstream {
    pub(super) settings: Settings,
    /// How it is asked over TLS, if it is.
    tls: Option<ClientSettings>,
    members: RwLock<Members>,
    /// Names whose addresses are among the members, too.
    sources: Vec<Source>,
    /// Those that have not been resolved yet.
    unresolved: watch::Sender<BTreeSet<usize>>,
    log_sink: LogSink,
}

impl Upstream {
    /// An application at these addresses, and at those that are behind names, which the caller has
    /// to [follow](Upstream::follow).
    pub fn new(
        settings: Settings,
        tls: Option<ClientSettings>,
        addresses: Vec<Address>,
        sources: Vec<Source>,
        tell: LogSink,
    ) -> Upstream {
        let unresolved = watch::Sender::new((0..sources.len()).collect());
        let members = RwLock::default();
        let upstream = Upstream { settings, tls, members, sources, unresolved, log_sink: tell };
        addresses.into_iter().for_each(|address| upstream.add(address));
        upstream
    }

    /// Puts an address into service; one that is there gets this weight.
    pub fn add(&self, address: Address) {
        self.members_mut().add(address, |address| self.member(address, None));
    }

    /// A new member, which is there because of this source, if it is.
    fn member(&self, address: Address, source: Option<usize>) -> Member {
        let Address { endpoint, weight } = address;
        let Settings { bounds, rules, .. } = self.settings;
        let name = source.and_then(|source| self.source(source)).map(|source| &source.name);
        let host = match (name, &endpoint) {
            (Some(Name::Host(host, _)), _) => host.clone(),
            (_, Endpoint::Tcp(address)) => address.ip().to_string(),
            (_, Endpoint::Unix(_)) => "localhost".into(),
        };
        let limit = bounds.connect_timeout;
        let connector = Connector { endpoint, tls: self.tls.clone(), host, limit };
        Member::new(connector, weight, source, bounds, rules)
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
        let new = |address| self.member(address, Some(source));
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

    /// Closes what one event loop has kept for too long.
    pub fn tick(&self, loop_index: usize, now: u64) {
        for member in self.members().all() {
            member.tick(loop_index, now);
            if member.has_news() {
                self.log(&format!(
                    "{} says that it takes several requests on a connection: they share \
                     connections from now on",
                    member.name
                ));
            }
        }
    }

    /// No connection is kept from now on, so that the application's processes are free for other
    /// servers.
    pub fn keep_none(&self) {
        self.members().all().iter().for_each(|member| member.keep_none());
    }

    /// Writes a line of the log.
    pub(super) fn log(&self, news: &str) {
        self.log_sink.write(news);
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
