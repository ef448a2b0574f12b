//! What scripts publish: `mercure_publish()` and `tokamak_publish()`.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::*;
use super::{setup, setup_of};
use crate::harness::{Kind, Request, Server, Setup, eventually, get, in_every_mode};
use crate::operate::reload;

in_every_mode! { scripts_publish, what_the_hub_refuses_is_thrown }

/// A call with these arguments.
fn call(arguments: &Value, more: &str) -> Request {
    let arguments: String =
        arguments.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    get(&format!("/publish.php?with={arguments}{more}"))
}

fn answer(server: &Server, arguments: &Value, more: &str) -> String {
    server.send(&call(arguments, more)).expect(200).text()
}

fn scripts_publish(kind: Kind) {
    let server = setup_of(kind, "").start();
    let mut subscriber = Subscriber::new(&server, &subscription("topic=/a&topic=/b"));
    let id = answer(&server, &json!(["/a", "one\ntwo"]), "");
    assert!(id.starts_with("urn:uuid:") && id.len() == 45, "{id}");
    assert_eq!(subscriber.gets("one\ntwo"), [format!("id: {id}")]);
    let simple = answer(&server, &json!([["/c", "/b"], "ä"]), "&function=tokamak_publish");
    assert_eq!(subscriber.gets("ä"), [format!("id: {simple}")]);
    assert_ne!(id, simple);
    let all = json!([["/a", "/b"], "x", false, "mine", "news", 700]);
    assert_eq!(answer(&server, &all, ""), "mine");
    assert_eq!(subscriber.gets("x"), ["event: news", "retry: 700", "id: mine"]);
    // Not for those who have no token.
    answer(&server, &json!(["/a", "secret", true]), "");
    // When the response is finished.
    assert_eq!(answer(&server, &json!(["/a", "late"]), "&late"), "late");
    subscriber.gets("late");
}

fn what_the_hub_refuses_is_thrown(kind: Kind) {
    let server = setup_of(kind, "topics = 2\nupdate_size = \"1KiB\"").start();
    for (arguments, problem) in [
        (json!([[], "x"]), "RuntimeException: the update has no `topic`"),
        (json!(["", "x"]), "RuntimeException: `topic` is empty"),
        (json!([["a", "b", "c"]]), "RuntimeException: the update has more than 2 topics"),
        (json!(["a", "x".repeat(2000)]), "RuntimeException: the update has more than 1024 bytes"),
        (
            json!(["a", "", false, "#1"]),
            "RuntimeException: `id` begins with `#`, or is `earliest`: these are the hub's own",
        ),
        (
            json!(["a", "", false, null, null, -1]),
            "RuntimeException: `retry` is no number of milliseconds",
        ),
        (
            json!([["a", 1]]),
            "TypeError: mercure_publish(): Argument #1 ($topics) must be a string or an array of \
             strings",
        ),
    ] {
        assert_eq!(answer(&server, &arguments, ""), problem, "{arguments}");
    }
    // A message between processes has no more room, whatever is set.
    let long = answer(&server, &json!(["a"]), "&size=200000");
    assert_eq!(long, "RuntimeException: the update has more than 131072 bytes");
}

#[test]
fn a_site_without_a_hub_says_so() {
    for kind in [Kind::Classic, Kind::Fpm] {
        let server = Setup::new(kind).start();
        let answer = answer(&server, &json!(["a"]), "");
        let problem = "RuntimeException: the site has no hub: it needs `enabled = true` in \
                       [site.mercure]";
        assert_eq!(answer, problem);
    }
}

/// A request of the old generation ends after the reload, and the subscribers are with the new one.
#[test]
fn what_old_workers_publish_reaches_the_new_hub() {
    let server = setup("").line("timeouts.drain = \"30s\"").start();
    let file = server.state_file("go");
    let waits = format!("&waits={}", file.display());
    let begun = file.with_extension("begun");
    let call = call(&json!(["/a", "from the old one"]), &waits);
    thread::scope(|scope| {
        let asked = scope.spawn(|| server.send(&call).status());
        let begins = || begun.exists().then_some(());
        eventually(Duration::from_secs(20), begins).expect("the script waits");
        assert_eq!(reload(&server), Ok("generation 2 serves\n".to_owned()));
        let mut subscriber = Subscriber::new(&server, &subscription("topic=/a"));
        fs::write(&file, "").unwrap();
        subscriber.gets("from the old one");
        assert_eq!(asked.join().unwrap(), 200);
    });
}
