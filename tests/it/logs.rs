//! The access log: one line a request, in the form that was asked for.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Kind, Request, Server, Setup, eventually, get, in_parallel};
use crate::metrics;
use crate::operate::{kill, operated, status, status_when, worker_pids};

/// A server with an access log of this format; the path is relative to the configuration's.
fn start(format: &str) -> Server {
    let setup = Setup::new(Kind::Classic).line("log.access = \"state/access.log\"");
    setup.line(&format!("log.access_format = \"{format}\"")).start()
}

/// Waits until the log has this many lines of `target`.
fn lines(server: &Server, target: &str, count: usize) -> Vec<String> {
    lines_of(server, "access.log", target, count)
}

/// As [`lines`], of another log.
fn lines_of(server: &Server, log: &str, target: &str, count: usize) -> Vec<String> {
    let read = || {
        let text = std::fs::read_to_string(server.state_file(log)).unwrap_or_default();
        let lines: Vec<String> =
            text.lines().filter(|line| line.contains(target)).map(str::to_string).collect();
        (lines.len() >= count).then_some(lines)
    };
    eventually(Duration::from_secs(20), read)
        .unwrap_or_else(|| panic!("less than {count} lines of {target}"))
}

#[test]
fn combined() {
    let server = start("combined");
    let request = get("/hello.php?a=1")
        .header("Referer", "http://from.test/")
        .header("User-Agent", "a \"test\"");
    server.send(&request).expect(200);
    let line = lines(&server, "/hello.php?a=1", 1).remove(0);
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(
        line.contains("\"GET /hello.php?a=1 HTTP/1.1\" 200 14 \"http://from.test/\" \"a "),
        "{line}"
    );
    // What the client chose cannot end its field or the line.
    assert!(!line.contains("\"a \"test\"\""), "{line}");

    server.send(&get("/server.php?b").basic_auth("somebody:secret")).expect(200);
    let line = lines(&server, "/server.php?b", 1).remove(0);
    assert!(line.starts_with("127.0.0.1 - somebody ["), "{line}");
    server.send(&Request::new("HEAD", "/missing.txt")).expect(404);
    let line = lines(&server, "/missing.txt", 1).remove(0);
    assert!(line.contains("\"HEAD /missing.txt HTTP/1.1\" 404 "), "{line}");
}

#[test]
fn json() {
    let server = start("json");
    server.send(&get("/hello.php?a=1").header("User-Agent", "a \"test\" ü")).expect(200);
    let line = lines(&server, "/hello.php", 1).remove(0);
    let entry: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    for (key, value) in [
        ("client", "127.0.0.1"),
        ("host", "localhost"),
        ("method", "GET"),
        ("target", "/hello.php?a=1"),
        ("protocol", "HTTP/1.1"),
        ("agent", "a \"test\" ü"),
    ] {
        assert_eq!(entry[key], value, "{key} in {line}");
    }
    assert_eq!((&entry["status"], &entry["bytes"]), (&200.into(), &14.into()), "{line}");
    let phases = entry["phases_us"].as_object().expect("the phases of the request");
    let sum: f64 = phases.values().map(|phase| phase.as_f64().unwrap()).sum();
    let total = entry["duration_us"].as_f64().unwrap();
    assert!(phases.contains_key("php") && (sum - total).abs() < 0.05 * total + 10.0, "{line}");
}

