//! Libraries as Debian packages them, in many requests of one worker process at once.
//!
//! The service answers none of them before all wait for it. So no test looks at the time, and one
//! that blocked its process would never end.

use std::sync::Mutex;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually, in_parallel};
use crate::services::gate::{Gate, Gated};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;
use crate::services::session::Session;

/// Requests at once: fewer than threads of [`in_parallel`].
const COUNT: usize = 12;

/// How long all may take to come to the service: far more than a loaded machine needs, and less
/// than the clients wait.
const PATIENCE: Duration = Duration::from_secs(25);

fn serve(port: &str, value: u16) -> Server {
    Setup::new(Kind::Async)
        .site("sites/libraries")
        .front_controller("worker.php")
        .workers(1)
        .site_line("concurrency = 32")
        // Some are older than the PHP they run on, and a page would say so.
        .php_value("display_errors", "0")
        .env(port, &value.to_string())
        .env("PASSWORD", PASSWORD)
        .start()
}

/// A service of which many ask at once.
trait Service {
    /// From now on it answers nobody.
    fn hold(&self);
    /// How many wait for it.
    fn waiting(&self) -> usize;
    /// It answers again.
    fn let_go(&self);
}

/// Each of these ways serves [`COUNT`] requests of one worker side by side, each with its own
/// answer, and once more with whatever the library has kept.
fn each_waits_for_itself(server: &Server, service: &dyn Service, ways: &[&str]) {
    for way in ways {
        for round in 0..2 {
            let answers = Mutex::new(Vec::new());
            service.hold();
            let all_came = std::thread::scope(|scope| {
                scope.spawn(|| {
                    in_parallel(COUNT, |number| {
                        let token = format!("token-{round}-{number}");
                        let way = way.replace(' ', "%20");
                        let answer = server.get(&format!("/?way={way}&token={token}"));
                        answers.lock().unwrap().push((token, answer.status(), answer.text()));
                    });
                });
                let all = || (service.waiting() == COUNT).then_some(());
                let all_came = eventually(PATIENCE, all).is_some();
                service.let_go();
                all_came
            });
            let answers = answers.into_inner().unwrap();
            let is_wrong =
                |(token, status, text): &&(String, u16, String)| (*status, text) != (200, token);
            let wrong: Vec<_> = answers.iter().filter(is_wrong).collect();
            assert!(wrong.is_empty(), "{way}: {wrong:#?}");
            assert!(all_came, "{way}: requests waited for one another");
        }
    }
}

impl Service for Gate {
    fn hold(&self) {
        self.close();
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn let_go(&self) {
        self.open();
    }
}

#[test]
fn http_clients() {
    let service = Gated::http();
    let server = serve("HTTP", service.port);
    let ways =
        ["symfony curl", "symfony native", "guzzle", "guzzle multi", "guzzle streams", "soap"];
    each_waits_for_itself(&server, &*service.gate, &ways);
    // A SOAP client that is at work handles errors of PHP. By now none is.
    server.get("/?way=fatal&token=none");
    server.log_line(&["PHP Fatal error", "not of SOAP"]);
}

#[test]
fn mail() {
    let service = Gated::smtp();
    let server = serve("SMTP", service.port);
    each_waits_for_itself(&server, &*service.gate, &["phpmailer"]);
}

/// A database, and who holds the lock that all want.
struct Held<D> {
    database: D,
    holder: Mutex<Option<Session>>,
}

impl Service for Held<MariaDb> {
    fn hold(&self) {
        let session = self.database.session("SELECT GET_LOCK('gate', 10)");
        *self.holder.lock().unwrap() = Some(session);
        let is_held = || self.database.query("SELECT IS_USED_LOCK('gate') > 0") == "1";
        eventually(PATIENCE, || is_held().then_some(())).expect("somebody holds the lock");
    }

    fn waiting(&self) -> usize {
        let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        self.database.query(count).parse().unwrap()
    }

    fn let_go(&self) {
        self.holder.lock().unwrap().take();
    }
}

#[test]
fn clients_of_mariadb() {
    let database = MariaDb::start();
    database.create("reactor");
    let server = serve("MARIADB", database.port());
    let service = Held { database, holder: Mutex::new(None) };
    let ways = ["mysqli", "mysqli prepared", "pdo_mysql", "doctrine pdo_mysql", "doctrine mysqli"];
    each_waits_for_itself(&server, &service, &ways);
}

impl Service for Held<PostgreSql> {
    fn hold(&self) {
        *self.holder.lock().unwrap() = Some(self.database.session("SELECT pg_advisory_lock(1)"));
        let locks = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        let is_held = || self.database.query(locks) == "1";
        eventually(PATIENCE, || is_held().then_some(())).expect("somebody holds the lock");
    }

    fn waiting(&self) -> usize {
        let count = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        self.database.query(count).parse().unwrap()
    }

    fn let_go(&self) {
        self.holder.lock().unwrap().take();
    }
}

#[test]
fn clients_of_postgresql() {
    let database = PostgreSql::start();
    let server = serve("POSTGRESQL", database.port());
    let service = Held { database, holder: Mutex::new(None) };
    each_waits_for_itself(&server, &service, &["pg_query", "pdo_pgsql", "doctrine pdo_pgsql"]);
}

impl Service for Redis {
    fn hold(&self) {
        self.ask(&["DEL", "gate"]);
    }

    fn waiting(&self) -> usize {
        let clients = self.ask(&["INFO", "clients"]);
        let line = clients.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
        line.expect("Redis counts them").trim().parse().unwrap()
    }

    fn let_go(&self) {
        let elements = vec!["let go"; COUNT];
        self.ask(&[&["RPUSH", "gate"], elements.as_slice()].concat());
    }
}

#[test]
fn clients_of_redis() {
    let service = Redis::start();
    let server = serve("REDIS", service.port());
    each_waits_for_itself(&server, &service, &["phpredis", "phpredis persistent", "predis"]);
}
