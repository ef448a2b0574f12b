//! Certificates that the server gets by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use super::{Secret, Server, Site, is_local};

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
    /// Who says for which further names clients may have certificates ordered.
    pub on_demand: Option<OnDemand>,
}

/// How certificates are got for names that are first seen in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemand {
    /// The URL that is asked.
    pub url: String,
    /// Most names.
    pub names: usize,
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
        let is_named = |host: &&str| is_public(host) && !self.is_each_on_demand(host);
        self.automatic_names().filter(is_named).collect()
    }

    /// Whether a certificate for this name, in lower case, may be got when a client asks for it.
    pub fn gets_on_demand(&self, name: &str) -> bool {
        if !is_host(name) || !is_public(name) {
            return false;
        }
        let is_exact = |site: &Site| site.hosts.iter().any(|host| host == name);
        let is_below = |above: &str| name.len() > above.len() && name.ends_with(above);
        !self.sites.iter().any(is_exact) && self.on_demand_hosts().any(is_below)
    }

    /// Ends of the names for which certificates may be got when a client asks for them:
    /// `.a.example` for those below `a.example`, and an empty one for all.
    pub fn on_demand_hosts(&self) -> impl Iterator<Item = &str> {
        let is_automatic = |site: &&Site| {
            let asks = self.tls.auto && self.acme.on_demand.is_some();
            asks && site.tls.certificates.is_empty() && site.path.is_empty()
        };
        let sites = self.sites.iter().filter(is_automatic);
        let sites = sites.filter(|site| self.serves_with_tls(site));
        sites.flat_map(|site| {
            let all = site.hosts.is_empty().then_some("");
            let hosts = site.hosts.iter().filter(|host| self.is_each_on_demand(host));
            all.into_iter().chain(hosts.map(|host| &host[1..]))
        })
    }

    /// Whether a host stands for names that get certificates one by one, since no program changes
    /// their zone.
    fn is_each_on_demand(&self, host: &str) -> bool {
        host.starts_with("*.") && self.acme.on_demand.is_some() && self.acme.dns_hook.is_none()
    }
}

/// Longest name that gets a certificate on demand: with an ending it is the name of a file. A host
/// may have 253 characters.
const LONGEST_NAME: usize = 250;

/// Whether this can be the name of a host in the internet, in lower case (RFC 1123, 2.1).
fn is_host(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_digit)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // The last label of no name is a number; that of an address is.
    let ends_well = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_lowercase()));
    name.len() <= LONGEST_NAME && ends_well && name.split('.').all(is_label)
}

/// Whether an authority may give a certificate for this host, in lower case: addresses and names
/// without a dot are known to this machine or this network only.
pub fn is_public(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_address = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
    name.contains('.') && !is_address && !is_local(host)
}
