//! A relay between a client and the server, which counts connections and reads what both say in
//! clear at the beginning of TLS: the version and the group.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// How much of a connection is kept: more than a server's part of a handshake.
const KEPT: usize = 32 * 1024;

/// What has come by on one connection.
#[derive(Clone, Default)]
pub struct Passed {
    /// The first bytes of the server.
    from_server: Vec<u8>,
    /// Whether one of both has ended it: some clients do so when the server says that it will.
    pub ended: bool,
}

pub struct Relay {
    pub address: SocketAddr,
    passed: Arc<Mutex<Vec<Passed>>>,
    stops: Arc<AtomicBool>,
}

impl Relay {
    pub fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().unwrap();
        let (passed, stops) = (Arc::<Mutex<Vec<Passed>>>::default(), Arc::<AtomicBool>::default());
        let (all, end) = (passed.clone(), stops.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let number = {
                    let mut all = all.lock().unwrap();
                    all.push(Passed::default());
                    all.len() - 1
                };
                for is_server in [true, false] {
                    let (from, to) =
                        if is_server { (&server, &client) } else { (&client, &server) };
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let all = all.clone();
                    thread::spawn(move || pass(from, to, is_server, &all, number));
                }
            }
        });
        Relay { address, passed, stops }
    }

    /// The connections so far on which the server has said something.
    pub fn passed(&self) -> Vec<Passed> {
        let passed = self.passed.lock().unwrap();
        passed.iter().filter(|one| !one.from_server.is_empty()).cloned().collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    is_server: bool,
    all: &Mutex<Vec<Passed>>,
    number: usize,
) {
    let mut buffer = [0; 16384];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if is_server {
            let kept = &mut all.lock().unwrap()[number].from_server;
            let room = (KEPT - kept.len()).min(length);
            kept.extend_from_slice(&buffer[..room]);
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The client sees the end before the test does.
    let _ = to.shutdown(Shutdown::Write);
    all.lock().unwrap()[number].ended = true;
}

impl Passed {
    /// As in `1.3, X25519`; what is resumed by TLS 1.2 has no group.
    pub fn negotiated(&self) -> Option<String> {
        let (mut version, mut group, mut hellos) = (None, None, 0);
        for (kind, body) in messages(&self.from_server) {
            match kind {
                2 => {
                    hellos += 1;
                    let (legacy, extensions) = server_hello(&body)?;
                    version = Some(legacy);
                    for (number, value) in extensions {
                        match number {
                            43 => version = Some(two(&value)?),
                            51 => group = Some(two(&value)?),
                            _ => {}
                        }
                    }
                }
                // A named curve.
                12 if body.first() == Some(&3) => group = Some(two(&body[1..])?),
                _ => {}
            }
        }
        let version = match version? {
            0x303 => "1.2",
            0x304 => "1.3",
            _ => "another",
        };
        let group = match group {
            None => "no group",
            Some(23) => "P-256",
            Some(24) => "P-384",
            Some(29) => "X25519",
            Some(0x11ec) => "X25519MLKEM768",
            Some(_) => "another group",
        };
        let second = if hellos > 1 { ", asked twice" } else { "" };
        Some(format!("{version}, {group}{second}"))
    }
}

/// The messages of the handshake that are in clear.
fn messages(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut clear = Vec::new();
    while let [kind, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(*high) << 8 | usize::from(*low);
        let Some(record) = rest.get(..length) else { break };
        match kind {
            22 => clear.extend_from_slice(record),
            // The sign of a change of keys comes between two hellos, too.
            20 if record == [1] => {}
            _ => break,
        }
        bytes = &rest[length..];
    }
    let (mut clear, mut found) = (&clear[..], Vec::new());
    while let [kind, high, middle, low, rest @ ..] = clear {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        let Some(body) = rest.get(..length) else { break };
        found.push((*kind, body.to_vec()));
        clear = &rest[length..];
    }
    found
}

type Extensions = Vec<(u16, Vec<u8>)>;

/// The old field of the version, and the extensions.
fn server_hello(body: &[u8]) -> Option<(u16, Extensions)> {
    let session = usize::from(*body.get(34)?);
    // Behind the session, the suite, the compression and the length of the extensions.
    let mut rest = body.get(35 + session + 2 + 1 + 2..).unwrap_or_default();
    let mut extensions = Vec::new();
    while let Some(number) = two(rest) {
        let length = usize::from(two(rest.get(2..)?)?);
        extensions.push((number, rest.get(4..4 + length)?.to_vec()));
        rest = &rest[4 + length..];
    }
    Some((two(body)?, extensions))
}

fn two(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(..2)?.try_into().unwrap()))
}
