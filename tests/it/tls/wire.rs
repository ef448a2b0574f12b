//! A client of HTTP/1 over TLS, whose connection may begin with something else.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::http2::client::tls_client;

const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `first`, makes the handshake for `localhost` with a server that has this certificate,
/// sends a request, and reads to the end of the connection. An error if there is no handshake.
pub fn ask(
    address: SocketAddr,
    first: &[u8],
    certificate: &Path,
    request: &[u8],
) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(first)?;
    let name = ServerName::try_from("localhost").expect("a name");
    let config = tls_client(certificate, "http/1.1");
    let mut tls = ClientConnection::new(config, name).expect("a client");
    tls.complete_io(&mut stream)?;
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(request)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Without the last words of TLS, which are not every server's habit.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}
