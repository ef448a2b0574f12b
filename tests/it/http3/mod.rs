//! HTTP/3: the same requests as over HTTP/1 and HTTP/2, by two clients of our own and a browser.

mod browser;
pub mod client;
mod limits;
mod malformed;
mod packets;
mod priorities;
mod reload;

use std::fs;

use http::StatusCode;
use serde_json::Value;

use crate::harness::{Kind, Server, Setup, free_address, numbered};
use crate::http2::client::{PATIENCE, runtime};
use crate::http2::secured::folder;
use crate::idle_memory::anonymous;
use crate::metrics::samples;
use crate::operate::status;
use crate::tls::{Secured, secured_in};
use client::{Target, request, send};

const ADMIN: &str = "admin = \"unix:admin.sock\"";

/// A server with HTTP/3 and these lines of its configuration.
pub fn with_lines(setup: Setup, lines: &[&str]) -> (Secured, Target) {
    let (folder, address) = (folder(), free_address());
    let certificate = folder.lines("localhost").replace("\n", "\ntls.");
    let setup = setup.line(&format!("listen_tls = [\"{address}\"]\ntls.{certificate}"));
    let setup = lines.iter().fold(setup.line("http3.enabled = true"), |it, line| it.line(line));
    let secured = Secured { server: setup.start(), address, folder };
    let target = Target::of(&secured);
    (secured, target)
}

/// A server with HTTP/3.
fn server(kind: Kind) -> (Secured, Target) {
    with_lines(Setup::new(kind), &[])
}

/// The memory that the front of an [`operated`](crate::operate::operated) server has for itself, in
/// KiB.
fn front_memory(server: &Server) -> f64 {
    anonymous(&status(server)["front_pid"].to_string())
}

/// Turns one function of a [`Kind`] into a test for each mode, and for FastCGI.
macro_rules! over_http3 {
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

over_http3! { php_sees_the_request, bodies_go_both_ways, interim_responses_reach_the_client }

fn php_sees_the_request(kind: Kind) {
    let (secured, target) = server(kind);
    let mut asked = request("GET", "/server.php?a=b%20c");
    for (name, value) in [("cookie", "a=1"), ("x-own", "yes"), ("cookie", "b=2")] {
        asked.headers_mut().append(name, value.parse().unwrap());
    }
    let answer = target.exchange(vec![(asked, Vec::new())]).remove(0);
    assert_eq!(answer.status(), 200);
    let seen: Value = serde_json::from_slice(answer.body()).expect("JSON");
    for (name, expected) in [
        ("SERVER_PROTOCOL", "HTTP/3.0"),
        ("REQUEST_URI", "/server.php?a=b%20c"),
        ("QUERY_STRING", "a=b%20c"),
        ("HTTP_HOST", "localhost"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_X_OWN", "yes"),
        ("REQUEST_SCHEME", "https"),
        ("HTTPS", "on"),
        ("SSL_PROTOCOL", "TLSv1.3"),
        ("SSL_TLS_SNI", "localhost"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", &*secured.address.port().to_string()),
    ] {
        assert_eq!(seen[name], expected, "{name}: {seen:#}");
    }
    assert!(answer.headers().contains_key("date"), "{answer:?}");
    assert!(!answer.headers().contains_key("connection"), "{answer:?}");
    assert!(!answer.headers().contains_key("alt-svc"), "it is here already: {answer:?}");
}

fn bodies_go_both_ways(kind: Kind) {
    let (secured, target) = server(kind);
    fs::write(secured.server.places.root().join("static.txt"), numbered(300_000)).unwrap();
    let large = numbered(700_000);
    let ranged = || {
        let mut asked = request("GET", "/static.txt");
        asked.headers_mut().insert("range", "bytes=100-199".parse().unwrap());
        asked
    };
    let answers = target.exchange(vec![
        (request("POST", "/echo.php"), large.clone()),
        (request("GET", "/static.txt"), Vec::new()),
        (ranged(), Vec::new()),
        (request("HEAD", "/static.txt"), Vec::new()),
        (request("GET", "/no_content.php"), Vec::new()),
        (request("GET", "/missing.txt"), Vec::new()),
        (request("GET", "/large.php?bytes=300000"), Vec::new()),
    ]);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, [200, 200, 206, 200, 204, 404, 200]);
    assert!(*answers[0].body() == large, "the body comes back");
    assert!(*answers[1].body() == numbered(300_000));
    assert_eq!(*answers[2].body(), numbered(300_000)[100..200]);
    assert_eq!(answers[3].headers()["content-length"], "300000");
    assert_eq!(answers[3].body().len(), 0);
    assert_eq!(answers[4].body().len(), 0);
    assert_eq!(answers[6].body().len(), 300_000);
}

fn interim_responses_reach_the_client(kind: Kind) {
    if kind == Kind::Fastcgi {
        return;
    }
    let (_secured, target) = server(kind);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let sent = send(connection.client.clone(), request("GET", "/early_hints.php"), Vec::new());
        let (interim, answer) = sent.await.unwrap();
        assert_eq!(interim[0].status(), StatusCode::EARLY_HINTS);
        assert_eq!(interim[0].headers()["link"], "</style.css>; rel=preload; as=style");
        assert_eq!(answer.headers()["x-final"], "1");
        // A client that waits for permission gets it before the answer.
        let mut asked = request("POST", "/echo.php");
        asked.headers_mut().insert("expect", "100-continue".parse().unwrap());
        let mut client = connection.client.clone();
        let mut stream = client.send_request(asked).await.unwrap();
        let permission = tokio::time::timeout(PATIENCE, stream.recv_response()).await.unwrap();
        assert_eq!(permission.unwrap().status(), StatusCode::CONTINUE);
        stream.send_data("said later".into()).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    });
}

