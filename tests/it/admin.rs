//! The admin listener: what it shows, what it changes, and for whom.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, eventually, free_address, get, program, tests};
use crate::operate::{configuration, operated, pid_in, status, status_when, worker_pids};

const TOKEN: &str = "0123456789abcdef";

/// A server with its admin listener on a Unix socket.
fn on_a_socket(setup: Setup) -> Server {
    let server = setup.line("admin = \"unix:admin.sock\"").start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    server
}

/// A server with its admin listener on a port, and that port.
fn on_a_port(lines: &str) -> (Server, u16) {
    let port = free_address().port();
    let line = format!("admin = \"127.0.0.1:{port}\"\n{lines}");
    (operated(Kind::Classic).line(&line).start(), port)
}

/// Long enough for a busy machine; a test that waits for it has failed.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn socket(server: &Server) -> UnixStream {
    let socket = server.places.top().join("admin.sock");
    let stream = UnixStream::connect(socket).expect("the admin listener");
    stream.set_read_timeout(PATIENCE).unwrap();
    stream
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin listener");
    stream.set_read_timeout(PATIENCE).unwrap();
    stream
}

/// Status and body of the response to a request without a body.
fn ask<S: Read + Write>(mut stream: S, request: &str, fields: &str) -> (u16, String) {
    let head =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{head:?}")), body.to_owned())
}

