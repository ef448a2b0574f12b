//! How connections to one address are opened.

use std::io;
use std::time::Duration;

use tokamak_tls::{ClientSession, ClientSettings};
use tokio::time::timeout;

use super::stream::{Endpoint, Stream};

/// Opens connections to one address.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub endpoint: Endpoint,
    /// How TLS is spoken there, if it is.
    pub tls: Option<ClientSettings>,
    /// The host whose address it is, by name or number.
    pub host: String,
    /// Longest time for one.
    pub limit: Duration,
}

impl Connector {
    /// A new connection in the event loop of the caller.
    ///
    /// # Errors
    /// Fails if the address cannot be reached now, or is not to be trusted.
    pub async fn connect(&self) -> io::Result<Stream> {
        timeout(self.limit, self.open()).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time"))
        })
    }

    async fn open(&self) -> io::Result<Stream> {
        let stream = Stream::connect(&self.endpoint).await?;
        match &self.tls {
            None => Ok(stream),
            Some(settings) => stream.secured(ClientSession::new(settings, &self.host)?).await,
        }
    }
}
