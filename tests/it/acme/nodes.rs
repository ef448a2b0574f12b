//! Several nodes that share certificates through Redis.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::authority::{Pebble, Traits, certificate};
use super::{NAME, ORDERED, PATIENCE, Plan, count, logged};
use crate::harness::{Kind, Server, Setup, eventually, free_address};
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

const SECRET: &str = "drawn at random: 5c0f2b";

/// One of several nodes.
struct Node {
    plain: SocketAddr,
    tls: SocketAddr,
    state: PathBuf,
}

impl Node {
    /// The node to which the authority comes.
    fn visited(plan: &Plan) -> Node {
        Node { plain: plan.plain, tls: plan.tls, state: plan.folder.path().join("one") }
    }

    fn other(plan: &Plan) -> Node {
        let state = plan.folder.path().join("two");
        Node { plain: free_address(), tls: free_address(), state }
    }

    fn setup(&self, plan: &Plan, directory: &str, redis: u16) -> Setup {
        self.setup_with(SECRET, plan, directory, redis)
    }

    /// One that trusts no authority, so that it cannot order.
    fn setup_alone(&self, plan: &Plan, directory: &str, redis: u16) -> Setup {
        let other = plan.folder.path().join("other");
        fs::create_dir_all(&other).unwrap();
        certificate(&other);
        let trusted = other.join("localhost.pem").display().to_string();
        self.setup(plan, directory, redis).server_env("SSL_CERT_FILE", &trusted)
    }

    fn setup_with(&self, secret: &str, plan: &Plan, directory: &str, redis: u16) -> Setup {
        Setup::new(Kind::Classic)
            .workers(1)
            .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{}\"]", self.plain))
            .line(&format!("listen_tls = [\"{}\"]", self.tls))
            .line(&format!("state_dir = '{}'", self.state.display()))
            .line("tls.auto = true")
            .line(&format!("tls.redis = '127.0.0.1:{redis}'"))
            .line(&format!("tls.redis_password = '{PASSWORD}'"))
            .line(&format!("tls.redis_secret = '{secret}'"))
            .line(&format!("acme.directory = [\"{directory}\"]"))
            .also(NAME, "php")
            .server_env("SSL_CERT_FILE", plan.folder.path().join("localhost.pem").to_str().unwrap())
    }

    fn file(&self) -> Option<Vec<u8>> {
        fs::read(self.state.join(format!("acme/certificates/{NAME}.pem"))).ok()
    }

    #[track_caller]
    fn is_served(&self, plan: &Plan, server: &Server, pebble: &Pebble) {
        let served = || plan.curl_at(self.tls, NAME, &pebble.root()).status.success().then_some(());
        assert!(eventually(PATIENCE, served).is_some(), "{}", server.log());
    }
}

/// What Redis has of the certificate for [`NAME`]; empty if it has nothing.
fn certificate_in(redis: &Redis) -> String {
    let names = redis.ask(&["keys", &format!("tokamak:acme:certificate:{NAME}@*")]);
    let name = names.lines().next().unwrap_or_default().to_owned();
    if name.is_empty() { name } else { redis.ask(&["get", &name]) }
}

/// Nodes that start together order one certificate, and all of them use it. What Redis has of it
/// cannot be read there.
#[test]
fn nodes_take_turns() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let redis = Redis::start();
    let (one, two) = (Node::visited(&plan), Node::other(&plan));
    let start = |node: &Node| node.setup(&plan, &pebble.directory(), redis.port()).start();
    let first = start(&one);
    // The authority comes to this one, which shows no challenge of others before it has joined.
    let joined = || (!redis.ask(&["smembers", "tokamak:acme:nodes"]).is_empty()).then_some(());
    assert!(eventually(PATIENCE, joined).is_some(), "{}", first.log());
    let servers = [first, start(&two)];
    one.is_served(&plan, &servers[0], &pebble);
    two.is_served(&plan, &servers[1], &pebble);
    assert_eq!(one.file().unwrap(), two.file().unwrap());
    let lines = |text| servers.iter().map(|server| count(server, text)).sum::<usize>();
    assert_eq!(lines(ORDERED), 1, "{} {}", servers[0].log(), servers[1].log());
    assert_eq!(lines("new account"), 1);
    let account = format!("tokamak:acme:account:{}", pebble.directory());
    for stored in [certificate_in(&redis), redis.ask(&["get", &account])] {
        assert!(stored.len() > 100 && !stored.contains("PRIVATE"), "{stored}");
    }
    for server in &servers {
        assert!(!server.log().contains(SECRET));
    }
    // A node that is added takes the certificate from Redis, and asks no authority.
    let three = Node {
        state: plan.folder.path().join("three"),
        plain: free_address(),
        tls: free_address(),
    };
    let server = three.setup_alone(&plan, &pebble.directory(), redis.port()).start();
    three.is_served(&plan, &server, &pebble);
}

