//! Every way of being wrong: the request gets 502 or is cut, a line of the log says why, and the
//! next request is served.

use std::sync::mpsc::channel;

use super::backend::{PATIENCE, Wire, raw, status};
use super::in_front_of;
use crate::harness::{Failure, Kind, Setup, get};
use crate::http_upstream::backend::Backend;
use crate::http_upstream::hostile::is_cut_off;
use crate::http2::client::{field, frame};

/// What an application sends in answer to a request, and what the log says to that.
struct Lie {
    name: &'static str,
    /// For the request of this stream.
    said: fn(u32) -> Vec<u8>,
    log: &'static str,
}

const PROTOCOL: &str = "sent no valid HTTP/2";
const LATE: &str = "cancelled the request";

fn head(stream: u32, fields: &[u8]) -> Vec<u8> {
    frame(1, 4, stream, &[status("200"), fields.to_vec()].concat())
}

/// What is answered 502.
const LIES: [Lie; 22] = [
    Lie { name: "http1", said: |_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), log: PROTOCOL },
    Lie { name: "settings-of-5-bytes", said: |_| frame(4, 0, 0, &[0; 5]), log: PROTOCOL },
    Lie { name: "settings-of-a-stream", said: |id| frame(4, 0, id, &[]), log: PROTOCOL },
    Lie { name: "huge-frame", said: |id| frame(0, 0, id, &[0; 20_000]), log: PROTOCOL },
    Lie { name: "data-of-no-stream", said: |_| frame(0, 0, 0, b"x"), log: PROTOCOL },
    Lie { name: "data-of-an-idle-stream", said: |_| frame(0, 0, 9, b"x"), log: PROTOCOL },
    Lie { name: "data-before-the-head", said: |id| frame(0, 0, id, b"x"), log: PROTOCOL },
    Lie { name: "bad-compression", said: |id| frame(1, 4, id, &[0xff; 9]), log: PROTOCOL },
    Lie {
        name: "push",
        said: |id| {
            let promised = [&2_u32.to_be_bytes()[..], &crate::http2::client::head("GET", "/x")];
            frame(5, 4, id, &promised.concat())
        },
        log: PROTOCOL,
    },
    Lie { name: "no-status", said: |id| frame(1, 4, id, &field("a", "b")), log: PROTOCOL },
    Lie { name: "letters", said: |id| frame(1, 4, id, &status("2oo")), log: PROTOCOL },
    Lie { name: "four-digits", said: |id| frame(1, 4, id, &status("2000")), log: PROTOCOL },
    Lie { name: "status-twice", said: |id| head(id, &status("200")), log: PROTOCOL },
    Lie { name: "upper-case", said: |id| head(id, &field("A", "b")), log: PROTOCOL },
    Lie { name: "line-feed", said: |id| head(id, &field("a", "b\nc")), log: PROTOCOL },
    Lie { name: "connection", said: |id| head(id, &field("connection", "x")), log: PROTOCOL },
    Lie { name: "switching", said: |id| frame(1, 4, id, &status("101")), log: PROTOCOL },
    Lie {
        name: "large-head",
        said: |id| head(id, &field("a", &"b".repeat(9000))),
        log: "a head that is too large",
    },
    Lie {
        name: "endless-head",
        said: |id| {
            let piece = field("a", &"b".repeat(16_000));
            let mut all = frame(1, 0, id, &status("200"));
            (0..2000).for_each(|_| all.extend(frame(9, 0, id, &piece)));
            all
        },
        log: PROTOCOL,
    },
    Lie {
        name: "many-interims",
        said: |id| frame(1, 4, id, &status("103")).repeat(200),
        log: "sent ",
    },
    Lie {
        name: "cancelled",
        said: |id| frame(3, 0, id, &[0, 0, 0, 2]),
        log: "cancelled the request: INTERNAL_ERROR",
    },
    Lie {
        name: "refused-twice",
        said: |id| frame(3, 0, id, &[0, 0, 0, 7]),
        log: "did not take the request",
    },
];

/// Responses that go wrong behind their head.
const BROKEN_OFF: [Lie; 6] = [
    Lie {
        name: "late-cancel",
        said: |id| [head(id, &[]), frame(3, 0, id, &[0, 0, 0, 8])].concat(),
        log: LATE,
    },
    Lie {
        name: "shorter",
        said: |id| [head(id, &field("content-length", "9")), frame(0, 1, id, b"x")].concat(),
        log: PROTOCOL,
    },
    Lie {
        name: "longer",
        said: |id| [head(id, &field("content-length", "1")), frame(0, 0, id, b"xyz")].concat(),
        log: PROTOCOL,
    },
    Lie {
        name: "status-behind-the-body",
        said: |id| {
            let body = frame(0, 0, id, b"begun");
            [head(id, &[]), body, frame(1, 5, id, &status("200"))].concat()
        },
        log: PROTOCOL,
    },
    Lie {
        name: "trailers-without-an-end",
        said: |id| {
            let body = frame(0, 0, id, b"begun");
            [head(id, &[]), body, frame(1, 4, id, &field("a", "b"))].concat()
        },
        log: PROTOCOL,
    },
    Lie {
        name: "large-trailers",
        said: |id| {
            let body = frame(0, 0, id, b"begun");
            let fields = field("a", &"b".repeat(6000)).repeat(3);
            let (first, rest) = fields.split_at(16_000);
            let trailers = [frame(1, 1, id, first), frame(9, 4, id, rest)].concat();
            [head(id, &[]), body, trailers].concat()
        },
        log: "trailers that are too large",
    },
];

