//! Networks of clients and of proxies.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// Machines, by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// All of them.
    All,
    /// This machine and the ranges of private networks: `10.0.0.0/8`, `172.16.0.0/12`,
    /// `192.168.0.0/16`, `127.0.0.0/8`, `fc00::/7`, `::1`.
    Private,
    /// Those of a network, or a single one.
    Of(IpNet),
}

impl Network {
    /// Whether an address belongs to it. An IPv4 address may be written as one of IPv6
    /// (`::ffff:192.0.2.1`), as the kernel does for sockets of both.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Network::All, _) => true,
            (Network::Private, IpAddr::V4(address)) => {
                address.is_private() || address.is_loopback()
            }
            (Network::Private, IpAddr::V6(address)) => {
                address.is_unique_local() || address.is_loopback()
            }
            (Network::Of(network), address) => network.contains(&address),
        }
    }

    /// Whether it has every address of a family, and so says nothing of a single one.
    pub fn is_unlimited(&self) -> bool {
        match self {
            Network::All => true,
            Network::Private => false,
            Network::Of(network) => network.prefix_len() == 0,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::All => f.write_str("all"),
            Network::Private => f.write_str("private"),
            Network::Of(net) if net.prefix_len() == net.max_prefix_len() => net.addr().fmt(f),
            Network::Of(net) => net.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let net = |text: &str| Network::Of(text.parse().unwrap());
        for (network, inside, outside) in [
            (Network::Private, "10.255.0.1", "11.0.0.1"),
            (Network::Private, "172.31.0.1", "172.32.0.1"),
            (Network::Private, "::ffff:192.168.1.1", "::ffff:192.169.1.1"),
            (Network::Private, "127.0.0.53", "169.254.169.254"),
            (Network::Private, "fd12::1", "2001:db8::1"),
            (Network::Private, "::1", "fe80::1"),
            (net("10.0.0.0/8"), "10.1.2.3", "192.168.0.1"),
            (net("10.0.0.0/8"), "::ffff:10.1.2.3", "::10.1.2.3"),
            (net("2001:db8::/32"), "2001:db8:1::", "2001:db9::"),
            (net("192.0.2.7/32"), "192.0.2.7", "192.0.2.8"),
        ] {
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }
}
