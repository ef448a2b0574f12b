//! What an event loop counts of its requests. Only its own thread writes, so a count is a load and
//! a store; `/metrics` adds up the numbers of all loops. All of it is filled in one place:
//! where a request ends.

use std::sync::{Arc, OnceLock};

use http::uri::PathAndQuery;
use tokamak_cost::{CallKind, Calls, Ledger, Phase};
use tokamak_metrics::{Counter, Exemplar, Exemplars, Histogram, Reading};
use tokamak_trace::TraceContext;

use crate::last_errors::LastErrors;
use crate::slowest::Slowest;

/// What a client of HTTP/2 or HTTP/3 has done, so that its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolFault {
    /// It cancels too many requests.
    Resets = 0,
    /// It sends too many frames of no request.
    ControlFrames = 1,
    /// It breaks a rule of the protocol.
    Protocol = 2,
}

impl ProtocolFault {
    /// All of them, in the order of their numbers.
    pub const ALL: [ProtocolFault; 3] =
        [ProtocolFault::Resets, ProtocolFault::ControlFrames, ProtocolFault::Protocol];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolFault::Resets => "resets",
            ProtocolFault::ControlFrames => "control_frames",
            ProtocolFault::Protocol => "protocol",
        }
    }
}

/// What one event loop has counted of HTTP/2 or of HTTP/3.
#[derive(Debug, Default)]
pub struct MultiplexCounters {
    /// Connections that have begun.
    pub connections: Counter,
    /// Requests on them.
    pub requests: Counter,
    /// Requests that came after their client had been told to open another connection.
    pub refused: Counter,
    /// Connections that were closed, in the order of [`ProtocolFault::ALL`].
    pub closed: [Counter; ProtocolFault::ALL.len()],
}

/// What one event loop has counted of WebSockets.
#[derive(Debug, Default)]
pub struct WebSocketCounters {
    /// Those that have begun.
    pub opened: Counter,
    /// Those of them that have ended.
    pub closed: Counter,
}

/// The classes of statuses, in the order of [`SiteCounters::requests`].
pub const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counters that are there from the first request on.
type LazyCounters = OnceLock<Box<RouteCounters>>;

/// What one event loop has counted.
#[derive(Debug)]
pub struct LoopCounters {
    /// Of each site first those that belong to no route, then those of each route. They are some
    /// KiB, so a route gets its own at its first request.
    sites: Box<[Box<[LazyCounters]>]>,
    /// Whether requests belong to traces.
    is_traced: bool,
    /// Connections of clients that it has accepted.
    pub accepted: Counter,
    /// Those of them that it has turned away.
    pub refused: Counter,
    /// What it has counted of HTTP/2.
    pub http2: MultiplexCounters,
    /// What it has counted of HTTP/3.
    pub http3: MultiplexCounters,
    /// What it has counted of WebSockets.
    pub websockets: WebSocketCounters,
    /// The slowest requests of late.
    pub slowest: Slowest,
    /// The last requests that were answered with an error.
    pub last_errors: LastErrors,
}

/// What one event loop has counted of a route. On lines of memory of its own, because another
/// loop's counters may lie beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RouteCounters {
    /// By the class of the status, as [`STATUSES`].
    requests: [Counter; STATUSES.len()],
    received: Counter,
    sent: Counter,
    duration: Histogram,
    /// Of the durations; present if requests belong to traces.
    exemplars: Option<Box<Exemplars>>,
    phases: [Histogram; Phase::ALL.len()],
    calls: [Counter; CallKind::ALL.len()],
    call_times: [Histogram; CallKind::ALL.len()],
}

/// What all event loops have counted of a route.
#[derive(Debug, Default)]
pub struct RouteCounts {
    /// Requests by the class of their status, as [`STATUSES`].
    pub requests: [u64; STATUSES.len()],
    /// Bytes that came.
    pub received: u64,
    /// Bytes of bodies.
    pub sent: u64,
    /// From begin to end.
    pub duration: Reading,
    /// Of each phase.
    pub phases: [Reading; Phase::ALL.len()],
    /// Calls of each kind.
    pub calls: [u64; CallKind::ALL.len()],
    /// Time of a request's calls, for each kind.
    pub call_times: [Reading; CallKind::ALL.len()],
}

