//! What a client may do over HTTP/2, and what happens when it does more. Each limit has a line in
//! the log.

use std::time::{Duration, Instant};

use crate::harness::{Kind, Server, Setup, eventually};
use crate::operate::reload;

use super::client::{PATIENCE, Raw, exchange, field, frame, head, request};

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// The last stream of a GOAWAY that only announces one.
const ANY_STREAM: u32 = 0x7fff_ffff;

const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn start(lines: &[&str]) -> Server {
    lines.iter().fold(Setup::new(Kind::Classic), |setup, line| setup.line(line)).start()
}

/// The reason in the payload of a RST_STREAM.
fn reason(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload.try_into().unwrap())
}

/// The server still answers, over both protocols.
fn is_well(server: &Server) {
    assert_eq!(server.get("/hello.php").status(), 200);
    let answer = exchange(server, vec![(request("GET", "/hello.php"), Vec::new())]).remove(0);
    assert_eq!(answer.status(), 200);
}

/// The connection has ended for a flood, which the log says for this `count`th time. A client that
/// is held up may find a reset in the place of the last frames.
#[track_caller]
fn has_ended(server: &Server, raw: &mut Raw, count: usize, reason: &str) {
    let goaway = raw.end();
    assert!(goaway == Some(ENHANCE_YOUR_CALM) || raw.was_reset, "{reason}: {goaway:?}");
    let is_logged = || {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("HTTP/2 connection closed"));
        (lines.filter(|line| line.contains(reason)).count() >= count).then_some(())
    };
    let logged = eventually(PATIENCE, is_logged);
    assert!(logged.is_some(), "{count} times {reason}: {}", server.log());
}

#[test]
fn cancelled_requests() {
    let server = start(&["http2.resets = 50"]);
    let mut raw = Raw::open(&server, b"");
    for number in 0..2000 {
        let stream = 2 * number + 1;
        if !raw.get(stream, "/sleep.php?ms=1")
            || !raw.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
        {
            break;
        }
    }
    has_ended(&server, &mut raw, 1, "http2.resets");
    server.log_line(&["HTTP/2 connection closed", "http2.resets", "127.0.0.1"]);
    is_well(&server);
}

#[test]
fn control_frames() {
    let server = start(&["http2.control_frames = 50"]);
    let payload = [0; 8];
    let kinds = [(PING, 8), (SETTINGS, 0), (2, 5), (0x55, 3), (8, 4)];
    for (number, (kind, length)) in kinds.into_iter().enumerate() {
        let mut raw = Raw::open(&server, b"");
        let stream = if matches!(kind, 2 | 8) { 1 } else { 0 };
        if stream == 1 {
            raw.get(1, "/sleep.php?ms=2000");
        }
        // The window grows by one at a time.
        let payload = if kind == 8 { &[0, 0, 0, 1] } else { &payload[..length] };
        for _ in 0..2000 {
            if !raw.frame(kind, 0, stream, payload) {
                break;
            }
        }
        has_ended(&server, &mut raw, number + 1, "http2.control_frames");
    }
    is_well(&server);
}

/// These the library counts.
#[test]
fn floods_that_the_library_counts() {
    let server = start(&[]);
    let mut raw = Raw::open(&server, b"");
    raw.frame(1, 4, 1, &head("POST", "/echo.php"));
    for _ in 0..200 {
        raw.frame(0, 0, 1, b"");
    }
    has_ended(&server, &mut raw, 1, "ENHANCE_YOUR_CALM");
    let mut raw = Raw::open(&server, b"");
    raw.frame(1, 0, 1, &head("GET", "/hello.php"));
    for _ in 0..200 {
        raw.frame(9, 0, 1, b"");
    }
    has_ended(&server, &mut raw, 2, "ENHANCE_YOUR_CALM");
    is_well(&server);
}

#[test]
fn requests_at_the_same_time() {
    let server = start(&["http2.streams = 3"]);
    let mut raw = Raw::open(&server, b"");
    let (_, _, _, settings) = raw.frame_of(&[SETTINGS]);
    assert!(settings.chunks(6).any(|pair| pair == [0, 3, 0, 0, 0, 3]), "{settings:?}");
    for stream in [1, 3, 5, 7] {
        raw.get(stream, "/sleep.php?ms=500");
    }
    let (_, _, stream, payload) = raw.frame_of(&[RST_STREAM]);
    assert_eq!((stream, reason(&payload)), (7, REFUSED_STREAM));
    for _ in 0..3 {
        assert!([1, 3, 5].contains(&raw.frame_of(&[1]).2));
    }
}

#[test]
fn requests_of_a_connection() {
    let server = start(&["http2.requests = 3"]);
    let mut raw = Raw::open(&server, b"");
    for stream in [1, 3, 5] {
        raw.get(stream, "/hello.php");
    }
    let (answered, farewells) = raw.finish();
    assert_eq!(answered.len(), 3);
    assert_eq!(farewells, [(ANY_STREAM, NO_ERROR), (5, NO_ERROR)]);
}

