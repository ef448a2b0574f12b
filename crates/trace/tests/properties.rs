//! What holds for the trace context of any request.

use proptest::prelude::*;

mod exercise;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        exercise::run(&bytes);
    }

    #[test]
    fn nearly_a_parent(
        text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[a-z]*)?",
        at in 0_usize..60,
        byte: Option<u8>,
    ) {
        let mut bytes = text.into_bytes();
        if let (Some(byte), Some(place)) = (byte, bytes.get_mut(at)) {
            *place = byte;
        }
        exercise::run(&bytes);
    }

    #[test]
    fn nearly_a_state(text in "( ?[a-z0-9]{1,9}(@[a-z]{1,3})?={1,2}[ -~]{0,140}[,\0]?){0,40}") {
        exercise::run(text.as_bytes());
    }
}
