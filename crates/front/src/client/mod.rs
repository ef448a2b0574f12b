//! The client of a request, as all code behind the protocol sees it. Only the modules below `http`
//! know its protocol and its socket.

pub mod activity;
pub mod forwarded;
pub mod host;
pub mod interim;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::task;

use http::{HeaderMap, StatusCode, Version};
use tokamak_tls::Session;
use tokamak_upstream::Flow;
use tokamak_upstream::record::Fields;

use crate::failure::Failure;

/// The addresses of both ends of a connection.
pub struct Addresses {
    /// The client's address.
    pub peer: SocketAddr,
    /// The address on which the connection came in.
    pub local: SocketAddr,
    /// Which listening socket has accepted it: an index into the addresses of the configuration,
    /// those without TLS first. It says which sites there are for the client, whatever a proxy says
    /// of the addresses.
    pub listener: usize,
    /// What its handshake has negotiated, if it has TLS.
    pub tls: Option<Box<Session>>,
    /// Whether a proxy has opened it for a client that it does not name (PROXY protocol): requests
    /// on it are that client's own words.
    pub is_for_unnamed: bool,
    /// Whether a proxy has opened it and says for whom (PROXY protocol).
    pub is_proxied: bool,
    /// Whether the client speaks TLS with a proxy that says so before the first request (PROXY
    /// protocol).
    is_secured_before: bool,
    /// Both as text; written for the first who asks.
    text: OnceLock<Text>,
    /// Both with their ports, as records of requests have them; written with the first record.
    pub record: OnceLock<Fields>,
}

/// Addresses as text.
pub struct Text {
    /// The client's address, without the port.
    pub peer: String,
    /// The server's address, without the port.
    pub local: String,
}

impl Addresses {
    /// The addresses of a connection between these two, which this listening socket has accepted.
    /// An IPv4 address in IPv6 form (`::ffff:192.0.2.1`), as sockets of both families have it,
    /// becomes an IPv4 address: limits, logs and applications know a client by one address.
    pub fn new(peer: SocketAddr, local: SocketAddr, listener: usize) -> Addresses {
        let [peer, local] = [peer, local].map(canonical);
        let (text, record) = (OnceLock::new(), OnceLock::new());
        Addresses {
            peer,
            local,
            listener,
            tls: None,
            is_for_unnamed: false,
            is_proxied: false,
            is_secured_before: false,
            text,
            record,
        }
    }

    /// The same with what a handshake has negotiated.
    pub fn secured(&self, session: Session) -> Addresses {
        let Addresses { peer, local, listener, is_for_unnamed, is_proxied, .. } = *self;
        let tls = Some(Box::new(session));
        Addresses { tls, is_for_unnamed, is_proxied, ..Addresses::new(peer, local, listener) }
    }

    /// The same for a client that the proxy at the other end names. `is_tls`: whether that client
    /// speaks TLS with the proxy.
    pub fn proxied(self, is_tls: bool) -> Addresses {
        Addresses { is_proxied: true, is_secured_before: is_tls, ..self }
    }

    /// The scheme of URLs that are asked for here: `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() || self.is_secured_before { "https" } else { "http" }
    }

    /// The same for a client that the proxy at the other end does not name.
    pub fn for_unnamed(&self) -> Addresses {
        let Addresses { peer, local, listener, .. } = *self;
        let own = Addresses::new(peer, local, listener);
        Addresses { is_for_unnamed: true, is_proxied: true, ..own }
    }

    /// Whether the client has shown a certificate.
    pub fn has_certificate(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.client.is_some())
    }

    /// Both addresses as text.
    pub fn text(&self) -> &Text {
        let Addresses { peer, local, .. } = self;
        let write = || Text { peer: peer.ip().to_string(), local: local.ip().to_string() };
        self.text.get_or_init(write)
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        // It keeps its scope.
        IpAddr::V6(_) => address,
    }
}

/// The client that waits for the response to one request.
pub trait Client: Send + Sync {
    /// The addresses of its connection. They are shared because subrequests may outlive the
    /// connection.
    fn addresses(&self) -> &Arc<Addresses>;

    /// The scheme of the request's URL: `http` or `https`.
    fn scheme(&self) -> &'static str;

    /// How many requests have come on the connection, this one included.
    fn requests(&self) -> u32;

    /// The requests with which this one shares its connection; `None`: its protocol has one at a
    /// time.
    fn flow(&self) -> Option<Flow>;

    /// Ready if the client has gone. It is polled while a request is being answered and the
    /// response has to wait. It cannot tell as long as unread bytes of a next request lie in the
    /// socket.
    fn poll_gone(&self, cx: &mut task::Context<'_>) -> task::Poll<()>;

    /// Whether it can be given a WebSocket in place of a response's body.
    fn takes_websocket(&self) -> bool;

    /// Sends an interim response (RFC 9110 section 15.2). Interim responses are optional: this is a
    /// no-op if the client's protocol has none, or if other bytes are being sent.
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap);

    /// The failure for a client that has broken a rule of its protocol.
    fn violation(&self) -> Option<Failure>;

    /// Called when the whole response has been handed over, or when the client has gone. `now` is
    /// in nanoseconds.
    fn served(&self, now: u64);

    /// Bytes that have come since this was last asked. Those of a next request that came with the
    /// last bytes of this one are among them: only sums are right to the byte.
    fn take_received(&self) -> u64;
}

/// A protocol's version as `SERVER_PROTOCOL` (RFC 3875 section 4.1.16), in the form that nginx and
/// Apache use.
pub fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_in_ipv6_form_becomes_an_ipv4_address() {
        let [peer, local] = ["[::ffff:192.0.2.1]:4711", "[::ffff:192.0.2.9]:80"];
        let addresses = Addresses::new(peer.parse().unwrap(), local.parse().unwrap(), 0);
        assert_eq!(addresses.peer.to_string(), "192.0.2.1:4711");
        assert_eq!(addresses.local.to_string(), "192.0.2.9:80");
        let scoped: SocketAddr = "[fe80::1%2]:80".parse().unwrap();
        assert_eq!(Addresses::new(scoped, scoped, 0).peer, scoped);
    }
}
