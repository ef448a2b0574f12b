//! Any bytes as what an HTTP client sends: the verdict on them does not depend on how they are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_front::screen::{Limits, Screen};

const LIMITS: Limits = Limits { head: 4096, fields: 32, body: 10_000 };

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, bytes) = input;
    let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
    let (mut whole, mut halves) = (Screen::new(LIMITS), Screen::new(LIMITS));
    let verdict = whole.feed(bytes);
    let in_two = halves.feed(left).and_then(|()| halves.feed(right));
    assert_eq!(verdict, in_two);
    if verdict.is_ok() {
        assert_eq!((whole.part(), whole.body()), (halves.part(), halves.body()));
    }
});
