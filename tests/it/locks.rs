//! Workers that are killed while they hold a lock that other processes of the site need.

use std::time::{Duration, Instant};

use crate::harness::{Kind, Server, eventually, get, in_every_mode, post};
use crate::operate::operated;

in_every_mode! {
    a_lock_of_a_killed_worker_is_free_again,
    a_lock_of_a_crashed_worker_is_free_again,
}

fn is_free_again(server: &Server) {
    let stored = || {
        let answer = server.get("/index.php?do=store");
        (answer.status() == 200).then(|| assert!(answer.text().starts_with("stored ")))
    };
    assert!(eventually(Duration::from_secs(60), stored).is_some(), "{}", server.log());
}

fn a_lock_of_a_killed_worker_is_free_again(kind: Kind) {
    let server = operated(kind).workers(2).site_line("pool.request_timeout = \"700ms\"").start();
    // The kernel gives back those of System V.
    server.get("/index.php?do=semaphore&n=30000").expect(504);
    assert!(server.text("/index.php?do=semaphore").starts_with("acquired "), "{}", server.log());
    // APCu's do not go with their process.
    server.get("/index.php?do=lock&n=30000").expect(504);
    is_free_again(&server);
    server.send(&post("/index.php?do=lock&n=0", "text/plain", "x")).expect(502);
    is_free_again(&server);
    if kind != Kind::Async {
        server.log_line(&["although it holds a lock of shared memory"]);
    }
    server.log_line(&["new processes serve"]);
}

/// No time of a request tells that it waits in vain, but that it waits for nobody does.
fn a_lock_of_a_crashed_worker_is_free_again(kind: Kind) {
    let server = operated(kind).workers(2).start();
    let sends = |target: &str| server.send(&post(target, "text/plain", "x"));
    if kind == Kind::Classic {
        // One that lives may hold it for long.
        sends("/index.php?do=crash").expect(502);
        let mut holds = server.connect();
        holds.send(get("/index.php?do=lock&n=5000").bytes());
        std::thread::sleep(Duration::from_millis(500));
        assert!(server.text("/index.php?do=store").starts_with("stored "), "{}", server.log());
        holds.response().expect(200);
        assert!(!server.log().contains("a lock of shared memory"), "{}", server.log());
    }
    sends("/index.php?do=lock&n=0&signal=11").expect(502);
    is_free_again(&server);
    server.log_line(&["a lock of shared memory is held for ever by a worker that has died"]);
}

/// They wait for a lock that nobody gives back. Their own time would be over long after there are
/// other processes.
#[test]
fn those_that_wait_for_a_killed_worker_are_repeated() {
    let setup = operated(Kind::Classic).workers(2);
    let server = setup.site_line("pool.request_timeout = \"6s\"").start();
    let mut holds = server.connect();
    holds.send(get("/index.php?do=lock&n=60000").bytes());
    std::thread::sleep(Duration::from_millis(5500));
    let begun = Instant::now();
    assert!(server.text("/index.php?do=store").starts_with("stored "), "{}", server.log());
    assert!(begun.elapsed() < Duration::from_secs(6), "{}", server.log());
    holds.response().expect(504);
}
