//! Where responses are kept: a map that many threads read at once, bounded in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokamak_metrics::CacheFigures;

use crate::entry::Entry;
use crate::key::{Key, url_key};
use crate::rules::Request;

/// Most responses to one URL that differ by `Vary`; one more replaces the oldest. Languages times
/// encodings of a page mostly stay below it; a tenth would evict good responses. Ten times more
/// would let a client that invents header values push ten times as many other pages out.
const MOST_VARIANTS: usize = 32;

/// Smallest bytes that a part of the map has room for, in largest responses: then none of them is
/// too large for its part.
const PART: u64 = 4;

/// Most parts of the map, each with a lock of its own. It should exceed the cores that share the
/// map: with a tenth, event loops would wait for each other; with ten times more, the parts of a
/// small cache could not hold a large response.
const MOST_PARTS: u64 = 64;

/// Bytes of an average response, from which the library sizes its tables. If it is ten times too
/// large or small, the tables are resized or take some memory that is not needed; nothing else
/// depends on it.
const USUAL: u64 = 16 * 1024;

/// What a key takes in the map beside its bytes: the map's own entry, two allocations. Rather too
/// much than too little, so that a client that asks for many pages that cannot be kept gets no more
/// memory than others.
const OVERHEAD: usize = 256;

/// Everything that is kept under one key.
#[derive(Debug, Default)]
struct Resource {
    /// The newest first.
    variants: Vec<Arc<Entry>>,
    /// Until then its responses are taken for such as cannot be kept, in nanoseconds: those to
    /// requests without credentials, and to others.
    miss_until: [u64; 2],
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Arc<Resource>> for Weight {
    fn weight(&self, key: &Key, resource: &Arc<Resource>) -> u64 {
        let variants: usize = resource.variants.iter().map(|variant| variant.cost()).sum();
        (key.bytes().len() + size_of::<Resource>() + OVERHEAD + variants) as u64
    }
}

/// What happened since the start.
#[derive(Debug, Default)]
#[repr(align(128))] // one to a cache line: the event loops count each for itself
pub struct Counts {
    /// Answered from the cache, fresh.
    pub hits: AtomicU64,
    /// Answered from the cache, stale.
    pub stale: AtomicU64,
    /// Answered by an application, and looked for in the cache before.
    pub misses: AtomicU64,
    /// Answered with what another request had been waiting for.
    pub coalesced: AtomicU64,
    /// Still valid, an application said.
    pub revalidated: AtomicU64,
    /// Not looked for at all.
    pub bypassed: AtomicU64,
    /// Responses that were stored.
    pub stored: AtomicU64,
}

impl Counts {
    /// One more.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// What has this key.
    Key(Vec<u8>),
    /// Whose key begins like this.
    Prefix(Vec<u8>),
    /// What has this tag.
    Tag(String),
}

impl Purge {
    /// The page with this address.
    ///
    /// # Errors
    /// Fails with a message if the address is invalid.
    pub fn url(url: &str) -> Result<Purge, String> {
        key_of(url).map(Purge::Key)
    }

