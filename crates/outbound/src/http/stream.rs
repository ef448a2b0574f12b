//! The bytes below a connection: a socket, or TLS over one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName};

use super::error::HttpError;
use crate::names::Names;

/// Whom a request is for, as it names them.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The port.
    pub port: u16,
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// The name, in ASCII of either case.
    pub host: &'a [u8],
    /// The socket, in place of name and port.
    pub socket: Option<&'a Path>,
}

/// Whom a connection leads to.
#[derive(Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Its name, in small letters.
    pub host: String,
    /// Its socket, in place of name and port.
    pub socket: Option<PathBuf>,
}

impl Peer {
    /// The peer at an address.
    pub fn new(address: &Address<'_>) -> Peer {
        let &Address { port, tls, host, socket } = address;
        let host = host.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
        Peer { port, tls, host, socket: socket.map(Path::to_owned) }
    }

    /// Whether this is the peer at an address.
    pub fn is_at(&self, address: &Address<'_>) -> bool {
        let &Address { port, tls, host, socket } = address;
        (self.port, self.tls, self.socket.as_deref()) == (port, tls, socket)
            // Nearly always it is named in small letters.
            && (self.host.as_bytes() == host || self.host.as_bytes().eq_ignore_ascii_case(host))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(out, "{}", socket.display()),
            None => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// What a connection's bytes go through.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// An open connection's bytes.
pub type Stream = Box<dyn Socket>;

/// Connects.
///
/// # Errors
/// Fails if the peer does not accept, or its certificate is not trusted.
pub async fn connect(names: &Names, peer: &Peer) -> Result<Stream, HttpError> {
    let stream = open(names, peer).await;
    stream.map_err(|error| HttpError::Connect(peer.to_string(), error))
}

async fn open(names: &Names, peer: &Peer) -> io::Result<Stream> {
    let plain: Stream = match &peer.socket {
        Some(path) => Box::new(UnixStream::connect(path).await?),
        None => Box::new(names.connect(&peer.host, peer.port).await?),
    };
    if !peer.tls {
        return Ok(plain);
    }
    let name = peer.host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(configuration().await?).connect(name, plain).await?))
}

/// Whom the system trusts, read once.
async fn configuration() -> io::Result<Arc<ClientConfig>> {
    static CONFIGURATION: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();
    let made = CONFIGURATION.get_or_try_init(|| async {
        tokio::task::spawn_blocking(trusting).await.map_err(io::Error::other)?
    });
    made.await.cloned()
}

/// The authorities that the system trusts. It reads files.
///
/// # Errors
/// Fails if there are none.
pub fn system_authorities() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A file that cannot be read, or a certificate of an odd kind, is no reason to trust none of
    // the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("the system has no certificates to trust"));
    }
    Ok(roots)
}

fn trusting() -> io::Result<Arc<ClientConfig>> {
    let roots = system_authorities()?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut configuration =
        builder.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_serves_only_addresses_that_differ_in_nothing_but_case() {
        let address = Address { port: 443, tls: true, host: b"A.example", socket: None };
        let peer = Peer::new(&address);
        assert_eq!(peer.to_string(), "a.example:443");
        assert!(peer.is_at(&address));
        assert!(peer.is_at(&Address { host: b"a.EXAMPLE", ..address }));
        for other in [
            Address { port: 80, ..address },
            Address { tls: false, ..address },
            Address { host: b"b.example", ..address },
            Address { socket: Some(Path::new("/run/a")), ..address },
        ] {
            assert!(!peer.is_at(&other), "{other:?}");
        }
    }
}
