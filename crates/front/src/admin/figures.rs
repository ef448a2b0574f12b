//! The figures of the front for `/metrics`: read when somebody asks, from what the event loops, the
//! content cache and the ways to applications count anyway.

use std::sync::Arc;

use tokamak_config::{self as config, Coding};
use tokamak_cost::{CallKind, Phase};
use tokamak_mercure::End;
use tokamak_metrics::{Counter, Row, Samples};
use tokamak_upstream::SpoolQuota;
use tokamak_upstream::remote::{AddressState, Upstream};

use crate::balancer::Balancer;
use crate::cache::Content;
use crate::clock::epoch;
use crate::counters::{LoopCounters, ProtocolFault, RouteCounts, STATUSES, WebSocketCounters};
use crate::export::{Fate, SpanQueue};
use crate::failure::{Failure, Side};
use crate::push::SiteHub;
use crate::request_summary::RequestSummary;
use crate::response::compression;
use crate::throttle::{LimitKind, Throttle};
use crate::tls::Tls;
use crate::{last_errors, slowest};

/// What the figures are read from.
pub struct Figures {
    /// The configuration.
    pub config: Arc<config::Server>,
    /// What each event loop has counted.
    pub loops: Vec<Arc<LoopCounters>>,
    /// Knows the connections.
    pub balancer: Arc<Balancer>,
    /// The FastCGI applications.
    pub upstreams: Arc<[Upstream]>,
    /// The content cache, if there is one.
    pub cache: Option<Arc<Content>>,
    /// The spans that are exported, if they are.
    pub spans: Option<Arc<SpanQueue>>,
    /// Requests to the admin listener.
    pub asked: Counter,
    /// Connections to it that were closed because the client did nothing.
    pub cut: Counter,
    /// Connections of clients that have been seen to be closed.
    pub closed: Counter,
    /// Handshakes and certificates, if there are listeners for TLS.
    pub tls: Option<Arc<Tls>>,
    /// What clients have asked for beyond their limits, if there are any.
    pub throttle: Option<Arc<Throttle>>,
    /// What responses have in files, in the order of the sites.
    pub quotas: Vec<Arc<SpoolQuota>>,
    /// The hubs, in the order of the sites.
    pub hubs: Vec<Option<Arc<SiteHub>>>,
}

