//! Every way of being wrong: the connection is closed or the request refused, one line of the log
//! says why, and others are served.

use std::thread::sleep;
use std::time::Duration;

use tokamak_fastcgi::{ProtocolStatus, Stream, Values, encode};

use super::client::{Client, Heard, Request};
use super::pool;
use crate::harness::{Server, eventually};

/// One thing that a web server may say, and what the log says to that.
struct Lie {
    said: Vec<u8>,
    log: &'static str,
}

fn lie(said: impl Into<Vec<u8>>, log: &'static str) -> Lie {
    Lie { said: said.into(), log }
}

/// A record with any header.
fn record(version: u8, kind: u8, id: u8, said_len: u16, content: &[u8]) -> Vec<u8> {
    let [high, low] = said_len.to_be_bytes();
    [&[version, kind, 0, id, high, low, 0, 0], content].concat()
}

fn begin() -> Vec<u8> {
    made(|out| encode::begin(out, 1, tokamak_fastcgi::Role::Responder, true))
}

fn made(make: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    make(&mut out);
    out
}

/// What closes the connection.
fn lies() -> Vec<Lie> {
    let after_begin = |said: &[u8]| [&begin(), said].concat();
    vec![
        lie(record(0, 1, 1, 8, &[0; 8]), "a record of version 0, not 1"),
        lie(record(2, 1, 1, 8, &[0; 8]), "a record of version 2, not 1"),
        lie("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a record of version 71, not 1"),
        lie(record(1, 12, 1, 0, b""), "a record of the unknown type 12"),
        lie(record(1, 0, 1, 0, b""), "a record of the unknown type 0"),
        lie(record(1, 1, 0, 8, &[0; 8]), "a record of type 1 with the request id 0"),
        lie(record(1, 4, 0, 0, b""), "a record of type 4 with the request id 0"),
        lie(record(1, 9, 1, 0, b""), "a record of type 9 with the request id 1"),
        lie(record(1, 1, 1, 7, &[0; 7]), "a record of type 1 with 7 bytes"),
        lie(record(1, 1, 1, 9, &[0; 9]), "a record of type 1 with 9 bytes"),
        lie(after_begin(&record(1, 2, 1, 1, b"x")), "a record of type 2 with 1 bytes"),
        lie(record(1, 9, 0, 60_000, b""), "a record of type 9 with 60000 bytes"),
        lie(record(1, 9, 0, 3, b"\x05\x05a"), "a name-value pair that ends behind its stream"),
        lie(after_begin(&begin()), "a request that begins twice"),
        lie(after_begin(&record(1, 5, 1, 1, b"x")), "a body before the end of the parameters"),
        lie(after_begin(&record(1, 5, 1, 0, b"")), "a body before the end of the parameters"),
        lie(after_begin(&record(1, 8, 1, 1, b"x")), "a body before the end of the parameters"),
        lie(
            after_begin(&[record(1, 4, 1, 0, b""), record(1, 4, 1, 2, b"\0\0")].concat()),
            "parameters after their end",
        ),
        lie(after_begin(&record(1, 6, 1, 1, b"x")), "an application's stream"),
        lie(after_begin(&record(1, 7, 1, 1, b"x")), "an application's stream"),
        lie(
            made(|out| encode::end(out, 1, 0, ProtocolStatus::Complete)),
            "only an application sends",
        ),
        lie(made(|out| encode::values(out, Values::default())), "only an application sends"),
        lie(made(|out| encode::unknown_type(out, 9)), "only an application sends"),
        // The sum of the lengths passes 32 bits: CVE-2025-23016.
        lie(after_begin(&record(1, 4, 1, 10, &[0xff; 10])), "name-value pairs that are too long"),
        lie(
            after_begin(&record(1, 4, 1, 9, b"\x01\x80\x7f\xff\xffabcd")),
            "name-value pairs that are too long",
        ),
        lie(
            after_begin(&[record(1, 4, 1, 4, b"\x05\x05ab"), record(1, 4, 1, 0, b"")].concat()),
            "a name-value pair that ends behind its stream",
        ),
        lie(after_begin(&record(1, 4, 1, 60_000, &[0; 60_000])), "too many name-value pairs"),
    ]
}

