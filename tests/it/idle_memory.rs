//! The memory of connections that nobody uses: they give their buffers back, and later ones get
//! them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Kind, Setup, eventually};
use crate::layers::root;
use crate::operate::status;
use crate::tls::{Folder, secured_in};

/// Clients that ask once and stay; see `idle.py`.
fn clients(arguments: &[&str]) -> Child {
    Command::new("/usr/bin/python3")
        .arg("-B")
        .arg(root().join("tests/it/idle.py"))
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs")
}

/// Connections that come when the first ones have been idle for a while cost less than those did,
/// since they get their buffers. The allocator gives little of it back to the system, so that the
/// process has become smaller could not be told.
///
/// `part`: of what the first ones cost. Without buffers that are given back it is nine tenths.
fn later_ones_get_the_buffers_of_idle_ones(scheme: &str, part: f64) {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    let setup = Setup::new(Kind::Classic).workers(1);
    let secured = secured_in(folder, setup, &["loops = 1"], &[]);
    let address = if scheme == "https" { secured.address } else { secured.server.address };
    let front = status(&secured.server)["front_pid"].to_string();
    let mut clients = clients(&[&address.port().to_string(), &front, scheme]);
    let mut costs: Vec<f64> = Vec::new();
    for line in BufReader::new(clients.stdout.take().unwrap()).lines() {
        costs.push(line.unwrap().parse().unwrap());
        // Several in a row, because one could just meet pages that the allocator has left.
        let enough = |last: &[f64]| last.iter().sum::<f64>() < 3.0 * part * costs[0];
        if costs[1..].windows(3).any(enough) {
            let _ = clients.kill();
            let _ = clients.wait();
            return;
        }
    }
    let _ = clients.wait();
    panic!("bytes for each connection, by hundreds: {costs:?}");
}

/// The memory that a process has for itself, in KiB.
pub fn anonymous(pid: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

/// A C library has most of what a connection over HTTP/2 needs, and the C library's allocator keeps
/// two thirds of that when all of them have gone, unless it is told to give it back.
#[test]
fn a_crowd_that_has_gone_leaves_little() {
    let server = Setup::new(Kind::Classic).workers(1).start();
    server.get("/hello.php").expect(200);
    let front = status(&server)["front_pid"].to_string();
    let before = anonymous(&front);
    let mut clients = clients(&[&server.address.port().to_string(), &front, "h2"]);
    let lines = BufReader::new(clients.stdout.take().unwrap()).lines();
    assert_eq!(lines.map_while(Result::ok).take(9).count(), 9);
    let held = anonymous(&front) - before;
    let _ = clients.kill();
    let _ = clients.wait();
    let left = || Some(anonymous(&front) - before).filter(|left| *left < held / 3.0);
    assert!(
        eventually(Duration::from_secs(60), left).is_some(),
        "{before} KiB, {held} more, and still {}",
        anonymous(&front)
    );
}

#[test]
fn plain() {
    later_ones_get_the_buffers_of_idle_ones("http", 0.6);
}

#[test]
fn tls() {
    later_ones_get_the_buffers_of_idle_ones("https", 0.75);
}
