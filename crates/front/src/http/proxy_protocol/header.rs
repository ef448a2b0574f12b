//! The header of the PROXY protocol, versions 1 and 2: bytes in, addresses out. Its specification:
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.
//!
//! A reader must not take a byte more than the header has, because those that follow belong to
//! another protocol. So the decoder says of offered bytes how many are the header's, and only those
//! are taken.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// What a header of version 1 begins with.
const PREFIX: &[u8; 6] = b"PROXY ";

/// Bytes of a header of version 2 before the part whose length it has.
const FIXED: usize = 16;

/// Longest header of version 1, by its specification.
const LONGEST_LINE: usize = 107;

/// Longest header of version 2. Extensions, of which one is read, are mostly below 200 bytes; names
/// of client certificates may be longer. Ten times more would be memory for nothing.
const LONGEST: usize = 4096;

/// The kind of extension that says how the client has reached the proxy (`PP2_TYPE_SSL`).
const SSL: u8 = 0x20;

/// The bit of its first byte that says that it did so by TLS (`PP2_CLIENT_SSL`).
const CLIENT_SSL: u8 = 1;

/// What a header says of addresses: the client's and the one that it connected to. `None`: the
/// proxy speaks for itself, as in a health check, or does not know.
pub type Ends = Option<(SocketAddr, SocketAddr)>;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The addresses.
    pub ends: Ends,
    /// Whether the client speaks TLS with the proxy.
    pub is_tls: bool,
}

/// What is wrong with the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They are not the beginning of a header.
    Missing,
    /// The header is longer than any should be.
    TooLong,
    /// Version 1: the line is not as specified.
    Line,
    /// Version 2: another version, or an unknown command.
    Command,
    /// Version 2: the length is too small for addresses of this family.
    Length,
}

impl Malformed {
    /// The reason for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Malformed::Missing => "it does not begin with a PROXY header",
            Malformed::TooLong => "its PROXY header is too long",
            Malformed::Line => "its PROXY header is malformed",
            Malformed::Command => "its PROXY header has an unknown version or command",
            Malformed::Length => "its PROXY header is too short for its addresses",
        }
    }
}

/// Decodes one header, which may come in pieces.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes the next bytes of the connection. Returns how many of them belong to the header, and
    /// what it says as soon as it is complete.
    ///
    /// # Errors
    /// Fails if the bytes are no header.
    pub fn feed(&mut self, offered: &[u8]) -> Result<(usize, Option<ProxyHeader>), Malformed> {
        let before = self.bytes.len();
        let room = LONGEST - before;
        self.bytes.extend_from_slice(&offered[..offered.len().min(room)]);
        let Some(length) = length(&self.bytes)? else {
            return Ok((self.bytes.len() - before, None));
        };
        self.bytes.truncate(length);
        let header = match self.bytes.strip_prefix(PREFIX) {
            Some(line) => {
                let ends = line.strip_suffix(b"\r\n").and_then(ends_of_line);
                ProxyHeader { ends: ends.ok_or(Malformed::Line)?, is_tls: false }
            }
            None => parse_block(&self.bytes)?,
        };
        Ok((length - before, Some(header)))
    }
}

/// The length of the header that bytes begin with. `None`: more of it has to come.
fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, other)| byte == other);
    if begins(SIGNATURE) {
        let Some(fixed) = bytes.get(..FIXED) else { return Ok(None) };
        let length = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
        if length > LONGEST {
            return Err(Malformed::TooLong);
        }
        return Ok((bytes.len() >= length).then_some(length));
    }
    if !begins(PREFIX) {
        return Err(Malformed::Missing);
    }
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some(end + 1)),
        None if line.len() == LONGEST_LINE => Err(Malformed::TooLong),
        None => Ok(None),
    }
}

