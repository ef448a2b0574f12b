//! The content cache, as scripts see it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::CONTENT_LENGTH;
use tokamak_cache::{Entry, Key, Overrides, Request, StoreLookup, UrlOrigin};
use tokamak_lua::Piece;
use tokamak_lua::cache::{self, CachedResponse};

use super::work::Work;
use crate::cache::Content;
use crate::response::{Pieces, Source};
use crate::route::hosts::host_of;

/// How much too early the time of a file may be: the kernel's clock for files only advances with
/// its ticks, which are at most 10 ms apart.
const TICK: Duration = Duration::from_millis(10);

/// Adds the override of a script to the earlier ones.
pub fn put(overrides: &mut Overrides, more: cache::Override) {
    match more {
        cache::Override::Key(key) => overrides.key = Some(key),
        cache::Override::Lifetime(time) => overrides.lifetime = Some(time),
        cache::Override::WhileRevalidate(time) => overrides.while_revalidate = Some(time),
        cache::Override::IfError(time) => overrides.if_error = Some(time),
        cache::Override::Tags(tags) => {
            overrides.tags.extend(tags.into_iter().map(String::into_boxed_str))
        }
        cache::Override::Bypass(bypass) => overrides.bypass = bypass,
        cache::Override::Since(time) => {
            overrides.since = overrides.since.max(Some(on_our_clock(time)))
        }
    }
}

/// Converts a time of day to the clock by which responses are stamped.
fn on_our_clock(time: SystemTime) -> u64 {
    let now = tokamak_cost::now();
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match SystemTime::now().duration_since(time + TICK) {
        Ok(ago) => now.saturating_sub(nanoseconds(ago)),
        Err(ahead) => now.saturating_add(nanoseconds(ahead.duration())),
    }
}

/// The entry for a request, or under a key.
fn entry(work: &Work, key: Option<&[u8]>) -> Option<Arc<Entry>> {
    let content = work.context.cache.as_ref()?;
    let policy = work.policy()?;
    let headers = &work.parts.headers;
    let facts = Request::of(headers, work.caller.addresses().has_certificate(), &policy.rules)?;
    let key = match key {
        Some(key) => key.to_vec(),
        None => work.cache_overrides(&policy).key.unwrap_or_else(|| {
            let mut key = Vec::new();
            let host = host_of(&work.parts.uri, headers).unwrap_or_default();
            Key::write(
                &mut key,
                UrlOrigin { scheme: work.caller.scheme(), host, site: work.site().name_in_keys() },
                &work.parts.uri,
                &policy.ignored_query,
            );
            key
        }),
    };
    match content.store.find(&key, &facts, headers, tokamak_cost::now()) {
        StoreLookup::Hit(entry) => Some(entry),
        StoreLookup::Miss | StoreLookup::HitForMiss => None,
    }
}

/// The entry's data for scripts.
pub fn kept(work: &Work, key: Option<&[u8]>) -> Option<CachedResponse> {
    let entry = entry(work, key)?;
    let now = tokamak_cost::now();
    Some(CachedResponse {
        status: entry.status.as_u16(),
        age: entry.age(now),
        ttl: entry.ttl(now),
        length: entry.body.len(),
    })
}

/// Makes the entry under a key the response. Returns its status; `None` if there is no entry.
pub fn send(work: &mut Work, key: &[u8]) -> Option<u16> {
    let entry = entry(work, Some(key))?;
    let (parts, source) =
        crate::cache::answer(&entry, &work.parts.method, &work.parts.headers).into_parts();
    work.fields = parts.headers;
    // Scripts may still change the body.
    work.fields.remove(CONTENT_LENGTH);
    work.pieces = Some(match source {
        Source::Whole(bytes) => Pieces::from_iter([Piece::Bytes(bytes.to_vec())]),
        _ => Pieces::new(),
    });
    Some(parts.status.as_u16())
}

/// Removes responses. Returns how many.
pub fn purge(content: Option<&Content>, what: cache::Purge) -> Result<u64, String> {
    let what = match what {
        cache::Purge::All => tokamak_cache::Purge::All,
        cache::Purge::Key(key) => tokamak_cache::Purge::Key(key),
        cache::Purge::Url(url) => tokamak_cache::Purge::url(&url)?,
        cache::Purge::Prefix(url) => tokamak_cache::Purge::prefix(&url)?,
        cache::Purge::Tag(tag) => tokamak_cache::Purge::Tag(tag),
    };
    Ok(content.map_or(0, |content| content.purge(&what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_become_times_of_the_monotonic_clock() {
        let now = tokamak_cost::now();
        let (ago, ahead) = (Duration::from_secs(1000), Duration::from_secs(100));
        let past = on_our_clock(SystemTime::now() - ago);
        let future = on_our_clock(SystemTime::now() + ahead);
        let second = 1_000_000_000;
        assert!(past.abs_diff(now.saturating_sub(1000 * second)) < second, "{past} {now}");
        assert!(future.abs_diff(now + 100 * second) < second, "{future} {now}");
        assert_eq!(on_our_clock(SystemTime::UNIX_EPOCH), 0);
    }

    #[test]
    fn of_several_changes_the_last_counts() {
        let mut overrides = Overrides::default();
        let now = SystemTime::now();
        put(&mut overrides, cache::Override::Since(now));
        let since = overrides.since;
        put(&mut overrides, cache::Override::Since(now - Duration::from_secs(10)));
        assert_eq!(overrides.since, since);
    }
}
