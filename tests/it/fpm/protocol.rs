//! What the specification asks of an application.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tokamak_fastcgi::{ProtocolStatus, Role, Stream, Values, ValuesQuery, encode};

use super::client::{Client, Heard, Request};
use super::pool;
use super::pools::with_second;
use crate::harness::{Server, crc32, eventually, free_address, numbered};

#[test]
fn a_kept_connection_serves_one_request_after_the_other() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    for nth in 0..50 {
        let body = format!("body {nth}");
        let answer = client.ask(&Request::new(&server, "/echo.php").post(body.as_bytes()));
        assert_eq!(answer.body(), body);
        assert!(
            answer.head().contains("Content-Type: application/octet-stream"),
            "{}",
            answer.head()
        );
        assert!(
            !answer.head().contains("Status:"),
            "only another status than 200 is said: {}",
            answer.head()
        );
    }
    let answer = client.ask(&Request::new(&server, "/hello.php").last());
    assert_eq!(answer.body(), "Hello from PHP");
    assert!(client.is_closed(), "without FCGI_KEEP_CONN the connection ends with the request");
}

#[test]
fn the_values_are_answered_at_any_time() {
    let server = pool(3).start();
    let mut client = Client::connect(&server);
    let mut question = Vec::new();
    encode::get_values(&mut question, ValuesQuery::ALL);
    client.send(&question);
    let Heard::Values(values) = client.hear() else { panic!("no values") };
    assert_eq!(values.mpxs_conns, Some(true));
    assert!(values.max_conns.is_some_and(|number| number > 100), "{values:?}");
    assert!(values.max_reqs.is_some_and(|number| number > 3), "{values:?}");

    // In the middle of a request, and only what was asked.
    let request = Request::new(&server, "/echo.php").post(b"abc");
    client.send(&request.head(1));
    let mut question = Vec::new();
    encode::get_values(&mut question, ValuesQuery { mpxs_conns: true, ..ValuesQuery::default() });
    client.send(&question);
    assert_eq!(
        client.hear(),
        Heard::Values(Values { mpxs_conns: Some(true), ..Values::default() })
    );
    let mut rest = Vec::new();
    encode::stream(&mut rest, 1, Stream::Stdin, b"abc");
    encode::stream_end(&mut rest, 1, Stream::Stdin);
    client.send(&rest);
    assert_eq!(client.answer().body(), "abc");

    client.send(&[1, 99, 0, 0, 0, 3, 5, 0, b'x', b'y', b'z', 0, 0, 0, 0, 0]);
    assert_eq!(client.hear(), Heard::UnknownType(99));
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

#[test]
fn requests_share_a_connection_and_overtake_each_other() {
    let server = pool(2).start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/hold.php?name=slow").bytes(7));
    server.holds("slow");
    for id in [300, 65_535, 1] {
        client.send(&Request::new(&server, "/echo.php").post(format!("{id}").as_bytes()).bytes(id));
    }
    for _ in 0..3 {
        let Heard::Ended(id, answer) = client.hear() else { panic!("no answer") };
        assert_eq!(answer.body(), id.to_string());
    }
    server.let_go("slow");
    let Heard::Ended(7, answer) = client.hear() else { panic!("no answer to the slow one") };
    assert_eq!(answer.body(), "held");
}

#[test]
fn many_requests_share_a_connection_record_by_record() {
    let server = pool(2).start();
    let mut client = Client::connect(&server);
    let requests: Vec<Vec<u8>> = (1..=100u16)
        .map(|id| {
            Request::new(&server, "/input.php").post(&numbered(usize::from(id) * 997)).bytes(id)
        })
        .collect();
    // A piece of each in turn, cut where no record ends, would be no FastCGI; so records in turn.
    let mut records: Vec<Vec<&[u8]>> = requests.iter().map(|bytes| split(bytes)).collect();
    while records.iter().any(|left| !left.is_empty()) {
        for left in records.iter_mut().filter(|left| !left.is_empty()) {
            client.send(left.remove(0));
        }
    }
    let mut seen = Vec::new();
    for _ in 0..100 {
        let Heard::Ended(id, answer) = client.hear() else { panic!("no answer") };
        let body = numbered(usize::from(id) * 997);
        let reply: serde_json::Value = serde_json::from_str(&answer.body()).unwrap();
        assert_eq!(
            (reply["length"].as_u64(), reply["crc32"].as_str()),
            (Some(body.len() as u64), Some(&*crc32(&body)))
        );
        seen.push(id);
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=100).collect::<Vec<u16>>());
}

