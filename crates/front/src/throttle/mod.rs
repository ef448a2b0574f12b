//! How often a client has asked of late, and how many of its requests are being served: the state
//! of all limits by client, shared by the event loops of a front. Which limits there are, and for
//! whose requests, the callers know.

mod buckets;
mod exceeded;
mod pace;
mod running;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

pub use buckets::Buckets;
pub use exceeded::{Exceeded, LimitKind};
pub use pace::Pace;
pub use running::{Running, Slot};

/// Bits of an IPv6 address that stand for one client: a subscriber gets a network of this size, and
/// could take another address of it for each request.
const CLIENT_BITS: u32 = 64;

/// The state of all limits.
pub struct Throttle {
    /// With a random key, so that nobody can choose clients whose buckets displace each other.
    hasher: RandomState,
    /// The rates of clients.
    pub buckets: Buckets,
    /// The requests of clients that are being served.
    pub running: Arc<Running>,
    /// How often clients have exceeded a limit.
    pub exceeded: Exceeded,
}

/// A client, as one limit counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey(u64);

impl Throttle {
    /// Without a client so far, for so many sites.
    pub fn new(sites: usize) -> Throttle {
        let (buckets, running) = (Buckets::default(), Arc::default());
        let exceeded = Exceeded::new(sites);
        Throttle { hasher: RandomState::new(), buckets, running, exceeded }
    }

    /// The client with this address, for the limit with this number.
    pub fn address(&self, limit: u32, address: IpAddr) -> ClientKey {
        ClientKey(self.hasher.hash_one((limit, network(address))))
    }

    /// The client with this name that it has given itself, for the limit with this number.
    pub fn name(&self, limit: u32, name: &[u8]) -> ClientKey {
        ClientKey(self.hasher.hash_one((limit, name)))
    }
}

/// The address without the bits that a client can choose.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> (128 - CLIENT_BITS) << (128 - CLIENT_BITS);
            IpAddr::V6(bits.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let throttle = Throttle::new(1);
        let key = |limit, address: &str| throttle.address(limit, address.parse().unwrap());
        assert_eq!(key(1, "2001:db8:1:2::1"), key(1, "2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(key(1, "2001:db8:1:2::1"), key(1, "2001:db8:1:3::1"));
        assert_eq!(key(1, "::ffff:192.0.2.1"), key(1, "192.0.2.1"));
        assert_ne!(key(1, "192.0.2.1"), key(1, "192.0.2.2"));
        assert_ne!(key(1, "192.0.2.1"), key(2, "192.0.2.1"));
        assert_ne!(throttle.name(1, b"a"), throttle.name(1, b"b"));
    }
}
