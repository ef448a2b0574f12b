//! The PROXY protocol, on an address of its own beside the plain one.

use std::net::SocketAddr;
use std::time::Duration;

use crate::balancer::{ORIGIN, some, with};
use crate::harness::{
    Connection, Failure, Kind, Server, Setup, eventually, free_address, get, in_parallel,
};

/// A limit that no test waits for in full.
const SOON: Duration = Duration::from_secs(20);

/// A server with a plain address, which is the server's own, and one where each connection of these
/// proxies begins with a PROXY header.
fn proxied(kind: Kind, proxies: &str, lines: &str) -> (Server, SocketAddr) {
    let address = free_address();
    let server = Setup::new(kind)
        .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{address}\"]"))
        .line(&format!("proxy_protocol = [\"{address}\"]\ntrusted_proxies = [{proxies}]"));
    let server = lines.lines().fold(server, Setup::line).start();
    (server, address)
}

/// A header of version 2.
fn block(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = (rest.len() as u16).to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, rest].concat()
}

/// 192.0.2.1:4711 to 198.51.100.7:443.
const FOUR: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 7, 0x12, 0x67, 1, 0xbb];

const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n";

/// What PHP is told of two requests on a connection that begins with these bytes.
fn origin(address: SocketAddr, header: &[u8]) -> String {
    let mut connection = Connection::open(address);
    connection.send([header, &with(&[]).bytes()].concat());
    let first = some(&connection.response().expect(200).json(), &ORIGIN);
    let second = some(&connection.exchange(&with(&[])).expect(200).json(), &ORIGIN);
    assert_eq!(first, second);
    first
}

fn says_who_connects(kind: Kind) {
    let (server, address) = proxied(kind, "\"127.0.0.0/8\"", "");
    let client = "192.0.2.1 http - 443 localhost localhost";
    let itself = format!("127.0.0.1 http - {} localhost localhost", address.port());
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let six = [&octets("2001:db8::1")[..], &octets("2001:db8::7"), &FOUR[8..]].concat();
    let with_extensions = [&FOUR[..], &[4, 1, 0], &[0; 256]].concat();
    // As HAProxy's `send-proxy-v2-ssl` writes it.
    let secured = [&FOUR[..], &[0x20, 0, 5, 1, 0, 0, 0, 0]].concat();
    for (header, expected) in [
        (LINE.as_bytes().to_vec(), client),
        (block(0x21, 0x11, &FOUR), client),
        (block(0x21, 0x11, &with_extensions), client),
        (block(0x21, 0x11, &secured), "192.0.2.1 https on 443 localhost localhost"),
        (block(0x21, 0x21, &six), "2001:db8::1 http - 443 localhost localhost"),
        (b"PROXY UNKNOWN\r\n".to_vec(), &itself),
        (block(0x20, 0x00, &[]), &itself),
        (block(0x21, 0x00, &[]), &itself),
        (block(0x21, 0x31, &[0; 216]), &itself),
    ] {
        assert_eq!(origin(address, &header), expected, "{header:?}");
    }
    // The plain address goes on without.
    server.get("/hello.php").expect(200);
}

#[test]
fn the_header_says_who_connects() {
    says_who_connects(Kind::Classic);
}

#[test]
fn the_header_says_who_connects_to_fastcgi_applications() {
    says_who_connects(Kind::Fastcgi);
}

#[test]
fn it_may_come_byte_by_byte_and_with_pipelined_requests() {
    let (_server, address) = proxied(Kind::Classic, "\"127.0.0.1\"", "");
    for header in [LINE.as_bytes(), &block(0x21, 0x11, &FOUR)] {
        let mut connection = Connection::open(address);
        let request = with(&[]).bytes();
        let (last, first) = header.split_last().unwrap();
        for byte in first {
            connection.send([*byte]);
        }
        connection.send([&[*last][..], &request, &request].concat());
        for _ in 0..2 {
            let seen = connection.response().expect(200).json();
            assert_eq!(some(&seen, &["REMOTE_ADDR", "SERVER_PORT"]), "192.0.2.1 443");
        }
    }
}

#[test]
fn the_client_is_not_trusted_because_its_proxy_is() {
    let (_server, address) = proxied(Kind::Classic, "\"127.0.0.1\"", "");
    let mut connection = Connection::open(address);
    let forged = with(&[("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https")]);
    connection.send([LINE.as_bytes(), &forged.bytes()].concat());
    let seen = connection.response().expect(200).json();
    assert_eq!(some(&seen, &ORIGIN), "192.0.2.1 http - 443 localhost localhost");
    // Nor is a client that the proxy does not name.
    let mut connection = Connection::open(address);
    connection.send([&b"PROXY UNKNOWN\r\n"[..], &forged.bytes()].concat());
    let seen = connection.response().expect(200).json();
    assert!(some(&seen, &ORIGIN).starts_with("127.0.0.1 http - "), "{seen:#}");
}

