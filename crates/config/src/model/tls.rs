//! TLS for clients.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{Secret, Server, Site, Tier};

/// What is set once for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether the server gets certificates for the hosts of sites that have none.
    pub auto: bool,
    /// The certificates for names that no site has one for.
    pub certificates: Vec<CertificateFiles>,
    /// The oldest version that is spoken.
    pub minimum: TlsVersion,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
    /// The file with the authorities whose clients are known. Present if clients are asked.
    pub client_ca: Option<PathBuf>,
    /// What a client gets that asks for a name without a certificate.
    pub unknown_name: UnknownName,
    /// What several nodes share keys of session tickets by, if they do.
    pub redis: Option<Tier>,
    /// What they encrypt with what they share. With it they share the certificates that they get by
    /// themselves, too.
    pub redis_secret: Option<Secret>,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls {
            auto: false,
            certificates: Vec::new(),
            minimum: TlsVersion::V12,
            client_auth: ClientAuth::None,
            client_ca: None,
            unknown_name: UnknownName::Default,
            redis: None,
            redis_secret: None,
        }
    }
}

/// What is set for TLS for one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTls {
    /// The certificates for its host names.
    pub certificates: Vec<CertificateFiles>,
    /// The value of `Strict-Transport-Security`, if the site sends it.
    pub hsts: Hsts,
    /// Whether requests over plain HTTP are sent to `https`.
    pub redirect: bool,
    /// The port that they are sent to; absent: that of the first address for TLS on which the site
    /// is served, else 443.
    pub port: Option<u16>,
}

/// The value of `Strict-Transport-Security` (RFC 6797).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hsts {
    /// `max-age`: how long browsers use `https` only; zero: the header is not sent.
    pub lifetime: Duration,
    /// Whether it is also for all names below the host.
    pub subdomains: bool,
    /// Whether the host may be on the preload list of browsers.
    pub preload: bool,
}

/// The files of a certificate (PEM).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateFiles {
    /// The certificate, with those of the authorities between it and a known one.
    pub certificate: PathBuf,
    /// Its key; may be the same file.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They are asked, and served without one too.
    Optional,
    /// Without one they are not served.
    Required,
}

/// What a client gets that asks for a name without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// A TLS alert.
    Refuse,
}

impl Server {
    /// The names for which the server makes certificates with an authority of its own.
    pub fn local_names(&self) -> BTreeSet<&str> {
        self.automatic_names().filter(|host| is_local(host)).collect()
    }

    /// The names for which the server gets certificates by itself. A site that is served without
    /// TLS only needs none.
    pub(super) fn automatic_names(&self) -> impl Iterator<Item = &str> {
        let is_automatic = |site: &&Site| self.tls.auto && site.tls.certificates.is_empty();
        let sites = self.sites.iter().filter(is_automatic);
        let sites = sites.filter(|site| self.serves_with_tls(site));
        sites.flat_map(|site| &site.hosts).map(String::as_str)
    }

    /// Whether a site is served on an address with TLS.
    pub fn serves_with_tls(&self, site: &Site) -> bool {
        let mut listeners = self.listen_tls.iter();
        listeners.any(|address| site.listen.is_empty() || site.listen.contains(address))
    }
}

/// Whether a host, in lower case, is this machine wherever the name is used (RFC 6761).
pub fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok_and(|address| address.is_loopback())
        || host == "localhost"
        || host.ends_with(".localhost")
}
