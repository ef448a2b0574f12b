//! Decides what becomes of a backend's response in the cache.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokamak_cache::{Counts, Entry, Key, Overrides, Received, Selection, storable};
use tokamak_cost::Ledger;
use tokio::sync::oneshot;

use super::fill::Lead;
use super::reply::{self, CacheStatus};
use super::tier::Ticket;
use super::{CachePolicy, Content, Lookup, PASSED, stored, unconditional};
use crate::failure::{Failure, Side};
use crate::response::{Source, TeeWriter, tee};

/// The result of a request that scripts and applications have handled. `None`: a script restarts
/// the request.
pub type Outcome = Option<Result<Response<Source>, Failure>>;

/// Header fields by which applications tag their responses, each with the separator of its tags.
const TAGS: [(HeaderName, &[u8]); 3] = [
    (HeaderName::from_static("cache-tag"), b", "),
    (HeaderName::from_static("surrogate-key"), b" "),
    (HeaderName::from_static("xkey"), b", "),
];

/// Fields that are for one client (RFC 9111 section 3.1). The connection's fields have been removed
/// before, except a `close` that a script has set.
const NOT_KEPT: [HeaderName; 5] = [
    header::CONNECTION,
    header::SET_COOKIE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
];

/// Removes the tags from a response and returns them.
fn tags(headers: &mut HeaderMap) -> Vec<Box<str>> {
    let mut tags = Vec::new();
    for (name, dividers) in TAGS {
        if !headers.contains_key(&name) {
            continue;
        }
        for value in headers.get_all(&name) {
            let words = value.as_bytes().split(|byte| dividers.contains(byte));
            let words =
                words.filter(|word| !word.is_empty()).filter_map(|word| str::from_utf8(word).ok());
            tags.extend(words.map(Box::from));
        }
        headers.remove(name);
    }
    tags
}

/// Stores the response to a request that the cache could not answer: what was known when the
/// request missed.
struct MissContext {
    content: Arc<Content>,
    policy: Arc<CachePolicy>,
    key: Key,
    overrides: Overrides,
    facts: tokamak_cache::Request,
    /// The request's header fields, by which the response will be found again.
    headers: HeaderMap,
    /// The number of purges so far when the request missed.
    purges: u64,
    /// When the response was asked for.
    asked: u64,
    /// How far the second tier's stream of purges had been read.
    ticket: Ticket,
    index: usize,
}

impl MissContext {
    fn new(lookup: &Lookup<'_>, facts: tokamak_cache::Request) -> MissContext {
        MissContext {
            content: lookup.content.clone(),
            policy: lookup.policy.clone(),
            key: lookup.key(),
            overrides: lookup.overrides.clone(),
            facts,
            headers: lookup.request.headers().clone(),
            purges: lookup.content.store.purges(),
            asked: tokamak_cost::now(),
            ticket: lookup.content.tier.as_ref().and_then(|tier| tier.ticket()),
            index: lookup.loop_index,
        }
    }

    fn counts(&self) -> &Counts {
        self.content.store.counts(self.index)
    }

    /// A response that was received just now.
    fn received<'r>(&self, status: StatusCode, headers: &'r HeaderMap) -> Received<'r> {
        let delay = Duration::from_nanos(tokamak_cost::now().saturating_sub(self.asked));
        Received { status, headers, at: SystemTime::now(), delay }
    }

    /// Plans the cache entry that the response becomes once its body is there. `None`: it may not
    /// be stored.
    fn plan(&self, response: &Response<Source>, tags: Vec<Box<str>>) -> Option<NewEntry> {
        let (status, headers) = (response.status(), response.headers());
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > self.content.store.largest()) {
            return None;
        }
        // Files are not stored: the kernel's page cache holds them already.
        if matches!(response.body(), Source::Files(_) | Source::Series(_)) {
            return None;
        }
        let received = self.received(status, headers);
        let lifetimes = storable(&self.policy.rules, &self.overrides, &self.facts, received)?;
        let selection = Selection::of(&self.headers, headers)?;
        let mut headers = headers.clone();
        NOT_KEPT.iter().for_each(|name| drop(headers.remove(name)));
        // `Age` is computed whenever the response is sent.
        headers.remove(header::AGE);
        // A recipient that forwards a response adds `Date` if it is missing (RFC 9110 section
        // 6.6.1).
        headers.entry(header::DATE).or_insert_with(date);
        let tags = tags.into_iter().chain(self.overrides.tags.iter().cloned()).collect();
        Some(NewEntry { status, headers, selection, tags, lifetimes, asked: self.asked })
    }

    /// Stores an entry. Returns whether it was stored.
    fn put(&self, entry: &Arc<Entry>, lead: Option<&Lead>) -> bool {
        let is_current = lead.is_none_or(|lead| !lead.is_outdated());
        let is_stored = is_current && self.content.store.put(&self.key, entry.clone(), self.purges);
        if is_stored {
            Counts::count(&self.counts().stored);
            if let Some(tier) = &self.content.tier {
                tier.keep(self.index, &self.key, entry, self.ticket);
            }
        }
        is_stored
    }

    /// Remembers that the response cannot be stored, so that other requests do not wait for it.
    fn pass(&self) {
        self.content.store.mark_hit_for_miss(&self.key, &self.facts, tokamak_cost::now() + PASSED);
    }
}

