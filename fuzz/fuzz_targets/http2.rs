//! Any bytes as the frames of an HTTP/2 client: what is counted does not depend on how they are
//! cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_front::Meter;

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, bytes) = input;
    let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
    let (mut whole, mut halves) = (Meter::new(20, 50, 9, 0), Meter::new(20, 50, 9, 0));
    let verdict = whole.feed(&mut { bytes }, 0);
    let in_two = halves.feed(&mut { left }, 0).and_then(|()| halves.feed(&mut { right }, 0));
    assert_eq!(verdict, in_two);
    if verdict.is_ok() {
        assert_eq!(whole.is_in_head(), halves.is_in_head());
    }
});
