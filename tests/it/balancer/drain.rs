//! A stop that gives balancers time: `/ready` fails first, and clients are served meanwhile.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::{Connection, Kind, Server, Setup, eventually, free_address, get};
use crate::operate::reload;

const SOON: Duration = Duration::from_secs(20);

/// A server that is ready, with its admin listener.
fn ready(delay: &str) -> (Server, SocketAddr) {
    let admin = free_address();
    let server = Setup::new(Kind::Classic)
        .line(&format!("admin = \"{admin}\"\ntimeouts.drain_delay = \"{delay}\""))
        .start();
    answers(admin, 200);
    (server, admin)
}

/// Waits until `/ready` has this status.
#[track_caller]
fn answers(admin: SocketAddr, status: u16) {
    let answer = || Connection::open(admin).exchange(&get("/ready")).status();
    assert!(eventually(SOON, || (answer() == status).then_some(())).is_some(), "never {status}");
}

#[test]
fn clients_are_served_while_a_stopping_server_is_not_ready() {
    let (mut server, admin) = ready("10m");
    let mut kept = server.connect();
    kept.exchange(&get("/hello.php")).expect(200);
    server.main_process().signal("TERM");
    answers(admin, 503);
    server.log_line(&["stopping in 600.0 s"]);
    for _ in 0..5 {
        let response = server.get("/hello.php").expect(200);
        assert_eq!(response.header("connection"), None, "no client is sent away yet");
    }
    kept.exchange(&get("/hello.php")).expect(200);
    // What a reload does, it does then, too.
    assert_eq!(reload(&server), Ok("generation 2 serves\n".into()));
    server.get("/hello.php").expect(200);
    answers(admin, 503);
    // The second signal skips the rest of the delay; it does not end requests.
    server.main_process().signal("TERM");
    let status = server.main_process().wait(SOON).expect("it ends");
    assert!(status.success(), "{status}");
    server.log_line(&["stopping: running requests are finished"]);
    assert!(!server.log().contains("stopping at once"), "{}", server.log());
}

#[test]
fn the_delay_ends_by_itself() {
    let (mut server, _) = ready("1s");
    server.main_process().signal("TERM");
    server.log_line(&["stopping in 1.0 s"]);
    let status = server.main_process().wait(SOON).expect("it ends");
    assert!(status.success(), "{status}");
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn a_third_signal_ends_it_at_once() {
    let (mut server, admin) = ready("10m");
    let mut held = server.connect();
    held.send(get("/hold.php?name=a").bytes());
    server.holds("a");
    server.main_process().signal("TERM");
    answers(admin, 503);
    server.main_process().signal("TERM");
    server.log_line(&["stopping: running requests are finished"]);
    server.main_process().signal("TERM");
    server.log_line(&["stopping at once"]);
    assert!(server.main_process().wait(SOON).is_some());
}
