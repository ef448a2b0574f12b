//! What an operator does with a running server: ask it, reload it, change its configuration.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually, program};

/// The site whose scripts do what these tests need.
pub fn operated(kind: Kind) -> Setup {
    Setup::new(kind).site("sites/operated")
}

/// Runs `tokamak COMMAND… --control …` on this server.
pub fn command(server: &Server, words: &[&str]) -> Output {
    let control = server.places.top().join("control");
    Command::new(program())
        .args(words)
        .arg("--control")
        .arg(control)
        .output()
        .expect("tokamak can be started")
}

/// `tokamak reload`: what it printed, or its complaint.
pub fn reload(server: &Server) -> Result<String, String> {
    let output = command(server, &["reload"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// `tokamak status --json`. Workers say themselves that they are ready, perhaps a moment before the
/// supervisor hears from the zygote which processes they are: that moment is waited for.
#[track_caller]
pub fn status(server: &Server) -> serde_json::Value {
    let has_pid = |worker: &serde_json::Value| worker["state"] == "starting" || worker["pid"] != 0;
    let is_whole = |status: &serde_json::Value| {
        let pools = status["pools"].as_array().into_iter().flatten();
        pools.flat_map(|pool| pool["workers"].as_array().into_iter().flatten()).all(has_pid)
    };
    let whole = || Some(status_now(server)).filter(&is_whole);
    eventually(Duration::from_secs(20), whole).unwrap_or_else(|| status_now(server))
}

#[track_caller]
fn status_now(server: &Server) -> serde_json::Value {
    let output = command(server, &["status", "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Waits until the status looks right, and returns it.
#[track_caller]
pub fn status_when(
    server: &Server,
    what: &str,
    right: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let found = eventually(Duration::from_secs(20), || Some(status(server)).filter(&right));
    found.unwrap_or_else(|| panic!("the status never shows {what}: {:#}", status(server)))
}

/// Process ids of the first site's workers; one that is about to start has none yet.
pub fn worker_pids(status: &serde_json::Value) -> Vec<u64> {
    let workers = status["pools"][0]["workers"].as_array().expect("a list of workers");
    let pids = workers.iter().map(|worker| worker["pid"].as_u64().expect("a pid"));
    pids.filter(|pid| *pid != 0).collect()
}

/// Sends a signal, by name, to any process.
pub fn kill(signal: &str, pid: u64) {
    assert!(pid > 1, "not a process to kill: {pid}");
    Command::new("sh").args(["-c", &format!("kill -s {signal} {pid}")]).status().expect("sh runs");
}

/// Stops a process, and waits until all of its threads have stopped: until then one of them may
/// still accept a connection.
pub fn stop(pid: u64) {
    kill("STOP", pid);
    let is_stopped = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before it may have blanks and parentheses.
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 't']))
    };
    let all = || {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        threads.all(is_stopped).then_some(())
    };
    assert!(eventually(Duration::from_secs(20), all).is_some(), "process {pid} does not stop");
}

/// The configuration file of a server.
pub fn configuration(server: &Server) -> PathBuf {
    server.places.top().join("tokamak.toml")
}

/// Replaces a text in the configuration; it must be there.
#[track_caller]
pub fn configure(server: &Server, from: &str, to: &str) {
    let text = fs::read_to_string(configuration(server)).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    fs::write(configuration(server), text.replace(from, to)).unwrap();
}

/// Replaces a text in a script of the site; it must be there.
#[track_caller]
pub fn edit(server: &Server, script: &str, from: &str, to: &str) {
    let path = server.places.root().join(script);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// The process id at the end of a response of the site.
pub fn pid_in(text: &str) -> u64 {
    text.rsplit(' ')
        .next()
        .and_then(|last| last.parse().ok())
        .unwrap_or_else(|| panic!("no pid in {text:?}"))
}
