//! A response that is kept. Nothing of it changes any more: another one takes its place.

use bytes::Bytes;
use http::header::{AGE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use http::{StatusCode, header};

use crate::directives::Directives;
use crate::selection::Selection;

/// A second in nanoseconds, the unit of all times here.
const SECOND: u64 = 1_000_000_000;

/// Fields that each answer adds to the stored ones: `Age`, `Cache-Status`, `Vary`. Copies of a map
/// with room for them need not grow, for which all their fields would be hashed anew.
const FIELDS_OF_ANSWERS: usize = 3;

/// What an entry needs of memory besides its fields and its body. About what the allocator takes.
const OVERHEAD: usize = 512;

/// How long a response may be used, and for whom. In seconds from its storing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// How old it was already.
    pub age: u64,
    /// Whether it said so itself, in `Age`: another cache had it, so clients get `Age` in any case.
    pub is_aged: bool,
    /// For so long it is fresh.
    pub fresh: u64,
    /// For so much longer it may be used while it is fetched anew.
    pub while_revalidate: u64,
    /// For so much longer it may be used if it cannot be fetched.
    pub if_error: u64,
    /// Whether it may be used stale if the client says so.
    pub may_be_stale: bool,
    /// Whether it said itself that it may be kept: then it is for requests with cookies too.
    pub is_explicit: bool,
    /// Whether it said that it is for requests with credentials too (RFC 9111 section 3.5).
    pub is_for_all: bool,
}

/// What a stored response is good for at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// To be used.
    Fresh,
    /// To be used, and fetched anew meanwhile.
    Revalidate,
    /// Not to be used before the application has been asked.
    Stale,
}

/// A stored response.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields, without `Age`, with the length of the body.
    pub headers: HeaderMap,
    /// All of its body.
    pub body: Bytes,
    /// The requests that it is for.
    pub selection: Selection,
    /// Names by which it may be purged.
    pub tags: Box<[Box<str>]>,
    /// The body in content codings, by their names, as far as it has been asked for in them.
    encoded: Vec<(&'static str, Bytes)>,
    lifetimes: Lifetimes,
    /// When it was stored.
    stored: u64,
    /// When it was requested: what it says was still true then.
    requested: u64,
}

impl Entry {
    /// A response that is stored now. `headers` are as they will be sent again.
    pub fn new(
        (status, mut headers, body): (StatusCode, HeaderMap, Bytes),
        selection: Selection,
        tags: Vec<Box<str>>,
        lifetimes: Lifetimes,
        now: u64,
    ) -> Entry {
        headers.remove(AGE);
        if status != StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        headers.reserve(FIELDS_OF_ANSWERS);
        Entry {
            status,
            headers,
            body,
            selection,
            tags: tags.into(),
            encoded: Vec::new(),
            lifetimes,
            stored: now,
            requested: now,
        }
    }

