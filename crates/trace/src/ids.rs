//! The names of traces and spans.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use crate::hex;

macro_rules! id {
    ($(#[$what:meta])* $Name:ident, $bytes:literal) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $Name([u8; $bytes]);

        impl $Name {
            /// The name in these digits; `None` if they are no valid name.
            pub(crate) fn read(digits: &[u8]) -> Option<$Name> {
                hex::read(digits).filter(|bytes| *bytes != [0; $bytes]).map($Name)
            }

            /// Its bytes.
            pub fn bytes(&self) -> &[u8; $bytes] {
                &self.0
            }

            /// Its digits.
            pub fn digits(&self) -> [u8; 2 * $bytes] {
                let mut digits = [0; 2 * $bytes];
                hex::write(&self.0, &mut digits);
                digits
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(str::from_utf8(&self.digits()).map_err(|_| fmt::Error)?)
            }
        }
    };
}

id! {
    /// The name of a trace; never zero.
    TraceId, 16
}

id! {
    /// The name of a span; never zero.
    SpanId, 8
}

impl TraceId {
    /// A new name.
    pub fn random() -> TraceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random());
        bytes[8..].copy_from_slice(&random());
        TraceId(bytes)
    }

    /// Its last 56 bits, which Level 2 wants to be random, for decisions by chance that all who see
    /// the trace take alike.
    pub(crate) fn chance(&self) -> u64 {
        let mut last = [0; 8];
        last[1..].copy_from_slice(&self.0[9..]);
        u64::from_be_bytes(last)
    }
}

impl SpanId {
    /// A new name.
    pub fn random() -> SpanId {
        SpanId(random())
    }
}

/// Random bytes, not all zero: a counter through the standard library's keyed hash, whose keys come
/// from the kernel. Not for secrets.
fn random() -> [u8; 8] {
    thread_local! {
        static STATE: (RandomState, Cell<u64>) = (RandomState::new(), Cell::new(0));
    }
    STATE.with(|(keys, counter)| {
        counter.set(counter.get().wrapping_add(1));
        keys.hash_one(counter.get()).max(1).to_be_bytes()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_of_all_threads_differ() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| SpanId::random()).collect()))
            .collect();
        let mut all: HashSet<SpanId> = HashSet::new();
        for thread in threads {
            let names: Vec<SpanId> = thread.join().unwrap();
            all.extend(names);
        }
        assert_eq!(all.len(), 40_000);
    }

    #[test]
    fn digits_are_read_as_they_are_written() {
        let id = TraceId::random();
        assert_eq!(TraceId::read(&id.digits()), Some(id));
        assert_eq!(TraceId::read(&[b'0'; 32]), None);
        assert_eq!(TraceId::read(&id.digits()[1..]), None);
        assert_eq!(SpanId::read(b"00F067AA0BA902B7"), None);
    }
}
