//! The content cache. An application's response is sent again as long as HTTP, the operator and
//! scripts allow it. If several requests miss the same response, one of them asks the application
//! and the others wait for it.
//!
//! ```text
//! Lookup ──┬─ Answer   from the cache; if it is stale, a request of the server's own fetches it
//! anew
//!          ├─ Pass     the caller asks a backend; `ResponseAction::finish` sees the response
//!          └─ Fetch    `Fetch::run` asks in a task of its own, which goes on when the client has left
//! ```

mod fetch;
mod fill;
mod policy;
mod reply;
mod tier;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, HeaderMap, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING,
};
use http::{Method, Request, Response};
use tokamak_cache::{
    Counts, Entry, Freshness, Key, Overrides, Purge, Store, StoreLookup, UrlOrigin,
};
use tokamak_config as config;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::response::compression::accept::is_accepted;
use crate::response::compression::{KeepEncoded, Stored};
use crate::response::{Budget, Source};
use crate::route::hosts::host;

pub use fetch::{Fetch, ResponseAction};
pub use fill::Refresh;
use fill::{FillState, Fills, Joined, Lead};
pub use policy::{CachePolicy, SiteCachePolicies};
use reply::CacheStatus;
use tier::Tier;

/// How long the cache remembers that the response of a key cannot be stored. Ten times less, and
/// the requests of a busy page would wait for each other every second; ten times more, and a page
/// that failed once would stay uncollapsed for more than a minute.
const PASSED: u64 = 10_000_000_000;

/// Bodies on their way into the store may take this fraction (one in …) of the store's memory, in
/// addition to it. With a smaller part a few slow clients would keep pages out of the cache, with a
/// larger one they would take as much memory as the cache itself.
const SHARE_ON_THE_WAY: usize = 4;

