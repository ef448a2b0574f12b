//! The hub of a site: publishers and subscribers of the Mercure protocol.

/// A subscriber, and tokens.
mod client;
/// What scripts publish.
mod functions;
/// Several nodes with one hub.
mod nodes;
/// What the hub refuses, and of whom.
mod refused;
/// Streams: how they go on, and why they end.
mod streams;

use crate::harness::{Kind, Setup, form, get};
use crate::metrics;
use client::*;

/// A site with a hub; `lines` are more lines of its table.
fn setup(lines: &str) -> Setup {
    setup_of(Kind::Classic, lines)
}

/// The same, in this mode.
fn setup_of(kind: Kind, lines: &str) -> Setup {
    let keys = format!("publisher_key = \"{PUBLISHER}\"\nsubscriber_key = \"{SUBSCRIBER}\"");
    let anonymous = if lines.contains("anonymous") { "" } else { "anonymous = true\n" };
    Setup::new(kind)
        .workers(1)
        .line("admin = \"unix:admin.sock\"")
        .site_line(&format!("[site.mercure]\nenabled = true\n{keys}\n{anonymous}{lines}"))
}

#[test]
fn subscribers_get_what_is_published() {
    let server = setup("").start();
    let mut all: Vec<_> = ["topic=/a", "topic=/b&topic=/a", "topic=*", "topic=/%7Bname%7D"]
        .iter()
        .map(|query| Subscriber::new(&server, &subscription(query)))
        .collect();
    let mut other = Subscriber::new(&server, &subscription("topic=/b"));
    let id = publish(&server, "topic=/a&data=one%0Atwo&type=news&retry=700");
    assert!(id.starts_with("urn:uuid:") && id.len() == 45, "{id}");
    for subscriber in &mut all {
        let fields = subscriber.gets("one\ntwo");
        assert_eq!(fields, ["event: news", "retry: 700", &format!("id: {id}")]);
    }
    assert_eq!(publish(&server, "topic=/c&topic=/b&id=mine"), "mine");
    assert_eq!(other.gets(""), ["id: mine"], "it has not got the first");
    assert_eq!(all[1].gets(""), ["id: mine"]);
}

#[test]
fn private_updates_are_for_those_who_may_have_them() {
    let server = setup("").start();
    let with = |topics: &[&str]| {
        let token = format!("Bearer {}", subscriber(topics));
        Subscriber::new(&server, &subscription("topic=*").header("Authorization", &token))
    };
    let mut own = with(&["/users/1/{page}"]);
    let mut none = with(&[]);
    let mut anonymous = Subscriber::new(&server, &subscription("topic=*"));
    publish(&server, "topic=/users/2/a&private=&data=1");
    publish(&server, "topic=/x&topic=/users/1/a&private=on&data=2");
    publish(&server, "topic=/x&data=3");
    own.gets("2");
    for subscriber in [&mut own, &mut none, &mut anonymous] {
        subscriber.gets("3");
    }
}

#[test]
fn who_comes_back_gets_what_it_has_missed() {
    let server = setup("history = 3").start();
    for id in 1..=4 {
        publish(&server, &format!("topic=/a&id={id}&data={id}"));
    }
    let last = |last: &str| subscription("topic=/a").header("Last-Event-ID", last);
    for (request, before, expected) in [
        (last("2"), Some("2"), &["3", "4"][..]),
        (subscription("topic=/a&lastEventID=3"), Some("3"), &["4"]),
        (subscription("topic=/a&lastEventID=2").header("Last-Event-ID", "3"), Some("3"), &["4"]),
        (last("4"), Some("4"), &[]),
        (last("1"), Some("earliest"), &["2", "3", "4"]),
        (last("earliest"), Some("earliest"), &["2", "3", "4"]),
        (subscription("topic=/a"), None, &[]),
    ] {
        let mut subscriber = Subscriber::new(&server, &request);
        assert_eq!(subscriber.before.as_deref(), before);
        expected.iter().for_each(|data| _ = subscriber.gets(data));
        publish(&server, "topic=/b&data=other");
        drop(subscriber);
        // The next row finds the history as it was.
        for id in 2..=4 {
            publish(&server, &format!("topic=/a&id={id}&data={id}"));
        }
    }
}

