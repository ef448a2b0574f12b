//! Both sides of HTTP/2 (RFC 9113, RFC 9218) by libnghttp2, behind an interface that is safe.
//!
//! A [`Session`] is one connection, with a client ([`Session::new`]) or a server
//! ([`Session::client`]). It takes the bytes of the peer and returns what they mean as [`Event`]s;
//! it is given responses or requests and writes the bytes that are to be sent. It knows no sockets,
//! no tasks and no time.
//!
//! All `unsafe` code of HTTP/2 is in this crate. Its invariants:
//!
//! 1. A session of the library lives exactly as long as its [`Session`], and so does the state that
//!    the library's callbacks are given: both are made in `Session::with` and freed in its `drop`.
//! 2. The library calls back only while one of its functions runs, on the same thread. No reference
//!    to the state is held while such a function runs, so that each callback has the only one.
//! 3. What the library is given by pointer it copies before its function returns. What it gives a
//!    callback by pointer is copied before the callback returns.
//! 4. A callback does not unwind: it indexes nothing that may be absent, and a panic would end the
//!    process, as it does in every `extern "C"` function.

mod callbacks;
mod client;
mod event;
mod ffi;
mod session;
mod state;
mod stream;

pub use event::{Event, Head, Reason};
pub use session::{Broken, Field, Session};
pub use state::Limits;

#[cfg(test)]
mod tests;
