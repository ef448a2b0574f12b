//! HTTP/2, with prior knowledge and over TLS: the same requests as over HTTP/1, by curl, h2load,
//! h2spec, and two clients of our own.

pub mod client;
mod fairness;
pub mod features;
mod flow;
mod frames;
mod limits;
mod load;
mod malformed;
mod priorities;
pub mod secured;
mod secured_frames;
mod spec;
mod trailers;

use std::fs;
use std::process::Command;

use crate::harness::{Kind, Server, Setup, get, numbered, post};
use client::{Raw, exchange, request};

/// Turns one function of a [`Kind`] into a test for each mode, and for FastCGI.
macro_rules! over_http2 {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            crate::harness::of_kinds!(
                super::$name;
                classic: Classic, worker: Worker, concurrent: Async, sealed: Sealed,
                fastcgi: Fastcgi
            );
        }
    )* };
}

over_http2! { php_sees_the_request, bodies_go_both_ways, interim_responses_reach_the_client }

/// What curl writes to standard output when it fetches this over HTTP/2.
fn curl(server: &Server, target: &str, arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["-sS", "-m", "30", "--http2-prior-knowledge"])
        .args(arguments)
        .arg(format!("http://{}{target}", server.address))
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn php_sees_the_request(kind: Kind) {
    let server = Setup::new(kind).start();
    let request = request("GET", "/server.php?a=b%20c")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("x-own", "yes");
    let answer = exchange(&server, vec![(request, Vec::new())]).remove(0);
    assert_eq!(answer.status(), 200);
    let seen: serde_json::Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!(seen["SERVER_PROTOCOL"], "HTTP/2.0");
    assert_eq!(seen["REQUEST_URI"], "/server.php?a=b%20c");
    assert_eq!(seen["QUERY_STRING"], "a=b%20c");
    assert_eq!(seen["HTTP_HOST"], "localhost");
    assert_eq!(seen["HTTP_COOKIE"], "a=1; b=2");
    assert_eq!(seen["HTTP_X_OWN"], "yes");
    assert_eq!(seen["REQUEST_SCHEME"], "http");
    assert!(answer.headers().contains_key("date"), "{answer:?}");
    assert!(!answer.headers().contains_key("connection"), "{answer:?}");
}

fn bodies_go_both_ways(kind: Kind) {
    let server = Setup::new(kind).start();
    fs::write(server.places.root().join("static.txt"), numbered(300_000)).unwrap();
    let large = numbered(700_000);
    let mut requests = vec![(request("POST", "/echo.php"), large.clone())];
    requests.push((request("GET", "/static.txt"), Vec::new()));
    requests.push((request("GET", "/static.txt").header("range", "bytes=100-199"), Vec::new()));
    requests.push((request("HEAD", "/static.txt"), Vec::new()));
    requests.push((request("GET", "/no_content.php"), Vec::new()));
    requests.push((request("GET", "/missing.txt"), Vec::new()));
    requests.push((request("GET", "/large.php?bytes=300000"), Vec::new()));
    let answers = exchange(&server, requests);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, [200, 200, 206, 200, 204, 404, 200]);
    assert!(*answers[0].body() == large, "the body comes back");
    assert!(*answers[1].body() == numbered(300_000));
    assert_eq!(*answers[2].body(), numbered(300_000)[100..200]);
    assert_eq!(answers[3].headers()["content-length"], "300000");
    assert_eq!(answers[3].body().len(), 0);
    assert_eq!(answers[4].body().len(), 0);
    assert_eq!(answers[6].body().len(), 300_000);
    // The same as over HTTP/1.
    let other = server.send(&post("/echo.php", "text/plain", large.clone())).expect(200);
    assert!(other.body == large);
    assert_eq!(server.send(&get("/large.php?bytes=300000")).body, *answers[6].body());
}

fn interim_responses_reach_the_client(kind: Kind) {
    if kind == Kind::Fastcgi {
        return;
    }
    let server = Setup::new(kind).start();
    let head = curl(&server, "/early_hints.php", &["-D", "-"]);
    let (hint, rest) = head.split_once("\r\n\r\n").expect("two heads");
    assert!(hint.starts_with("HTTP/2 103"), "{head}");
    assert!(hint.contains("link: </style.css>; rel=preload; as=style"), "{head}");
    assert!(rest.starts_with("HTTP/2 200") && rest.contains("x-final: 1"), "{head}");
}

#[test]
fn the_access_log_names_the_protocol() {
    let server = Setup::new(Kind::Classic).line("log.access = \"-\"").start();
    assert!(curl(&server, "/hello.php", &["-H", "User-Agent: over-two"]).contains("Hello"));
    server.log_line(&["\"GET /hello.php HTTP/2.0\" 200", "over-two"]);
}

#[test]
fn it_can_be_switched_off() {
    let server = Setup::new(Kind::Classic).line("http2.enabled = false").start();
    let mut connection = server.connect();
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(connection.response().status(), 505);
    assert_eq!(server.text("/hello.php"), server.text("/hello.php"), "HTTP/1 is served");
}

/// The preface may come in pieces of any size.
#[test]
fn the_preface_may_be_split() {
    let server = Setup::new(Kind::Classic).start();
    for size in 1..24 {
        let mut raw = Raw::silent(&server);
        for piece in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(size) {
            raw.send(piece);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        raw.frame(4, 0, 0, b"");
        raw.get(1, "/hello.php");
        let (kind, _, stream, _) = raw.frame_of(&[1]);
        assert_eq!((kind, stream), (1, 1), "{size}");
    }
}

/// A hundred requests at the same time, more than there are workers.
#[test]
fn many_requests_share_a_connection() {
    let server = Setup::new(Kind::Classic).start();
    let requests = || (0..100).map(|_| (request("GET", "/hello.php"), Vec::new())).collect();
    for _ in 0..3 {
        let answers = exchange(&server, requests());
        assert!(answers.iter().all(|answer| answer.status() == 200));
    }
}

/// Scripts and the content cache know no difference: what one protocol has stored, the other gets.
#[test]
fn scripts_and_the_cache_serve_both_protocols() {
    let setup = Setup::new(Kind::Classic).site("cache").site_line("cache = true").line("loops = 1");
    let server = setup.site_line("lua_raw_url = [\"site/lead.lua\"]").start();
    let target = "/page.php?h[]=Cache-Control:%20max-age=60&say[]=SERVER_PROTOCOL";
    let fetch = || exchange(&server, vec![(request("GET", target), Vec::new())]).remove(0);
    let first = fetch();
    assert_eq!(first.body().as_slice(), b"run 1 HTTP/2.0");
    assert_eq!(first.headers()["x-lead"], "yes");
    let second = fetch();
    assert_eq!(second.body().as_slice(), b"run 1 HTTP/2.0");
    assert!(second.headers().contains_key("age"), "{second:?}");
    let third = server.get(target).expect(200);
    assert_eq!(third.text(), "run 1 HTTP/2.0");
}