thread_local! {
    /// The key under construction.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The stored responses, and those on their way into the store. All event loops share them.
pub struct Content {
    /// The stored responses.
    pub store: Store,
    fills: Fills,
    wait: Duration,
    tier: Option<Arc<Tier>>,
    /// The memory for bodies on their way into the store.
    budget: Arc<Budget>,
}

impl Content {
    /// An empty cache; `None` if no site uses it.
    pub fn new(server: &config::Server) -> Option<Arc<Content>> {
        let wants = |site: &config::Site| {
            site.cache.is_on || site.routes.iter().any(|route| route.cache.is_on)
        };
        server.sites.iter().any(wants).then(|| {
            let config::Cache { memory, largest, wait, .. } = server.cache;
            let sites = server.sites.iter().filter(|site| !site.listen.is_empty());
            let store = Store::new(memory as u64, largest as u64, server.loops)
                .with_sites(sites.map(|site| site.name.clone()).collect());
            let budget = Arc::new(Budget::new((memory / SHARE_ON_THE_WAY).max(largest) as u64));
            let (fills, tier) = (Fills::default(), Tier::new(server));
            Arc::new(Content { store, fills, wait, tier, budget })
        })
    }

    /// Removes what is stored under a key, because a request has changed it.
    fn invalidate(&self, key: &[u8]) {
        // First, or a request could get it back from there in between.
        if let Some(tier) = &self.tier {
            tier.invalidate(key);
        }
        self.forget(key);
    }

    /// Removes responses here and on the nodes that share a second tier. Returns how many were
    /// removed here.
    pub fn purge(&self, what: &Purge) -> u64 {
        if let Some(tier) = &self.tier {
            tier.purge(what);
        }
        self.store.purge(what)
    }

    fn forget(&self, key: &[u8]) {
        self.store.invalidate(key);
        self.fills.outdate(key);
    }

    /// Carries out the purges of other nodes, if they share a second tier. One event loop does it
    /// for all.
    pub fn attend(self: &Arc<Content>) {
        let (content, Some(tier)) = (self.clone(), self.tier.clone()) else { return };
        tokio::spawn(async move {
            tier.follow(|what| match what {
                Purge::Key(key) => {
                    for key in content.store.keys_of(key) {
                        content.forget(&key);
                    }
                }
                what => drop(content.store.purge(what)),
            })
            .await;
        });
    }
}

impl KeepEncoded for Content {
    fn keep_encoded(&self, key: &Key, entry: &Arc<Entry>, coding: &'static str, body: Bytes) {
        self.store.keep_encoded(key, entry, coding, body);
    }
}

/// Gives a response with the whole body of an entry the body's compressed forms, if the client may
/// accept one.
fn stored(
    mut response: Response<Source>,
    request: &HeaderMap,
    content: &Arc<Content>,
    entry: &Arc<Entry>,
    key: impl FnOnce() -> Key,
) -> Response<Source> {
    if is_accepted(request)
        && let Source::Whole(body) = response.body()
        // Not a part of it, and not an error page in its place.
        && (body.as_ptr(), body.len()) == (entry.body.as_ptr(), entry.body.len())
    {
        let (entry, store) = (entry.clone(), content.clone());
        *response.body_mut() = Source::Stored(Box::new(Stored { entry, store, key: key() }));
    }
    response
}

/// Makes the response to a request from a stored entry.
pub fn answer(entry: &Entry, method: &Method, headers: &HeaderMap) -> Response<Source> {
    reply::answer(entry, method, headers, CacheStatus::Hit, tokamak_cost::now())
}

/// The result of a lookup.
pub enum LookupResult {
    /// The response. If there is a refresh, the response is stale, and a subrequest must fetch it
    /// anew.
    Answer(Response<Source>, Option<Refresh>),
    /// A backend answers; the action is applied to its response.
    Pass(ResponseAction),
    /// A backend answers, and the cache may store the response.
    Fetch(Box<Fetch>),
}

/// Looks up the response to a request without a body.
pub struct Lookup<'a> {
    /// The cache.
    pub content: &'a Arc<Content>,
    /// The index of the event loop, which has counters of its own.
    pub loop_index: usize,
    /// Which responses are stored, and for how long.
    pub policy: &'a Arc<CachePolicy>,
    /// The request.
    pub request: &'a Request<()>,
    /// The overrides of scripts for the cache.
    pub overrides: &'a Overrides,
    /// The scheme of its URL.
    pub scheme: &'static str,
    /// The name of the site, if it has the URL only on some listening sockets.
    pub site: Option<&'a str>,
    /// Whether the client has shown a certificate.
    pub has_certificate: bool,
    /// Set if the request is a subrequest that refreshes a stale entry.
    pub refresh: Option<&'a Refresh>,
}

