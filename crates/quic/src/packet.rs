//! A datagram on its way to the event loop that serves its connection, and its form between two
//! processes:
//!
//! ```text
//! 1       the ECN bits
//! 1 + 18  where it has come from: 4 or 6, port (big endian), address (4 bytes are padded)
//! 1 + 18  the same for the socket that has received it
//! 1 + 18  the same for where it was sent; the address is 0 if the system has not said it
//! …       the datagram
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use quinn::udp::{EcnCodepoint, RecvMeta};

const ADDRESS: usize = 19;
const HEAD: usize = 1 + 3 * ADDRESS;

/// A datagram that was read by another event loop than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The datagram.
    pub bytes: Bytes,
    /// The address of the client.
    pub peer: SocketAddr,
    /// The address of the socket that has received it.
    pub socket: SocketAddr,
    /// The address to which it was sent, if the system has said it.
    pub local: Option<IpAddr>,
    /// Its ECN bits.
    pub ecn: u8,
}

impl Packet {
    /// One that was read on this socket.
    pub fn new(bytes: &[u8], meta: &RecvMeta, socket: SocketAddr) -> Packet {
        Packet {
            bytes: Bytes::copy_from_slice(bytes),
            peer: meta.addr,
            socket,
            local: meta.dst_ip,
            ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
        }
    }

    /// What the QUIC library wants to know of it.
    pub fn meta(&self) -> RecvMeta {
        RecvMeta {
            addr: self.peer,
            len: self.bytes.len(),
            stride: self.bytes.len(),
            ecn: EcnCodepoint::from_bits(self.ecn),
            dst_ip: self.local,
        }
    }

    /// Its form between two processes.
    pub fn encode(&self) -> Vec<u8> {
        let unspecified = match self.socket {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut message = Vec::with_capacity(HEAD + self.bytes.len());
        message.push(self.ecn);
        put(&mut message, self.peer);
        put(&mut message, self.socket);
        put(&mut message, SocketAddr::new(self.local.unwrap_or(unspecified), 0));
        message.extend_from_slice(&self.bytes);
        message
    }

    /// Reads that form. `None`: it is malformed.
    pub fn decode(message: &[u8]) -> Option<Packet> {
        let (ecn, rest) = message.split_first()?;
        let (peer, rest) = take(rest)?;
        let (socket, rest) = take(rest)?;
        let (local, bytes) = take(rest)?;
        Some(Packet {
            bytes: Bytes::copy_from_slice(bytes),
            peer,
            socket,
            local: Some(local.ip()).filter(|ip| !ip.is_unspecified()),
            ecn: *ecn,
        })
    }
}

fn put(message: &mut Vec<u8>, address: SocketAddr) {
    message.push(if address.is_ipv4() { 4 } else { 6 });
    message.extend_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            message.extend_from_slice(&ip.octets());
            message.extend_from_slice(&[0; 12]);
        }
        IpAddr::V6(ip) => message.extend_from_slice(&ip.octets()),
    }
}

fn take(message: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (address, rest) = message.split_first_chunk::<ADDRESS>()?;
    let [kind, high, low, ip @ ..] = address;
    let port = u16::from_be_bytes([*high, *low]);
    let ip = match kind {
        4 => IpAddr::V4(Ipv4Addr::from(*ip.first_chunk::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(*ip)),
        _ => return None,
    };
    Some((SocketAddr::new(ip, port), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_passes_between_processes() {
        for (peer, socket, local) in [
            ("192.0.2.1:4711", "0.0.0.0:443", Some("192.0.2.9")),
            ("192.0.2.1:4711", "192.0.2.9:443", None),
            ("[2001:db8::1]:1", "[::]:443", Some("2001:db8::9")),
        ] {
            let packet = Packet {
                bytes: Bytes::from_static(b"abc"),
                peer: peer.parse().unwrap(),
                socket: socket.parse().unwrap(),
                local: local.map(|local| local.parse().unwrap()),
                ecn: 2,
            };
            let message = packet.encode();
            assert_eq!(Packet::decode(&message), Some(packet.clone()));
            assert_eq!(Packet::decode(&message[..message.len() - 4]), None, "cut");
            assert_eq!(packet.meta().ecn, Some(EcnCodepoint::Ect0));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_message_panics(message: Vec<u8>) {
            let _ = Packet::decode(&message);
        }
    }
}
