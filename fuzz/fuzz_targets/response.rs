//! Any bytes as what another service answers to a script: the verdict on them does not depend on
//! how they are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_outbound::http::{Decoder, Response};

const MOST: usize = 1000;

/// The response, or none, after these pieces and the connection's end.
fn decode(is_for_head: bool, pieces: &[&[u8]]) -> Option<(Response, bool, usize)> {
    let mut decoder = Decoder::new(is_for_head, MOST);
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        let count = decoder.take(&input).ok()?;
        input.drain(..count);
    }
    decoder.close().ok()?;
    let keeps = decoder.keeps();
    Some((decoder.response, keeps, input.len()))
}

fuzz_target!(|input: (bool, usize, &[u8])| {
    let (is_for_head, cut, bytes) = input;
    let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
    let whole = decode(is_for_head, &[bytes]);
    assert_eq!(whole, decode(is_for_head, &[left, right]));
    assert!(whole.is_none_or(|(response, ..)| response.body.len() <= MOST));
});
