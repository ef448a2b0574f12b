//! Two nodes and a Redis server between them. A node whose page has not run had the response from
//! the other one.

use std::fs;
use std::time::{Duration, Instant};

use super::{Site, page, page_with, status};
use crate::harness::{Request, Response, eventually, get};
use crate::operate::command;
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

const PATIENCE: Duration = Duration::from_secs(20);

const KEPT: &str = "Cache-Control: max-age=60";

fn node(redis: &Redis) -> Site {
    let server = format!("cache.redis = \"127.0.0.1:{}\"", redis.port());
    Site::with(&[&server, &format!("cache.redis_password = \"{PASSWORD}\"")])
}

/// Nodes differ by their address, so the host must be told.
fn ask(target: &str) -> Request {
    get(target).header("Host", "shop")
}

/// Two nodes of which the first one uses the server already, so that what it asks for is shared.
fn nodes(redis: &Redis) -> (Site, Site) {
    let (one, other) = (node(redis), node(redis));
    for site in [&one, &other] {
        let before = redis.ask(&["DBSIZE"]);
        let mut number = 0;
        let shares = eventually(PATIENCE, || {
            number += 1;
            let query = format!(
                "warm={}-{number}",
                site.0.state_file("x").display().to_string().replace('/', "-")
            );
            site.send(&ask(&page_with(&query, &[KEPT])));
            (redis.ask(&["DBSIZE"]) != before).then_some(())
        });
        shares.expect("a response is shared");
    }
    (one, other)
}

/// Waits until the server has something under a key that contains this.
fn shared(redis: &Redis, part: &str) {
    let there = || (!redis.ask(&["KEYS", &format!("tokamak:e:*{part}*")]).is_empty()).then_some(());
    eventually(PATIENCE, there).expect("it is shared");
}

fn is_shared(response: &Response) -> bool {
    status(response).starts_with("Tokamak; hit; detail=shared")
}

#[test]
fn what_one_node_has_asked_for_the_others_need_not() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let target = page_with("a=1", &[KEPT, "X-Test: yes", "ETag: \"e\""]);
    let (first, runs) = (one.send(&ask(&target)), other.runs());
    shared(&redis, "a=1");
    let second = other.send(&ask(&target));
    assert!(is_shared(&second), "{second}");
    assert_eq!(
        (second.text(), second.header("x-test"), other.runs()),
        (first.text(), Some("yes"), runs)
    );
    assert!(
        status(&other.send(&ask(&target))).starts_with("Tokamak; hit; ttl="),
        "it has its own now"
    );
    // What is not for everybody is not for the others either.
    let target = page_with("b=1", &["Cache-Control: private, max-age=60"]);
    one.send(&ask(&target));
    assert!(!is_shared(&other.send(&ask(&target))));
}

/// A script knows that the page has changed; what the others have is as old as one's own.
#[test]
fn what_is_outdated_is_not_taken_from_others() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let (script, source) = (folder.path().join("say.lua"), folder.path().join("source"));
    let text = format!("tokamak.cache.depends {{ files = '{}' }}", source.display());
    fs::write(&script, text).unwrap();
    fs::write(&source, "old").unwrap();
    let scripts = format!("lua_raw_url = [\"{}\"]", script.display());
    let server = format!("cache.redis = \"127.0.0.1:{}\"", redis.port());
    let site = Site::with(&[&server, &format!("cache.redis_password = \"{PASSWORD}\""), &scripts]);
    let mut number = 0;
    let target = eventually(PATIENCE, || {
        number += 1;
        let target = page_with(&format!("d={number}"), &[KEPT]);
        site.send(&ask(&target));
        let kept = redis.ask(&["KEYS", &format!("tokamak:e:*d={number}*")]);
        (!kept.is_empty()).then_some(target)
    });
    let target = target.expect("a response is shared");
    let before = site.send(&ask(&target)).text();
    fs::write(&source, "new").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let after = site.send(&ask(&target));
    assert!(after.text() != before && !is_shared(&after), "{after}");
}

#[test]
fn variants_are_told_apart() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let target = page_with("v=1", &[KEPT, "Vary: Accept-Language"]);
    let language = |language: &str| ask(&target).header("Accept-Language", language);
    let german = one.send(&language("de")).text();
    shared(&redis, "v=1");
    let french = other.send(&language("fr"));
    assert!(!is_shared(&french), "{french}");
    let again = other.send(&language("de"));
    assert!(is_shared(&again) && again.text() == german, "{again}");
}

