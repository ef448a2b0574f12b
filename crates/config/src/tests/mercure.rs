//! Hubs of sites.

use std::time::Duration;

use super::{Place, has};
use crate::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_hub_is_what_its_table_says() {
    let place = Place::with(&["index.php"]);
    let load = |text: &str| place.load(&format!("[[site]]\n[site.mercure]\n{text}")).unwrap();
    assert_eq!(load("history = 5\n").sites[0].mercure, None, "it is off");
    let text = "enabled = true\nanonymous = true\norigins = ['https://WWW.example.org', '*']\n\
                publisher_algorithm = 'ES256'\nhistory = 5\nhistory_size = '1MiB'\n\
                subscribers = 6\ntopics = 7\nupdate_size = '8KiB'\nheartbeat = '9s'\n\
                redis = '127.0.0.1:6379'\nredis_database = 2\nredis_prefix = 'a:'\n\
                redis_timeout = '1s'\n";
    let server = load(text);
    let expected = Mercure {
        publisher: None,
        subscriber: None,
        anonymous: true,
        origins: vec!["https://www.example.org".into(), "*".into()],
        history: 5,
        history_size: 1 << 20,
        subscribers: 6,
        topics: 7,
        update_size: 8 << 10,
        nodes: Some(Tier {
            server: Endpoint::Tcp("127.0.0.1:6379".into()),
            password: None,
            database: 2,
            prefix: "a:".into(),
            timeout: Duration::from_secs(1),
        }),
        heartbeat: Duration::from_secs(9),
    };
    assert_eq!(server.sites[0].mercure.as_deref(), Some(&expected));
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
    assert!(warnings(&server).is_empty());
    let server = load(&format!("enabled = true\npublisher_key = '{SECRET}'\n"));
    let key = server.sites[0].mercure.as_ref().unwrap().publisher.clone().unwrap();
    assert_eq!((key.key.reveal(), key.algorithm), (SECRET, TokenAlgorithm::Hs256));
    has(&warnings(&server), &["nobody can subscribe", "anonymous = true"]);
}

#[test]
fn keys_come_from_the_environment_too() {
    let place = Place::with(&["index.php"]);
    let mut request = place.request();
    request.environment = vec![
        ("TOKAMAK_MERCURE".into(), "true".into()),
        ("TOKAMAK_MERCURE_SUBSCRIBER_KEY".into(), SECRET.into()),
    ];
    let server = request.load_for(2).unwrap();
    let subscriber = server.sites[0].mercure.as_ref().unwrap().subscriber.clone();
    assert_eq!(subscriber.unwrap().key.reveal(), SECRET);
}

#[test]
fn keys_and_origins_are_judged() {
    let place = Place::with(&["index.php"]);
    for (text, problem) in [
        ("publisher_key = '0123456789abcdef'", "publisher_key: is shorter than 32 characters"),
        (
            "publisher_key = '0123456789abcdef0123456789abcdef'\npublisher_algorithm = 'HS512'",
            "publisher_key: is shorter than 64 characters",
        ),
        ("publisher_algorithm = 'none'", "publisher_algorithm: `none` is unknown; use HS256,"),
        (
            "subscriber_key = '0123456789abcdef'\nsubscriber_algorithm = 'RS256'",
            "subscriber_key: must be a public key as PEM, by which RS256 verifies",
        ),
        (
            "subscriber_key = '-----BEGIN PUBLIC KEY-----\\nabcdefghijklmnop'",
            "subscriber_key: is a public key",
        ),
        ("origins = ['https://a.example/']", "origins: `https://a.example/` is no origin"),
        ("origins = ['a.example']", "origins: `a.example` is no origin"),
    ] {
        let text =
            format!("[[site]]\n[site.mercure]\nenabled = true\n{}", text.replace('\'', "\""));
        has(&place.errors(&text), &[&format!("site.mercure.{problem}")]);
    }
    let off = format!("[[site]]\n[site.mercure]\npublisher_key = '{SECRET}'\n");
    has(&place.errors(&off), &["tokamak.toml:3: site.mercure.publisher_key: is for the hub"]);
    let mounted = "[[site]]\n[[site]]\nroot = '.'\npath = '/a'\n[site.mercure]\nenabled = true\n";
    has(&place.errors(mounted), &["site.mercure.enabled: a mounted site has no hub"]);
}
