//! What a boot may leave open, in sealed mode: databases whose transactions a request leaves, and
//! what no image can hold.

use std::fs;

use tempfile::TempDir;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::{Kind, Server, Setup};

/// A server whose boot leaves this open.
fn boot_leaves(what: &str) -> Server {
    boot_leaves_with(what, |setup| setup)
}

fn boot_leaves_with(what: &str, more: impl FnOnce(Setup) -> Setup) -> Server {
    let setup = Setup::new(Kind::Sealed).site("sites/descriptors").workers(1);
    more(setup.php_admin_value("ffi.enable", "1").env("LEFT", what)).start()
}

/// A folder of settings with the extension for ZeroMQ, and the list of folders with it.
fn with_zeromq() -> (TempDir, String) {
    let settings = tempfile::tempdir().unwrap();
    fs::write(settings.path().join("zmq.ini"), "extension=zmq.so\n").unwrap();
    let directories = format!("{}:{}", scan_directory(), settings.path().display());
    (settings, directories)
}

#[test]
fn what_cannot_be_put_back_is_refused_by_name() {
    let open = "is open, and what it holds cannot be put back; close it before the first request";
    let locked =
        "is locked; release the lock, or end the transaction or query, before the first request";
    for (what, name, why) in [
        ("pipe", "a pipe (descriptor ", open),
        ("epoll", "an epoll set (descriptor ", open),
        ("inotify", "an inotify instance (descriptor ", open),
        ("timer", "a timer (descriptor ", open),
        ("lock", "/locked (descriptor ", locked),
        ("transaction", "/database (descriptor ", locked),
        ("transaction, WAL", "/database-shm (descriptor ", locked),
        ("query", "/database (descriptor ", locked),
        ("semaphore", "semaphore ", "is acquired; release it before the first request"),
    ] {
        let server = boot_leaves(what);
        assert_eq!(server.text("/index.php"), "served", "{what}");
        // What the boot has started, threads for one, is not in a copy of its process.
        assert_eq!(server.text("/index.php?do=booted"), "here", "{what}");
        server.log_line(&[
            "WARN",
            "no image can be taken: ",
            name,
            why,
            "; this site runs in worker mode",
        ]);
    }
}

/// Its threads begin with its first socket, in a request, and would not end there.
#[test]
fn a_context_of_zeromq_is_refused_by_name() {
    let (_settings, directories) = with_zeromq();
    let server = boot_leaves_with("zmq", |setup| setup.server_env(SCAN_DIRECTORY, &directories));
    for _ in 0..4 {
        assert_eq!(server.text("/index.php?do=zmq"), "bound");
    }
    server.log_line(&["WARN", "no image can be taken: an object of the class ZMQContext"]);
    assert!(!server.log().contains("died"), "{}", server.log());
}

#[test]
fn what_can_be_put_back_is_not_refused() {
    for what in ["standard error", "counter", "database", "database, WAL"] {
        let server = boot_leaves(what);
        assert_eq!(server.text("/index.php"), "served", "{what}");
        assert!(!server.log().contains("no image"), "{what}: {}", server.log());
    }
}

#[test]
fn a_counter_counts_anew_in_each_request() {
    let server = boot_leaves("counter");
    for _ in 0..3 {
        assert_eq!(server.text("/index.php?do=count"), "8 3");
    }
    assert!(!server.log().contains("worker replaced"), "{}", server.log());
}

/// The extension for ZeroMQ opens one in each process. After its first request a worker is
/// examined, and everything is put back.
#[test]
fn a_counter_at_zero_is_made_anew_only_if_a_request_may_have_counted() {
    let (_settings, directories) = with_zeromq();
    let server =
        boot_leaves_with("standard error", |setup| setup.server_env(SCAN_DIRECTORY, &directories));
    let last = |more: &str| server.text(&format!("/index.php?do=last+eventfd{more}"));
    last("");
    let first = last("");
    assert!(first.ends_with(" at 0"), "{first}");
    assert_eq!([last(""), last("")], [first.clone(), first.clone()], "it costs one system call");
    assert_eq!(last("&add"), "8");
    let second = last("");
    assert!(second != first && second.ends_with(" at 0"), "{first}, {second}");
    assert!(!server.log().contains("worker replaced"), "{}", server.log());
}

/// A call of C has the worker examined at once, and not only after some hundred requests.
#[test]
fn room_for_thousands_of_files_does_not_stay() {
    let server = boot_leaves("counter");
    assert_eq!(server.text("/index.php?do=many"), "2500");
    assert_eq!(server.text("/index.php?do=count"), "8 3");
    server.log_line(&["worker replaced, because a request had thousands of files open"]);
    assert_eq!(server.text("/index.php?do=count"), "8 3");
}

/// More rows than the cache holds: some are in the file before the transaction ends.
#[test]
fn a_transaction_that_is_left_open_is_rolled_back() {
    for what in ["database", "database, WAL", "database, journal in memory"] {
        let server = boot_leaves(what);
        for _ in 0..3 {
            assert_eq!(server.text("/index.php?do=leave"), "left open", "{what}");
            assert_eq!(server.text("/index.php?do=look"), "ok\n2000\n", "{what}");
        }
        assert!(!server.log().contains("worker replaced"), "{what}: {}", server.log());
    }
}
