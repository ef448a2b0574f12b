//! How much one client may ask for.

use std::fmt;
use std::time::Duration;

/// What one client may do.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientLimits {
    /// How many requests it may send in a time.
    pub rate: Option<Rate>,
    /// How many more at once.
    pub burst: u32,
    /// How many of its requests are served at the same time; 0: any number.
    pub connections: u32,
    /// What a client is.
    pub by: ClientId,
    /// Whether more is only logged and counted.
    pub dry_run: bool,
}

impl ClientLimits {
    /// No limit.
    pub const NONE: ClientLimits = ClientLimits {
        rate: None,
        burst: 0,
        connections: 0,
        by: ClientId::Address,
        dry_run: false,
    };

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.rate.is_none() && self.connections == 0
    }
}

/// Requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub requests: u32,
    /// In which time.
    pub per: TimeUnit,
}

/// The time of a [`Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl TimeUnit {
    /// All of them, with their letters.
    pub const ALL: [(TimeUnit, &str); 3] =
        [(TimeUnit::Second, "s"), (TimeUnit::Minute, "m"), (TimeUnit::Hour, "h")];

    /// How long it is.
    pub fn duration(self) -> Duration {
        Duration::from_secs(match self {
            TimeUnit::Second => 1,
            TimeUnit::Minute => 60,
            TimeUnit::Hour => 3600,
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = TimeUnit::ALL.iter().find(|(unit, _)| *unit == self.per);
        write!(f, "{}/{}", self.requests, letter.map_or("", |(_, letter)| letter))
    }
}

/// What a client is, for a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientId {
    /// Its address; of IPv6 the network of 64 bits.
    Address,
    /// The value of this header field, in lower case; without it, its address.
    Header(String),
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientId::Address => f.write_str("address"),
            ClientId::Header(name) => write!(f, "header:{name}"),
        }
    }
}
