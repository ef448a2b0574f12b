//! Connections that sealed mode keeps: they stay open, nothing of one visitor stays in them, and
//! whatever becomes of them is nobody's loss but the request's in which it happens.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{End, Kind, Server, Setup, eventually};
use crate::operate::status_when;
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;

fn setup(keep: &str) -> Setup {
    let setup = Setup::new(Kind::Sealed).site("sites/kept").workers(1);
    setup.env("KEEP", keep).env("PASSWORD", PASSWORD).php_admin_value("ffi.enable", "1")
}

/// With the boot script beside the front controller; otherwise it is the beginning of the worker
/// script.
fn booted(setup: Setup) -> Setup {
    setup.boot("boot.php")
}

fn with_mysql(database: &MariaDb, keep: &str) -> Setup {
    let dsn =
        format!("mysql:host=127.0.0.1;port={};dbname=reactor;charset=utf8mb4", database.port());
    setup(keep).env("MYSQL", &dsn).env("PORT", &database.port().to_string())
}

fn mariadb() -> MariaDb {
    // With another character set than the application's, and than that which a reset would choose.
    let database = MariaDb::start();
    database.create("reactor");
    database.query(
        "SET GLOBAL character_set_server = latin1; SET GLOBAL collation_server = latin1_bin",
    );
    database
        .query("CREATE TABLE reactor.rods (name VARCHAR(40)); CREATE TABLE reactor.other (n INT)");
    database.query(
        "CREATE TABLE reactor.numbered (n INT AUTO_INCREMENT PRIMARY KEY); CREATE SEQUENCE \
            reactor.counted",
    );
    // The name of the role that everybody has needs quotes.
    database.query("CREATE ROLE visitor; CREATE ROLE `every``body`; GRANT ALL ON *.* TO visitor");
    database
        .query("GRANT visitor TO reactor@'127.0.0.1'; GRANT `every``body` TO reactor@'127.0.0.1'");
    database.query("SET DEFAULT ROLE `every``body` FOR reactor@'127.0.0.1'");
    database
}

fn with_postgresql(database: &PostgreSql) -> Setup {
    setup("pgsql")
        .env("PGSQL", &format!("pgsql:host=127.0.0.1;port={};dbname=reactor", database.port()))
}

fn with_held(mysql: &MariaDb, postgresql: &PostgreSql, keep: &str) -> Setup {
    let port = postgresql.port();
    with_mysql(mysql, keep)
        .env("PGSQL", &format!("pgsql:host=127.0.0.1;port={port};dbname=reactor"))
        .env("LINK", &format!("host=127.0.0.1 port={port} dbname=reactor"))
        .warm(&["/?do=held"])
}

fn number(value: &Value) -> String {
    value[0].to_string()
}

/// The connection, and the rest of what can be seen of its session.
fn see(server: &Server, on: &str) -> Value {
    server.get(&format!("/?do=see&on={on}")).expect(200).json()
}

/// A request that has chosen the server's random numbers does not choose those of the next one.
fn random_numbers_do_not_stay(server: &Server, on: &str) {
    let draw = || {
        server.get(&format!("/?do=seed&on={on}")).expect(200);
        server.get(&format!("/?do=draw&on={on}")).expect(200).text()
    };
    assert_ne!(draw(), draw(), "{on}");
}

