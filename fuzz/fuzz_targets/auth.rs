//! Any bytes as a file of users, as what a client sends as its login, and as files on their way.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/auth/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::run(bytes));
