//! Any bytes as a client's certificate, as files of certificates and keys, and as credentials.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tls/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::run(bytes));
