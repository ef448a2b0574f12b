//! What an authority meets when it looks for the server: another program, or somebody who lets it
//! wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::harness::eventually;

/// How long a connection may hang: longer than any test waits, so that no thread stays for ever.
const LONGEST: Duration = Duration::from_secs(60);

/// A listener in the way of an authority. It ends with its test.
pub struct Way {
    pub address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// Connections so far.
    came: usize,
    is_open: bool,
    is_over: bool,
}

impl Way {
    /// Another web server, which knows nothing of challenges.
    pub fn astray() -> Way {
        Way::start(|mut client, _| {
            let mut request = [0; 4096];
            // One read has all of a small request; of a handshake, enough to answer wrongly.
            if client.read(&mut request).is_ok() {
                let answer = "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\
                              Content-Length: 14\r\n\r\nanother server";
                let _ = client.write_all(answer.as_bytes());
            }
        })
    }

    /// Leads to this address, once it is open.
    pub fn held(to: SocketAddr) -> Way {
        Way::start(move |client, state| {
            let (lock, changed) = state;
            let waits = |state: &mut State| !state.is_open && !state.is_over;
            drop(changed.wait_timeout_while(lock.lock().unwrap(), LONGEST, waits).unwrap());
            let Ok(server) = TcpStream::connect(to) else { return };
            let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::scope(|scope| {
                scope.spawn(|| pass(from, into));
                pass(server, client);
            });
        })
    }

    fn start(serve: impl Fn(TcpStream, &(Mutex<State>, Condvar)) + Send + Sync + 'static) -> Way {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let (serve, shared) = (Arc::new(serve), state.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (serve, shared) = (serve.clone(), shared.clone());
                let mut state = shared.0.lock().unwrap();
                if state.is_over {
                    return;
                }
                state.came += 1;
                drop(state);
                client.set_read_timeout(Some(LONGEST)).unwrap();
                std::thread::spawn(move || serve(client, &shared));
            }
        });
        Way { address, state }
    }

    /// Lets all pass, those who wait and those who will come.
    pub fn open(&self) {
        self.state.0.lock().unwrap().is_open = true;
        self.state.1.notify_all();
    }

    /// Waits until somebody has come.
    #[track_caller]
    pub fn is_used(&self) {
        let came = || (self.state.0.lock().unwrap().came > 0).then_some(());
        assert!(eventually(super::PATIENCE, came).is_some(), "nobody has come");
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.state.0.lock().unwrap().is_over = true;
        self.state.1.notify_all();
        // So that it sees that.
        let _ = TcpStream::connect(self.address);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) if to.write_all(&bytes[..count]).is_err() => break,
            Err(error) if error.kind() != ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
