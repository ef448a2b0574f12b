//! Opens the account of a request: what the access log, the counters, a collector of spans and its
//! client get when it is over. A server without any of these keeps none.

use std::sync::Arc;

use http::Request;
use tokamak_cost::{Ledger, Phase};

use super::span::span;
use crate::client::Client;
use crate::context::Context;
use crate::counters::Counted;
use crate::log::{EntryContext, LogEntry};
use crate::response::RequestGuard;
use crate::route::hosts::host;
use crate::site::Site;

/// The times when a request came, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Moments {
    /// When its first byte came.
    pub began: u64,
    /// When its head was complete.
    pub now: u64,
}

/// The guard of a client's request to this site, which has just come. Gives the request its place
/// in a trace, if it is to have one.
pub fn open<B>(
    context: &Context,
    site: &Site,
    client: &Arc<dyn Client>,
    request: &mut Request<B>,
    moments: Moments,
) -> Box<RequestGuard> {
    context.balancer.count_request(context.index);
    let mut guard = if context.records_requests() {
        recorded_guard(context, site, client, request, moments)
    } else {
        RequestGuard::new(Some(client.clone()), Ledger::unread(moments.began))
    };
    guard.edits.changes = site.rules.changes(request.uri(), &site.router, None);
    let route = || site.router.route_of(request.uri());
    guard.edits.choose(&site.edits, request, client.scheme() == "https", route);
    guard.scoreboard = context.scoreboard.note(site.index, &**client, request, moments.began);
    guard
}

/// The guard of a request that is logged, counted, traced or timed for its client.
fn recorded_guard<B>(
    context: &Context,
    site: &Site,
    client: &Arc<dyn Client>,
    request: &mut Request<B>,
    Moments { began, now }: Moments,
) -> Box<RequestGuard> {
    let trace = context.tracer.as_ref().map(|tracer| tracer.take(request));
    let is_exact = context.wants_exact_times();
    let route = if is_exact { site.router.route_of(request.uri()) } else { None };
    let is_timed = context
        .timing
        .as_ref()
        .is_some_and(|timing| timing.is_shown(site.index, route, request.headers()));
    let span = span(context, site, &**client, request);
    let is_read = is_exact || span.is_some();
    let mut ledger = if is_read { Ledger::begin(began) } else { Ledger::unread(began) };
    if span.is_some() {
        ledger.keep_steps();
    }
    ledger.stamp(Phase::Head, now);
    let mut guard = RequestGuard::new(Some(client.clone()), ledger);
    let log = site.access_log.as_ref();
    let log = log.filter(|_| site.rules.is_logged(request.uri(), &site.router));
    guard.entry = log.map(|log| {
        let route = route.map(|route| site.config.routes[route].name());
        let is_named = context.has_several_sites() || log.names_sites();
        let site_name = is_named.then_some(&site.config.name[..]);
        let addresses = client.addresses();
        let (peer, port) = (&addresses.text().peer, addresses.local.port());
        let about = EntryContext {
            peer,
            scheme: client.scheme(),
            port,
            site: site_name,
            host: host(request),
            route,
            trace,
            fields: log.fields(),
        };
        let entry = LogEntry::new(request, &about);
        Box::new((entry, log.clone()))
    });
    guard.span = span;
    guard.edits.is_timed = is_timed;
    guard.counted = context.counters.as_ref().map(|counters| {
        let target = request.uri().path_and_query();
        Counted::new(counters, site.index, route, target, trace)
    });
    guard
}