/// Whatever a request leaves, the next one finds the session of the first, on the same connection.
fn nothing_stays(server: &Server, on: &str, least: usize, blind: &[&str]) {
    let list = server.get("/?do=list").expect(200).json();
    let list: Vec<&str> =
        list[on].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(list.len() >= least, "{list:?}");
    let before = see(server, on);
    assert_eq!(see(server, on), before, "two clean looks differ");
    for what in list {
        let is_blind = blind.contains(&what);
        let blind = if is_blind { "&blind" } else { "" };
        let left = server.get(&format!("/?do=leave&on={on}&what={what}{blind}")).expect(200).json();
        assert!(is_blind || left[1] != before, "{on}: {what} cannot be seen where it happens");
        assert_eq!(see(server, on), before, "{on}: {what} stays");
    }
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

#[test]
fn nothing_stays_in_mariadb() {
    let database = mariadb();
    let server = booted(with_mysql(&database, "mysql")).start();
    nothing_stays(&server, "mysql", 27, &["distributed"]);
    let session = &see(&server, "mysql")["session"][0];
    let settled =
        [&session[2], &session[4], &session[5], &session[8]].map(|value| value.to_string());
    assert_eq!(
        settled,
        ["1", "\"+03:00\"", "\"utf8mb4\"", "\"reactor\""],
        "as it was opened: {session}"
    );
    assert_eq!(session[17], "every`body", "as it was opened: {session}");
    random_numbers_do_not_stay(&server, "mysql");
    assert_eq!(database.query("SELECT COUNT(*) FROM reactor.rods"), "0");
}

/// Warm-up requests use persistent connections, which end there.
#[test]
fn nothing_stays_after_a_warm_up() {
    let database = mariadb();
    let warm = ["/?do=see&on=mysql", "/?do=leave&on=mysql&what=variable"];
    let server = with_mysql(&database, "mysql").warm(&warm).start();
    nothing_stays(&server, "mysql", 27, &["distributed"]);
    assert!(!server.log().contains("opened at boot"), "{}", server.log());
}

/// What a warm-up request has left in static variables leads to the kept connections of its name,
/// for every visitor of every worker.
#[test]
fn connections_that_a_warm_up_request_holds_become_kept_ones() {
    let (mysql, postgresql) = (mariadb(), PostgreSql::start());
    let server = with_held(&mysql, &postgresql, "mysql,pgsql,link,mysqli").workers(2).start();
    let visit = |visitor: u32| {
        let target = format!("/?do=held&visitor={visitor}");
        let answer = server.get(&target).expect(200).json();
        let said = answer.as_array().unwrap().iter().map(|of| (number(of), of[1].to_string()));
        let (connections, data): (Vec<_>, Vec<_>) = said.unzip();
        let is_own = |text: &String| text.trim_matches('"') == visitor.to_string();
        assert!(data.iter().all(is_own), "{visitor} is told {data:?}");
        connections.join(" ")
    };
    let connections: HashSet<String> = scope(|threads| {
        let visits: Vec<_> = (0..4)
            .map(|n| threads.spawn(move || (0..6).map(|i| visit(10 * n + i)).collect::<Vec<_>>()))
            .collect();
        visits.into_iter().flat_map(|visits| visits.join().unwrap()).collect()
    });
    assert!(connections.len() <= 2, "one of each for a worker: {connections:?}");
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

/// Without kept ones they are closed, and say so; nothing crashes.
#[test]
fn connections_that_a_warm_up_request_holds_are_found_closed() {
    let (mysql, postgresql) = (mariadb(), PostgreSql::start());
    let server = with_held(&mysql, &postgresql, "").start();
    for _ in 0..3 {
        let answer = server.get("/?do=held").text();
        assert!(answer.contains("has gone away"), "{answer}");
    }
    for class in ["PDO", "PgSql", "mysqli"] {
        server.log_line(&["WARN", class, "of the boot holds a persistent connection"]);
    }
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

/// phpredis notices, closes and connects again; the worker stays.
#[test]
fn an_object_that_connects_again_does_not_cost_its_worker() {
    let store = Redis::start();
    let warm = ["/?do=counted"];
    let server = setup("").env("REDIS", &store.port().to_string()).warm(&warm).start();
    let counts = [1, 2, 3].map(|_| server.get("/?do=counted").expect(200).text().to_owned());
    assert_eq!(counts, ["[2,2]", "[3,3]", "[4,4]"]);
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

#[test]
fn nothing_stays_in_postgresql() {
    let database = PostgreSql::start();
    database.query(
        "CREATE TABLE rods (name TEXT); GRANT SELECT ON rods TO PUBLIC; CREATE SEQUENCE numbers",
    );
    database.query(
        "CREATE ROLE keeper; GRANT ALL ON rods, numbers TO keeper; ALTER ROLE reactor SET role = \
            keeper",
    );
    let server = with_postgresql(&database).start();
    nothing_stays(&server, "pgsql", 19, &["failed", "large-object"]);
    let session = &see(&server, "pgsql")["session"][0];
    assert_eq!([&session[2], &session[5]], ["keeper", "kept"], "as it was opened: {session}");
    random_numbers_do_not_stay(&server, "pgsql");
    assert_eq!(database.query("SELECT count(*) FROM rods"), "0");
}

#[test]
fn nothing_stays_in_redis() {
    let store = Redis::start();
    let server = setup("redis").env("REDIS", &store.port().to_string()).start();
    let blind = ["channel", "pattern", "shard", "multi", "tracking", "protocol", "monitor"];
    nothing_stays(&server, "redis", 12, &blind);
    let session = see(&server, "redis")["session"].to_string();
    assert!(session.contains("db=3"), "as it was opened: {session}");
    // No reset ends the debugger, so the connection ends.
    let before = see(&server, "redis");
    server.get("/?do=debug&on=redis").expect(200);
    let after = see(&server, "redis");
    assert_eq!(after["script"], before["script"]);
    assert_ne!(after["session"], before["session"]);
    server.log_line(&["worker replaced", "the session of a kept connection could not be reset"]);
}

/// Not persistent, but held by the application: nothing is asked at the beginning of a request.
#[test]
fn an_object_keeps_its_connection() {
    let database = mariadb();
    let server = with_mysql(&database, "object").start();
    let first = server.get("/?do=object").expect(200).text();
    assert_eq!(server.get("/?do=object").expect(200).text(), first);
    // The answer to what one request asked comes after its end: no other request sees it.
    server.get("/?do=unread").expect(200);
    let second = server.get("/?do=object").expect(200).text();
    assert_ne!(second, first);
    server.log_line(&["worker replaced", "the session of a kept connection could not be reset"]);
    server.get("/?do=forget").expect(200);
    server.get("/?do=object").expect(200);
}

#[test]
fn a_request_that_dies_costs_no_other_one() {
    let database = mariadb();
    let server = with_mysql(&database, "mysql").start();
    let connection = || number(&see(&server, "mysql")["session"][0]);
    for by in ["exit", "memory", "limit"] {
        let before = connection();
        server.get(&format!("/?do=endless&on=mysql&by={by}"));
        assert_eq!(connection(), before, "the rest of a result was read or dropped, after {by}");
    }
    for way in ["do=endless&by=crash", "do=kill", "do=close"] {
        let before = connection();
        server.get(&format!("/?{way}&on=mysql"));
        assert_ne!(connection(), before, "{way}");
    }
}

#[test]
fn a_request_that_is_ended_for_its_time_costs_no_other_one() {
    let database = mariadb();
    let server = with_mysql(&database, "mysql").site_line("pool.request_timeout = \"1s\"").start();
    let before = number(&see(&server, "mysql")["session"][0]);
    let ended = server.get("/?do=endless&on=mysql&by=limit");
    assert_ne!(ended.status(), 200, "{ended}");
    assert_ne!(number(&see(&server, "mysql")["session"][0]), before);
}

#[test]
fn no_random_number_comes_twice() {
    let database = mariadb();
    let server = with_mysql(&database, "mysql,object").start();
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let drawn = server.get("/?do=random").expect(200).json();
        assert!(
            seen.insert(drawn[0].to_string()) && seen.insert(drawn[1].to_string()),
            "{drawn} comes twice"
        );
    }
}

/// A worker whose peers hang up while it waits serves nobody.
#[test]
fn a_connection_that_is_hung_up_is_noticed() {
    let mut database = mariadb();
    let server = with_mysql(&database, "object").start();
    server.get("/?do=object").expect(200);
    // The worker watches its connection while it waits for a request.
    status_when(&server, "an idle worker", |status| status["pools"][0]["idle"] == 1);
    database.kill();
    database.resume();
    for _ in 0..5 {
        server.get("/?do=object").expect(200);
    }
    assert_eq!(
        database
            .query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reactor'"),
        "1"
    );
    server.log_line(&["closed by its peer; worker replaced"]);
}

#[test]
fn a_restart_under_load_fails_no_request_that_comes_after_it() {
    let mut database = mariadb();
    let server = with_mysql(&database, "mysql").workers(4).start();
    let (over, shots) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let back = scope(|threads| {
        let _end = End(&over);
        for _ in 0..6 {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    let answer = server.get("/?do=see&on=mysql");
                    shots.lock().unwrap().push((started, answer.status(), answer.to_string()));
                }
            });
        }
        let more = || {
            let count = || shots.lock().unwrap().len();
            let goal = count() + 60;
            let enough = || (count() >= goal).then_some(());
            eventually(Duration::from_secs(20), enough).expect("requests are answered");
        };
        more();
        database.stop();
        database.resume();
        let back = Instant::now();
        more();
        back
    });
    let shots = shots.into_inner().unwrap();
    let after: Vec<_> = shots.iter().filter(|(started, ..)| *started >= back).collect();
    assert!(after.len() >= 6, "only {} requests after the database was back", after.len());
    let failed: Vec<_> = after.iter().filter(|(_, status, _)| *status != 200).collect();
    assert!(failed.is_empty(), "{} of {} failed: {}", failed.len(), after.len(), failed[0].2);
}