/// The records of bytes that are whole ones.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while bytes.len() >= 8 {
        let len = 8 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + usize::from(bytes[6]);
        let (record, rest) = bytes.split_at(len);
        records.push(record);
        bytes = rest;
    }
    records
}

#[test]
fn a_long_response_leaves_room_for_others_on_its_connection() {
    const LENGTH: usize = 16 << 20;
    let server = pool(2).start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, &format!("/large.php?bytes={LENGTH}")).bytes(1));
    client.wait_for_answer();
    client.slow_down(Duration::from_millis(30));
    // Until all that may be held of it is held.
    sleep(Duration::from_millis(300));
    client.send(&Request::new(&server, "/hello.php").bytes(2));
    let Heard::Ended(2, answer) = client.hear() else { panic!("the long one came first") };
    assert_eq!(answer.body(), "Hello from PHP");
    assert!(client.so_far(1) < LENGTH / 2, "{}", client.so_far(1));
    client.slow_down(Duration::ZERO);
    assert_eq!(client.answer().body().len(), LENGTH);
}

#[test]
fn more_requests_than_a_connection_takes_are_refused() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let blocker = Request::new(&server, "/sleep.php?ms=500").post(b"a");
    for id in 1..=257 {
        client.send(&blocker.head(id));
    }
    let Heard::Ended(257, answer) = client.hear() else { panic!("no refusal") };
    assert!(answer.head().starts_with("Status: 503 "), "{answer:?}");
    assert_eq!(answer.end, Some((0, ProtocolStatus::Complete)));
    // The others are as they were.
    let mut rest = Vec::new();
    encode::stream(&mut rest, 256, Stream::Stdin, b"a");
    encode::stream_end(&mut rest, 256, Stream::Stdin);
    client.send(&rest);
    let Heard::Ended(256, answer) = client.hear() else { panic!("no answer") };
    assert_eq!(answer.body(), "slept");
}

#[test]
fn an_unknown_role_is_refused_and_the_others_are_served() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let with_role = |role| Request { role, ..Request::new(&server, "/server.php") };
    for number in [0, 4, 65_535] {
        client.send(&with_role(Role::of(number)).bytes(1));
        assert_eq!(client.answer().end, Some((0, ProtocolStatus::UnknownRole)));
    }
    for (role, name) in [(Role::Responder, "RESPONDER"), (Role::Authorizer, "AUTHORIZER")] {
        let answer = client.ask(&with_role(role));
        let reply: serde_json::Value = serde_json::from_str(&answer.body()).unwrap();
        assert_eq!(reply["FCGI_ROLE"], name);
    }
    // A Filter gets its file in a stream of its own, which PHP does not read.
    let mut bytes = with_role(Role::Filter).bytes(1);
    encode::stream(&mut bytes, 1, Stream::Data, &numbered(100_000));
    encode::stream_end(&mut bytes, 1, Stream::Data);
    client.send(&bytes);
    assert!(client.answer().body().contains("\"FILTER\""));
}

/// As php-fpm, which reads no more than it needs.
#[test]
fn streams_need_not_end() {
    let server = pool(1).start();
    for keep in [true, false] {
        let mut client = Client::connect(&server);
        for role in [Role::Responder, Role::Filter] {
            let mut request = Request { keep, role, ..Request::new(&server, "/hello.php") };
            client.send(&request.head(1));
            assert_eq!(client.answer().body(), "Hello from PHP");
            if !keep {
                client = Client::connect(&server);
            }
            request = Request { keep, role, ..Request::new(&server, "/echo.php").post(b"body") };
            let mut bytes = request.head(1);
            encode::stream(&mut bytes, 1, Stream::Stdin, b"body");
            client.send(&bytes);
            assert_eq!(client.answer().body(), "body");
            if !keep {
                client = Client::connect(&server);
            }
        }
    }
}

