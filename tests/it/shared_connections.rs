//! Connections of real drivers that two requests of async mode use at once: the second is told so
//! before anything is sent, and the first gets its answer.

use std::thread::scope;

use crate::harness::{Kind, Setup};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;

/// The cases of `tests/sites/shared_connections`.
const CASES: &[&str] = &[
    "mysqli",
    "statement of mysqli",
    "PDO of MariaDB",
    "statement of MariaDB",
    "PDO of PostgreSQL",
    "statement of PostgreSQL",
    "pgsql",
    "Redis",
];

#[test]
fn a_connection_whose_owner_waits_is_refused_to_others() {
    let (mariadb, postgresql, redis) = (MariaDb::start(), PostgreSql::start(), Redis::start());
    mariadb.create("reactor");
    let server = Setup::new(Kind::Async)
        .site("sites/shared_connections")
        .workers(1)
        .env("PASSWORD", PASSWORD)
        .env("MARIADB", &mariadb.port().to_string())
        .env("POSTGRESQL", &postgresql.port().to_string())
        .env("REDIS", &redis.port().to_string())
        .start();
    for case in CASES {
        let ask = |who: &str| {
            server.get(&format!("/?who={who}&case={}", case.replace(' ', "+"))).expect(200)
        };
        let (owner, other) = scope(|threads| {
            let owner = threads.spawn(|| ask("owner").text().to_owned());
            let other = ask("other").text().to_owned();
            (owner.join().unwrap(), other)
        });
        assert_eq!(owner, "owner11", "{case}");
        let wrong: Vec<_> = other.lines().filter(|line| !line.ends_with(": refused")).collect();
        assert!(wrong.is_empty() && !other.is_empty(), "{case}: {wrong:#?}");
    }
}

/// `pg_query($sql)` means the connection that was opened last. Only the request that has opened it
/// may mean it, and a request gets no connection that another one has opened with the same text.
#[test]
fn a_call_that_names_no_connection_means_one_of_its_request() {
    let postgresql = PostgreSql::start();
    for kind in [Kind::Async, Kind::Worker, Kind::Sealed] {
        let server = Setup::new(kind)
            .site("sites/default_links")
            .workers(1)
            .env("PASSWORD", PASSWORD)
            .env("POSTGRESQL", &postgresql.port().to_string())
            .start();
        let none = || server.get("/?do=none").expect(200).text().to_owned();
        scope(|threads| {
            let server = &server;
            let own = |n: usize| {
                let target = format!("/?do=own&name=visitor{n}");
                threads.spawn(move || server.get(&target).expect(200).text().to_owned())
            };
            let all: Vec<_> = (10..30).map(own).collect();
            assert!(none().starts_with("refused: "), "{kind:?}: beside others");
            for answer in all {
                assert_eq!(answer.join().unwrap(), "own", "{kind:?}");
            }
        });
        assert!(none().starts_with("refused: "), "{kind:?}: after others");
    }
}
