//! Nobody looks into the processes of a server: not a script of theirs, nor a program that it
//! leaves running, nor another site's.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Kind, Setup, in_every_mode, is_root};
use crate::operate::{reload, status_when};
use crate::supervise::children;

in_every_mode! {
    memory_is_closed,
    no_moment_is_open,
    a_slow_request_is_traced_all_the_same,
}

fn memory_is_closed(kind: Kind) {
    let mut server = Setup::new(kind).workers(1).also("other", "php").start();
    let seen = status_when(&server, "two idle pools", |status| {
        status["pools"].as_array().unwrap().iter().all(|pool| pool["idle"] == 1)
    });
    let supervisor = server.main_process().pid().into();
    let zygotes = children(supervisor, "zygote");
    let worker = |pool: usize| seen["pools"][pool]["workers"][0]["pid"].as_u64().unwrap();
    let pids = HashMap::from([
        ("supervisor", supervisor),
        ("front", seen["front_pid"].as_u64().unwrap()),
        ("own zygote", zygotes[0]),
        ("other zygote", zygotes[1]),
        ("own worker", worker(0)),
        ("other worker", worker(1)),
    ]);

    let list: Vec<String> = pids.values().map(u64::to_string).collect();
    let answer =
        server.get(&format!("/privacy/look.php?pids={}", list.join(","))).expect(200).json();
    assert_eq!(answer["pid"], pids["own worker"], "it is served by the worker that it looks at");
    assert_eq!(answer["own"], Value::Array(vec![]), "its own process");
    assert_eq!(answer["others"]["child"].as_array().unwrap().len(), 9, "the ways work: {answer:#}");
    for (name, pid) in pids {
        assert_eq!(answer["others"][pid.to_string()], Value::Array(vec![]), "{name}: {answer:#}");
    }
}

/// Each worker opens files of its own memory when it begins, and each zygote is a new program.
fn no_moment_is_open(kind: Kind) {
    if !is_root() {
        return; // An ordinary user's server has nothing that guards its processes in such a moment.
    }
    let mut server = Setup::new(kind)
        .workers(1)
        .site_line("pool.slow = \"10s\"")
        .site_line("pool.max_requests = 1")
        .start();
    let mut lurking = Command::new("setpriv")
        .env("PATH", "/usr/bin:/bin")
        .args(["--reuid=www-data", "--regid=www-data", "--clear-groups", "python3", "-c"])
        .arg(include_str!("privacy/lurk.py"))
        .arg(server.main_process().pid().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lurking.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    for round in 0..100 {
        server.get("/hello.php").expect(200);
        if round % 20 == 0 {
            reload(&server).unwrap();
        }
    }
    drop(lurking.stdin.take());
    let found = lines.next().unwrap().unwrap();
    lurking.wait().unwrap();
    assert_eq!(found, "0", "processes whose memory was open for a moment");
}

fn a_slow_request_is_traced_all_the_same(kind: Kind) {
    let server = Setup::new(kind).workers(1).site_line("pool.slow = \"200ms\"").start();
    // A signal would cut it short.
    assert_eq!(server.text("/privacy/sleep.php"), "slept for the whole time");
    server.log_entry(&["\n    #0 sleep()\n    #1 linger() ", "/privacy/sleep.php:"]);
}