#[test]
fn a_change_is_seen_by_all_nodes() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let target = page_with("c=1", &[KEPT]);
    let first = one.send(&ask(&target)).text();
    shared(&redis, "c=1");
    assert_eq!(other.send(&ask(&target)).text(), first);
    one.send(&Request::new("POST", &target).header("Host", "shop").body("x"));
    let forgotten =
        || (!status(&other.send(&ask(&target))).starts_with("Tokamak; hit")).then_some(());
    eventually(PATIENCE, forgotten).expect("the other node has forgotten it");
}

/// The server is told within a fifth of a second: until then it has what was purged, and the node
/// that knows better must not take it back from there.
#[test]
fn what_a_node_has_purged_it_does_not_get_back() {
    let redis = Redis::start();
    let (one, _other) = nodes(&redis);
    // Again and again, because the moment in which the server is told comes at any time.
    for number in 0..10 {
        let target = page_with(&format!("p={number}"), &[KEPT, "Cache-Tag: news"]);
        let post = Request::new("POST", &target).header("Host", "shop").body("x");
        let first = one.send(&ask(&target)).text();
        shared(&redis, &format!("p={number}"));
        one.send(&post);
        let second = one.send(&ask(&target));
        assert!(!status(&second).contains("hit") && second.text() != first, "{second}");
        assert!(command(&one.0, &["cache", "purge", "--tag", "news"]).status.success());
        let third = one.send(&ask(&target));
        assert!(!status(&third).contains("hit") && third.text() != second.text(), "{third}");
    }
}

#[test]
fn a_purge_is_for_all_nodes() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let tagged = page_with("t=1", &[KEPT, "Cache-Tag: news"]);
    let plain = page_with("u=1", &[KEPT]);
    for (target, part) in [(&tagged, "t=1"), (&plain, "u=1")] {
        one.send(&ask(target));
        shared(&redis, part);
        assert!(is_shared(&other.send(&ask(target))));
    }
    // A third node has nothing of its own, but finds what the tier still has.
    let third = node(&redis);
    assert!(command(&one.0, &["cache", "purge", "--tag", "news"]).status.success());
    let forgotten =
        || (!status(&other.send(&ask(&tagged))).starts_with("Tokamak; hit")).then_some(());
    eventually(PATIENCE, forgotten).expect("the other node has forgotten it");
    assert!(status(&other.send(&ask(&plain))).starts_with("Tokamak; hit"), "it was not meant");
    eventually(PATIENCE, || is_shared(&third.send(&ask(&plain))).then_some(()))
        .expect("it reads the stream");
}

#[test]
fn without_the_server_each_node_is_alone() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let port = redis.port();
    redis.pause(true);
    let began = Instant::now();
    assert_eq!(one.send(&ask(&page_with("d=1", &[KEPT]))).status(), 200);
    assert_eq!(other.send(&ask(&page_with("d=1", &[KEPT]))).status(), 200);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    redis.pause(false);
    drop(redis);
    for number in 0..5 {
        assert_eq!(one.send(&ask(&page_with(&format!("e={number}"), &[KEPT]))).status(), 200);
    }
    one.0.log_line(&["cache: without the Redis server"]);
    let log = one.0.log();
    assert!(
        log.matches("without the Redis server").count() <= 3,
        "it is said once for each time: {log}"
    );
    let redis = Redis::start_on(port);
    let mut number = 0;
    let shares = eventually(PATIENCE, || {
        number += 1;
        let target = page_with(&format!("f={number}"), &[KEPT]);
        one.send(&ask(&target));
        std::thread::sleep(Duration::from_millis(100));
        is_shared(&other.send(&ask(&target))).then_some(())
    });
    shares.expect("they share again");
    one.0.log_line(&["the Redis server answers again"]);
    drop(redis);
}

#[test]
fn what_somebody_else_has_left_there_does_no_harm() {
    let redis = Redis::start();
    let (one, other) = nodes(&redis);
    let target = page_with("g=1", &[KEPT]);
    one.send(&ask(&target));
    shared(&redis, "g=1");
    let key = redis.ask(&["KEYS", "tokamak:e:*g=1*"]);
    for value in ["", "E", "Egarbage", "Vaccept", "E0123456789abcdef\x01\x02", "Z"] {
        assert_eq!(redis.ask(&["SET", &key, value]), "OK");
        let response = other.send(&ask(&target));
        assert!(response.status() == 200 && !is_shared(&response), "{value}: {response}");
        other.send(&Request::new("POST", &target).header("Host", "shop").body("x"));
    }
    redis.ask(&["XADD", "tokamak:purges", "*", "what", "z"]);
    redis.ask(&["DEL", "tokamak:purges"]);
    redis.ask(&["SET", "tokamak:purges", "no stream"]);
    assert_eq!(other.send(&ask(&page(&[KEPT]))).status(), 200);
}
