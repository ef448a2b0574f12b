//! Handshakes by which an authority finds out whose a name is (TLS-ALPN-01, RFC 8737).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::credentials::{Challenge, PairFiles};
use crate::pair::{certificates, private_key};
use crate::provider;

/// The protocol of such a handshake (ALPN). Nothing is said after it.
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates that an authority is to find, by their names.
#[derive(Debug)]
struct Awaited(HashMap<String, Arc<CertifiedKey>>);

impl ResolvesServerCert for Awaited {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get(hello.server_name()?).cloned()
    }
}

/// A certificate with its key as they are: what makes it one for an authority is a critical
/// extension, for which [`crate::Pair`] refuses it.
fn certified(files: &PairFiles) -> Result<CertifiedKey, String> {
    let key = private_key(&files.key)?;
    let key = provider().key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(certificates(&files.certificate)?, key))
}

/// The configuration for the handshakes of authorities, if any is expected. It is for those alone:
/// a browser must never get one of these certificates.
///
/// # Errors
/// Fails if a certificate or a key cannot be read.
pub fn challenge_config(challenges: &[Challenge]) -> Result<Option<Arc<ServerConfig>>, String> {
    let mut awaited = HashMap::new();
    for challenge in challenges {
        if let Challenge::TlsAlpn { name, pair } = challenge {
            awaited.insert(name.clone(), Arc::new(certified(pair)?));
        }
    }
    if awaited.is_empty() {
        return Ok(None);
    }
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(Awaited(awaited)));
    config.alpn_protocols = vec![ACME_PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Some(Arc::new(config)))
}
