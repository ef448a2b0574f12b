//! A certificate with its key, read from the files that authorities' programs write (PEM).

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};

use crate::certificate::Certificate;
use crate::provider;

/// A certificate with the certificates of the authorities between it and a known one, and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What the certificate says.
    pub certificate: Certificate,
    /// Both for the TLS library. The library prints no keys.
    pub(crate) key: Arc<CertifiedKey>,
}

/// What is wrong with the files of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairError {
    /// The first file has no certificate, or a damaged one.
    Certificate(String),
    /// The second file has no key, or one that cannot be used.
    Key(String),
    /// The key belongs to another certificate.
    Mismatch,
}

impl PairError {
    /// Whether the file of the certificate is to be looked at, rather than that of the key.
    pub fn is_in_certificate(&self) -> bool {
        matches!(self, PairError::Certificate(_))
    }
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::Certificate(why) | PairError::Key(why) => f.write_str(why),
            PairError::Mismatch => f.write_str(
                "the key does not fit the certificate: name the key that the certificate was \
                    requested with",
            ),
        }
    }
}

impl std::error::Error for PairError {}

impl Pair {
    /// Reads a pair from the contents of two files, which may be the same one. The certificate is
    /// the first one of its file.
    ///
    /// # Errors
    /// Fails if there is no certificate or no key, or they do not belong together.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Pair, PairError> {
        let chain = certificates(certificate).map_err(PairError::Certificate)?;
        let read = Certificate::read(&chain[0]);
        let certificate = read.map_err(|error| PairError::Certificate(error.to_string()))?;
        let key = private_key(key).map_err(PairError::Key)?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => PairError::Mismatch,
            Error::InvalidCertificate(_) => PairError::Certificate(error.to_string()),
            _ => PairError::Key(format!("the key cannot be used: {error}")),
        })?;
        Ok(Pair { certificate, key: Arc::new(key) })
    }
}

/// The only certificate of a file: what it says, and its text without anything else of the file.
///
/// # Errors
/// Fails if there is none, a damaged one, or another one.
pub fn only_certificate(file: &[u8]) -> Result<(Certificate, String), String> {
    let all = certificates(file)?;
    let [der] = &all[..] else {
        return Err("more than one certificate is in it".into());
    };
    let certificate = Certificate::read(der).map_err(|error| error.to_string())?;
    Ok((certificate, text(der)))
}

/// The text (PEM) of a certificate.
fn text(der: &[u8]) -> String {
    // 48 bytes make a line of 64 characters (RFC 7468, section 2).
    let lines: String = der.chunks(48).map(|line| STANDARD.encode(line) + "\n").collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

/// What the first certificate of a file says.
///
/// # Errors
/// Fails if there is none, or a damaged one.
pub fn certificate(file: &[u8]) -> Result<Certificate, String> {
    Certificate::read(&certificates(file)?[0]).map_err(|error| error.to_string())
}

/// The certificates of a file, one at least.
///
/// # Errors
/// Fails if there is none, or a damaged one.
pub fn certificates(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(file).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err("no certificate is in it; it should have `-----BEGIN CERTIFICATE-----`".into())
        }
        Ok(all) => Ok(all),
        Err(error) => Err(format!("a certificate in it is damaged: {error}")),
    }
}

/// The authorities of a file, for the verification of others' certificates.
///
/// # Errors
/// Fails if there is none, or one that cannot be used.
pub fn authorities(file: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(file)? {
        roots.add(root).map_err(|error| format!("an authority cannot be used: {error}"))?;
    }
    Ok(roots)
}

/// The key of a file.
///
/// # Errors
/// Fails if there is none, or one that cannot be read.
pub(crate) fn private_key(file: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    match PrivateKeyDer::from_pem_slice(file) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(if has(file, b"ENCRYPTED PRIVATE KEY") {
            "the key in it is encrypted; `openssl pkey -in FILE -out FILE.plain` writes one that a \
                server can read"
                .into()
        } else {
            "no key is in it; it should have `-----BEGIN PRIVATE KEY-----`".into()
        }),
        Err(error) => Err(format!("the key in it is damaged: {error}")),
    }
}

fn has(file: &[u8], words: &[u8]) -> bool {
    file.windows(words.len()).any(|part| part == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_certificates_and_not_only_framed_as_such() {
        let framed = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(certificates(framed).is_ok());
        let error = authorities(framed).unwrap_err();
        assert!(error.starts_with("an authority cannot be used: "), "{error}");
        assert!(authorities(b"").unwrap_err().starts_with("no certificate is in it"));
    }
}
