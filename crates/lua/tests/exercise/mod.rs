//! What must hold for any bytes at all that scripts hand on: the fuzz target and the stable test
//! both run this.

use tokamak_lua::{Limits, Outcome, Stage};

use crate::harness::{Memory, Site};

const SCRIPT: &str = include_str!("exercise.lua");

thread_local! {
    static SITE: Site = Site::new(Limits::default(), &[("exercise.lua", SCRIPT)]);
}

/// Gives these bytes to the functions of `lighty.c` and to both matchers of patterns.
///
/// # Panics
/// Something does not hold.
pub fn run(bytes: &[u8]) {
    // A pattern that takes longer than a script may is no news, and its text need not be long.
    let bytes = &bytes[..bytes.len().min(256)];
    let memory = Memory { request_body: Some(bytes.to_vec()), ..Memory::default() };
    let (outcome, memory) = SITE.with(|site| site.ask_at(Stage::RawUrl, "exercise.lua", memory));
    assert_eq!(outcome, Outcome::Answer(204), "{}: {:?}", bytes.escape_ascii(), memory.log);
}