#[test]
fn shows_what_the_status_shows() {
    let server = on_a_socket(operated(Kind::Classic));
    assert_eq!(ask(socket(&server), "GET /live", ""), (200, "live\n".into()));
    assert_eq!(ask(socket(&server), "GET /ready", ""), (200, "ready\n".into()));
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    let (code, body) = ask(socket(&server), "GET /status", "");
    let shown: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{code} {body}"));
    let asked = status(&server);
    for key in ["pid", "front_pid", "generation", "listen"] {
        assert_eq!(shown[key], asked[key]);
    }
    assert_eq!(worker_pids(&shown), worker_pids(&asked));
    let file = std::fs::metadata(server.places.top().join("admin.sock")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

/// Longer than a message between the processes.
#[test]
fn shows_a_long_status_whole() {
    let server = operated(Kind::Classic).workers(120).line("admin = \"unix:admin.sock\"").start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 120);
    let (_, body) = ask(socket(&server), "GET /status", "");
    let shown: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
    assert_eq!(worker_pids(&shown), worker_pids(&status(&server)));
    assert!(body.len() > 16 * 1024, "{} bytes", body.len());
}

#[test]
fn changes_what_it_is_asked_to() {
    let server = on_a_socket(operated(Kind::Worker));
    let before = pid_in(&server.text("/index.php"));
    // The front that was asked is not the one that serves when the answer comes.
    let (code, body) = ask(socket(&server), "POST /reload", "");
    assert_eq!((code, &body[..]), (200, "generation 2 serves\n"));
    let between = pid_in(&server.text("/index.php"));
    assert_ne!(before, between);
    let (code, body) = ask(socket(&server), "POST /reload?site=localhost", "");
    assert_eq!((code, &body[..]), (200, "new processes serve localhost\n"));
    let after = status_when(&server, "a renewal", |status| status["pools"][0]["renewals"] == 1);
    assert!(!worker_pids(&after).contains(&between));

    let (code, body) = ask(socket(&server), "POST /reload?site=nobody", "");
    assert!(code == 503 && body.contains("no site `nobody`"), "{code} {body}");
    let (code, body) = ask(socket(&server), "POST /purge?all", "");
    assert!(code == 503 && body.contains("cache = true"), "{code} {body}");
    let (code, body) = ask(socket(&server), "POST /drain?upstream=a&address=127.0.0.1:1", "");
    assert!(code == 503 && body.contains("no upstream `a`"), "{code} {body}");
}

/// Makes workers that do not boot any more.
fn break_boot(server: &Server) {
    let script = server.places.root().join("worker.php");
    std::fs::write(&script, "<?php exit('no boot');").unwrap();
    for pid in worker_pids(&status(server)) {
        crate::operate::kill("KILL", pid);
    }
}

/// Waits until the server is not ready because of this.
fn not_ready(server: &Server, why: &str) {
    let not_ready = || {
        let (code, body) = ask(socket(server), "GET /ready", "");
        (code == 503 && body.contains(why)).then_some(())
    };
    assert!(eventually(Duration::from_secs(20), not_ready).is_some(), "{:#}", status(server));
    assert_eq!(ask(socket(server), "GET /live", "").0, 200);
}

/// Waits until the server is ready.
fn ready(server: &Server) {
    let ready = || (ask(socket(server), "GET /ready", "").0 == 200).then_some(());
    assert!(eventually(Duration::from_secs(20), ready).is_some(), "{:#}", status(server));
}

#[test]
fn says_why_the_server_is_not_ready() {
    let server = on_a_socket(operated(Kind::Worker));
    break_boot(&server);
    not_ready(&server, "do not boot");
}

/// A balancer sends no requests to a server that is not ready: it has to find out by itself that
/// all is well again.
#[test]
fn a_pool_on_demand_is_not_ready_until_its_workers_boot() {
    let setup = operated(Kind::Worker).site_line("pool.manager = \"ondemand\"");
    let server = setup.line("admin = \"unix:admin.sock\"").start();
    ready(&server);
    server.get("/index.php").expect(200);
    let script = server.places.root().join("worker.php");
    let good = std::fs::read(&script).unwrap();
    break_boot(&server);
    server.get("/index.php").expect(503);
    not_ready(&server, "do not boot");
    std::fs::write(&script, good).unwrap();
    ready(&server);
    server.get("/index.php").expect(200);
}

#[test]
fn a_sealed_boot_that_hangs_keeps_no_other_site_waiting() {
    let root = tests().join("sites/operated");
    let other = format!("[[site]]\nhost = 'other.example'\nroot = '{}'\n", root.display());
    let setup = operated(Kind::Sealed).boot("hangs.php").more(&other);
    let server = setup.line("admin = \"unix:admin.sock\"").start();
    server.send(&get("/index.php").header("Host", "other.example")).expect(200);
    not_ready(&server, "the application still boots");
    not_ready(&server, "hangs.php");
    std::fs::write(server.state_file("go"), "").unwrap();
    ready(&server);
    server.get("/index.php").expect(200);
}

/// The reason names sites, scripts and how they fail.
#[test]
fn says_why_only_to_those_who_may_look() {
    let port = free_address().port();
    let server = operated(Kind::Worker)
        .line(&format!("admin = \"127.0.0.1:{port}\"\nadmin_token = \"{TOKEN}\""))
        .start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    break_boot(&server);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let not_ready = || {
        let (code, body) = ask(connect(port), "GET /ready", &right);
        (code == 503 && body.contains("do not boot")).then_some(())
    };
    assert!(eventually(Duration::from_secs(20), not_ready).is_some(), "{:#}", status(&server));
    for fields in ["", "Authorization: Bearer 0123456789abcdeX\r\n"] {
        assert_eq!(ask(connect(port), "GET /ready", fields), (503, "not ready\n".into()));
    }
}

/// A balancer must not leave a machine out because its only worker is replaced.
#[test]
fn is_ready_while_a_worker_is_renewed() {
    let setup = operated(Kind::Worker).workers(1).site_line("pool.max_requests = 1");
    let server = setup.line("admin = \"unix:admin.sock\"").start();
    status_when(&server, "the worker", |status| status["pools"][0]["idle"] == 1);
    let boot = server.places.root().join("worker.php");
    let script = std::fs::read_to_string(&boot).unwrap();
    // Its successor takes its time.
    std::fs::write(&boot, script.replacen("<?php", "<?php usleep(300_000);", 1)).unwrap();
    for _ in 0..5 {
        server.get("/index.php").expect(200);
        let starts = |status: &Value| {
            let workers = status["pools"][0]["workers"].as_array().cloned().unwrap_or_default();
            workers.iter().all(|worker| worker["state"] == "starting")
        };
        status_when(&server, "no worker that serves", starts);
        assert_eq!(ask(socket(&server), "GET /ready", ""), (200, "ready\n".into()));
    }
}

/// With no time for requests that still run, there is some for the answer to a reload.
#[test]
fn a_reload_is_answered_even_if_nothing_is_drained() {
    let server = on_a_socket(operated(Kind::Classic).line("timeouts.drain = 0"));
    for generation in 2..5 {
        let expected = format!("generation {generation} serves\n");
        assert_eq!(ask(socket(&server), "POST /reload", ""), (200, expected));
    }
}

#[test]
fn without_a_token_this_machine_may_look() {
    let (server, port) = on_a_port("");
    // But not what visitors typed.
    server.get("/index.php?token=visitors");
    assert!(status(&server).to_string().contains("/index.php?token=visitors"));
    for path in ["/status", "/dashboard.json"] {
        let (code, body) = ask(connect(port), &format!("GET {path}"), "");
        assert!(code == 200 && body.contains("\"/index.php\""), "{path}: {code} {body}");
        assert!(!body.contains("visitors"), "{path}: {body}");
    }
    // A page in a browser whose name leads here.
    let foreign = ask(connect(port), "GET /status", "Host: a.example\r\n");
    assert!([400, 403].contains(&foreign.0), "{foreign:?}");
    let (code, body) = ask(connect(port), "POST /reload", "");
    assert!(code == 403 && body.contains("admin_token"), "{code} {body}");
    assert_eq!(status(&server)["generation"], 1);
}

#[test]
fn with_a_token_requests_without_it_are_refused() {
    let (_server, port) = on_a_port(&format!("admin_token = \"{TOKEN}\""));
    assert_eq!(ask(connect(port), "GET /live", "").0, 200);
    for fields in ["", "Authorization: Bearer 0123456789abcdeX\r\n", "Authorization: Basic x\r\n"] {
        for request in ["GET /status", "POST /reload"] {
            assert_eq!(ask(connect(port), request, fields).0, 401, "{request} {fields}");
        }
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(connect(port), "GET /status", &right).0, 200);
    let (code, body) = ask(connect(port), "POST /reload", &right);
    assert_eq!((code, &body[..]), (200, "generation 2 serves\n"));
}

#[test]
fn bad_requests_do_not_disturb_others() {
    let server = on_a_socket(operated(Kind::Classic));
    for (request, code) in [
        ("GET /index.html", 404),
        ("POST /", 405),
        ("GET /reload", 405),
        ("POST /status", 405),
        ("POST /reload?what=a", 400),
        ("POST /reload?site=a%0Astop", 400),
        ("POST /purge", 400),
        ("nonsense", 400),
    ] {
        assert_eq!(ask(socket(&server), request, "").0, code, "{request}");
    }
    server.get("/index.php").expect(200);
}

/// More connections than there may be: some say nothing, some stop in the middle, some keep theirs.
#[test]
fn clients_without_a_right_do_not_starve_others() {
    let (_server, port) = on_a_port(&format!("admin_token = \"{TOKEN}\""));
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let begun = |text: &str| {
        let mut stream = connect(port);
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let kept = format!("GET /status HTTP/1.1\r\nHost: localhost\r\n{right}\r\n");
    let _silent: Vec<TcpStream> = (0..100).map(|_| begun("")).collect();
    let _unfinished: Vec<TcpStream> =
        (0..100).map(|_| begun("GET /status HTTP/1.1\r\nHost: lo")).collect();
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let mut stream = begun(&kept);
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        idle.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(ask(connect(port), "GET /live", "").0, 200);
        assert_eq!(ask(connect(port), "GET /ready", "").0, 200);
        assert_eq!(ask(connect(port), "GET /status", &right).0, 200);
    }
    assert_eq!(ask(connect(port), "POST /reload", &right).0, 200);
}

/// Whatever a client does or leaves undone, without a whole request its connection ends.
#[test]
fn silent_and_slow_clients_are_closed() {
    let (_server, port) = on_a_port("");
    let (mut silent, mut slow) = (connect(port), connect(port));
    slow.set_nonblocking(true).unwrap();
    slow.write_all(b"GET /live HTTP/1.1\r\nx: ").unwrap();
    let is_closed = || {
        let sent = slow.write_all(b"x");
        let read = slow.read(&mut [0; 100]);
        let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        (sent.is_err() || !read.is_err_and(waits)).then_some(())
    };
    assert!(eventually(Duration::from_secs(30), is_closed).is_some());
    // It came first.
    assert_eq!(silent.read(&mut [0; 100]).unwrap(), 0);
}

/// What they have asked for is answered to nobody; there is a bound for it, and room afterwards.
#[test]
fn clients_that_go_away_do_not_disturb_others() {
    let server = on_a_socket(operated(Kind::Classic));
    let front = status(&server)["front_pid"].clone();
    for _ in 0..300 {
        let mut stream = socket(&server);
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    let is_answered = || (ask(socket(&server), "GET /status", "").0 == 200).then_some(());
    assert!(eventually(Duration::from_secs(20), is_answered).is_some());
    assert_eq!(ask(socket(&server), "GET /ready", "").0, 200);
    assert_eq!(status(&server)["front_pid"], front);
}

/// A stranger's probes neither use up the supervisor's patience nor stand in the way of others.
#[test]
fn aborted_probes_do_not_disturb_others() {
    let server = on_a_socket(operated(Kind::Classic));
    for _ in 0..300 {
        let mut stream = socket(&server);
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    assert_eq!(ask(socket(&server), "GET /ready", ""), (200, "ready\n".into()));
    assert_eq!(ask(socket(&server), "GET /status", "").0, 200);
    assert!(!server.log().contains("asks more"), "{}", server.log());
}

/// Who makes it reachable is told what is missing.
#[test]
fn other_machines_need_a_token() {
    let server = operated(Kind::Classic).start();
    let path = configuration(&server);
    let text = std::fs::read_to_string(&path).unwrap();
    for (lines, complaint) in [
        ("admin = \"0.0.0.0:9080\"", "set `admin_token`"),
        ("admin = \"[::]:9080\"", "set `admin_token`"),
        ("admin = \":9080\"", "set `admin_token`"),
        ("admin = \"srv:admin\"", "`srv:admin` is not an address"),
        ("admin_token = \"0123456789abcdef\"", "`admin`, which is not set"),
        ("admin = \"127.0.0.1:9080\"\nadmin_token = \"short\"", "16 characters"),
    ] {
        std::fs::write(&path, format!("{lines}\n{text}")).unwrap();
        let check = std::process::Command::new(program())
            .args(["check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(!check.status.success() && said.contains(complaint), "{lines}: {said}");
    }
}
