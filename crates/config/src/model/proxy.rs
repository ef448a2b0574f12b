//! Proxies and load balancers in front of the server, and what is believed of them.

use std::net::{IpAddr, SocketAddr};

use super::Network;

/// A header field by which a proxy describes the client or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedHeader {
    /// `X-Forwarded-For`: the client's address, after those of proxies before this one.
    For,
    /// `X-Forwarded-Proto`: the scheme.
    Proto,
    /// `X-Forwarded-Host`: the host.
    Host,
    /// `X-Forwarded-Port`: the port that the client connected to.
    Port,
    /// `Forwarded` (RFC 7239): address, scheme and host.
    Forwarded,
    /// `X-Request-Id`: the request's name.
    RequestId,
}

/// Proxies and load balancers in front of the server, and what is believed of them.
#[derive(Clone, Debug)]
pub struct Proxies {
    /// Where they are; nothing is believed of others.
    pub trusted: Vec<Network>,
    /// The header fields that are believed.
    pub headers: Vec<TrustedHeader>,
    /// Whether the operator has named those fields.
    pub has_named_headers: bool,
    /// The addresses to listen on where each connection begins with a PROXY header.
    pub protocol: Vec<SocketAddr>,
}

/// Who has named the fields makes no difference to what the server does.
impl PartialEq for Proxies {
    fn eq(&self, other: &Proxies) -> bool {
        let Proxies { trusted, headers, protocol, has_named_headers: _ } = self;
        *trusted == other.trusted && *headers == other.headers && *protocol == other.protocol
    }
}

impl Proxies {
    /// Whether what this address says of clients is believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Whether an address that a proxy names is another proxy, so that what that one says of its
    /// own client is believed, too. A network of all addresses does not count: in it are the
    /// addresses of all clients, and what a client has made up would be believed.
    pub fn trusts_named(&self, address: IpAddr) -> bool {
        let mut networks = self.trusted.iter().filter(|network| !network.is_unlimited());
        networks.any(|network| network.contains(address))
    }

    /// Whether this header field is believed.
    pub fn believes(&self, header: TrustedHeader) -> bool {
        self.headers.contains(&header)
    }
}
