//! A pool that sizes itself heeds how much memory is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::available_parallelism;

use crate::harness::{Kind, get, is_root, program};
use crate::operate::{operated, status_when};

/// Lays a file of its own over the kernel's `/proc/meminfo`, for the server alone.
const PROGRAM: &str = r#"#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0" /proc/meminfo && exec "$@"' "FILE" "TOKAMAK" "$@"
"#;

/// Says that so many of a thousand MiB are left.
fn leave(meminfo: &Path, mebibytes: u64) {
    let kibibytes = mebibytes << 10;
    let text = format!("MemTotal: {} kB\nMemAvailable: {kibibytes} kB\n", 1000 << 10);
    fs::write(meminfo, text).unwrap();
}

#[test]
fn an_automatic_pool_grows_only_while_memory_is_left() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (meminfo, wrapper) = (folder.path().join("meminfo"), folder.path().join("tokamak"));
    leave(&meminfo, 100);
    let text = PROGRAM.replace("FILE", meminfo.to_str().unwrap());
    fs::write(&wrapper, text.replace("TOKAMAK", program().to_str().unwrap())).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let setup = operated(Kind::Sealed).automatic_workers().program(wrapper);
    let server = setup.site_line("pool.queue_timeout = \"60s\"").start();
    let least = available_parallelism().unwrap().get().max(2);
    let wait = |_| {
        let mut connection = server.connect();
        connection.send(get("/index.php?do=wait&n=60000").bytes());
        connection
    };
    let _open: Vec<_> = (0..least + 2).map(wait).collect();
    server.log_line(&["WARN", "no more are started: only 100 of 1000 MiB of memory are left"]);
    status_when(&server, "two requests that wait", |status| status["pools"][0]["queue"] == 2);
    leave(&meminfo, 500);
    status_when(&server, "more workers", |status| status["pools"][0]["busy"] == least + 2);
}
