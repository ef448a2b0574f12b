//! Async mode: a worker that takes no more requests gets its successor at once, beside it, however
//! long its last request takes.

use serde_json::Value;

use crate::harness::{Connection, Kind, Response, Server, Setup, get};
use crate::operate::{operated, pid_in, status_when, worker_pids};

fn start(adapt: impl FnOnce(Setup) -> Setup) -> Server {
    let setup = operated(Kind::Async).workers(1).site_line("concurrency = 8");
    let server = adapt(setup).start();
    status_when(&server, "the worker", |status| status["pools"][0]["idle"] == 1);
    server
}

fn states(status: &Value) -> Vec<&str> {
    let workers = status["pools"][0]["workers"].as_array().expect("a list of workers");
    let mut states: Vec<_> =
        workers.iter().map(|worker| worker["state"].as_str().expect("a state")).collect();
    states.sort_unstable();
    states
}

/// Lets a request wait in the only worker, `ends` that worker, and sees who serves what.
fn gets_a_successor(server: &Server, ends: impl FnOnce() -> Response) -> Response {
    let mut long = server.connect();
    long.send(get("/index.php?do=hold&n=1").bytes());
    server.holds("1");
    let before = status_when(server, "the long request", |status| states(status) == ["busy"]);
    let last = ends();
    status_when(server, "both workers", |status| {
        status["pools"][0]["draining"] == 1
            && states(status) == ["draining", "idle"]
            && worker_pids(status).len() == 2
    });
    let new = pid_in(&server.text("/index.php"));
    assert!(!worker_pids(&before).contains(&new), "the old one takes no more");
    server.let_go("1");
    assert_eq!(vec![pid_in(&long.response().expect(200).text())], worker_pids(&before));
    let after = status_when(server, "the successor alone", |status| states(status) == ["idle"]);
    assert_eq!(worker_pids(&after), [new]);
    last
}

#[test]
fn after_a_fatal_error() {
    let server = start(|setup| setup.php_admin_value("memory_limit", "64M"));
    gets_a_successor(&server, || server.get("/index.php?do=grow&n=100000000"));
}

#[test]
fn after_max_requests() {
    let server = start(|setup| setup.site_line("pool.max_requests = 3"));
    gets_a_successor(&server, || {
        server.get("/index.php").expect(200);
        server.get("/index.php").expect(200)
    });
}

#[test]
fn after_max_memory() {
    let server = start(|setup| {
        setup.php_admin_value("memory_limit", "512M").site_line("pool.max_memory = \"128MiB\"")
    });
    gets_a_successor(&server, || server.get("/index.php?do=grow&n=200000000").expect(200));
    server.log_line(&["INFO", "max_memory: a worker is replaced"]);
}

/// One successor for each worker, and no more.
#[test]
fn at_most_one_for_each_worker() {
    let server = start(|setup| setup.site_line("pool.max_requests = 1"));
    let hold = |name: &str| {
        let mut long = server.connect();
        long.send(get(&format!("/index.php?do=hold&n={name}")).bytes());
        long
    };
    let mut first = hold("1");
    status_when(&server, "its successor", |status| states(status) == ["draining", "idle"]);
    let mut second = hold("2");
    status_when(&server, "that one ending too", |status| {
        states(status) == ["draining", "draining"]
    });
    let mut third = hold("3");
    status_when(&server, "a request that waits", |status| status["pools"][0]["queue"] == 1);
    server.let_go("2");
    server.holds("3");
    server.let_go("3");
    server.let_go("1");
    let pid = |long: &mut Connection| pid_in(&long.response().expect(200).text());
    let pids = [pid(&mut first), pid(&mut second), pid(&mut third)];
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{pids:?}");
}
