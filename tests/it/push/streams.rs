//! Streams: how they go on, and why they end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::client::*;
use super::setup;
use crate::harness::{Server, eventually, get};
use crate::http2::client::{exchange, request};
use crate::metrics;
use crate::operate::reload;

const PATIENCE: Duration = Duration::from_secs(20);

/// The time, in seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs()
}

/// How many subscriptions were ended for this reason.
fn ended(server: &Server, reason: &str) -> f64 {
    let name = format!("tokamak_hub_ended_total{{reason=\"{reason}\",site=\"localhost\"}}");
    metrics::samples(server)[&name]
}

#[test]
fn a_silent_stream_beats() {
    let server = setup("heartbeat = \"1s\"").start();
    let mut subscriber = Subscriber::new(&server, &subscription("topic=/a"));
    for _ in 0..2 {
        assert_eq!(subscriber.next().as_deref(), Some(":"));
    }
    publish(&server, "topic=/a&data=x");
    while subscriber.next().expect("an event") == ":" {}
}

/// Each update is compressed once, and fits into each stream, wherever it comes there.
#[test]
fn streams_are_compressed_for_those_who_take_gzip() {
    let server = setup("heartbeat = \"1s\"").start();
    let asking = |topic: &str, codings: &str| {
        let request = subscription(topic).header("Accept-Encoding", codings);
        Subscriber::new(&server, &request)
    };
    let long = "the same again, ".repeat(500);
    let mut one = asking("topic=/a", "gzip, deflate, br, zstd");
    publish(&server, &format!("topic=/a&id=1&data={long}"));
    let mut other = asking("topic=/b&topic=/a&lastEventID=earliest", "br;q=0.5, gzip;q=0.1");
    let mut plain = asking("topic=/a&lastEventID=earliest", "br, zstd");
    assert!(one.is_packed() && other.is_packed() && !plain.is_packed());
    publish(&server, "topic=/b&data=short");
    publish(&server, &format!("topic=/a&id=2&data={long}"));
    let data = |subscriber: &mut Subscriber| {
        let event = std::iter::from_fn(|| subscriber.next()).find(|it| it != ":").expect("one");
        event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data").to_owned()
    };
    for subscriber in [&mut one, &mut plain] {
        assert!(data(subscriber) == long && data(subscriber) == long);
    }
    for expected in [&*long, "short", &*long] {
        assert!(data(&mut other) == expected);
    }
    let samples = metrics::samples(&server);
    let bytes =
        |side| samples[&format!("tokamak_compression_{side}_bytes_total{{encoding=\"gzip\"}}")];
    assert!(bytes("input") > 2.0 * long.len() as f64, "{samples:?}");
    assert!(bytes("output") < 0.1 * bytes("input"), "{samples:?}");
}

#[test]
fn a_stream_ends_with_its_token() {
    let server = setup("").start();
    let claims = json!({"mercure": {"subscribe": ["*"]}, "exp": seconds() + 3});
    let token = format!("Bearer {}", signed(SUBSCRIBER, &claims));
    let request = subscription("topic=/a").header("Authorization", &token);
    let mut packed = Subscriber::new(&server, &request.clone().header("Accept-Encoding", "gzip"));
    let mut subscriber = Subscriber::new(&server, &request);
    assert_eq!(subscriber.next(), None);
    assert_eq!(packed.next(), None);
    assert!(seconds() >= claims["exp"].as_u64().unwrap(), "it has ended too early");
    assert_eq!(ended(&server, "expired"), 2.0);
    // The connection goes on.
    assert_eq!(subscriber.ask(&get("/index.php")).status, 200);
}