/// Without the database workers serve what needs none, and try again.
#[test]
fn a_database_that_comes_late_is_connected_to_later() {
    let mut database = mariadb();
    database.stop();
    let server = with_mysql(&database, "mysql").start();
    server.get("/?do=list").expect(200);
    server.log_line(&["no connection is kept, because the callback failed; tried again in 1 s"]);
    database.resume();
    let looks =
        || (0..2).map(|_| number(&see(&server, "mysql")["session"][0])).collect::<HashSet<_>>();
    let kept = eventually(Duration::from_secs(20), || (looks().len() == 1).then_some(()));
    assert!(kept.is_some(), "each request connects for itself");
}

/// WordPress does not name its database in the log-in.
#[test]
fn a_database_that_is_chosen_after_the_log_in_is_gone_back_to() {
    let database = mariadb();
    let server = with_mysql(&database, "chosen").start();
    let first = server.get("/?do=chosen").expect(200).text();
    assert!(first.contains("reactor"), "{first}");
    server.get("/?do=elsewhere").expect(200);
    assert_eq!(server.get("/?do=chosen").expect(200).text(), first);
}

/// All or none: what cannot be put back is not kept, and nothing else with it.
#[test]
fn what_cannot_be_reset_is_not_kept() {
    let database = mariadb();
    let server = with_mysql(&database, "mysql,homeless").workers(2).start();
    let first = number(&see(&server, "mysql")["session"][0]);
    assert_ne!(number(&see(&server, "mysql")["session"][0]), first);
    let line =
        server.log_line(&["no connection is kept: a connection to 127.0.0.1", "names no database"]);
    assert!(line.contains(&database.port().to_string()), "{line}");
}

/// What an extension holds in a session no reset reaches: here a switch that lets wrong numbers
/// pass.
#[test]
fn a_database_with_an_unknown_extension_is_not_kept() {
    let database = PostgreSql::start();
    database
        .query("CREATE TABLE rods (name TEXT); CREATE SEQUENCE numbers; CREATE EXTENSION pgcrypto");
    let process = |server: &Server| number(&see(server, "pgsql")["session"][0]);
    let server = with_postgresql(&database).start();
    assert_eq!(process(&server), process(&server), "kept, with an extension that holds nothing");
    database.query("CREATE EXTENSION isn");
    let server = with_postgresql(&database).start();
    server.log_line(&["no connection is kept", "the database has the extension isn"]);
    assert_ne!(process(&server), process(&server));
}