/// A balancer may send the authority to any node: the one that it comes to shows the challenge of
/// the one that orders.
#[test]
fn another_node_shows_the_challenge() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let plan = Plan::new();
        let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
        let redis = Redis::start();
        let (one, two) = (Node::visited(&plan), Node::other(&plan));
        let first = one.setup_alone(&plan, &pebble.directory(), redis.port()).start();
        logged(&first, "no new certificate for shop.example");
        let setup = two.setup(&plan, &pebble.directory(), redis.port());
        let second = setup.line(&format!("acme.challenge = [\"{challenge}\"]")).start();
        one.is_served(&plan, &first, &pebble);
        two.is_served(&plan, &second, &pebble);
        assert_eq!(count(&first, ORDERED), 0, "{}", first.log());
        assert_eq!(count(&second, ORDERED), 1, "{}", second.log());
        assert_eq!(count(&second, "do not show the challenge"), 0, "{}", second.log());
    }
}

/// Without Redis nothing is ordered, since other nodes might order as well.
#[test]
fn redis_that_comes_later() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let port = free_address().port();
    let one = Node::visited(&plan);
    let server = one.setup(&plan, &pebble.directory(), port).start();
    logged(&server, "certificates are not shared: Redis: ");
    assert_eq!(count(&server, ORDERED), 0);
    let redis = Redis::start_on(port);
    one.is_served(&plan, &server, &pebble);
    logged(&server, "certificates are shared with other nodes again");
    // One that was emptied gets back what the node has, when it is asked to look again.
    redis.ask(&["flushall"]);
    drop(server);
    plan.is_free();
    let server = one.setup(&plan, &pebble.directory(), port).start();
    let stored = || (certificate_in(&redis).len() > 100).then_some(());
    assert!(eventually(PATIENCE, stored).is_some(), "{}", server.log());
    assert_eq!(count(&server, ORDERED), 0);
}

/// A node with another secret neither reads nor spoils what the others share.
#[test]
fn a_node_with_another_secret() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let redis = Redis::start();
    let (one, two) = (Node::visited(&plan), Node::other(&plan));
    let first = one.setup(&plan, &pebble.directory(), redis.port()).start();
    one.is_served(&plan, &first, &pebble);
    let secret = "another one: 0123456789";
    let wrong = two.setup_with(secret, &plan, &pebble.directory(), redis.port()).start();
    logged(&wrong, "another node has another `redis_secret`");
    let before = certificate_in(&redis);
    assert_eq!(count(&wrong, ORDERED), 0, "{}", wrong.log());
    assert_eq!(certificate_in(&redis), before);
}

/// A node that asks another authority, as for a try, shares no certificates with the others.
#[test]
fn a_node_with_another_authority() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let redis = Redis::start();
    let (one, two) = (Node::visited(&plan), Node::other(&plan));
    let first = one.setup(&plan, &pebble.directory(), redis.port()).start();
    one.is_served(&plan, &first, &pebble);
    let nowhere = format!("https://{}/dir", free_address());
    let second = two.setup(&plan, &nowhere, redis.port()).start();
    logged(&second, "no new certificate for shop.example");
    assert!(two.file().is_none());
}
