//! The HTTP front: connections that are kept, requests in a row, bodies in chunks, expectations,
//! upgrades.

use std::time::Duration;

use crate::harness::{
    Connection, Framing, Kind, Request, Server, Setup, get, numbered, on_tokamak_and_peer, post,
};

on_tokamak_and_peer! {
    connections_are_kept, connections_are_closed_when_asked, pipelined_answers_come_in_order, head_has_no_body,
    expect_continue, upgrade_is_ignored, chunked_requests, http_1_0, empty_lines_before_a_request,
    a_body_that_nobody_reads, many_connections, later_versions_are_answered_as_1_1,
    the_host_of_the_target_counts,
}

fn start(kind: Kind) -> Server {
    let server = Setup::new(kind).start();
    std::fs::write(server.places.root().join("static.txt"), numbered(1000)).unwrap();
    server
}

fn connections_are_kept(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    for round in 0..50 {
        let body = format!("round {round}");
        assert_eq!(
            connection.exchange(&post("/echo.php", "text/plain", body.clone())).expect(200).text(),
            body
        );
        assert_eq!(connection.exchange(&get("/static.txt")).expect(200).body, numbered(1000));
        assert_eq!(connection.exchange(&get("/missing.txt")).status(), 404);
        assert_eq!(connection.exchange(&Request::new("HEAD", "/hello.php")).expect(200).body, b"");
        assert_eq!(connection.exchange(&get("/no_content.php")).status(), 204);
    }
}

fn connections_are_closed_when_asked(kind: Kind) {
    let server = start(kind);
    for target in ["/hello.php", "/static.txt", "/missing.txt"] {
        let mut connection = server.connect();
        let response = connection.exchange(&get(target).header("Connection", "close"));
        assert_eq!(response.header("Connection"), Some("close"), "{target}: {response}");
        assert!(
            connection.closes_within(Duration::from_secs(20)),
            "{target}: the connection stays open"
        );
    }
}

fn pipelined_answers_come_in_order(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    let requests = [
        get("/sleep.php?ms=300"),
        get("/static.txt"),
        post("/echo.php", "text/plain", "first"),
        post("/echo.php", "text/plain", "second in chunks").chunked(5),
        Request::new("HEAD", "/static.txt"),
        get("/missing.txt"),
        get("/hello.php"),
    ];
    let all: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
    connection.send(all);
    let answers: Vec<(u16, String)> = requests
        .iter()
        .map(|request| connection.response_to(&request.method))
        .map(|response| (response.status(), response.text().chars().take(20).collect()))
        .collect();
    let expected = [
        (200, "slept"),
        (200, "000000000000000\n0000"),
        (200, "first"),
        (200, "second in chunks"),
        (200, ""),
        (404, &answers[5].1),
        (200, "Hello from PHP"),
    ];
    assert_eq!(answers, expected.map(|(status, text)| (status, text.to_string())));
}

fn head_has_no_body(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    for (target, length) in
        [("/static.txt", Some("1000")), ("/content_length.php?length=12", Some("12"))]
    {
        let response = connection.exchange(&Request::new("HEAD", target)).expect(200);
        assert_eq!(response.header("Content-Length"), length, "{target}: {response}");
    }
    // PHP does not make a body here, so nobody knows how long it would be.
    let response = connection.exchange(&Request::new("HEAD", "/hello.php")).expect(200);
    assert!(matches!(response.header("Content-Length"), None | Some("14")), "{response}");
    // Were there a body, the next response would not begin where it should.
    for _ in 0..3 {
        connection.exchange(&Request::new("HEAD", "/large.php?bytes=100000")).expect(200);
    }
    assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
}

fn expect_continue(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    for body in ["waits for the word", "a second time"] {
        let request = post("/echo.php", "text/plain", body).header("Expect", "100-continue");
        connection.send(request.head_bytes());
        assert_eq!(connection.head().unwrap().status, 100);
        connection.send(&request.body);
        assert_eq!(connection.response().expect(200).text(), body);
    }
    // A client need not wait for it.
    let request = post("/echo.php", "text/plain", "at once").header("Expect", "100-continue");
    assert_eq!(connection.exchange(&request).expect(200).text(), "at once");
}

