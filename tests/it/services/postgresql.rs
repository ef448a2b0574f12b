//! A PostgreSQL server of one's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::mariadb::PASSWORD;
use super::session::Session;
use crate::harness::{Process, eventually, free_address, is_root};

/// Longest wait for the server to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server refuses to run as root: Debian's package makes this user.
const USER: &str = "postgres";

/// A running server with the superuser and database `reactor`; see [`PASSWORD`].
pub struct PostgreSql {
    /// Before its directory, because fields are dropped in this order.
    process: Option<Process>,
    dir: TempDir,
    port: u16,
}

impl PostgreSql {
    /// Initialises a data directory and starts a server on a free port.
    pub fn start() -> PostgreSql {
        let dir =
            tempfile::Builder::new().prefix("tokamak-postgresql-").tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::write(at("password"), PASSWORD).unwrap();
        if is_root() {
            let owned = Command::new("chown").args(["-R", USER]).arg(dir.path()).status();
            assert!(
                owned.is_ok_and(|status| status.success()),
                "there is no user {USER} (package postgresql)"
            );
        }
        let mut initdb = as_ordinary_user("initdb");
        initdb
            .extend(["--no-sync", "--auth=scram-sha-256", "--username=reactor"].map(str::to_owned));
        initdb.extend([format!("--pgdata={}", at("data")), format!("--pwfile={}", at("password"))]);
        let made = Command::new(&initdb[0]).args(&initdb[1..]).stdin(Stdio::null()).output();
        let made = made.expect("initdb runs (package postgresql)");
        assert!(made.status.success(), "initdb failed: {made:?}");
        let mut server = PostgreSql { process: None, dir, port: free_address().port() };
        server.resume();
        server.psql("postgres", "CREATE DATABASE reactor").unwrap();
        server
    }

    /// Ends the server at once, as a crash would, and all of its connections.
    pub fn crash(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.signal("QUIT");
        assert!(process.wait(PATIENCE).is_some(), "PostgreSQL does not stop:\n{}", self.log());
    }

    /// Starts it (again), on the same port and with the same data.
    pub fn resume(&mut self) {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let mut server = as_ordinary_user("postgres");
        server.extend(["-D".to_owned(), at("data"), "-p".to_owned(), self.port.to_string()]);
        let directory = format!("unix_socket_directories={}", self.dir.path().display());
        for setting in
            ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=16MB", &directory]
        {
            server.extend(["-c".to_owned(), setting.to_owned()]);
        }
        let program = Path::new(&server[0]);
        self.process = Some(Process::start(program, &server[1..], &[], Path::new(&at("log"))));
        let ready = eventually(PATIENCE, || self.psql("postgres", "SELECT 1").ok());
        assert!(ready.is_some(), "PostgreSQL does not start; its log:\n{}", self.log());
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as the superuser.
    pub fn query(&self, sql: &str) -> String {
        self.psql("reactor", sql).unwrap_or_else(|said| panic!("{sql}: {said}"))
    }

    /// Runs a statement as the superuser, and stays connected: see [`Session`].
    pub fn session(&self, sql: &str) -> Session {
        Session::start(&mut self.client("reactor"), sql)
    }

    fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let answer = self.client(database).args(["-c", sql]).output();
        let answer = answer.expect("psql runs (package postgresql-client)");
        let text = |bytes| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if answer.status.success() { Ok(text(&answer.stdout)) } else { Err(text(&answer.stderr)) }
    }

    fn client(&self, database: &str) -> Command {
        let mut client = Command::new(program("psql"));
        client
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--host=127.0.0.1"])
            .args(["--username=reactor", &format!("--port={}", self.port), database])
            .env("PGPASSWORD", PASSWORD)
            .stdin(Stdio::null());
        client
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

fn as_ordinary_user(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    if is_root() {
        // The change of the user takes back what the kernel was asked for the test's end.
        let change =
            ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "--pdeathsig", "QUIT"];
        words.extend(change.map(str::to_owned));
    }
    words.push(program(name).display().to_string());
    words
}

/// Debian keeps each version's programs in a directory of its own.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|version| version.path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from(name))
}
