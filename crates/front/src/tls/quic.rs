//! The handshakes of QUIC: with the same certificates, for HTTP/3 alone.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{Connection, ConnectionError, Incoming};
use tokamak_config as config;
use tokamak_quic::{Limits, Secret, server_config};
use tokamak_tls::{Credentials, Session, Settings, Version};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::counters::{Failed, HandshakeCounters};

/// How long a client may be silent, though it is asked every [`tokamak_quic::ASK_EVERY`]: then it
/// has gone. A tenth would lose those in a tunnel; ten times more would serve those that have gone
/// for ten minutes.
const SILENCE: Duration = Duration::from_secs(60);

/// What event loops need for handshakes of QUIC.
pub struct QuicTls {
    settings: Settings,
    secret: Arc<Secret>,
    limits: Limits,
    /// For the next connections.
    config: RwLock<Arc<quinn::ServerConfig>>,
}

impl QuicTls {
    /// With these settings, but for what QUIC has of its own, and credentials.
    ///
    /// # Errors
    /// Fails with what is wrong with the credentials.
    pub fn new(
        http3: &config::Http3,
        settings: &Settings,
        secret: Arc<Secret>,
        credentials: &Credentials,
    ) -> Result<QuicTls, String> {
        let limits = Limits {
            streams: http3.streams,
            window: http3.window,
            connection_window: http3.connection_window,
            send_window: http3.send_window,
            silence: SILENCE,
        };
        let protocols = vec![b"h3".to_vec()];
        let settings = Settings { minimum: Version::V13, protocols, ..settings.clone() };
        let config = RwLock::new(make(&settings, &secret, &limits, credentials)?);
        Ok(QuicTls { settings, secret, limits, config })
    }

    /// Uses these credentials for the next connections. On an error the old ones stay in use.
    ///
    /// # Errors
    /// As [`QuicTls::new`].
    pub fn renew(&self, credentials: &Credentials) -> Result<(), String> {
        let config = make(&self.settings, &self.secret, &self.limits, credentials)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// What new connections begin with.
    pub fn config(&self) -> Arc<quinn::ServerConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a connection of one that comes. `None`: there is none, with the reason if the client
    /// has done something wrong.
    ///
    /// # Errors
    /// Fails if the client does not agree, or has gone.
    pub async fn handshake(
        &self,
        incoming: Incoming,
        counters: &HandshakeCounters,
    ) -> Result<(Connection, Session), Option<io::Error>> {
        let mut end = counters.begin();
        let connecting = incoming.accept_with(self.config());
        let connected = match connecting {
            Ok(connecting) => connecting.await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(connection) => {
                let session = self.session(&connection);
                end.succeeded(&session);
                Ok((connection, session))
            }
            Err(error @ ConnectionError::TransportError(_)) => {
                end.is(Failed::Refused);
                Err(Some(io::Error::other(error)))
            }
            Err(_) => {
                end.is(Failed::Closed);
                Err(None)
            }
        }
    }

    fn session(&self, connection: &Connection) -> Session {
        let data = connection.handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        let shown = connection.peer_identity();
        let shown = shown.and_then(|shown| shown.downcast::<Vec<CertificateDer<'_>>>().ok());
        let asks_client = self.settings.client_auth != tokamak_tls::ClientAuth::None;
        let client = shown.as_ref().and_then(|shown| shown.first());
        Session::of_quic(data.and_then(|data| data.server_name), client, asks_client)
    }
}

fn make(
    settings: &Settings,
    secret: &Secret,
    limits: &Limits,
    credentials: &Credentials,
) -> Result<Arc<quinn::ServerConfig>, String> {
    let (tls, _) = tokamak_tls::server_config(settings, credentials)?;
    let tls = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    let config = server_config(secret, tls, limits).map_err(|error| error.to_string())?;
    Ok(Arc::new(config))
}
