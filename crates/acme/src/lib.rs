//! Gets certificates from authorities (ACME, RFC 8555), and renews them. Without this crate an
//! operator would have to.
//!
//! It runs in a process of its own, which the supervisor starts: [`run`](run()) decides by [`plan`]
//! what to do when, and does it with an authority (`authority`) by the steps of an order (`order`).
//! The process has no files: what is to be kept, and the challenges that authorities are to find,
//! go to the supervisor over a line (`line`), among them how tries have gone (`tries`).
//!
//! [`tickets`] is another such process: it has the keys of session tickets that nodes share.

mod authority;
mod board;
mod error;
mod follow;
mod hook;
mod http;
mod line;
mod name;
mod operator;
mod order;
pub mod plan;
mod run;
mod shared;
pub mod tickets;
mod tries;

use std::time::{SystemTime, UNIX_EPOCH};

pub use run::{Start, run};

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
