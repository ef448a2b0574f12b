//! What each client may do: how many requests in a time, and how many at once. It is looked at
//! before anything else of a site, so that a refused request costs as little as possible.

use std::sync::Arc;

use http::Request;
use tokamak_config::{self as config, ClientId, ClientLimits, Rate};

use super::rules::Rules;
use crate::client::Client;
use crate::failure::Failure;
use crate::log;
use crate::route::Router;
use crate::throttle::{ClientKey, LimitKind, Pace, Slot, Throttle};

/// The number of the limits of the whole server; those of rules follow, site after site.
const OF_SERVER: u32 = 0;

/// The limits of one site.
pub struct SiteLimits {
    index: usize,
    name: String,
    limits: Vec<Limit>,
    /// Whether the path has to be known.
    has_rules: bool,
    throttle: Arc<Throttle>,
}

/// One limit: of the server, or of a rule.
struct Limit {
    /// Tells its clients from those of other limits.
    number: u32,
    /// The rule that it stands in; `None`: it holds for all paths.
    rule: Option<config::Rule>,
    given: ClientLimits,
    rate: Option<(Pace, Rate)>,
}

/// A request beyond a limit.
#[derive(Debug)]
pub struct TooMany {
    /// Nanoseconds after which the client may ask again.
    pub wait: u64,
    /// For the log.
    pub reason: String,
}

/// The state of all limits by client, if there are any.
pub fn throttle(server: &config::Server) -> Option<Arc<Throttle>> {
    let mut rules = server.sites.iter().flat_map(|site| &site.rules);
    // The attempts at passwords are limited, too.
    let has_any = !server.limits.client.is_empty()
        || rules.any(|rule| !rule.limits.is_empty() || rule.login.is_some());
    has_any.then(|| Arc::new(Throttle::new(server.sites.len())))
}

impl SiteLimits {
    /// Those of the site with this index; `None` if its clients may do what they like.
    pub fn new(
        index: usize,
        server: &config::Server,
        throttle: &Option<Arc<Throttle>>,
    ) -> Option<SiteLimits> {
        let of_server = Limit::new(OF_SERVER, None, &server.limits.client);
        let rules = server.sites.iter().enumerate();
        let rules =
            rules.flat_map(|(index, site)| site.rules.iter().map(move |rule| (index, rule)));
        let of_rules = rules.zip(OF_SERVER + 1..).filter(|((site, _), _)| *site == index);
        let of_rules =
            of_rules.filter_map(|((_, rule), number)| Limit::new(number, Some(rule), &rule.limits));
        let limits: Vec<Limit> = of_server.into_iter().chain(of_rules).collect();
        let has_rules = limits.iter().any(|limit| limit.rule.is_some());
        let throttle = throttle.clone()?;
        let name = server.sites[index].name.clone();
        (!limits.is_empty()).then_some(SiteLimits { index, name, limits, has_rules, throttle })
    }

    /// Counts a request of a client that has just come, and returns its places among those that are
    /// served at the same time.
    ///
    /// # Errors
    /// The client has exceeded a limit.
    pub fn admit<B>(
        &self,
        client: &dyn Client,
        request: &Request<B>,
        rules: &Rules,
        router: &Router,
        now: u64,
    ) -> Result<Vec<Slot>, TooMany> {
        let paths = self.has_rules.then(|| rules.request_paths(request.uri(), router));
        let holds = |limit: &&Limit| match (&limit.rule, &paths) {
            (Some(rule), Some(paths)) => paths.restricts(rule),
            _ => true,
        };
        let mut slots = Vec::new();
        for limit in self.limits.iter().filter(holds) {
            let key = limit.key(&self.throttle, client, request);
            let exceeded = match self.take(limit, key, now) {
                Ok(slot) => {
                    slots.extend(slot);
                    continue;
                }
                Err(exceeded) => exceeded,
            };
            let too_many = limit.describe(client, &exceeded);
            let (kind, _) = exceeded;
            self.throttle.exceeded.note(self.index, kind, limit.given.dry_run);
            if !limit.given.dry_run {
                return Err(too_many);
            }
            log::limited(&self.name, Failure::TooManyRequests, &too_many.reason, request);
        }
        Ok(slots)
    }

    /// Takes a request into one limit.
    fn take(
        &self,
        limit: &Limit,
        key: ClientKey,
        now: u64,
    ) -> Result<Option<Slot>, (LimitKind, u64)> {
        let slot = match limit.given.connections {
            0 => None,
            most => {
                Some(self.throttle.running.enter(key, most).ok_or((LimitKind::Connections, 0))?)
            }
        };
        if let Some((pace, _)) = &limit.rate {
            let admitted = self.throttle.buckets.admit(key, pace, now);
            admitted.map_err(|wait| (LimitKind::Rate, wait))?;
        }
        Ok(slot)
    }
}

impl Limit {
    fn new(number: u32, rule: Option<&config::Rule>, given: &ClientLimits) -> Option<Limit> {
        let pace = |rate: Rate| Pace::new(rate.requests, rate.per.duration(), given.burst);
        let rate = given.rate.map(|rate| (pace(rate), rate));
        let (rule, given) = (rule.cloned(), given.clone());
        (!given.is_empty()).then_some(Limit { number, rule, given, rate })
    }

    fn key<B>(&self, throttle: &Throttle, client: &dyn Client, request: &Request<B>) -> ClientKey {
        if let ClientId::Header(name) = &self.given.by
            && let Some(value) = request.headers().get(name)
        {
            return throttle.name(self.number, value.as_bytes());
        }
        throttle.address(self.number, client.addresses().peer.ip())
    }

    fn describe(&self, client: &dyn Client, (kind, wait): &(LimitKind, u64)) -> TooMany {
        let who = &client.addresses().text().peer;
        let what = match (kind, &self.rate) {
            (LimitKind::Rate, Some((_, rate))) => {
                format!("more than {rate} requests (burst {})", self.given.burst)
            }
            _ => format!("more than {} requests at the same time", self.given.connections),
        };
        let by = match &self.given.by {
            ClientId::Address => "",
            ClientId::Header(_) => ", counted by a header",
        };
        let reason = format!("limit exceeded: {who} sends {what}{by}");
        TooMany { wait: *wait, reason }
    }
}
