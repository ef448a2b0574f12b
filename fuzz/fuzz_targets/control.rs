//! Any bytes as what supervisor, front and zygotes tell each other: what is understood has one
//! spelling.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_sys::control::{FromFront, FromZygote, Message, ToFront, ToZygote};

fn one_spelling<M: Message>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    one_spelling::<ToZygote>(bytes);
    one_spelling::<FromZygote>(bytes);
    one_spelling::<ToFront>(bytes);
    one_spelling::<FromFront>(bytes);
});
