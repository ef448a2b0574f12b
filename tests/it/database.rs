//! Databases that hang up on idle workers or go away under load, and what a request may leave open.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{End, Kind, Server, Setup, eventually, in_parallel};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;

const WORKERS: usize = 4;

/// Clients of the tests under load; more than there are workers, so that requests wait for one.
const CLIENTS: usize = 6;

const SOON: Duration = Duration::from_secs(20);

/// A server of `tests/sites/database` and its database. The server ends first.
struct Plant {
    server: Server,
    database: MariaDb,
}

/// What one request under load was told, and when it started.
struct Shot {
    started: Instant,
    status: u16,
    text: String,
}

impl Plant {
    fn start(kind: Kind, environment: &[(&str, &str)]) -> Plant {
        let database = MariaDb::start();
        database.create("reactor");
        database.query("CREATE TABLE reactor.shots (worker INT, name VARCHAR(40))");
        database.query("CREATE TABLE reactor.rods (name VARCHAR(40) PRIMARY KEY)");
        let dsn = format!("mysql:host=127.0.0.1;port={};dbname=reactor", database.port());
        let setup = Setup::new(kind).site("sites/database").workers(WORKERS);
        let setup = setup.env("DSN", &dsn).env("PASSWORD", PASSWORD);
        let setup = environment.iter().fold(setup, |setup, (name, value)| setup.env(name, value));
        Plant { server: setup.start(), database }
    }

    /// Sends as many requests at once as there are workers, which wait for each other, so that each
    /// worker gets one. The workers' process ids.
    #[track_caller]
    fn use_every_worker(&self) -> BTreeSet<u64> {
        let workers = Mutex::new(BTreeSet::new());
        in_parallel(WORKERS, |number| {
            let target = format!("/?name=warm-{number}&meet={WORKERS}");
            let answer = self.server.get(&target).expect(200).json();
            workers.lock().unwrap().insert(answer["worker"].as_u64().expect("a process id"));
        });
        let workers = workers.into_inner().unwrap();
        assert_eq!(workers.len(), WORKERS, "an idle worker was passed over");
        workers
    }

    /// After the database has hung up: every request is served, and by workers that were not there
    /// before.
    #[track_caller]
    fn nothing_is_stale(&self, before: &BTreeSet<u64>) {
        in_parallel(4 * WORKERS, |number| {
            self.server.get(&format!("/?name=after-{number}")).expect(200);
        });
        let after = self.use_every_worker();
        assert!(before.is_disjoint(&after), "{before:?} was not replaced, but is {after:?}");
        for worker in before {
            self.server.log_line(&["a worker is replaced: a connection", &format!("pid={worker}")]);
        }
    }

    /// Requests without a pause from [`CLIENTS`] clients while `change` happens to the database,
    /// and for a while before and after it. `change` can wait until more requests have come. The
    /// answers, and when the database was back.
    fn under_load(
        &mut self,
        change: impl FnOnce(&mut MariaDb, &dyn Fn(), &Server),
    ) -> (Vec<Shot>, Instant) {
        let (server, database) = (&self.server, &mut self.database);
        let (count, over, shots) =
            (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
        let client = || {
            while !over.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let started = Instant::now();
                let answer = server.get(&format!("/?name=shot-{number}&hold=2"));
                let shot = Shot { started, status: answer.status(), text: answer.to_string() };
                shots.lock().unwrap().push(shot);
            }
        };
        let back = scope(|threads| {
            let _end = End(&over);
            for _ in 0..CLIENTS {
                threads.spawn(client);
            }
            let more = || {
                let goal = count.load(Ordering::Relaxed) + 10 * CLIENTS;
                let enough = || (count.load(Ordering::Relaxed) >= goal).then_some(());
                eventually(SOON, enough).expect("requests are answered");
            };
            more();
            change(database, &more, server);
            let back = Instant::now();
            more();
            back
        });
        (shots.into_inner().unwrap(), back)
    }

