//! Reads the header fields by which proxies describe their clients: bytes in, addresses out.
//!
//! Each proxy appends the address that it was asked from, so the values are read from the right,
//! where they were written by those who are trusted. The first address from the right that is not
//! trusted is the client; all that stands left of it may be the client's invention. Commas always
//! divide, also between quotes: an address, a scheme and a host have none, and a client that opens
//! a quote could otherwise swallow what a proxy appends.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::uri::Authority;

use crate::client::host::is_host;

/// Most addresses that are read from the right. Real requests pass fewer than five proxies. Ten
/// times more would let one request of trusted proxies cost some microseconds; with a tenth of it
/// long chains would end at one of their proxies.
const MOST_HOPS: usize = 32;

/// Longest host name that is taken over, with its port (RFC 1035 section 2.3.4, and six more).
const LONGEST_HOST: usize = 261;

/// What the elements of trusted proxies say of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Its address; the port is 0 if it is not known.
    pub client: Option<SocketAddr>,
    /// The scheme of its request: `http` or `https`.
    pub scheme: Option<&'static str>,
    /// The host of its request, perhaps with a port.
    pub host: Option<&'a str>,
}

/// The client, by the values of `X-Forwarded-For` from left to right. `None` if the proxy names
/// none.
pub fn client<'a>(
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusts: impl Fn(IpAddr) -> bool,
) -> Option<SocketAddr> {
    let mut client = None;
    for item in elements(values) {
        let Some(address) = node(item) else { break };
        client = Some(address);
        if !trusts(address.ip()) {
            break;
        }
    }
    client
}

/// What the values of `Forwarded` (RFC 7239) say of the client. An element is believed if the proxy
/// that wrote it is trusted, which the element to its right names.
pub fn forwarded<'a>(
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusts: impl Fn(IpAddr) -> bool,
) -> Origin<'a> {
    let mut origin = Origin::default();
    for item in elements(values) {
        let Some(element) = Element::read(item) else { break };
        origin.scheme = element.scheme.or(origin.scheme);
        origin.host = element.host.or(origin.host);
        // `unknown` and names that hide an address end the chain, as rubbish does.
        let Some(address) = element.client.and_then(node) else { break };
        origin.client = Some(address);
        if !trusts(address.ip()) {
            break;
        }
    }
    origin
}

/// The last element of a list, which the nearest proxy wrote.
pub fn last<'a>(values: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    elements(values).next()
}

/// The elements of a list from right to left.
fn elements<'a>(
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    values
        .rev()
        .flat_map(|value| value.rsplit(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .take(MOST_HOPS)
}

/// The scheme of this name.
pub fn scheme(name: &[u8]) -> Option<&'static str> {
    ["http", "https"].into_iter().find(|scheme| name.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// A host, perhaps with a port, that may stand in a `Host` header: the header of a client is held
/// to the same.
pub fn host(text: &[u8]) -> Option<&str> {
    let is_good = |text: &&str| {
        text.parse::<Authority>().is_ok_and(|authority| {
            let has_good_port = authority.host() == *text || authority.port_u16().is_some();
            has_good_port && text.len() <= LONGEST_HOST && is_host(text.as_bytes())
        })
    };
    str::from_utf8(text).ok().filter(is_good)
}

/// A port that a client can connect to.
pub fn port(text: &[u8]) -> Option<u16> {
    digits(text).filter(|port| *port > 0)
}

fn digits(text: &[u8]) -> Option<u16> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(text).ok()?.parse().ok())?
}

/// An address in any form that proxies write: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:80`. An IPv4 address in IPv6 form becomes an IPv4 address. The
/// port that a proxy hides (`:_name`, RFC 7239 section 6) is not known.
fn node(text: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address.to_canonical(), 0));
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (IpAddr::V6(address.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let (address, port) = text.split_once(':')?;
            (IpAddr::V4(address.parse().ok()?), Some(port))
        }
    };
    let port = match port {
        None => 0,
        Some(port) if is_hidden(port) => 0,
        Some(port) => digits(port.as_bytes())?,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

/// Whether it is a name that a proxy has made up (RFC 7239 section 6.3).
fn is_hidden(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.strip_prefix('_').is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter))
}