/// As php-fpm, which reads such a request as one without a body.
#[test]
fn a_request_need_not_say_its_length() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let request = Request::new(&server, "/hello.php").param("REQUEST_METHOD", method);
        for request in [request.clone(), request.param("CONTENT_LENGTH", "")] {
            client.send(&request.head(1));
            assert_eq!(client.answer().body(), "Hello from PHP", "{method}");
        }
    }
    // HTTP/2 has bodies of unknown length, which come with an end; Caddy says -1.
    let unknown = |name: &str, value: &str| {
        Request::new(&server, "/echo.php").post(b"").param("CONTENT_LENGTH", "").param(name, value)
    };
    for mut request in [unknown("SERVER_PROTOCOL", "HTTP/2.0"), unknown("CONTENT_LENGTH", "-1")] {
        request.body = b"later".to_vec();
        let head = request.head(1);
        client.send(&head);
        client.send(&request.bytes(1)[head.len()..]);
        assert_eq!(client.answer().body(), "later");
    }
}

#[test]
fn requests_with_one_id_are_answered_one_after_the_other() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let hello = Request::new(&server, "/hello.php");
    let echo = Request::new(&server, "/echo.php").post(b"body");
    let mut unended = echo.head(1);
    encode::stream(&mut unended, 1, Stream::Stdin, b"body");
    let many = [hello.head(1), hello.bytes(1), unended, echo.bytes(1), hello.bytes(1)];
    client.send(&many.concat());
    for expected in ["Hello from PHP", "Hello from PHP", "body", "body", "Hello from PHP"] {
        assert_eq!(client.answer().body(), expected);
    }
    assert_eq!(client.ask(&hello.last()).body(), "Hello from PHP");
    assert!(client.is_closed());
    // A request that has not come whole cannot be followed.
    let mut client = Client::connect(&server);
    client.send(&[echo.head(1), echo.bytes(1)].concat());
    assert!(client.is_closed());
    server.log_line(&["a request that begins twice"]);
}

#[test]
fn a_web_server_may_end_its_side_of_the_connection() {
    let server = pool(1).start();
    let hello = Request::new(&server, "/hello.php");
    let echo = Request::new(&server, "/echo.php").post(b"body");
    let mut unended = echo.head(1);
    encode::stream(&mut unended, 1, Stream::Stdin, b"body");
    let unknown = Request::new(&server, "/hello.php")
        .param("REQUEST_METHOD", "POST")
        .param("SERVER_PROTOCOL", "HTTP/2.0");
    for (bytes, expected) in [
        (hello.head(1), Some("Hello from PHP")),
        (hello.clone().last().head(1), Some("Hello from PHP")),
        (hello.bytes(1), Some("Hello from PHP")),
        (unended, Some("body")),
        (unknown.head(1), Some("Hello from PHP")),
        (echo.head(1), None),
        (hello.head(1)[..20].to_vec(), None),
    ] {
        let mut client = Client::connect(&server);
        client.send(&bytes);
        client.end();
        if let Some(expected) = expected {
            assert_eq!(client.answer().body(), expected);
        }
        assert!(client.is_closed());
    }
}

/// php-fpm does not look at the connection before it answers.
#[test]
fn a_web_server_that_has_ended_its_side_gets_a_late_answer() {
    let address = free_address();
    let server = with_second(pool(1), address, &[]).start();
    // Long enough for the timeouts to look at the connection.
    let code = "<?php usleep(700_000); echo 'late';";
    std::fs::write(server.places.root().join("late.php"), code).unwrap();
    let late = Request::new(&server, "/late.php");
    let clients = [late.clone().last(), late].into_iter().flat_map(|request| {
        [Client::tcp(address), Client::connect(&server)].map(|mut client| {
            client.send(&request.bytes(1));
            client.end();
            client
        })
    });
    // All wait at the same time.
    for mut client in clients.collect::<Vec<_>>() {
        assert_eq!(client.answer().body(), "late");
        assert!(client.is_closed());
    }
    // A Unix socket knows the end of one side from the end of both.
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/abort.php?name=half").bytes(1));
    client.end();
    client.wait_for_answer();
    drop(client);
    assert_eq!(server.state("status-half"), "1 1");
}

#[test]
fn records_of_requests_that_are_none_mean_nothing() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let mut bytes = Vec::new();
    encode::abort(&mut bytes, 9);
    for stream in [Stream::Params, Stream::Stdin, Stream::Data] {
        encode::stream(&mut bytes, 9, stream, b"whatever");
        encode::stream_end(&mut bytes, 9, stream);
    }
    client.send(&bytes);
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

