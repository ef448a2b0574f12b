//! Any bytes as what clients and files bring. The fuzz target runs it too.

use tokamak_tls::{Certificate, Credentials, Pair, authorities};

/// Reads the bytes as a client's certificate, as files, and as credentials on their way.
pub fn run(bytes: &[u8]) {
    if let Ok(certificate) = Certificate::read(bytes) {
        assert!(!certificate.is_for("") || certificate.names.iter().any(String::is_empty));
    }
    let _ = authorities(bytes);
    let _ = Pair::read(bytes, bytes);
    if let Ok(credentials) = Credentials::decode(bytes) {
        assert_eq!(credentials.encode(), bytes);
    }
}
