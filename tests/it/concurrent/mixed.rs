//! Mixed traffic: databases, Redis and an HTTP service of bad manners, all of which go away and
//! come back, and a worker that is killed now and then, while clients ask without a pause.
//!
//! Nobody gets another one's answer, no request is lost but those that a killed worker had, and
//! workers that live keep what they hold. It lasts two rounds. To go on for longer, see
//! CONTRIBUTING.md: the last third of the time then has no misfortune but the HTTP service, so that
//! workers grow old.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{
    Connection, Kind, Request, Server, Setup, eventually, form, get, in_parallel,
};
use crate::operate::{kill, status, status_when, worker_pids};
use crate::services::faulty::{self, MOODS};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;

const CLIENTS: usize = 16;

/// Between one misfortune and the next.
const REQUESTS_BETWEEN: usize = 80;
/// Between one look and the next at workers that grow old.
const REQUESTS_BETWEEN_LOOKS: usize = 2000;

const PATIENCE: Duration = Duration::from_secs(60);

/// What a worker may hold more at the end than at first: each of the lists of kept connections has
/// at most one for each client.
const MORE_DESCRIPTORS: usize = 6 * CLIENTS;
const MORE_KIB: usize = 16 * 1024;

/// Parts of a request that nothing but a service's absence may disturb, and those that depend on
/// the mood of the HTTP service.
const STEADY: &[&str] =
    &["mariadb", "mysqli", "rows", "postgresql", "redis", "sleep", "buffer", "program"];
const MOODY: &[&str] = &["stream", "curl", "multi", "socket"];

struct Services {
    mariadb: MariaDb,
    postgresql: PostgreSql,
    redis: Option<Redis>,
}

impl Services {
    fn start() -> Services {
        let mariadb = MariaDb::start();
        mariadb.create("reactor");
        mariadb.query(
            "CREATE TABLE reactor.rods (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))",
        );
        Services { mariadb, postgresql: PostgreSql::start(), redis: Some(Redis::start()) }
    }

    fn serve(&self) -> Server {
        let redis = self.redis.as_ref().map_or(0, Redis::port);
        Setup::new(Kind::Async)
            .site("sites/mixed")
            .front_controller("worker.php")
            .workers(2)
            .site_line("concurrency = 32")
            .env("PASSWORD", PASSWORD)
            .env("MARIADB", &self.mariadb.port().to_string())
            .env("POSTGRESQL", &self.postgresql.port().to_string())
            .env("REDIS", &redis.to_string())
            .env("HTTP", &faulty::start().to_string())
            .start()
    }
}

/// xorshift64: the same requests from the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % count
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }
}

/// What happens to requests, seen by all threads.
#[derive(Default)]
struct Ledger {
    served: AtomicUsize,
    is_over: AtomicBool,
    lost: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    /// Parts that have failed though their service was asked for an answer.
    failed: Mutex<Vec<String>>,
}

/// What one request does, separated by commas; `is_kind`: the HTTP service only answers well.
fn parts(chance: &mut Chance, is_kind: bool) -> String {
    let part = |_| match chance.below(2) {
        0 => chance.one_of(STEADY).to_owned(),
        _ => {
            let moods = if is_kind { &MOODS[..2] } else { MOODS };
            format!("{}:{}", chance.one_of(MOODY), chance.one_of(moods))
        }
    };
    let parts: Vec<String> = (0..4).map(part).collect();
    parts.join(",")
}

fn request(chance: &mut Chance, token: &str, is_kind: bool) -> Request {
    let mut target = format!("/?token={token}&do={}", parts(chance, is_kind));
    if chance.below(4) == 0 {
        target += &format!("&session=of{}", chance.below(8));
    }
    let request = match chance.below(2) {
        0 => get(&target),
        _ => form(&target, &format!("token={token}")),
    };
    request.header("Cookie", &format!("token={token}")).header("Token", token)
}

/// Whether everything that was said is this request's own.
fn is_right(token: &str, header: Option<&str>, answer: &Value) -> bool {
    header == Some(token) && answer["said"].as_array().is_some_and(|said| said == &[token])
}

/// Whether a part has failed that its service was willing to serve.
fn has_failed(answer: &Value) -> bool {
    let is_good = |name: &str| {
        let mood = name.split_once(':').map_or("echo", |(_, mood)| mood);
        MOODS[..2].contains(&mood)
    };
    answer["failed"].as_object().is_some_and(|failed| failed.keys().any(|name| is_good(name)))
}

/// Asks until it is over.
fn client(server: &Server, ledger: &Ledger, number: usize) {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1));
    let mut connection = server.connect();
    for count in 0.. {
        if ledger.is_over.load(Ordering::Relaxed) {
            return;
        }
        let token = format!("t{number:02}x{count:08}");
        ask(server, &mut connection, ledger, &token, &request(&mut chance, &token, false));
    }
}

