//! Responses that come from whoever answers: what becomes of them in the cache.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokamak_cache::{Counts, Entry, Key, Overrides, Selection, judge};
use tokamak_cost::Ledger;
use tokio::sync::oneshot;

use super::fill::Lead;
use super::reply::{self, How};
use super::tier::Ticket;
use super::{CachePolicy, Content, Lookup, PASSED, unconditional};
use crate::failure::{Failure, Side};
use crate::response::{Source, TeeWriter, tee};

/// What comes of a request that goes past scripts and applications: an answer, or nothing because
/// it begins anew.
pub type Outcome = Option<Result<Response<Source>, Failure>>;

/// Header fields by which applications tag their responses, and what divides the tags.
const TAGS: [(HeaderName, &[u8]); 3] = [
    (HeaderName::from_static("cache-tag"), b", "),
    (HeaderName::from_static("surrogate-key"), b" "),
    (HeaderName::from_static("xkey"), b", "),
];

/// Fields that are for one client (RFC 9111 section 3.1). Those of the connection are not here any
/// more, but for a `close` of a script.
const NOT_KEPT: [HeaderName; 5] = [
    header::CONNECTION,
    header::SET_COOKIE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
];

/// Takes the tags out of a response.
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

/// What the cache knows of a request that it has no response for, and does with the response.
struct Shelf {
    content: Arc<Content>,
    policy: Arc<CachePolicy>,
    key: Key,
    overrides: Overrides,
    facts: tokamak_cache::Request,
    /// The request's header fields, by which the response will be found again.
    headers: HeaderMap,
    /// How often something had been purged.
    purges: u64,
    /// When the response was asked for.
    asked: u64,
    /// The same of the second tier.
    ticket: Ticket,
    index: usize,
}

impl Shelf {
    fn new(lookup: &Lookup<'_>, facts: tokamak_cache::Request) -> Shelf {
        Shelf {
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

    /// What time it is, and how long ago the response was asked for.
    fn received(&self) -> (SystemTime, Duration) {
        let delay = Duration::from_nanos(tokamak_cost::now().saturating_sub(self.asked));
        (SystemTime::now(), delay)
    }

    /// What the response becomes in the cache, once its body is there. `None`: it cannot be kept.
    fn plan(&self, response: &Response<Source>, tags: Vec<Box<str>>) -> Option<Plan> {
        let (status, headers) = (response.status(), response.headers());
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > self.content.store.largest()) {
            return None;
        }
        // The file system keeps files itself.
        if matches!(response.body(), Source::Files(_) | Source::Series(_)) {
            return None;
        }
        let lifetimes = judge(
            &self.policy.rules,
            &self.overrides,
            &self.facts,
            (status, headers),
            self.received(),
        )?;
        let selection = Selection::of(&self.headers, headers)?;
        let mut headers = headers.clone();
        NOT_KEPT.iter().for_each(|name| drop(headers.remove(name)));
        // It is worked out anew whenever the response is sent.
        headers.remove(header::AGE);
        // Whoever forwards a response says when it was made (RFC 9110 section 6.6.1).
        headers.entry(header::DATE).or_insert_with(date);
        let tags = tags.into_iter().chain(self.overrides.tags.iter().cloned()).collect();
        Some(Plan { status, headers, selection, tags, lifetimes, asked: self.asked })
    }

    /// Stores an entry; whether it was.
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

    /// Remembers that there is nothing to wait for.
    fn pass(&self) {
        self.content.store.pass(&self.key, &self.facts, tokamak_cost::now() + PASSED);
    }
}

fn date() -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))
        .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

/// An entry without its body.
struct Plan {
    status: StatusCode,
    headers: HeaderMap,
    selection: Selection,
    tags: Vec<Box<str>>,
    lifetimes: tokamak_cache::Lifetimes,
    asked: u64,
}

impl Plan {
    fn entry(self, body: bytes::Bytes) -> Arc<Entry> {
        let Plan { status, headers, selection, tags, lifetimes, asked } = self;
        let now = tokamak_cost::now();
        Arc::new(
            Entry::new((status, headers, body), selection, tags, lifetimes, now).asked_at(asked),
        )
    }
}

/// What the cache does with the response to a request that it lets pass.
pub struct Note(Kind);

enum Kind {
    /// There is no cache.
    None,
    /// Says that the cache had nothing to do with it.
    Bypass,
    /// Forgets what the request has changed.
    Change(Arc<Content>, Key),
    /// Keeps it if that is easy: it is here, and whole.
    Miss(Box<Shelf>, bool),
}

impl Note {
    /// Without a cache.
    pub fn none() -> Note {
        Note(Kind::None)
    }