/// Each site may have a log of its own, in its own shape, or none.
#[test]
fn sites_have_logs_of_their_own() {
    let site = |host: &str, lines: &str| {
        format!("[[site]]\nhost = \"{host}\"\nroot = \"$ROOT\"\nmode = \"classic\"\n{lines}\n")
    };
    let sites = [
        site("all.test", ""),
        site("shop.test", "access_log = \"state/shop.log\"\naccess_format = \"json\""),
        site("blog.test", "access_log = \"state/access.log\""),
        site("quiet.test", "access_log = \"off\""),
        site("shop.test", "path = \"/tool\""),
    ];
    let setup = Setup::new(Kind::Classic).line("log.access = \"state/access.log\"");
    let mut server = setup.sites(&sites.concat()).start();
    let ask = |server: &Server, host: &str, target: &str| {
        server.send(&get(target).header("Host", host)).expect(200);
    };
    for host in ["all.test", "blog.test", "quiet.test", "shop.test"] {
        ask(&server, host, &format!("/hello.php?of={host}"));
    }
    ask(&server, "shop.test", "/tool/hello.php?of=tool");

    let line = lines_of(&server, "shop.log", "of=shop.test", 1).remove(0);
    let entry: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    assert_eq!((&entry["host"], &entry["site"]), (&"shop.test".into(), &"shop.test".into()));
    lines_of(&server, "shop.log", "of=tool", 1);
    for host in ["all.test", "blog.test"] {
        assert!(lines(&server, &format!("of={host}"), 1)[0].starts_with("127.0.0.1 - - ["));
    }

    // Moved away, each is opened anew.
    for log in ["access.log", "shop.log"] {
        let path = server.state_file(log);
        std::fs::rename(&path, path.with_extension("old")).unwrap();
    }
    let pid = server.main_process().pid();
    kill("USR1", pid.into());
    server.log_line(&["log files are reopened"]);
    ask(&server, "all.test", "/hello.php?after=all");
    ask(&server, "shop.test", "/hello.php?after=shop");
    lines(&server, "after=all", 1);
    lines_of(&server, "shop.log", "after=shop", 1);

    server.main_process().signal("TERM");
    assert!(server.main_process().wait(Duration::from_secs(20)).is_some(), "it ends");
    let read = |log: &str| std::fs::read_to_string(server.state_file(log)).unwrap();
    for (log, own, count) in [
        ("access.old", "of=", 2),
        ("shop.old", "of=", 2),
        ("access.log", "after=", 1),
        ("shop.log", "after=", 1),
    ] {
        let text = read(log);
        assert_eq!((text.matches(own).count(), text.lines().count()), (count, count), "{text}");
    }
}

/// Its code, the access log and the error log say the same.
#[test]
fn a_request_has_one_name() {
    let server = start("json");
    let id = server.get("/request_id.php").expect(200).text().to_owned();
    let line = lines(&server, "/request_id.php", 1).remove(0);
    let entry: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(entry["id"], id.as_str(), "{line}");
    let line = server.log_line(&["logged"]);
    assert!(line.ends_with(&format!(" id=\"{id}\"")), "{line}");
    // What PHP has not seen has none.
    server.get("/missing.txt").expect(404);
    let line = lines(&server, "/missing.txt", 1).remove(0);
    assert!(!line.contains("\"id\""), "{line}");
}

/// The time of a script is its own, also if it comes to nothing.
#[test]
fn json_of_a_script_that_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("loop.lua");
    std::fs::write(&script, "while true do end").expect("a script");
    let setup = Setup::new(Kind::Classic).line("log.access = \"state/access.log\"");
    let setup = setup.line("log.access_format = \"json\"");
    let server = setup.site_line(&format!("lua_raw_url = [\"{}\"]", script.display())).start();
    server.get("/endless").expect(503);
    let line = lines(&server, "/endless", 1).remove(0);
    let entry: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let total = entry["duration_us"].as_f64().unwrap();
    let script = entry["phases_us"]["script"].as_f64().unwrap_or(0.0);
    assert!(total > 100_000.0 && script > 0.9 * total, "{line}");
}

/// A request without a response spent its time where it waited, not in sending the error.
#[test]
fn json_of_requests_that_fail() {
    let setup = operated(Kind::Classic).workers(1).line("log.access = \"state/access.log\"");
    let setup = setup.line("log.access_format = \"json\"");
    let setup = setup.site_line("pool.request_timeout = \"2s\"");
    let server = setup.site_line("pool.queue_timeout = \"500ms\"").start();
    std::thread::scope(|scope| {
        scope.spawn(|| server.get("/index.php?do=wait&n=30000").expect(504));
        status_when(&server, "a busy worker", |status| status["pools"][0]["busy"] == 1);
        server.get("/index.php?queued").expect(503);
    });
    for (target, phase) in [("n=30000", "php"), ("?queued", "queue")] {
        let line = lines(&server, target, 1).remove(0);
        let entry: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let total = entry["duration_us"].as_f64().unwrap();
        let spent = entry["phases_us"][phase].as_f64().unwrap_or(0.0);
        assert!(total > 400_000.0 && spent > 0.9 * total, "{line}");
    }
}

#[test]
fn every_request_has_its_line() {
    let server = start("combined");
    in_parallel(200, |number| {
        server.get(&format!("/hello.php?number={number}")).expect(200);
    });
    let mut seen = lines(&server, "/hello.php?number=", 200);
    seen.sort();
    seen.dedup_by_key(|line| line.split('"').nth(1).map(str::to_string));
    assert_eq!(seen.len(), 200);
}

