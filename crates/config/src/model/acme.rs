//! Certificates that the server gets by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use super::{Secret, Server, is_local};

/// Whom the server asks for certificates, and how it shows that the names are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acme {
    /// Address to which authorities may write.
    pub email: Option<String>,
    /// URLs of the authorities' directories, the preferred one first.
    pub directories: Vec<String>,
    /// Keys of accounts at authorities that ask for one, by the URLs of their directories.
    pub eab: BTreeMap<String, Secret>,
    /// Ways to show that a name is this server's, the preferred one first.
    pub challenges: Vec<AcmeChallenge>,
    /// Program that changes the zone of a name.
    pub dns_hook: Option<PathBuf>,
}

/// A way to show that a name is this server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A response over plain HTTP.
    Http,
    /// A certificate in a handshake.
    TlsAlpn,
    /// A TXT record.
    Dns,
}

impl Server {
    /// The names for which the server gets certificates from authorities.
    pub fn public_names(&self) -> BTreeSet<&str> {
        self.automatic_names().filter(|host| is_public(host)).collect()
    }
}

/// Whether an authority may give a certificate for this host, in lower case: addresses and names
/// without a dot are known to this machine or this network only.
pub fn is_public(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_address = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
    name.contains('.') && !is_address && !is_local(host)
}
