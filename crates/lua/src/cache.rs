//! What scripts say to the content cache, if the server has one.

use std::time::{Duration, SystemTime};

/// What a script wants of the cache for its request.
#[derive(Clone, Debug, PartialEq)]
pub enum Override {
    /// The name of the response, in the place of its URL.
    Key(Vec<u8>),
    /// How long it is fresh, whatever it says itself.
    Lifetime(Duration),
    /// How long it may be used after that while it is fetched anew.
    WhileRevalidate(Duration),
    /// How long it may be used after that if it cannot be fetched.
    IfError(Duration),
    /// Names by which it may be purged, beside those that it has.
    Tags(Vec<String>),
    /// Whether the cache has nothing to do with the request.
    Bypass(bool),
    /// What was asked for before that is stale.
    Since(SystemTime),
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// What has this key.
    Key(Vec<u8>),
    /// What is kept for this URL.
    Url(String),
    /// What is kept for URLs that begin like this.
    Prefix(String),
    /// What has this tag.
    Tag(String),
}

/// A response that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedResponse {
    /// Its status.
    pub status: u16,
    /// How old it is, in seconds.
    pub age: u64,
    /// How many seconds it is still fresh; negative: since when it is not.
    pub ttl: i64,
    /// Bytes of its body.
    pub length: usize,
}