/// A stream may leave the HTTP library, and must not leave an unread body behind: the next reader
/// would take it for a request.
#[test]
fn a_body_that_nobody_reads_is_no_request() {
    let server = setup("").start();
    let claims = json!({"mercure": {"subscribe": ["*"]}, "exp": seconds() + 2});
    let token = signed(SUBSCRIBER, &claims);
    let body = "GET /index.php HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut connection = server.connect();
    connection.send(format!(
        "GET {HUB}?topic=/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    ));
    let subscribers = || metrics::samples(&server)["tokamak_hub_subscribers{site=\"localhost\"}"];
    eventually(PATIENCE, || (subscribers() == 1.0).then_some(())).expect("the stream has begun");
    connection.send(body);
    assert_eq!(connection.response().status(), 200);
    // The connection may be closed, or go on with the next request.
    if connection.try_send("GET /missing.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok()
        && let Ok(next) = connection.try_response("GET")
    {
        assert_eq!(next.status(), 404);
    }
}

#[test]
fn streams_come_over_http_2_too() {
    let server = setup("").start();
    publish(&server, "topic=/a&data=before");
    let claims = json!({"mercure": {"subscribe": ["*"]}, "exp": seconds() + 3});
    let token = format!("Bearer {}", signed(SUBSCRIBER, &claims));
    let target = format!("{HUB}?topic=/a&lastEventID=earliest");
    let subscribe = request("GET", &target).header("authorization", token);
    let publish = request("POST", HUB)
        .header("authorization", publisher(&["*"]))
        .header("content-type", "application/x-www-form-urlencoded");
    let form = b"topic=/a&data=meanwhile".to_vec();
    let answers = exchange(&server, vec![(subscribe, Vec::new()), (publish, form)]);
    let [stream, published] = &answers[..] else { panic!("two responses") };
    assert_eq!((stream.status().as_u16(), published.status().as_u16()), (200, 200));
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let text = String::from_utf8_lossy(stream.body());
    assert!(text.contains("\ndata: before\n\n"), "{text}");
    let id = String::from_utf8_lossy(published.body());
    assert!(text.contains(&format!("id: {id}\ndata: meanwhile\n\n")), "{text}");
}

#[test]
fn a_slow_subscriber_is_ended_and_others_are_not() {
    let server = setup("history = 10\nupdate_size = \"1MiB\"").start();
    let mut good = Subscriber::new(&server, &subscription("topic=/a"));
    let slow = Subscriber::new(&server, &subscription("topic=/a"));
    let data = "x".repeat(500_000);
    // More than buffers of kernel and server hold.
    let all = || {
        publish(&server, &format!("topic=/a&data={data}"));
        good.gets(&data);
        (ended(&server, "slow") > 0.0).then_some(())
    };
    eventually(Duration::from_secs(60), all).expect("the slow one is ended");
    assert_eq!(ended(&server, "slow"), 1.0);
    publish(&server, "topic=/a&data=after");
    good.gets("after");
    drop(slow);
    server.log_line(&["a subscriber was ended", "client=127.0.0.1:"]);
}

#[test]
fn a_reload_sends_subscribers_to_the_next_server() {
    let server = setup("").start();
    let subscribe = |codings: &str| {
        Subscriber::new(&server, &subscription("topic=/a").header("Accept-Encoding", codings))
    };
    let mut subscribers = ["", "gzip", "", "gzip"].map(subscribe);
    assert_eq!(reload(&server), Ok("generation 2 serves\n".to_owned()));
    for subscriber in &mut subscribers {
        let retry = subscriber.next().expect("when to come back");
        let milliseconds: u64 = retry.strip_prefix("retry: ").unwrap().parse().unwrap();
        assert!((200..4000).contains(&milliseconds), "{retry}");
        assert_eq!(subscriber.next(), None);
    }
    let mut again = Subscriber::new(&server, &subscription("topic=/a"));
    publish(&server, "topic=/a&data=after");
    again.gets("after");
}

#[test]
fn who_leaves_is_forgotten() {
    let server = setup("").start();
    let subscribers = || metrics::samples(&server)["tokamak_hub_subscribers{site=\"localhost\"}"];
    let all: Vec<_> = (0..5).map(|_| Subscriber::new(&server, &subscription("topic=/a"))).collect();
    assert_eq!(subscribers(), 5.0);
    drop(all);
    eventually(PATIENCE, || (subscribers() == 0.0).then_some(())).expect("all have gone");
}