impl LoopCounters {
    /// For sites with this many routes. `is_traced`: whether requests belong to traces.
    pub fn new(sites: impl Iterator<Item = usize>, is_traced: bool) -> LoopCounters {
        let site = |routes| (0..=routes).map(|_| OnceLock::new()).collect();
        let (accepted, refused) = (Counter::default(), Counter::default());
        let sites = sites.map(site).collect();
        let (http2, http3) = (MultiplexCounters::default(), MultiplexCounters::default());
        let slowest = Slowest::default();
        let last_errors = LastErrors::default();
        let websockets = WebSocketCounters::default();
        LoopCounters {
            sites,
            is_traced,
            accepted,
            refused,
            http2,
            http3,
            websockets,
            slowest,
            last_errors,
        }
    }

    fn route(&self, site: usize, route: Option<usize>) -> &LazyCounters {
        &self.sites[site][route.map_or(0, |route| route + 1)]
    }

    /// The counters of a route that has a request.
    fn used(&self, site: usize, route: Option<usize>) -> &RouteCounters {
        self.route(site, route).get_or_init(|| {
            let exemplars = self.is_traced.then(Box::default);
            Box::new(RouteCounters { exemplars, ..RouteCounters::default() })
        })
    }

    /// Adds what was counted of a route of a site; `None`: of requests that belong to none.
    pub fn read(&self, site: usize, route: Option<usize>, counts: &mut RouteCounts) {
        let Some(counted) = self.route(site, route).get() else { return };
        let RouteCounters {
            requests,
            received,
            sent,
            duration,
            exemplars,
            phases,
            calls,
            call_times,
        } = &**counted;
        counts.requests.iter_mut().zip(requests).for_each(|(sum, one)| *sum += one.get());
        counts.received += received.get();
        counts.sent += sent.get();
        duration.read(&mut counts.duration);
        if let Some(exemplars) = exemplars {
            exemplars.read(&mut counts.duration.exemplars);
        }
        phases.iter().zip(&mut counts.phases).for_each(|(phase, sum)| phase.read(sum));
        counts.calls.iter_mut().zip(calls).for_each(|(sum, one)| *sum += one.get());
        call_times.iter().zip(&mut counts.call_times).for_each(|(time, sum)| time.read(sum));
    }
}

impl RouteCounters {
    fn count_calls(&self, calls: &Calls) {
        for (nth, sum) in calls.sums.iter().enumerate().filter(|(_, sum)| sum.count > 0) {
            self.calls[nth].add(sum.count.into());
            self.call_times[nth].observe(sum.nanos);
        }
    }
}

/// A request that is to be counted when it is over.
pub struct Counted {
    counters: Arc<LoopCounters>,
    site: usize,
    route: Option<usize>,
    target: Option<PathAndQuery>,
    /// Its place in a recorded trace.
    trace: Option<TraceContext>,
    /// The status of the response; 0: there is none yet.
    pub status: u16,
}

impl Counted {
    /// Of this site and this route of it, for this target, and in this place of a trace.
    pub fn new(
        counters: &Arc<LoopCounters>,
        site: usize,
        route: Option<usize>,
        target: Option<&PathAndQuery>,
        trace: Option<TraceContext>,
    ) -> Counted {
        let (target, trace) = (target.cloned(), trace.filter(TraceContext::is_sampled));
        Counted { counters: counters.clone(), site, route, target, trace, status: 0 }
    }

