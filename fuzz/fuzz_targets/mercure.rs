//! Any bytes as updates, selectors and tokens of the Mercure protocol.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tokamak_mercure::{Algorithm, Key};

#[path = "../../crates/mercure/tests/exercise/mod.rs"]
mod exercise;

static KEY: LazyLock<Key> = LazyLock::new(|| {
    let algorithm = Algorithm::named("HS256").expect("an algorithm");
    Key::new(algorithm, "0123456789abcdef0123456789abcdef").expect("a key")
});

fuzz_target!(|bytes: &[u8]| exercise::run(bytes, &KEY));
