//! The calls for each request are those that an `strace -c` of its own counts, in servers of all
//! makes, with a connection for each request and with kept ones.
//!
//! The two runs are not the same moment: timers of the server, and who of two is quicker, add calls
//! to one and not to the other. So the rules are: calls that wait, or arrange a wait, are left out;
//! so are calls that failed, such as a read that came too early (EAGAIN); and of a name, the whole
//! number for each request counts: what timers do is less than a call for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::traced::{processes, wait_until_at_rest, wait_until_free};
use super::{anatomy, url};
use crate::harness::{Kind, Server, Setup, WebServer, get};

const REQUESTS: usize = 100;
const PAGE: &str = "/hello.php";

/// Calls that wait, or arrange it.
const WAITS: &[&str] = &[
    "clock_nanosleep",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "poll",
    "ppoll",
    "pselect6",
    "restart_syscall",
    "select",
    "wait4",
];

/// What a sealed worker calls once a second to look at what the kernel keeps for its process, and
/// how often in one look. On a busy machine 100 requests take many seconds.
const LOOK: &[(&str, i64)] = &[
    ("close", 1),
    ("fcntl", 3),
    ("getgroups", 1),
    ("getpgid", 1),
    ("getpriority", 1),
    ("getresgid", 1),
    ("getresuid", 1),
    ("getsid", 1),
    ("ioprio_get", 1),
    ("newfstatat", 8),
    ("openat", 1),
    ("personality", 1),
    ("prctl", 6),
    ("prlimit64", 16),
    ("read", 1),
    ("sched_getaffinity", 1),
    ("sched_getparam", 1),
    ("sched_getscheduler", 1),
];

/// By these one thread of this server wakes another, if that sleeps.
const WAKES: &[&str] = &["read", "write"];

type Calls = BTreeMap<String, i64>;

/// What `tokamak anatomy` counts.
fn counted_by_anatomy(server: &mut Server, keep_alive: bool) -> Calls {
    let address = url(server, PAGE);
    let first = server.first_process().pid().to_string();
    let number = REQUESTS.to_string();
    let mut arguments = vec![&*address, "--json", "-n", &number, "--pid", &first];
    arguments.extend(keep_alive.then_some("--keep-alive"));
    let (status, out, err) = anatomy(&arguments);
    assert_eq!(status, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let mut calls = Calls::new();
    for call in report["servers"][0]["calls"].as_array().unwrap() {
        let number = |key: &str| call[key].as_i64().unwrap();
        let name = call["name"].as_str().unwrap().to_owned();
        *calls.entry(name).or_default() += number("count") - number("failed");
    }
    calls
}

/// What `strace -c` counts of the same requests.
fn counted_by_strace(server: &Server, watched: &BTreeSet<u32>, keep_alive: bool) -> Calls {
    let table = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace")
        .args(["-c", "-f", "-o", table.path().to_str().unwrap()])
        .args(watched.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut left = watched.clone();
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    while !left.is_empty() {
        let line = said.next().expect("strace attaches to all processes").unwrap();
        left.retain(|pid| !line.contains(&format!("Process {pid} attached")));
    }
    let fields = if keep_alive { "keep-alive" } else { "close" };
    let request = get(PAGE).header("Connection", fields);
    let mut kept = keep_alive.then(|| server.connect());
    for _ in 0..REQUESTS {
        match &mut kept {
            Some(connection) => {
                let response = connection.exchange(&request);
                // lighttpd closes each connection, as it is set up here.
                if response.header("connection") == Some("close") {
                    kept = Some(server.connect());
                }
            }
            None => {
                let mut connection = server.connect();
                connection.exchange(&request).expect(200);
                assert!(connection.closes_within(std::time::Duration::from_secs(20)));
            }
        }
    }
    drop(kept);
    wait_until_at_rest(watched);
    let pid = strace.id().to_string();
    Command::new("sh").args(["-c", "kill -s INT \"$1\"", "kill", &pid]).status().unwrap();
    strace.wait().unwrap();
    succeeded(&fs::read_to_string(table.path()).unwrap())
}

/// The rows of strace's table: the calls without those that failed.
fn succeeded(table: &str) -> Calls {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |nth: usize| words.get(nth).and_then(|word| word.parse::<i64>().ok());
        let failed = if words.len() == 6 { number(4)? } else { 0 };
        let name = words.last().filter(|name| **name != "total")?;
        number(3).map(|calls| ((*name).to_owned(), calls - failed))
    };
    table.lines().filter_map(row).collect()
}

/// Takes the looks of sealed workers out. Nothing else calls `personality`, so it counts them.
fn leave_looks_out(calls: &mut Calls) {
    let looks = calls.get("personality").copied().unwrap_or_default();
    for (name, in_a_look) in LOOK {
        if let Some(calls) = calls.get_mut(*name) {
            *calls -= looks * in_a_look;
        }
    }
}

/// Compares both counts, but for the calls by which one thread of this server wakes another.
#[track_caller]
fn agrees(mut server: Server, but: &[&str]) {
    for keep_alive in [false, true] {
        let mut ours = counted_by_anatomy(&mut server, keep_alive);
        let watched = processes(&mut server);
        wait_until_free(&watched);
        let mut theirs = counted_by_strace(&server, &watched, keep_alive);
        for calls in [&mut ours, &mut theirs] {
            leave_looks_out(calls);
            calls.retain(|name, calls| {
                // A run may lack some calls at its ends.
                *calls = (*calls + REQUESTS as i64 / 10) / REQUESTS as i64;
                *calls != 0 && ![WAITS, but].concat().contains(&&**name)
            });
        }
        assert!(theirs.values().sum::<i64>() >= 2, "{theirs:?}");
        assert_eq!(ours, theirs, "keep-alive: {keep_alive}");
    }
}

/// A site with workers enough: one is held by each connection that is kept.
fn site(kind: Kind) -> Setup {
    // opcache keeps no file that is younger than two seconds; those of the test are.
    // php-fpm's main process would wake up for what each child says, or for several at once.
    Setup::new(kind)
        .workers(8)
        .php_admin_value("opcache.file_update_protection", "0")
        .fpm_line("catch_workers_output = no")
}

fn behind(web_server: WebServer) -> Server {
    site(Kind::Peer).behind(web_server).start()
}

#[test]
fn nginx_and_php_fpm() {
    agrees(behind(WebServer::Nginx), &[]);
}

#[test]
fn nginx_that_keeps_its_connections_to_php_fpm() {
    agrees(behind(WebServer::NginxThatKeeps), &[]);
}

#[test]
fn lighttpd_and_php_fpm() {
    agrees(behind(WebServer::Lighttpd), &[]);
}

#[test]
fn apache_and_php_fpm() {
    agrees(behind(WebServer::Apache), &[]);
}

#[test]
fn this_server_in_worker_mode() {
    agrees(site(Kind::Worker).start(), WAKES);
}

#[test]
fn this_server_in_sealed_mode() {
    agrees(site(Kind::Sealed).start(), WAKES);
}

#[test]
fn this_server_before_php_fpm() {
    agrees(site(Kind::Fastcgi).start(), WAKES);
}
