//! The messages to the supervisor from the process that shares keys of session tickets with other
//! nodes.

use crate::tickets::{KEY_BYTES, TICKET_KEYS, TicketKey};

/// Most bytes of a problem in a message.
const LONGEST_PROBLEM: usize = 400;

/// The first byte of each kind of message.
const KEYS: u8 = b'k';
const TROUBLE: u8 = b't';

/// A message of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketNews {
    /// The keys of all nodes; the first one encrypts.
    Keys(Vec<TicketKey>),
    /// Why there are none.
    Trouble(String),
}

impl TicketNews {
    /// Bytes that one takes at most.
    pub const LONGEST: usize = 1 + LONGEST_PROBLEM;

    /// The news as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            TicketNews::Keys(keys) => {
                let bytes = keys.iter().flat_map(TicketKey::bytes).copied();
                [KEYS].into_iter().chain(bytes).collect()
            }
            TicketNews::Trouble(problem) => {
                let bytes = problem.bytes().take(LONGEST_PROBLEM);
                [TROUBLE].into_iter().chain(bytes).collect()
            }
        }
    }

    /// Reads what [`TicketNews::encode`] wrote; [`None`] for anything else.
    pub fn decode(bytes: &[u8]) -> Option<TicketNews> {
        match bytes.split_first()? {
            (&KEYS, keys) => {
                let (keys, rest) = keys.as_chunks::<KEY_BYTES>();
                // With the one that is about to encrypt.
                let is_valid = rest.is_empty() && (1..=TICKET_KEYS + 1).contains(&keys.len());
                let keys = keys.iter().map(|key| TicketKey::from_bytes(*key));
                is_valid.then(|| TicketNews::Keys(keys.collect()))
            }
            (&TROUBLE, problem) => {
                Some(TicketNews::Trouble(String::from_utf8_lossy(problem).into_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for count in 1..=TICKET_KEYS + 1 {
            let news = TicketNews::Keys((0..count).map(|_| TicketKey::random()).collect());
            let encoded = news.encode();
            assert!(encoded.len() <= TicketNews::LONGEST);
            assert_eq!(TicketNews::decode(&encoded), Some(news));
            assert_eq!(TicketNews::decode(&encoded[..encoded.len() - 1]), None);
        }
        let news = TicketNews::Trouble("é".repeat(LONGEST_PROBLEM));
        assert_eq!(news.encode().len(), TicketNews::LONGEST);
        assert!(matches!(TicketNews::decode(&news.encode()), Some(TicketNews::Trouble(_))));
    }

    proptest! {
        #[test]
        fn invented_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = TicketNews::decode(&bytes);
        }
    }
}
