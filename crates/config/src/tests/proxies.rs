//! Proxies in front of the server.

use super::{Place, has};
use crate::{Network, TrustedHeader};

#[test]
fn networks_are_read_and_written_back() {
    let place = Place::with(&["index.php"]);
    let text = "trusted_proxies = [\"private\", \"203.0.113.0/24\", \"2001:db8::/32\", \"::1\"]\n\
                trusted_headers = \"forwarded\"\n";
    let proxies = place.load(text).unwrap().proxies;
    assert_eq!(proxies.trusted[0], Network::Private);
    let written: Vec<String> = proxies.trusted.iter().map(Network::to_string).collect();
    assert_eq!(written, ["private", "203.0.113.0/24", "2001:db8::/32", "::1"]);
    assert_eq!(proxies.headers, [TrustedHeader::Forwarded]);
    let proxies = place.load("").unwrap().proxies;
    assert!(proxies.trusted.is_empty() && proxies.protocol.is_empty());
    assert_eq!(proxies.headers, [TrustedHeader::For]);
}

#[test]
fn what_would_be_unsafe_or_without_effect_is_refused() {
    let place = Place::with(&["index.php"]);
    for (text, parts) in [
        ("trusted_proxies = \"10.0.0.1/8\"", &["trusted_proxies", "write \"10.0.0.0/8\""][..]),
        (
            "trusted_proxies = \"10.0.0.0/33\"",
            &["`10.0.0.0/33` is neither an address nor a network"],
        ),
        (
            "trusted_proxies = \"balancer.internal\"",
            &["is neither an address nor a network", "\"private\""],
        ),
        ("trusted_headers = [\"x-real-ip\"]", &["trusted_headers", "`x-real-ip` is unknown"]),
        (
            "trusted_headers = [\"x-forwarded-for\", \"forwarded\"]",
            &["trusted_headers", "keep the one that yours sets"],
        ),
        ("proxy_protocol = \"127.0.0.1:8080\"", &["proxy_protocol", "needs `trusted_proxies`"]),
        (
            "trusted_proxies = \"private\"\nproxy_protocol = \"127.0.0.1:8081\"",
            &["proxy_protocol", "127.0.0.1:8081 is not among the addresses of `listen` and"],
        ),
    ] {
        has(&place.errors(&format!("{text}\n")), parts);
    }
}
