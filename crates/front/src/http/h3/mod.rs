//! HTTP/3 (RFC 9114), over QUIC. One library knows packets, streams, windows and loss (quinn),
//! another one frames and header compression (h3); each request goes through the same pipeline as
//! one of HTTP/1.
//!
//! A connection has one task, which opens requests and ends the connection. Each request is one
//! future: it is polled once by that task, and is a task of its own if it has to wait. What the
//! libraries do not bound stands between them ([`transport`]): how much of a head or of unknown
//! frames is held, and how many frames of no request come.

mod body;
mod control;
mod conversation;
mod gate;
mod head;
mod send;
mod shared;
mod stream;
mod transport;

pub use control::Control;
pub use conversation::serve_connection;