    /// Every page whose address begins like this.
    ///
    /// # Errors
    /// As [`Purge::url`].
    pub fn prefix(url: &str) -> Result<Purge, String> {
        key_of(url).map(Purge::Prefix)
    }
}

fn key_of(url: &str) -> Result<Vec<u8>, String> {
    url_key(url).ok_or_else(|| format!("`{url}` has no host; write it as in `example.org/page`"))
}

/// What the store has for a request.
pub enum StoreLookup {
    /// A stored response; it may be stale.
    Hit(Arc<Entry>),
    /// No stored response.
    Miss,
    /// No stored response, and the last one could not be stored: requests need not wait for the
    /// next.
    HitForMiss,
}

/// The responses.
pub struct Store {
    map: Cache<Key, Arc<Resource>, Weight>,
    memory: u64,
    largest: u64,
    /// How often something was purged: what was asked for before is not stored after.
    purges: AtomicU64,
    counts: Box<[Counts]>,
    /// The sites that have URLs only on some listening sockets.
    sites: Vec<String>,
}

impl Store {
    /// A store of `memory` bytes for responses of at most `largest` bytes, that `loops` threads
    /// count in.
    pub fn new(memory: u64, largest: u64, loops: usize) -> Store {
        let parts = (memory / (PART * largest.max(1))).clamp(1, MOST_PARTS);
        let options = OptionsBuilder::new()
            .shards(1 << parts.ilog2())
            .estimated_items_capacity((memory / USUAL).max(MOST_PARTS * 32) as usize)
            .weight_capacity(memory)
            .build()
            .unwrap_or_else(|_| unreachable!("both capacities are there"));
        let map = Cache::with_options(
            options,
            Weight,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        let counts = (0..loops).map(|_| Counts::default()).collect();
        Store { map, memory, largest, purges: AtomicU64::new(0), counts, sites: Vec::new() }
    }

    /// The same for these sites, which have URLs only on some listening sockets.
    pub fn with_sites(self, sites: Vec<String>) -> Store {
        Store { sites, ..self }
    }

    /// The keys under which responses to requests for a URL are kept; `url`: as a purge names it.
    pub fn keys_of(&self, url: &[u8]) -> Vec<Vec<u8>> {
        Key::all(url, &self.sites)
    }

    /// Largest response that is kept.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The counters of one thread.
    pub fn counts(&self, index: usize) -> &Counts {
        &self.counts[index]
    }

    /// How often something was purged, for [`Store::put`].
    pub fn purges(&self) -> u64 {
        self.purges.load(Ordering::Acquire)
    }

    /// Finds the stored response for a request, fresh or not.
    pub fn find(
        &self,
        key: &[u8],
        request: &Request,
        headers: &HeaderMap,
        now: u64,
    ) -> StoreLookup {
        let Some(resource) = self.map.get(key) else { return StoreLookup::Miss };
        let mut fitting = resource.variants.iter().filter(|entry| {
            entry.admits(request.has_cookies, request.has_credentials)
                && entry.selection.fits(headers)
        });
        match fitting.next() {
            Some(entry) => StoreLookup::Hit(entry.clone()),
            None if now < resource.miss_until[usize::from(request.is_own())] => {
                StoreLookup::HitForMiss
            }
            None => StoreLookup::Miss,
        }
    }

    /// Stores a response, unless something was purged since `purges`. Of two that are stored at
    /// once for the same key one may be lost; then the next request misses it, and that is all.
    pub fn put(&self, key: &Key, entry: Arc<Entry>, purges: u64) -> bool {
        if self.purges() != purges
            || entry.cost() as u64 > self.largest.saturating_add(self.largest / 4)
        {
            return false;
        }
        let old = self.map.peek(key.bytes());
        let others = old
            .iter()
            .flat_map(|old| &old.variants)
            .filter(|other| other.selection != entry.selection);
        let others: Vec<_> = others.take(MOST_VARIANTS - 1).cloned().collect();
        let variants = std::iter::once(entry).chain(others).collect();
        self.map.insert(key.clone(), Arc::new(Resource { variants, miss_until: [0; 2] }));
        true
    }

    /// Keeps the body of a stored response in this content coding too, if the response is still
    /// there: it may have been purged, or replaced by a newer one.
    pub fn keep_encoded(&self, key: &Key, entry: &Arc<Entry>, coding: &'static str, body: Bytes) {
        // Dropping the outcome forgets the key again if there is nothing under it.
        drop(self.map.entry(key, None, |_, resource: &mut Arc<Resource>| {
            let Resource { variants, miss_until } = &**resource;
            if let Some(at) = variants.iter().position(|other| Arc::ptr_eq(other, entry)) {
                let mut variants = variants.clone();
                variants[at] = Arc::new(entry.with_encoded(coding, body));
                *resource = Arc::new(Resource { variants, miss_until: *miss_until });
            }
            EntryAction::Retain(())
        }));
    }

    /// Remembers until `until` that responses to such requests for this key cannot be kept.
    pub fn mark_hit_for_miss(&self, key: &Key, request: &Request, until: u64) {
        let old = self.map.peek(key.bytes());
        let (variants, mut miss_until) =
            old.map(|old| (old.variants.clone(), old.miss_until)).unwrap_or_default();
        miss_until[usize::from(request.is_own())] = until;
        self.map.insert(key.clone(), Arc::new(Resource { variants, miss_until }));
    }

    /// Removes what a request has changed (RFC 9111 section 4.4).
    pub fn invalidate(&self, key: &[u8]) {
        self.map.remove(key);
    }

    /// Removes things; how many.
    pub fn purge(&self, what: &Purge) -> u64 {
        self.purges.fetch_add(1, Ordering::AcqRel);
        let removed = AtomicU64::new(0);
        let remove = |resource: &Resource| {
            removed.fetch_add(resource.variants.len() as u64, Ordering::Relaxed);
            false
        };
        match what {
            Purge::Key(key) => {
                for key in self.keys_of(key) {
                    if let Some((_, resource)) = self.map.remove(&key[..]) {
                        remove(&resource);
                    }
                }
            }
            Purge::All => self.map.retain(|_, resource| remove(resource)),
            Purge::Prefix(start) => {
                self.map
                    .retain(|key, resource| !key.bytes().starts_with(start) || remove(resource));
            }
            Purge::Tag(tag) => self.map.retain(|_, resource| {
                let has = |entry: &Arc<Entry>| entry.tags.iter().any(|own| **own == **tag);
                !resource.variants.iter().any(has) || remove(resource)
            }),
        }
        removed.into_inner()
    }

    /// How the cache stands.
    pub fn figures(&self) -> CacheFigures {
        let sum = |of: fn(&Counts) -> &AtomicU64| {
            self.counts.iter().map(|counts| of(counts).load(Ordering::Relaxed)).sum()
        };
        CacheFigures {
            entries: self.map.len() as u64,
            bytes: self.map.weight(),
            memory: self.memory,
            hits: sum(|counts| &counts.hits),
            stale: sum(|counts| &counts.stale),
            misses: sum(|counts| &counts.misses),
            coalesced: sum(|counts| &counts.coalesced),
            revalidated: sum(|counts| &counts.revalidated),
            bypassed: sum(|counts| &counts.bypassed),
            stored: sum(|counts| &counts.stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::header::VARY;
    use http::{HeaderName, HeaderValue, StatusCode};

    use super::*;
    use crate::entry::Lifetimes;
    use crate::selection::Selection;

    fn store(memory: u64, largest: u64) -> Store {
        Store::new(memory, largest, 2)
    }

    fn language(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static("accept-language"), value.parse().unwrap())])
    }

    fn entry(body: &str, request: &HeaderMap, tags: &[&str]) -> Arc<Entry> {
        let vary = HeaderMap::from_iter([(VARY, HeaderValue::from_static("Accept-Language"))]);
        let lifetimes = Lifetimes { fresh: 10, ..Lifetimes::default() };
        let parts = (StatusCode::OK, HeaderMap::new(), Bytes::copy_from_slice(body.as_bytes()));
        let tags = tags.iter().map(|tag| (*tag).into()).collect();
        Arc::new(Entry::new(parts, Selection::of(request, &vary).unwrap(), tags, lifetimes, 0))
    }

    fn find(store: &Store, key: &str, request: &HeaderMap) -> Option<String> {
        match store.find(key.as_bytes(), &Request::default(), request, 0) {
            StoreLookup::Hit(entry) => Some(String::from_utf8(entry.body.to_vec()).unwrap()),
            StoreLookup::Miss | StoreLookup::HitForMiss => None,
        }
    }

    fn put(store: &Store, key: &str, entry: Arc<Entry>) -> bool {
        store.put(&Key::of(key.as_bytes()), entry, store.purges())
    }

    #[test]
    fn variants_stand_beside_each_other_and_are_few() {
        let store = store(1 << 20, 1 << 14);
        put(&store, "a", entry("old", &language("de"), &[]));
        put(&store, "a", entry("deutsch", &language("de"), &[]));
        put(&store, "a", entry("english", &language("en"), &[]));
        assert_eq!(find(&store, "a", &language("de")).as_deref(), Some("deutsch"));
        assert_eq!(find(&store, "a", &language("en")).as_deref(), Some("english"));
        assert_eq!(find(&store, "a", &language("fr")), None);
        for number in 0..3 * MOST_VARIANTS {
            put(&store, "a", entry("x", &language(&number.to_string()), &[]));
        }
        assert_eq!(find(&store, "a", &language("de")), None);
        assert_eq!(store.purge(&Purge::All), MOST_VARIANTS as u64);
    }

    #[test]
    fn a_compressed_form_is_kept_as_long_as_its_response() {
        let (store, key, german) = (store(1 << 20, 1 << 14), Key::of(b"a"), language("de"));
        let encoded = |request: &HeaderMap| match store.find(b"a", &Request::default(), request, 0)
        {
            StoreLookup::Hit(entry) => entry.encoded("gzip").cloned(),
            StoreLookup::Miss | StoreLookup::HitForMiss => None,
        };
        let keep = |entry| {
            store.keep_encoded(&key, entry, "gzip", Bytes::from_static(b"short"));
        };
        let old = entry("old", &german, &[]);
        keep(&old);
        assert_eq!((store.figures().entries, encoded(&german)), (0, None), "it is not stored");
        put(&store, "a", old.clone());
        put(&store, "a", entry("english", &language("en"), &[]));
        let before = store.figures().bytes;
        keep(&old);
        assert_eq!(encoded(&german).as_deref(), Some(&b"short"[..]));
        assert_eq!(encoded(&language("en")), None);
        assert_eq!(store.figures().bytes, before + 64 + 5, "its memory counts");
        assert_eq!(find(&store, "a", &german).as_deref(), Some("old"));
        let new = entry("new", &german, &[]);
        put(&store, "a", new.clone());
        keep(&old);
        assert_eq!((find(&store, "a", &german).as_deref(), encoded(&german)), (Some("new"), None));
        store.purge(&Purge::All);
        keep(&new);
        assert_eq!((store.figures().entries, find(&store, "a", &german)), (0, None));
    }

    #[test]
    fn purging_removes_what_is_meant() {
        for (what, left) in [
            (Purge::Key(b"h/a".to_vec()), "h/ab h/b"),
            (Purge::Prefix(b"h/a".to_vec()), "h/b"),
            (Purge::Tag("t".into()), "h/a"),
            (Purge::Tag("x".into()), "h/a h/ab h/b"),
            (Purge::All, ""),
        ] {
            let store = store(1 << 20, 1 << 14);
            put(&store, "h/a", entry("x", &language("de"), &["s"]));
            put(&store, "h/ab", entry("x", &language("de"), &["s", "t"]));
            put(&store, "h/b", entry("x", &language("de"), &["t"]));
            let count = store.purge(&what);
            let found = ["h/a", "h/ab", "h/b"]
                .into_iter()
                .filter(|key| find(&store, key, &language("de")).is_some());
            let found: Vec<_> = found.collect();
            assert_eq!(
                (found.join(" ").as_str(), 3 - found.len() as u64),
                (left, count),
                "{what:?}"
            );
        }
    }

    #[test]
    fn what_was_requested_before_a_purge_is_not_stored_after() {
        let store = store(1 << 20, 1 << 14);
        let before = store.purges();
        store.purge(&Purge::All);
        assert!(!store.put(&Key::of(b"a"), entry("x", &language("de"), &[]), before));
        assert_eq!(find(&store, "a", &language("de")), None);
    }

    #[test]
    fn memory_is_bounded() {
        let store = store(1 << 20, 1 << 14);
        let body = "x".repeat(1 << 14);
        for number in 0..500 {
            assert!(put(&store, &number.to_string(), entry(&body, &language("de"), &[])));
            assert!(store.figures().bytes <= 1 << 20);
        }
        assert!(store.figures().entries > 40, "{:?}", store.figures());
        for number in 0..20_000 {
            store.mark_hit_for_miss(
                &Key::of(format!("passed-{number}").as_bytes()),
                &Request::default(),
                10,
            );
        }
        let CacheFigures { entries, bytes, .. } = store.figures();
        assert!(bytes <= 1 << 20 && entries <= (1 << 20) / OVERHEAD as u64, "{entries} {bytes}");
        assert!(!put(&store, "big", entry(&"x".repeat(1 << 15), &language("de"), &[])));
    }

    #[test]
    fn what_cannot_be_kept_is_remembered_for_a_while() {
        let store = store(1 << 20, 1 << 14);
        let key = Key::of(b"a");
        let found = |now| store.find(b"a", &Request::default(), &language("de"), now);
        store.mark_hit_for_miss(&key, &Request { has_cookies: true, ..Request::default() }, 20);
        assert!(matches!(found(9), StoreLookup::Miss), "it says nothing of others");
        store.mark_hit_for_miss(&key, &Request::default(), 10);
        assert!(
            matches!(found(9), StoreLookup::HitForMiss) && matches!(found(10), StoreLookup::Miss)
        );
        store.put(&key, entry("x", &language("de"), &[]), store.purges());
        assert!(matches!(found(9), StoreLookup::Hit(_)));
        store.mark_hit_for_miss(&key, &Request::default(), 10);
        assert!(matches!(found(9), StoreLookup::Hit(_)), "a variant that can be kept stays");
        store.invalidate(b"a");
        assert!(matches!(found(9), StoreLookup::Miss));
    }
}
