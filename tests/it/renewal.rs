//! One site gets other processes, and the others keep theirs.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Connection, End, Kind, Request, Server, eventually, get};
use crate::operate::{
    command, configuration, edit, operated, pid_in, reload, status, status_when, worker_pids,
};

/// The sites by host name; the first one is sealed, and the one that changes.
const HOSTS: [&str; 4] = ["localhost", "classic.example", "worker.example", "sealed.example"];

/// A server with a site in each mode beside the one that changes.
fn start() -> Server {
    let setup = operated(Kind::Sealed).line("timeouts.drain = \"10s\"");
    let setup = HOSTS[1..].iter().fold(setup, |setup, host| setup.also(host, "sites/operated"));
    let server = setup.start();
    let sealed = |position: usize| {
        let worker = server.places.more_root(position).join("worker.php");
        format!("mode = \"sealed\"\nworker = \"{}\"\nwarm = []", worker.display())
    };
    let text = fs::read_to_string(configuration(&server)).unwrap();
    let (classic, worker) = (sealed(0), sealed(1));
    assert!(text.contains(&classic) && text.contains(&worker), "{text}");
    let unwarmed = worker.replace("\nwarm = []", "").replace("\"sealed\"", "\"worker\"");
    let text = text.replace(&classic, "mode = \"classic\"").replace(&worker, &unwarmed);
    fs::write(configuration(&server), text).unwrap();
    reload(&server).unwrap();
    let modes = ["sealed", "classic", "worker", "sealed"];
    let seen = status_when(&server, "idle workers of all sites", |status| {
        status["draining"] == 0 && (0..4).all(|site| status["pools"][site]["idle"] == 2)
    });
    for (site, mode) in modes.into_iter().enumerate() {
        assert_eq!(seen["pools"][site]["mode"], mode, "{seen:#}");
    }
    server
}

fn ask(host: &str, what: &str) -> Request {
    get(&format!("/index.php?do={what}")).header("Host", host)
}

fn pids(status: &Value, site: usize) -> Vec<u64> {
    let workers = status["pools"][site]["workers"].as_array().expect("a list of workers");
    let mut pids: Vec<_> =
        workers.iter().map(|worker| worker["pid"].as_u64().expect("a pid")).collect();
    pids.sort_unstable();
    pids
}

/// All that must stay: the front, its generation, and of each other site the workers and what they
/// share.
fn the_others(server: &Server) -> Vec<String> {
    let now = status(server);
    let mut all = vec![format!("front {} generation {}", now["front_pid"], now["generation"])];
    for (site, host) in HOSTS.into_iter().enumerate().skip(1) {
        let text = server.send(&ask(host, "remember")).expect(200).text();
        let shared = text.split("version").next().unwrap();
        all.push(format!("{host} {shared} {:?}", pids(&now, site)));
    }
    all
}

