//! Real applications, in several languages, over connections that are kept.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{
    Kind, Process, Server, Setup, check, crc32, eventually, get, in_parallel, numbered, post, row,
    tests,
};

/// Far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// An application that listens, and what it needs.
pub(super) struct Application {
    process: Process,
    command: Vec<String>,
    /// Where it listens.
    pub(super) socket: PathBuf,
    directory: TempDir,
}

impl Application {
    /// Starts the program of `command`; its last argument is the socket.
    pub(super) fn start(command: impl FnOnce(&Path) -> Vec<String>) -> Application {
        let directory = tempfile::Builder::new().prefix("tokamak-application-").tempdir().unwrap();
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let socket = directory.path().join("socket");
        let mut command = command(directory.path());
        command.push(socket.display().to_string());
        let log = directory.path().join("log");
        let process = Process::start(Path::new(&command[0]), &command[1..], &[], &log);
        let application = Application { process, command, socket, directory };
        application.wait();
        application
    }

    /// Kills it with all that it has started, and starts it again.
    pub(super) fn kill_and_restart(&mut self) {
        self.process.kill_group();
        assert!(self.process.wait(PATIENCE).is_some());
        self.restart();
    }

    /// Starts it again after its end.
    fn restart(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let log = self.directory.path().join("log");
        self.process = Process::start(Path::new(&self.command[0]), &self.command[1..], &[], &log);
        self.wait();
    }

    fn wait(&self) {
        let said =
            || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let there = || UnixStream::connect(&self.socket).ok().map(drop);
        eventually(PATIENCE, there).unwrap_or_else(|| panic!("it does not listen: {}", said()));
    }

    /// A server in front of it; `lines` are more lines of its upstream.
    pub(super) fn serve(&self, lines: &str) -> Server {
        Setup::new(Kind::Fastcgi)
            .upstream(&format!("address = \"unix:{}\"\n{lines}", self.socket.display()))
            .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
            .start()
    }
}

/// The path of an example.
pub(super) fn example(name: &str) -> String {
    let path = tests().join("../examples/fastcgi").join(name);
    path.canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .display()
        .to_string()
}

fn c() -> Application {
    Application::start(|directory| vec![built("c/app.c", directory)])
}

