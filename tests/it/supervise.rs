//! Processes that come, stay, hang, die and are replaced.

use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{
    Kind, Request, Server, eventually, get, in_every_mode, in_parallel, is_root, post,
};
use crate::operate::{
    command, configure, edit, kill, operated, pid_in, reload, status, status_when, worker_pids,
};

in_every_mode! {
    drains_on_sigterm,
    ends_a_request_that_takes_too_long,
    ends_a_request_that_is_stuck_in_c,
    replaces_a_killed_worker,
    a_dynamic_pool_grows_and_shrinks,
    an_automatic_pool_grows_only_while_its_workers_wait,
}

/// Sends a request on a connection of its own and gives it time to reach a worker. A worker may
/// still be busy with the request before, whose response is complete.
#[track_caller]
fn begin(server: &Server, request: &Request) -> crate::harness::Connection {
    let mut connection = server.connect();
    connection.send(request.bytes());
    status_when(server, "a busy worker", |status| {
        let mut workers = status["pools"][0]["workers"].as_array().unwrap().iter();
        workers.any(|worker| worker["state"] == "busy" && worker["uri"] == request.target)
    });
    connection
}

/// Begins a request that runs until [`let_go`].
#[track_caller]
fn hold(server: &Server, n: usize) -> crate::harness::Connection {
    let connection = begin(server, &get(&format!("/index.php?do=hold&n={n}")));
    server.holds(&n.to_string());
    connection
}

/// Ends all requests that [`hold`] has begun.
#[track_caller]
fn let_go(server: &Server, held: impl IntoIterator<Item = crate::harness::Connection>) {
    for (n, mut connection) in held.into_iter().enumerate() {
        server.let_go(&n.to_string());
        connection.response().expect(200);
    }
}

fn one_waits(status: &serde_json::Value) -> bool {
    status["pools"][0]["queue"] == 1
}

/// The worker that is busy.
fn busy_pid(server: &Server) -> u64 {
    let status = status(server);
    let workers = status["pools"][0]["workers"].as_array().unwrap();
    let busy = workers.iter().find(|worker| worker["state"] == "busy");
    busy.and_then(|worker| worker["pid"].as_u64())
        .unwrap_or_else(|| panic!("no busy worker in {status:#}"))
}

/// Waits until processes have ended and their parents have reaped them.
#[track_caller]
fn gone(pids: &[u64]) {
    let is_left = |pid: &u64| std::path::Path::new(&format!("/proc/{pid}")).exists();
    let all = || (!pids.iter().any(is_left)).then_some(());
    assert!(eventually(Duration::from_secs(20), all).is_some(), "of {pids:?} some are left");
}

#[track_caller]
fn booted(server: &Server) -> serde_json::Value {
    status_when(server, "booted workers", |status| {
        status["pools"][0]["starting"] == 0 && status["pools"][0]["idle"] != 0
    })
}

/// The children of a process whose command line contains a text.
pub fn children(parent: u64, command: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else {
            continue;
        };
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        // The name of the program, which may contain anything, is in parentheses.
        let stat = read("stat");
        let its_parent =
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u64>().ok());
        if its_parent == Some(parent) && read("cmdline").contains(command) {
            found.push(pid);
        }
    }
    found
}

