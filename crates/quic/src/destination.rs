//! The connection id to which a packet goes (RFC 8999 section 5: the same in all versions of QUIC).

use crate::id;

/// Set in the first byte of a packet whose head says its length.
const LONG: u8 = 0x80;

/// Bytes of the version.
const VERSION: usize = 4;

/// The connection id to which the first packet in a datagram goes, or less of it if the datagram
/// ends before.
pub fn destination(datagram: &[u8]) -> &[u8] {
    let Some((first, rest)) = datagram.split_first() else { return &[] };
    if first & LONG == 0 {
        // Ours are the only ones without a length: a client could not know another one.
        return rest.get(..id::LENGTH).unwrap_or(rest);
    }
    let after = rest.get(VERSION..).unwrap_or_default();
    let Some((length, rest)) = after.split_first() else { return &[] };
    rest.get(..usize::from(*length)).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_head_are_read() {
        let short: Vec<u8> = [0x40].into_iter().chain(1..30).collect();
        assert_eq!(destination(&short), (1..=12).collect::<Vec<u8>>());
        assert_eq!(destination(&short[..5]), [1, 2, 3, 4]);
        let long = [0xc0, 0, 0, 0, 1, 3, 7, 8, 9, 0, 1];
        assert_eq!(destination(&long), [7, 8, 9]);
        for (end, expected) in [(8, &[7, 8][..]), (6, &[]), (5, &[]), (1, &[]), (0, &[])] {
            assert_eq!(destination(&long[..end]), expected, "{end}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_datagram_panics(datagram: Vec<u8>) {
            let _ = destination(&datagram);
        }
    }
}
