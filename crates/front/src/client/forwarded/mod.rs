//! Clients behind trusted proxies: the request becomes the one that the client made. Its addresses,
//! scheme, host and name are what the proxy says, so routes, limits, logs, caches, scripts and
//! applications all see the same.

pub mod chain;
mod proxied;

use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use tokamak_config::{self as config, Proxies, TrustedHeader};

use super::{Addresses, Client, host};
use crate::request_id::RequestId;
use chain::Origin;
use proxied::Proxied;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST_THERE: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// Turns requests of trusted proxies into those of their clients, and names requests.
pub struct Forwarding {
    proxies: Proxies,
    names_requests: bool,
}

impl Forwarding {
    /// What the configuration asks for; `None` if no proxy is trusted and requests get no names.
    pub fn new(config: &config::Server) -> Option<Forwarding> {
        let (proxies, names_requests) = (config.proxies.clone(), config.request_ids);
        let is_used = names_requests || !proxies.trusted.is_empty();
        is_used.then_some(Forwarding { proxies, names_requests })
    }

    /// The client that the request is of. The request gets the host and the name that it has for
    /// this client.
    pub fn resolve<B>(&self, client: Arc<dyn Client>, request: &mut Request<B>) -> Arc<dyn Client> {
        let addresses = client.addresses();
        let is_trusted = !addresses.is_for_unnamed && self.proxies.trusts(addresses.peer.ip());
        if self.names_requests {
            let takes_over = is_trusted && self.proxies.believes(TrustedHeader::RequestId);
            RequestId::put(request, takes_over);
        }
        if !is_trusted {
            return client;
        }
        let Origin { client: peer, scheme, host } = self.origin(request.headers());
        let host = host.and_then(|host| HeaderValue::from_str(host).ok());
        let port = self.port(request.headers());
        if let Some(host) = host {
            host::set(request, host);
        }
        if self.proxies.believes(TrustedHeader::Forwarded) {
            reduce(request.headers_mut(), scheme);
        }
        if peer.is_none() && scheme.is_none() && port.is_none() {
            return client;
        }
        let Addresses { peer: proxy, local, listener, .. } = **client.addresses();
        let port = port.or_else(|| scheme.map(|scheme| port_of(request.headers(), scheme)));
        let local = SocketAddr::new(local.ip(), port.unwrap_or(local.port()));
        let addresses = Arc::new(Addresses::new(peer.unwrap_or(proxy), local, listener));
        let scheme = scheme.unwrap_or(client.scheme());
        Arc::new(Proxied { client, addresses, scheme })
    }

    /// What the believed fields say of the client.
    fn origin<'a>(&self, headers: &'a HeaderMap) -> Origin<'a> {
        let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let trusts = |address| self.proxies.trusts_named(address);
        if self.proxies.believes(TrustedHeader::Forwarded) {
            return chain::forwarded(values(FORWARDED), trusts);
        }
        let believed = |header, name| {
            let is_believed = self.proxies.believes(header);
            is_believed.then(|| chain::last(values(name))).flatten()
        };
        let client = self.proxies.believes(TrustedHeader::For);
        Origin {
            client: client.then(|| chain::client(values(FOR), trusts)).flatten(),
            scheme: believed(TrustedHeader::Proto, PROTO).and_then(chain::scheme),
            host: believed(TrustedHeader::Host, HOST_THERE).and_then(chain::host),
        }
    }

    /// The port that the client connected to, if the proxy may say so and does.
    fn port(&self, headers: &HeaderMap) -> Option<u16> {
        let values = headers.get_all(PORT).iter().map(HeaderValue::as_bytes);
        let is_believed = self.proxies.believes(TrustedHeader::Port);
        is_believed.then(|| chain::last(values)).flatten().and_then(chain::port)
    }
}

/// The port of the URL that a client asked for: that of its `Host`, or the scheme's own.
fn port_of(headers: &HeaderMap, scheme: &str) -> u16 {
    let host = headers.get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
    let port = host.rsplit(|byte| *byte == b':').next().and_then(chain::port);
    let is_named = host.contains(&b':') && !host.ends_with(b"]");
    port.filter(|_| is_named).unwrap_or(if scheme == "https" { 443 } else { 80 })
}

/// Leaves only the scheme of `Forwarded` for those who answer the request: the content cache
/// distinguishes requests by this field, and with an address in it each client would have an entry
/// of its own. The address and the host are in `REMOTE_ADDR` and `Host`.
fn reduce(headers: &mut HeaderMap, scheme: Option<&'static str>) {
    match scheme {
        Some("https") => _ = headers.insert(FORWARDED, HeaderValue::from_static("proto=https")),
        Some(_) => _ = headers.insert(FORWARDED, HeaderValue::from_static("proto=http")),
        None => _ = headers.remove(FORWARDED),
    }
}

#[cfg(test)]
mod tests {
    use tokamak_config::Network;

    use super::*;

    #[test]
    fn a_network_of_all_addresses_is_for_the_peer_only() {
        for (trusted, expected) in [
            (&["all"][..], "10.0.0.1:0"),
            (&["0.0.0.0/0", "::/0"], "10.0.0.1:0"),
            (&["all", "10.0.0.0/8"], "192.0.2.1:0"),
        ] {
            let network = |text: &&str| match *text {
                "all" => Network::All,
                text => Network::Of(text.parse().unwrap()),
            };
            let trusted: Vec<Network> = trusted.iter().map(network).collect();
            for (header, name, value) in [
                (TrustedHeader::For, FOR, "6.6.6.6, 192.0.2.1, 10.0.0.1"),
                (TrustedHeader::Forwarded, FORWARDED, "for=6.6.6.6, for=192.0.2.1, for=10.0.0.1"),
            ] {
                let proxies = Proxies {
                    trusted: trusted.clone(),
                    headers: vec![header],
                    ..Proxies::default()
                };
                let forwarding = Forwarding { proxies, names_requests: false };
                let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
                assert!(forwarding.proxies.trusts("203.0.113.1".parse().unwrap()));
                let client = forwarding.origin(&headers).client.unwrap();
                assert_eq!(client.to_string(), expected, "{trusted:?} {value}");
            }
        }
    }

    #[test]
    fn the_port_is_that_of_the_host_or_of_the_scheme() {
        for (host, scheme, port) in [
            ("a.org:8443", "https", 8443),
            ("a.org", "https", 443),
            ("a.org", "http", 80),
            ("[::1]:81", "http", 81),
            ("[2001:db8::81]", "http", 80),
            ("a.org:", "http", 80),
            ("", "https", 443),
        ] {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert_eq!(port_of(&headers, scheme), port, "{host}");
        }
    }

    #[test]
    fn the_host_of_the_client_replaces_that_of_the_request_line() {
        let mut request = Request::get("http://inside:8080/a?b").header(HOST, "inside").body(());
        let request = request.as_mut().unwrap();
        host::set(request, HeaderValue::from_static("a.org"));
        assert_eq!(
            (request.uri().to_string(), &request.headers()[HOST]),
            ("/a?b".into(), &HeaderValue::from_static("a.org"))
        );
    }
}