/// Padded, in records of any size, with the long form of short lengths.
#[test]
fn a_request_may_come_in_any_shape() {
    let server = pool(1).start();
    let request = Request::new(&server, "/echo.php").post(b"body");
    let mut params = Vec::new();
    for (name, value) in &request.params {
        for text in [name, value] {
            params.extend_from_slice(&(text.len() as u32 | 1 << 31).to_be_bytes());
        }
        params.extend_from_slice(name.as_bytes());
        params.extend_from_slice(value.as_bytes());
    }
    let record = |kind: u8, content: &[u8], padding: u8| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, high, low, padding, 0], content, &vec![b'p'; padding.into()]].concat()
    };
    let mut bytes = record(1, &[0, 1, 1, 0, 0, 0, 0, 0], 3);
    params.chunks(5).for_each(|piece| bytes.extend(record(4, piece, 250)));
    bytes.extend(record(4, b"", 17));
    b"body".chunks(1).for_each(|piece| bytes.extend(record(5, piece, 255)));
    bytes.extend(record(5, b"", 9));

    let mut client = Client::connect(&server);
    client.send(&bytes);
    assert_eq!(client.answer().body(), "body");
    for byte in bytes.chunks(1) {
        client.send(byte);
    }
    assert_eq!(client.answer().body(), "body");
    let longest = record(5, &vec![b'x'; 65_535], 255);
    let long = request.clone().param("CONTENT_LENGTH", "65535");
    client.send(&[long.head(1), longest, record(5, b"", 0)].concat());
    assert_eq!(client.answer().body().len(), 65_535);
}

#[test]
fn an_aborted_request_ends_and_the_connection_goes_on() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let abort = |client: &mut Client, id| {
        let mut bytes = Vec::new();
        encode::abort(&mut bytes, id);
        client.send(&bytes);
    };
    // While it comes.
    client.send(&Request::new(&server, "/echo.php").post(b"abc").head(1));
    abort(&mut client, 1);
    assert_eq!(client.answer().end, Some((0, ProtocolStatus::Complete)));
    // While it waits for the worker, which has another one.
    client.send(&Request::new(&server, "/abort.php?name=fcgi").bytes(2));
    client.wait_for_answer();
    client.send(&Request::new(&server, "/hello.php").bytes(3));
    abort(&mut client, 3);
    let Heard::Ended(3, answer) = client.hear() else { panic!("no end") };
    assert!(answer.stdout.is_empty(), "{answer:?}");
    // While it is answered: the script notices.
    abort(&mut client, 2);
    let Heard::Ended(2, _) = client.hear() else { panic!("no end") };
    assert_eq!(server.state("status-fcgi"), "1 1");
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

#[test]
fn a_web_server_that_goes_away_aborts_its_requests() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    client.send(&Request::new(&server, "/abort.php?name=gone").bytes(1));
    client.wait_for_answer();
    drop(client);
    assert_eq!(server.state("status-gone"), "1 1");
}

/// Nobody looks at a connection that ends with its request; it is noticed all the same.
#[test]
fn a_request_whose_connection_is_gone_is_not_begun() {
    let server = pool(1).fpm_line("pm.status_path = /pool-status").start();
    let code = "<?php file_put_contents(getenv('STATE') . '/ran', 'yes');";
    std::fs::write(server.places.root().join("ran.php"), code).unwrap();
    let mut first = Client::connect(&server);
    first.send(&Request::new(&server, "/hold.php?name=first").last().bytes(1));
    server.holds("first");
    let mut second = Client::connect(&server);
    second.send(&Request::new(&server, "/ran.php").last().bytes(1));
    let mut onlooker = Client::connect(&server);
    let waits = || {
        let page = onlooker.ask(&Request::new(&server, "/pool-status?json")).body();
        page.contains("\"listen queue\":1,").then_some(())
    };
    eventually(Duration::from_secs(60), waits).expect("the second waits for the worker");
    drop(second);
    // It stays in the queue, so nobody can see when this is noticed.
    sleep(Duration::from_secs(1));
    server.let_go("first");
    assert_eq!(first.answer().body(), "held");
    assert!(first.is_closed());
    assert_eq!(
        Client::connect(&server).ask(&Request::new(&server, "/hello.php")).body(),
        "Hello from PHP"
    );
    assert!(!server.state_file("ran").exists(), "nobody would have read its answer");
}

