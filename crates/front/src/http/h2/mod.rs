//! HTTP/2 (RFC 9113), over any transport. The HTTP library knows frames, windows and header
//! compression; each request goes through the same pipeline as one of HTTP/1.
//!
//! A connection has one task, which reads, opens requests and sends. A request that needs no
//! waiting is answered in it; every other one has a task of its own, so that the requests of one
//! connection take turns with those of all others.

mod body;
mod conversation;
mod head;
mod io;
mod meter;
mod order;
mod scheduler;
mod send;
mod shared;
mod stream;
mod tunnel;

pub use conversation::serve_connection;
pub use meter::Meter;

use socket2::SockRef;
use tokio::net::TcpStream;

/// Bytes that the kernel may hold unsent when it gets more (`TCP_NOTSENT_LOWAT`). A response that
/// is more urgent is sent after what lies there. With 128 KiB, a page on a line of 20 megabits
/// waited 45 ms longer for its style sheet; large files over loopback come no slower with 16 KiB.
const NOTSENT_LOWAT: u32 = 16 * 1024;

/// Has the kernel keep few bytes of a connection that have not been sent.
pub fn bound_unsent(socket: &TcpStream) {
    // Without it (a socket of another kind) more urgent responses come later, that is all.
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(NOTSENT_LOWAT);
}
