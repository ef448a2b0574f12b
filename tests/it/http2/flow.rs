//! How much may be on its way, and how long: the windows that clients are told, bodies that do not
//! come, responses that nobody takes.

use std::fs::File;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup};
use crate::metrics;

use super::client::{Raw, exchange, field, head, request};

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// What HTTP/2 begins with, for streams and connections.
const DEFAULT_WINDOW: u32 = 65_535;

const LARGEST_WINDOW: u32 = 0x7fff_ffff;

fn start(lines: &[&str]) -> Server {
    lines.iter().fold(Setup::new(Kind::Classic), |setup, line| setup.line(line)).start()
}

fn is_well(server: &Server) {
    let answer = exchange(server, vec![(request("GET", "/hello.php"), Vec::new())]).remove(0);
    assert_eq!(answer.status(), 200);
}

/// The windows of a stream and of the connection, as a client is told them.
fn windows(server: &Server) -> (u32, u32) {
    let mut raw = Raw::open(server, b"");
    // Behind a response, and another exchange, is all that a connection begins with.
    raw.get(1, "/hello.php");
    let (mut of_stream, mut of_connection) = (DEFAULT_WINDOW, DEFAULT_WINDOW);
    loop {
        let (kind, flags, stream, payload) = raw.frame_of(&[1, SETTINGS, PING, WINDOW_UPDATE]);
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        match kind {
            SETTINGS if flags == 0 => {
                for pair in payload.chunks(6).filter(|pair| pair[..2] == [0, 4]) {
                    of_stream = number(&pair[2..]);
                }
            }
            WINDOW_UPDATE if stream == 0 => of_connection += number(&payload),
            1 => drop(raw.frame(PING, 0, 0, b"12345678")),
            PING => return (of_stream, of_connection),
            _ => {}
        }
    }
}

#[test]
fn settings_announce_the_windows() {
    for (lines, expected) in [
        (&[][..], (256 * 1024, 1024 * 1024)),
        (
            &["http2.window = \"100KiB\"", "http2.connection_window = \"3MiB\""],
            (100 * 1024, 3 * 1024 * 1024),
        ),
        // One byte more than HTTP/2 begins with is not worth a frame.
        (
            &["http2.window = \"64KiB\"", "http2.connection_window = \"64KiB\""],
            (64 * 1024, DEFAULT_WINDOW),
        ),
    ] {
        assert_eq!(windows(&start(lines)), expected, "{lines:?}");
    }
}

/// A body that stops half way, while a slow one of the same connection goes on.
#[test]
fn bodies_that_stop() {
    let server = start(&["timeouts.body = \"2s\"", "log.access = \"-\""]);
    let mut raw = Raw::open(&server, b"");
    let length = field("content-length", "1000");
    raw.frame(1, 4, 1, &[head("POST", "/echo.php"), length].concat());
    raw.frame(0, 0, 1, b"the beginning");
    // Bytes that come keep their request.
    raw.frame(1, 4, 3, &head("POST", "/echo.php"));
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(600));
        raw.frame(0, 0, 3, b"slow ");
    }
    assert_eq!(raw.frame_of(&[1]).2, 1);
    server.log_line(&["\"POST /echo.php HTTP/2.0\" 408"]);
    raw.frame(0, 1, 3, b"end");
    let (_, _, stream, _) = raw.frame_of(&[1]);
    assert_eq!(stream, 3);
    let (_, _, stream, body) = raw.frame_of(&[0]);
    assert_eq!((stream, body), (3, b"slow slow slow slow end".to_vec()));
    is_well(&server);
}

/// A client with all windows open that reads nothing from its socket.
#[test]
fn a_client_that_reads_nothing() {
    let server = metrics::start(Setup::new(Kind::Classic).line("timeouts.send = \"1s\""));
    // More than sockets hold; a file with nothing in it takes no room.
    let length = 512 * 1024 * 1024;
    let file = File::create(server.places.root().join("large.bin")).unwrap();
    file.set_len(length).unwrap();
    metrics::samples_when(&server, "tokamak_connections", 0.0);
    let window = [&[0, 4][..], &LARGEST_WINDOW.to_be_bytes()].concat();
    let mut raw = Raw::open(&server, &window);
    raw.frame(WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - DEFAULT_WINDOW).to_be_bytes());
    raw.get(1, "/large.bin");
    metrics::samples_when(&server, "tokamak_connections", 1.0);
    // It is not waited for.
    metrics::samples_when(&server, "tokamak_connections", 0.0);
    is_well(&server);
    // What was on its way is less than the whole.
    let mut came = 0;
    while let Some((kind, _, _, payload)) = raw.next() {
        came += if kind == 0 { payload.len() as u64 } else { 0 };
    }
    assert!(came < length / 2, "{came} of {length} bytes");
}

/// The same without a response: it is only slow to answer, which is no reason to close it.
#[test]
fn a_client_that_has_nothing_to_read_stays() {
    let server = start(&["timeouts.send = \"200ms\""]);
    let mut raw = Raw::open(&server, b"");
    raw.get(1, "/sleep.php?ms=1000");
    assert_eq!(raw.frame_of(&[1]).2, 1);
    std::thread::sleep(Duration::from_millis(500));
    raw.get(3, "/hello.php");
    while raw.frame_of(&[1]).2 != 3 {}
}
