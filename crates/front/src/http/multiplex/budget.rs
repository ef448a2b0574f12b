//! How often a client may do something that costs the server work and the client nothing.

/// The time for which the limits hold, in nanoseconds: ten seconds. A tenth would count a page's
/// images that a visitor does not wait for as an attack; ten times more would let an attack go on
/// for ten times as long after a calm time.
const WINDOW: u64 = 10_000_000_000;

/// A number that may be spent within [`WINDOW`].
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    left: u64,
    /// When `left` last grew with the time.
    since: u64,
}

impl Budget {
    /// So many may be spent within the time.
    pub fn new(limit: usize, now: u64) -> Budget {
        Budget { limit: limit as u64, left: limit as u64, since: now }
    }

    /// Takes one. Returns whether there was one.
    pub fn spend(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.since).min(WINDOW);
        // At most 10^10 times 10^6: see the bounds of the options.
        let grown = passed * self.limit / WINDOW;
        if grown > 0 {
            self.since = now;
            self.earn(grown);
        }
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }

    /// Gives some back.
    pub fn earn(&mut self, count: u64) {
        self.left = self.limit.min(self.left.saturating_add(count));
    }
}
