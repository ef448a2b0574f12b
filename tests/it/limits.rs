//! What a client may send, and how long it may take.

use std::time::{Duration, Instant};

use crate::harness::{
    Connection, Failure, Kind, Request, Server, Setup, eventually, get, in_parallel, post,
};

const SOON: Duration = Duration::from_secs(20);

fn classic() -> Setup {
    Setup::new(Kind::Classic)
}

/// Sends a request that is to be refused; the server may stop reading before all is sent.
fn refused(server: &Server, request: &Request) -> u16 {
    let mut connection = server.connect();
    let _ = connection.try_send(request.bytes());
    let response = connection.response_to(&request.method);
    assert!(connection.closes_within(SOON), "the connection stays open after {response}");
    response.status()
}

#[test]
fn size_of_the_head() {
    let server = classic().line("limits.head = \"8KiB\"").start();
    let with = |size: usize| get("/hello.php").header("X-Long", &"x".repeat(size));
    server.send(&with(7000)).expect(200);
    assert_eq!(refused(&server, &with(9000)), 431);
    assert_eq!(refused(&server, &with(1_000_000)), 431);
    let target = format!("/hello.php?{}", "x".repeat(9000));
    assert!(matches!(refused(&server, &get(&target)), 414 | 431));
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
}

#[test]
fn number_of_header_fields() {
    let server = classic().line("limits.headers = 20").start();
    let with = |count: usize| {
        (0..count)
            .fold(get("/hello.php"), |request, number| request.header(&format!("X-{number}"), "1"))
    };
    server.send(&with(19)).expect(200); // and Host
    assert_eq!(refused(&server, &with(20)), 431);
    assert_eq!(refused(&server, &with(500)), 431);
}

#[test]
fn size_of_the_body() {
    let server = classic().line("limits.body = \"100KiB\"").start();
    let body = |size: usize| post("/input.php", "text/plain", vec![b'x'; size]);
    assert_eq!(server.send(&body(102_400)).expect(200).json()["length"], 102_400);
    assert_eq!(server.send(&body(102_400).chunked(1000)).expect(200).json()["length"], 102_400);
    assert_eq!(refused(&server, &body(102_401)), 413);
    assert_eq!(refused(&server, &body(102_401).chunked(1000)), 413);
    assert_eq!(refused(&server, &body(5_000_000)), 413);
    // A client that asks first is told before it sends.
    let request = body(102_401).header("Expect", "100-continue");
    let mut connection = server.connect();
    connection.send(request.head_bytes());
    let response = connection.response();
    assert_eq!((response.status(), response.interim.len()), (413, 0));
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
}

#[test]
fn number_of_connections() {
    let server = classic().line("limits.connections = 4").start();
    // Connections of the harness itself end a moment after it has closed them.
    let full = eventually(SOON, || {
        let mut held: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
        let served = |connection: &mut Connection| {
            let sent = connection.try_send(get("/hello.php").bytes()).is_ok();
            sent && connection.try_response("GET").is_ok_and(|response| response.status() == 200)
        };
        held.iter_mut().all(served).then_some(held)
    });
    let held = full.expect("four connections are served");
    let mut fifth = server.connect();
    fifth.patience(Duration::from_millis(500));
    let _ = fifth.try_send(get("/hello.php").bytes());
    match fifth.try_response("GET") {
        Ok(response) => assert_eq!(response.status(), 503, "{response}"),
        Err(_) => drop(fifth),
    }
    server.log_line(&["connection refused: too many connections (limits.connections)", "client="]);
    drop(held);
    let again = eventually(SOON, || {
        let mut connection = server.connect();
        connection.patience(Duration::from_millis(500));
        let _ = connection.try_send(get("/hello.php").bytes());
        connection.try_response("GET").ok().filter(|response| response.status() == 200)
    });
    assert!(again.is_some(), "nobody is served after the connections have ended");
}

/// Who is turned away has a moment to send its request and to read why there is no room.
#[test]
fn clients_that_are_turned_away_are_not_reset() {
    let server = classic().line("limits.connections = 1").start();
    let mut held = eventually(SOON, || {
        let mut connection = server.connect();
        connection.send(get("/hello.php").bytes());
        connection.try_response("GET").ok().filter(|response| response.status() == 200)?;
        Some(connection)
    });
    let held = held.as_mut().expect("one connection is served");
    // More than any buffer holds. A busy machine may need longer than the moment to send it.
    let request = post("/echo.php", "text/plain", vec![b'x'; 8 << 20]).bytes();
    let is_sent = || {
        let mut other = server.connect();
        assert_eq!(other.response().status(), 503);
        other.try_send(&request).ok()
    };
    assert!(eventually(SOON, is_sent).is_some(), "the connection is reset each time");
    assert_eq!(held.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
}

/// Single bytes do not renew the time limit of a body without end.
#[test]
fn pace_of_the_body() {
    let server = classic().line("timeouts.body = \"300ms\"").start();
    let mut connection = server.connect();
    connection.patience(Duration::from_millis(100));
    connection.send("POST /echo.php HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    let end = (0..100).find_map(|_| match connection.try_send("x") {
        Ok(()) => match connection.try_response("POST") {
            Ok(response) => Some(response.status()),
            Err(Failure::Silent(_)) => None,
            Err(_) => Some(0),
        },
        Err(_) => Some(0),
    });
    assert!(matches!(end, Some(0 | 408)), "{end:?}");
}

