//! Persistent connections in async mode: of the requests under way at once each gets one of its
//! own, and they last.

use std::collections::BTreeSet;
use std::thread::scope;

use crate::harness::{Kind, Server, Setup};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;

/// The cases of `tests/sites/persistent_connections`.
const CASES: &[&str] =
    &["PDO of MariaDB", "PDO of PostgreSQL", "pgsql", "mysqli", "Redis", "pfsockopen"];

/// The connections that requests got which were all under way; each uses it `numbers` times.
fn connections(server: &Server, case: &str, round: usize, numbers: &[&str]) -> BTreeSet<u32> {
    let count: usize = numbers.iter().map(|list| list.split(',').count()).sum();
    let ask = |numbers: &str| {
        let case = case.replace(' ', "+");
        let target = format!("/?case={case}&round={round}&count={count}&numbers={numbers}");
        server.get(&target).expect(200).text().to_owned()
    };
    let answers: Vec<String> = scope(|threads| {
        let asked: Vec<_> = numbers.iter().map(|n| threads.spawn(move || ask(n))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ids: Vec<u32> = answers
        .iter()
        .flat_map(|answer| answer.lines())
        .map(|line| {
            line.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{case}: {line}"))
        })
        .collect();
    let distinct: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!((ids.len(), distinct.len()), (count, count), "{case}, round {round}: {ids:?}");
    distinct
}

#[test]
fn requests_under_way_at_once_have_persistent_connections_of_their_own() {
    let (mariadb, postgresql, redis) = (MariaDb::start(), PostgreSql::start(), Redis::start());
    mariadb.create("reactor");
    let server = Setup::new(Kind::Async)
        .site("sites/persistent_connections")
        .workers(1)
        .env("PASSWORD", PASSWORD)
        .env("MARIADB", &mariadb.port().to_string())
        .env("POSTGRESQL", &postgresql.port().to_string())
        .env("REDIS", &redis.port().to_string())
        .start();
    for case in CASES {
        let eight = ["1", "2", "3", "4", "5", "6", "7", "8"];
        let first = connections(&server, case, 0, &eight);
        assert_eq!(connections(&server, case, 1, &eight), first, "{case}: they last");
        assert!(connections(&server, case, 2, &eight[..2]).is_subset(&first), "{case}: two");
        // Four coroutines in each of two requests.
        let nested = ["1,2,3,4", "5,6,7,8"];
        let first = connections(&server, case, 3, &nested);
        assert_eq!(connections(&server, case, 4, &nested), first, "{case}: those of coroutines");
    }
}