/// Reads a line of version 1, without its beginning and its end.
fn ends_of_line(line: &[u8]) -> Option<Ends> {
    let line = str::from_utf8(line).ok()?;
    // What follows this word is to be ignored.
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(None);
    }
    let mut words = line.split(' ');
    let family = words.next()?;
    let (source, destination) = (words.next()?, words.next()?);
    let (from, to) = (port(words.next()?)?, port(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    let address = |text: &str, port| match family {
        "TCP4" => Some(SocketAddr::from((text.parse::<Ipv4Addr>().ok()?, port))),
        "TCP6" => Some(SocketAddr::from((text.parse::<Ipv6Addr>().ok()?, port))),
        _ => None,
    };
    Some(Some((address(source, from)?, address(destination, to)?)))
}

fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Reads a whole header of version 2.
fn parse_block(block: &[u8]) -> Result<ProxyHeader, Malformed> {
    let (fixed, rest) = block.split_at(FIXED);
    match fixed[12] {
        // The proxy speaks for itself.
        0x20 => return Ok(ProxyHeader { ends: None, is_tls: false }),
        0x21 => {}
        _ => return Err(Malformed::Command),
    }
    let ends = ends_of_block(fixed[13], rest)?;
    // The length of the addresses is known by their family only.
    let extensions = match fixed[13] {
        0x11 => rest.get(12..),
        0x21 => rest.get(36..),
        _ => None,
    };
    Ok(ProxyHeader { ends, is_tls: extensions.is_some_and(says_tls) })
}

/// Whether extensions say that the client speaks TLS with the proxy. Those that are cut short say
/// nothing.
fn says_tls(mut extensions: &[u8]) -> bool {
    while let Some((&[kind, high, low], rest)) = extensions.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((value, rest)) = rest.split_at_checked(length) else { return false };
        if kind == SSL {
            return value.first().is_some_and(|flags| flags & CLIENT_SSL != 0);
        }
        extensions = rest;
    }
    false
}

/// Reads the addresses of a family.
fn ends_of_block(family: u8, rest: &[u8]) -> Result<Ends, Malformed> {
    match family {
        0x11 => {
            let Some((addresses, _)) = rest.split_first_chunk::<12>() else {
                return Err(Malformed::Length);
            };
            let [a, b, c, d, e, f, g, h, ports @ ..] = *addresses;
            let (from, to) = ports_of(ports);
            let (source, destination) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
            Ok(Some(((source, from).into(), (destination, to).into())))
        }
        0x21 => {
            let part = |from: usize| rest.get(from..)?.first_chunk::<16>().copied();
            let ports = rest.get(32..).and_then(<[u8]>::first_chunk::<4>);
            let (Some(source), Some(destination), Some(ports)) = (part(0), part(16), ports) else {
                return Err(Malformed::Length);
            };
            let (from, to) = ports_of(*ports);
            let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
            Ok(Some(((source, from).into(), (destination, to).into())))
        }
        // Unix sockets, datagrams, and families that may come to be: addresses of no client here.
        _ => Ok(None),
    }
}

