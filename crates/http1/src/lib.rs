//! Responses of HTTP/1.1 from bytes, in whatever pieces these come: heads, and where bodies end.
//! Without this crate, calls of scripts and upstreams would each read what other servers send, and
//! differ in what they refuse. No sockets here.

mod chunks;
mod response;

pub use response::{Decoder, Head, Part, number};

use std::fmt;

/// Why bytes are no response, or are one that others might read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Malformed {
    /// What is wrong, as in "its head is malformed".
    pub fn reason(self) -> &'static str {
        self.0
    }
}

impl std::error::Error for Malformed {}
