//! How often clients have exceeded limits, for the metrics. It is seldom, so all event loops may
//! write the same counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests in a time.
    Rate,
    /// Requests at the same time.
    Connections,
    /// Wrong passwords in a time.
    Passwords,
}

impl LimitKind {
    /// All of them.
    pub const ALL: [LimitKind; 3] = [LimitKind::Rate, LimitKind::Connections, LimitKind::Passwords];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Rate => "rate",
            LimitKind::Connections => "connections",
            LimitKind::Passwords => "passwords",
        }
    }
}

/// The counts of all sites.
pub struct Exceeded(Box<[[[AtomicU64; 2]; LimitKind::ALL.len()]]>);

impl Exceeded {
    /// For so many sites.
    pub fn new(sites: usize) -> Exceeded {
        Exceeded((0..sites).map(|_| Default::default()).collect())
    }

    /// One more request of this site, which is served nevertheless in a dry run.
    pub fn note(&self, site: usize, kind: LimitKind, dry_run: bool) {
        self.0[site][kind as usize][usize::from(dry_run)].fetch_add(1, Ordering::Relaxed);
    }

    /// Those that were refused, and those that would have been.
    pub fn get(&self, site: usize, kind: LimitKind) -> [u64; 2] {
        let [refused, dry_run] = &self.0[site][kind as usize];
        [refused, dry_run].map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_and_limit_is_counted_for_itself() {
        let exceeded = Exceeded::new(2);
        exceeded.note(1, LimitKind::Connections, false);
        exceeded.note(1, LimitKind::Connections, true);
        exceeded.note(1, LimitKind::Connections, true);
        assert_eq!(exceeded.get(1, LimitKind::Connections), [1, 2]);
        assert_eq!(exceeded.get(1, LimitKind::Rate), [0, 0]);
        assert_eq!(exceeded.get(0, LimitKind::Connections), [0, 0]);
    }
}
