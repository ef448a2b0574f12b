//! From settings and credentials to a configuration of the TLS library.

use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::credentials::Credentials;
use crate::names::{NamedPairs, Names};
use crate::pair::{Pair, authorities};
use crate::provider;
use crate::session_cache::SessionCache;
use crate::tickets::Tickets;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
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
    /// They are asked. Without a certificate they are served, with a wrong one they are not.
    Optional,
    /// Without a certificate of a known authority they are not served.
    Required,
}

/// What handshakes are to negotiate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The oldest version that is spoken.
    pub minimum: Version,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
    /// Whether a client that asks for an unknown name, or for none, is refused. Otherwise it gets
    /// the first certificate.
    pub refuses_unknown: bool,
    /// The protocols inside of TLS, the preferred one first (ALPN).
    pub protocols: Vec<Vec<u8>>,
}

/// The configuration of the TLS library for these settings and credentials, and the names that have
/// certificates in it.
///
/// # Errors
/// Fails with what is wrong with the credentials.
pub fn server_config(
    settings: &Settings,
    credentials: &Credentials,
) -> Result<(Arc<ServerConfig>, Arc<Names>), String> {
    let mut entries = Vec::new();
    for entry in &credentials.entries {
        let pairs = entry.pairs.iter().map(|files| Pair::read(&files.certificate, &files.key));
        let pairs = pairs.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let (names, is_for_itself) = (&*entry.names, entry.is_for_itself);
        entries.push(NamedPairs { names, pairs, is_for_itself });
    }
    let names = Arc::new(Names::new(&entries, settings.refuses_unknown));
    let versions: &[&'static SupportedProtocolVersion] = match settings.minimum {
        Version::V12 => &[&version::TLS13, &version::TLS12],
        Version::V13 => &[&version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = match (settings.client_auth, &credentials.client_ca) {
        (ClientAuth::None, _) => builder.with_no_client_auth(),
        (_, None) => return Err("no authority for clients is known".into()),
        (wanted, Some(file)) => {
            let roots = Arc::new(authorities(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = match wanted {
                ClientAuth::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_cert_resolver(names.clone());
    config.alpn_protocols = settings.protocols.clone();
    // A ticket would stand for the client's certificate, also when that has ended.
    if settings.client_auth == ClientAuth::None {
        config.ticketer = Arc::new(Tickets::new(&credentials.tickets));
    } else {
        config.send_tls13_tickets = 0;
    }
    // As with tickets, a session would stand for the client's certificate.
    config.session_storage = match settings.client_auth {
        ClientAuth::None => Arc::new(SessionCache::default()),
        ClientAuth::Optional | ClientAuth::Required => Arc::new(NoServerSessionStorage {}),
    };
    Ok((Arc::new(config), names))
}

/// A configuration that refuses each handshake by a TLS alert.
///
/// # Errors
/// Fails if the library has none of the versions of TLS.
pub fn refusing_config() -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_no_client_auth().with_cert_resolver(Arc::new(Names::default()))))
}