#[test]
fn a_lie_closes_the_connection_and_is_logged() {
    let server = pool(1).start();
    for Lie { said, log } in lies() {
        // Not so many in a second that only their number would be told.
        sleep(Duration::from_millis(60));
        let before = lines(&server, log);
        let mut client = Client::connect(&server);
        client.send(&said);
        assert!(client.is_closed(), "{log}");
        let logged =
            eventually(Duration::from_secs(20), || (lines(&server, log) > before).then_some(()));
        assert!(logged.is_some(), "no line says: {log}");
        assert_eq!(lines(&server, log), before + 1, "{log}");
    }
    good(&server);
}

fn lines(server: &Server, text: &str) -> usize {
    server.log().lines().filter(|line| line.contains(text)).count()
}

fn good(server: &Server) {
    let answer = Client::connect(server).ask(&Request::new(server, "/hello.php"));
    assert_eq!(answer.body(), "Hello from PHP");
}

#[test]
fn endless_parameters_close_the_connection() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    client.send(&begin());
    let pair = made(|out| {
        let mut params = encode::Params::new(out, 1);
        params.pair(b"HTTP_X", &[b'x'; 10_000]).unwrap();
        params.finish();
    });
    let without_end = &pair[..pair.len() - 8];
    for _ in 0..20 {
        client.send(without_end);
    }
    assert!(client.is_closed());
    server.log_line(&["name-value pairs that are too long"]);
    good(&server);
}

/// A lie about one request ends the others of its connection, but of no other connection.
#[test]
fn others_do_not_suffer() {
    let server = pool(2).start();
    let mut other = Client::connect(&server);
    other.send(&Request::new(&server, "/sleep.php?ms=700").bytes(1));
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/sleep.php?ms=300").bytes(1));
    sleep(Duration::from_millis(100));
    client.send(&record(9, 9, 9, 9, b""));
    assert!(client.is_closed());
    assert_eq!(other.answer().body(), "slept");
    good(&server);
}

/// A body that holds records is a body.
#[test]
fn records_in_a_body_are_not_read() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let smuggled = Request::new(&server, "/hello.php").bytes(2).repeat(200);
    let answer = client.ask(&Request::new(&server, "/echo.php").post(&smuggled));
    assert!(answer.stdout.ends_with(&smuggled));
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

/// Whatever is cut, wherever: nothing hangs, nothing dies.
#[test]
fn a_request_may_be_cut_anywhere() {
    let server = pool(1).start();
    let bytes = Request::new(&server, "/echo.php").post(b"some body").bytes(1);
    for at in 0..bytes.len() {
        Client::connect(&server).send(&bytes[..at]);
    }
    // Bytes that were never meant well, the same in every run.
    let mut random = 88_172_645_463_325_252_u64;
    for _ in 0..500 {
        let mut damaged = bytes.clone();
        for _ in 0..4 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = random as usize % damaged.len();
            damaged[at] = (random >> 40) as u8;
        }
        Client::connect(&server).send(&damaged);
    }
    let mut client = Client::connect(&server);
    client.send(&bytes);
    let Heard::Ended(1, answer) = client.hear() else { panic!("no answer") };
    assert_eq!(answer.body(), "some body");
    assert!(!server.log().contains("the front ended"), "{}", server.log());
}

#[test]
fn a_body_without_parameters_means_nothing() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let mut bytes = begin();
    encode::stream_end(&mut bytes, 1, Stream::Params);
    encode::stream_end(&mut bytes, 1, Stream::Stdin);
    client.send(&bytes);
    assert_eq!(client.answer().body(), "");
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}
