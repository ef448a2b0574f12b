//! Applications that the server starts: their sockets, environment and output; what happens when
//! they die, hang, or are replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::applications::{answers, built};
use crate::harness::{
    End, Kind, Server, Setup, eventually, get, in_parallel, is_root, post, program, tests,
};
use crate::operate::{command, configure, kill, reload, status, status_when};

/// Far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that starts the application of the tests; `lines` are more lines of its upstream.
fn spawned(lines: &str) -> Setup {
    Setup::new(Kind::Fastcgi)
        .site("sites/spawned")
        .upstream(&format!("spawn = [\"perl\", \"app.pl\"]\ndirectory = \"site\"\n{lines}"))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
}

/// The processes of the application, as the status has them.
fn processes(status: &Value) -> Vec<Value> {
    status["applications"][0]["processes"].as_array().expect("a list of processes").clone()
}

fn pids(status: &Value) -> BTreeSet<u64> {
    processes(status).iter().map(|process| process["pid"].as_u64().unwrap()).collect()
}

/// Waits until all processes run, and tells who they are.
#[track_caller]
fn running(server: &Server) -> BTreeSet<u64> {
    pids(&status_when(server, "running processes", |status| {
        processes(status).iter().all(|process| process["state"] == "running")
    }))
}

fn is_alive(pid: u64) -> bool {
    // One that nobody has reaped yet is dead.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[track_caller]
fn gone(pids: &BTreeSet<u64>) {
    let gone = || pids.iter().all(|pid| !is_alive(*pid)).then_some(());
    assert!(eventually(PATIENCE, gone).is_some(), "some of {pids:?} live on");
}

/// The lines of the example's configuration about one upstream and about its route.
fn example(name: &str) -> (String, String) {
    let text = std::fs::read_to_string(tests().join("../examples/fastcgi/tokamak.toml")).unwrap();
    let blocks: Vec<&str> = text.split("\n\n").collect();
    let find = |heading: &str, line: String| {
        let found = blocks.iter().find(|block| block.starts_with(heading) && block.contains(&line));
        found
            .unwrap_or_else(|| panic!("no {heading} of {name}"))
            .replace(heading, "")
            .replace(&line, "")
    };
    (
        find("[[upstream]]", format!("name = \"{name}\"")),
        find("[[site.route]]", format!("upstream = \"{name}\"")),
    )
}

/// The example in one language, started as its own configuration says.
fn behaves(name: &str, counts: bool) {
    let build = tempfile::Builder::new().prefix("tokamak-built-").tempdir().unwrap();
    std::fs::set_permissions(build.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let (mut upstream, route) = example(name);
    if name == "c" {
        upstream = upstream.replace("c/app", &built("c/app.c", build.path()));
    }
    let server = Setup::new(Kind::Fastcgi)
        .site("../examples/fastcgi")
        // As a service has it: a user's own may name programs that the application's user may not
        // start.
        .server_env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .upstream(&format!("{upstream}\ndirectory = \"site\""))
        .site_line(&format!(
            "[[site.route]]{}upstream = \"app\"",
            route.replace("\"php/", "\"site/php/")
        ))
        .start();
    let path = format!("/{name}");
    answers(&server, &path);
    in_parallel(200, |number| {
        let body = format!("body of {number}");
        let echo = post(&format!("{path}/echo"), "text/plain", body.clone());
        assert_eq!(server.send(&echo).expect(200).text(), body);
    });
    if counts {
        let count = || server.text(&format!("{path}/count")).trim().parse::<usize>().unwrap();
        let most = (0..20).map(|_| count()).max();
        assert!(most >= Some(10), "{most:?}: the processes live on");
    }
    assert_eq!(status(&server)["applications"][0]["restarts"], 0);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn the_example_in_c() {
    behaves("c", true);
}

#[test]
fn the_example_in_perl() {
    behaves("perl", true);
}

#[test]
fn the_example_in_python() {
    behaves("python", true);
}

#[test]
fn the_example_in_ruby() {
    behaves("ruby", true);
}

#[test]
fn the_example_in_php_with_php_cgi() {
    behaves("php", false);
}

/// `php-cgi` ends after so many requests, and another takes its place; nobody notices.
#[test]
fn processes_that_end_by_themselves_are_replaced() {
    let lines = "spawn = [\"php-cgi\"]\nprocesses = 2\nenv = { PHP_FCGI_MAX_REQUESTS = \"50\" }";
    let server = Setup::new(Kind::Fastcgi).upstream(lines).site_line("upstream = \"app\"").start();
    in_parallel(400, |_| assert_eq!(server.text("/hello.php"), "Hello from PHP"));
    status_when(&server, "restarts", |status| {
        status["applications"][0]["restarts"].as_u64() >= Some(4)
    });
    server.log_line(&["[app] a process ended", "exit status 0"]);
}

#[test]
fn it_gets_its_directory_and_its_environment() {
    let server = spawned("env = { GREETING = \"hello\" }")
        .server_env("FROM_OUTSIDE", "yes")
        .server_env("FCGI_WEB_SERVER_ADDRS", "192.0.2.1")
        .start();
    let where_it_is = server.text("/app/where");
    let has = |line: &str| where_it_is.lines().any(|other| other == line);
    assert!(has(server.places.root().to_str().unwrap()), "{where_it_is}");
    assert!(has("GREETING=hello") && has("FROM_OUTSIDE=yes"), "{where_it_is}");
    assert!(!where_it_is.contains("FCGI_WEB_SERVER_ADDRS"), "{where_it_is}");
    if is_root() {
        assert!(!has("uid 0"), "{where_it_is}");
    }

    let server = spawned("inherit_env = false\nenv = { GREETING = \"hello\" }").start();
    let where_it_is = server.text("/app/where");
    let variables: Vec<&str> = where_it_is.lines().filter(|line| line.contains('=')).collect();
    // Those of the user that root has changed to.
    let of_user = |line: &&str| line.starts_with("HOME=/") || line.starts_with("USER=");
    let (own, others): (Vec<&str>, Vec<&str>) = variables.into_iter().partition(of_user);
    assert_eq!(others, ["GREETING=hello"]);
    assert_eq!(own.len(), if is_root() { 2 } else { 0 }, "{own:?}");
}

#[test]
fn it_runs_as_another_user() {
    if !is_root() {
        return;
    }
    let server = spawned("user = \"nobody\"\ngroup = \"nogroup\"").start();
    let output = Command::new("id").args(["-u", "nobody"]).output().unwrap();
    let uid = String::from_utf8(output.stdout).unwrap();
    assert!(server.text("/app/where").contains(&format!("uid {uid}")));
}

#[test]
fn what_it_writes_is_in_the_error_log() {
    let server = spawned("").start();
    let pid = server.text("/app/pid");
    server.log_line(&["WARN [app]", &format!("pid={pid}: it begins")]);
    server.log_line(&["WARN [app]", &format!("pid={pid}: and says so")]);
}

/// By default each process has its own address, and none gets two requests at once.
#[test]
fn each_process_takes_its_share() {
    for (lines, addresses) in [("processes = 4", 4), ("processes = 4\nshared = true", 1)] {
        let server = spawned(lines).start();
        let all = running(&server);
        assert_eq!(all.len(), 4);
        let served: std::sync::Mutex<BTreeMap<u64, usize>> = Default::default();
        in_parallel(32, |_| {
            let pid = server.text("/app/slow").parse().unwrap();
            *served.lock().unwrap().entry(pid).or_default() += 1;
        });
        let served = served.into_inner().unwrap();
        assert_eq!(served.keys().copied().collect::<BTreeSet<_>>(), all, "{lines}");
        assert!(served.values().all(|count| *count >= 4), "{lines}: {served:?}");
        let seen = processes(&status(&server));
        let different: BTreeSet<&str> =
            seen.iter().map(|one| one["address"].as_str().unwrap()).collect();
        assert_eq!(different.len(), addresses, "{seen:?}");
        for address in different {
            let path = Path::new(address.strip_prefix("unix:").unwrap());
            assert!(std::os::unix::net::UnixStream::connect(path).is_ok(), "{address}");
        }
    }
}

/// Clients that ask all the time, while `act` does something to the server. No request may fail.
fn under_load(server: &Server, page: &str, act: impl FnOnce(&dyn Fn(usize))) {
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let more = |count: usize| {
        let before = served.load(Ordering::Relaxed);
        let enough = || (served.load(Ordering::Relaxed) >= before + count).then_some(());
        assert!(eventually(PATIENCE, enough).is_some(), "requests are not served any more");
    };
    std::thread::scope(|scope| {
        let _end = End(&done);
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    server.get(&format!("/app/{page}")).expect(200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        act(&more);
    });
}

#[test]
fn one_that_is_killed_is_replaced_and_no_repeatable_request_notices() {
    let server = spawned("processes = 2").start();
    let mut before = running(&server);
    // Those that die in their first second are started again more and more slowly.
    let old_enough = || std::thread::sleep(Duration::from_millis(1200));
    under_load(&server, "pid", |more| {
        for round in 0..4 {
            old_enough();
            let victim = *before.iter().nth(round % 2).unwrap();
            kill("KILL", victim);
            more(20);
            gone(&BTreeSet::from([victim]));
            before = running(&server);
            assert!(!before.contains(&victim));
            server.log_line(&["ERROR [app] a process ended: signal 9", &format!("pid={victim}")]);
        }
    });
    assert_eq!(status(&server)["applications"][0]["restarts"], 4);
    let table = String::from_utf8(command(&server, &["status"]).stdout).unwrap();
    assert!(table.contains("upstream app: 4 process(es) started in place of others"), "{table}");
    for pid in before {
        let row = table.lines().find(|line| line.contains(&format!("  {pid}  running")));
        assert!(
            row.is_some_and(|row| row.starts_with("app ") && row.contains("  unix:/")),
            "{table}"
        );
    }
}

#[test]
fn a_request_that_kills_its_process_is_logged() {
    let server = spawned("").start();
    server.get("/app/die").expect(502);
    server.log_line(&["[app] a process ended at once: signal 9"]);
    let answer = || (server.get("/app/pid").status() == 200).then_some(());
    assert!(eventually(PATIENCE, answer).is_some());
}

/// Those that die at once are started more and more slowly, and requests are refused meanwhile.
#[test]
fn a_broken_one_is_tried_again_and_again() {
    let broken = |server: &Server| server.places.root().join("broken");
    let server = spawned("processes = 3").start();
    let before = running(&server);
    std::fs::write(broken(&server), "").unwrap();
    before.iter().for_each(|pid| kill("KILL", *pid));
    status_when(&server, "a failure", |status| {
        let failure = status["applications"][0]["failure"].as_str().unwrap_or_default();
        failure.starts_with("upstream app: a process ended at once: exit status 3, pid=")
    });
    server.log_line(&["a process ended at once: exit status 3", "next attempt in 0.2 s"]);
    server.log_line(&["a process ended at once: exit status 3", "next attempt in 0.4 s"]);
    server.get("/app/pid").expect(502);
    // One at a time, not all three.
    let attempts = server.log().matches("ended at once: exit status 3").count();
    assert!(attempts <= 8, "{attempts} attempts");

    std::fs::remove_file(broken(&server)).unwrap();
    assert_eq!(running(&server).len(), 3);
    server.get("/app/pid").expect(200);
    status_when(&server, "no failure", |status| status["applications"][0]["failure"].is_null());
}

#[test]
fn a_reload_starts_new_ones_and_loses_no_request() {
    let server = spawned("processes = 2\nenv = { VERSION = \"one\" }").start();
    let before = running(&server);
    under_load(&server, "slow", |more| {
        more(4);
        configure(&server, "\"one\"", "\"two\"");
        configure(&server, "processes = 2", "processes = 3");
        assert_eq!(reload(&server).unwrap(), "generation 2 serves\n");
        more(8);
    });
    let after = running(&server);
    assert_eq!(after.len(), 3);
    assert!(before.is_disjoint(&after));
    assert!(server.text("/app/where").contains("VERSION=two\n"));
    gone(&before);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// A deployment moves a symbolic link: processes that are replaced before the reload belong to the
/// old release.
#[test]
fn a_generation_keeps_to_its_release() {
    let place = tempfile::Builder::new().prefix("tokamak-releases-").tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    let at = |name: &str| place.path().canonicalize().unwrap().join(name);
    for release in ["one", "two"] {
        std::fs::create_dir(at(release)).unwrap();
        std::fs::copy(tests().join("sites/spawned/app.pl"), at(release).join("app.pl")).unwrap();
    }
    std::os::unix::fs::symlink(at("one"), at("current")).unwrap();
    let lines =
        format!("spawn = [\"perl\", \"app.pl\"]\ndirectory = \"{}\"", at("current").display());
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&lines)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let runs_in = |release: &str| {
        let text = server.text("/app/where");
        assert_eq!(text.lines().next(), at(release).to_str(), "{text}");
    };
    runs_in("one");
    std::os::unix::fs::symlink(at("two"), at("next")).unwrap();
    std::fs::rename(at("next"), at("current")).unwrap();
    let before = running(&server);
    kill("KILL", *before.first().unwrap());
    gone(&before);
    runs_in("one");
    reload(&server).unwrap();
    runs_in("two");
}

#[test]
fn a_reload_with_a_broken_one_is_refused() {
    let server = spawned("").start();
    let before = running(&server);
    server.get("/app/pid").expect(200); // it has found out that nothing is broken
    std::fs::write(server.places.root().join("broken"), "").unwrap();
    let refusal = reload(&server).unwrap_err();
    assert!(refusal.contains("upstream app: a process ended at once: exit status 3"), "{refusal}");
    assert_eq!(server.text("/app/pid").parse::<u64>().unwrap(), *before.first().unwrap());
    assert_eq!(running(&server), before);

    configure(&server, "\"perl\"", "\"nowhere/perl\"");
    let refusal = reload(&server).unwrap_err();
    assert!(
        refusal.contains("upstream.spawn: there is no program `nowhere/perl` in "),
        "{refusal}"
    );
    server.get("/app/pid").expect(200);
}

#[test]
fn they_end_with_the_server() {
    for (lines, signal, said) in [
        ("", "TERM", None),
        ("", "KILL", None),
        ("stop_signal = \"usr1\"", "TERM", Some("asked by USR1")),
        ("env = { STUBBORN = \"1\" }\nstop_timeout = \"300ms\"", "TERM", None),
    ] {
        let mut server = spawned(&format!("processes = 2\n{lines}")).start();
        let processes = running(&server);
        server.get("/app/pid").expect(200);
        let address = status(&server)["applications"][0]["processes"][0]["address"].clone();
        server.main_process().signal(signal);
        gone(&processes);
        assert!(server.main_process().wait(PATIENCE).is_some(), "{lines}");
        if let Some(text) = said {
            server.log_line(&[text]);
        }
        let directory =
            Path::new(address.as_str().unwrap().strip_prefix("unix:").unwrap()).parent().unwrap();
        if signal == "KILL" {
            // Nobody was left to do it; the next server does.
            spawned("").start().get("/app/pid").expect(200);
        }
        assert!(!directory.exists(), "{}", directory.display());
    }
}

#[test]
fn a_program_that_is_not_there_is_named_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokamak.toml");
    let root = directory.path().join("index.html");
    std::fs::write(root, "").unwrap();
    std::fs::write(&file, "[[upstream]]\nname = \"shop\"\nspawn = [\"no-such-program\"]\n")
        .unwrap();
    let output = Command::new(program()).args(["serve", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let expected = format!(
        "{}:3: upstream.spawn: there is no program `no-such-program` in PATH; install it or \
            correct the name",
        file.display()
    );
    assert_eq!(
        said.lines().find(|line| line.contains("no-such-program")),
        Some(expected.as_str()),
        "{said}"
    );
}

#[test]
fn a_request_waits_for_a_process_that_begins_slowly() {
    let lines = "spawn = [\"sh\", \"-c\", \"sleep 1; exec perl app.pl\"]\ndirectory = \"site\"";
    let server = Setup::new(Kind::Fastcgi)
        .site("sites/spawned")
        .upstream(lines)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let answer = server.send(&get("/app/pid")).expect(200).text();
    assert_eq!(BTreeSet::from([answer.parse().unwrap()]), running(&server));
}
