//! Fields that follow the body of a response: PHP's `tokamak_trailer()`.

use std::process::Command;

use http::HeaderMap;
use http::request::Builder;
use http::response::Parts;

use super::client::{PATIENCE, Target, request, runtime};
use crate::harness::{Kind, Server, Setup, get, in_every_mode};

in_every_mode! { they_follow_the_body, trailers_are_those_of_their_request }

/// The head, the length of the body, and what followed it.
fn ask(server: &Server, request: Builder) -> (Parts, usize, Option<HeaderMap>) {
    let asked = async {
        let client = Target::plain(server.address).connect().await.expect("a connection");
        let mut client = client.ready().await?;
        let (response, _) = client.send_request(request.body(()).expect("a request"), true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut length = 0;
        while let Some(piece) = body.data().await {
            let piece = piece?;
            body.flow_control().release_capacity(piece.len())?;
            length += piece.len();
        }
        Ok::<_, h2::Error>((head, length, body.trailers().await?))
    };
    let answer = runtime().block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    answer.expect("in time").expect("a response")
}

fn fetch(server: &Server, target: &str) -> (Parts, usize, Option<HeaderMap>) {
    ask(server, request("GET", target))
}

fn they_follow_the_body(kind: Kind) {
    let server = Setup::new(kind).start();
    for (query, length, is_known) in [
        ("early=1", 10, false),
        ("pieces=3&flush=1", 30, false),
        ("pieces=40&bytes=20000", 800_000, false),
        ("pieces=2&length=1", 20, true),
        ("pieces=0", 0, false),
    ] {
        let (head, received, trailers) = fetch(&server, &format!("/trailers.php?{query}"));
        assert_eq!((head.status.as_u16(), received), (200, length), "{query}");
        assert_eq!(head.headers["trailer"], "X-Bytes, X-Early", "{query}");
        assert_eq!(head.headers.contains_key("content-length"), is_known, "{query}");
        let trailers = trailers.unwrap_or_else(|| panic!("{query}: nothing follows the body"));
        assert_eq!(trailers["x-bytes"], length.to_string().as_str(), "{query}");
        assert_eq!(trailers.contains_key("x-early"), query.contains("early"), "{query}");
    }
}

fn trailers_are_those_of_their_request(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for _ in 0..3 {
        let (_, _, trailers) = fetch(&server, "/trailers.php?early=1");
        assert_eq!(trailers.expect("they follow").len(), 2);
        let (_, _, trailers) = fetch(&server, "/trailers.php");
        assert_eq!(trailers.expect("they follow").len(), 1);
        let (head, _, trailers) = fetch(&server, "/hello.php");
        assert!(trailers.is_none() && !head.headers.contains_key("trailer"), "{trailers:?}");
    }
}

/// Over HTTP/1.1 they are for clients that say that they read them, and only those whose names the
/// head has. The connection can be used again.
#[test]
fn over_http_1_they_are_for_who_asks() {
    let server = Setup::new(Kind::Classic).start();
    let mut connection = server.connect();
    let asked = get("/trailers.php?undeclared=1&flush=1");
    for _ in 0..2 {
        let answer = connection.exchange(&asked.clone().header("TE", "trailers")).expect(200);
        assert_eq!(answer.header("trailer"), Some("X-Bytes, X-Early"));
        assert_eq!((answer.body.len(), answer.trailers), (10, vec!["x-bytes: 10".to_owned()]));
        let answer = connection.exchange(&asked).expect(200);
        assert_eq!((answer.body.len(), answer.trailers.len()), (10, 0));
    }
}

#[test]
fn they_follow_compressed_bodies_too() {
    let server = Setup::new(Kind::Classic).start();
    for query in ["bytes=50000", "bytes=50000&length=1", "pieces=9&bytes=50000&flush=1"] {
        let asked = request("GET", &format!("/trailers.php?{query}"));
        let (head, length, trailers) = ask(&server, asked.header("accept-encoding", "br"));
        assert_eq!(head.headers["content-encoding"], "br", "{query}");
        assert!((1..5000).contains(&length), "{query}: {length}");
        assert!(trailers.is_some_and(|fields| fields.contains_key("x-bytes")), "{query}");
    }
}

#[test]
fn a_head_is_followed_by_nothing() {
    let server = Setup::new(Kind::Classic).start();
    let (head, length, trailers) = ask(&server, request("HEAD", "/trailers.php"));
    assert_eq!((head.status.as_u16(), length, trailers), (200, 0, None));
}

/// A stored page would be without them.
#[test]
fn the_content_cache_keeps_no_page_that_announces_them() {
    let setup = Setup::new(Kind::Classic).site_line("cache = true\ncache_lifetime = \"1h\"");
    let server = setup.start();
    for _ in 0..2 {
        let (head, _, trailers) = fetch(&server, "/trailers.php");
        assert_eq!(head.headers["cache-status"], "Tokamak; fwd=miss");
        assert_eq!(trailers.expect("they follow").len(), 1);
    }
}

/// Asks twice, and says what a call gives: its messages, or its status.
const GRPC: &str = "
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
call = channel.unary_stream('/greet.Greeter/Hello', request_serializer=str.encode,
                            response_deserializer=bytes.decode)
for name in sys.argv[2:]:
    try:
        print(*call(name, timeout=30), sep='|')
    except grpc.RpcError as error:
        print(error.code().name, error.details())
";

/// The clients of gRPC want the status of a call after its messages, or alone.
#[test]
fn grpc_clients_are_answered() {
    let server = Setup::new(Kind::Classic).front_controller("greet.php").start();
    let output = Command::new("/usr/bin/python3")
        .args(["-c", GRPC, &server.address.to_string(), "Ada", "", "Grace"])
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let bye = "bye ".repeat(50_000);
    let bodies = ["Ada", "Grace"].map(|name| format!("Hello, {name}|{bye}\n"));
    let (first, second) = (&bodies[0], &bodies[1]);
    assert!(said == format!("{first}INVALID_ARGUMENT nobody to greet\n{second}"), "{said:.300}");
}
