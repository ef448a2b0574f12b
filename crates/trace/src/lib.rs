//! Which trace a request belongs to, by W3C Trace Context, Level 2. Without this crate the spans of
//! browser, proxy, server and application could not be joined to one picture.
//!
//! Bytes in, bytes out: the headers come from strangers, so each is taken whole or not at all, and
//! what is passed on is bounded. [`otlp`] writes the spans of requests for a collector.

mod context;
mod hex;
mod ids;
pub mod otlp;
mod sampling;
mod state;

pub use context::{Parent, TRACEPARENT_LENGTH, TraceContext};
pub use ids::{SpanId, TraceId};
pub use sampling::Sampling;
pub use state::{LONGEST_STATE, trace_state};
