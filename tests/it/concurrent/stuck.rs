//! Requests of async mode that wait for what nothing does any more: a reload and the server's end
//! cancel them, long before `timeouts.drain`.

use std::time::{Duration, Instant};

use crate::harness::{Connection, Kind, Server, Setup, eventually, get};

/// The paths of `tests/sites/stuck`, and what is told of them.
const STUCK: &[&str] = &["suspend", "deferred", "circle"];

fn with_stuck_requests() -> (Server, Vec<Connection>) {
    let server = Setup::new(Kind::Async)
        .site("sites/stuck")
        .workers(1)
        .line("timeouts.drain = \"300s\"")
        .start();
    let clients = STUCK.iter().map(|name| {
        let mut client = server.connect();
        client.send(get(&format!("/?{name}")).bytes());
        let begun = || server.state_file(name).exists().then_some(());
        assert!(eventually(Duration::from_secs(60), begun).is_some(), "{}", server.log());
        client
    });
    let clients = clients.collect();
    (server, clients)
}

fn are_cancelled(server: &Server, clients: Vec<Connection>) {
    for (name, mut client) in STUCK.iter().zip(clients) {
        client.response().expect(500);
        let line =
            server.log_line(&["nothing is left that could resume", &format!("GET /?{name}\"")]);
        assert!(line.contains("worker.php:") && line.contains("#0 "), "{line}");
        let of_it = server.log().lines().filter(|line| line.contains(name)).count();
        assert_eq!(of_it, 1, "{}", server.log());
    }
}

#[test]
fn a_reload_cancels_what_nothing_resumes() {
    let (mut server, clients) = with_stuck_requests();
    let begun = Instant::now();
    server.main_process().signal("HUP");
    are_cancelled(&server, clients);
    assert!(begun.elapsed() < Duration::from_secs(100));
    assert_eq!(server.text("/"), "served");
}

#[test]
fn the_end_of_the_server_cancels_what_nothing_resumes() {
    let (mut server, clients) = with_stuck_requests();
    server.main_process().signal("TERM");
    are_cancelled(&server, clients);
    let status = server.main_process().wait(Duration::from_secs(100)).expect("the server ends");
    assert!(status.success(), "{status}");
}
