//! The admin listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Endpoint;

/// Where the admin listener is, and who may ask there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: AdminAddress,
    /// What a request on a TCP address has to know. Present unless the address is one of this
    /// machine alone.
    pub token: Option<String>,
}

/// Where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket for the user who starts the server.
    Unix(PathBuf),
}

impl AdminAddress {
    /// As it is typed.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            AdminAddress::Tcp(address) => Endpoint::Tcp(address.to_string()),
            AdminAddress::Unix(path) => Endpoint::Unix(path.clone()),
        }
    }
}
