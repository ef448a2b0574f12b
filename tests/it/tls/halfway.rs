//! Handshakes that end in the middle: clients that have the server's first messages and say no
//! more, and clients that ask for a name that nobody has.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection};

use super::secured;
use crate::harness::{Kind, eventually, in_parallel};
use crate::http2::client::tls_client;
use crate::metrics;
use crate::operate::status;

/// A limit that no test waits for in full.
const SOON: Duration = Duration::from_secs(20);

/// A client that has read the server's first messages, and has sent nothing since its greeting.
fn greeted(address: SocketAddr, config: &Arc<ClientConfig>) -> TcpStream {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(config.clone(), name).expect("a client");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(SOON)).unwrap();
    while client.wants_write() {
        client.write_tls(&mut stream).expect("a greeting is sent");
    }
    // One record is enough: it begins with the ServerHello. What the client makes of it stays with
    // it.
    let mut head = [0; 6];
    stream.read_exact(&mut head).expect("the server answers the greeting");
    assert_eq!((head[0], head[5]), (22, 2), "a ServerHello: {head:?}");
    stream
}

/// Whether the server ends the connection, after whatever it has to say.
fn ends(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn clients_that_stop_after_the_first_answer_do_not_disturb_others() {
    let secured = secured(Kind::Classic, &["timeouts.head = \"2s\"", "loops = 1"], &[]);
    let front = status(&secured.server)["front_pid"].clone();
    let config = tls_client(&secured.folder.path("localhost.pem"), "h2");
    let mut open: Vec<_> = (0..40).map(|_| greeted(secured.address, &config)).collect();
    // Some just go.
    drop(open.split_off(30));
    assert!(secured.text("/hello.php", &[]).contains("Hello"), "others are served meanwhile");
    for stream in &mut open {
        assert!(ends(stream), "the time of a head is over");
    }
    assert!(secured.text("/hello.php", &[]).contains("Hello"));
    assert_eq!(status(&secured.server)["front_pid"], front);
}

/// They count as connections, and no longer than they are there.
#[test]
fn they_are_counted_while_they_are_there() {
    let lines = ["timeouts.head = \"10m\"", "admin = \"unix:admin.sock\""];
    let secured = secured(Kind::Classic, &lines, &[]);
    metrics::samples_when(&secured.server, "tokamak_connections", 0.0);
    let config = tls_client(&secured.folder.path("localhost.pem"), "h2");
    let open: Vec<_> = (0..10).map(|_| greeted(secured.address, &config)).collect();
    metrics::samples_when(&secured.server, "tokamak_connections", 10.0);
    drop(open);
    metrics::samples_when(&secured.server, "tokamak_connections", 0.0);
}

/// A record with an alert that ends a handshake; `access_denied` is what rustls says of a name
/// without a certificate, and `unrecognized_name` what RFC 6066 proposes.
const ALERT: [u8; 6] = [21, 3, 3, 0, 2, 2];
const REASONS: [u8; 2] = [49, 112];

#[test]
fn unknown_names_are_refused_and_logged_a_few_times() {
    let secured = secured(Kind::Classic, &["tls.unknown_name = \"refuse\""], &[]);
    let config = tls_client(&secured.folder.path("localhost.pem"), "h2");
    let refused = |name: String| {
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(config.clone(), name).expect("a client");
        let mut stream = TcpStream::connect(secured.address).expect("a connection");
        stream.set_read_timeout(Some(SOON)).unwrap();
        client.write_tls(&mut stream).expect("a greeting is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an alert, and the end");
        let (reason, alert) = answer.split_last().expect("an alert");
        assert!(alert == ALERT && REASONS.contains(reason), "{answer:?}");
    };
    refused("unknown.example".into());
    let line = secured.server.log_line(&["TLS handshake failed: ", "client=127.0.0.1:"]);
    assert!(!line.contains("localhost"), "{line}");
    in_parallel(400, |number| refused(format!("{number}.example")));
    let lines = || secured.server.log().matches("TLS handshake failed: ").count();
    // Twenty a second, and the seconds that a busy machine takes for them.
    assert!((1..300).contains(&lines()), "{} lines", lines());
    // The next one says how many were left out.
    let is_logged = || {
        refused("late.example".into());
        secured.server.log().contains(" more=").then_some(())
    };
    assert!(eventually(SOON, is_logged).is_some(), "{}", secured.server.log());
    assert!(secured.text("/hello.php", &[]).contains("Hello"), "its own name is served");
}
