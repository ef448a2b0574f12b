//! The content cache in a request's way: what an application has said is said again, as long as
//! HTTP, the operator and scripts allow it. Of several requests that miss the same response one
//! asks, and the others wait for it.
//!
//! ```text
//! Lookup ──┬─ Answer   from the cache; if it is stale, a request of the server's own fetches it anew
//!          ├─ Pass     the caller goes on by itself; `Note::finish` looks at the response
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

use http::header::{
    CONTENT_LENGTH, HeaderMap, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING,
};
use http::{Method, Request, Response};
use tokamak_cache::{Counts, Entry, Found, Freshness, Key, Overrides, Purge, Store};
use tokamak_config as config;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::response::{Budget, Source};
use crate::route::hosts::host;

pub use fetch::{Fetch, Note};
pub use fill::Refresh;
use fill::{Fills, Joined, Landing, Lead};
pub use policy::{CachePolicy, SiteCachePolicies};
use reply::How;
use tier::Tier;

/// How long it is remembered that what is under a key cannot be kept. Chosen arbitrarily: long
/// enough that a busy page makes nobody wait, short enough that an error page is forgotten soon.
const PASSED: u64 = 10_000_000_000;

/// Bodies on their way into the store may take one part in so many of its memory, beside it. With a
/// smaller part a few slow clients would keep pages out of the cache, with a larger one they would
/// take as much memory as the cache itself.
const SHARE_ON_THE_WAY: usize = 4;

thread_local! {
    /// The key under construction.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The responses that all event loops share, and those that are on their way.
pub struct Content {
    /// The responses.
    pub store: Store,
    fills: Fills,
    wait: Duration,
    tier: Option<Arc<Tier>>,
    /// What bodies on their way into the store may take.
    budget: Arc<Budget>,
}

impl Content {
    /// An empty one; nothing if no site wants it.
    pub fn new(server: &config::Server) -> Option<Arc<Content>> {
        let wants = |site: &config::Site| {
            site.cache.is_on || site.routes.iter().any(|route| route.cache.is_on)
        };
        server.sites.iter().any(wants).then(|| {
            let config::Cache { memory, largest, wait, .. } = server.cache;
            let store = Store::new(memory as u64, largest as u64, server.loops);
            let budget = Arc::new(Budget::new((memory / SHARE_ON_THE_WAY).max(largest) as u64));
            let (fills, tier) = (Fills::default(), Tier::new(server));
            Arc::new(Content { store, fills, wait, tier, budget })
        })
    }

    /// Forgets what is under a key: a request has changed it.
    fn invalidate(&self, key: &[u8]) {
        self.forget(key);
        if let Some(tier) = &self.tier {
            tier.invalidate(key);
        }
    }

    /// Removes responses, here and on the nodes that share a second tier; how many here.
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

    /// Does on this node what the others tell it to, if they share a second tier. One event loop
    /// does it for all.
    pub fn attend(self: &Arc<Content>) {
        let (content, Some(tier)) = (self.clone(), self.tier.clone()) else { return };
        tokio::spawn(async move {
            tier.follow(|what| match what {
                Purge::Key(key) => content.forget(key),
                what => drop(content.store.purge(what)),
            })
            .await;
        });
    }
}

/// The answer that a kept response is to a request.
pub fn answer(entry: &Entry, method: &Method, headers: &HeaderMap) -> Response<Source> {
    reply::answer(entry, method, headers, How::Hit, tokamak_cost::now())
}

/// What is to be done with a request.
pub enum Turn {
    /// This is the answer. It is stale if there is a refresh: then a request of the server's own is
    /// to fetch it anew.
    Answer(Response<Source>, Option<Refresh>),
    /// Another one answers.
    Pass(Note),
    /// Another one answers, and the cache wants to have the response.
    Fetch(Box<Fetch>),
}

/// A look for the response to a request without a body.
pub struct Lookup<'a> {
    /// The cache.
    pub content: &'a Arc<Content>,
    /// The position of the event loop, which counts for itself.
    pub loop_index: usize,
    /// What is kept, and for how long.
    pub policy: &'a Arc<CachePolicy>,
    /// The request.
    pub request: &'a Request<()>,
    /// What scripts want of the cache.
    pub overrides: &'a Overrides,
    /// The request is the server's own, and fetches for the cache.
    pub refresh: Option<&'a Refresh>,
}