/// Builds an example in C.
pub(super) fn built(source: &str, directory: &Path) -> String {
    let program = directory.join("app").display().to_string();
    let built = Command::new("gcc")
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-pthread",
            "-o",
            &program,
            &example(source),
            "-lfcgi",
        ])
        .output()
        .expect("gcc runs");
    assert!(
        built.status.success(),
        "libfcgi-dev is needed: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

fn perl() -> Application {
    Application::start(|_| vec!["/usr/bin/perl".into(), example("perl/app.pl")])
}

fn python() -> Application {
    Application::start(|_| vec!["python3".into(), "-B".into(), example("python/app.py")])
}

/// What every one of the examples does. `processes` is how many requests each serves at once.
fn behaves(application: &Application, processes: usize) {
    for lines in
        ["", &format!("connections = {processes}"), "requests = 1", "requests = 3\nidle = \"1s\""]
    {
        let server = application.serve(lines);
        answers(&server, "/app");
        let before: usize = server.text("/app/count").trim().parse().unwrap();
        in_parallel(100, |number| {
            let body = format!("body of {number}");
            assert_eq!(
                server.send(&post("/app/echo", "text/plain", body.clone())).expect(200).text(),
                body
            );
            server.get("/app/count").expect(200);
        });
        let after: usize = server.text("/app/count").trim().parse().unwrap();
        assert_eq!(after - before, 101, "each request was served once, and the process lives on");
    }
}

/// What every one of the examples answers below this path.
pub(super) fn answers(server: &Server, path: &str) {
    let at = |page: &str| format!("{path}{page}");
    let send = |body: Vec<u8>| post(&at("/echo"), "text/plain", body);
    let large = numbered(3 << 20);
    check(
        server,
        vec![
            row("variables", get(&at("/env?q=1")))
                .contains("PATH_INFO=/env\n")
                .contains("QUERY_STRING=q=1\n"),
            row("a body", send("hello".into())).body("hello"),
            row("an empty body", send(Vec::new())).body(""),
            row("a body in chunks", send(numbered(40_000)).chunked(999))
                .body(String::from_utf8(numbered(40_000)).unwrap()),
            row("nothing", get(&at("/other"))).status(404).body("nothing here\n"),
            row("a complaint", get(&at("/complain"))).body("said\n"),
        ],
    );
    let back = server.send(&send(large.clone())).expect(200).body;
    assert_eq!((back.len(), crc32(&back)), (large.len(), crc32(&large)));
    server.log_line(&["WARN", "something is wrong", &format!("url={path}/complain")]);
}

#[test]
fn in_c() {
    behaves(&c(), 4);
}

/// One process: a second connection is served only when nobody holds the first.
#[test]
fn in_perl() {
    behaves(&perl(), 1);
}

#[test]
fn in_python() {
    behaves(&python(), 8);
}

/// Two of four applications are killed and started again under load, and no repeatable request
/// notices.
#[test]
fn some_are_killed_and_come_back() {
    let mut applications: Vec<Application> = (0..4).map(|_| c()).collect();
    let addresses: Vec<String> =
        applications.iter().map(|one| format!("\"unix:{}\"", one.socket.display())).collect();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = [{}]\nconnections = 4", addresses.join(", ")))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let done = AtomicBool::new(false);
    let served = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, done, served) = (&server, &done, &served);
            scope.spawn(move || {
                let mut connection = server.connect();
                for number in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let mine = format!("QUERY_STRING={client}-{number}-\n");
                    let response =
                        connection.exchange(&get(&format!("/app/env?{client}-{number}-")));
                    assert!(
                        response.expect(200).text().contains(&mine),
                        "an answer to another request"
                    );
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..10 {
            let before = served.load(Ordering::Relaxed);
            let more = || (served.load(Ordering::Relaxed) > before + 50).then_some(());
            let victim = &mut applications[round % 2];
            victim.process.signal("KILL");
            assert!(victim.process.wait(PATIENCE).is_some());
            let goes_on = eventually(PATIENCE, more).is_some();
            victim.restart();
            if !goes_on {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(served.load(Ordering::Relaxed) > 500);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// `php-cgi -b`, a process that forks: FastCGI without php-fpm.
#[test]
fn php_cgi() {
    let application = Application::start(|directory| {
        let wrapper = directory.join("start");
        // php-cgi keeps nothing but its name from its environment.
        std::fs::write(
            &wrapper,
            "umask 0\nPHP_FCGI_CHILDREN=2 PHP_FCGI_MAX_REQUESTS=7 exec php-cgi -b \"$1\"\n",
        )
        .unwrap();
        vec!["/bin/sh".into(), wrapper.display().to_string()]
    });
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"unix:{}\"", application.socket.display()))
        .site_line("upstream = \"app\"")
        .start();
    assert!(application.directory.path().exists());
    // Its processes end after seven requests, and take the connections with them.
    in_parallel(200, |number| {
        let seen = server.get(&format!("/server.php/info?n={number}")).expect(200).json();
        assert_eq!(seen["QUERY_STRING"], format!("n={number}"));
        assert_eq!(seen["PATH_INFO"], "/info");
    });
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    server.get("/none.php").expect(404);
}

/// php-fpm is killed and comes back while requests are under way: no repeatable request notices its
/// recycled processes.
#[test]
fn php_fpm_recycles_its_processes() {
    let server = Setup::new(Kind::Fastcgi).workers(3).fpm_line("pm.max_requests = 5").start();
    in_parallel(400, |_| assert_eq!(server.text("/hello.php"), "Hello from PHP"));
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}