#[test]
fn bodies_of_any_size_arrive() {
    let server = pool(2).start();
    let mut client = Client::connect(&server);
    for length in [0, 1, 8191, 65_535, 65_536, 1 << 20, 20 << 20] {
        let body = numbered(length);
        let answer = client.ask(&Request::new(&server, "/input.php").post(&body));
        let reply: serde_json::Value = serde_json::from_str(&answer.body()).unwrap();
        assert_eq!(
            (reply["length"].as_u64(), reply["crc32"].as_str()),
            (Some(length as u64), Some(&*crc32(&body)))
        );
    }
}

#[test]
fn the_length_of_a_body_counts() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let said = |length: &str| {
        let mut request =
            Request::new(&server, "/echo.php").post(b"").param("CONTENT_LENGTH", length);
        request.body = b"12345678".to_vec();
        request
    };
    assert_eq!(client.ask(&said("8")).body(), "12345678");
    assert_eq!(client.ask(&said("3")).body(), "123", "as php-fpm reads it");
    let answer = client.ask(&said("9"));
    assert!(answer.head().starts_with("Status: 400 Bad Request"), "{}", answer.head());
    server.log_line(&["the body is shorter than CONTENT_LENGTH says"]);
    assert_eq!(client.ask(&said("8")).body(), "12345678");
}

/// It has no standard input (section 6.3 of the specification); some web servers end it all the
/// same.
#[test]
fn an_authorizer_waits_for_no_body() {
    let server = pool(1).start();
    for keep in [true, false] {
        let mut client = Client::connect(&server);
        let mut request = Request::new(&server, "/hello.php");
        (request.role, request.keep) = (Role::Authorizer, keep);
        client.send(&request.head(1));
        assert_eq!(client.answer().body(), "Hello from PHP");
        let mut client = Client::connect(&server);
        for _ in 0..if keep { 3 } else { 1 } {
            assert_eq!(client.ask(&request).body(), "Hello from PHP");
        }
    }
}

#[test]
fn a_body_without_measure_is_refused_at_once() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let length = (16_u64 << 30) + 1;
    let request = Request::new(&server, "/echo.php")
        .post(b"some")
        .param("CONTENT_LENGTH", &length.to_string());
    // Its body is still to come.
    client.send(&request.head(1));
    let answer = client.answer();
    assert!(answer.head().starts_with("Status: 413"), "{}", answer.head());
    // What comes of it all the same is nothing to anybody.
    client.send(&request.bytes(1)[request.head(1).len()..]);
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

#[test]
fn a_web_server_that_does_not_read_holds_only_its_own() {
    let server = pool(2).start();
    let mut stuck = Client::connect(&server);
    // Far more than all buffers on the way.
    stuck.send(&Request::new(&server, "/large.php?bytes=30000000").bytes(1));
    sleep(Duration::from_millis(300));
    fast(&server);
    let answer = stuck.answer();
    assert!(answer.body().as_bytes() == numbered(30_000_000));
}

fn fast(server: &Server) {
    let started = Instant::now();
    let mut client = Client::connect(server);
    for _ in 0..20 {
        assert_eq!(client.ask(&Request::new(server, "/hello.php")).body(), "Hello from PHP");
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn complaints_come_as_standard_error() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let answer = client.ask(&Request::new(&server, "/log.php?name=fcgi"));
    assert!(answer.body().contains("logged"));
    let complaints = String::from_utf8(answer.stderr).unwrap();
    assert!(complaints.contains("PHP message: a message for fcgi"), "{complaints}");
    let answer = client.ask(&Request::new(&server, "/no-such.php"));
    assert!(answer.head().starts_with("Status: 404 Not Found"), "{}", answer.head());
    assert_eq!(answer.body(), "File not found.\n");
    assert!(String::from_utf8(answer.stderr).unwrap().contains("Primary script unknown"));
}

#[test]
fn a_worker_that_dies_costs_its_request() {
    let server = pool(1).start();
    let mut client = Client::connect(&server);
    let answer = client.ask(&Request::new(&server, "/fail.php?how=kill"));
    assert!(answer.head().starts_with("Status: 502 Bad Gateway"), "{answer:?}");
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
    server.log_line(&["exited on signal 9 (SIGKILL) after"]);
}
