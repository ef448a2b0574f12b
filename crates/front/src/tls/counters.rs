//! How handshakes end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokamak_tls::Session;

use super::NotSecured;

/// How a handshake fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The client has gone before it was over.
    Closed = 0,
    /// The client speaks HTTP without TLS.
    Plain = 1,
    /// Client and server do not agree, or the client sends something that is not TLS.
    Refused = 2,
    /// It took too long, or the front was ended.
    Slow = 3,
}

impl Failed {
    /// All of them, in the order of their numbers.
    pub const ALL: [Failed; 4] = [Failed::Closed, Failed::Plain, Failed::Refused, Failed::Slow];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Failed::Closed => "closed",
            Failed::Plain => "plain_http",
            Failed::Refused => "refused",
            Failed::Slow => "timeout",
        }
    }
}

/// How often handshakes have ended in which way. All event loops share the numbers: a handshake is
/// much more work than their line of memory.
#[derive(Debug, Default)]
pub struct HandshakeCounters {
    /// By version (1.2, 1.3), whole and resumed.
    succeeded: [[AtomicU64; 2]; 2],
    failed: [AtomicU64; Failed::ALL.len()],
}

impl HandshakeCounters {
    /// A handshake begins. One that is dropped without a result took too long.
    pub(super) fn begin(&self) -> Handshake<'_> {
        Handshake { counters: self, end: Some(Failed::Slow) }
    }

    /// Handshakes that succeeded: version, whether it was resumed, how many.
    pub fn succeeded(&self) -> impl Iterator<Item = (&'static str, bool, u64)> {
        let versions = ["1.2", "1.3"].into_iter().zip(&self.succeeded);
        versions.flat_map(|(version, counts)| {
            let counts = [false, true].into_iter().zip(counts);
            counts.map(move |(resumed, count)| (version, resumed, count.load(Ordering::Relaxed)))
        })
    }

    /// Handshakes that failed: how, how many.
    pub fn failed(&self) -> impl Iterator<Item = (Failed, u64)> {
        let counts = self.failed.iter().map(|count| count.load(Ordering::Relaxed));
        Failed::ALL.into_iter().zip(counts)
    }
}

/// A handshake, which is counted when it ends.
pub(super) struct Handshake<'a> {
    counters: &'a HandshakeCounters,
    end: Option<Failed>,
}

impl Handshake<'_> {
    /// It has failed in this way.
    pub fn is(&mut self, why: Failed) {
        self.end = Some(why);
    }

    /// It has failed in this way, and the connection is closed.
    pub fn failed(&mut self, why: Failed, error: Option<io::Error>) -> NotSecured {
        self.is(why);
        NotSecured::Closed(error)
    }

    /// It has succeeded.
    pub fn succeeded(&mut self, session: &Session) {
        self.end = None;
        let version = usize::from(session.protocol == "TLSv1.3");
        let count = &self.counters.succeeded[version][usize::from(session.is_resumed)];
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        if let Some(why) = self.end {
            self.counters.failed[why as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}
