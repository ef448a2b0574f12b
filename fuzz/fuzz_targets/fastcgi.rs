//! Any bytes as a FastCGI connection, and as name-value pairs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/fastcgi/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::run(bytes));
