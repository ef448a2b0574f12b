//! The figures of the front for `/metrics`: read when somebody asks, from what the event loops, the
//! content cache and the ways to applications count anyway.

use std::sync::Arc;

use tokamak_config as config;
use tokamak_cost::{CallKind, Phase};
use tokamak_metrics::{Counter, Row, Samples};
use tokamak_upstream::fcgi::{AddressState, Upstream};

use crate::balancer::Balancer;
use crate::cache::Content;
use crate::clock::epoch;
use crate::counters::{LoopCounters, STATUSES, SiteCounts};
use crate::export::{Fate, SpanQueue};
use crate::failure::{Failure, Side};
use crate::slowest::{Slow, merged};

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
}

impl Figures {
    /// All of them now.
    pub fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        samples.add(Row::Build, &[env!("CARGO_PKG_VERSION")], 1.0);
        for index in 0..self.config.sites.len() {
            self.add_site(index, &mut samples);
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
        samples.add(Row::Connections, &[], self.balancer.all_connections() as f64);
        samples.add(Row::EventLoops, &["serving"], serving as f64);
        samples.add(Row::EventLoops, &["idle"], idle as f64);
        self.add_cache(&mut samples);
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
    pub fn slowest(&self, now: u64) -> Vec<Slow> {
        let mut all = Vec::new();
        self.loops.iter().for_each(|counters| counters.slowest.read(now, &mut all));
        merged(all)
    }

    fn add_site(&self, index: usize, samples: &mut Samples) {
        let mut counts = SiteCounts::default();
        self.loops.iter().for_each(|counters| counters.read(index, &mut counts));
        let site = &self.config.sites[index].name[..];
        for (status, count) in STATUSES.iter().zip(counts.requests) {
            // No final response has such a status.
            if *status != "1xx" {
                samples.add(Row::Requests, &[site, status], count as f64);
            }
        }
        samples.add(Row::ResponseBytes, &[site], counts.sent as f64);
        // The loops' clock is that of the ledgers.
        let epoch = epoch();
        counts.duration.exemplars.iter_mut().flatten().for_each(|one| one.at += epoch);
        samples.add_times(Row::Duration, &[site], counts.duration);
        for (phase, reading) in Phase::ALL.iter().zip(counts.phases) {
            // Most sites never have most phases, and each is 25 lines.
            if reading.count() > 0 {
                samples.add_times(Row::Phases, &[site, phase.name()], reading);
            }
        }
        if self.config.sites[index].count_calls {
            for (nth, kind) in CallKind::ALL.iter().enumerate() {
                let labels = [site, kind.name()];
                samples.add(Row::Calls, &labels, counts.calls[nth] as f64);
                samples.add_times(Row::CallTimes, &labels, counts.call_times[nth].clone());
            }
        }
    }

    fn add_cache(&self, samples: &mut Samples) {
        let Some(tally) = self.cache.as_ref().map(|cache| cache.store.tally()) else { return };
        for (result, count) in [
            ("hit", tally.hits),
            ("stale", tally.stale),
            ("miss", tally.misses),
            ("coalesced", tally.coalesced),
            ("bypassed", tally.bypassed),
        ] {
            samples.add(Row::CacheRequests, &[result], count as f64);
        }
        for (row, count) in [
            (Row::CacheRevalidated, tally.revalidated),
            (Row::CacheStored, tally.stored),
            (Row::CacheEntries, tally.entries),
            (Row::CacheBytes, tally.bytes),
            (Row::CacheLimit, tally.memory),
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