/// A client that stops in the middle is told so, or the connection is closed; nothing of it reaches
/// PHP.
fn stalls(server: &Server, sent: &[u8], least: Duration) {
    let mut connection = server.connect();
    let started = Instant::now();
    connection.send(sent);
    connection.patience(SOON);
    match connection.try_response("POST") {
        Ok(response) => assert_eq!(response.status(), 408, "{response}"),
        Err(Failure::Closed(_)) => {}
        Err(other) => panic!("the server waits on: {other:?}"),
    }
    assert!(connection.closes_within(SOON), "the connection stays open");
    assert!(started.elapsed() >= least, "the client had only {:?}", started.elapsed());
}

/// Clients that stop here and there: all of them at once, since each waits for the limit.
fn stall(server: &Server, sent: &[&[u8]], least: Duration) {
    in_parallel(sent.len(), |nth| stalls(server, sent[nth], least));
}

#[test]
fn time_for_the_head() {
    // Far more than a client of these tests stands still on a busy machine.
    let server = classic().line("timeouts.head = \"2s\"").start();
    let least = Duration::from_millis(1900);
    let pieces: [&[u8]; 2] = [b"GET /hello.php HTTP/1.1\r\nHost: loc", b"G"];
    std::thread::scope(|scope| {
        scope.spawn(|| stall(&server, &pieces, least));
        // The limit is for the whole head: a byte now and then does not extend it.
        scope.spawn(|| {
            let mut connection = server.connect();
            let started = Instant::now();
            for byte in get("/hello.php").header("X-Long", &"x".repeat(1000)).bytes() {
                if connection.try_send([byte]).is_err() || started.elapsed() > SOON {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(started.elapsed() < SOON, "a slow head took {:?}", started.elapsed());
        });
        // A client in time is served, also on a connection that has been used.
        let mut connection = server.connect();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(600));
            assert_eq!(
                connection.exchange(&get("/hello.php")).expect(200).text(),
                "Hello from PHP"
            );
        }
    });
}

#[test]
fn time_for_the_body() {
    let server = classic().line("timeouts.body = \"2s\"").start();
    let least = Duration::from_millis(1900);
    let request = post("/abort.php?name=body", "text/plain", "0123456789");
    let half = [request.head_bytes(), b"01234".to_vec()].concat();
    let chunked = "POST /abort.php?name=body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \
        chunked\r\n\r\n5\r\nab";
    std::thread::scope(|scope| {
        scope.spawn(|| stall(&server, &[&half, chunked.as_bytes()], least));
        // The limit is for each wait, not for the whole body.
        let mut connection = server.connect();
        let request = post("/echo.php", "text/plain", "01234");
        connection.send(request.head_bytes());
        for byte in &request.body {
            std::thread::sleep(Duration::from_millis(600));
            connection.send([*byte]);
        }
        assert_eq!(connection.response().expect(200).text(), "01234");
    });
    assert!(!server.state_file("status-body").exists(), "a request with half a body reached PHP");
}

#[test]
fn time_between_requests() {
    let server = classic().line("timeouts.idle = \"1500ms\"").start();
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.exchange(&get("/hello.php")).expect(200);
        std::thread::sleep(Duration::from_millis(300));
    }
    // A request that takes longer is not idle.
    connection.exchange(&get("/sleep.php?ms=2000")).expect(200);
    let started = Instant::now();
    connection.exchange(&get("/hello.php")).expect(200);
    assert!(connection.closes_within(SOON), "an idle connection stays open");
    assert!(
        started.elapsed() >= Duration::from_millis(1400),
        "closed after {:?}",
        started.elapsed()
    );
}

#[test]
fn time_for_the_client_to_take_the_response() {
    let setup = classic().workers(1).line("log.access = \"state/access.log\"");
    let server = setup.line("timeouts.send = \"1s\"").start();
    let mut lazy = server.connect();
    lazy.send(get("/large.php?bytes=60000000").bytes());
    lazy.head().unwrap();
    // Nothing more is read; the server gives up, and its worker is free.
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    let is_over = || {
        let log = std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        log.contains("/large.php").then_some(())
    };
    assert!(eventually(SOON, is_over).is_some(), "the server does not give up");
    let received = lazy.read_rest(60_000_000);
    assert!(received < 50_000_000, "the server kept a response for a client that did not read");
}
