//! h2spec: the cases of RFC 7540 and of header compression, one by one.

use std::process::Command;

use crate::harness::{Kind, Setup};
use crate::layers::root;

/// The one case that cannot hold on a plain listener: rubbish instead of the preface is rubbish of
/// HTTP/1 here, and gets an HTTP/1 page before the connection is closed.
const OF_HTTP_1: &str = "Sends invalid connection preface";

/// What h2spec says of a server on this port; `None` without h2spec.
pub fn run(port: u16, arguments: &[&str]) -> Option<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let program = target.join("h2spec/h2spec");
    if !program.exists() {
        eprintln!("not tested: run scripts/fetch-h2spec first");
        return None;
    }
    let output = Command::new("timeout")
        .args(["-k", "5", "300"])
        .arg(program)
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["--strict", "--timeout", "5", "--path", "/hello.php"])
        .args(arguments)
        .output()
        .expect("h2spec runs");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_case_passes() {
    let server = Setup::new(Kind::Classic).start();
    let Some(text) = run(server.address.port(), &[]) else { return };
    let failed: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("× ")).map(|(_, case)| case).collect();
    assert!(failed.iter().all(|case| case.contains(OF_HTTP_1)), "{text}");
    assert!(text.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{text}");
}