fn ask(
    server: &Server,
    connection: &mut Connection,
    ledger: &Ledger,
    token: &str,
    request: &Request,
) {
    let mut is_kept = false;
    let answer = match connection.try_send(request.bytes()) {
        Ok(()) => connection.try_response(&request.method).map_err(|failure| failure.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let wrong = |what: String| {
        ledger.wrong.lock().unwrap().push(format!("{} {}: {what}", request.method, request.target));
    };
    match answer {
        Ok(answer) if answer.status() == 200 => {
            is_kept = answer.header("connection") != Some("close");
            ledger.served.fetch_add(1, Ordering::Relaxed);
            let said = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
            if !is_right(token, answer.header("token"), &said) {
                wrong(answer.to_string());
            }
            if has_failed(&said) {
                ledger.failed.lock().unwrap().push(said["failed"].to_string());
            }
        }
        // What a killed worker had begun, and nobody may begin again.
        Ok(answer) if answer.status() == 502 => {
            ledger.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer) => wrong(answer.to_string()),
        Err(failure) => wrong(failure),
    }
    if !is_kept {
        *connection = server.connect();
    }
}

impl Ledger {
    fn goes_on(&self, count: usize) {
        let until = self.served.load(Ordering::Relaxed) + count;
        let more = || (self.served.load(Ordering::Relaxed) >= until).then_some(());
        eventually(PATIENCE, more).expect("requests are served");
    }
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    pid: u64,
    descriptors: usize,
    kib: usize,
}

fn held(pid: u64) -> Option<Held> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Held { pid, descriptors, kib })
}

/// What goes wrong, in this order and all over again; the last one spares a worker.
const MISFORTUNES: &[fn(&Server, &mut Services, u64)] = &[
    |_, services, _| services.mariadb.kill(),
    |_, services, _| services.mariadb.resume(),
    |_, services, _| services.postgresql.crash(),
    |_, services, _| services.postgresql.resume(),
    |_, services, _| services.redis = services.redis.take().map(Redis::restart),
    |server, _, survivor| {
        let mut others = worker_pids(&status(server)).into_iter().filter(|pid| *pid != survivor);
        others.next().inspect(|pid| kill("KILL", *pid));
    },
];

/// A worker; there may be none just after one was killed.
fn a_worker(server: &Server) -> u64 {
    worker_pids(&status_when(server, "a worker", |status| !worker_pids(status).is_empty()))[0]
}

/// How long to go on.
fn run_time() -> Duration {
    let minutes = std::env::var("TOKAMAK_MIXED_MINUTES").ok();
    let minutes: f64 = minutes.map_or(0.0, |text| text.parse().expect("a number of minutes"));
    Duration::from_secs_f64(60.0 * minutes)
}

/// Twice everything that goes wrong, or until the time is up. What a worker held that lives as long
/// as a worker may: one that finds a dead connection while it is idle is replaced.
fn rounds(server: &Server, services: &mut Services, ledger: &Ledger) -> (usize, Vec<Held>) {
    let end = Instant::now() + run_time() * 2 / 3;
    let (mut count, mut samples) = (0, Vec::<Held>::new());
    while count < 2 || Instant::now() < end {
        for misfortune in MISFORTUNES {
            let before = samples.last().and_then(|last| held(last.pid));
            let survivor = before.or_else(|| held(a_worker(server)));
            // By the second round a worker has once done all that there is to do.
            samples.extend(survivor.filter(|_| count > 0));
            misfortune(server, services, survivor.map_or(0, |held| held.pid));
            ledger.goes_on(REQUESTS_BETWEEN);
        }
        count += 1;
        let served = ledger.served.load(Ordering::Relaxed);
        println!("{count} rounds, {served} requests, {:?}", samples.last());
    }
    (count, samples)
}

/// What a worker holds while nobody is killed any more.
fn grow_old(server: &Server, ledger: &Ledger) -> Vec<Held> {
    let end = Instant::now() + run_time() / 3;
    let mut samples = Vec::new();
    while Instant::now() < end {
        ledger.goes_on(REQUESTS_BETWEEN_LOOKS);
        samples.extend(held(a_worker(server)));
        println!("{} requests, {:?}", ledger.served.load(Ordering::Relaxed), samples.last());
    }
    samples
}

/// Whether each worker held as much at last as at first, or about. When it is first looked at it
/// may just have begun.
fn are_flat(samples: &[Held]) -> bool {
    samples.chunk_by(|one, next| one.pid == next.pid).all(|of_one| match of_one {
        [_, first, .., last] => {
            last.descriptors <= first.descriptors + MORE_DESCRIPTORS
                && last.kib <= first.kib + MORE_KIB
        }
        _ => true,
    })
}

#[test]
fn no_client_gets_another_ones_response() {
    let mut services = Services::start();
    let server = services.serve();
    let ledger = Ledger::default();
    let (rounds, samples) = std::thread::scope(|scope| {
        // The clients end even if this thread panics.
        let _over = Over(&ledger);
        for number in 0..CLIENTS {
            let (server, ledger) = (&server, &ledger);
            scope.spawn(move || client(server, ledger, number));
        }
        let (count, mut samples) = rounds(&server, &mut services, &ledger);
        samples.extend(grow_old(&server, &ledger));
        (count, samples)
    });
    let wrong = ledger.wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    let lost = ledger.lost.into_inner();
    println!("{lost} requests lost to {rounds} killed workers");
    assert!(lost <= rounds * CLIENTS, "{lost} requests lost to {rounds} killed workers");
    assert!(are_flat(&samples), "{samples:#?}");
    all_is_well(&server);
}

struct Over<'a>(&'a Ledger);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// With all services back, nothing fails.
fn all_is_well(server: &Server) {
    let ledger = Ledger::default();
    in_parallel(20 * CLIENTS, |number| {
        let mut chance = Chance(number as u64 + 1);
        let token = format!("u00x{number:08}");
        let request = request(&mut chance, &token, true);
        ask(server, &mut server.connect(), &ledger, &token, &request);
    });
    let wrong = ledger.wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let failed = ledger.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:#?}");
}
