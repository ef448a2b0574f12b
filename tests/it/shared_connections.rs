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
