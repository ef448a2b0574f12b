//! The start of the front: makes the data that all event loops share, and that of each loop.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tokamak_config::{self as config, TraceMode};
use tokamak_lua::Engine;
use tokamak_metrics::Counter;
use tokamak_quic::Secret;
use tokamak_sys::channel::Channel;
use tokamak_upstream::remote::Upstream;
use tokamak_upstream::shm::{Bounds, Gate};
use tokamak_upstream::{SpoolQuota, open_files, reserve};
use tokio::sync::Semaphore;

use super::Start;
use crate::admin::Figures;
use crate::backend::upstream;
use crate::balancer::Balancer;
use crate::cache::{Content, SiteCachePolicies};
use crate::client::forwarded::Forwarding;
use crate::context::Context;
use crate::counters::LoopCounters;
use crate::event_loop::TICK;
use crate::export::Exporter;
use crate::fpm::{Journal, Overview};
use crate::log::{AccessLog, Log};
use crate::login::Passwords;
use crate::lua::{self, Calls, SiteHooks};
use crate::pools::{Queues, slowly};
use crate::push::SiteHub;
use crate::request::pipeline;
use crate::response::edits::SiteEdits;
use crate::route::Router;
use crate::route::hosts::Hosts;
use crate::scoreboard::Scoreboard;
use crate::site::limits::{self, SiteLimits};
use crate::site::logins::SiteLogins;
use crate::site::quota::quotas;
use crate::site::rules::Rules;
use crate::site::{Handler, Site};
use crate::throttle::Throttle;
use crate::timing::Timing;
use crate::tls::Tls;
use crate::trace::Tracer;

/// A loop's gate to a pool, and the descriptor by which the workers wake the loop.
pub type Pool = (Arc<Gate>, OwnedFd);

/// What all event loops share.
pub struct Shared {
    /// The configuration.
    pub config: Arc<config::Server>,
    sites: Vec<Arc<config::Site>>,
    hosts: Arc<Hosts>,
    scoreboard: Arc<Scoreboard>,
    /// Which loop serves which connection.
    pub balancer: Arc<Balancer>,
    /// The FastCGI applications.
    pub upstreams: Arc<[Upstream]>,
    /// Watches the scripts of all loops as long as it lives.
    pub lua: Option<Engine>,
    /// The content cache, if any site uses it.
    pub cache: Option<Arc<Content>>,
    /// What each event loop counts, for the admin listener; empty without one.
    counters: Vec<Arc<LoopCounters>>,
    /// The export of traces, if the configuration wants it.
    pub exporter: Option<Exporter>,
    /// The access logs, in the order of the configuration.
    pub access_logs: Vec<Log>,
    /// Access logs of pools, by the positions of their sites.
    pub pool_logs: BTreeMap<usize, Log>,
    /// The data of the pools' status pages, by the indexes of their sites.
    overviews: BTreeMap<usize, Arc<Overview>>,
    /// The queues in use.
    pub queues: Queues,
    /// What responses may take in files, in the order of the sites.
    quotas: Vec<Arc<SpoolQuota>>,
    /// The hubs, in the order of the sites.
    pub hubs: Vec<Option<Arc<SiteHub>>>,
    /// What handshakes need, if there are listeners for TLS.
    pub tls: Option<Arc<Tls>>,
    /// What clients have asked for of late, if that is limited.
    throttle: Option<Arc<Throttle>>,
    /// Verifies passwords, if rules ask for them.
    pub passwords: Option<Arc<Passwords>>,
}

/// Whether the error log shows where the time of a site's slow requests went. A pool of `tokamak
/// fpm` has a slow log of its own, in php-fpm's format.
fn has_slow_log(site: &config::Site) -> bool {
    !site.pool.slow.is_zero() && site.fpm.is_none()
}

