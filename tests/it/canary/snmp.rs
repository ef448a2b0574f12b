//! Net-SNMP draws a salt when it starts and counts on from there: the cipher of each message of
//! SNMPv3 is only as good as its salt is new.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

use crate::harness::{Kind, Setup, in_every_mode, in_parallel};

in_every_mode! { no_salt_comes_twice }

const WORKERS: usize = 3;
const REQUESTS: usize = 30;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 2;
pub const TEXT: u8 = 4;
/// Counters below `usmStats`.
const UNKNOWN_USER: u8 = 3;
const UNKNOWN_ENGINE: u8 = 4;
const ENGINE: &[u8] = b"\x80\0\0\0\x04tests";

fn no_salt_comes_twice(kind: Kind) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let agent = std::thread::spawn(move || salts(&socket));
    let server = Setup::new(kind).site("canary").workers(WORKERS).start();
    if server.get(&format!("/snmp.php?port={port}")).status() == 404 {
        return; // This PHP has no Net-SNMP.
    }
    in_parallel(REQUESTS, |_| {
        server.get(&format!("/snmp.php?port={port}")).expect(200);
    });
    drop(server);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"", ("127.0.0.1", port)).unwrap();
    let salts = agent.join().unwrap();
    assert_eq!(salts.len(), REQUESTS + 1);
    assert_eq!(salts.iter().collect::<HashSet<_>>().len(), salts.len(), "{salts:02x?}");
}

/// Plays an agent that says who it is and knows nobody: the salts of what it is asked, until
/// somebody sends nothing.
fn salts(socket: &UdpSocket) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 2048]);
    loop {
        let (length, client) = socket.recv_from(&mut buffer).expect("the test is not over");
        if length == 0 {
            return seen;
        }
        // RFC 3412: version, header, security parameters, and what may be encrypted.
        let message = parts(parts(&buffer[..length])[0].1);
        let header = parts(message[1].1);
        let security = parts(parts(message[2].1)[0].1);
        let answer = if security[0].1.is_empty() {
            let request = parts(parts(message[3].1)[2].1)[0].1;
            report(UNKNOWN_ENGINE, header[0].1, request)
        } else {
            seen.push(security[5].1.to_vec());
            report(UNKNOWN_USER, header[0].1, &[0])
        };
        socket.send_to(&answer, client).unwrap();
    }
}

/// Types and contents of BER values that follow each other.
pub fn parts(mut text: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [kind, first, rest @ ..] = text {
        let more = usize::from(first.checked_sub(0x80).unwrap_or(0));
        let long = rest[..more].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let length = if *first < 0x80 { usize::from(*first) } else { long };
        found.push((*kind, &rest[more..more + length]));
        text = &rest[more + length..];
    }
    found
}

/// A value of BER, of its parts.
pub fn value(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 0x80);
    [&[kind, length.expect("a short value")], &content[..]].concat()
}

/// A report of RFC 3414. By [`UNKNOWN_ENGINE`] a client learns an agent's name and clock, by
/// [`UNKNOWN_USER`] that there is nothing to wait for.
fn report(counter: u8, message: &[u8], request: &[u8]) -> Vec<u8> {
    let integer = |bytes: &[u8]| value(INTEGER, &[bytes]);
    let empty = value(TEXT, &[]);
    let header = value(
        SEQUENCE,
        &[&integer(message), &integer(&[0x7f, 0xff]), &value(TEXT, &[&[0]]), &integer(&[3])],
    );
    let engine = value(TEXT, &[ENGINE]);
    let security =
        value(SEQUENCE, &[&engine, &integer(&[1]), &integer(&[1]), &empty, &empty, &empty]);
    let counter = value(6, &[&[0x2b, 6, 1, 6, 3, 15, 1, 1, counter, 0]]);
    let counted = value(SEQUENCE, &[&value(SEQUENCE, &[&counter, &value(0x41, &[&[1]])])]);
    let report = value(0xa8, &[&integer(request), &integer(&[0]), &integer(&[0]), &counted]);
    let scoped = value(SEQUENCE, &[&engine, &empty, &report]);
    value(SEQUENCE, &[&integer(&[3]), &header, &value(TEXT, &[&security]), &scoped])
}
