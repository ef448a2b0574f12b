//! Any rules of a site, and any request for it: redirects lead to one place, and what is refused
//! stays refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/front/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|input: (Vec<(u8, &str, &str)>, &str, &str)| {
    let (rules, target, host) = input;
    exercise::run(&rules, target, host);
});
