//! Several nodes whose hubs are one, by a Redis server.

use std::time::Duration;

use super::client::*;
use super::setup;
use crate::harness::{Server, eventually, free_address, get};
use crate::metrics;
use crate::operate::reload;
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

const PATIENCE: Duration = Duration::from_secs(30);

fn node(port: u16, lines: &str) -> Server {
    // What is waited for must not be a heartbeat.
    let lines = format!("heartbeat = \"1h\"\n{lines}");
    let redis = format!("redis = \"127.0.0.1:{port}\"\nredis_password = \"{PASSWORD}\"\n{lines}");
    setup(&redis).start()
}

/// A node that has read the stream: it has subscribers wait for that.
fn ready(port: u16, lines: &str) -> Server {
    let server = node(port, &format!("redis_timeout = \"10s\"\n{lines}"));
    Subscriber::new(&server, &subscription("topic=/probe"));
    server
}

#[test]
fn what_one_node_publishes_all_give_out() {
    let redis = Redis::start();
    let nodes = [0; 3].map(|_| ready(redis.port(), ""));
    let mut all: Vec<_> =
        nodes.iter().map(|node| Subscriber::new(node, &subscription("topic=/a"))).collect();
    let id = publish(&nodes[0], "topic=/a&data=one%0Atwo&type=news&retry=700");
    for subscriber in &mut all {
        let fields = subscriber.gets("one\ntwo");
        assert_eq!(fields, ["event: news", "retry: 700", &format!("id: {id}")]);
    }
    // By a script, and private ones not to all.
    publish(&nodes[1], "topic=/a&data=secret&private=on");
    let target = "/publish.php?function=tokamak_publish&with=%5B%22/a%22,%22by%20a%20script%22%5D";
    let id = nodes[1].send(&get(target)).expect(200).text();
    for subscriber in &mut all {
        assert_eq!(subscriber.gets("by a script"), [format!("id: {id}")]);
    }
}

#[test]
fn a_client_goes_on_at_another_node() {
    let redis = Redis::start();
    let one = ready(redis.port(), "history = 3");
    for id in 1..=3 {
        publish(&one, &format!("topic=/a&id={id}&data={id}"));
    }
    let goes_on = |server: &Server| {
        let last = subscription("topic=/a").header("Last-Event-ID", "2");
        let mut subscriber = Subscriber::new(server, &last);
        assert_eq!(subscriber.before.as_deref(), Some("2"));
        subscriber.gets("3");
    };
    // One that begins later.
    let two = node(redis.port(), "history = 3");
    let knows = || {
        let name = "tokamak_hub_history_updates{site=\"localhost\"}";
        (metrics::samples(&two)[name] == 3.0).then_some(())
    };
    eventually(PATIENCE, knows).expect("it reads the stream");
    goes_on(&two);
    drop(one);
    assert_eq!(reload(&two), Ok("generation 2 serves\n".to_owned()));
    eventually(PATIENCE, knows).expect("the new front reads the stream");
    goes_on(&two);
}

#[test]
fn without_redis_a_publisher_is_told() {
    let port = free_address().port();
    let server = node(port, "redis_timeout = \"500ms\"");
    let refused = server.send(&publication("topic=/a&data=lost")).expect(503);
    assert!(refused.text().starts_with("Redis: no connection to 127.0.0.1:"), "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("5"));
    server.log_line(&["hub: without the Redis server: "]);
    // It is there again. Who has subscribed before comes back, since nobody knew what was news.
    let mut early = Subscriber::new(&server, &subscription("topic=/a"));
    let redis = Redis::start_on(port);
    let published = || (server.send(&publication("topic=/b")).status() == 200).then_some(());
    eventually(PATIENCE, published).expect("it is taken");
    server.log_line(&["hub: the Redis server answers again"]);
    assert!(early.next().expect("when to come back").starts_with("retry: "));
    assert_eq!(early.next(), None);
    let mut subscriber = Subscriber::new(&server, &subscription("topic=/a"));
    publish(&server, "topic=/a&data=after");
    subscriber.gets("after");
    // What was published while it restarts is refused or reaches all, and nothing in between.
    let redis = redis.restart();
    eventually(PATIENCE, published).expect("it is taken");
    publish(&server, "topic=/a&data=at last");
    subscriber.gets("at last");
    drop(redis);
}