impl Shared {
    /// Makes the shared data.
    ///
    /// # Errors
    /// Fails if a log cannot be opened, or if a name cannot be resolved while another front still
    /// serves.
    pub fn new(config: Arc<config::Server>, start: &mut Start) -> io::Result<Shared> {
        let files = std::mem::take(&mut start.access_logs).into_iter();
        let access_logs = config.access_logs().into_iter().zip(files);
        let access_logs = access_logs
            .map(|(log, file)| Log::open(log.file(), file))
            .collect::<io::Result<_>>()?;
        let (mut pool_logs, mut overviews) = (BTreeMap::new(), BTreeMap::new());
        for pool in &mut start.pools {
            if let Some(configured) = &config.sites[pool.site_index].fpm {
                let version = pool.exposed_version.take();
                let overview = Overview::new(configured.clone(), pool.segment.clone(), version);
                overviews.insert(pool.site_index, Arc::new(overview));
            }
            if let Some(file) = pool.access_log.take() {
                pool_logs.insert(pool.site_index, Log::open(None, Some(file))?);
            }
        }
        let sites: Vec<Arc<config::Site>> = config.sites.iter().cloned().map(Arc::new).collect();
        let upstreams = upstream::upstreams(&config, &start.upstream_tls)?;
        let lua = lua::engine(&config, start.scripts.as_deref());
        let cache = Content::new(&config);
        if start.is_successor {
            upstream::resolve(&upstreams, &config)?;
        }
        let want = start.want_name.take();
        let secret = start.quic.as_ref().map(|quic| Arc::new(Secret::of(quic.secret)));
        let tls = start.tls.as_ref().map(|(_, all)| Tls::new(&config, all, want, secret));
        let tls = tls.transpose().map_err(io::Error::other)?.map(Arc::new);
        let mut lines: BTreeMap<usize, Channel> = BTreeMap::new();
        for pool in &mut start.pools {
            lines.extend(pool.hub.take().map(|line| (pool.site_index, line)));
        }
        let hubs = sites.iter().enumerate();
        let hubs = hubs.map(|(index, site)| SiteHub::new(site, config.loops, lines.remove(&index)));
        let hubs = hubs.collect::<io::Result<_>>()?;
        let throttle = limits::throttle(&config);
        let passwords = Passwords::new(&config, &start.users, &throttle)?;
        let is_traced = config.trace.context != TraceMode::Off;
        let routes = || sites.iter().map(|site| site.routes.len());
        let counters = || Arc::new(LoopCounters::new(routes(), is_traced));
        let counters = start.admin.iter().flat_map(|_| (0..config.loops).map(|_| counters()));
        Ok(Shared {
            counters: counters.collect(),
            exporter: Exporter::start(&config)?,
            hosts: Arc::new(Hosts::new(&config)),
            scoreboard: Arc::default(),
            balancer: Arc::new(Balancer::new(config.loops, TICK)),
            queues: Queues::new(&start.pools, &overviews),
            quotas: quotas(&config),
            hubs,
            tls,
            throttle,
            passwords,
            config,
            sites,
            upstreams,
            lua,
            cache,
            access_logs,
            pool_logs,
            overviews,
        })
    }

    /// What the admin listener reads its figures from.
    pub fn figures(&self) -> Figures {
        Figures {
            config: self.config.clone(),
            loops: self.counters.clone(),
            balancer: self.balancer.clone(),
            upstreams: self.upstreams.clone(),
            cache: self.cache.clone(),
            spans: self.exporter.as_ref().map(|exporter| exporter.queue().clone()),
            asked: Counter::default(),
            cut: Counter::default(),
            closed: Counter::default(),
            tls: self.tls.clone(),
            throttle: self.throttle.clone(),
            quotas: self.quotas.clone(),
            hubs: self.hubs.clone(),
        }
    }

