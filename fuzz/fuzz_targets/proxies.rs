//! Any bytes as what proxies say of their clients: header fields, whose right end is what the last
//! proxy wrote, and PROXY headers, whose decoding does not depend on how they are cut.

#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use tokamak_front::{ProxyHeaderDecoder, chain};

fn trusts(address: IpAddr) -> bool {
    address.is_ipv6()
}

/// How many bytes of these pieces belong to the header, and whether it is complete; `None`: it is
/// malformed.
fn decode(pieces: [&[u8]; 2]) -> Option<(usize, bool)> {
    let (mut decoder, mut used) = (ProxyHeaderDecoder::default(), 0);
    for piece in pieces {
        let (count, ends) = decoder.feed(piece).ok()?;
        used += count;
        if ends.is_some() {
            return Some((used, true));
        }
    }
    Some((used, false))
}

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, bytes) = input;
    let bytes = &bytes[..bytes.len().min(4096)];
    let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(decode([bytes, b""]), decode([left, right]));
    let client = chain::client([left, right, b"192.0.2.1"].into_iter(), trusts);
    assert_eq!(client, "192.0.2.1:0".parse().ok());
    let line = [bytes, b",for=192.0.2.1;host=a"].concat();
    let origin = chain::forwarded([&line[..]].into_iter(), trusts);
    assert_eq!((origin.client, origin.host), ("192.0.2.1:0".parse().ok(), Some("a")));
    let _ = chain::client([left, right].into_iter(), trusts);
    let _ = chain::forwarded([left, right].into_iter(), trusts);
});