fn date() -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))
        .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

/// An entry without its body.
struct NewEntry {
    status: StatusCode,
    headers: HeaderMap,
    selection: Selection,
    tags: Vec<Box<str>>,
    lifetimes: tokamak_cache::Lifetimes,
    asked: u64,
}

impl NewEntry {
    fn entry(self, body: bytes::Bytes) -> Arc<Entry> {
        let NewEntry { status, headers, selection, tags, lifetimes, asked } = self;
        let now = tokamak_cost::now();
        Arc::new(
            Entry::new((status, headers, body), selection, tags, lifetimes, now)
                .requested_at(asked),
        )
    }
}

/// What the cache does with the response to a request that it does not handle itself.
pub struct ResponseAction(Kind);

enum Kind {
    /// There is no cache.
    None,
    /// Marks the response as a bypass of the cache.
    Bypass,
    /// Removes the entry that the request has changed.
    Change(Arc<Content>, Key),
    /// Stores the response if its whole body is in memory already.
    Miss(Box<MissContext>, bool),
}

impl ResponseAction {
    /// No cache is configured: nothing is done.
    pub fn none() -> ResponseAction {
        ResponseAction(Kind::None)
    }

    pub(super) fn bypass() -> ResponseAction {
        ResponseAction(Kind::Bypass)
    }

    pub(super) fn change(content: &Arc<Content>, key: Key) -> ResponseAction {
        ResponseAction(Kind::Change(content.clone(), key))
    }

    pub(super) fn miss(
        lookup: &Lookup<'_>,
        facts: tokamak_cache::Request,
        is_whole: bool,
    ) -> ResponseAction {
        ResponseAction(Kind::Miss(Box::new(MissContext::new(lookup, facts)), is_whole))
    }

    /// Whether the response may be stored.
    pub fn may_keep(&self) -> bool {
        matches!(self.0, Kind::Miss(_, true))
    }

    /// Replaces the overrides of scripts, which may change when they have seen the response.
    pub fn overrides(&mut self, overrides: &Overrides) {
        if let Kind::Miss(miss, _) = &mut self.0 {
            miss.overrides = overrides.clone();
        }
    }

    /// Applies the action to the response.
    pub fn finish(self, mut response: Response<Source>) -> Response<Source> {
        if matches!(self.0, Kind::None) {
            return response;
        }
        let tags = tags(response.headers_mut());
        let how = match self.0 {
            Kind::None | Kind::Bypass => CacheStatus::Bypass,
            Kind::Change(content, key) => {
                if response.status().is_success() || response.status().is_redirection() {
                    content.invalidate(key.bytes());
                }
                CacheStatus::Bypass
            }
            Kind::Miss(miss, is_whole) => {
                let plan = if is_whole { miss.plan(&response, tags) } else { None };
                CacheStatus::Miss {
                    is_stored: plan.is_some_and(|plan| miss.keep(plan, response.body())),
                }
            }
        };
        reply::mark(response.headers_mut(), how, None);
        response
    }
}

impl MissContext {
    /// Stores a response whose body is in memory.
    fn keep(&self, plan: NewEntry, body: &Source) -> bool {
        let body = match body {
            Source::Whole(bytes) => bytes.clone(),
            Source::Empty => bytes::Bytes::new(),
            _ => return false,
        };
        self.put(&plan.entry(body), None)
    }
}

