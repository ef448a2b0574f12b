//! What a handshake has negotiated, for applications and for counting.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};

use crate::certificate::Certificate;

/// What a handshake has negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The version of TLS, as OpenSSL names it.
    pub protocol: &'static str,
    /// The cipher suite, as OpenSSL names it; empty if it is not known.
    pub cipher: &'static str,
    /// The name that the client asked for (SNI).
    pub name: Option<String>,
    /// Whether the client has shown a ticket of an earlier connection.
    pub is_resumed: bool,
    /// Whether the client was asked for a certificate.
    pub asks_client: bool,
    /// The certificate that the client has shown, and whose key it has.
    pub client: Option<Box<ClientCertificate>>,
}

/// A client's certificate that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// What it says.
    pub certificate: Certificate,
    /// The certificate itself (PEM).
    pub pem: String,
}

impl ClientCertificate {
    fn of(der: &CertificateDer<'_>) -> Option<Box<ClientCertificate>> {
        let certificate = Certificate::read(der).ok()?;
        Some(Box::new(ClientCertificate { certificate, pem: pem(der) }))
    }
}

impl Session {
    /// What this connection's handshake has negotiated. `asks_client`: whether clients are asked
    /// for certificates.
    pub fn of(connection: &ServerConnection, asks_client: bool) -> Session {
        let suite = connection.negotiated_cipher_suite();
        let client = connection.peer_certificates().and_then(<[_]>::first);
        let client = client.and_then(ClientCertificate::of);
        Session {
            protocol: protocol_name(connection.protocol_version()),
            cipher: suite.map_or("", |suite| cipher_name(suite.suite())),
            name: connection.server_name().map(str::to_owned),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            asks_client,
            client,
        }
    }

    /// What the handshake of a QUIC connection has negotiated, as far as its library tells: not the
    /// cipher suite, and not whether it was resumed. `client` is the client's certificate.
    pub fn of_quic(
        name: Option<String>,
        client: Option<&CertificateDer<'_>>,
        asks_client: bool,
    ) -> Session {
        let protocol = protocol_name(Some(ProtocolVersion::TLSv1_3));
        let client = client.and_then(ClientCertificate::of);
        Session { protocol, cipher: "", name, is_resumed: false, asks_client, client }
    }

    /// Gives the session as the variables that Apache has (`SSL_PROTOCOL` and so on).
    pub fn variables(&self, mut give: impl FnMut(&'static str, &str)) {
        give("SSL_PROTOCOL", self.protocol);
        if !self.cipher.is_empty() {
            give("SSL_CIPHER", self.cipher);
        }
        if let Some(name) = &self.name {
            give("SSL_TLS_SNI", name);
        }
        if !self.asks_client {
            return;
        }
        let Some(client) = &self.client else { return give("SSL_CLIENT_VERIFY", "NONE") };
        let ClientCertificate { certificate, pem } = &**client;
        give("SSL_CLIENT_VERIFY", "SUCCESS");
        give("SSL_CLIENT_S_DN", &certificate.subject);
        give("SSL_CLIENT_I_DN", &certificate.issuer);
        give("SSL_CLIENT_M_SERIAL", &certificate.serial);
        give("SSL_CLIENT_V_START", certificate.valid_from());
        give("SSL_CLIENT_V_END", certificate.valid_until());
        give("SSL_CLIENT_CERT", pem);
    }
}

fn protocol_name(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "",
    }
}

fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or(""),
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        // Base64 is ASCII.
        let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
