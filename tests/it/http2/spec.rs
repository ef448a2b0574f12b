//! h2spec: the cases of RFC 7540 and of header compression, one by one.

use std::process::Command;

use crate::harness::{Kind, Setup, fetched};

/// What h2spec says of a server on this port; `None` without h2spec.
pub fn run(port: u16, arguments: &[&str]) -> Option<String> {
    let program = fetched("h2spec", "h2spec")?;
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
    assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
}