/// A request that a backend answers, both for the cache and for the client.
pub struct Fetch {
    miss: MissContext,
    method: Method,
    /// The stale entry, which must be revalidated.
    stale: Option<Arc<Entry>>,
    /// Set if other requests wait for this response.
    lead: Option<Lead>,
}

/// What the waiting request gets.
enum FetchResult {
    /// A response that is not stored, or not yet.
    Response(Response<Source>),
    /// An entry of the cache, sent as a response.
    Entry(Arc<Entry>, CacheStatus),
    /// The request failed.
    Failure(Failure),
    /// The request is restarted.
    Restart,
}

impl Fetch {
    pub(super) fn new(
        lookup: &Lookup<'_>,
        facts: tokamak_cache::Request,
        stale: Option<Arc<Entry>>,
        lead: Option<Lead>,
    ) -> Fetch {
        Fetch {
            miss: MissContext::new(lookup, facts),
            method: lookup.request.method().clone(),
            stale,
            lead,
        }
    }

    /// The request for the backend: for the whole response or, if there is a stale entry, for its
    /// revalidation.
    pub fn request(&self, request: &Request<()>) -> Request<()> {
        let mut other = Request::new(());
        *other.method_mut() = request.method().clone();
        *other.uri_mut() = request.uri().clone();
        *other.version_mut() = request.version();
        *other.headers_mut() = self.headers();
        // Its name and its trace, for the error log.
        *other.extensions_mut() = request.extensions().clone();
        other
    }