impl Lookup<'_> {
    /// Looks up the response. Waits if another request is fetching it.
    ///
    /// # Errors
    /// Fails if the response is not stored and the client accepts nothing else (`only-if-cached`).
    pub async fn run(&self) -> Result<LookupResult, Failure> {
        let (headers, method) = (self.request.headers(), self.request.method());
        if self.overrides.bypass {
            return Ok(self.bypass());
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let changes = !matches!(*method, Method::OPTIONS | Method::TRACE);
            return Ok(if changes {
                LookupResult::Pass(ResponseAction::change(self.content, self.key()))
            } else {
                self.bypass()
            });
        }
        let facts = tokamak_cache::Request::of(headers, self.has_certificate, &self.policy.rules);
        let has_body = headers.contains_key(TRANSFER_ENCODING)
            || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
        let Some(facts) = facts.filter(|facts| !has_body && !facts.forbids_storing()) else {
            return Ok(self.bypass());
        };
        // These conditions must be checked against the application's current state.
        if headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE) {
            return Ok(self.bypass());
        }
        match self.refresh {
            Some(refresh) => Ok(self.fetch_anew(refresh, facts)),
            None => self.find_or_wait(facts).await,
        }
    }

    /// Fetches anew what another request has found stale.
    fn fetch_anew(&self, refresh: &Refresh, facts: tokamak_cache::Request) -> LookupResult {
        let lead = refresh.take().filter(|lead| lead.key() == &self.key());
        let Some(lead) = lead else { return self.bypass() };
        let stale = match self.find(&facts, tokamak_cost::now()) {
            StoreLookup::Hit(entry) => Some(entry),
            StoreLookup::Miss | StoreLookup::HitForMiss => None,
        };
        self.fetch(facts, stale, Some(lead))
    }

    async fn find_or_wait(&self, facts: tokamak_cache::Request) -> Result<LookupResult, Failure> {
        let (headers, method) = (self.request.headers(), self.request.method());
        let mut has_waited = false;
        loop {
            let now = tokamak_cost::now();
            let (stale, is_passed) = match self.find(&facts, now) {
                StoreLookup::Hit(entry) => {
                    let freshness = match &facts.said {
                        _ if self.is_outdated(&entry) => Freshness::Stale,
                        Some(said) => entry.freshness_for(said, now),
                        None => entry.freshness(now),
                    };
                    match freshness {
                        Freshness::Fresh => return Ok(self.hit(&entry, None, now)),
                        Freshness::Revalidate => {
                            let refresh = self.begin_refresh(&facts);
                            return Ok(self.hit(&entry, refresh, now));
                        }
                        Freshness::Stale => (Some(entry), false),
                    }
                }
                StoreLookup::Miss => (None, false),
                StoreLookup::HitForMiss => (None, true),
            };
            if facts.said.is_some_and(|said| said.only_if_cached) {
                return Err(Failure::NotCached);
            }
            // For other requests the application may send something else than a whole response.
            let is_whole = *method == Method::GET && !headers.contains_key(RANGE);
            if !is_whole || is_passed {
                self.count(|counts| &counts.misses);
                return Ok(LookupResult::Pass(ResponseAction::miss(self, facts, is_whole)));
            }
            let waits =
                !has_waited && !stale.as_ref().is_some_and(|entry| entry.is_always_checked());
            let joined =
                if waits { self.content.fills.join(self.key(), &facts) } else { Joined::Alone };
            match joined {
                Joined::Alone => return Ok(self.fetch(facts, stale, None)),
                // Another event loop may have stored it since the lookup. Then look again instead
                // of leading.
                Joined::Lead(_) if self.has_other_entry(&facts, stale.as_ref(), now) => {}
                Joined::Lead(lead) => {
                    let Some(entry) = self.shared(&facts).await else {
                        return Ok(self.fetch(facts, stale, Some(lead)));
                    };
                    self.count(|counts| &counts.hits);
                    lead.complete(entry.clone());
                    return Ok(self.answer(&entry, CacheStatus::Shared, tokamak_cost::now()));
                }
                Joined::Wait(mut fill) => {
                    has_waited = true;
                    let state = timeout(self.content.wait, fill.ended()).await;
                    if let Ok(FillState::Stored(entry)) = state
                        && entry.admits(facts.has_cookies, facts.has_credentials)
                        && entry.selection.fits(headers)
                        && !self.is_outdated(&entry)
                    {
                        self.count(|counts| &counts.coalesced);
                        return Ok(self.answer(
                            &entry,
                            CacheStatus::Collapsed,
                            tokamak_cost::now(),
                        ));
                    }
                }
            }
        }
    }

    /// Looks for the response in the second tier.
    async fn shared(&self, facts: &tokamak_cache::Request) -> Option<Arc<Entry>> {
        let store = &self.content.store;
        let (key, purges) = (self.key(), store.purges());
        let entry = self.content.tier.as_ref()?.find(self.loop_index, &key, self.request.headers());
        let entry = Arc::new(entry.await?);
        let is_wanted = match &facts.said {
            _ if self.is_outdated(&entry) => false,
            Some(said) => entry.freshness_for(said, tokamak_cost::now()) == Freshness::Fresh,
            None => true,
        };
        let counts = is_wanted && entry.admits(facts.has_cookies, facts.has_credentials);
        (counts && store.put(&key, entry.clone(), purges)).then_some(entry)
    }

    fn with_key<T>(&self, then: impl FnOnce(&[u8]) -> T) -> T {
        if let Some(key) = &self.overrides.key {
            return then(key);
        }
        KEY.with_borrow_mut(|key| {
            let host = host(self.request).unwrap_or_default();
            let origin = UrlOrigin { scheme: self.scheme, host, site: self.site };
            Key::write(key, origin, self.request.uri(), &self.policy.ignored_query);
            then(key)
        })
    }

    fn key(&self) -> Key {
        self.with_key(Key::of)
    }

    fn find(&self, facts: &tokamak_cache::Request, now: u64) -> StoreLookup {
        self.with_key(|key| self.content.store.find(key, facts, self.request.headers(), now))
    }

    /// Whether a script says that the data behind the response has changed since it was asked for.
    fn is_outdated(&self, entry: &Entry) -> bool {
        self.overrides.since.is_some_and(|since| entry.is_older(since))
    }

    /// Whether the store has another entry than `known` by now.
    fn has_other_entry(
        &self,
        facts: &tokamak_cache::Request,
        known: Option<&Arc<Entry>>,
        now: u64,
    ) -> bool {
        match self.find(facts, now) {
            StoreLookup::Hit(entry) => !known.is_some_and(|known| Arc::ptr_eq(known, &entry)),
            StoreLookup::Miss | StoreLookup::HitForMiss => false,
        }
    }

    fn count(&self, counter: fn(&Counts) -> &AtomicU64) {
        Counts::count(counter(self.content.store.counts(self.loop_index)));
    }

    fn hit(&self, entry: &Arc<Entry>, refresh: Option<Refresh>, now: u64) -> LookupResult {
        let is_fresh = entry.ttl(now) >= 0;
        self.count(if is_fresh { |counts| &counts.hits } else { |counts| &counts.stale });
        LookupResult::Answer(self.response(entry, CacheStatus::Hit, now), refresh)
    }

    fn answer(&self, entry: &Arc<Entry>, how: CacheStatus, now: u64) -> LookupResult {
        LookupResult::Answer(self.response(entry, how, now), None)
    }

    fn response(&self, entry: &Arc<Entry>, how: CacheStatus, now: u64) -> Response<Source> {
        let headers = self.request.headers();
        let response = reply::answer(entry, self.request.method(), headers, how, now);
        stored(response, headers, self.content, entry, || self.key())
    }

    fn bypass(&self) -> LookupResult {
        self.count(|counts| &counts.bypassed);
        LookupResult::Pass(ResponseAction::bypass())
    }

    fn fetch(
        &self,
        facts: tokamak_cache::Request,
        stale: Option<Arc<Entry>>,
        lead: Option<Lead>,
    ) -> LookupResult {
        self.count(|counts| &counts.misses);
        LookupResult::Fetch(Box::new(Fetch::new(self, facts, stale, lead)))
    }

    /// Begins the refresh of a stale response; `None` if one is running already.
    fn begin_refresh(&self, facts: &tokamak_cache::Request) -> Option<Refresh> {
        match self.content.fills.join(self.key(), facts) {
            Joined::Lead(lead) => Some(Refresh::new(lead)),
            Joined::Wait(_) | Joined::Alone => None,
        }
    }
}

/// Header fields by which a client asks for less than the whole response.
const CONDITIONS: [http::HeaderName; 4] =
    [http::header::IF_NONE_MATCH, http::header::IF_MODIFIED_SINCE, http::header::IF_RANGE, RANGE];

/// The header fields of a request, changed to ask for the whole response.
pub fn unconditional(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in CONDITIONS {
        headers.remove(name);
    }
    headers
}

/// Restores the original conditions of a request.
pub fn restore(headers: &mut HeaderMap, original: &HeaderMap) {
    for name in CONDITIONS {
        headers.remove(&name);
        for value in original.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
}