    /// The request is over; `received` bytes came, and `sent` bytes of its body went out.
    pub fn count(&self, received: u64, sent: u64, ledger: &Ledger) {
        // The lists come before the counters: the dashboard reads both, and who sees that a request
        // is counted expects its URL among the slowest.
        let path = || self.target.as_ref().map_or("", PathAndQuery::path);
        self.counters.last_errors.note(self.site, path, self.status, ledger);
        self.counters.slowest.note(self.site, path, self.status, ledger);
        let route = self.counters.used(self.site, self.route);
        // PHP cannot set any other status: HTTP has three digits.
        let class = usize::from(self.status / 100).min(STATUSES.len() - 1);
        route.requests[class].add(1);
        route.received.add(received);
        route.sent.add(sent);
        route.duration.observe(ledger.total());
        if let (Some(TraceContext { trace, span, .. }), Some(exemplars)) =
            (self.trace, &route.exemplars)
        {
            exemplars.keep(Exemplar {
                trace: u128::from_be_bytes(*trace.bytes()),
                span: u64::from_be_bytes(*span.bytes()),
                nanoseconds: ledger.total(),
                at: ledger.start() + ledger.total(),
            });
        }
        for (phase, histogram) in Phase::ALL.iter().zip(&route.phases) {
            match ledger.spent(*phase) {
                0 => {}
                spent => histogram.observe(spent),
            }
        }
        if let Some(calls) = ledger.calls() {
            route.count_calls(calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokamak_cost::CallSum;

    use super::*;

    #[test]
    fn loops_add_up_to_what_the_ledgers_say() {
        let new = || Arc::new(LoopCounters::new([0, 1].into_iter(), false));
        let loops = [new(), new()];
        let mut total = 0;
        for (nth, status) in [200, 204, 404, 500, 999, 0].into_iter().enumerate() {
            let mut ledger = Ledger::begin(1000);
            ledger.stamp(Phase::Head, 3000);
            ledger.stamp(Phase::Send, 1000 + 1_000_000 * nth as u64);
            total += ledger.total();
            if nth < 2 {
                let sums = [CallSum { count: 3, nanos: 5 }, CallSum::default()];
                ledger.add_calls(&Calls { sums });
            }
            let counted =
                Counted { status, ..Counted::new(&loops[nth % 2], 1, Some(0), None, None) };
            counted.count(70, 10, &ledger);
        }
        let mut counts = RouteCounts::default();
        loops.iter().for_each(|counters| counters.read(1, Some(0), &mut counts));
        assert_eq!(counts.requests, [1, 0, 2, 0, 1, 2]);
        assert_eq!((counts.received, counts.sent), (420, 60));
        assert_eq!((counts.duration.count(), counts.duration.sum), (6, total));
        assert_eq!(counts.phases[Phase::Head as usize].count(), 6);
        assert_eq!(counts.phases[Phase::Send as usize].count(), 5, "one took no time");
        assert_eq!(counts.phases[Phase::Php as usize], Reading::default());
        assert_eq!((counts.calls, counts.call_times[0].count()), ([6, 0], 2));
        assert_eq!((counts.call_times[0].sum, counts.call_times[1].count()), (10, 0));
        let sum: u64 = counts.phases.iter().map(|phase| phase.sum).sum();
        assert_eq!(sum, total);
        for site in [0, 1] {
            let mut other = RouteCounts::default();
            loops.iter().for_each(|counters| counters.read(site, None, &mut other));
            assert_eq!(other.duration.count(), 0);
        }
    }

    #[test]
    fn a_route_without_requests_takes_no_memory() {
        let counters = Arc::new(LoopCounters::new([2, 0].into_iter(), true));
        let taken = || {
            let sites = counters.sites.iter();
            let used = |site: &[OnceLock<_>]| site.iter().filter(|it| it.get().is_some()).count();
            sites.map(|site| used(site)).collect::<Vec<_>>()
        };
        counters.read(0, Some(0), &mut RouteCounts::default());
        assert_eq!(taken(), [0, 0]);
        Counted::new(&counters, 0, Some(1), None, None).count(0, 0, &Ledger::begin(1));
        assert_eq!(taken(), [1, 0]);
    }
}
