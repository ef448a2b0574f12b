//! What a client may do on a connection, and what happens when it does more.

use std::time::Duration;

use http::Request;
use quinn::VarInt;

use super::client::{Raw, Target, closed, frame, head, held, number, request, send, until};
use super::{ADMIN, front_memory, server, with_lines};
use crate::harness::{Kind, Setup, numbered};
use crate::http2::client::{PATIENCE, runtime};
use crate::metrics::samples;
use crate::operate::operated;

/// `H3_EXCESSIVE_LOAD`.
const EXCESSIVE_LOAD: &str = "closed 0x107";

fn statuses(target: &Target, requests: Vec<(Request<()>, Vec<u8>)>) -> Vec<u16> {
    target.exchange(requests).iter().map(|answer| answer.status().as_u16()).collect()
}

#[test]
fn heads_and_bodies_have_the_limits_of_every_protocol() {
    let lines = ["limits.head = \"8KiB\"", "limits.headers = 20", "limits.body = \"10KiB\""];
    let (_secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    let field = |count: usize, length: usize| {
        let mut asked = request("GET", "/hello.php");
        for number in 0..count {
            let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
            asked.headers_mut().insert(name, "v".repeat(length).parse().unwrap());
        }
        (asked, Vec::new())
    };
    let post = |length: usize| (request("POST", "/echo.php"), numbered(length));
    let said = |length: &str, sent: usize| {
        let mut asked = request("POST", "/echo.php");
        asked.headers_mut().insert("content-length", length.parse().unwrap());
        (asked, numbered(sent))
    };
    let expected = [
        (field(10, 100), 200),
        (field(30, 10), 431),
        (field(1, 9000), 431),
        (field(1, 40_000), 431),
        (post(10_000), 200),
        (post(20_000), 413),
        (said("20000", 20_000), 413),
        (said("10000", 10_000), 200),
    ];
    for (asked, status) in expected {
        let what = format!("{:?} {}", asked.0.headers().keys().next(), asked.1.len());
        assert_eq!(statuses(&target, vec![asked]), [status], "{what}");
    }
}

/// A request that takes all of a window does not stop others of its connection.
#[test]
fn a_client_waits_with_more_streams_than_it_may_have() {
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &["http3.streams = 2"]);
    runtime().block_on(async {
        let raw = Raw::open(&target).await;
        let path = |name| head("GET", &format!("/hold.php?name={name}"), &[]);
        let (one, two) = (path("one"), path("two"));
        let both = async { tokio::join!(raw.request(&one), raw.request(&two)) };
        let third = async {
            for name in ["one", "two"] {
                held(&secured.server, name).await;
            }
            let opened = tokio::time::timeout(Duration::from_millis(200), raw.quic.open_bi()).await;
            assert!(opened.is_err(), "a third stream");
            for name in ["one", "two"] {
                secured.server.let_go(name);
            }
            raw.request(&head("GET", "/hello.php", &[])).await.verdict()
        };
        let ((one, two), third) = tokio::join!(both, third);
        assert_eq!([one.verdict(), two.verdict(), third], ["200", "200", "200"]);
    });
}

#[test]
fn a_connection_ends_after_its_requests() {
    let (_secured, target) = with_lines(Setup::new(Kind::Classic), &["http3.requests = 5"]);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        for _ in 0..5 {
            let sent = send(connection.client.clone(), request("GET", "/hello.php"), Vec::new());
            assert_eq!(sent.await.unwrap().1.status(), 200);
        }
        let end = tokio::time::timeout(PATIENCE, connection.quic.closed()).await.unwrap();
        // The client's own library closes the connection when it is told that it ends.
        assert!(closed(&end) == "closed 0x100" || closed(&end) == "closed", "{end:?}");
    });
}

