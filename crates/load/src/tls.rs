//! TLS to the server: whose certificates are trusted, and why one is not.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Most time for the first handshake, which shows whether the certificate is trusted. A tenth would
/// be too short for a busy machine; ten times more would look like a program that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority has signed which the system trusts.
    #[default]
    System,
    /// Those that an authority in this file has signed.
    File(PathBuf),
    /// All of them: any server may answer, also one that is not the one meant.
    Anybody,
}

/// How connections to one server are encrypted.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Tls {
    /// For a server of this name.
    ///
    /// # Errors
    /// Fails if the name is none, or no certificate of an authority can be read.
    pub fn new(host: &str, trust: &Trust) -> Result<Tls, String> {
        let name = ServerName::try_from(host.to_owned());
        let host = name.map_err(|error| format!("{host}: {error}"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut configuration = match trust {
            Trust::System => builder.with_root_certificates(of_the_system()?),
            Trust::File(path) => builder.with_root_certificates(of_file(path)?),
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        }
        .with_no_client_auth();
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection stands for another visitor, who has no session to resume.
        configuration.resumption = Resumption::disabled();
        Ok(Tls { connector: Arc::new(configuration).into(), host })
    }

    /// Encrypts a connection.
    ///
    /// # Errors
    /// Fails if the certificate is not trusted, or the server speaks no TLS.
    pub async fn wrap(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host.clone(), stream).await
    }

    /// Connects once. Without it a certificate that is not trusted would be seen as so many
    /// connections that fail.
    ///
    /// # Errors
    /// Says why the server is not trusted; a server that accepts no connection is no error here.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let Ok(Ok(stream)) = timeout(PATIENCE, TcpStream::connect(address)).await else {
                return Ok(());
            };
            match timeout(PATIENCE, self.wrap(stream)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(advice(&error)),
                Err(_) => Err(format!("no TLS handshake within {PATIENCE:?}")),
            }
        })
    }
}

/// What rustls says of an authority's certificate that a server shows for its own, as openssl makes
/// it unless told otherwise; there is no variant of its own for it.
const AUTHORITY: &str = "CaUsedAsEndEntity";

/// What a failed handshake says, and what helps.
fn advice(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(wrong)) if wrong.to_string().contains(AUTHORITY) => format!(
            "{error}: the server shows the certificate of an authority; make one for the server \
             (openssl req -addext basicConstraints=critical,CA:FALSE), or trust any with --insecure"
        ),
        Some(Error::InvalidCertificate(_)) => format!(
            "{error}: name the authority that has signed it by --cacert FILE, or trust any \
             certificate with --insecure"
        ),
        Some(Error::InvalidMessage(_)) => {
            format!("{error}: it speaks no TLS here; does it listen for http://?")
        }
        _ => format!("no TLS handshake: {error}"),
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TLS to {:?}", self.host)
    }
}

fn of_the_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // A file that cannot be read, or a certificate of an odd kind, is no reason to trust none of
    // the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err("the system has no certificates to trust: name some by --cacert FILE".into()),
        false => Ok(roots),
    }
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |error: &dyn Display| format!("{}: {error}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    match roots.is_empty() {
        true => Err(wrong(&"it has no certificate in PEM form")),
        false => Ok(roots),
    }
}

/// Trusts any certificate whose owner has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        for (path, said) in [(empty.as_path(), "no certificate in PEM"), (Path::new("/no"), "/no")]
        {
            let wrong = Tls::new("localhost", &Trust::File(path.to_owned())).unwrap_err();
            assert!(wrong.contains(said), "{wrong}");
        }
        assert!(Tls::new("a b", &Trust::Anybody).is_err());
    }
}