/// Requests to all sites without a pause; any failure ends the test.
fn load(server: &Server, stop: &AtomicBool, served: &AtomicUsize) {
    let mut connection = server.connect();
    while !stop.load(Ordering::Relaxed) {
        for host in HOSTS {
            let response = connection.exchange(&ask(host, "nothing")).expect(200);
            assert!(response.text().contains("version "), "{response}");
            assert_ne!(response.header("connection"), Some("close"), "the front stays");
            served.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn leaves_the_other_sites_alone_and_loses_no_request() {
    let server = start();
    let before = the_others(&server);
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = End(&stop);
        for _ in 0..4 {
            scope.spawn(|| load(&server, &stop, &served));
        }
        // A changed file, and a script that empties the opcode cache.
        for renewals in 1..=2 {
            let old = status(&server);
            let mut long = server.connect();
            long.send(get("/index.php?do=hold&n=1").bytes());
            server.holds("1");
            if renewals == 1 {
                edit(&server, "worker.php", "<?php", "<?php /* changed */");
            } else {
                server.send(&ask(HOSTS[0], "forget")).expect(200);
            }
            let new = status_when(&server, "other processes", |status| {
                status["pools"][0]["renewals"] == renewals
            });
            assert!(
                pids(&old, 0).iter().all(|pid| !pids(&new, 0).contains(pid)),
                "{old:#} {new:#}"
            );
            // It has begun in an old process, and ends there.
            server.let_go("1");
            let response = long.response().expect(200);
            assert!(pids(&old, 0).contains(&pid_in(&response.text())), "{response}");
            let ended = || {
                let is_there = |pid: &u64| fs::exists(format!("/proc/{pid}")).unwrap();
                (!pids(&old, 0).iter().any(is_there)).then_some(())
            };
            assert!(eventually(Duration::from_secs(20), ended).is_some(), "old processes are left");
        }
        let many = || (served.load(Ordering::Relaxed) > 100).then_some(());
        assert!(eventually(Duration::from_secs(20), many).is_some(), "nothing is served any more");
    });
    assert_eq!(the_others(&server), before);
    server.log_line(&["INFO", "[localhost] the image is outdated", "worker.php has changed"]);
    server.log_line(&["INFO", "[localhost] new processes serve"]);
    let requests = status(&server)["pools"][0]["requests"].as_u64().unwrap();
    assert!(
        requests as usize > served.load(Ordering::Relaxed) / 4,
        "the old processes' requests count"
    );
}

/// `tokamak reload --site`: new code for one site, also where nobody notices changed files.
#[test]
fn one_site_is_reloaded_when_asked_for() {
    let server = start();
    let reload_site = |host: &str| {
        let output = command(&server, &["reload", "--site", host]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    // A worker script is read once, when its process starts.
    let (site, host) = (2, HOSTS[2]);
    let script = server.places.more_root(site - 1).join("worker.php");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, text.replace("require", "echo 'anew '; require")).unwrap();
    let except = |host: &str| -> Vec<String> {
        the_others(&server).into_iter().filter(|line| !line.starts_with(host)).collect()
    };
    let (before, old) = (except(host), pids(&status(&server), site));
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = End(&stop);
        scope.spawn(|| load(&server, &stop, &served));
        let answer = reload_site(host);
        // Who asked may rely on the new code from now on.
        let text = server.send(&ask(host, "nothing")).expect(200).text();
        assert_eq!(answer, Ok(format!("new processes serve {host}\n")));
        assert!(text.starts_with("anew ") && !old.contains(&pid_in(&text)), "{text}");
    });
    assert_eq!(except(host), before);
    server.log_line(&["INFO", &format!("[{host}] reload of this site")]);

    assert!(reload_site("nobody").unwrap_err().contains("there is no site `nobody`"));

    // Code that does not boot changes nothing.
    let (sealed, worker) = (HOSTS[0], server.places.root().join("worker.php"));
    let text = fs::read_to_string(&worker).unwrap();
    fs::write(&worker, "<?php exit('no boot');").unwrap();
    let wrong = reload_site(sealed).unwrap_err();
    assert!(wrong.contains("worker.php"), "{wrong}");
    server.send(&ask(sealed, "nothing")).expect(200);
    fs::write(&worker, text).unwrap();
    assert_eq!(reload_site(sealed), Ok(format!("new processes serve {sealed}\n")));
    assert_eq!(except(host)[0], before[0], "the front stays");
}