impl Figures {
    /// All of them now.
    pub fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        samples.add(Row::Build, &[env!("CARGO_PKG_VERSION")], 1.0);
        for (index, site) in self.config.sites.iter().enumerate() {
            self.add_route(index, &site.name, None, &mut samples);
            for (route, config) in site.routes.iter().enumerate() {
                self.add_route(index, &site.name, Some((route, config.name())), &mut samples);
            }
        }
        for &failure in Failure::ALL {
            let side = match failure.side() {
                Side::Client => "client",
                Side::Server => "server",
                Side::Backend => "backend",
            };
            samples.add(Row::Failures, &[failure.name(), side], failure.count() as f64);
        }
        let serving = self.balancer.duty().borrow().serving;
        let idle = self.config.loops.saturating_sub(serving);
        self.add_connections(&mut samples);
        samples.add(Row::EventLoops, &["serving"], serving as f64);
        samples.add(Row::EventLoops, &["idle"], idle as f64);
        for index in 0..self.config.loops {
            let requests = self.balancer.requests(index) as f64;
            samples.add(Row::EventLoopRequests, &[&index.to_string()], requests);
        }
        self.add_limits(&mut samples);
        self.add_hubs(&mut samples);
        self.add_multiplexed(&mut samples);
        self.add_websockets(&mut samples);
        self.add_tls(&mut samples);
        for coding in Coding::ALL {
            let [before, after] = compression::counted(coding);
            samples.add(Row::CompressionInput, &[coding.name()], before as f64);
            samples.add(Row::CompressionOutput, &[coding.name()], after as f64);
        }
        self.add_cache(&mut samples);
        for (site, quota) in self.config.sites.iter().zip(&self.quotas) {
            samples.add(Row::SpooledBytes, &[&site.name], quota.taken() as f64);
        }
        self.add_upstreams(&mut samples);
        if let Some(spans) = &self.spans {
            for fate in Fate::ALL {
                samples.add(Row::TraceSpans, &[fate.name()], spans.counted(fate) as f64);
            }
        }
        samples.add(Row::AdminRequests, &[], self.asked.get() as f64);
        samples.add(Row::AdminCut, &[], self.cut.get() as f64);
        samples.add(Row::FrontCpu, &[], tokamak_cost::process_time() as f64 / 1e9);
        samples
    }

    /// The slowest requests of late, the slowest first.
    pub fn slowest(&self, now: u64) -> Vec<RequestSummary> {
        let mut all = Vec::new();
        self.loops.iter().for_each(|counters| counters.slowest.read(now, &mut all));
        slowest::merged(all)
    }

    /// The last requests that were answered with an error, the newest first.
    pub fn last_errors(&self) -> Vec<RequestSummary> {
        let mut all = Vec::new();
        self.loops.iter().for_each(|counters| counters.last_errors.read(&mut all));
        last_errors::merged(all)
    }

    /// What was counted of a route, or of requests that belong to none: their route has no name.
    fn add_route(
        &self,
        index: usize,
        site: &str,
        route: Option<(usize, &str)>,
        samples: &mut Samples,
    ) {
        let mut counts = RouteCounts::default();
        let (route, name) = route.map_or((None, ""), |(route, name)| (Some(route), name));
        self.loops.iter().for_each(|counters| counters.read(index, route, &mut counts));
        let labels = [site, name];
        for (status, count) in STATUSES.iter().zip(counts.requests) {
            // No final response has such a status.
            if *status != "1xx" {
                samples.add(Row::Requests, &[site, name, status], count as f64);
            }
        }
        samples.add(Row::RequestBytes, &labels, counts.received as f64);
        samples.add(Row::ResponseBytes, &labels, counts.sent as f64);
        // A histogram is 25 lines, and most routes of many sites have no requests for long.
        let has_times = route.is_none() || counts.duration.count() > 0;
        // The loops' clock is that of the ledgers.
        let epoch = epoch();
        counts.duration.exemplars.iter_mut().flatten().for_each(|one| one.at += epoch);
        if has_times {
            samples.add_times(Row::Duration, &labels, counts.duration);
        }
        for (phase, reading) in Phase::ALL.iter().zip(counts.phases) {
            // Most sites never have most phases.
            if reading.count() > 0 {
                samples.add_times(Row::Phases, &[site, name, phase.name()], reading);
            }
        }
        if self.config.sites[index].count_calls {
            for (nth, kind) in CallKind::ALL.iter().enumerate() {
                let labels = [site, name, kind.name()];
                samples.add(Row::Calls, &labels, counts.calls[nth] as f64);
                if has_times {
                    samples.add_times(Row::CallTimes, &labels, counts.call_times[nth].clone());
                }
            }
        }
    }

    fn add_connections(&self, samples: &mut Samples) {
        let sum = |of: fn(&LoopCounters) -> &Counter| -> u64 {
            self.loops.iter().map(|counters| of(counters).get()).sum()
        };
        // In this order: one that is accepted meanwhile must not look closed.
        let (accepted, refused) = (sum(|it| &it.accepted), sum(|it| &it.refused));
        let open = self.balancer.all_connections() as u64;
        let closed = accepted.saturating_sub(refused + open);
        self.closed.add(closed.saturating_sub(self.closed.get()));
        samples.add(Row::Connections, &[], open as f64);
        for (row, count) in [
            (Row::ConnectionsAccepted, accepted),
            (Row::ConnectionsRefused, refused),
            (Row::ConnectionsClosed, self.closed.get()),
        ] {
            samples.add(row, &[], count as f64);
        }
    }

    fn add_multiplexed(&self, samples: &mut Samples) {
        let sum = |of: &dyn Fn(&LoopCounters) -> &Counter| -> f64 {
            self.loops.iter().map(|counters| of(counters).get()).sum::<u64>() as f64
        };
        samples.add(Row::Http2Connections, &[], sum(&|it| &it.http2.connections));
        samples.add(Row::Http2Requests, &[], sum(&|it| &it.http2.requests));
        samples.add(Row::Http2Refused, &[], sum(&|it| &it.http2.refused));
        samples.add(Row::Http3Connections, &[], sum(&|it| &it.http3.connections));
        samples.add(Row::Http3Requests, &[], sum(&|it| &it.http3.requests));
        for fault in ProtocolFault::ALL {
            let (name, fault) = (fault.name(), fault as usize);
            samples.add(Row::Http2Closed, &[name], sum(&|it| &it.http2.closed[fault]));
            samples.add(Row::Http3Closed, &[name], sum(&|it| &it.http3.closed[fault]));
        }
    }

    fn add_websockets(&self, samples: &mut Samples) {
        let sum = |of: &dyn Fn(&WebSocketCounters) -> &Counter| -> u64 {
            self.loops.iter().map(|counters| of(&counters.websockets).get()).sum()
        };
        // Read first, so that none looks closed that is not counted yet.
        let closed = sum(&|it| &it.closed);
        let opened = sum(&|it| &it.opened);
        samples.add(Row::WebSockets, &[], opened as f64);
        samples.add(Row::WebSocketsOpen, &[], opened.saturating_sub(closed) as f64);
    }

    fn add_limits(&self, samples: &mut Samples) {
        let Some(throttle) = &self.throttle else { return };
        for (index, site) in self.config.sites.iter().enumerate() {
            for kind in LimitKind::ALL {
                let counts = throttle.exceeded.get(index, kind);
                for (action, count) in ["refused", "dry_run"].into_iter().zip(counts) {
                    let labels = [&site.name[..], kind.name(), action];
                    samples.add(Row::LimitedRequests, &labels, count as f64);
                }
            }
        }
    }

    fn add_hubs(&self, samples: &mut Samples) {
        for (site, hub) in self.config.sites.iter().zip(&self.hubs) {
            let Some(figures) = hub.as_ref().map(|hub| hub.hub.figures()) else { continue };
            let name = &site.name[..];
            for (row, count) in [
                (Row::HubSubscribers, figures.subscribers as f64),
                (Row::HubUpdates, figures.updates as f64),
                (Row::HubDeliveries, figures.deliveries as f64),
                (Row::HubHistory, figures.history.0 as f64),
                (Row::HubHistoryBytes, figures.history.1 as f64),
            ] {
                samples.add(row, &[name], count);
            }
            for (end, count) in End::ALL.iter().zip(figures.ended) {
                samples.add(Row::HubEnded, &[name, end.name()], count as f64);
            }
        }
    }

    fn add_tls(&self, samples: &mut Samples) {
        let Some(tls) = &self.tls else { return };
        for (version, is_resumed, count) in tls.counters.succeeded() {
            let resumed = if is_resumed { "yes" } else { "no" };
            samples.add(Row::TlsHandshakes, &[version, resumed], count as f64);
        }
        for (why, count) in tls.counters.failed() {
            samples.add(Row::TlsFailures, &[why.name()], count as f64);
        }
        for (name, end) in tls.ends() {
            samples.add(Row::TlsCertificates, &[&name], end as f64);
        }
    }

    fn add_cache(&self, samples: &mut Samples) {
        let Some(figures) = self.cache.as_ref().map(|cache| cache.store.figures()) else { return };
        for (result, count) in [
            ("hit", figures.hits),
            ("stale", figures.stale),
            ("miss", figures.misses),
            ("coalesced", figures.coalesced),
            ("bypassed", figures.bypassed),
        ] {
            samples.add(Row::CacheRequests, &[result], count as f64);
        }
        for (row, count) in [
            (Row::CacheRevalidated, figures.revalidated),
            (Row::CacheStored, figures.stored),
            (Row::CacheEntries, figures.entries),
            (Row::CacheBytes, figures.bytes),
            (Row::CacheLimit, figures.memory),
        ] {
            samples.add(row, &[], count as f64);
        }
    }

    fn add_upstreams(&self, samples: &mut Samples) {
        for (upstream, config) in self.upstreams.iter().zip(&self.config.upstreams) {
            for status in upstream.address_statuses() {
                let labels = [&config.name[..], &status.address];
                let [name, address] = labels;
                let is_up = status.state == AddressState::Up;
                samples.add(Row::UpstreamRequests, &labels, status.requests as f64);
                samples.add(Row::UpstreamFailures, &labels, status.failures as f64);
                for (state, count) in [("in_use", status.in_use), ("idle", status.idle)] {
                    samples.add(Row::UpstreamConnections, &[name, address, state], count.into());
                }
                samples.add(Row::UpstreamWaiting, &labels, status.waiting.into());
                samples.add(Row::UpstreamUp, &labels, f64::from(u8::from(is_up)));
            }
        }
    }
}
