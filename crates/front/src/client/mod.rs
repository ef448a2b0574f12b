//! The client of a request, as all code behind the protocol sees it. Only the modules below `http`
//! know its protocol and its socket.

pub mod activity;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task;

use http::{HeaderMap, StatusCode, Version};
use tokamak_upstream::record::Fields;

use crate::failure::Failure;

/// The addresses of both ends of a connection.
pub struct Addresses {
    /// The client's address.
    pub peer: SocketAddr,
    /// The address on which the connection came in.
    pub local: SocketAddr,
    /// Both as text; written for the first who asks.
    text: OnceLock<Text>,
    /// Both with their ports, as records of requests have them; written with the first record.
    pub record: OnceLock<Fields>,
}

/// Addresses as text.
pub struct Text {
    /// The client's address, without the port.
    pub peer: String,
    /// The server's address, without the port.
    pub local: String,
}

impl Addresses {
    /// The addresses of a connection between these two.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Addresses {
        Addresses { peer, local, text: OnceLock::new(), record: OnceLock::new() }
    }

    /// Both addresses as text.
    pub fn text(&self) -> &Text {
        let Addresses { peer, local, .. } = self;
        let write = || Text { peer: peer.ip().to_string(), local: local.ip().to_string() };
        self.text.get_or_init(write)
    }
}

/// The client that waits for the response to one request.
pub trait Client: Send + Sync {
    /// The addresses of its connection. They are shared because subrequests may outlive the
    /// connection.
    fn addresses(&self) -> &Arc<Addresses>;

    /// The scheme of the request's URL: `http` or `https`.
    fn scheme(&self) -> &'static str;

    /// How many requests have come on the connection, this one included.
    fn requests(&self) -> u32;

    /// Ready if the client has gone. It is polled while a request is being answered and the
    /// response has to wait. It cannot tell as long as unread bytes of a next request lie in the
    /// socket.
    fn poll_gone(&self, cx: &mut task::Context<'_>) -> task::Poll<()>;

    /// Sends an interim response (RFC 9110 section 15.2). Interim responses are optional: this is a
    /// no-op if the client's protocol has none, or if other bytes are being sent.
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap);

    /// The failure for a client that has broken a rule of its protocol.
    fn violation(&self) -> Option<Failure>;

    /// Called when the whole response has been handed over, or when the client has gone. `now` is
    /// in nanoseconds.
    fn served(&self, now: u64);

    /// Bytes that have come since this was last asked. Those of a next request that came with the
    /// last bytes of this one are among them: only sums are right to the byte.
    fn take_received(&self) -> u64;
}

/// A protocol's version as `SERVER_PROTOCOL` (RFC 3875 section 4.1.16), in the form that nginx and
/// Apache use.
pub fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}