    /// The header fields of that request.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = unconditional(&self.miss.headers);
        headers.extend(self.stale.iter().flat_map(|stale| stale.validators()));
        headers
    }

    /// Asks the backend in a task of its own, because other requests may wait for the response when
    /// the client has left. `ask` also returns the new overrides of scripts, if any.
    pub async fn run<T: Send + 'static>(
        mut self,
        ledger: &mut Ledger,
        ask: impl Future<Output = (Outcome, Ledger, Option<Overrides>, T)> + Send + 'static,
    ) -> (Outcome, T) {
        let (method, headers) = (self.method.clone(), self.miss.headers.clone());
        let (content, key) = (self.miss.content.clone(), self.miss.key.clone());
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let (outcome, mut ledger, overrides, rest) = ask.await;
            self.miss.overrides = overrides.unwrap_or(self.miss.overrides);
            let (got, growing) = self.receive(outcome);
            // The client may have left.
            let _ = sender.send((got, ledger.clone(), rest));
            if let Some(growing) = growing {
                growing.finish(&mut ledger).await;
            }
        });
        // A panic ends the connection, as everywhere. It has been logged.
        let Ok((got, booked, rest)) = receiver.await else {
            panic!("asking for the cache has panicked")
        };
        *ledger = booked;
        let outcome = match got {
            FetchResult::Response(response) => Some(Ok(response)),
            FetchResult::Entry(entry, how) => {
                let now = tokamak_cost::now();
                let response = reply::answer(&entry, &method, &headers, how, now);
                Some(Ok(stored(response, &headers, &content, &entry, || key)))
            }
            FetchResult::Failure(failure) => Some(Err(failure)),
            FetchResult::Restart => None,
        };
        (outcome, rest)
    }

    /// Handles the backend's answer. If the body is still coming, the caller must run
    /// [`Unfinished::finish`].
    fn receive(self, outcome: Outcome) -> (FetchResult, Option<Unfinished>) {
        let now = tokamak_cost::now();
        let stale = self.stale.clone();
        let rescue = stale.as_ref().filter(|stale| stale.serves_errors(now));
        let mut response = match outcome {
            None => return (FetchResult::Restart, None),
            Some(Ok(response)) if !is_failure(response.status()) => response,
            Some(answer) => {
                let is_ours = matches!(&answer, Err(failure) if failure.side() == Side::Client);
                return match (rescue, answer) {
                    (Some(stale), _) if !is_ours => {
                        Counts::count(&self.miss.counts().stale);
                        if let Some(lead) = self.lead {
                            lead.complete(stale.clone());
                        }
                        (FetchResult::Entry(stale.clone(), CacheStatus::Error), None)
                    }
                    (_, Err(failure)) => (FetchResult::Failure(failure), None),
                    (_, Ok(response)) => self.store(response),
                };
            }
        };
        if let Some(stale) = &stale
            && response.status() == StatusCode::NOT_MODIFIED
        {
            return (self.freshen(stale, &mut response), None);
        }
        self.store(response)
    }

    /// Updates the stale entry: the backend has answered 304.
    fn freshen(self, stale: &Arc<Entry>, response: &mut Response<Source>) -> FetchResult {
        tags(response.headers_mut());
        let Fetch { miss, lead, .. } = self;
        Counts::count(&miss.counts().revalidated);
        let now = tokamak_cost::now();
        let mut said =
            stale.freshened(response.headers(), tokamak_cache::Lifetimes::default(), now).headers;
        // Only the `Date` and `Age` of the new answer count, not those of the stored one.
        if !response.headers().contains_key(header::DATE) {
            said.insert(header::DATE, date());
        }
        said.extend(response.headers().get(header::AGE).map(|age| (header::AGE, age.clone())));
        let received = miss.received(stale.status, &said);
        let lifetimes = storable(&miss.policy.rules, &miss.overrides, &miss.facts, received);
        NOT_KEPT.iter().for_each(|name| drop(said.remove(name)));
        let entry = lifetimes.map(|lifetimes| {
            Arc::new(stale.freshened(&said, lifetimes, now).requested_at(miss.asked))
        });
        let is_stored = entry.as_ref().is_some_and(|entry| miss.put(entry, lead.as_ref()));
        let entry = entry.unwrap_or_else(|| stale.clone());
        if let Some(lead) = lead.filter(|_| is_stored) {
            lead.complete(entry.clone());
        }
        FetchResult::Entry(entry, CacheStatus::Stale { status: 304, is_stored })
    }

    /// Stores a new response.
    fn store(self, mut response: Response<Source>) -> (FetchResult, Option<Unfinished>) {
        let Fetch { miss, stale, lead, .. } = self;
        let how = |is_stored| match (&stale, response.status().as_u16()) {
            (Some(_), status) => CacheStatus::Stale { status, is_stored },
            (None, _) => CacheStatus::Miss { is_stored },
        };
        let (kept, lost) = (how(true), how(false));
        let tags = tags(response.headers_mut());
        let Some(plan) = miss.plan(&response, tags) else {
            miss.pass();
            reply::mark(response.headers_mut(), lost, None);
            return (FetchResult::Response(response), None);
        };
        match std::mem::replace(response.body_mut(), Source::Empty) {
            body @ (Source::Whole(_) | Source::Empty) => {
                let entry = plan.entry(match body {
                    Source::Whole(bytes) => bytes,
                    _ => bytes::Bytes::new(),
                });
                let is_stored = miss.put(&entry, lead.as_ref());
                if let Some(lead) = lead.filter(|_| is_stored) {
                    lead.complete(entry.clone());
                }
                (FetchResult::Entry(entry, if is_stored { kept } else { lost }), None)
            }
            source => {
                let (writer, reader) = tee(miss.content.budget.clone());
                // The same headers as from the cache, except those that are not known yet.
                *response.headers_mut() = plan.headers.clone();
                if plan.lifetimes.is_aged {
                    response
                        .headers_mut()
                        .insert(header::AGE, HeaderValue::from(plan.lifetimes.age));
                }
                reply::mark(response.headers_mut(), kept, None);
                *response.body_mut() = Source::Tee(reader);
                (
                    FetchResult::Response(response),
                    Some(Unfinished { miss, lead, plan, source, writer }),
                )
            }
        }
    }
}

fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// A response that is sent while it is read into the cache.
struct Unfinished {
    miss: MissContext,
    lead: Option<Lead>,
    plan: NewEntry,
    source: Source,
    writer: TeeWriter,
}

impl Unfinished {
    async fn finish(self, ledger: &mut Ledger) {
        let Unfinished { miss, lead, plan, source, writer } = self;
        let Some(body) = writer.fill(source, miss.content.store.largest(), ledger).await else {
            return miss.pass();
        };
        let entry = plan.entry(body);
        let is_stored = miss.put(&entry, lead.as_ref());
        if let Some(lead) = lead.filter(|_| is_stored) {
            lead.complete(entry);
        }
    }
}
