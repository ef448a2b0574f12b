//! HTTP/2 over TLS, which clients choose in the handshake (ALPN).

use std::fs;
use std::process::Command;

use crate::harness::{Kind, numbered};
use crate::operate::operated;
use crate::tls::{Folder, Secured, secured, secured_in};

use super::client::{PATIENCE, Target, runtime};
use super::{load, spec};

#[test]
fn clients_choose_it_in_the_handshake() {
    let secured = secured(Kind::Classic, &["log.access = \"-\""], &[]);
    let vars = secured.server_vars(&["--http2"]);
    assert_eq!(vars["SERVER_PROTOCOL"], "HTTP/2.0");
    assert_eq!(vars["HTTPS"], "on");
    assert_eq!(vars["REQUEST_SCHEME"], "https");
    assert_eq!(vars["HTTP_HOST"], format!("localhost:{}", secured.address.port()));
    secured.server.log_line(&["\"GET /server.php HTTP/2.0\" 200"]);
    assert_eq!(secured.server_vars(&["--http1.1"])["SERVER_PROTOCOL"], "HTTP/1.1");
    let version = ["-o", "/dev/null", "-w", "%{http_version}"];
    assert_eq!(secured.text("/hello.php", &version), "2", "without being asked");
}

#[test]
fn it_can_be_switched_off() {
    let secured = secured(Kind::Classic, &["http2.enabled = false"], &[]);
    assert_eq!(secured.server_vars(&["--http2"])["SERVER_PROTOCOL"], "HTTP/1.1");
}

#[test]
fn bodies_and_interim_responses() {
    let secured = secured(Kind::Classic, &[], &[]);
    let large = numbered(3_000_000);
    fs::write(secured.server.places.root().join("static.txt"), &large).unwrap();
    let file = secured.server.places.root().join("static.txt");
    assert!(secured.text("/static.txt", &[]).as_bytes() == large);
    let upload = format!("@{}", file.display());
    assert!(secured.text("/echo.php", &["--data-binary", &upload]).as_bytes() == large);
    let head = secured.text("/early_hints.php", &["-D", "-"]);
    assert!(head.starts_with("HTTP/2 103"), "{head}");
}

#[test]
fn every_case_passes() {
    let secured = secured(Kind::Classic, &[], &[]);
    let Some(text) = spec::run(secured.address.port(), &["-t", "-k"]) else { return };
    assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
}

#[test]
fn h2load_gets_all_answers() {
    let secured = secured(Kind::Classic, &[], &[]);
    let output = Command::new("timeout")
        .args(["60", "h2load", "-n", "2000", "-c", "8", "-m", "10"])
        .arg(format!("https://{}/hello.php", secured.address))
        .output()
        .expect("h2load runs (Debian's package nghttp2-client)");
    load::is_complete(&String::from_utf8_lossy(&output.stdout));
}

/// A folder with a certificate that our own client takes.
pub fn folder() -> Folder {
    let folder = Folder::new();
    // Not an authority: the client takes none for a server.
    let kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -addext basicConstraints=CA:FALSE";
    folder.made_with("localhost", &["localhost"], &kind.split(' ').collect::<Vec<_>>());
    folder
}

/// A server with such a certificate, and with these options.
fn trusted(lines: &[&str]) -> (Secured, Target) {
    let folder = folder();
    let secured = secured_in(folder, operated(Kind::Classic), lines, &[]);
    let target = Target::secured(secured.address, &secured.folder.path("localhost.pem"));
    (secured, target)
}

/// The time for a head holds, not the one for idle connections.
#[test]
fn a_client_that_says_nothing() {
    let (_secured, target) = trusted(&["timeouts.head = \"500ms\"", "timeouts.idle = \"10m\""]);
    let silence = async { tokio::time::timeout(PATIENCE, target.say_nothing()).await };
    runtime().block_on(silence).expect("closed in time").expect("a handshake");
}

#[test]
fn a_reload_loses_no_request() {
    let (secured, target) = trusted(&["timeouts.drain = \"20s\""]);
    load::loses_no_request(&secured.server, target.clone());
    let resumes = runtime().block_on(target.resumes()).expect("a connection");
    assert!(resumes, "sessions are resumed after reloads");
}