/// A client that does not answer the PING after its GOAWAY, and has a request under way: it is told
/// which request was the last one, so that it sends the others elsewhere.
#[test]
fn requests_of_a_client_that_does_not_leave() {
    let server = start(&["http2.requests = 2"]);
    let mut raw = Raw::open(&server, b"");
    raw.get(1, "/hold.php?name=stays");
    server.holds("stays");
    let mut last = 1;
    let announced = 'asks: loop {
        last += 2;
        raw.get(last, "/hello.php");
        loop {
            let (kind, _, answered, payload) = raw.frame_of(&[1, GOAWAY]);
            if kind == 1 {
                assert_eq!(answered, last);
                break;
            }
            let id = u32::from_be_bytes(payload[..4].try_into().unwrap());
            if id != ANY_STREAM {
                break 'asks id;
            }
        }
    };
    assert!(announced == last || announced == last - 2, "{announced} is not the last of {last}");
    raw.get(last + 2, "/hello.php");
    server.let_go("stays");
    loop {
        let (_, _, stream, _) = raw.frame_of(&[1]);
        assert!(stream <= last, "{stream} came after the last one");
        if stream == 1 {
            break;
        }
    }
    // The client never answers, and is gone.
    assert_eq!(raw.end(), None);
}

#[test]
fn heads() {
    let server = start(&["limits.head = \"4KiB\"", "limits.headers = 20"]);
    let long = "x".repeat(5000);
    let too_many = (0..21).fold(request("GET", "/hello.php"), |request, number| {
        request.header(format!("x-{number}"), "y")
    });
    let requests = vec![
        (request("GET", "/hello.php").header("x-long", &long), Vec::new()),
        (too_many, Vec::new()),
        (request("GET", &format!("/hello.php?{long}")), Vec::new()),
        (request("TRACE", "/hello.php"), Vec::new()),
        (request("GET", "/hello.php").header("host", "other"), Vec::new()),
        // Longer than the library reads: the page is its own.
        (request("GET", "/hello.php").header("x-long", long.repeat(4)), Vec::new()),
        (request("GET", "/hello.php"), Vec::new()),
    ];
    let answers = exchange(&server, requests);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, [431, 431, 414, 405, 400, 431, 200]);
    for text in ["head too large", "too many header lines", "request line too long", "TRACE"] {
        server.log_line(&["request refused", text, "127.0.0.1"]);
    }
}

#[test]
fn bodies() {
    let server = start(&["limits.body = \"100KiB\""]);
    let large = vec![b'x'; 200_000];
    let length = request("POST", "/echo.php").header("content-length", "200000");
    let requests = vec![(length, large.clone()), (request("POST", "/echo.php"), large)];
    let answers = exchange(&server, requests);
    assert!(answers.iter().all(|answer| answer.status() == 413), "{answers:?}");
    // More or less than it says.
    for body in ["1234", "123456"] {
        let mut raw = Raw::open(&server, b"");
        let fields = [head("POST", "/echo.php"), field("content-length", "5")].concat();
        raw.frame(1, 4, 1, &fields);
        raw.frame(0, 1, 1, body.as_bytes());
        assert_eq!(reason(&raw.frame_of(&[RST_STREAM, 1]).3), 1, "{body}");
    }
    is_well(&server);
}

/// Fields that say something about an HTTP/1 connection end the request.
#[test]
fn fields_of_connections() {
    let server = start(&[]);
    for (name, value) in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("te", "gzip"),
    ] {
        let mut raw = Raw::open(&server, b"");
        raw.frame(1, 5, 1, &[head("GET", "/hello.php"), field(name, value)].concat());
        let (kind, _, stream, payload) = raw.frame_of(&[RST_STREAM, 1]);
        assert_eq!((kind, stream, reason(&payload)), (RST_STREAM, 1, 1), "{name}");
    }
    let mut raw = Raw::open(&server, b"");
    raw.frame(1, 5, 1, &[head("GET", "/hello.php"), field("te", "trailers")].concat());
    assert_eq!(raw.frame_of(&[RST_STREAM, 1]).0, 1);
    let mut raw = Raw::open(&server, b"");
    let connect = [field(":method", "CONNECT"), field(":authority", "localhost:80")].concat();
    raw.frame(1, 5, 1, &connect);
    assert_eq!(raw.frame_of(&[RST_STREAM, 1]).2, 1);
    server.log_line(&["request refused", "CONNECT"]);
}

