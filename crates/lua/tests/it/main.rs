//! What scripts see and do, from outside: each test gives a script to the crate as the front would.

mod anything;
mod cache;
mod calls;
mod cml;
mod content_cache;
mod contract;
#[path = "../exercise/mod.rs"]
mod exercise;
mod guide;
mod harness;
mod hostile;
mod patterns;
mod program;
mod shared;
mod tables;
mod waiting;