#[test]
fn pages_of_other_origins_need_to_be_allowed() {
    let server = setup("origins = [\"https://app.example\"]").start();
    let preflight = |origin: &str| {
        let request = crate::harness::Request::new("OPTIONS", HUB).header("Origin", origin);
        server.send(&request).expect(204)
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(allowed.header("access-control-allow-credentials"), Some("true"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("Last-Event-ID"));
    let refused = preflight("https://evil.example");
    assert_eq!(refused.header("access-control-allow-origin"), None);
    let refused = form(HUB, "topic=/a").header("Origin", "https://app.example");
    let refused = server.send(&refused).expect(401);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
}

#[test]
fn a_token_in_the_query_is_in_no_log() {
    let server = setup("anonymous = false").line("log.access = \"state/access.log\"").start();
    let token = subscriber(&["*"]);
    let query = format!("topic=/a&authorization={token}");
    let mut subscriber = Subscriber::new(&server, &subscription(&query));
    publish(&server, "topic=/a&private=on&data=secret");
    subscriber.gets("secret");
    drop(subscriber);
    let forged = format!("topic=/a&authorization={token}x");
    server.send(&subscription(&forged)).expect(401);
    let line = || {
        let text = std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        text.contains(" 401 ").then_some(text)
    };
    let patience = std::time::Duration::from_secs(20);
    let text = crate::harness::eventually(patience, line).expect("the line of the second");
    assert!(text.contains("/.well-known/mercure?topic=/a "), "{text}");
    let signature = token.rsplit('.').next().unwrap();
    assert!(!text.contains(signature) && !server.log().contains(signature), "{text}");
}

#[test]
fn symfony_publishes() {
    let claims = serde_json::json!({"mercure": {"publish": ["/a", "/b"]}});
    let server = setup("").site("sites/push").env("TOKEN", &signed(PUBLISHER, &claims)).start();
    let mut subscriber = Subscriber::new(&server, &subscription("topic=/b"));
    let id = server.text("/publish.php?data=one%0Atwo");
    assert_eq!(subscriber.gets("one\ntwo"), ["event: news", "retry: 900", &format!("id: {id}")]);
    server.text("/publish.php?data=hidden&private");
    publish(&server, "topic=/b&data=shown");
    subscriber.gets("shown");
    let claims = serde_json::json!({"mercure": {"publish": ["/a"]}});
    let server = setup("").site("sites/push").env("TOKEN", &signed(PUBLISHER, &claims)).start();
    let refused = server.text("/publish.php?data=x");
    assert!(refused.contains("403"), "{refused}");
}

#[test]
fn the_hub_is_counted() {
    let server = setup("").start();
    let mut subscriber = Subscriber::new(&server, &subscription("topic=/a"));
    publish(&server, "topic=/a&data=1");
    publish(&server, "topic=/b");
    subscriber.gets("1");
    let samples = metrics::samples(&server);
    for (name, value) in [
        ("tokamak_hub_subscribers", 1.0),
        ("tokamak_hub_updates_total", 2.0),
        ("tokamak_hub_deliveries_total", 1.0),
        ("tokamak_hub_history_updates", 2.0),
    ] {
        assert_eq!(samples[&format!("{name}{{site=\"localhost\"}}")], value, "{name}");
    }
}

#[test]
fn other_paths_are_the_sites() {
    let server = setup("").start();
    assert!(server.send(&get("/.well-known/mercure/subscriptions")).status() != 405);
    let server = Setup::new(Kind::Classic).start();
    let answer = server.send(&subscription("topic=/a"));
    assert_ne!(answer.header("content-type"), Some("text/event-stream"), "there is no hub");
}
