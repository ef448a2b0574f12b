//! Many requests over HTTP/2: by h2load, and while the server reloads.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Kind, Server, Setup, eventually};
use crate::operate::{operated, reload};

use super::client::{PATIENCE, Target, request, runtime, send};

/// Requests of the test of reloads; `TOKAMAK_HTTP2_REQUESTS_OF_RELOADS` sets another number.
const REQUESTS: usize = 100_000;

/// Reloads, evenly spread over the requests.
const RELOADS: usize = 10;

/// Connections at the same time, and requests at the same time on each.
const CONNECTIONS: usize = 6;
const STREAMS: usize = 8;

#[test]
fn h2load_gets_all_answers() {
    let server = Setup::new(Kind::Classic).start();
    std::fs::write(server.places.root().join("static.txt"), "x".repeat(10_000)).unwrap();
    for target in ["/static.txt", "/hello.php", "/large.php?bytes=100000"] {
        let output = Command::new("timeout")
            .args(["60", "h2load", "-n", "2000", "-c", "8", "-m", "10"])
            .arg(format!("http://{}{target}", server.address))
            .output()
            .expect("h2load runs (Debian's package nghttp2-client)");
        is_complete(&String::from_utf8_lossy(&output.stdout));
    }
}

/// Whether h2load, which prints this, has got 2000 answers.
#[track_caller]
pub fn is_complete(text: &str) {
    assert!(text.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
    assert!(text.contains("status codes: 2000 2xx"), "{text}");
}

/// What one client does: it goes on with a new connection when the server ends one, and sends a
/// request again that the server says it has not begun.
async fn client(target: Target, left: Arc<AtomicUsize>, failed: Arc<AtomicUsize>) {
    let take = |left: &AtomicUsize| {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    };
    while left.load(Ordering::Relaxed) > 0 {
        let connection = match target.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                eprintln!("failed: {error}");
                failed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        };
        let streams = (0..STREAMS).map(|_| {
            let (left, failed) = (left.clone(), failed.clone());
            let connection = connection.clone();
            tokio::spawn(async move {
                while take(&left) {
                    // Not sent, if the connection is at its end.
                    let Ok(ready) = connection.clone().ready().await else {
                        left.fetch_add(1, Ordering::Relaxed);
                        return;
                    };
                    let get = request("GET", "/index.php").body(()).unwrap();
                    match send(ready, get, Vec::new()).await {
                        Ok(answer) if answer.status() == 200 => {}
                        Err(error) if is_not_begun(&error) => {
                            left.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        other => {
                            eprintln!("failed: {other:?}");
                            failed.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                    }
                }
            })
        });
        for stream in streams.collect::<Vec<_>>() {
            stream.await.expect("no panic");
        }
    }
}

/// Whether the server says that it has not begun the request: it is above the last stream of a
/// GOAWAY without an error, or was refused.
fn is_not_begun(error: &h2::Error) -> bool {
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let is_above = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (is_refused || is_above)
}

#[test]
fn a_reload_loses_no_request() {
    let server = operated(Kind::Classic).line("timeouts.drain = \"20s\"").start();
    loses_no_request(&server, Target::plain(server.address));
}

/// Sends requests to a server that reloads again and again.
pub fn loses_no_request(server: &Server, target: Target) {
    let asked = std::env::var("TOKAMAK_HTTP2_REQUESTS_OF_RELOADS").ok();
    let requests = asked.and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let (left, failed) = (Arc::new(AtomicUsize::new(requests)), Arc::new(AtomicUsize::new(0)));
    let (of_clients, of_all) = (left.clone(), failed.clone());
    let clients = std::thread::spawn(move || {
        runtime().block_on(async {
            let start = || tokio::spawn(client(target.clone(), of_clients.clone(), of_all.clone()));
            for client in (0..CONNECTIONS).map(|_| start()).collect::<Vec<_>>() {
                client.await.expect("no panic");
            }
        });
    });
    let mut reloads = 0;
    for later in (1..=RELOADS).rev() {
        let is_time = || {
            let is_time = left.load(Ordering::Relaxed) <= requests * later / (RELOADS + 1);
            (is_time || clients.is_finished()).then_some(())
        };
        eventually(PATIENCE, is_time).expect("requests are taken");
        if left.load(Ordering::Relaxed) == 0 {
            break;
        }
        reload(server).expect("a reload");
        reloads += 1;
    }
    clients.join().expect("no panic");
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {requests} requests, {reloads} reloads");
    // On a busy machine a reload may take longer than its share of the requests.
    assert!(reloads >= RELOADS / 2, "{reloads} reloads");
    println!("{requests} requests, {reloads} reloads");
}
