//! TLS for clients.

use std::path::PathBuf;
use std::time::Duration;

/// What is set once for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
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
}

impl Default for Tls {
    fn default() -> Tls {
        Tls {
            certificates: Vec::new(),
            minimum: TlsVersion::V12,
            client_auth: ClientAuth::None,
            client_ca: None,
            unknown_name: UnknownName::Default,
        }
    }
}

/// What is set for TLS for one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTls {
    /// The certificates for its host names.
    pub certificates: Vec<CertificateFiles>,
    /// How long browsers are told to use `https` only; zero: they are not told.
    pub hsts: Duration,
    /// Whether requests over plain HTTP are sent to `https`.
    pub redirect: bool,
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
