//! The frames of [`frames`] over TLS, while a request for PHP is under way on the same event loop.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::harness::{Kind, Setup, get};
use crate::operate::status;
use crate::tls::secured_in;

use super::client::{PATIENCE, tls_client};
use super::frames::{FOR_EACH, begins, contains, kinds, last_answer};
use super::secured::folder;

/// Connections of the test; `TOKAMAK_HTTP2_CASES` sets another number. Each has a handshake.
const CASES: u64 = 200;

const GOAWAY: u8 = 7;

/// A connection after its handshake.
fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut tls = ClientConnection::new(config.clone(), name).expect("a client");
    tls.complete_io(&mut stream).expect("a handshake");
    StreamOwned::new(tls, stream)
}

/// Sends the frames of a seed; what came until the last PING was answered, or the end.
///
/// It reads when it has sent all: what the server may answer to so few frames fits into sockets.
fn send_invented_frames(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    seed: u64,
) -> (Vec<u8>, usize) {
    let (bytes, count) = begins(seed);
    let mut stream = connect(address, config);
    // The server may close the connection before it has all of it.
    let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
    let (mut got, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while !contains(&got, &last_answer()) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!("seed {seed}: neither an answer nor an end")
            }
            // A reset, or an end without the last words of TLS.
            Err(_) => break,
        }
    }
    let _ = stream.sock.shutdown(Shutdown::Both);
    (got, count)
}

#[test]
fn any_frames_leave_the_requests_beside_alone() {
    let setup = Setup::new(Kind::Classic).workers(2).line("loops = 1");
    let secured = secured_in(folder(), setup, &[], &[]);
    let (server, address) = (&secured.server, secured.address);
    fs::write(server.places.root().join("small.txt"), "x".repeat(1000)).unwrap();
    let config = tls_client(Path::new(&secured.folder.path("localhost.pem")), "h2");
    let asked = std::env::var("TOKAMAK_HTTP2_CASES").ok();
    let cases = asked.and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let front = status(server)["front_pid"].clone();
    let mut held = server.connect();
    held.send(get("/hold.php?name=beside").bytes());
    server.holds("beside");
    let mut beside = server.connect();
    let (mut going_on, mut ended) = (0, 0);
    for seed in 0..cases {
        let (got, frames) = send_invented_frames(address, &config, seed);
        assert!(got.len() <= FOR_EACH * (frames + 2), "seed {seed}: {} bytes", got.len());
        if contains(&got, &last_answer()) {
            going_on += 1;
        } else if kinds(&got).contains(&GOAWAY) {
            ended += 1;
        }
        let page = beside.exchange(&get("/echo.php?")).expect(200);
        assert_eq!(page.text(), "", "seed {seed}");
    }
    assert!(going_on > cases / 5, "{going_on} of {cases} connections go on");
    assert!(ended > cases / 5, "{ended} of {cases} connections end with GOAWAY");
    server.let_go("beside");
    assert_eq!(held.response().expect(200).text(), "held", "it was under way all the time");
    assert_eq!(status(server)["front_pid"], front, "no panic");
    assert!(!server.log().contains("panicked"), "{}", server.log());
    println!("{cases} connections: {going_on} go on, {ended} end with GOAWAY");
}