/// A server that is told to stop writes what it still holds.
#[test]
fn nothing_is_lost_at_the_end() {
    let mut server = start("combined");
    for number in 0..20 {
        server.get(&format!("/hello.php?last={number}")).expect(200);
    }
    server.main_process().signal("TERM");
    assert!(
        server.main_process().wait(Duration::from_secs(20)).is_some(),
        "the server does not end"
    );
    let text = std::fs::read_to_string(server.state_file("access.log")).unwrap();
    assert_eq!(text.matches("/hello.php?last=").count(), 20, "{text}");
}

/// Standard error of a server, as a pipe that this test reads when it wants to.
struct Pipe(File);

impl Pipe {
    /// A named pipe in this folder; it is open for reading, so that the server can open it.
    fn new(path: &std::path::Path) -> Pipe {
        assert!(Command::new("mkfifo").arg(path).status().expect("coreutils are there").success());
        let mut options = OpenOptions::new();
        let pipe = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
        Pipe(pipe.expect("the pipe can be opened"))
    }

    /// Fills it to the last byte, as one that nobody reads does in the end.
    fn fill(&mut self) {
        for piece in [4096, 1] {
            while self.0.write(&vec![b'.'; piece]).is_ok() {}
        }
    }

    /// All that can be read now.
    fn drain(&mut self) -> String {
        let mut bytes = Vec::new();
        // The read ends with an error once the pipe is empty.
        let _ = self.0.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How many lines an error log says that it lost.
fn lost(log: &str) -> usize {
    let counts = log.lines().filter_map(|line| line.split_once("the error log lost "));
    counts.map(|(_, rest)| rest.split(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

/// An error log that nobody reads costs lines in the end, but no request ever waits for it.
#[test]
fn a_full_pipe_holds_up_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("errors");
    let mut pipe = Pipe::new(&path);
    let setup = Setup::new(Kind::Classic).line(&format!("log.error = \"{}\"", path.display()));
    // Each of its requests fails, and is told.
    let upstream = "[[site.route]]\npath = \"/gone\"\nupstream = \"gone\"";
    let nobody = "[[upstream]]\nname = \"gone\"\naddress = \"unix:/nonexistent/socket\"";
    let mut server = setup.line("limits.head = \"64KiB\"").line(nobody).site_line(upstream).start();
    pipe.fill();

    let long = "x".repeat(30_000);
    let ask = |number: usize| {
        let mut connection = server.connect();
        connection.patience(Duration::from_secs(10));
        connection.send(get(&format!("/gone?number={number}&{long}")).bytes());
        connection.response().expect(502);
        server.get("/hello.php").expect(200);
    };
    // More than may wait.
    let count = 150;
    (0..count).for_each(ask);

    let mut log = String::new();
    let written = |log: &str| log.lines().filter(|line| line.contains("/gone?number=")).count();
    let all = eventually(Duration::from_secs(20), || {
        log += &pipe.drain();
        (lost(&log) > 0 && written(&log) + lost(&log) >= count).then_some(())
    });
    assert!(all.is_some(), "{} written, {} lost of {count}", written(&log), lost(&log));
    assert_eq!(written(&log) + lost(&log), count, "each line is written or counted");
    status_when(&server, "the lost lines", |status| status["lost_lines"]["error"] == lost(&log));

    // What still waits is written when the server ends.
    server.get("/gone?last").expect(502);
    server.main_process().signal("TERM");
    let end = eventually(Duration::from_secs(20), || {
        log += &pipe.drain();
        (log.contains("/gone?last") && server.main_process().ended().is_some()).then_some(())
    });
    assert!(end.is_some(), "the last line is written, and the server ends");
}

/// Nor does the supervisor: what scripts write becomes lines that it writes, and meanwhile it goes
/// on to replace processes and to answer.
#[test]
fn a_full_pipe_does_not_stop_the_supervisor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("errors");
    let mut pipe = Pipe::new(&path);
    let log_line = format!("log.error = \"{}\"", path.display());
    let setup = operated(Kind::Classic).workers(1).line(&log_line);
    let mut server = setup.start();
    let complain = "<?php for ($i = 0; $i < 10; $i++) \
        file_put_contents('php://stderr', 'complaint '.str_repeat('x', 8000).\"\\n\");";
    std::fs::write(server.places.root().join("complain.php"), complain).unwrap();
    pipe.fill();

    // More than may wait.
    for _ in 0..40 {
        server.get("/complain.php").expect(200);
    }
    let before = worker_pids(&status(&server));
    kill("KILL", before[0]);
    status_when(&server, "another worker", |status| {
        let now = worker_pids(status);
        !now.is_empty() && now != before && status["pools"][0]["idle"] == 1
    });
    server.get("/complain.php").expect(200);
    let count = 41 * 10;

    let mut log = String::new();
    let written = |log: &str| log.lines().filter(|line| line.contains("complaint")).count();
    let all = eventually(Duration::from_secs(20), || {
        log += &pipe.drain();
        (lost(&log) > 0 && written(&log) + lost(&log) >= count).then_some(())
    });
    assert!(all.is_some(), "{} written, {} lost of {count}", written(&log), lost(&log));
    let whole = |line: &&str| line.contains("complaint") && line.ends_with("x\"");
    assert_eq!(log.lines().filter(whole).count(), written(&log), "a line is written whole or not");

    server.main_process().signal("TERM");
    let end = eventually(Duration::from_secs(20), || {
        log += &pipe.drain();
        (log.contains(" stopped\n") && server.main_process().ended().is_some()).then_some(())
    });
    assert!(end.is_some(), "the last line is written, and the server ends");
}

/// Nor does a script that writes to it, whatever serves it: the line is lost, and counted.
#[test]
fn a_full_pipe_does_not_stop_a_script() {
    for kind in [Kind::Classic, Kind::Worker, Kind::Sealed, Kind::Async] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("errors");
        let mut pipe = Pipe::new(&path);
        let setup = Setup::new(kind).site("sites/logging").workers(2);
        let server = metrics::start(setup.line(&format!("log.error = \"{}\"", path.display())));
        assert_eq!(server.text("/?quiet"), "answered");
        pipe.fill();
        let count = 40;
        in_parallel(count, |_| assert_eq!(server.text("/"), "answered", "{kind:?}"));
        let mut log = pipe.drain();
        assert_eq!(log.matches("complaint").count(), 0, "there was no room");
        // The next lines find room, and say how many did not.
        in_parallel(2, |_| assert_eq!(server.text("/"), "answered"));
        let has_room = eventually(Duration::from_secs(30), || {
            log += &pipe.drain();
            (log.matches("complaint").count() == 4 && lost(&log) > 0).then_some(())
        });
        assert!(has_room.is_some(), "{kind:?}: {log}");
        assert_eq!(lost(&log), 2 * count, "{kind:?}");
        let name = "tokamak_error_log_lines_lost_total{site=\"localhost\"}";
        assert_eq!(metrics::samples(&server)[name], 2.0 * count as f64, "{kind:?}");
        let shown = status(&server);
        assert_eq!(shown["pools"][0]["lost_lines"], 2 * count, "{kind:?}");
        assert!(!log.contains("panicked") && !log.contains("signal"), "{kind:?}: {log}");
    }
}

/// Neither a script nor a program that it starts writes a line that looks like the server's.
#[test]
fn clients_cannot_forge_a_line() {
    let image = |setup: Setup| setup.boot("stray.php");
    let servers: [(&str, Setup); 4] = [
        ("worker ", Setup::new(Kind::Classic)),
        ("worker ", Setup::new(Kind::Worker)),
        ("worker ", Setup::new(Kind::Sealed)),
        ("the zygote ", image(Setup::new(Kind::Sealed))),
    ];
    for (who, setup) in servers {
        let server = setup.start();
        assert_eq!(server.text("/stray.php"), "written");
        for whose in ["the script", "the script's output", "a child", "one that was left"] {
            let forged = format!("ERROR [elsewhere] forged by {whose}\"");
            let line = server.log_line(&[who, "said into std", &forged]);
            assert!(!line.starts_with("2026-01-01") && line.contains(" WARN ["), "{line}");
        }
        let log = server.log();
        assert!(!log.contains('\u{1b}') && log.contains("\\u{1b}[2J"), "{log}");
        assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    }
}

#[test]
fn a_pattern_of_ones_own() {
    let format = "$remote_addr $http_x_a [$time_local] \\\"$request\\\" $status $request_time \
        \\\"$http_x_a\\\"";
    let server = start(format);
    let request = get("/hello.php?a=1").header("X-A", "one\t\"two\" 200");
    server.send(&request).expect(200);
    let line = lines(&server, "/hello.php?a=1", 1).remove(0);
    assert!(line.starts_with("127.0.0.1 one\\x09\\x22two\\x22\\x20200 ["), "{line}");
    let (_, rest) = line.split_once("] ").unwrap();
    let rest = rest.strip_prefix("\"GET /hello.php?a=1 HTTP/1.1\" 200 ").unwrap();
    let (seconds, field) = rest.split_once(' ').unwrap();
    assert!(seconds.parse::<f64>().is_ok_and(|time| time < 100.0), "{line}");
    assert_eq!(field, "\"one\\x09\\x22two\\x22 200\"");
}