    pub(super) fn bypass() -> Note {
        Note(Kind::Bypass)
    }

    pub(super) fn change(content: &Arc<Content>, key: Key) -> Note {
        Note(Kind::Change(content.clone(), key))
    }

    pub(super) fn miss(lookup: &Lookup<'_>, facts: tokamak_cache::Request, is_whole: bool) -> Note {
        Note(Kind::Miss(Box::new(Shelf::new(lookup, facts)), is_whole))
    }

    /// Whether the response may be kept.
    pub fn may_keep(&self) -> bool {
        matches!(self.0, Kind::Miss(_, true))
    }

    /// Scripts want something else for what has come.
    pub fn overrides(&mut self, overrides: &Overrides) {
        if let Kind::Miss(shelf, _) = &mut self.0 {
            shelf.overrides = overrides.clone();
        }
    }

    /// Looks at the response.
    pub fn finish(self, mut response: Response<Source>) -> Response<Source> {
        if matches!(self.0, Kind::None) {
            return response;
        }
        let tags = tags(response.headers_mut());
        let how = match self.0 {
            Kind::None | Kind::Bypass => How::Bypass,
            Kind::Change(content, key) => {
                if response.status().is_success() || response.status().is_redirection() {
                    content.invalidate(key.bytes());
                }
                How::Bypass
            }
            Kind::Miss(shelf, is_whole) => {
                let plan = if is_whole { shelf.plan(&response, tags) } else { None };
                How::Miss { is_stored: plan.is_some_and(|plan| shelf.keep(plan, response.body())) }
            }
        };
        reply::mark(response.headers_mut(), how, None);
        response
    }
}

impl Shelf {
    /// Stores a response whose body is at hand.
    fn keep(&self, plan: Plan, body: &Source) -> bool {
        let body = match body {
            Source::Whole(bytes) => bytes.clone(),
            Source::Empty => bytes::Bytes::new(),
            _ => return false,
        };
        self.put(&plan.entry(body), None)
    }
}

/// A request that somebody else answers, for the cache and for its client.
pub struct Fetch {
    shelf: Shelf,
    method: Method,
    /// What there was, but may not be used without asking.
    stale: Option<Arc<Entry>>,
    /// Others wait for it, if it has this.
    lead: Option<Lead>,
}

