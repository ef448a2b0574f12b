//! Clients that go on asking while something is done to the server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::connection::Connection;
use super::process::eventually;
use super::response::Response;
use super::server::Server;

const CLIENTS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// The clients, seen by the test.
#[derive(Default)]
pub struct Load {
    served: AtomicUsize,
    is_over: AtomicBool,
}

/// Says that a test's clients are to end, also if the test fails: without it the threads of a scope
/// wait for a word that never comes.
pub struct End<'a>(pub &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has clients send requests, each on a connection of its own, until `work` is done. `ask` sends
/// one request and checks its response; it gets a text that is another one for each request.
pub fn under_load<T>(
    server: &Server,
    ask: impl Fn(&mut Connection, &str) -> Response + Sync,
    work: impl FnOnce(&Load) -> T,
) -> T {
    let load = Load::default();
    std::thread::scope(|scope| {
        let _end = End(&load.is_over);
        for client in 0..CLIENTS {
            let (load, ask) = (&load, &ask);
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut number = 0;
                while !load.is_over.load(Ordering::Relaxed) {
                    number += 1;
                    let response = ask(&mut connection, &format!("{client}-{number}"));
                    if response.header("connection") == Some("close") {
                        connection = server.connect();
                    }
                    load.served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        work(&load)
    })
}

impl Load {
    /// Waits until a hundred more requests have been answered.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.served.load(Ordering::Relaxed);
        let more = || (self.served.load(Ordering::Relaxed) > before + 100).then_some(());
        eventually(PATIENCE, more).expect("it goes on");
    }
}