/// No upgrade is offered, so the request is an ordinary one and the connection stays as it is.
fn upgrade_is_ignored(kind: Kind) {
    let server = start(kind);
    for protocol in ["websocket", "h2c", "TLS/1.0"] {
        let mut connection = server.connect();
        let request = get("/hello.php")
            .header("Connection", "Upgrade, HTTP2-Settings")
            .header("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")
            .header("Upgrade", protocol);
        let response = connection.exchange(&request).expect(200);
        assert_eq!(
            (response.text().as_str(), response.header("Upgrade")),
            ("Hello from PHP", None)
        );
        assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
    }
}

fn chunked_requests(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    let text = numbered(300_000);
    for size in [1000, 65_536, 300_000] {
        let response =
            connection.exchange(&post("/echo.php", "text/plain", text.clone()).chunked(size));
        assert!(response.expect(200).body == text, "in chunks of {size}");
    }
    // Extensions and trailers are read over; chunks may come byte by byte.
    let head = "POST /echo.php HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for byte in format!("{head}3;name=value\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n").bytes() {
        connection.send([byte]);
    }
    assert_eq!(connection.response().expect(200).text(), "abc0123456789");
}

fn http_1_0(kind: Kind) {
    let server = start(kind);
    for target in ["/hello.php", "/static.txt", "/large.php?bytes=100000"] {
        let mut connection = server.connect();
        connection.send(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
        let response = connection.response().expect(200);
        assert_ne!(response.framing, Framing::Chunked, "{target}: {response}");
        assert!(
            connection.closes_within(Duration::from_secs(20)),
            "{target}: the connection stays open"
        );
    }
    let mut connection = server.connect();
    connection.send("GET /large.php?bytes=100000 HTTP/1.0\r\n\r\n");
    assert!(connection.response().expect(200).body == numbered(100_000));
}

fn empty_lines_before_a_request(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    for _ in 0..2 {
        connection.send("\r\n");
        assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
    }
}

/// A body that the script does not look at, or that belongs to no script, does not become the next
/// request.
fn a_body_that_nobody_reads(kind: Kind) {
    let server = start(kind);
    for target in ["/hello.php", "/missing.txt", "/missing.php"] {
        for body in
            [b"GET /fail.php HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), numbered(200_000)]
        {
            let mut connection = server.connect();
            connection.send(post(target, "text/plain", body).bytes());
            connection.response();
            // Either the server read the body, or it closes; it never takes the body for a request.
            if connection.try_send(get("/hello.php").bytes()).is_ok()
                && let Ok(next) = connection.try_response("GET")
            {
                assert_eq!(next.expect(200).text(), "Hello from PHP", "after {target}");
            }
        }
    }
}

/// Hundreds of open connections, each with requests, on two workers.
fn many_connections(kind: Kind) {
    let server = start(kind);
    let mut connections: Vec<Connection> = (0..300).map(|_| server.connect()).collect();
    for _ in 0..2 {
        for connection in &mut connections {
            connection.send(get("/hello.php").bytes());
        }
        for connection in &mut connections {
            assert_eq!(connection.response().expect(200).text(), "Hello from PHP");
        }
    }
}

/// RFC 9110 section 2.5: a server answers with the highest version of the same major one.
fn later_versions_are_answered_as_1_1(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    for version in ["1.2", "1.9", "1.1"] {
        for target in ["/hello.php", "/static.txt"] {
            connection.send(format!("GET {target} HTTP/{version}\r\nHost: localhost\r\n\r\n"));
            connection.response().expect(200);
        }
    }
}

/// RFC 9112 section 3.2.2: beside a target in absolute form, `Host` does not count.
fn the_host_of_the_target_counts(kind: Kind) {
    let server = start(kind);
    let mut connection = server.connect();
    connection.send("GET http://localhost/hello.php HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert_eq!(connection.response().expect(200).text(), "Hello from PHP");
    if kind == Kind::Peer {
        // nginx chooses the site as this server does, but tells PHP the other host.
        return;
    }
    for host in ["LocalHost:80", "localhost:81", "other.example"] {
        let line = "GET http://LocalHost:80/server.php?a HTTP/1.1";
        connection.send(format!("{line}\r\nHost: {host}\r\n\r\n"));
        let vars = connection.response().expect(200).json();
        assert_eq!(
            (&vars["HTTP_HOST"], &vars["REQUEST_URI"]),
            (&"LocalHost:80".into(), &"/server.php?a".into()),
            "{host}"
        );
    }
}
