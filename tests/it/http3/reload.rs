//! A reload, an upgrade, a stop, and a client whose address changes: no connection is lost.

use std::net::UdpSocket;
use std::time::Duration;

use super::client::{Connection, Target, closed, held, request, send, until};
use super::with_lines;
use crate::harness::{Kind, Server, numbered};
use crate::http2::client::{PATIENCE, runtime};
use crate::operate::{kill, operated, reload, status};
use crate::upgrade::Successors;

fn operated_server(lines: &[&str]) -> (crate::tls::Secured, Target) {
    with_lines(operated(Kind::Classic).site("php"), lines)
}

/// Gets a path on an open connection.
async fn get(connection: &Connection, path: &str) -> Result<Vec<u8>, String> {
    let sent = send(connection.client.clone(), request("GET", path), Vec::new());
    let answer = tokio::time::timeout(PATIENCE, sent).await.map_err(|error| error.to_string())?;
    answer.map(|(_, answer)| answer.into_body()).map_err(|error| error.to_string())
}

/// What is under way when `change` happens is answered, and the client is told to go.
fn lives_through(server: &Server, target: &Target, change: impl FnOnce()) {
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let asked = request("GET", "/hold.php?name=through");
        let through = tokio::spawn(send(connection.client.clone(), asked, Vec::new()));
        held(server, "through").await;
        change();
        // The new front reads the port; packets of this connection are handed over.
        let upload = numbered(100_000);
        let other = send(connection.client.clone(), request("POST", "/echo.php"), upload.clone());
        let other = tokio::time::timeout(PATIENCE, other).await.unwrap().expect("an answer");
        assert!(*other.1.body() == upload);
        server.let_go("through");
        let answer = tokio::time::timeout(PATIENCE, through).await.unwrap().unwrap();
        assert_eq!(answer.expect("an answer").1.status(), 200);
        let end = tokio::time::timeout(PATIENCE, connection.quic.closed()).await;
        let end = end.expect("the connection ends by itself");
        assert!(closed(&end).starts_with("closed"), "{end:?}");
    });
    assert_eq!(target.get("/hello.php").status(), 200);
}

#[test]
fn a_connection_lives_through_a_reload() {
    let (secured, target) = operated_server(&[]);
    lives_through(&secured.server, &target, || drop(reload(&secured.server).unwrap()));
}

#[test]
fn connections_of_all_event_loops_live_through_two_reloads() {
    let setup = operated(Kind::Classic).site("php").workers(6);
    let (secured, target) = with_lines(setup, &["loops = 3"]);
    runtime().block_on(async {
        let mut all = Vec::new();
        for _ in 0..12 {
            let connection = target.connect().await.unwrap();
            let client = connection.client.clone();
            let path = "/sleep.php?ms=300";
            all.push((connection, tokio::spawn(send(client, request("GET", path), Vec::new()))));
        }
        for _ in 0..2 {
            reload(&secured.server).unwrap();
        }
        for (_connection, task) in all {
            let answer = tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
            assert_eq!(answer.expect("an answer").1.status(), 200);
        }
    });
}

#[test]
fn a_connection_lives_through_an_upgrade() {
    let (secured, target) = operated_server(&[]);
    let mut successors = Successors::default();
    lives_through(&secured.server, &target, || {
        successors.upgrade(&secured.server).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

/// A client goes from one network to another: its connection goes on from the new address.
#[test]
fn a_connection_lives_through_a_change_of_address() {
    let (_secured, target) = operated_server(&["loops = 4"]);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let before = get(&connection, "/server.php").await.unwrap();
        for _ in 0..5 {
            connection.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            let after = get(&connection, "/server.php").await.unwrap();
            let port = |vars: &[u8]| {
                let vars: serde_json::Value = serde_json::from_slice(vars).unwrap();
                vars["SERVER_PORT"].clone()
            };
            assert_eq!(port(&after), port(&before));
        }
    });
}

/// A stop answers what is under way, and says that it ends.
#[test]
fn a_stop_answers_what_is_under_way() {
    let (mut secured, target) = operated_server(&[]);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let client = connection.client.clone();
        let asked = request("GET", "/hold.php?name=stop");
        let stopping = tokio::spawn(send(client, asked, Vec::new()));
        held(&secured.server, "stop").await;
        secured.server.main_process().signal("TERM");
        secured.server.let_go("stop");
        let answer = tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap();
        assert_eq!(answer.expect("an answer").1.status(), 200);
        let end = tokio::time::timeout(PATIENCE, connection.quic.closed()).await.unwrap();
        assert!(closed(&end).starts_with("closed"), "{end:?}");
    });
}

/// A request that takes longer than the time for draining: its client learns that it is over.
#[test]
fn who_is_not_answered_in_time_is_told() {
    let (secured, target) = operated_server(&[]);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let asked = request("GET", "/hold.php?name=long");
        let asked = tokio::spawn(send(connection.client.clone(), asked, Vec::new()));
        held(&secured.server, "long").await;
        reload(&secured.server).unwrap();
        let end = tokio::time::timeout(PATIENCE, connection.quic.closed()).await.unwrap();
        assert_eq!(closed(&end), "closed 0x100");
        assert!(asked.await.unwrap().is_err());
    });
}

/// The front dies with its connections. The next one tells their clients so.
#[test]
fn who_has_lost_a_connection_is_told() {
    let (secured, target) = operated_server(&[]);
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        get(&connection, "/hello.php").await.unwrap();
        let front = status(&secured.server)["front_pid"].as_u64().expect("a front");
        kill("KILL", front);
        let other = || status(&secured.server)["front_pid"].as_u64().filter(|pid| *pid != front);
        until(other).await;
        let lost = tokio::time::timeout(Duration::from_secs(20), get(&connection, "/hello.php"));
        assert!(lost.await.expect("in time").is_err());
        let end = connection.quic.close_reason().expect("it is closed");
        assert!(matches!(end, quinn::ConnectionError::Reset), "{end:?}");
    });
    assert_eq!(target.get("/hello.php").status(), 200);
}