    /// The same response, of which the application has said that it is still right: with what it
    /// said of it now (RFC 9111 section 4.3.4).
    pub fn freshened(&self, said: &HeaderMap, lifetimes: Lifetimes, now: u64) -> Entry {
        let mut headers = self.headers.clone();
        for name in said.keys() {
            // What belongs to the body that is kept.
            if [
                header::CONTENT_LENGTH,
                header::CONTENT_ENCODING,
                header::CONTENT_RANGE,
                header::CONTENT_TYPE,
            ]
            .contains(name)
            {
                continue;
            }
            headers.remove(name);
            for value in said.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let parts = (self.status, headers, self.body.clone());
        let tags = self.tags.to_vec();
        let entry = Entry::new(parts, self.selection.clone(), tags, lifetimes, now);
        Entry { encoded: self.encoded.clone(), ..entry }
    }

    /// The body in the content coding with this name, if it is kept.
    pub fn encoded(&self, coding: &str) -> Option<&Bytes> {
        self.encoded.iter().find(|(name, _)| *name == coding).map(|(_, body)| body)
    }

    /// The same response, of which the body is also kept in this content coding.
    pub fn with_encoded(&self, coding: &'static str, body: Bytes) -> Entry {
        let mut entry = self.clone();
        entry.encoded.retain(|(name, _)| *name != coding);
        entry.encoded.push((coding, body));
        entry
    }

    /// The same, requested at that time.
    pub fn requested_at(self, requested: u64) -> Entry {
        Entry { requested, ..self }
    }

    /// Whether it was asked for before that.
    pub fn is_older(&self, than: u64) -> bool {
        self.requested < than
    }

    /// How long it may be used, from when it was stored.
    pub(crate) fn lifetimes(&self) -> &Lifetimes {
        &self.lifetimes
    }

    /// How many nanoseconds ago it was asked for, and stored.
    pub(crate) fn since(&self, now: u64) -> (u64, u64) {
        (now.saturating_sub(self.requested), now.saturating_sub(self.stored))
    }

    /// How old it is, in seconds.
    pub fn age(&self, now: u64) -> u64 {
        self.lifetimes.age + now.saturating_sub(self.stored) / SECOND
    }

    /// Whether it came from another cache.
    pub fn is_aged(&self) -> bool {
        self.lifetimes.is_aged
    }

    /// How many seconds it is still fresh; negative: since when it is not.
    pub fn ttl(&self, now: u64) -> i64 {
        let until = self.stored + self.lifetimes.fresh * SECOND;
        (until as i64 - now as i64).div_euclid(SECOND as i64)
    }

    /// What it is good for, if the client did not ask for more or less than the application says.
    pub fn freshness(&self, now: u64) -> Freshness {
        let Lifetimes { fresh, while_revalidate, .. } = self.lifetimes;
        let since = now.saturating_sub(self.stored);
        if since < fresh * SECOND {
            Freshness::Fresh
        } else if since < (fresh + while_revalidate) * SECOND {
            Freshness::Revalidate
        } else {
            Freshness::Stale
        }
    }

    /// What it is good for, if the client did ask (RFC 9111 section 5.2.1).
    pub fn freshness_for(&self, said: &Directives, now: u64) -> Freshness {
        let too_old = said.max_age.is_some_and(|most| self.age(now) > most);
        let ttl = self.ttl(now);
        let too_short = said.min_fresh.is_some_and(|least| ttl < least as i64);
        if said.no_cache || said.max_age == Some(0) || too_old || too_short {
            return Freshness::Stale;
        }
        let is_enough =
            said.max_stale.is_some_and(|most| self.lifetimes.may_be_stale && -ttl <= most as i64);
        if is_enough { Freshness::Fresh } else { self.freshness(now) }
    }

    /// Whether it may be used although the application failed.
    pub fn serves_errors(&self, now: u64) -> bool {
        let Lifetimes { fresh, if_error, .. } = self.lifetimes;
        if_error > 0 && now.saturating_sub(self.stored) < (fresh + if_error) * SECOND
    }

    /// Whether it is to be checked with the application before each use, so that requests have no
    /// use of each other's answer.
    pub fn is_always_checked(&self) -> bool {
        self.lifetimes.fresh == 0
    }

    /// Whether it may answer a request with cookies, or with credentials.
    pub fn admits(&self, has_cookies: bool, has_credentials: bool) -> bool {
        (!has_cookies || self.lifetimes.is_explicit)
            && (!has_credentials || self.lifetimes.is_for_all)
    }

    /// Fields by which the application can say that it is still right; for a request of the
    /// server's own.
    pub fn validators(&self) -> impl Iterator<Item = (header::HeaderName, HeaderValue)> {
        let pairs = [(ETAG, header::IF_NONE_MATCH), (LAST_MODIFIED, header::IF_MODIFIED_SINCE)];
        pairs.into_iter().filter_map(|(has, asks)| Some((asks, self.headers.get(has)?.clone())))
    }

    /// Bytes of memory that it takes, roughly.
    pub fn cost(&self) -> usize {
        let fields: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        let tags: usize = self.tags.iter().map(|tag| tag.len() + 16).sum();
        let encoded: usize = self.encoded.iter().map(|(_, body)| body.len() + 64).sum();
        OVERHEAD + fields + tags + self.selection.cost() + self.body.len() + encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lifetimes: Lifetimes) -> Entry {
        let headers =
            HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"a\"")), (AGE, 7.into())]);
        let parts = (StatusCode::OK, headers, Bytes::from_static(b"body"));
        Entry::new(parts, Selection::default(), vec!["t".into()], lifetimes, 100 * SECOND)
    }

    fn said(words: &'static str) -> Directives {
        Directives::of(&HeaderMap::from_iter([(
            header::CACHE_CONTROL,
            HeaderValue::from_static(words),
        )]))
    }

    #[test]
    fn freshness_passes() {
        let entry = entry(Lifetimes {
            age: 3,
            fresh: 10,
            while_revalidate: 5,
            if_error: 20,
            ..Default::default()
        });
        for (second, freshness, serves, age, ttl) in [
            (100, Freshness::Fresh, true, 3, 10),
            (109, Freshness::Fresh, true, 12, 1),
            (110, Freshness::Revalidate, true, 13, 0),
            (114, Freshness::Revalidate, true, 17, -4),
            (115, Freshness::Stale, true, 18, -5),
            (129, Freshness::Stale, true, 32, -19),
            (130, Freshness::Stale, false, 33, -20),
        ] {
            let now = second * SECOND;
            assert_eq!(entry.freshness(now), freshness, "{second}");
            assert_eq!(entry.serves_errors(now), serves, "{second}");
            assert_eq!((entry.age(now), entry.ttl(now)), (age, ttl), "{second}");
        }
    }

    #[test]
    fn clients_may_want_more_or_less() {
        use Freshness::*;
        let lifetimes = Lifetimes { fresh: 10, may_be_stale: true, ..Default::default() };
        let (lax, strict) =
            (entry(lifetimes), entry(Lifetimes { may_be_stale: false, ..lifetimes }));
        for (words, second, with_lax, with_strict) in [
            ("no-cache", 0, Stale, Stale),
            ("max-age=0", 0, Stale, Stale),
            ("max-age=5", 5, Fresh, Fresh),
            ("max-age=5", 6, Stale, Stale),
            ("min-fresh=5", 5, Fresh, Fresh),
            ("min-fresh=5", 6, Stale, Stale),
            ("max-stale=5", 15, Fresh, Stale),
            ("max-stale=5", 16, Stale, Stale),
            ("max-stale", 1000, Fresh, Stale),
            ("only-if-cached", 5, Fresh, Fresh),
        ] {
            let now = (100 + second) * SECOND;
            assert_eq!(lax.freshness_for(&said(words), now), with_lax, "{words} {second}");
            assert_eq!(strict.freshness_for(&said(words), now), with_strict, "{words} {second}");
        }
    }

    #[test]
    fn a_check_renews_what_is_not_the_bodys() {
        let old = entry(Lifetimes { fresh: 1, ..Default::default() });
        let news = HeaderMap::from_iter([
            (header::CACHE_CONTROL, HeaderValue::from_static("max-age=9")),
            (header::CONTENT_LENGTH, 0.into()),
        ]);
        let new = old.freshened(&news, Lifetimes { fresh: 9, ..Default::default() }, 200 * SECOND);
        assert_eq!(new.headers[header::CONTENT_LENGTH], "4");
        assert_eq!(new.headers[header::CACHE_CONTROL], "max-age=9");
        assert_eq!(new.headers[ETAG], "\"a\"");
        assert!(!new.headers.contains_key(AGE));
        let encoded = old.with_encoded("gzip", Bytes::from_static(b"short"));
        assert_eq!(encoded.cost(), old.cost() + 64 + 5);
        let kept = encoded.freshened(&news, Lifetimes::default(), 200 * SECOND);
        assert_eq!(kept.encoded("gzip").map(|body| &body[..]), Some(&b"short"[..]));
        assert_eq!((kept.encoded("br"), old.encoded("gzip")), (None, None));
        assert_eq!(
            (new.age(200 * SECOND), new.ttl(200 * SECOND), &new.tags[..]),
            (0, 9, &["t".into()][..])
        );
    }

    #[test]
    fn it_is_not_for_everybody() {
        let of = |is_explicit, is_for_all| {
            entry(Lifetimes { is_explicit, is_for_all, ..Default::default() })
        };
        assert!(of(false, false).admits(false, false) && !of(false, false).admits(true, false));
        assert!(of(true, false).admits(true, false) && !of(true, false).admits(false, true));
        assert!(of(true, true).admits(true, true));
    }
}
