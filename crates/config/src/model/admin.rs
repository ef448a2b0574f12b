//! The admin listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Secret;

/// Where the admin listener is, and who may ask there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: AdminAddress,
    /// What a request on a TCP address has to know. Present unless the address is one of this
    /// machine alone.
    pub token: Option<Secret>,
}

/// Where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket for the user who starts the server.
    Unix(PathBuf),
}