#[test]
fn status_shows_what_every_worker_does() {
    let server = operated(Kind::Classic).start();
    booted(&server);
    server.get("/index.php").expect(200);
    let target = "/index.php?do=hold&n=0&name=%22x";
    let mut waiting = begin(&server, &get(target));
    server.holds("0");
    let seen = status(&server);
    assert_eq!(seen["generation"], 1);
    assert_eq!(seen["draining"], 0);
    assert!(seen["listen"][0].as_str().unwrap().contains(&server.address.to_string()), "{seen:#}");
    let pool = &seen["pools"][0];
    for (key, value) in [("site", "localhost"), ("mode", "classic"), ("size", "static")] {
        assert_eq!(pool[key], value, "{seen:#}");
    }
    assert_eq!(pool["max"], 2);
    assert_eq!(pool["busy"], 1);
    assert_eq!(pool["idle"], 1);
    assert!(pool["php"].as_str().unwrap().starts_with("8."), "{seen:#}");
    let workers = pool["workers"].as_array().unwrap();
    let busy = workers.iter().find(|worker| worker["state"] == "busy").unwrap();
    assert_eq!(busy["method"], "GET");
    assert_eq!(busy["uri"], target);
    assert!(busy["memory"].as_u64().unwrap() > 100_000, "{seen:#}");
    assert!(busy["seconds"].as_f64().unwrap() < 60.0, "{seen:#}");

    let table = String::from_utf8(command(&server, &["status"]).stdout).unwrap();
    let row =
        table.lines().find(|line| line.contains("busy ")).unwrap_or_else(|| panic!("{table}"));
    assert!(row.contains("GET /index.php?do=hold"), "{table}");
    server.let_go("0");
    waiting.response().expect(200);
    status_when(&server, "two requests and nobody busy", |status| {
        status["pools"][0]["requests"] == 2 && status["pools"][0]["busy"] == 0
    });
}

fn drains_on_sigterm(kind: Kind) {
    let mut server = operated(kind).line("timeouts.drain = \"60s\"").start();
    booted(&server);
    let waiting = hold(&server, 0);
    server.main_process().signal("TERM");
    let closed = || std::net::TcpStream::connect(server.address).is_err().then_some(());
    assert!(
        eventually(Duration::from_secs(20), closed).is_some(),
        "new connections are still accepted"
    );
    let_go(&server, [waiting]);
    let ended =
        server.main_process().wait(Duration::from_secs(20)).expect("the server does not end");
    assert!(ended.success(), "{ended}");
    assert!(!server.places.top().join("control").exists(), "the control socket is left behind");
    server.log_line(&["INFO", "stopped"]);
}

/// Nobody waits for a boot when the last request is answered.
#[test]
fn a_stop_ends_boots_that_hang() {
    let setup = operated(Kind::Async).worker("hangs.php").line("timeouts.drain = \"60s\"");
    let mut server = setup.start();
    status_when(&server, "boots", |status| status["pools"][0]["starting"] == 2);
    server.main_process().signal("TERM");
    let ended = server.main_process().wait(Duration::from_secs(20));
    assert!(ended.is_some_and(|status| status.success()), "{}", server.log());
}

#[test]
fn a_second_sigterm_ends_at_once() {
    let mut server = operated(Kind::Classic).line("timeouts.drain = \"60s\"").start();
    booted(&server);
    let _waiting = begin(&server, &get("/index.php?do=wait&n=30000"));
    let pids = worker_pids(&status(&server));
    server.main_process().signal("TERM");
    server.log_line(&["stopping: running requests are finished"]);
    server.main_process().signal("TERM");
    assert!(
        server.main_process().wait(Duration::from_secs(20)).is_some(),
        "the server does not end"
    );
    gone(&pids);
}

#[test]
fn draining_has_an_end() {
    let mut server = operated(Kind::Classic).line("timeouts.drain = \"500ms\"").start();
    booted(&server);
    let _waiting = begin(&server, &get("/index.php?do=wait&n=30000"));
    let pid = busy_pid(&server);
    server.main_process().signal("TERM");
    assert!(
        server.main_process().wait(Duration::from_secs(20)).is_some(),
        "the server does not end"
    );
    gone(&[pid]);
}

fn ends_a_request_that_takes_too_long(kind: Kind) {
    let server = operated(kind).site_line("pool.request_timeout = \"700ms\"").start();
    booted(&server);
    let start = Instant::now();
    let response = server.get("/index.php?do=wait&n=30000&secret").expect(504);
    let took = start.elapsed();
    assert!((Duration::from_millis(700)..Duration::from_secs(20)).contains(&took), "{took:?}");
    assert!(!response.text().contains("secret"), "{response}");
    let line = server.log_line(&["ERROR", "request_timeout", "/index.php?do=wait&n=30000&secret"]);
    assert!(
        line.contains("[localhost]") && line.contains("seconds=") && line.contains("pid="),
        "{line}"
    );
    // A shorter one is served, and there are as many workers as before.
    server.get("/index.php").expect(200);
    status_when(&server, "two workers", |status| status["pools"][0]["idle"] == 2);
    assert!(!server.log().contains("do not boot"), "a timeout is no failure to boot");
}