/// A client that opens no window for its response loses it, and nobody else anything.
#[test]
fn a_client_that_takes_nothing() {
    let server = start(&["timeouts.send = \"1s\""]);
    // The window of each stream is empty.
    let mut raw = Raw::open(&server, &[0, 4, 0, 0, 0, 0]);
    raw.get(1, "/large.php?bytes=100000");
    assert_eq!(raw.frame_of(&[1]).2, 1);
    is_well(&server);
    let (_, _, stream, payload) = raw.frame_of(&[RST_STREAM]);
    assert_eq!((stream, reason(&payload)), (1, CANCEL));
    // The connection goes on.
    raw.frame(PING, 0, 0, b"12345678");
    assert_eq!(raw.frame_of(&[PING]).3, b"12345678");
}

#[test]
fn an_idle_connection_gets_goaway() {
    let server = start(&["timeouts.idle = \"500ms\""]);
    let serves_what_is_on_its_way = |_| {
        let mut raw = Raw::open(&server, b"");
        raw.get(1, "/hello.php");
        assert_eq!(raw.frame_of(&[GOAWAY]).3[..4], ANY_STREAM.to_be_bytes());
        raw.get(3, "/hello.php");
        let ending = raw.finish();
        assert!(!raw.was_reset, "the GOAWAY would be lost");
        ending == (vec![3], vec![(3, NO_ERROR)])
    };
    // On a busy machine it may come when the client's time to answer is over.
    assert!((0..20).any(serves_what_is_on_its_way));
}

/// A head that does not end, and a client that never says anything after the preface.
#[test]
fn slow_heads() {
    let server = start(&["timeouts.head = \"500ms\""]);
    let begun = Instant::now();
    let mut raw = Raw::open(&server, b"");
    raw.frame(1, 0, 1, &head("GET", "/hello.php"));
    assert_eq!(raw.end(), None);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let mut raw = Raw::silent(&server);
    raw.send(b"PRI * HTTP/2.0\r\n");
    assert_eq!(raw.end(), None);
    is_well(&server);
}

/// How a connection with a request ends that is answered long after the server is told to end
/// connections; one without a request ends as soon as its client knows it.
fn requests_finish(server: &mut Server, tell: impl FnOnce(&mut Server)) {
    let mut raw = Raw::open(server, b"");
    raw.get(1, "/hold.php?name=long");
    server.holds("long");
    let mut idle = Raw::open(server, b"");
    idle.get(1, "/hello.php");
    assert_eq!(idle.frame_of(&[1]).2, 1);
    tell(server);
    assert_eq!(idle.finish().1, [(ANY_STREAM, NO_ERROR), (1, NO_ERROR)]);
    assert_eq!(raw.frame_of(&[GOAWAY]).3[..4], ANY_STREAM.to_be_bytes());
    server.let_go("long");
    assert_eq!(raw.finish(), (vec![1], vec![(1, NO_ERROR)]));
}

/// A reload ends connections when their requests are answered.
#[test]
fn a_reload_lets_requests_finish() {
    let mut server = Setup::new(Kind::Classic).line("timeouts.drain = \"20s\"").start();
    requests_finish(&mut server, |server| drop(reload(server).expect("a reload")));
    // A client whose requests end soon is told nothing before: there are some that would lose them.
    let loses_no_request = |round: u32| {
        let mut raw = Raw::open(&server, b"");
        let name = format!("soon{round}");
        raw.get(1, &format!("/hold.php?name={name}"));
        server.holds(&name);
        reload(&server).expect("a reload");
        server.let_go(&name);
        raw.frame_of(&[1, GOAWAY]).0 == 1
    };
    // On a busy machine they may not end soon.
    assert!((0..20).any(loses_no_request));
}

/// So does a server that is told to stop, and then it ends.
#[test]
fn a_stop_lets_requests_finish() {
    let mut server = Setup::new(Kind::Classic).line("timeouts.drain = \"20s\"").start();
    requests_finish(&mut server, |server| server.main_process().signal("TERM"));
    let ended = server.main_process().wait(Duration::from_secs(20));
    assert!(ended.is_some(), "the server does not end");
}

/// Frames that a seed invents: whatever they are, the server answers the next client.
#[test]
fn invented_frames() {
    let server = start(&[]);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..300 {
        let mut raw = Raw::open(&server, b"");
        for _ in 0..random(30) {
            let kind = random(12) as u8;
            let length = [0, 1, 4, 5, 6, 8, 9, 40][random(8) as usize];
            let payload: Vec<u8> = match random(3) {
                0 => head("GET", "/hello.php"),
                1 => vec![random(256) as u8; length],
                _ => (0..length).map(|_| random(256) as u8).collect(),
            };
            let mut bytes = frame(kind, random(64) as u8, random(8) as u32, &payload);
            if random(10) == 0 {
                let at = random(bytes.len() as u64) as usize;
                bytes[at] = random(256) as u8;
            }
            if !raw.send(&bytes) {
                break;
            }
        }
        drop(raw);
        if round % 50 == 0 {
            is_well(&server);
        }
    }
    is_well(&server);
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}
