//! TLS towards a server: whose certificates are believed, and one session without its socket.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::credentials::PairFiles;
use crate::pair::{Pair, authorities};
use crate::provider;

/// The name of HTTP/2 in handshakes.
const HTTP2: &[u8] = b"h2";

/// What all sessions with the addresses of a server have in common.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl ClientSettings {
    /// With these files; `system` has the authorities of the system. With a `name`, it is what
    /// certificates have to be for, whatever the address is. The protocol inside is HTTP/2, or
    /// HTTP/1.1.
    ///
    /// # Errors
    /// Fails if a file is invalid, or the name is none that a certificate can be for.
    pub fn new(
        files: &ClientFiles,
        system: impl FnOnce() -> Result<RootCertStore, String>,
        name: Option<&str>,
        is_http2: bool,
    ) -> Result<ClientSettings, String> {
        let authorities = match &files.authorities {
            Some(file) => authorities(file)?,
            None => system()?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(authorities);
        let mut config = match &files.pair {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let pair = Pair::read(&files.certificate, &files.key);
                let pair = pair.map_err(|error| error.to_string())?;
                let shown = SingleCertAndKey::from((*pair.key).clone());
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols = vec![if is_http2 { HTTP2.to_vec() } else { b"http/1.1".to_vec() }];
        let name = name.map(server_name).transpose()?;
        Ok(ClientSettings { config: Arc::new(config), name })
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned())
        .map_err(|_| format!("`{name}` is no name that a certificate can be for"))
}

/// The contents of the files by which a server and we show who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities whose certificates are believed (PEM); absent: those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The certificate that a server is shown which asks for one.
    pub pair: Option<PairFiles>,
}

/// A session, from the handshake on. It takes and gives what is to be sent over its socket.
pub struct ClientSession {
    tls: ClientConnection,
    /// What has come and was not taken.
    plain: BytesMut,
    /// What has to be sent.
    wire: BytesMut,
    /// The peer has said that nothing follows.
    has_ended: bool,
    /// Whether the protocol inside is HTTP/2.
    is_http2: bool,
}

impl ClientSession {
    /// Begins a session with a server at an address of `host`, which is a name or an IP address.
    /// The first bytes to be sent are there.
    ///
    /// # Errors
    /// Fails if no certificate could be for the host.
    pub fn new(settings: &ClientSettings, host: &str) -> io::Result<ClientSession> {
        let name = match &settings.name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(io::Error::other)?,
        };
        let tls = ClientConnection::new(settings.config.clone(), name).map_err(io::Error::other)?;
        let (plain, wire) = (BytesMut::new(), BytesMut::new());
        let is_http2 = settings.config.alpn_protocols.iter().any(|name| name == HTTP2);
        let mut session = ClientSession { tls, plain, wire, has_ended: false, is_http2 };
        session.collect();
        Ok(session)
    }

    /// Whether the handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether the peer has agreed to the protocol inside. Where that is HTTP/2 it has to say so;
    /// HTTP/1.1 it may speak without a word.
    pub fn is_agreed(&self) -> bool {
        !self.is_http2 || self.tls.alpn_protocol() == Some(HTTP2)
    }

    /// Takes bytes that the socket has brought; none means that it has ended.
    ///
    /// # Errors
    /// Fails if the peer is not to be trusted, its bytes are not TLS, or they end where the peer
    /// has not said that it would end them.
    pub fn receive(&mut self, mut wire: &[u8]) -> io::Result<()> {
        if wire.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut outcome = Ok(());
        while !wire.is_empty() && !self.has_ended && outcome.is_ok() {
            self.tls.read_tls(&mut wire)?;
            outcome = match self.tls.process_new_packets() {
                Ok(state) => {
                    self.has_ended = state.peer_has_closed();
                    self.take_plain()
                }
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            };
        }
        // An alert says to the peer what was wrong.
        self.collect();
        outcome
    }

    /// What the peer has said, if anything has come; empty at its end.
    pub fn take(&mut self) -> Option<Bytes> {
        match self.plain.is_empty() {
            false => Some(self.plain.split().freeze()),
            true => self.has_ended.then(Bytes::new),
        }
    }

    /// Whether nothing has come that was not taken, and the peer goes on.
    pub fn is_quiet(&self) -> bool {
        self.plain.is_empty() && !self.has_ended
    }

    /// Takes bytes to be said to the peer, and gives how many it took.
    ///
    /// # Errors
    /// Fails if the session is broken.
    pub fn say(&mut self, plain: &[u8]) -> io::Result<usize> {
        let count = self.tls.writer().write(plain)?;
        self.collect();
        Ok(count)
    }

    /// Nothing more is said.
    pub fn end(&mut self) {
        self.tls.send_close_notify();
        self.collect();
    }

    /// The bytes that are to be sent next over the socket.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// So many of them were sent.
    pub fn sent(&mut self, count: usize) {
        self.wire.advance(count);
    }

    fn take_plain(&mut self) -> io::Result<()> {
        let mut reader = self.tls.reader();
        loop {
            let count = match reader.fill_buf() {
                Ok(plain) => {
                    self.plain.extend_from_slice(plain);
                    plain.len()
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            if count == 0 {
                return Ok(());
            }
            reader.consume(count);
        }
    }

    /// All records at once, so that they leave with one system call.
    fn collect(&mut self) {
        struct Wire<'a>(&'a mut BytesMut);
        impl Write for Wire<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        // Memory does not refuse them.
        while self.tls.wants_write() && self.tls.write_tls(&mut Wire(&mut self.wire)).is_ok() {}
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSession")
    }
}