/// A deployment that moved a symbolic link: the new files are where only a whole reload looks.
#[test]
fn reloads_everything_if_the_site_is_somewhere_else_now() {
    let server = operated(Kind::Sealed).start();
    let (root, top) = (server.places.root(), server.places.top().to_owned());
    let (first, current) = (top.join("release-1"), top.join("current"));
    fs::rename(&root, &first).unwrap();
    std::os::unix::fs::symlink(&first, &current).unwrap();
    let text = fs::read_to_string(configuration(&server)).unwrap();
    let (from, to) = (root.to_str().unwrap(), current.to_str().unwrap());
    fs::write(
        configuration(&server),
        text.replace(&format!("{from}\""), &format!("{to}\""))
            .replace(&format!("{from}/"), &format!("{to}/")),
    )
    .unwrap();
    reload(&server).unwrap();
    let second = top.join("release-2");
    fs::create_dir(&second).unwrap();
    for script in ["index.php", "waiting.php", "worker.php"] {
        let text = fs::read_to_string(first.join(script)).unwrap();
        fs::write(second.join(script), text.replace("version 1", "version 2")).unwrap();
    }
    std::os::unix::fs::symlink(&second, top.join("next")).unwrap();
    fs::rename(top.join("next"), &current).unwrap();
    let worker = fs::read_to_string(first.join("worker.php")).unwrap();
    fs::write(first.join("worker.php"), worker + "// the last word of the old release").unwrap();
    status_when(&server, "another generation", |status| status["generation"] == 3);
    let text = server.text("/index.php");
    assert!(text.starts_with("version 2"), "{text}");

    // The same when a reload of this site is asked for.
    std::os::unix::fs::symlink(&first, top.join("next")).unwrap();
    fs::rename(top.join("next"), &current).unwrap();
    let output = command(&server, &["reload", "--site", "localhost"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "generation 4 serves\n");
    let text = server.text("/index.php");
    assert!(text.starts_with("version 1"), "{text}");
}

/// A server whose one event loop a Lua script holds up until a file is there.
struct Held {
    server: Server,
    connection: Connection,
    release: PathBuf,
    _folder: tempfile::TempDir,
}

impl Held {
    fn start() -> Held {
        let folder = tempfile::tempdir().unwrap();
        let (script, release) = (folder.path().join("hold.lua"), folder.path().join("release"));
        let spin = format!(
            "if lighty.env['uri.query'] == 'spin' then
                while not lighty.c.stat('{}') do end
            end
            lighty.r.resp_body.set('free')
            return 200",
            release.display()
        );
        fs::write(&script, spin).unwrap();
        let route =
            format!("route = [{{ path = \"/hold\", lua_raw_url = [\"{}\"] }}]", script.display());
        let server = operated(Kind::Classic)
            .line("loops = 2")
            .line("lua.time = \"60s\"")
            .line("timeouts.drain = \"100ms\"")
            .site_line(&route)
            .start();
        status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
        let mut connection = server.connect();
        let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.send(request("/hold") + &request("/hold?spin"));
        // The second request is read with the first one, so its script runs at once.
        assert_eq!(connection.response().expect(200).text(), "free");
        Held { server, connection, release, _folder: folder }
    }

    /// Waits until other processes than these serve; which.
    fn other_processes(&self, than: &[u64]) -> Vec<u64> {
        let is_other = |status: &Value| {
            let pids = worker_pids(status);
            !pids.is_empty() && pids.iter().all(|pid| !than.contains(pid))
        };
        worker_pids(&status_when(&self.server, "other processes", is_other))
    }

    fn let_go(&mut self) {
        fs::write(&self.release, "").unwrap();
        assert_eq!(self.connection.response().expect(200).text(), "free");
    }
}

/// An event loop that is busy does not yet know of the new processes.
#[test]
fn the_answer_waits_for_every_event_loop() {
    let mut held = Held::start();
    let before = worker_pids(&status(&held.server));
    std::thread::scope(|threads| {
        let server = &held.server;
        let reload = threads.spawn(|| command(server, &["reload", "--site", "localhost"]));
        held.other_processes(&before);
        // The supervisor has answered other questions since, but not this one.
        status(server);
        assert!(!reload.is_finished(), "an event loop does not know of the new processes yet");
        fs::write(&held.release, "").unwrap();
        let output = reload.join().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "new processes serve localhost\n");
    });
    held.let_go();
    status_when(&held.server, "one renewal", |status| status["pools"][0]["renewals"] == 1);
}

/// The second reload replaces the processes of the first one before all event loops knew them.
#[test]
fn two_reloads_of_a_site_are_both_answered() {
    let mut held = Held::start();
    let first = worker_pids(&status(&held.server));
    std::thread::scope(|threads| {
        let server = &held.server;
        let reload = || command(server, &["reload", "--site", "localhost"]);
        let one = threads.spawn(reload);
        let second = held.other_processes(&first);
        let other = threads.spawn(reload);
        let third = held.other_processes(&[first, second.clone()].concat());
        // The processes of the first reload end before all event loops have known them.
        let is_gone = |pid: &u64| !PathBuf::from(format!("/proc/{pid}")).exists();
        let are_gone = || second.iter().all(is_gone).then_some(());
        assert!(eventually(Duration::from_secs(20), are_gone).is_some(), "{second:?} are left");
        status(server);
        assert!(!one.is_finished() && !other.is_finished(), "{third:?} serve");
        fs::write(&held.release, "").unwrap();
        for output in [one.join().unwrap(), other.join().unwrap()] {
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "new processes serve localhost\n", "{output:?}");
        }
    });
    held.let_go();
}
