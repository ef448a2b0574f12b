//! The PROXY protocol: before anything else, a proxy says for whom it has opened a connection. What
//! follows on the connection is as if that client had opened it itself.

mod header;

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::client::Addresses;
use crate::log;

pub use header::{Decoder, Ends, Malformed, ProxyHeader};

/// Bytes that are looked at in one go; most headers are shorter.
const PIECE: usize = 256;

/// Reads the header from a connection of a trusted proxy, and nothing behind it. Returns the
/// addresses of the connection from now on; `None` if it is to be closed. The caller limits the
/// time.
pub async fn read(stream: &TcpStream, proxy: Arc<Addresses>) -> Option<Arc<Addresses>> {
    match read_header(stream).await {
        Ok(Ok(ProxyHeader { ends: Some((peer, local)), is_tls })) => {
            Some(Arc::new(Addresses::new(peer, local, proxy.listener).proxied(is_tls)))
        }
        Ok(Ok(ProxyHeader { ends: None, .. })) => Some(Arc::new(proxy.for_unnamed())),
        Ok(Err(malformed)) => {
            log::unproxied(&proxy.peer, malformed.reason());
            None
        }
        // The proxy has gone: so balancers see whether a port is open.
        Err(_) => None,
    }
}

async fn read_header(stream: &TcpStream) -> io::Result<Result<ProxyHeader, Malformed>> {
    let (mut decoder, mut piece) = (Decoder::default(), [0; PIECE]);
    loop {
        let offered = stream.peek(&mut piece).await?;
        if offered == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (used, header) = match decoder.feed(&piece[..offered]) {
            Ok(decoded) => decoded,
            Err(malformed) => return Ok(Err(malformed)),
        };
        // They are there, so this reads all of them.
        let taken = stream.try_read(&mut piece[..used])?;
        debug_assert_eq!(taken, used);
        if let Some(header) = header {
            return Ok(Ok(header));
        }
    }
}
