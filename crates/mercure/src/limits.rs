//! What a hub takes.

/// Most bytes of a topic, a selector, an id or a type. They are URLs in general, and servers take
/// few longer ones; each update is compared with each selector, so ten times more would cost as
/// much more time.
pub const LONGEST: usize = 2048;

/// What a hub takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Updates that it keeps.
    pub history: usize,
    /// Bytes that they take.
    pub history_bytes: usize,
    /// Subscribers.
    pub subscribers: usize,
    /// Topics of a subscription, or of an update.
    pub topics: usize,
    /// Bytes of the data and topics of an update.
    pub update: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            history: 1000,
            history_bytes: 8 << 20,
            subscribers: 10_000,
            topics: 100,
            update: 1 << 20,
        }
    }
}
