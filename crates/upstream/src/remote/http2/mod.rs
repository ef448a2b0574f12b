//! Applications that speak HTTP/2: each request is a stream of a connection that others share.
//!
//! The rules of the protocol are those of libnghttp2 (`crates/nghttp2`), which knows no sockets:
//! the task of a connection (`connection`) gives it what comes and writes what it says. A request
//! (`stream`) gives it the body as the application takes it, and takes the response, both as fast
//! as its own client does. What of a response has not been taken is bounded by the window.

mod connection;
mod connections;
mod head;
mod stream;

pub(super) use connection::EACH;
pub(super) use connections::Http2Connections;
pub(super) use stream::Http2Stream;