/// Whether a request asks for this lie.
fn asks_for(payload: &[u8], name: &str) -> bool {
    payload.windows(name.len()).any(|part| part == name.as_bytes())
}

/// An application that lies as the request says, and tells the truth otherwise.
fn liar(lies: &'static [Lie]) -> Backend {
    raw(move |wire: &mut Wire<'_>| {
        while let Some((kind, flags, stream, payload)) = wire.next() {
            match (kind, flags) {
                (1, _) => match lies.iter().find(|lie| asks_for(&payload, lie.name)) {
                    None => wire.answer(stream, "the truth"),
                    Some(lie) => wire.send(&(lie.said)(stream)),
                },
                (4, 0) => wire.send(&frame(4, 1, 0, &[])),
                (6, 0) => wire.send(&frame(6, 1, 0, &payload)),
                _ => {}
            }
        }
    })
}

/// The target that names a lie. Huffman's code, which the application does not read, would make it
/// longer, so it is sent as it is.
fn target(name: &str) -> String {
    format!("/app?{name}{}", "~".repeat(30))
}

#[test]
fn a_lie_is_answered_502_and_logged() {
    let backend = liar(&LIES);
    let server = in_front_of(&backend.url, "head = \"8KiB\"\nfailures = 0").start();
    for lie in &LIES {
        let target = target(lie.name);
        let answer = server.get(&target);
        assert_eq!(answer.status(), 502, "{}", lie.name);
        let line = server.log_line(&["status=502", &format!("url={target}")]);
        assert!(line.contains(lie.log), "{}: {line}", lie.name);
        assert_eq!(server.text("/app"), "the truth", "after {}", lie.name);
    }
}

#[test]
fn what_breaks_off_is_not_taken_for_the_whole() {
    let backend = liar(&BROKEN_OFF);
    let server = in_front_of(&backend.url, "failures = 0").start();
    for lie in &BROKEN_OFF {
        let target = target(lie.name);
        is_cut_off(&server, &target, lie.log);
        assert_eq!(server.text("/app"), "the truth", "after {}", lie.name);
    }
}

/// Frames of no request, as fast as they can be sent: the connection is closed.
#[test]
fn floods_end_the_connection() {
    let floods: [fn(u32) -> Vec<u8>; 4] = [
        |_| frame(6, 0, 0, &[0; 8]),
        |_| frame(4, 0, 0, &[]),
        |stream| frame(0, 0, stream, &[]),
        |_| frame(8, 0, 0, &[0, 0, 0, 1]),
    ];
    for (number, flood) in floods.into_iter().enumerate() {
        let backend = raw(move |wire: &mut Wire<'_>| {
            let Some(stream) = wire.request() else { return };
            wire.send(&head(stream, &[]));
            let many = flood(stream).repeat(1000);
            (0..1000).for_each(|_| wire.send(&many));
            wire.end();
        });
        let server = in_front_of(&backend.url, "failures = 0").start();
        let mut connection = server.connect();
        connection.send(get("/app/flood").bytes());
        match connection.try_response("GET") {
            Ok(response) => assert_eq!(response.status(), 502, "{number}"),
            Err(failure) => assert!(matches!(failure, Failure::Closed(_)), "{number}: {failure}"),
        }
        server.log_line(&["/app/flood", "ENHANCE_YOUR_CALM"]);
    }
}

/// The client takes nothing, so the application may send no more than the windows allow.
#[test]
fn data_beyond_the_window_ends_the_response() {
    let (report, reports) = channel();
    let backend = raw(move |wire: &mut Wire<'_>| {
        let Some(stream) = wire.request() else { return };
        wire.send(&head(stream, &[]));
        let piece = frame(0, 0, stream, &[b'x'; 16_384]);
        (0..6000).for_each(|_| wire.send(&piece));
        // The stream is ended, not the connection, which others share.
        let is_ended = std::iter::from_fn(|| wire.next()).any(|frame| frame.0 == 3);
        let _ = report.send(is_ended);
    });
    let lines = format!("address = \"{}\"\nprotocol = \"http2\"", backend.url);
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&lines)
        .line("limits.buffer = 65536")
        .site_line("spool = 0")
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let mut connection = server.connect();
    connection.send(get("/app/much").bytes());
    assert_eq!(reports.recv_timeout(PATIENCE), Ok(true), "the application is stopped");
    assert!(connection.try_response("GET").is_err(), "it breaks off");
    server.log_line(&["/app/much", "sent no valid HTTP/2"]);
}
