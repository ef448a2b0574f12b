//! Clients with little memory or old habits: short records, sessions by their number, and a word at
//! the end of each connection.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{Secured, secured, secured_in, with_clients};
use crate::harness::{Kind, Setup};
use crate::operate::reload;

const LARGE: &str =
    "GET /large.php?bytes=200000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A connection of HTTP/2 for one page, which fits the window that a client has at first.
fn http2_request() -> String {
    let field = |name: &str, value: &str| {
        format!("\0{}{name}{}{value}", char::from(name.len() as u8), char::from(value.len() as u8))
    };
    let head = [
        field(":method", "GET"),
        field(":scheme", "https"),
        field(":authority", "localhost"),
        field(":path", "/large.php?bytes=60000"),
    ]
    .concat();
    let settings = "\0\0\0\x04\0\0\0\0\0";
    let head = format!("\0\0{}\x01\x05\0\0\0\x01{head}", char::from(head.len() as u8));
    // The server closes the connection when it has answered a client that leaves.
    let goaway = format!("\0\0\x08\x07{}", "\0".repeat(5 + 8));
    ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings, &head, &goaway].concat()
}

/// The lengths of the records with data that the server sends.
fn data_records(printed: &str) -> Vec<usize> {
    let mut lines = printed.lines();
    let mut lengths = Vec::new();
    while let Some(line) = lines.next() {
        // The data before it may end in the middle of a line.
        if !(line.contains("<<< ") && line.contains("RecordHeader")) {
            continue;
        }
        let bytes = lines.next().unwrap().split_whitespace();
        let mut bytes = bytes.map(|byte| usize::from_str_radix(byte, 16));
        if bytes.next() == Some(Ok(0x17)) {
            let mut length = bytes.skip(2).flatten();
            lengths.push(length.next().unwrap() << 8 | length.next().unwrap());
        }
    }
    lengths
}

#[test]
fn clients_with_little_memory_get_short_records() {
    let secured = secured(Kind::Classic, &[], &[]);
    let longest_of = |flags: &[&str], request: &str| {
        let flags = [&["-servername", "localhost", "-ign_eof", "-msg"], flags].concat();
        let printed = secured.s_client(&flags, request);
        assert!(printed.contains("\n000000000000009\n"), "{printed}");
        let lengths = data_records(&printed);
        (lengths.iter().max().copied().unwrap(), lengths.iter().sum::<usize>())
    };
    let longest = |flags: &[&str]| longest_of(flags, LARGE);
    let (whole, total) = longest(&["-tls1_2"]);
    assert!(whole > 10_000 && total > 100_000, "{whole} {total}");
    // A nonce and a tag beside the bytes.
    for length in [512, 4096] {
        let (short, total) = longest(&["-tls1_2", "-maxfraglen", &length.to_string()]);
        assert!((length..=length + 24).contains(&short) && total > 100_000, "{short} {total}");
        let flags = ["-tls1_2", "-alpn", "h2", "-maxfraglen", &length.to_string()];
        let (short, total) = longest_of(&flags, &http2_request());
        assert!((length..=length + 24).contains(&short) && total > 60_000, "{short} {total}");
    }
}

#[test]
fn sessions_of_tls_1_2_are_resumed_without_tickets() {
    let secured = secured(Kind::Classic, &[], &[]);
    assert!(!is_resumed(&secured, "-sess_out") && is_resumed(&secured, "-sess_in"));
    // As with tickets, a session would stand for a certificate.
    let lines = ["tls.client_auth = \"optional\"", "tls.client_ca = '$FOLDERauthority.pem'"];
    let setup = Setup::new(Kind::Classic);
    let asking = secured_in(with_clients(), setup, &lines, &[]);
    is_resumed(&asking, "-sess_out");
    assert!(!asking.folder.path("session").exists(), "there is nothing to resume");
}

/// Whether the connection of a client without tickets is a resumed one.
fn is_resumed(secured: &Secured, flag: &str) -> bool {
    let flags = ["-tls1_2", "-no_ticket", "-servername", "localhost", "-ign_eof", flag, "session"];
    let printed = secured.s_client(&flags, LARGE);
    assert!(printed.contains("HTTP/1.1 200"), "{printed}");
    printed.contains("\nReused, ")
}

/// Keeps a connection after a response, and writes how it ends.
const KEEPS: &str = r#"
import socket, ssl, sys
import h2.connection, h2.events
port, authority, protocol = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.set_alpn_protocols([protocol])
# Python before 3.12 takes any end for a good one.
context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
raw = socket.create_connection(("127.0.0.1", int(port)), 30)
tls = context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False)
if protocol == "h2":
    client, events = h2.connection.H2Connection(), []
    client.initiate_connection()
    fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")]
    client.send_headers(1, [*fields, (":path", "/hello.php")], end_stream=True)
    while not any(isinstance(event, h2.events.StreamEnded) for event in events):
        tls.sendall(client.data_to_send())
        events = client.receive_data(tls.recv(65536))
else:
    tls.sendall(b"GET /hello.php HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while b"Hello" not in tls.recv(65536):
        pass
print("kept", flush=True)
try:
    while come := tls.recv(65536):
        for event in client.receive_data(come):
            if isinstance(event, h2.events.ConnectionTerminated):
                print("GOAWAY", event.last_stream_id)
    print("close_notify")
except (ssl.SSLError, OSError) as error:
    print(error)
"#;

/// A client that has been answered, and what it writes.
struct Keeping(Child, BufReader<ChildStdout>);

impl Keeping {
    fn begin(secured: &Secured, protocol: &str) -> Keeping {
        let mut client = Command::new("/usr/bin/python3")
            .args(["-c", KEEPS, &secured.address.port().to_string()])
            .arg(secured.folder.path("localhost.pem"))
            .arg(protocol)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut said = BufReader::new(client.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "kept\n");
        Keeping(client, said)
    }

    fn ending(mut self) -> String {
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        self.0.wait().unwrap();
        rest
    }
}

#[test]
fn idle_connections_get_close_notify_or_goaway_before_they_end() {
    // A busy machine may not get to the connections of the old front within a second.
    let lines = ["timeouts.idle = \"2s\"", "timeouts.drain = \"30s\""];
    let secured = secured(Kind::Classic, &lines, &[]);
    let clients = || ["http/1.1", "h2"].map(|protocol| Keeping::begin(&secured, protocol));
    let endings = ["close_notify\n", "GOAWAY 2147483647\nGOAWAY 1\nclose_notify\n"];
    assert_eq!(clients().map(Keeping::ending), endings, "at the end of their time");
    let clients = clients();
    reload(&secured.server).unwrap();
    assert_eq!(clients.map(Keeping::ending), endings, "at a reload");
}
