//! Any bytes in scripts' hands.

use proptest::prelude::*;

use crate::exercise;

/// Bytes that are a pattern more often than not, and what encodings are made of.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(b"%%%[[]]^$()()**+-??..\"\\\\&=;/,. abAB09_\xff\0\n".to_vec());
    prop::collection::vec(part, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn likely_bytes(bytes in likely()) {
        exercise::run(&bytes);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        exercise::run(&bytes);
    }
}
