//! Addresses of names, without holding up the event loop.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Names that are looked up at once; each takes a thread for as long as the name servers take. With
/// a tenth, one slow name would hold up the others; with ten times more, a script could start
/// hundreds of threads.
const MOST_LOOKUPS: usize = 16;

/// Looks up names for one event loop.
#[derive(Clone)]
pub struct Names {
    lookups: Arc<Semaphore>,
}

impl Default for Names {
    fn default() -> Names {
        Names { lookups: Arc::new(Semaphore::new(MOST_LOOKUPS)) }
    }
}

impl Names {
    /// A connection to a host, by its name or address.
    ///
    /// # Errors
    /// Fails if the name is unknown, or none of its addresses accepts.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses(host, port).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            // As long as the thread is busy, even if the caller has gone.
            let _permit = permit;
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
        });
        lookup.await.map_err(io::Error::other)?
    }
}