fn ports_of([a, b, c, d]: [u8; 4]) -> (u16, u16) {
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header of version 2.
    fn block(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    /// What bytes say that are offered in these pieces, and how many of them are the header's.
    fn decode<'a>(
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(usize, Option<Ends>), Malformed> {
        let (mut decoder, mut used) = (Decoder::default(), 0);
        for piece in pieces {
            let (count, header) = decoder.feed(piece)?;
            used += count;
            if let Some(header) = header {
                return Ok((used, Some(header.ends)));
            }
            assert_eq!(count, piece.len(), "before its end all bytes are the header's");
        }
        Ok((used, None))
    }

    fn whole(bytes: &[u8]) -> Result<(usize, Option<Ends>), Malformed> {
        decode([bytes].into_iter())
    }

    fn ends(source: &str, destination: &str) -> Option<Ends> {
        Some(Some((source.parse().unwrap(), destination.parse().unwrap())))
    }

    #[test]
    fn headers_of_both_versions_say_who_connected() {
        let v4 = ends("192.0.2.1:4711", "198.51.100.7:443");
        let v6 = ends("[2001:db8::1]:4711", "[2001:db8::7]:443");
        let four = [192, 0, 2, 1, 198, 51, 100, 7, 0x12, 0x67, 1, 0xbb];
        let source = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        let destination = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        let six = [&source[..], &destination, &[0x12, 0x67, 1, 0xbb]].concat();
        let with_extension = [&four[..], &[4, 0, 2, 7, 7]].concat();
        for (bytes, expected) in [
            (b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n".to_vec(), v4),
            (b"PROXY TCP6 2001:db8::1 2001:db8::7 4711 443\r\n".to_vec(), v6),
            (b"PROXY UNKNOWN\r\n".to_vec(), Some(None)),
            (b"PROXY UNKNOWN ffff::1 whatever\r\n".to_vec(), Some(None)),
            (block(0x21, 0x11, &four), v4),
            (block(0x21, 0x11, &with_extension), v4),
            (block(0x21, 0x21, &six), v6),
            (block(0x20, 0x00, &[]), Some(None)),
            (block(0x20, 0x11, &four), Some(None)),
            (block(0x21, 0x00, &[]), Some(None)),
            (block(0x21, 0x31, &[0; 216]), Some(None)),
            (block(0x21, 0x12, &four), Some(None)),
        ] {
            let length = bytes.len();
            assert_eq!(whole(&bytes), Ok((length, expected)), "{bytes:?}");
            let followed = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(whole(&followed), Ok((length, expected)));
            assert_eq!(decode(followed.chunks(1)), Ok((length, expected)));
            for cut in 0..length {
                assert_eq!(whole(&bytes[..cut]), Ok((cut, None)));
            }
        }
    }

    #[test]
    fn an_extension_says_that_the_client_speaks_tls() {
        let four = [192, 0, 2, 1, 198, 51, 100, 7, 0x12, 0x67, 1, 0xbb];
        let is_tls = |extensions: &[u8]| {
            let bytes = block(0x21, 0x11, &[&four[..], extensions].concat());
            let (_, header) = Decoder::default().feed(&bytes).unwrap();
            header.unwrap().is_tls
        };
        for (extensions, expected) in [
            (&[][..], false),
            (&[SSL, 0, 5, 1, 0, 0, 0, 0], true),
            (&[SSL, 0, 5, 7, 0, 0, 0, 0], true),
            (&[4, 0, 2, 7, 7, SSL, 0, 5, 1, 0, 0, 0, 0], true),
            // A certificate in an earlier session, without TLS in this connection.
            (&[SSL, 0, 5, 4, 0, 0, 0, 0], false),
            (&[4, 0, 5, SSL, 0, 1, 1, 1], false),
            (&[SSL, 0, 0], false),
            (&[SSL, 0, 9, 1], false),
            (&[SSL, 0], false),
        ] {
            assert_eq!(is_tls(extensions), expected, "{extensions:?}");
        }
        let local = block(0x20, 0x11, &[&four[..], &[SSL, 0, 1, 1]].concat());
        assert!(!Decoder::default().feed(&local).unwrap().1.unwrap().is_tls);
    }

    #[test]
    fn everything_else_is_refused() {
        let line = |text: &str| format!("PROXY {text}\r\n").into_bytes();
        for (bytes, problem) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), Malformed::Missing),
            (b"PROXI".to_vec(), Malformed::Missing),
            (b"\r\n\r\nG".to_vec(), Malformed::Missing),
            (b"\x16\x03\x01".to_vec(), Malformed::Missing),
            (vec![b'P'; 2], Malformed::Missing),
            ([&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(), Malformed::TooLong),
            (b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\n".to_vec(), Malformed::Line),
            (line("TCP4 192.0.2.1 198.51.100.7 4711"), Malformed::Line),
            (line("TCP4 192.0.2.1 198.51.100.7 4711 443 1"), Malformed::Line),
            (line("TCP4  192.0.2.1 198.51.100.7 4711 443"), Malformed::Line),
            (line("TCP4 192.0.2.1 198.51.100.7 +4711 443"), Malformed::Line),
            (line("TCP4 192.0.2.1 198.51.100.7 70000 443"), Malformed::Line),
            (line("TCP4 ::1 ::1 4711 443"), Malformed::Line),
            (line("TCP6 192.0.2.1 198.51.100.7 4711 443"), Malformed::Line),
            (line("UDP4 192.0.2.1 198.51.100.7 4711 443"), Malformed::Line),
            (line("UNKNOWNS"), Malformed::Line),
            (b"PROXY \xff\r\n".to_vec(), Malformed::Line),
            (block(0x11, 0x11, &[0; 12]), Malformed::Command),
            (block(0x22, 0x11, &[0; 12]), Malformed::Command),
            (block(0x21, 0x11, &[0; 11]), Malformed::Length),
            (block(0x21, 0x21, &[0; 35]), Malformed::Length),
            (block(0x20, 0x00, &[0; 4081])[..16].to_vec(), Malformed::TooLong),
        ] {
            assert_eq!(whole(&bytes), Err(problem), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_does_not_matter(
            start in prop_oneof![
                Just(Vec::new()), Just(PREFIX.to_vec()), Just(SIGNATURE.to_vec()),
                Just(b"PROXY TCP4 192.0.2.1 ".to_vec()), Just([&SIGNATURE[..], b"\x21\x11\0\x0c"].concat()),
            ],
            rest in proptest::collection::vec(any::<u8>(), 0..200),
            size in 1..20usize,
        ) {
            let bytes = [start, rest].concat();
            prop_assert_eq!(whole(&bytes), decode(bytes.chunks(size)));
        }
    }
}