/// Nothing that PHP itself offers ends code that does not return from C.
fn ends_a_request_that_is_stuck_in_c(kind: Kind) {
    let server = operated(kind).workers(1).site_line("pool.request_timeout = \"700ms\"").start();
    booted(&server);
    let start = Instant::now();
    server.get("/index.php?do=compute&n=1000000000").expect(504);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    server.get("/index.php").expect(200);
}

/// The log tells the request and where in the code it is; the request goes on.
#[test]
fn logs_a_slow_request_with_its_backtrace_once() {
    let server = operated(Kind::Classic).site_line("pool.slow = \"300ms\"").start();
    booted(&server);
    server.get("/index.php?do=wait&n=1500").expect(200);
    let entry = server.log_entry(&["WARN", "slow request", "/index.php?do=wait&n=1500"]);
    assert!(entry.contains("seconds=") && entry.contains("method=GET"), "{entry}");
    assert!(entry.contains("wait_for_nothing") && entry.contains("waiting.php"), "{entry}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.log().matches("slow request seconds=").count(), 1, "{}", server.log());
    assert_eq!(server.log().matches("#0 ").count(), 1, "{}", server.log());
    server.get("/index.php?do=wait&n=10").expect(200);
}

#[test]
fn replaces_a_worker_that_holds_too_much_memory() {
    let server = operated(Kind::Worker).workers(1).site_line("pool.max_memory = \"64MiB\"").start();
    let first = pid_in(&server.text("/index.php"));
    let grown = pid_in(&server.text("/index.php?do=grow&n=100000000"));
    assert_eq!(first, grown);
    let replaced = || Some(pid_in(&server.text("/index.php"))).filter(|pid| *pid != first);
    assert!(eventually(Duration::from_secs(20), replaced).is_some(), "it is still there");
    server.log_line(&["INFO", "max_memory"]);
}

fn replaces_a_killed_worker(kind: Kind) {
    let server = operated(kind).workers(1).start();
    let idle = pid_in(&server.text("/index.php"));
    kill("KILL", idle);
    let next = pid_in(&server.text("/index.php"));
    assert_ne!(idle, next);
    server.log_line(&["ERROR", "a worker died: signal 9 (SIGKILL)", &format!("pid={idle}")]);

    // Under a request that must not be sent twice.
    let mut waiting = begin(&server, &post("/index.php?do=wait&n=20000", "text/plain", "x"));
    kill("KILL", busy_pid(&server));
    waiting.response().expect(502);
    server.log_line(&[
        "ERROR",
        "a worker died",
        "while serving method=POST uri=/index.php?do=wait&n=20000",
    ]);

    // A request that may be repeated is repeated if its worker died while it waited. One that
    // computed is not, since it may be what killed the worker.
    let pipe = server.state_file("pipe");
    let made = Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut waiting = begin(&server, &get("/index.php?do=read"));
    if kind == Kind::Async {
        status_when(&server, "a request that waits", |status| {
            status["pools"][0]["workers"][0]["in_flight"][0]["state"] == "waiting"
        });
    }
    let pid = busy_pid(&server);
    kill("KILL", pid);
    gone(&[pid]);
    // The shell can open the pipe when the request, sent to another worker, reads from it.
    let mut writes = Command::new("timeout");
    writes.args(["60", "sh", "-c", "echo on >\"$0\""]).arg(&pipe);
    assert!(writes.status().unwrap().success(), "nobody runs it again: {}", server.log());
    let response = waiting.response().expect(200);
    assert_ne!(pid_in(&response.text()), pid);
}

#[test]
fn replaces_a_killed_zygote() {
    let mut server = operated(Kind::Worker).start();
    let old = worker_pids(&booted(&server));
    let zygotes = children(server.main_process().pid().into(), "zygote");
    assert_eq!(zygotes.len(), 1, "{zygotes:?}");
    kill("KILL", zygotes[0]);
    server.log_line(&["ERROR", "the PHP zygote ended: signal 9"]);
    let text = server.text("/index.php");
    assert!(!old.contains(&pid_in(&text)), "{text}");
    gone(&old);
    let status = status_when(&server, "two workers", |status| status["pools"][0]["idle"] == 2);
    assert_eq!(status["generation"], 1);
}

#[test]
fn replaces_a_killed_front() {
    let server = operated(Kind::Worker).start();
    booted(&server);
    let front = status(&server)["front_pid"].as_u64().unwrap();
    kill("KILL", front);
    // The listening socket is still open: whoever connects now waits for the next front.
    server.get("/index.php").expect(200);
    server.log_line(&["ERROR", "the front ended: signal 9"]);
    let status = status_when(&server, "another generation", |status| status["generation"] == 2);
    assert_ne!(status["front_pid"].as_u64(), Some(front));
}

/// Waits until attempts have failed that came later and later, and returns what the log says then.
#[track_caller]
fn waits_longer(server: &Server, begun: Instant, words: &[&str]) -> String {
    server.log_line(&[words, &["[localhost]", " in 0.4 s"]].concat());
    let line = server.log_line(&[words, &["[localhost]", " in 0.8 s"]].concat());
    // Before this one there were 0.1, 0.2 and 0.4 s.
    assert!(begun.elapsed() >= Duration::from_millis(700), "it is said, but not so");
    line
}

/// A broken application is not started in a tight loop, each message says what is wrong, and
/// requests are answered.
#[test]
fn backs_off_from_an_application_that_does_not_boot() {
    let setup = operated(Kind::Worker).workers(4).site_line("pool.queue_timeout = \"300ms\"");
    let server = setup.start();
    booted(&server);
    edit(&server, "worker.php", "<?php", "<?php throw new Exception('no boot today');");
    let begun = Instant::now();
    for pid in worker_pids(&status(&server)) {
        kill("KILL", pid);
    }
    let line = waits_longer(&server, begun, &["ERROR", "do not boot", "next attempt in"]);
    assert!(line.contains("worker.php"), "{line}");
    assert!(line.contains("in a row"), "{line}");
    server.log_line(&["no boot today"]);
    let busy = server.get("/index.php").expect(503);
    assert!(busy.header("retry-after").is_some(), "{busy}");
    let shown = status(&server);
    assert!(shown["pools"][0]["failure"].as_str().unwrap().contains("worker.php"), "{shown:#}");

    edit(&server, "worker.php", "throw new Exception('no boot today');", "");
    let served = || (server.get("/index.php").status() == 200).then_some(());
    assert!(eventually(Duration::from_secs(15), served).is_some(), "it never recovers");
    status_when(&server, "all workers", |status| status["pools"][0]["idle"] == 4);
    server.log_line(&["workers boot again"]);
    assert!(status(&server)["pools"][0]["failure"].is_null());
}

#[test]
fn an_ondemand_pool_comes_and_goes() {
    let setup = operated(Kind::Classic).workers(3).site_line("pool.manager = \"ondemand\"");
    let server = setup.site_line("pool.idle = \"1s\"").start();
    let none =
        |status: &serde_json::Value| status["pools"][0]["workers"].as_array().unwrap().is_empty();
    assert!(none(&status(&server)), "{:#}", status(&server));
    let first = hold(&server, 0);
    assert_eq!(worker_pids(&status(&server)).len(), 1);
    let held = [first, hold(&server, 1), hold(&server, 2)];
    let mut fourth = server.connect();
    fourth.send(get("/index.php").bytes());
    let full = status_when(&server, "a request that waits", one_waits);
    assert_eq!(worker_pids(&full).len(), 3, "three at most, and all of them");
    let_go(&server, held);
    fourth.response().expect(200);
    status_when(&server, "no worker", none);
    server.get("/index.php").expect(200);
}

/// Requests that sleep leave the processors to others, which so get workers; requests that compute
/// do not.
fn an_automatic_pool_grows_only_while_its_workers_wait(kind: Kind) {
    let setup = operated(kind).automatic_workers().one_at_a_time();
    let server = setup.site_line("pool.queue_timeout = \"60s\"").start();
    let least = std::thread::available_parallelism().unwrap().get().max(2);
    let used_by = |target: &str| {
        let pids = std::sync::Mutex::new(HashSet::new());
        in_parallel(4 * least, |_| {
            let text = server.text(target);
            pids.lock().unwrap().insert(pid_in(&text));
        });
        pids.into_inner().unwrap().len()
    };
    let seen = status(&server);
    assert_eq!(seen["pools"][0]["size"], "auto", "{seen:#}");
    // One more may come where the machine stood still, which looks like waiting.
    let computing = used_by("/index.php?do=compute&n=100000");
    assert!(computing <= least + 1, "{computing} workers compute on a machine for {least}");
    // They sleep until the server ends: however long it takes, more come for those that wait.
    let sleeps = |_| {
        let mut connection = server.connect();
        connection.send(get("/index.php?do=wait&n=60000").bytes());
        connection
    };
    // There may be as many as this of workers that boot; sealed ones are only forked.
    let most = (4 * least).max(8);
    let count = if kind == Kind::Sealed { most + 3 } else { least + 3 };
    let _open: Vec<_> = (0..count).map(sleeps).collect();
    status_when(&server, "more workers", |status| status["pools"][0]["busy"] == count);
}

fn a_dynamic_pool_grows_and_shrinks(kind: Kind) {
    let setup = operated(kind).workers(6).one_at_a_time();
    let mut setup = setup.site_line("pool.manager = \"dynamic\"");
    for line in ["pool.start = 1", "pool.min_spare = 1", "pool.max_spare = 2"] {
        setup = setup.site_line(line);
    }
    let server = setup.start();
    let count =
        |status: &serde_json::Value| status["pools"][0]["workers"].as_array().unwrap().len();
    status_when(&server, "one worker", |status| count(status) == 1);
    let held: Vec<_> = (0..6).map(|n| hold(&server, n)).collect();
    let mut next = server.connect();
    next.send(get("/index.php").bytes());
    let full = status_when(&server, "a request that waits", one_waits);
    assert_eq!(count(&full), 6, "six at most");
    let_go(&server, held);
    next.response().expect(200);
    status_when(&server, "at most two spare workers", |status| count(status) <= 2);
    server.get("/index.php").expect(200);
}

/// The next visitor gets another process, at once and without an alarm.
#[test]
fn replaces_a_sealed_worker_that_doubts_itself() {
    let server = operated(Kind::Sealed).workers(1).start();
    for _ in 0..3 {
        let first = pid_in(&server.text("/index.php"));
        assert_eq!(pid_in(&server.text("/index.php?do=doubt")), first);
        assert_ne!(pid_in(&server.text("/index.php")), first);
        server.log_line(&[
            "INFO",
            "a worker is replaced: it could not undo",
            &format!("pid={first}"),
        ]);
    }
    assert!(!server.log().contains("next attempt"), "{}", server.log());
}

/// It is tried again, more and more slowly, and whoever asks is answered; another mode is a way
/// out.
#[test]
fn backs_off_from_a_sealed_application_that_does_not_boot() {
    let setup = operated(Kind::Sealed).boot("broken.php").warm(&["/index.php"]);
    let begun = Instant::now();
    let server = setup.site_line("pool.queue_timeout = \"300ms\"").start();
    server.log_line(&["ERROR", "[localhost]", "the application cannot be sealed: "]);
    server.log_line(&["ERROR", "[localhost]", "no boot today", "broken.php"]);
    waits_longer(&server, begun, &["PHP is started again"]);
    let busy = server.get("/index.php").expect(503);
    assert!(busy.header("retry-after").is_some(), "{busy}");
    let seen = status(&server);
    assert_eq!(seen["pools"][0]["mode"], "sealed");
    let failure = seen["pools"][0]["failure"].as_str().unwrap();
    assert!(failure.starts_with("the application cannot be sealed: "), "{failure}");
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("cannot be sealed"), "{complaint}");

    configure(&server, "mode = \"sealed\"", "mode = \"classic\"");
    let complaint = reload(&server).unwrap_err();
    assert!(complaint.contains("site.boot: only sealed mode"), "{complaint}");
    configure(&server, "boot = ", "# boot = ");
    configure(&server, "warm = ", "# warm = ");
    reload(&server).unwrap();
    server.get("/index.php").expect(200);
}

