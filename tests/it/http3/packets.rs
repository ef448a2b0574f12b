//! Datagrams that are no QUIC, of another version, of nobody, or of forged addresses.

use std::net::UdpSocket;
use std::time::Duration;

use super::client::{Target, number};
use super::{ADMIN, front_memory, server, with_lines};
use crate::harness::{Kind, Setup, numbered};
use crate::http2::client::runtime;
use crate::metrics::samples;
use crate::operate::operated;

/// A socket that waits for answers for a while.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// A datagram with the head of an Initial packet of this version; the rest means nothing.
fn initial(version: u32, id: u8) -> Vec<u8> {
    let mut datagram = vec![0xc3];
    datagram.extend_from_slice(&version.to_be_bytes());
    datagram.extend_from_slice(&[8, id, 1, 2, 3, 4, 5, 6, 7]);
    datagram.extend_from_slice(&[8, 9, 9, 9, 9, 9, 9, 9, 9]);
    datagram.extend_from_slice(&number(0));
    datagram.extend_from_slice(&number(1100));
    datagram.resize(1200, id);
    datagram
}

#[test]
fn another_version_is_answered_with_those_that_there_are() {
    let (_secured, target) = server(Kind::Classic);
    let socket = socket();
    socket.send_to(&initial(0x1a2a_3a4a, 1), target.address()).unwrap();
    let mut answer = [0; 2000];
    let (length, _) = socket.recv_from(&mut answer).expect("a version negotiation");
    let answer = &answer[..length];
    assert!(answer[0] & 0x80 != 0 && answer[1..5] == [0; 4], "{answer:?}");
    assert_eq!(answer[6..14], [9; 8], "to the client's own id");
    let versions = &answer[14 + 1 + 8..];
    assert!(versions.chunks(4).any(|version| version == [0, 0, 0, 1]), "{versions:?}");
    assert!(length < 1200, "less than came");
}

#[test]
fn what_is_no_quic_harms_nobody() {
    let (secured, target) = with_lines(operated(Kind::Classic).site("php"), &["loops = 2"]);
    let socket = socket();
    let before = front_memory(&secured.server);
    for round in 0..20_000_u32 {
        let datagram = match round % 4 {
            0 => numbered(round as usize % 1400 + 1),
            1 => initial(1, round as u8),
            2 => [&[0x40][..], &round.to_be_bytes(), &numbered(60)].concat(),
            _ => vec![round as u8; round as usize % 30],
        };
        let _ = socket.send_to(&datagram, target.address());
    }
    assert_eq!(target.get("/hello.php").status(), 200);
    let after = front_memory(&secured.server);
    assert!(after < before + 16.0 * 1024.0, "KiB: {before} -> {after}");
    assert!(!secured.server.log().contains("panic"), "{}", secured.server.log());
}

/// A packet of a connection that nobody knows: a server that was started anew says so, and the
/// client need not wait.
#[test]
fn the_client_of_a_lost_connection_is_told() {
    let (_secured, target) = server(Kind::Classic);
    let socket = socket();
    let packet = [&[0x41][..], &[7; 12], &[1; 60]].concat();
    socket.send_to(&packet, target.address()).unwrap();
    let mut answer = [0; 2000];
    let (length, _) = socket.recv_from(&mut answer).expect("a stateless reset");
    assert!((21..packet.len()).contains(&length), "shorter than the packet: {length}");
    assert!(answer[0] & 0x80 == 0);
}

/// Beyond some handshakes at the same time, a client has to show that it gets what is sent to its
/// address.
#[test]
fn under_load_addresses_are_proved() {
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &[ADMIN]);
    // Handshakes that never go on: their first packets are real, and their clients gone.
    let real = first_packet(&target);
    for _ in 0..200 {
        let socket = socket();
        // Another connection id for each, so that each is a connection; the packet's protection
        // depends on it, so the library drops what it cannot read. Only those of real ones count.
        socket.send_to(&real, target.address()).unwrap();
    }
    assert_eq!(target.get("/hello.php").status(), 200, "a real client proves its address");
    let open = samples(&secured.server)["tokamak_connections"];
    assert!(open < 150.0, "{open} connections for 200 forged packets");
}

/// The first datagram of a client.
fn first_packet(target: &Target) -> Vec<u8> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let elsewhere = target.at(sink.local_addr().unwrap());
    let mut packet = vec![0; 2000];
    let thread = std::thread::spawn(move || {
        runtime().block_on(async {
            let _ = tokio::time::timeout(Duration::from_secs(2), elsewhere.quic()).await;
        });
    });
    let length = sink.recv(&mut packet).expect("a first packet");
    packet.truncate(length);
    thread.join().unwrap();
    packet
}

#[test]
fn more_connections_than_the_limit_are_refused() {
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &["limits.connections = 2"]);
    runtime().block_on(async {
        let _one = target.connect().await.unwrap();
        let _two = target.connect().await.unwrap();
        let third = target.quic().await.map(|_| ()).unwrap_err().to_string();
        assert!(third.contains("refused") || third.contains("closed"), "{third}");
    });
    secured.server.log_line(&["connection refused", "limits.connections"]);
}
