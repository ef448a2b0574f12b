//! Why workers have ended, counted.

use tokamak_sys::control::{EXIT_OUTDATED, EXIT_RETIRED, EXIT_TAINTED, Why};

use crate::machine::{Fate, Worker};
use crate::words::signal_name;

macro_rules! endings {
    ($($name:ident $word:literal,)*) => {
        /// Why a worker has ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Ending {
            $(#[doc = $word] $name,)*
        }

        impl Ending {
            /// All of them.
            pub const ALL: &[Ending] = &[$(Ending::$name,)*];

            /// In one word.
            pub fn name(self) -> &'static str {
                match self { $(Ending::$name => $word,)* }
            }
        }
    };
}

endings! {
    Requested "asked",
    Retired "retired",
    TimedOut "timed_out",
    Crashed "crashed",
    Exited "exited",
    BootFailed "boot_failed",
    Stale "stale_connection",
    Outdated "outdated",
    Tainted "not_undone",
    Orphaned "orphaned",
    Failing "failing",
}

impl Ending {
    /// Of a worker that was in this state before.
    pub fn of(before: Worker, why: Why, fate: Fate) -> Ending {
        match (fate, why) {
            (Fate::Orphaned, _) => Ending::Orphaned,
            (Fate::BootFailed, _) => Ending::BootFailed,
            (Fate::TimedOut, _) | (_, Why::TimedOut) => Ending::TimedOut,
            // It took too long to leave.
            (_, Why::Crash(number))
                if before == Worker::Leaving
                    && matches!(signal_name(number), Some("SIGKILL" | "SIGTERM")) =>
            {
                Ending::Requested
            }
            (_, Why::Crash(_)) => Ending::Crashed,
            _ if before == Worker::Leaving => Ending::Requested,
            (_, Why::Stale) => Ending::Stale,
            (_, Why::Exit(EXIT_RETIRED)) => Ending::Retired,
            (_, Why::Exit(EXIT_OUTDATED)) => Ending::Outdated,
            (_, Why::Exit(EXIT_TAINTED)) => Ending::Tainted,
            (_, Why::Exit(_)) => Ending::Exited,
        }
    }
}

/// How many workers have ended for each reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endings([u64; Ending::ALL.len()]);

impl Endings {
    /// One more.
    pub fn note(&mut self, ending: Ending) {
        self.0[ending as usize] += 1;
    }

    /// Adds those of others.
    pub fn add(&mut self, others: &Endings) {
        self.0.iter_mut().zip(others.0).for_each(|(sum, count)| *sum += count);
    }

    /// Each reason, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (Ending, u64)> + '_ {
        Ending::ALL.iter().map(|ending| (*ending, self.0[*ending as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (before, why, fate, ending) in [
            (Worker::Leaving, Why::Exit(EXIT_RETIRED), Fate::Expected, "asked"),
            (Worker::Serving, Why::Exit(EXIT_RETIRED), Fate::Expected, "retired"),
            (Worker::Serving, Why::Exit(EXIT_OUTDATED), Fate::Expected, "outdated"),
            (Worker::Serving, Why::Exit(EXIT_TAINTED), Fate::Expected, "not_undone"),
            (Worker::Serving, Why::Stale, Fate::Expected, "stale_connection"),
            (Worker::Serving, Why::Exit(3), Fate::Lost, "exited"),
            (Worker::Leaving, Why::Crash(11), Fate::Lost, "crashed"),
            (Worker::Leaving, Why::Crash(9), Fate::Expected, "asked"),
            (Worker::Leaving, Why::Crash(15), Fate::Expected, "asked"),
            (Worker::Serving, Why::Crash(9), Fate::Lost, "crashed"),
            (Worker::Starting, Why::Exit(101), Fate::BootFailed, "boot_failed"),
            (Worker::Orphan, Why::Crash(9), Fate::Orphaned, "orphaned"),
            (Worker::Serving, Why::TimedOut, Fate::TimedOut, "timed_out"),
        ] {
            assert_eq!(Ending::of(before, why, fate).name(), ending);
        }
        let (mut one, mut other) = (Endings::default(), Endings::default());
        one.note(Ending::Stale);
        other.note(Ending::Stale);
        one.add(&other);
        let counted: Vec<_> = one.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Ending::Stale, 2)]);
    }
}