    /// Every request that started when the database was back is served; some before it were not, or
    /// else this proves nothing.
    #[track_caller]
    fn recovers(&self, shots: &[Shot], back: Instant) {
        let after: Vec<&Shot> = shots.iter().filter(|shot| shot.started >= back).collect();
        let failed: Vec<&&Shot> = after.iter().filter(|shot| shot.status != 200).collect();
        assert!(
            after.len() >= CLIENTS,
            "only {} requests after the database was back",
            after.len()
        );
        let first = failed.first().map(|shot| shot.text.as_str()).unwrap_or_default();
        assert!(
            failed.is_empty(),
            "{} of {} requests failed with the database back: {first}",
            failed.len(),
            after.len()
        );
        // What was answered with 200 has happened once; what was not may have happened all the
        // same.
        let served = shots.iter().filter(|shot| shot.status == 200).count();
        let counts = "SELECT COUNT(*) >= {}, COUNT(*) = COUNT(DISTINCT name) FROM reactor.shots \
            WHERE name LIKE 'shot-%'";
        assert_eq!(self.database.query(&counts.replace("{}", &served.to_string())), "1\t1");
    }
}

#[test]
fn idle_workers_with_a_dead_connection_are_replaced_before_a_request() {
    let mut plant = Plant::start(Kind::Worker, &[]);
    let workers = plant.use_every_worker();
    assert_eq!(plant.use_every_worker(), workers, "workers were replaced without need");

    // In order, at once, and each connection by itself.
    plant.database.stop();
    plant.database.resume();
    plant.nothing_is_stale(&workers);

    let workers = plant.use_every_worker();
    plant.database.kill();
    plant.database.resume();
    plant.nothing_is_stale(&workers);

    let workers = plant.use_every_worker();
    let connections = plant
        .database
        .query("SELECT id FROM information_schema.processlist WHERE user = 'reactor'");
    assert_eq!(connections.lines().count(), WORKERS);
    for connection in connections.lines() {
        plant.database.query(&format!("KILL {connection}"));
    }
    plant.nothing_is_stale(&workers);
}

#[test]
fn a_connection_that_was_idle_too_long_is_not_used() {
    let plant = Plant::start(Kind::Worker, &[("WAIT_TIMEOUT", "1")]);
    let workers = plant.use_every_worker();
    let connected = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reactor'";
    let none = || (plant.database.query(connected) == "0").then_some(());
    assert!(eventually(SOON, none).is_some(), "the database does not hang up");
    plant.nothing_is_stale(&workers);
}

/// Workers that booted, and then slept until their database had hung up, did not fail to boot.
#[test]
fn workers_with_a_dead_connection_and_no_request_yet_are_replaced() {
    let mut plant = Plant::start(Kind::Worker, &[("CONNECT", "boot")]);
    let connected = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reactor'";
    let all = || (plant.database.query(connected) == WORKERS.to_string()).then_some(());
    assert!(eventually(Duration::from_secs(20), all).is_some(), "not every worker has booted");
    // Longer than it takes to tell a worker that boots in vain from one that is of use.
    sleep(Duration::from_millis(1500));
    plant.database.stop();
    plant.database.resume();
    in_parallel(4 * WORKERS, |number| {
        plant.server.get(&format!("/?name=first-{number}")).expect(200);
    });
    let log = plant.server.log();
    assert!(!log.contains("do not boot"), "{log}");
}

#[test]
fn a_restart_under_load_leaves_no_stale_connection() {
    let mut plant = Plant::start(Kind::Worker, &[]);
    plant.use_every_worker();
    let (shots, back) = plant.under_load(|database, more, _| {
        database.stop();
        more();
        database.resume();
    });
    assert!(shots.iter().any(|shot| shot.status != 200), "the database was never missed");
    plant.recovers(&shots, back);
}

#[test]
fn a_crash_under_load_leaves_no_stale_connection() {
    let mut plant = Plant::start(Kind::Worker, &[]);
    plant.use_every_worker();
    let (shots, back) = plant.under_load(|database, _, _| {
        database.kill();
        database.resume();
    });
    plant.recovers(&shots, back);
}