    /// Makes the context of the loop with this index, and its gates to the pools.
    ///
    /// # Errors
    /// Fails if there is not enough memory for Lua, or no free descriptor.
    pub fn context(&self, index: usize, start: &Start) -> io::Result<(Context, Vec<Pool>)> {
        let lua = self.lua.as_ref().map(lua::state).transpose()?;
        let default = match &lua {
            Some(state) if start.scripts.is_some() => Handler::Scripts(state.clone()),
            _ => Handler::None,
        };
        let mut handlers: Vec<Handler> = self
            .sites
            .iter()
            .map(|site| site.upstream.map_or(default.clone(), Handler::Upstream))
            .collect();
        let mut pools = Vec::new();
        for (pool, queue) in start.pools.iter().zip(self.queues.sources()) {
            let site = &self.sites[pool.site_index];
            let bounds = Bounds {
                queue: site.pool.queue_timeout.as_nanos() as u64,
                inbox: self.config.limits.buffer,
                queued: site.pool.queue,
                share: site.pool.queue.div_ceil(self.config.loops),
                concurrency: site.concurrency,
                has_slow_log: has_slow_log(site),
            };
            let (want, alarm) = (pool.want.clone().map(slowly), pool.alarm.clone());
            let quota = Some(self.quotas[pool.site_index].clone());
            let gate = Gate::new(queue.clone(), index as u16, bounds, quota, want, alarm);
            let gate = Arc::new(gate);
            handlers[pool.site_index] = Handler::Workers(gate.clone());
            pools.push((gate, pool.bells[index].try_clone()?));
        }
        let sites = handlers.into_iter().enumerate();
        let access_logs: Vec<_> = self
            .config
            .access_logs()
            .into_iter()
            .zip(&self.access_logs)
            .map(|(configured, log)| {
                (configured, Arc::new(AccessLog::new(log, configured.format.clone())))
            })
            .collect();
        let context = Context {
            subrequest: pipeline::subrequest,
            config: self.config.clone(),
            tls: self.tls.clone(),
            handshake_turn: Semaphore::new(1),
            sites: sites.map(|(index, handler)| self.site(index, handler, &access_logs)).collect(),
            hosts: self.hosts.clone(),
            upstreams: self.upstreams.clone(),
            lua,
            calls: Calls::default(),
            cache: self.cache.clone(),
            forwarding: Forwarding::new(&self.config),
            tracer: Tracer::new(&self.config.trace),
            spans: self.exporter.as_ref().map(|exporter| exporter.queue().clone()),
            timing: Timing::new(&self.config),
            access_logs: access_logs.into_iter().map(|(_, log)| log).collect(),
            counters: self.counters.get(index).cloned(),
            has_slow_log: self.sites.iter().any(|site| has_slow_log(site)),
            scoreboard: self.scoreboard.clone(),
            balancer: self.balancer.clone(),
            draining: AtomicU64::new(0),
            began: Instant::now(),
            last_descriptor: open_files().saturating_sub(reserve(open_files())),
            index,
        };
        Ok((context, pools))
    }

    fn site(
        &self,
        index: usize,
        handler: Handler,
        access_logs: &[(&config::AccessLog, Arc<AccessLog>)],
    ) -> Site {
        let config = &self.sites[index];
        let router = Router::new(config);
        let log = config.fpm.as_ref().zip(self.pool_logs.get(&index));
        Site {
            index,
            config: config.clone(),
            hooks: SiteHooks::new(self.lua.as_ref(), config),
            caching: SiteCachePolicies::new(config),
            edits: SiteEdits::new(&self.config, config),
            root: router.root().as_os_str().as_encoded_bytes().to_vec(),
            router,
            rules: Rules::new(config),
            limits: SiteLimits::new(index, &self.config, &self.throttle),
            logins: SiteLogins::new(config, &self.passwords),
            access_log: access_logs
                .iter()
                .find(|(configured, _)| config.access_log.as_ref() == Some(configured))
                .map(|(_, log)| log.clone()),
            handler,
            overview: self.overviews.get(&index).cloned(),
            quota: self.quotas[index].clone(),
            hub: self.hubs[index].clone(),
            journal: log.map(|(pool, log)| Journal::new(pool, log)),
            fallback: config
                .fallback
                .as_ref()
                .and_then(|name| self.sites.iter().position(|site| site.name == *name)),
        }
    }
}