#[test]
fn a_connection_without_a_good_header_is_closed() {
    let (server, address) = proxied(Kind::Classic, "\"127.0.0.1\"", "");
    let endless = [&b"PROXY UNKNOWN "[..], &[b'x'; 500]].concat();
    for (bytes, reason) in [
        (get("/hello.php").bytes(), "it does not begin with a PROXY header"),
        (b"\x16\x03\x01\x02\x00\x01".to_vec(), "it does not begin with a PROXY header"),
        (endless, "its PROXY header is too long"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 x\r\n".to_vec(), "its PROXY header is malformed"),
        (block(0x31, 0x11, &FOUR), "its PROXY header has an unknown version or command"),
        (block(0x21, 0x11, &FOUR[1..]), "its PROXY header is too short for its addresses"),
        (block(0x21, 0x11, &[0; 5000]), "its PROXY header is too long"),
    ] {
        let mut connection = Connection::open(address);
        let _ = connection.try_send(&bytes);
        assert!(connection.closes_within(SOON), "{bytes:?}");
        server.log_line(&["connection closed: ", reason, "client=127.0.0.1:"]);
    }
    // A balancer that only looks whether the port is open.
    drop(Connection::open(address));
    assert_eq!(origin(address, LINE.as_bytes()), "192.0.2.1 http - 443 localhost localhost");
}

#[test]
fn the_header_of_an_untrusted_address_closes_its_connection() {
    let (server, address) = proxied(Kind::Classic, "\"10.0.0.0/8\"", "");
    for bytes in [LINE.as_bytes().to_vec(), block(0x21, 0x11, &FOUR), get("/hello.php").bytes()] {
        let mut connection = Connection::open(address);
        let _ = connection.try_send([&bytes[..], &get("/hello.php").bytes()].concat());
        assert!(connection.closes_within(SOON), "{bytes:?}");
    }
    server.log_line(&["connection closed: its address is not in `trusted_proxies`"]);
    // Where no header is expected, it is a request like any other that is malformed.
    for bytes in [LINE.as_bytes().to_vec(), block(0x21, 0x11, &FOUR)] {
        let mut connection = server.connect();
        connection.send(bytes);
        connection.response().expect(400);
    }
    server.get("/hello.php").expect(200);
}

#[test]
fn refusals_cannot_fill_the_log() {
    let (server, address) = proxied(Kind::Classic, "\"10.0.0.0/8\"", "");
    in_parallel(300, |_| assert!(Connection::open(address).closes_within(SOON)));
    let lines = server.log().matches("connection closed: ").count();
    // Twenty a second, and the seconds that a busy machine takes for 300 connections.
    assert!((1..300).contains(&lines), "{lines} lines");
}

#[test]
fn half_a_header_ends_in_time() {
    let (_server, address) = proxied(Kind::Classic, "\"127.0.0.1\"", "timeouts.head = \"500ms\"");
    for bytes in [&b""[..], b"PROXY TCP4 192.0", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"] {
        let mut connection = Connection::open(address);
        connection.send(bytes);
        assert!(connection.closes_within(SOON), "{bytes:?}");
    }
    // A whole one has the time of any other connection.
    let mut connection = Connection::open(address);
    connection.send(LINE);
    connection.patience(Duration::from_millis(1500));
    assert!(matches!(connection.head(), Err(Failure::Silent(_))));
    connection.patience(SOON);
    connection.exchange(&get("/hello.php")).expect(200);
}

#[test]
fn every_event_loop_takes_them_and_counts_them_once() {
    // Twice as many as there are clients: a connection counts until its end has been seen.
    let lines = "loops = 3\nlimits.connections = 400";
    let (server, address) = proxied(Kind::Classic, "\"127.0.0.1\"", lines);
    in_parallel(200, |number| {
        let header = format!("PROXY TCP4 192.0.2.{number} 198.51.100.7 4711 443\r\n");
        let mut connection = Connection::open(address);
        connection.send([header.as_bytes(), &with(&[]).bytes()].concat());
        let seen = connection.response().expect(200).json();
        assert_eq!(seen["REMOTE_ADDR"], format!("192.0.2.{number}"));
    });
    // All of them are given back: as many as the limit lets can be open at once.
    let full = || {
        let mut all: Vec<_> = (0..400).map(|_| Connection::open(address)).collect();
        let served = |connection: &mut Connection| {
            let sent = [LINE.as_bytes(), &get("/hello.php").bytes()].concat();
            connection.try_send(sent).is_ok()
                && connection.try_response("GET").is_ok_and(|response| response.status() == 200)
        };
        all.iter_mut().all(served).then_some(())
    };
    assert!(eventually(SOON, full).is_some(), "{}", server.log());
}