#[test]
fn a_client_that_cancels_too_much_is_closed() {
    let lines = ["http3.resets = 20", ADMIN];
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    let end = runtime().block_on(async {
        let raw = Raw::open(&target).await;
        for _ in 0..100 {
            let Ok((mut send, mut recv)) = raw.quic.open_bi().await else { break };
            let cancelled = VarInt::from_u32(0x10c);
            let _ = send.write_all(&head("GET", "/sleep.php?ms=10000", &[])).await;
            let _ = (send.reset(cancelled), recv.stop(cancelled));
        }
        closed(&raw.end().await)
    });
    assert_eq!(end, EXCESSIVE_LOAD);
    secured.server.log_line(&["HTTP/3 connection closed", "http3.resets"]);
    let closed = "tokamak_http3_connections_closed_total{reason=\"resets\"}";
    assert_eq!(samples(&secured.server)[closed], 1.0);
    assert_eq!(target.get("/hello.php").status(), 200, "others are served");
}

#[test]
fn a_client_that_sends_too_many_frames_of_no_request_is_closed() {
    let lines = ["http3.control_frames = 50", ADMIN];
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    let end = runtime().block_on(async {
        let mut raw = Raw::open(&target).await;
        for _ in 0..200 {
            if raw.control.write_all(&frame(0x21, b"x")).await.is_err() {
                break;
            }
        }
        closed(&raw.end().await)
    });
    assert_eq!(end, EXCESSIVE_LOAD);
    secured.server.log_line(&["HTTP/3 connection closed", "http3.control_frames"]);
    assert_eq!(target.get("/hello.php").status(), 200, "others are served");
}

/// The library would hold a whole frame of an unknown kind, however long it is.
#[test]
fn frames_that_mean_nothing_are_not_held() {
    let (secured, target) = with_lines(operated(Kind::Classic).site("php"), &[]);
    let before = front_memory(&secured.server);
    runtime().block_on(async {
        let raw = Raw::open(&target).await;
        let (mut send, mut recv) = raw.quic.open_bi().await.unwrap();
        let begin = [number(0x21), number(1 << 40)].concat();
        let mut written = send.write_all(&begin).await;
        for _ in 0..1000 {
            if written.is_err() {
                break;
            }
            written = send.write_all(&[7; 16 * 1024]).await;
        }
        assert!(written.is_err(), "16 MB were taken");
        let _ = raw.rest(&mut recv).await;
    });
    let after = front_memory(&secured.server);
    assert!(after < before + 8.0 * 1024.0, "KiB: {before} -> {after}");
    assert_eq!(target.get("/hello.php").status(), 200);
}

/// A body in pieces of a byte is read as it comes, not held in the frames that it comes in.
#[test]
fn a_body_in_tiny_frames_is_served() {
    let (_secured, target) = server(Kind::Classic);
    let verdict = runtime().block_on(async {
        let raw = Raw::open(&target).await;
        let body: Vec<u8> = std::iter::repeat_n([0, 1, b'x'], 100_000).flatten().collect();
        raw.request(&[head("POST", "/echo.php", &[]), body].concat()).await.verdict()
    });
    assert_eq!(verdict, "200");
}

#[test]
fn who_takes_nothing_of_a_response_is_given_up() {
    let lines = ["timeouts.send = \"1s\"", "log.access = \"-\""];
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    let target = target.with_window(20_000);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let mut client = connection.client.clone();
        let asked = request("GET", "/large.php?bytes=30000000");
        let mut stream = client.send_request(asked).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        until(|| secured.server.log().contains("GET /large.php").then_some(())).await;
        // The client learns that the response is not whole.
        let mut end = stream.recv_data().await.map(|piece| piece.is_some());
        while let Ok(true) = end {
            end = stream.recv_data().await.map(|piece| piece.is_some());
        }
        assert!(end.is_err(), "it looks complete");
    });
}

#[test]
fn silent_and_slow_clients_are_given_up() {
    let lines = ["timeouts.head = \"1s\"", "timeouts.idle = \"1s\""];
    let (_secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    runtime().block_on(async {
        let raw = Raw::open(&target).await;
        let (mut send, mut recv) = raw.quic.open_bi().await.unwrap();
        // A head that never ends.
        send.write_all(&[1, 0x50]).await.unwrap();
        let came = raw.rest(&mut recv).await.verdict();
        assert!(
            came.starts_with("[]") || came.starts_with("reset") || came == "closed 0x100",
            "{came}"
        );
        assert_eq!(closed(&raw.end().await), "closed 0x100", "an idle connection ends");
    });
}