/// One element of `Forwarded`: what one proxy says.
#[derive(Default)]
struct Element<'a> {
    client: Option<&'a [u8]>,
    scheme: Option<&'static str>,
    host: Option<&'a str>,
}

impl<'a> Element<'a> {
    /// Reads an element. `None` if it is malformed, or says one thing twice.
    fn read(text: &'a [u8]) -> Option<Element<'a>> {
        let (mut element, mut seen) = (Element::default(), [false; 3]);
        for pair in text.split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            if pair.is_empty() {
                continue;
            }
            let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
            let value = unquoted(&value[1..])?;
            let known = ["for", "proto", "host"];
            let known = known.iter().position(|own| name.eq_ignore_ascii_case(own.as_bytes()));
            let Some(known) = known else { continue };
            if std::mem::replace(&mut seen[known], true) {
                return None;
            }
            match known {
                0 => element.client = Some(value),
                1 => element.scheme = Some(scheme(value)?),
                _ => element.host = Some(host(value)?),
            }
        }
        seen.contains(&true).then_some(element)
    }
}

/// A token, or what is between quotes. Escapes are malformed here: nothing that is read needs them.
fn unquoted(text: &[u8]) -> Option<&[u8]> {
    let inner = match text {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    };
    (!inner.iter().any(|byte| matches!(byte, b'"' | b'\\'))).then_some(inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_private(address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
    }

    fn of(values: &[&str]) -> String {
        let client = client(values.iter().map(|value| value.as_bytes()), is_private);
        client.map(|client| client.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_trusted() {
        for (values, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1:0"),
            (&["192.0.2.1:4711"], "192.0.2.1:4711"),
            (&["203.0.113.9, 192.0.2.1"], "192.0.2.1:0"),
            (&["203.0.113.9, 192.0.2.1,10.0.0.2 , 10.0.0.3"], "192.0.2.1:0"),
            (&["203.0.113.9", "192.0.2.1", "10.0.0.2"], "192.0.2.1:0"),
            (&["10.0.0.1, 10.0.0.2"], "10.0.0.1:0"),
            (&["2001:db8::1"], "[2001:db8::1]:0"),
            (&["[2001:db8::1]"], "[2001:db8::1]:0"),
            (&["[2001:db8::1]:80"], "[2001:db8::1]:80"),
            (&["::ffff:192.0.2.1"], "192.0.2.1:0"),
            (&["192.0.2.1, ::ffff:10.0.0.1"], "192.0.2.1:0"),
            // Rubbish ends the chain at the last good address.
            (&["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2:0"),
            (&["192.0.2.1, , 10.0.0.2"], "10.0.0.2:0"),
            (&["192.0.2.1, "], ""),
            (&[""], ""),
            (&["localhost"], ""),
            (&["192.0.2.256"], ""),
            (&["192.0.2.1:99999"], ""),
            (&["192.0.2.1:+80"], ""),
            (&["192.0.2.1:"], ""),
            (&["[2001:db8::1"], ""),
            (&["[2001:db8::1]80"], ""),
            (&["[192.0.2.1]"], ""),
            (&["fe80::1%eth0"], ""),
            (&["\"192.0.2.1\""], ""),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
        let long = vec!["10.0.0.1"; 1000].join(",");
        assert_eq!(of(&["192.0.2.1", &long]), "10.0.0.1:0");
    }

    #[test]
    fn an_element_of_forwarded_is_believed_if_its_writer_is() {
        for (value, address, scheme, host) in [
            ("for=192.0.2.1;proto=https;host=a.org", "192.0.2.1:0", "https", "a.org"),
            ("For=\"[2001:db8::1]:4711\"; Proto=HTTPS", "[2001:db8::1]:4711", "https", ""),
            ("for=\"192.0.2.1:_port\";by=_x", "192.0.2.1:0", "", ""),
            (
                "for=6.6.6.6;proto=http, for=192.0.2.1;proto=https, for=10.0.0.1",
                "192.0.2.1:0",
                "https",
                "",
            ),
            (
                "for=192.0.2.1;host=\"a.org:8443\", for=10.0.0.1;proto=https",
                "192.0.2.1:0",
                "https",
                "a.org:8443",
            ),
            // A hidden client: what its proxy says of scheme and host still holds.
            ("for=6.6.6.6;host=evil, for=_hidden;proto=https;host=a.org", "", "https", "a.org"),
            ("for=unknown", "", "", ""),
            ("proto=https", "", "https", ""),
            // A client's open quote swallows nothing.
            ("for=\"6.6.6.6, for=192.0.2.1", "192.0.2.1:0", "", ""),
            ("for=6.6.6.6;x=\"a, for=10.0.0.1;x=\"b\"", "10.0.0.1:0", "", ""),
            ("for=192.0.2.1;for=10.0.0.1", "", "", ""),
            ("for=192.0.2.1;proto=gopher", "", "", ""),
            ("for=192.0.2.1;host=\"a b\"", "", "", ""),
            ("for=192.0.2.1;host=u@a.org", "", "", ""),
            ("for=\"192.0.2.\\1\"", "", "", ""),
            ("by=10.0.0.1", "", "", ""),
            ("192.0.2.1", "", "", ""),
            ("", "", "", ""),
        ] {
            let origin = forwarded([value.as_bytes()].into_iter(), is_private);
            let client = origin.client.map(|client| client.to_string()).unwrap_or_default();
            let (has, has_host) = (origin.scheme.unwrap_or(""), origin.host.unwrap_or(""));
            assert_eq!((&client[..], has, has_host), (address, scheme, host), "{value}");
        }
    }

    #[test]
    fn hosts_and_ports_are_whole_or_nothing() {
        for (text, is_good) in [
            ("a.org", true),
            ("a.org:8443", true),
            ("[::1]:80", true),
            ("", false),
            ("a.org/x", false),
            ("u@a.org", false),
            ("a org", false),
            ("a.org:99999999", false),
            ("a.org'", false),
            ("a(b)", false),
            ("a;b", false),
            ("a,b", false),
        ] {
            assert_eq!(host(text.as_bytes()).is_some(), is_good, "{text}");
        }
        assert!(host(&vec![b'a'; 300]).is_none());
        assert_eq!(port(b"443"), Some(443));
        for text in ["", "0", "-1", "65536", "443 ", "0x1"] {
            assert_eq!(port(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_trusted_proxies_append_decides(
            invented in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let appended = [&invented[..], b"192.0.2.1, 10.0.0.7"];
            prop_assert_eq!(
                client(appended.into_iter(), is_private),
                Some("192.0.2.1:0".parse().unwrap()),
            );
            let line = [&invented[..], b", for=192.0.2.1;proto=https;host=a.org"].concat();
            let origin = forwarded([&line[..]].into_iter(), is_private);
            prop_assert_eq!(origin.client, Some("192.0.2.1:0".parse().unwrap()));
            prop_assert_eq!((origin.scheme, origin.host), (Some("https"), Some("a.org")));
            let _ = (client([&invented[..]].into_iter(), is_private), port(&invented));
            let _ = forwarded([&invented[..]].into_iter(), is_private);
        }

        #[test]
        fn every_address_is_read_back(address: SocketAddr) {
            let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
            // A flow label and a scope are of one machine only.
            let text = canonical.to_string();
            prop_assume!(!text.contains('%'));
            let read = node(text.as_bytes()).unwrap();
            prop_assert_eq!((read.ip(), read.port()), (canonical.ip(), canonical.port()));
        }
    }
}
