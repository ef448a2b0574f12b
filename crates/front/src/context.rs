//! The data that the requests of one event loop share, and accessors for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::{Request, Response, Uri};
use tokamak_config as config;
use tokamak_lua::LuaState;
use tokamak_upstream::body::Body;
use tokamak_upstream::remote::Upstream;
use tokio::sync::Semaphore;

use crate::balancer::Balancer;
use crate::cache::Content;
use crate::caller::Caller;
use crate::client::forwarded::Forwarding;
use crate::counters::LoopCounters;
use crate::export::SpanQueue;
use crate::log::AccessLog;
use crate::lua::Calls;
use crate::push::SiteHub;
use crate::response::Reply;
use crate::route::hosts::Hosts;
use crate::scoreboard::Scoreboard;
use crate::site::Site;
use crate::timing::Timing;
use crate::tls::Tls;
use crate::trace::Tracer;

/// A subrequest that is being answered.
pub type Subrequest<'a> = Pin<Box<dyn Future<Output = Response<Reply>> + Send + 'a>>;

/// Answers a subrequest that the server makes for itself, for this caller.
pub type Subrequests = for<'a> fn(&'a Arc<Context>, &'a Caller, Request<Body>) -> Subrequest<'a>;

/// The data that the requests of one event loop share.
pub struct Context {
    /// The way into the pipeline for what its phases themselves ask for.
    pub subrequest: Subrequests,
    /// The configuration.
    pub config: Arc<config::Server>,
    /// What handshakes need, if there are listeners for TLS.
    pub tls: Option<Arc<Tls>>,
    /// Which handshake goes on next; see [`Tls::handshake`].
    pub handshake_turn: Semaphore,
    /// The sites, in the order of the configuration.
    pub sites: Vec<Site>,
    /// Maps host names to sites.
    pub hosts: Arc<Hosts>,
    /// The FastCGI applications, in the order of the configuration.
    pub upstreams: Arc<[Upstream]>,
    /// The Lua state of this loop, if any site has scripts.
    pub lua: Option<Arc<LuaState>>,
    /// The clients by which its scripts reach other services.
    pub calls: Calls,
    /// The content cache, if any site uses it.
    pub cache: Option<Arc<Content>>,
    /// Tells whose requests those of trusted proxies are, if any is trusted.
    pub forwarding: Option<Forwarding>,
    /// Gives requests their places in traces, if they are to have them.
    pub tracer: Option<Tracer>,
    /// Where the spans of recorded requests go, if they are exported.
    pub spans: Option<Arc<SpanQueue>>,
    /// Which responses have `Server-Timing`, if any have.
    pub timing: Option<Timing>,
    /// The access logs of the sites, each once.
    pub access_logs: Vec<Arc<AccessLog>>,
    /// Where the loop counts its requests, if anybody can see the numbers.
    pub counters: Option<Arc<LoopCounters>>,
    /// Whether the slow log of any site shows where the time of requests went.
    pub has_slow_log: bool,
    /// The requests that all loops are serving, for scripts that show them.
    pub scoreboard: Arc<Scoreboard>,
    /// Spreads the connections over the loops.
    pub balancer: Arc<Balancer>,
    /// When the loop stopped accepting, in nanoseconds; 0: it has not.
    pub draining: AtomicU64,
    /// When the loop was created.
    pub began: Instant,
    /// The number of a descriptor from which on no more connections are taken, so that files can
    /// still be opened for those that are there.
    pub last_descriptor: u64,
    /// The index of this loop.
    pub index: usize,
}

impl Context {
    /// The site that a URL belongs to, by its host and path, among those that are served on this
    /// listening socket; the first one for an unknown name.
    pub fn site_of(&self, listener: usize, host: Option<&str>, uri: &Uri) -> &Site {
        &self.sites[self.hosts.find(listener, host.unwrap_or(""), uri)]
    }

    /// Whether a request's site has to be named to be known.
    pub fn has_several_sites(&self) -> bool {
        self.sites.len() > 1
    }

    /// Whether requests are logged, counted or traced, or their times are sent to clients.
    pub fn records_requests(&self) -> bool {
        self.wants_exact_times() || self.tracer.is_some()
    }

    /// Whether exact times of requests are shown anywhere.
    pub fn wants_exact_times(&self) -> bool {
        !self.access_logs.is_empty()
            || self.counters.is_some()
            || self.timing.is_some()
            || self.has_slow_log
    }

    /// Open connections of all loops.
    pub fn connections(&self) -> usize {
        self.balancer.all_connections()
    }

    /// Whether connections are to be closed after their next response.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) > 0
    }

    /// How long ago the loop stopped accepting, in nanoseconds; `None` if it accepts.
    pub fn draining_for(&self, now: u64) -> Option<u64> {
        let since = self.draining.load(Ordering::Relaxed);
        (since > 0).then(|| now.saturating_sub(since))
    }

    /// The hubs of the sites.
    pub fn hubs(&self) -> impl Iterator<Item = &Arc<SiteHub>> {
        self.sites.iter().filter_map(|site| site.hub.as_ref())
    }

    /// Passes the lines of all access logs to their writers.
    pub fn flush_logs(&self) {
        self.access_logs.iter().for_each(|log| log.flush());
        self.sites.iter().filter_map(|site| site.journal.as_ref()).for_each(|log| log.flush());
    }
}