#[test]
fn clients_over_tls_are_told_of_it() {
    let (secured, target) = server(Kind::Classic);
    let offer = format!("h3=\":{}\"; ma=86400", secured.address.port());
    for version in ["--http1.1", "--http2"] {
        let head = secured.text("/hello.php", &[version, "-D", "-"]).to_ascii_lowercase();
        assert!(head.contains(&format!("alt-svc: {offer}")), "{head}");
    }
    assert_eq!(secured.server.get("/hello.php").expect(200).header("alt-svc"), None, "no TLS");
    assert_eq!(target.get("/hello.php").status(), 200);
}

#[test]
fn it_is_off_unless_it_is_wanted() {
    let secured = secured_in(folder(), Setup::new(Kind::Classic), &[], &[]);
    let head = secured.text("/hello.php", &["-D", "-"]).to_ascii_lowercase();
    assert!(!head.contains("alt-svc"), "{head}");
    let taken = std::net::UdpSocket::bind(secured.address);
    assert!(taken.is_ok(), "nobody has the UDP port: {taken:?}");
}

#[test]
fn a_proxy_is_told_nothing_that_its_clients_would_believe() {
    let trust = "trusted_proxies = [\"127.0.0.1\"]";
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &[trust]);
    let head = secured.text("/hello.php", &["-D", "-"]).to_ascii_lowercase();
    assert!(!head.contains("alt-svc"), "{head}");
    assert_eq!(target.get("/hello.php").status(), 200);
}

#[test]
fn logs_and_metrics_name_the_protocol() {
    let lines = ["log.access = \"-\"", ADMIN];
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &lines);
    assert_eq!(target.get("/hello.php").status(), 200);
    secured.server.log_line(&["\"GET /hello.php HTTP/3.0\" 200"]);
    let samples = samples(&secured.server);
    assert_eq!(samples["tokamak_http3_connections_total"], 1.0);
    assert_eq!(samples["tokamak_http3_requests_total"], 1.0);
    assert_eq!(samples["tokamak_tls_handshakes_total{resumed=\"no\",version=\"1.3\"}"], 1.0);
}

/// A hundred requests at the same time, more than there are workers.
#[test]
fn many_requests_share_a_connection() {
    let (_secured, target) = server(Kind::Classic);
    let requests = (0..100).map(|_| (request("GET", "/hello.php"), Vec::new())).collect();
    let answers = target.exchange(requests);
    assert!(answers.iter().all(|answer| answer.status() == 200));
}

/// Several event loops share the port, and each connection finds its own again.
#[test]
fn connections_are_spread_over_event_loops() {
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &["loops = 4"]);
    for _ in 0..40 {
        let body = numbered(50_000);
        let answer = target.exchange(vec![(request("POST", "/echo.php"), body.clone())]).remove(0);
        assert!(*answer.body() == body);
    }
    assert!(!secured.server.log().contains("panic"), "{}", secured.server.log());
}
