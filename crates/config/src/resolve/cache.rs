//! The content cache.

use std::time::Duration;

use super::{Reader, number, tier};
use crate::model::{Cache, Caching};
use crate::option;
use crate::value::{Auto, Text};

/// A largest response must fit this many times, or hardly anything else would.
const TIMES: u64 = 4;

fn cache(raw: &option::Cache) -> Cache {
    Cache {
        memory: number(raw.memory.value.0),
        largest: number(raw.largest.value.0),
        wait: raw.wait.value,
        tier: tier(
            &raw.redis.value,
            &raw.redis_password.value,
            raw.redis_database.value,
            &raw.redis_prefix.value,
            raw.redis_timeout.value,
        ),
    }
}

impl Default for Cache {
    fn default() -> Cache {
        cache(&option::Section::defaults())
    }
}

impl Default for Caching {
    fn default() -> Caching {
        site(&option::Section::defaults())
    }
}

fn texts(texts: &[Text]) -> Vec<String> {
    texts.iter().map(|text| text.0.clone()).collect()
}

/// What a site says of it.
pub(super) fn site(site: &option::Site) -> Caching {
    Caching {
        is_on: site.cache.value,
        lifetime: site.cache_lifetime.value,
        while_revalidate: site.cache_stale_while_revalidate.value,
        if_error: site.cache_stale_if_error.value,
        ignore: site.cache_ignore.value.clone(),
        ignore_query: texts(&site.cache_ignore_query.value),
    }
}

/// What holds for a route of a site that says this.
pub(super) fn route(route: &option::Route, site: &Caching) -> Caching {
    let or = |own: &Auto<Duration>, other| match own {
        Auto::Is(time) => *time,
        Auto::Word => other,
    };
    Caching {
        is_on: match route.cache.value {
            Auto::Is(is_on) => is_on,
            Auto::Word => site.is_on,
        },
        lifetime: or(&route.cache_lifetime.value, site.lifetime),
        while_revalidate: or(&route.cache_stale_while_revalidate.value, site.while_revalidate),
        if_error: or(&route.cache_stale_if_error.value, site.if_error),
        ignore: match &route.cache_ignore.value {
            Auto::Is(ignore) => ignore.clone(),
            Auto::Word => site.ignore.clone(),
        },
        ignore_query: match &route.cache_ignore_query.value {
            Auto::Is(names) => texts(names),
            Auto::Word => site.ignore_query.clone(),
        },
    }
}

impl Reader<'_> {
    pub(super) fn cache(&mut self) -> Cache {
        let raw = &self.raw.cache;
        let (memory, largest) = (raw.memory.value.0, &raw.largest);
        if largest.value.0 > memory / TIMES {
            let problem = format!(
                "a response may take a quarter of `memory` at most, {} bytes",
                memory / TIMES
            );
            self.report("cache", "largest", largest.origin, problem);
        }
        cache(raw)
    }
}