/// A warm-up request ends as every request does, and one that takes its process down is named; both
/// are thrown away.
#[test]
fn warm_up_requests_end_like_others() {
    let setup = operated(Kind::Sealed).boot("boot.php");
    let server = setup.warm(&["/index.php?do=end", "/index.php?do=crash"]).workers(1).start();
    server.get("/index.php").expect(200);
    assert_eq!(server.state("destructor"), "ran");
    assert_eq!(server.state("shutdown"), "ran");
    assert!(!server.state_file("boot").exists(), "the boot's objects outlive the request");
    server.log_line(&["WARN", "[localhost]", "warm-up request /index.php?do=crash died: signal 9"]);
    assert_eq!(server.log().matches("died").count(), 1, "{}", server.log());
    // And what the boot printed is told once.
    server.get("/index.php").expect(200);
    assert_eq!(server.log().matches("booted").count(), 1, "{}", server.log());
}

/// The words of a line of `/proc/PID/status`.
pub fn status_line(pid: u64, name: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Front and workers run as an ordinary user when the server is started as root.
#[test]
fn drops_privileges() {
    if !is_root() {
        return;
    }
    let mut server = operated(Kind::Classic).start();
    let text = server.text("/index.php?do=user");
    let user: u32 = text.split(' ').next().unwrap().parse().unwrap();
    assert_ne!(user, 0);
    let supervisor = server.main_process().pid().into();
    let zygotes = children(supervisor, "zygote");
    let front = status(&server)["front_pid"].as_u64().unwrap();
    for pid in [zygotes[0], front, pid_in(&text)] {
        let uid = status_line(pid, "Uid");
        assert!(uid.iter().all(|id| *id == user.to_string()), "{uid:?}");
        for name in ["Gid", "Groups"] {
            let ids = status_line(pid, name);
            assert!(ids.iter().all(|id| id != "0"), "{name} {ids:?}");
        }
        assert_eq!(status_line(pid, "CapEff"), ["0000000000000000"]);
    }
    assert!(status_line(supervisor, "Uid").iter().all(|id| id == "0"));
}

/// What the supervisor holds (its control socket, other zygotes' lines) is in no other process.
#[test]
fn children_hold_only_their_own_descriptors() {
    let mut server = operated(Kind::Classic).also("other", "sites/operated").start();
    booted(&server);
    let open = |pid: u64| {
        let mut names: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let zygotes = children(server.main_process().pid().into(), "zygote");
    assert_eq!(zygotes.len(), 2);
    for zygote in zygotes {
        // A zygote that is forking a worker has more open for a moment.
        let only_its_own = || {
            let open = open(zygote);
            let count = |text: &str| open.iter().filter(|name| name.contains(text)).count();
            // The queue, the channel to the supervisor, and two eventfds that wake workers.
            (["memfd:tokamak-", "socket:", "eventfd"].map(count) == [1, 1, 2]).then_some(())
        };
        let found = eventually(Duration::from_secs(20), only_its_own);
        assert!(found.is_some(), "{:?}", open(zygote));
    }
    if !is_root() {
        return; // the front forbids its own user to look into it
    }
    let front = open(status(&server)["front_pid"].as_u64().unwrap());
    assert_eq!(front.iter().filter(|name| name.contains("memfd:tokamak-")).count(), 2, "{front:?}");
    assert!(!front.iter().any(|name| name.contains("signalfd")), "{front:?}");
}
