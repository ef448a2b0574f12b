//! Ten thousand requests, over several connections and several workers, and no random value comes
//! twice.
//!
//! A process that is put back to an earlier state would repeat itself, and so would two that were
//! forked from one that had already used a generator: the worker script uses each before its loop.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{Kind, Setup, get, in_every_mode, in_parallel};

in_every_mode! { no_value_comes_twice, no_greeting_of_gnutls_comes_twice }

const REQUESTS: usize = 10_000;
const CONNECTIONS: usize = 4;
const WORKERS: usize = 3;
const GREETINGS: usize = 60;

/// PHP seeds some generators with little, and behind php-fpm their values come twice as well: those
/// of `mt_rand`, seeded from 32 bits, in one run of a hundred; of `lcg_value`, seeded from the
/// clock, a handful in each run. One that repeats itself does so in most requests.
const SHORT_SEEDS: usize = REQUESTS / 100;

/// What came so far.
#[derive(Default)]
struct Seen {
    processes: HashSet<String>,
    /// By generator: its values, and how many of them came before.
    values: HashMap<String, (HashSet<String>, usize)>,
    /// The same for libraries that not every machine has.
    libraries: HashMap<String, (HashSet<String>, usize)>,
    /// The same for generators with short seeds.
    seeded: HashMap<String, (HashSet<String>, usize)>,
}

fn no_value_comes_twice(kind: Kind) {
    let server = Setup::new(kind).site("canary").workers(WORKERS).one_at_a_time().start();
    let seen = Mutex::new(Seen::default());
    // Each waits for the others, so every worker serves; twice, so that each could repeat itself.
    for meeting in 0..2 {
        in_parallel(WORKERS, |_| {
            let target = format!("/random.php?meeting={meeting}&of={WORKERS}");
            let answer = server.get(&target).expect(200).json();
            seen.lock().unwrap().add(&answer);
        });
    }
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = server.connect();
                for _ in 0..REQUESTS / CONNECTIONS {
                    let answer = connection.exchange(&get("/random.php")).expect(200).json();
                    seen.lock().unwrap().add(&answer);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.processes.len() >= WORKERS, "not every worker has served");
    let above = |seen: &HashMap<String, (_, usize)>, most| -> Vec<_> {
        seen.iter()
            .filter(|(_, (_, again))| *again > most)
            .map(|(name, (_, again))| (name.clone(), *again))
            .collect()
    };
    let repeating =
        [above(&seen.values, 0), above(&seen.libraries, 0), above(&seen.seeded, SHORT_SEEDS)]
            .concat();
    assert!(repeating.is_empty(), "{kind:?}: generators repeat themselves: {repeating:?}");
    let optional = ["GMP", "EXSLT"].iter().filter(|name| seen.seeded.contains_key(**name)).count();
    assert_eq!((seen.values.len(), seen.seeded.len() - optional), (10, 7), "generators");
}

/// What cannot seed itself anew forbids an image, by name.
#[test]
fn a_generator_that_would_repeat_itself_is_not_sealed() {
    let server = Setup::new(Kind::Sealed).site("canary").boot("by_time.php").start();
    let answer = server.get("/random.php").expect(200).json();
    if !answer["libraries"]["libuuid"].is_null() {
        server.log_line(&["libuuid has made a time-based UUID at boot"]);
    }
}

/// GnuTLS reseeds itself when it sees that it was forked, by a count that a roll-back takes back.
/// libldap speaks through it.
fn no_greeting_of_gnutls_comes_twice(kind: Kind) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let held = Arc::new(AtomicUsize::new(0));
    let of_clients = held.clone();
    let greetings = std::thread::spawn(move || greetings(&listener, &of_clients));
    let setup = Setup::new(kind).site("canary").workers(WORKERS).one_at_a_time();
    let server = setup.env("TLS_PORT", &port).start();
    if server.get("/greet.php").status() == 404 {
        return; // This PHP has no libldap.
    }
    // Once, so that every worker serves.
    held.store(WORKERS, Ordering::SeqCst);
    let processes = Mutex::new(HashSet::new());
    in_parallel(GREETINGS, |_| {
        let answer = server.get("/greet.php").expect(200).json();
        processes.lock().unwrap().insert(answer["pid"].to_string());
    });
    assert!(processes.into_inner().unwrap().len() >= WORKERS, "not every worker has served");
    drop(server);
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let greetings = greetings.join().unwrap();
    assert!(greetings.len() >= GREETINGS, "{} greetings", greetings.len());
    for part in 0..2 {
        let different: HashSet<_> = greetings.iter().map(|greeting| &greeting[part]).collect();
        assert_eq!(different.len(), greetings.len(), "part {part} came twice");
    }
}

/// Random and key share of each `ClientHello`, until somebody connects and says nothing.
///
/// As long as `held` is not 0, a client has to wait until so many are there.
fn greetings(listener: &TcpListener, held: &AtomicUsize) -> Vec<[Vec<u8>; 2]> {
    let mut seen = Vec::new();
    let mut waiting = Vec::new();
    loop {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = [0; 5];
        if client.read_exact(&mut head).is_err() {
            return seen;
        }
        let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        client.read_exact(&mut hello).unwrap();
        seen.push([hello[6..38].to_vec(), key_share(&hello).expect("a key share").to_vec()]);
        waiting.push(client);
        if waiting.len() >= held.load(Ordering::SeqCst) {
            // In this order, for a test that gets its answer sets the number again.
            held.store(0, Ordering::SeqCst);
            waiting.clear();
        }
    }
}

/// The extension `key_share` of a `ClientHello`, as RFC 8446 lays it out.
fn key_share(hello: &[u8]) -> Option<&[u8]> {
    const KEY_SHARE: u16 = 51;
    let word = |at: usize| Some(u16::from_be_bytes([*hello.get(at)?, *hello.get(at + 1)?]));
    let session = 38;
    let ciphers = session + 1 + usize::from(*hello.get(session)?);
    let compression = ciphers + 2 + usize::from(word(ciphers)?);
    let mut at = compression + 1 + usize::from(*hello.get(compression)?) + 2;
    loop {
        let length = usize::from(word(at + 2)?);
        if word(at)? == KEY_SHARE {
            return hello.get(at + 4..at + 4 + length);
        }
        at += 4 + length;
    }
}

impl Seen {
    fn add(&mut self, answer: &Value) {
        self.processes.insert(answer["pid"].to_string());
        note(&mut self.values, &answer["values"]);
        note(&mut self.libraries, &answer["libraries"]);
        note(&mut self.seeded, &answer["seeded"]);
    }
}

fn note(seen: &mut HashMap<String, (HashSet<String>, usize)>, came: &Value) {
    for (generator, value) in came.as_object().expect("values by generator") {
        let (values, again) = seen.entry(generator.clone()).or_default();
        *again += usize::from(!values.insert(value.to_string()));
    }
}
