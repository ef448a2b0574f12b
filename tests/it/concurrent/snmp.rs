//! Net-SNMP, whose sessions are those of the whole process: requests of one worker ask at once.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::canary::snmp::{TEXT, parts, value};
use crate::harness::{Kind, Setup, in_parallel};

/// How long an agent takes for an answer.
const THOUGHT: Duration = Duration::from_millis(50);

/// Numbers that are asked for: each is one byte of an OID.
const ASKED: usize = 40;

const SEQUENCE: u8 = 0x30;
const OID: u8 = 6;
const RESPONSE: u8 = 0xa2;

#[test]
fn each_request_is_given_its_own_answer() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let agent = thread::spawn(move || answers(&socket));
    let server = Setup::new(Kind::Async).site("sites/snmp").workers(1).start();
    let page = |number: usize| format!("/?port={port}&n={number}");
    if server.get(&page(0)).status() == 404 {
        return; // This PHP has no Net-SNMP.
    }
    let begun = Instant::now();
    in_parallel(ASKED, |number| {
        let expected = format!("array (\n  0 => 'STRING: \"{number}\"',\n  1 => 0,\n)");
        assert_eq!(server.text(&page(number)), expected);
    });
    // One that was answered while another waited would wait for its own time limit.
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    drop(server);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"", ("127.0.0.1", port)).unwrap();
    agent.join().unwrap();
}

/// Plays an agent that thinks about each question, until somebody sends nothing.
fn answers(socket: &UdpSocket) {
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut buffer = [0; 2048];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).expect("the test is not over");
        if length == 0 {
            return;
        }
        let (answer, socket) = (answer(&buffer[..length]), socket.try_clone().unwrap());
        thread::spawn(move || {
            thread::sleep(THOUGHT);
            socket.send_to(&answer, client).unwrap();
        });
    }
}

/// RFC 3416: the value of an OID is the number at its end.
fn answer(question: &[u8]) -> Vec<u8> {
    let message = parts(parts(question)[0].1);
    let asked = parts(message[2].1);
    let binding = parts(asked[3].1)[0].1;
    let oid = parts(binding)[0].1;
    let number = oid.last().expect("an OID").to_string();
    let binding = value(SEQUENCE, &[&value(OID, &[oid]), &value(TEXT, &[number.as_bytes()])]);
    let copied = |(kind, content): (u8, &[u8])| value(kind, &[content]);
    let response = value(
        RESPONSE,
        &[&copied(asked[0]), &copied(asked[1]), &copied(asked[2]), &value(SEQUENCE, &[&binding])],
    );
    value(SEQUENCE, &[&copied(message[0]), &copied(message[1]), &response])
}
