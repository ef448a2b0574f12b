//! Keys of session tickets that several nodes share through Redis.

use std::time::Duration;

use super::{Folder, Secured, secured_in, sessions::connects};
use crate::harness::{Kind, Setup, eventually, free_address};
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

/// A node with a certificate that its folder has, and keys from Redis on this port.
fn node(folder: Folder, port: u16) -> Secured {
    let redis = format!("tls.redis = '127.0.0.1:{port}'");
    let password = format!("tls.redis_password = '{PASSWORD}'");
    secured_in(folder, Setup::new(Kind::Classic).workers(1), &[&redis, &password], &[])
}

/// Two folders with the same certificate, for two nodes.
fn folders() -> (Folder, Folder) {
    let (one, two) = (Folder::new(), Folder::new());
    one.certificate("localhost", &["localhost"]);
    for file in ["localhost.pem", "localhost.key"] {
        std::fs::copy(one.path(file), two.path(file)).unwrap();
    }
    (one, two)
}

/// Waits until a session of one node is resumed on the other.
#[track_caller]
fn shares(from: &Secured, to: &Secured, version: &str) {
    let file = from.folder.path(&format!("session{version}")).display().to_string();
    let is_shared = || {
        connects(from, version, (&file, false));
        connects(to, version, (&file, true)).then_some(())
    };
    assert!(eventually(Duration::from_secs(30), is_shared).is_some(), "{version}");
}

#[test]
fn a_client_comes_back_to_another_node() {
    let redis = Redis::start();
    let (one, two) = folders();
    let (one, two) = (node(one, redis.port()), node(two, redis.port()));
    for version in ["-tls1_2", "-tls1_3"] {
        shares(&one, &two, version);
        shares(&two, &one, version);
    }
    let names = redis.ask(&["keys", "tokamak:tls-ticket-key:*"]);
    assert!((1..=2).contains(&names.lines().count()), "{names}");
    let name = names.lines().next().unwrap();
    assert!(redis.ask(&["ttl", name]).parse::<u64>().is_ok_and(|left| left > 6 * 3600));
    for node in [&one, &two] {
        let log = node.server.log();
        assert!(!log.contains("WARN [-] ticket") && !log.contains(PASSWORD), "{log}");
    }
    // A node that does not share has other keys.
    let (other, _) = folders();
    std::fs::copy(one.folder.path("localhost.pem"), other.path("localhost.pem")).unwrap();
    std::fs::copy(one.folder.path("localhost.key"), other.path("localhost.key")).unwrap();
    let other = secured_in(other, Setup::new(Kind::Classic).workers(1), &[], &[]);
    let file = one.folder.path("session-tls1_3").display().to_string();
    assert!(!connects(&other, "-tls1_3", (&file, true)));
}

#[test]
fn without_redis_nodes_have_their_own_keys_until_it_is_back() {
    let port = free_address().port();
    let (one, two) = folders();
    let (one, two) = (node(one, port), node(two, port));
    for node in [&one, &two] {
        node.server.log_line(&["ticket keys are not shared", &format!("127.0.0.1:{port}")]);
        let file = node.folder.path("own").display().to_string();
        assert!(!connects(node, "-tls1_3", (&file, false)));
        assert!(connects(node, "-tls1_3", (&file, true)), "by its own key");
    }
    let redis = Redis::start_on(port);
    shares(&one, &two, "-tls1_3");
    one.server.log_line(&["ticket keys are shared with other nodes again"]);
    // What was begun before is resumed still.
    let file = one.folder.path("own").display().to_string();
    assert!(connects(&one, "-tls1_3", (&file, true)));
    // Without Redis the keys stay as they are.
    drop(redis);
    shares(&two, &one, "-tls1_3");
    let said = one.server.log().matches("ticket keys are not shared").count();
    assert!(said <= 2, "once for each time: {said}");
}

#[test]
fn a_value_of_another_program_is_reported() {
    let redis = Redis::start();
    let (one, _) = folders();
    let mut names = vec!["mset".to_owned()];
    // The slots of now and of the next hours.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let slot = now.as_secs() / (6 * 3600);
    for slot in [slot, slot + 1] {
        names.extend([format!("tokamak:tls-ticket-key:{slot}"), "rubbish".into()]);
    }
    redis.ask(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let one = node(one, redis.port());
    one.server.log_line(&["ticket keys are not shared", "is no key", "another program"]);
    let file = one.folder.path("own").display().to_string();
    assert!(!connects(&one, "-tls1_3", (&file, false)));
    assert!(connects(&one, "-tls1_3", (&file, true)));
}
