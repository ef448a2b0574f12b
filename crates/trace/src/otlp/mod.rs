//! Requests as spans of OpenTelemetry, in the bytes that a collector takes (OTLP). Without
//! it the traces would end at the server, which passes them on and is not in the picture itself.
//!
//! Bytes in, bytes out: who keeps the requests, and who sends the bytes, is the front's.

mod answer;
mod encode;
mod message;
mod request_span;

pub use answer::{Rejection, rejection};
pub use encode::Source;
pub use request_span::RequestSpan;
