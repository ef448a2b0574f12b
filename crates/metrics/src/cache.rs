//! The figures of the content cache, declared once: the cache fills them, the front sends them to
//! the supervisor, and status shows them.

/// Declares the figures: their fields, their names in JSON, and their order in messages.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How the content cache stands, and what it did since the front began. All but the first
        /// three count requests or responses.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CacheFigures {
            $($(#[$doc])* pub $name: u64),*
        }

        impl CacheFigures {
            /// The figures with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// The figures in the same order, to be set.
            pub fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                [$(&mut self.$name),*].into_iter()
            }
        }
    };
}

figures! {
    /// URLs that it has something for.
    entries,
    /// Bytes that they take.
    bytes,
    /// Bytes that they may take.
    memory,
    /// Requests answered from it, fresh.
    hits,
    /// Requests answered from it, stale.
    stale,
    /// Requests that it was asked for and that an application answered.
    misses,
    /// Requests answered with what another one had been waiting for.
    coalesced,
    /// Responses that an application found still valid.
    revalidated,
    /// Requests that it has nothing to do with.
    bypassed,
    /// Responses that were stored.
    stored,
}
