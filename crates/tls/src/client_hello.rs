//! Reads what the TLS library does not return of a ClientHello: how long the
//! fragments may be that it has room for.

/// The type of the extension `max_fragment_length` (RFC 6066, 4).
const MAX_FRAGMENT_LENGTH: [u8; 2] = [0, 1];

/// The longest fragment of a record that the client has room for, if its ClientHello says so.
/// `None` also if the record with the ClientHello is not whole: that of a client with little memory
/// is short.
pub fn fragment_length(record: &[u8]) -> Option<usize> {
    // The type, the version, and the length of a record; the type of the message.
    let (_, rest) = record.split_at_checked(3)?;
    let (mut fragment, _) = field(rest, 2)?;
    fragment = fragment.strip_prefix(&[1])?;
    let (client_hello, _) = field(fragment, 3)?;
    // The version and the random number; the session, the suites, the ways of compression.
    let (_, rest) = client_hello.split_at_checked(2 + 32)?;
    let (_, rest) = field(rest, 1)?;
    let (_, rest) = field(rest, 2)?;
    let (_, rest) = field(rest, 1)?;
    let (mut extensions, _) = field(rest, 2)?;
    while let Some((kind, rest)) = extensions.split_at_checked(2) {
        let (value, next) = field(rest, 2)?;
        if kind == MAX_FRAGMENT_LENGTH {
            return match value {
                [code @ 1..=4] => Some(256 << code),
                _ => None,
            };
        }
        extensions = next;
    }
    None
}

/// A field that begins with its length in so many bytes, and what follows it.
fn field(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these extensions.
    fn client_hello(extensions: &[u8]) -> Vec<u8> {
        let with_length =
            |width: usize, bytes: &[u8]| [&bytes.len().to_be_bytes()[8 - width..], bytes].concat();
        let head = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0xc0, 0x2b], &[1, 0]].concat();
        let message = [head, with_length(2, extensions)].concat();
        let message = [vec![1], with_length(3, &message)].concat();
        [vec![22, 3, 1], with_length(2, &message)].concat()
    }

    #[test]
    fn the_length_is_found_if_the_client_hello_is_whole() {
        let name = [0, 0, 0, 2, 9, 9];
        for (code, length) in [(1, Some(512)), (4, Some(4096)), (0, None), (5, None)] {
            let whole = client_hello(&[&name[..], &[0, 1, 0, 1, code]].concat());
            assert_eq!(fragment_length(&whole), length, "{code}");
            for end in 0..whole.len() {
                assert_eq!(fragment_length(&whole[..end]), None);
            }
        }
        assert_eq!(fragment_length(&client_hello(&name)), None);
        assert_eq!(fragment_length(&client_hello(&[0, 1, 0, 2, 1, 1])), None);
    }
}
