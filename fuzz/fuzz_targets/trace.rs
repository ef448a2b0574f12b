//! Any bytes as the trace context of a request.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/trace/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::run(bytes));
