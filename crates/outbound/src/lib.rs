//! Calls to other services: without it, scripts could only use what they bring along.
//!
//! Each event loop has clients of its own, whose connections live on that loop: an HTTP client,
//! which keeps connections for the next request, and one for each Redis server, whose single
//! connection all callers share. Every call is bounded in time, and in what it may bring. Dropping
//! a call ends it.

mod deadline;
pub mod http;
mod names;
pub mod redis;

pub use deadline::Deadline;
pub use names::Names;
