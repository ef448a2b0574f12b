//! Gets certificates from authorities (ACME, RFC 8555), and renews them. Without this crate an
//! operator would have to.
//!
//! It runs in a process of its own, which the supervisor starts: [`run`](run()) decides by [`plan`]
//! what to do when, and does it with an authority (`authority`) by the steps of an order (`order`).
//! The process has no files: what is to be kept, and the challenges that authorities are to find,
//! go to the supervisor over a line (`line`), among them how tries have gone (`tries`).

mod authority;
mod error;
mod hook;
mod http;
mod line;
mod order;
pub mod plan;
mod run;
mod tries;

pub use run::{Start, run};
