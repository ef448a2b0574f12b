//! A Redis server of one's own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::mariadb::PASSWORD;
use crate::harness::{Process, eventually, free_address};

/// A running server that asks for [`PASSWORD`] and stores nothing.
pub struct Redis {
    /// Before its directory, because fields are dropped in this order.
    process: Process,
    _dir: TempDir,
    port: u16,
}

impl Redis {
    /// Starts a server on a free port.
    pub fn start() -> Redis {
        Redis::start_on(free_address().port())
    }

    /// Starts a server on that port.
    pub fn start_on(port: u16) -> Redis {
        let dir = tempfile::Builder::new().prefix("tokamak-redis-").tempdir().expect("a directory");
        let configuration = dir.path().join("redis.conf");
        let place = dir.path().display();
        let lines = format!(
            "port {port}\nbind 127.0.0.1\nrequirepass \"{PASSWORD}\"\nsave \"\"\ndir {place}\n"
        );
        std::fs::write(&configuration, lines).unwrap();
        let arguments = [configuration.display().to_string()];
        let process =
            Process::start(Path::new("redis-server"), &arguments, &[], &dir.path().join("log"));
        let answers = eventually(Duration::from_secs(20), || {
            let port = port.to_string();
            let asked = Command::new("redis-cli")
                .args(["-p", &port, "--no-auth-warning", "-a", PASSWORD, "ping"])
                .stdin(Stdio::null())
                .output()
                .expect("redis-cli runs (package redis-tools)");
            asked.stdout.starts_with(b"PONG").then_some(())
        });
        assert!(answers.is_some(), "Redis does not start");
        Redis { process, _dir: dir, port }
    }

    /// What the server answers to a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let asked = Command::new("redis-cli")
            .args(["-p", &self.port.to_string(), "--no-auth-warning", "-a", PASSWORD])
            .args(command)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli runs");
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }

    /// Ends the server and starts it again, without what it had stored.
    pub fn restart(self) -> Redis {
        let port = self.port;
        drop(self);
        Redis::start_on(port)
    }

    /// Stops the server for a while, or lets it go on.
    pub fn pause(&self, is_paused: bool) {
        self.process.signal(if is_paused { "STOP" } else { "CONT" });
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}