impl Lookup<'_> {
    /// Looks for the response, and waits for it if it is on its way.
    ///
    /// # Errors
    /// It is not there, and the client wants it from nowhere else.
    pub async fn turn(&self) -> Result<Turn, Failure> {
        let (headers, method) = (self.request.headers(), self.request.method());
        if self.overrides.bypass {
            return Ok(self.bypass());
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let changes = !matches!(*method, Method::OPTIONS | Method::TRACE);
            return Ok(if changes {
                Turn::Pass(Note::change(self.content, self.key()))
            } else {
                self.bypass()
            });
        }
        let facts = tokamak_cache::Request::of(headers, &self.policy.rules);
        let has_body = headers.contains_key(TRANSFER_ENCODING)
            || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
        let Some(facts) = facts.filter(|facts| !has_body && !facts.forbids_storing()) else {
            return Ok(self.bypass());
        };
        // Checked against what the application has now.
        if headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE) {
            return Ok(self.bypass());
        }
        match self.refresh {
            Some(refresh) => Ok(self.fetch_anew(refresh, facts)),
            None => self.find_or_wait(facts).await,
        }
    }

    /// The request fetches what another one has found stale.
    fn fetch_anew(&self, refresh: &Refresh, facts: tokamak_cache::Request) -> Turn {
        let lead = refresh.take().filter(|lead| lead.key() == &self.key());
        let Some(lead) = lead else { return self.bypass() };
        let stale = match self.find(&facts, tokamak_cost::now()) {
            Found::Entry(entry) => Some(entry),
            Found::Nothing | Found::Passed => None,
        };
        self.fetch(facts, stale, Some(lead))
    }

    async fn find_or_wait(&self, facts: tokamak_cache::Request) -> Result<Turn, Failure> {
        let (headers, method) = (self.request.headers(), self.request.method());
        let mut has_waited = false;
        loop {
            let now = tokamak_cost::now();
            let (stale, is_passed) = match self.find(&facts, now) {
                Found::Entry(entry) => {
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
                Found::Nothing => (None, false),
                Found::Passed => (None, true),
            };
            if facts.said.is_some_and(|said| said.only_if_cached) {
                return Err(Failure::NotCached);
            }
            // Of these the application may have other answers than a whole response.
            let is_whole = *method == Method::GET && !headers.contains_key(RANGE);
            if !is_whole || is_passed {
                self.count(|counts| &counts.misses);
                return Ok(Turn::Pass(Note::miss(self, facts, is_whole)));
            }
            let waits =
                !has_waited && !stale.as_ref().is_some_and(|entry| entry.is_always_checked());
            let joined =
                if waits { self.content.fills.join(self.key(), &facts) } else { Joined::Alone };
            match joined {
                Joined::Alone => return Ok(self.fetch(facts, stale, None)),
                // Another event loop may have stored it since we looked: then we look again, and
                // lead nobody.
                Joined::Lead(_) if self.has_news(&facts, stale.as_ref(), now) => {}
                Joined::Lead(lead) => {
                    let Some(entry) = self.shared(&facts).await else {
                        return Ok(self.fetch(facts, stale, Some(lead)));
                    };
                    self.count(|counts| &counts.hits);
                    lead.land(entry.clone());
                    return Ok(self.answer(&entry, How::Shared, tokamak_cost::now()));
                }
                Joined::Wait(mut fill) => {
                    has_waited = true;
                    let landing = timeout(self.content.wait, fill.landed()).await;
                    if let Ok(Landing::Stored(entry)) = landing
                        && entry.admits(facts.has_cookies, facts.has_credentials)
                        && entry.selection.fits(headers)
                        && !self.is_outdated(&entry)
                    {
                        self.count(|counts| &counts.coalesced);
                        return Ok(self.answer(&entry, How::Collapsed, tokamak_cost::now()));
                    }
                }
            }
        }
    }

    /// What another node has asked for lately.
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
            Key::write(key, host, self.request.uri(), &self.policy.ignored_query);
            then(key)
        })
    }

    fn key(&self) -> Key {
        self.with_key(Key::of)
    }

    fn find(&self, facts: &tokamak_cache::Request, now: u64) -> Found {
        self.with_key(|key| self.content.store.find(key, facts, self.request.headers(), now))
    }

    /// Whether a script knows that something which the response depends on has changed since it was
    /// asked for.
    fn is_outdated(&self, entry: &Entry) -> bool {
        self.overrides.since.is_some_and(|since| entry.is_older(since))
    }

    /// Whether there is something else than this by now.
    fn has_news(
        &self,
        facts: &tokamak_cache::Request,
        known: Option<&Arc<Entry>>,
        now: u64,
    ) -> bool {
        match self.find(facts, now) {
            Found::Entry(entry) => !known.is_some_and(|known| Arc::ptr_eq(known, &entry)),
            Found::Nothing | Found::Passed => false,
        }
    }

    fn count(&self, counter: fn(&Counts) -> &AtomicU64) {
        Counts::count(counter(self.content.store.counts(self.loop_index)));
    }

    fn hit(&self, entry: &Entry, refresh: Option<Refresh>, now: u64) -> Turn {
        let is_fresh = entry.ttl(now) >= 0;
        self.count(if is_fresh { |counts| &counts.hits } else { |counts| &counts.stale });
        Turn::Answer(self.response(entry, How::Hit, now), refresh)
    }

    fn answer(&self, entry: &Entry, how: How, now: u64) -> Turn {
        Turn::Answer(self.response(entry, how, now), None)
    }

    fn response(&self, entry: &Entry, how: How, now: u64) -> Response<Source> {
        reply::answer(entry, self.request.method(), self.request.headers(), how, now)
    }

    fn bypass(&self) -> Turn {
        self.count(|counts| &counts.bypassed);
        Turn::Pass(Note::bypass())
    }

    fn fetch(
        &self,
        facts: tokamak_cache::Request,
        stale: Option<Arc<Entry>>,
        lead: Option<Lead>,
    ) -> Turn {
        self.count(|counts| &counts.misses);
        Turn::Fetch(Box::new(Fetch::new(self, facts, stale, lead)))
    }

    /// What a request of the server's own needs to fetch the response anew; nothing if one is on
    /// its way.
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

/// The header fields of a request for the whole response.
pub fn unconditional(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in CONDITIONS {
        headers.remove(name);
    }
    headers
}

/// Gives a request its own conditions back.
pub fn restore(headers: &mut HeaderMap, original: &HeaderMap) {
    for name in CONDITIONS {
        headers.remove(&name);
        for value in original.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
}