/// What the one who asked gets.
enum Got {
    /// This response.
    Response(Response<Source>),
    /// One that is stored now.
    Entry(Arc<Entry>, How),
    /// None.
    Failure(Failure),
    /// The request begins anew.
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
            shelf: Shelf::new(lookup, facts),
            method: lookup.request.method().clone(),
            stale,
            lead,
        }
    }

    /// The request to ask with: for all of the response, or for the word that what is here is still
    /// right.
    pub fn request(&self, request: &Request<()>) -> Request<()> {
        let mut other = Request::new(());
        *other.method_mut() = request.method().clone();
        *other.uri_mut() = request.uri().clone();
        *other.version_mut() = request.version();
        *other.headers_mut() = self.headers();
        other
    }

    /// Its header fields.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = unconditional(&self.shelf.headers);
        headers.extend(self.stale.iter().flat_map(|stale| stale.validators()));
        headers
    }

    /// Asks, in a task of its own: others may want the response when the client has left. Scripts
    /// may then want something else for what has come.
    pub async fn run<T: Send + 'static>(
        mut self,
        ledger: &mut Ledger,
        ask: impl Future<Output = (Outcome, Ledger, Option<Overrides>, T)> + Send + 'static,
    ) -> (Outcome, T) {
        let (method, headers) = (self.method.clone(), self.shelf.headers.clone());
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let (outcome, mut ledger, overrides, rest) = ask.await;
            self.shelf.overrides = overrides.unwrap_or(self.shelf.overrides);
            let (got, growing) = self.receive(outcome);
            // The client may have left.
            let _ = tell.send((got, ledger, rest));
            if let Some(growing) = growing {
                growing.finish(&mut ledger).await;
            }
        });
        // As everywhere, a panic ends the connection; the log has it.
        let Ok((got, booked, rest)) = told.await else {
            panic!("asking for the cache has panicked")
        };
        *ledger = booked;
        let outcome = match got {
            Got::Response(response) => Some(Ok(response)),
            Got::Entry(entry, how) => {
                let now = tokamak_cost::now();
                Some(Ok(reply::answer(&entry, &method, &headers, how, now)))
            }
            Got::Failure(failure) => Some(Err(failure)),
            Got::Restart => None,
        };
        (outcome, rest)
    }

    /// Takes in what has come. A body that is still coming is to be finished.
    fn receive(self, outcome: Outcome) -> (Got, Option<Unfinished>) {
        let now = tokamak_cost::now();
        let stale = self.stale.clone();
        let rescue = stale.as_ref().filter(|stale| stale.serves_errors(now));
        let mut response = match outcome {
            None => return (Got::Restart, None),
            Some(Ok(response)) if !is_failure(response.status()) => response,
            Some(answer) => {
                let is_ours = matches!(&answer, Err(failure) if failure.side() == Side::Client);
                return match (rescue, answer) {
                    (Some(stale), _) if !is_ours => {
                        Counts::count(&self.shelf.counts().stale);
                        if let Some(lead) = self.lead {
                            lead.land(stale.clone());
                        }
                        (Got::Entry(stale.clone(), How::Error), None)
                    }
                    (_, Err(failure)) => (Got::Failure(failure), None),
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

    /// What is here is still right.
    fn freshen(self, stale: &Arc<Entry>, response: &mut Response<Source>) -> Got {
        tags(response.headers_mut());
        let Fetch { shelf, lead, .. } = self;
        Counts::count(&shelf.counts().revalidated);
        let now = tokamak_cost::now();
        let mut said =
            stale.freshened(response.headers(), tokamak_cache::Lifetimes::default(), now).headers;
        // Of what it says of its age only what it says now counts.
        if !response.headers().contains_key(header::DATE) {
            said.insert(header::DATE, date());
        }
        said.extend(response.headers().get(header::AGE).map(|age| (header::AGE, age.clone())));
        let answer = (stale.status, &said);
        let lifetimes =
            judge(&shelf.policy.rules, &shelf.overrides, &shelf.facts, answer, shelf.received());
        NOT_KEPT.iter().for_each(|name| drop(said.remove(name)));
        let entry = lifetimes.map(|lifetimes| {
            Arc::new(stale.freshened(&said, lifetimes, now).asked_at(shelf.asked))
        });
        let is_stored = entry.as_ref().is_some_and(|entry| shelf.put(entry, lead.as_ref()));
        let entry = entry.unwrap_or_else(|| stale.clone());
        if let Some(lead) = lead.filter(|_| is_stored) {
            lead.land(entry.clone());
        }
        Got::Entry(entry, How::Stale { status: 304, is_stored })
    }

    /// A new response.
    fn store(self, mut response: Response<Source>) -> (Got, Option<Unfinished>) {
        let Fetch { shelf, stale, lead, .. } = self;
        let how = |is_stored| match (&stale, response.status().as_u16()) {
            (Some(_), status) => How::Stale { status, is_stored },
            (None, _) => How::Miss { is_stored },
        };
        let (kept, lost) = (how(true), how(false));
        let tags = tags(response.headers_mut());
        let Some(plan) = shelf.plan(&response, tags) else {
            shelf.pass();
            reply::mark(response.headers_mut(), lost, None);
            return (Got::Response(response), None);
        };
        match std::mem::replace(response.body_mut(), Source::Empty) {
            body @ (Source::Whole(_) | Source::Empty) => {
                let entry = plan.entry(match body {
                    Source::Whole(bytes) => bytes,
                    _ => bytes::Bytes::new(),
                });
                let is_stored = shelf.put(&entry, lead.as_ref());
                if let Some(lead) = lead.filter(|_| is_stored) {
                    lead.land(entry.clone());
                }
                (Got::Entry(entry, if is_stored { kept } else { lost }), None)
            }
            source => {
                let (writer, reader) = tee(shelf.content.budget.clone());
                // As it will be sent from the cache, but for what is not known yet.
                *response.headers_mut() = plan.headers.clone();
                if plan.lifetimes.is_aged {
                    response
                        .headers_mut()
                        .insert(header::AGE, HeaderValue::from(plan.lifetimes.age));
                }
                reply::mark(response.headers_mut(), kept, None);
                *response.body_mut() = Source::Tee(reader);
                (Got::Response(response), Some(Unfinished { shelf, lead, plan, source, writer }))
            }
        }
    }
}

fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// A response that is sent while it is read into the cache.
struct Unfinished {
    shelf: Shelf,
    lead: Option<Lead>,
    plan: Plan,
    source: Source,
    writer: TeeWriter,
}

impl Unfinished {
    async fn finish(self, ledger: &mut Ledger) {
        let Unfinished { shelf, lead, plan, source, writer } = self;
        let Some(body) = writer.fill(source, shelf.content.store.largest(), ledger).await else {
            return shelf.pass();
        };
        let entry = plan.entry(body);
        let is_stored = shelf.put(&entry, lead.as_ref());
        if let Some(lead) = lead.filter(|_| is_stored) {
            lead.land(entry);
        }
    }
}
