//! `tokamak leaks URL`: a leak of a known size is found in servers of different makes, and pages
//! that leave nothing, or now more and now less, are not accused.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Process, Server, Setup, eventually, free_address, program};

fn leaks(arguments: &[&str]) -> Output {
    let program = program();
    let all = [&["180", program.to_str().unwrap(), "leaks"], arguments].concat();
    Command::new("timeout").args(all).output().unwrap()
}

/// The pages of a server as JSON, and the exit status.
fn pages(server: &mut Server, requests: &str, pages: &[&str]) -> (Vec<Value>, Option<i32>) {
    let first = server.first_process().pid().to_string();
    let urls: Vec<String> =
        pages.iter().map(|page| format!("http://{}/{page}", server.address)).collect();
    let mut arguments: Vec<&str> = urls.iter().map(String::as_str).collect();
    arguments.extend(["--json", "--requests", requests, "--pid", &first]);
    let Output { status, stdout, stderr } = leaks(&arguments);
    let text = String::from_utf8_lossy(&stdout);
    let wrong = String::from_utf8_lossy(&stderr);
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{wrong}"));
    (found["pages"].as_array().unwrap().clone(), status.code())
}

fn server(kind: Kind) -> Setup {
    Setup::new(kind).site("sites/leaks").workers(1).php_admin_value("ffi.enable", "1")
}

/// That this page grows by some bytes a request, within a tenth, and its interval has a part of it.
#[track_caller]
fn grows(page: &Value, bytes: f64) {
    assert_eq!(page["verdict"].as_str(), Some("grows"), "{page:#}");
    let [by, low, high] =
        ["per_request", "per_request_low", "per_request_high"].map(|key| page[key].as_f64());
    assert!((by.unwrap() / bytes - 1.0).abs() < 0.1, "{page:#}");
    assert!(low <= by && by <= high, "{page:#}");
}

/// That none of these pages is called a leak, and the first one, which leaves nothing, is stable;
/// or the server took hardly anything for itself meanwhile, as a cold one does.
#[track_caller]
fn is_accused_of_nothing(pages: &[Value]) {
    for page in pages {
        assert_ne!(page["verdict"].as_str(), Some("grows"), "{page:#}");
    }
    let is_stable = pages[0]["verdict"].as_str() == Some("stable");
    assert!(is_stable || pages[0]["bytes"].as_i64().unwrap() < 1 << 20, "{:#}", pages[0]);
}

#[test]
fn a_library_that_leaks_in_php_fpm_is_found_behind_nginx() {
    let mut server = server(Kind::Peer).workers(2).start();
    // A child of php-fpm grows by a page now and then until it has served some 250 requests.
    let (found, status) = pages(&mut server, "1000", &[""]);
    assert_eq!(status, Some(0), "{found:#?}");
    is_accused_of_nothing(&found);
    let (found, status) = pages(&mut server, "300", &["static.php", "library.php"]);
    assert_eq!(status, Some(1), "{found:#?}");
    is_accused_of_nothing(&found[..1]);
    // With what the C library adds to each piece.
    grows(&found[1], 10_016.0);
    assert!(found[1]["process"].as_str().unwrap().starts_with("php-fpm"), "{:#}", found[1]);
    // nginx, its worker, php-fpm, its two children.
    assert_eq!(found[1]["processes"].as_u64(), Some(5), "{:#}", found[1]);
}

/// A worker that lives on has its statics; `random.php` keeps at most 400 000 bytes of them.
fn statics_that_grow_are_found(kind: Kind) {
    let mut server = server(kind).start();
    let (found, status) = pages(&mut server, "300", &["", "random.php", "static.php"]);
    assert_eq!(status, Some(1), "{found:#?}");
    is_accused_of_nothing(&found[..2]);
    grows(&found[2], 12_288.0);
}

#[test]
fn statics_that_grow_in_worker_mode_are_found() {
    statics_that_grow_are_found(Kind::Worker);
}

#[test]
fn statics_that_grow_in_async_mode_are_found() {
    statics_that_grow_are_found(Kind::Async);
}

#[test]
fn statics_are_gone_after_each_request_in_sealed_mode() {
    let mut server = server(Kind::Sealed).start();
    let (found, status) = pages(&mut server, "300", &["", "random.php", "static.php"]);
    assert_eq!(status, Some(0), "{found:#?}");
    is_accused_of_nothing(&found);
}

#[test]
fn workers_that_are_replaced_are_no_leak_and_no_proof_that_there_is_none() {
    let setup = server(Kind::Peer).fpm_line("pm.max_requests = 25");
    let (found, status) = pages(&mut setup.start(), "300", &["library.php"]);
    assert_eq!(status, Some(0), "{found:#?}");
    assert_eq!(found[0]["verdict"].as_str(), Some("unclear"), "{found:#?}");
}

/// A server in a process of its own, which ends after so many connections, the first of which is
/// the test's own. Each has one answer: a redirect.
const ENDS: &str = "\
import socket, sys
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
for _ in range(int(sys.argv[2])):
    stream = listener.accept()[0]
    stream.recv(4096)
    stream.sendall(b'HTTP/1.1 302 Found\\r\\nLocation: /login\\r\\nConnection: close\\r\\n\\r\\n')
    stream.close()
";

fn that_ends_after(connections: usize, log: &Path) -> (Process, String) {
    let address = free_address();
    let [port, count] = [usize::from(address.port()), connections + 1].map(|n| n.to_string());
    let arguments = ["-c".to_owned(), ENDS.to_owned(), port, count];
    let server = Process::start(Path::new("/usr/bin/python3"), &arguments, &[], log);
    let listens = eventually(Duration::from_secs(20), || TcpStream::connect(address).ok());
    assert!(listens.is_some(), "{}", fs::read_to_string(log).unwrap_or_default());
    (server, format!("http://{address}/"))
}

#[test]
fn a_redirect_is_no_page_that_was_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = that_ends_after(200, &folder.path().join("log"));
    let Output { stdout, stderr, .. } = leaks(&[&url, "--requests", "20"]);
    let (text, wrong) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(text.contains("note: it was answered with status 302, a redirect"), "{text}{wrong}");
}

#[test]
fn errors_name_the_target_that_cannot_be_watched() {
    let unused = format!("http://{}/", free_address());
    let folder = tempfile::tempdir().unwrap();
    let (_server, ends) = that_ends_after(30, &folder.path().join("log"));
    for (arguments, said) in [
        (&[unused.as_str()][..], "name the server by --pid"),
        (&[&ends], "request 31: connection"),
        (&[&unused, "/login"], "/login: after a URL come URLs"),
        (&[&unused, "--root", "."], "--root and --config are for a worker script"),
        (&["worker.php", "--pid", "1"], "--pid and --header are for URLs"),
    ] {
        let Output { status, stdout, stderr } = leaks(arguments);
        let wrong = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(2), "{wrong}");
        assert!(wrong.contains(said) && stdout.is_empty(), "{said} is not in: {wrong}");
    }
}