/// Here a worker cannot even boot without the database: requests wait for one that could.
#[test]
fn workers_that_connect_at_boot_come_back_with_the_database() {
    let mut plant = Plant::start(Kind::Worker, &[("CONNECT", "boot")]);
    let workers = plant.use_every_worker();
    let (shots, back) = plant.under_load(|database, _, server| {
        database.kill();
        sleep(Duration::from_millis(300));
        database.resume();
        // If the database needs longer to start than a worker's attempts to boot go on, the server
        // answers 503 until the next attempt.
        let boots = || (server.get("/?name=boot").status() == 200).then_some(());
        eventually(SOON, boots).expect("a worker boots when the database is back");
    });
    plant.recovers(&shots, back);
    assert!(plant.use_every_worker().is_disjoint(&workers));
}

/// What php-fpm users have today stays: PHP itself asks whether a persistent connection is still
/// alive.
fn persistent_connections_survive_a_restart(kind: Kind) {
    let mut plant = Plant::start(kind, &[]);
    let look = |server: &Server| {
        in_parallel(2 * WORKERS, |_| {
            server.get("/?do=look&persistent").expect(200);
        });
    };
    look(&plant.server);
    plant.database.kill();
    plant.database.resume();
    look(&plant.server);
}

#[test]
fn persistent_connections_survive_a_restart_in_classic_mode() {
    persistent_connections_survive_a_restart(Kind::Classic);
}

#[test]
fn persistent_connections_survive_a_restart_under_php_fpm() {
    persistent_connections_survive_a_restart(Kind::Peer);
}

/// However a request ends, its transactions and locks end with it.
fn nothing_stays_open(kind: Kind) {
    let plant = Plant::start(kind, &[]);
    for (way, status) in [("end", 200), ("exit", 200), ("exception", 200), ("memory", 200)] {
        let left = plant.server.get(&format!("/?do=leave&by={way}")).expect(status);
        assert!(left.text().starts_with("left"), "{left}");
        let seen = plant.server.get("/?do=look").expect(200).json();
        for (what, expected) in
            [("file lock", json!(true)), ("named lock", json!(true)), ("rods", json!(0))]
        {
            assert_eq!(seen[what], expected, "{what} after leaving by {way}");
        }
        let left = plant.server.get(&format!("/?do=leave&persistent&by={way}")).expect(status);
        assert!(left.text().starts_with("left"), "{left}");
        let seen = plant.server.get("/?do=look").expect(200).json();
        assert_eq!(
            seen["rods"], 0,
            "a persistent connection kept its transaction after leaving by {way}"
        );
    }
}

#[test]
fn nothing_stays_open_in_classic_mode() {
    nothing_stays_open(Kind::Classic);
}

#[test]
fn nothing_stays_open_under_php_fpm() {
    nothing_stays_open(Kind::Peer);
}

/// The library closes its socket with the failure, so nothing of the connection is left to look at:
/// the worker would answer each later request with an error, and quicker than its neighbours.
#[test]
fn a_connection_of_the_boot_that_a_request_loses_ends_its_worker() {
    let database = PostgreSql::start();
    let dsn = format!("pgsql:host=127.0.0.1;port={};dbname=reactor", database.port());
    let setup = Setup::new(Kind::Worker).site("sites/database").worker("lost.php").workers(2);
    let server = setup.env("DSN", &dsn).env("PASSWORD", PASSWORD).start();
    let lost = server.get("/?end").expect(500).header("worker").expect("its process").to_owned();

    // It looks when it could take a request, which its neighbour may take from it many times.
    let pid = format!("pid={lost}");
    let names_it =
        |line: &str| line.contains("a worker is replaced: a connection") && line.contains(&pid);
    let replaced = eventually(Duration::from_secs(20), || {
        in_parallel(16, |_| {
            let answer = server.get("/").expect(200);
            assert_eq!(answer.text(), "42");
            assert_ne!(answer.header("worker"), Some(lost.as_str()));
        });
        server.log().lines().any(names_it).then_some(())
    });
    replaced.expect("a line of the log that says which worker was replaced");
}

#[test]
fn a_worker_script_without_a_loop_is_named_once() {
    let server =
        Setup::new(Kind::Worker).site("sites/database").worker("once.php").workers(2).start();
    for _ in 0..12 {
        assert_eq!(server.get("/").expect(200).text(), "served");
    }
    let lines = server.log().matches("asks for one request and ends").count();
    assert_eq!(lines, 1, "{}", server.log());
}
