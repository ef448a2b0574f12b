//! The memory of connections that nobody uses: they give their buffers back, and later ones get
//! them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::harness::{Kind, Setup};
use crate::layers::root;
use crate::operate::status;
use crate::tls::{Folder, secured_in};

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
    let mut clients = Command::new("/usr/bin/python3")
        .arg("-B")
        .arg(root().join("tests/it/idle.py"))
        .args([&*address.port().to_string(), &front, scheme])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
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

#[test]
fn plain() {
    later_ones_get_the_buffers_of_idle_ones("http", 0.6);
}

#[test]
fn tls() {
    later_ones_get_the_buffers_of_idle_ones("https", 0.75);
}
