//! What `tokamak fpm` adds to a server: sites that web servers reach by FastCGI instead of HTTP, as
//! php-fpm's pools.
//!
//! `tokamak.toml` has none of this; it is made from a php-fpm configuration.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokamak_fpm::Global;
use tokamak_fpm::arguments::PhpOptions;

/// A server that stands in for php-fpm.
#[derive(Clone, Debug, PartialEq)]
pub struct Fpm {
    /// What its configuration says of all pools.
    pub global: Global,
    /// What the command line says of PHP's own settings.
    pub php: PhpOptions,
    /// Where web servers hand over requests.
    pub sockets: Vec<FpmSocket>,
}

/// A socket on which web servers hand over requests by FastCGI.
#[derive(Clone, Debug, PartialEq)]
pub struct FpmSocket {
    /// Where it is.
    pub address: FpmAddress,
    /// The index of its site in [`crate::Server::sites`].
    pub site_index: usize,
    /// Whether it is there for the status page alone, as `pm.status_listen` is.
    pub is_for_status: bool,
}

/// Where a FastCGI socket is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FpmAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for FpmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FpmAddress::Tcp(address) => address.fmt(f),
            FpmAddress::Unix(path) => path.display().fmt(f),
        }
    }
}
