//! What the requests of one event loop share: data, and questions about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokamak_config as config;
use tokamak_lua::LuaState;
use tokamak_upstream::fcgi::Upstream;

use crate::balancer::Balancer;
use crate::cache::Content;
use crate::log::AccessLog;
use crate::lua::Calls;
use crate::route::hosts::Hosts;
use crate::scoreboard::Scoreboard;
use crate::site::Site;

/// What the requests of one event loop share.
pub struct Context {
    /// The configuration.
    pub config: Arc<config::Server>,
    /// The sites, in the order of the configuration.
    pub sites: Vec<Site>,
    /// Which of them a host name belongs to.
    pub hosts: Arc<Hosts>,
    /// The FastCGI applications, in the order of the configuration.
    pub upstreams: Arc<[Upstream]>,
    /// The Lua of this loop, if any site has scripts.
    pub lua: Option<Arc<LuaState>>,
    /// What its scripts reach other services by.
    pub calls: Calls,
    /// The content cache, if any site wants it.
    pub cache: Option<Arc<Content>>,
    /// The access log, if one is written.
    pub access_log: Option<Arc<AccessLog>>,
    /// The requests that are being served by all loops, for scripts.
    pub scoreboard: Arc<Scoreboard>,
    /// How the connections are spread over the loops.
    pub balancer: Arc<Balancer>,
    /// When the loop stopped accepting, in nanoseconds; 0: it has not.
    pub draining: AtomicU64,
    /// When the loop was made.
    pub began: Instant,
    /// The position of this loop among all.
    pub index: usize,
}

impl Context {
    /// The site that a host name belongs to; the first one for an unknown name.
    pub fn site_of(&self, host: Option<&str>) -> &Site {
        &self.sites[self.hosts.find(host.unwrap_or(""))]
    }

    /// Open connections of all loops.
    pub fn connections(&self) -> usize {
        self.balancer.all_connections()
    }

    /// Whether connections are to be closed after their next response.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) > 0
    }

    /// For how long the loop has accepted nothing more, in nanoseconds, if it has stopped.
    pub fn draining_for(&self, now: u64) -> Option<u64> {
        let since = self.draining.load(Ordering::Relaxed);
        (since > 0).then(|| now.saturating_sub(since))
    }

    /// Hands over the lines of all access logs.
    pub fn flush_logs(&self) {
        if let Some(log) = &self.access_log {
            log.flush();
        }
        self.sites.iter().filter_map(|site| site.journal.as_ref()).for_each(|log| log.flush());
    }
}
