//! Any bytes in the hands of a Lua script: the functions of `lighty.c`, and both matchers of
//! patterns.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/lua/tests/exercise/mod.rs"]
mod exercise;
#[path = "../../crates/lua/tests/it/harness/site.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| exercise::run(bytes));
