//! The client of a request as everything behind the protocol sees it. Only the modules below
//! `http` know which protocol it speaks and what its connection is made of.

pub mod activity;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task;

use http::{HeaderMap, StatusCode, Version};

use crate::failure::Failure;

/// Where the two ends of a connection are.
pub struct Addresses {
    /// The client.
    pub peer: SocketAddr,
    /// The address on which the connection came in.
    pub local: SocketAddr,
    /// Both as text.
    pub text: Text,
}

/// Addresses as text, written once for each connection.
pub struct Text {
    /// The client's address, without the port.
    pub peer: String,
    /// The server's address, without the port.
    pub local: String,
}

impl Addresses {
    /// Of a connection between these two.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Addresses {
        let text = Text { peer: peer.ip().to_string(), local: local.ip().to_string() };
        Addresses { peer, local, text }
    }
}

/// The client that waits for the response to one request.
pub trait Client: Send + Sync {
    /// Where the two ends of its connection are. Requests that the server makes on behalf of the
    /// client outlive the connection, so they share the addresses.
    fn addresses(&self) -> &Arc<Addresses>;

    /// The scheme of the request's URL: `http` or `https`.
    fn scheme(&self) -> &'static str;

    /// How many requests have come on the connection, this one included.
    fn requests(&self) -> u32;

    /// Ready if the client has gone. Asked while its request is answered and the response has to
    /// wait. As long as there are unread bytes of a next request, nobody knows.
    fn poll_gone(&self, cx: &mut task::Context<'_>) -> task::Poll<()>;

    /// Sends an interim response (RFC 9110 section 15.2). It is advice only: it is left out if the
    /// client's protocol has none, or if other bytes are on their way.
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap);

    /// What the client is told if it has broken a rule of its protocol.
    fn violation(&self) -> Option<Failure>;

    /// The whole response has been handed over, or the client has gone. `now`: nanoseconds.
    fn served(&self, now: u64);
}

/// A protocol's version as applications are told it in `SERVER_PROTOCOL` (RFC 3875 section
/// 4.1.16), in the form that nginx and Apache give it.
pub fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}
