//! A MariaDB server of one's own.
//!
//! It can be stopped and killed under the application's feet and comes back on the same port with
//! the same data, which is what the tests of stale connections are about. Every test has a server
//! of its own. Initialising a data directory takes as long as thirty copies of it, so it is done
//! once for each release of MariaDB, below the target folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::session::Session;
use crate::harness::{Process, eventually, free_address, is_root};

/// Longest wait for the server to answer, or to end; far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Attempts to find a port: another process may take a free one before the server binds it.
const ATTEMPTS: usize = 5;

/// The password of every user that [`MariaDb::create`] makes.
pub const PASSWORD: &str = "kept in the reactor";

/// A running server, or one that a test has stopped for a while.
pub struct MariaDb {
    /// Before its directory, because fields are dropped in this order.
    process: Option<Process>,
    dir: TempDir,
    port: u16,
}

impl MariaDb {
    /// Starts a server with an empty data directory on a free port.
    pub fn start() -> MariaDb {
        let dir = tempfile::Builder::new()
            .prefix("tokamak-mariadb-")
            .tempdir()
            .expect("a directory for MariaDB");
        copy(&initialised(), &dir.path().join("data"));
        let mut server = MariaDb { process: None, dir, port: 0 };
        for _ in 0..ATTEMPTS {
            server.port = free_address().port();
            server.spawn();
            if server.becomes_ready() {
                return server;
            }
        }
        panic!("MariaDB does not start; its log:\n{}", server.log());
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a database and a user of the same name who may do everything in it; see
    /// [`PASSWORD`].
    pub fn create(&self, name: &str) {
        self.query(&format!(
            "CREATE DATABASE {name}; CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; \
             GRANT ALL ON {name}.* TO {name}@'127.0.0.1'"
        ));
    }

    /// Runs statements as the administrator; the answer's rows, columns separated by tabs.
    pub fn query(&self, sql: &str) -> String {
        let answer = self.client().args(["-e", sql]).output().expect("the mariadb client runs");
        assert!(answer.status.success(), "{sql}: {}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8(answer.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// Runs a statement as the administrator, and stays connected: see [`Session`].
    pub fn session(&self, sql: &str) -> Session {
        Session::start(&mut self.client(), sql)
    }

    /// Ends the server in order (SIGTERM); clients see their connections closed.
    pub fn stop(&mut self) {
        self.end("TERM");
    }

    /// Ends the server at once (SIGKILL).
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Starts a stopped or killed server again, on the same port and with the same data.
    pub fn resume(&mut self) {
        assert!(self.process.is_none(), "MariaDB runs");
        self.spawn();
        assert!(self.becomes_ready(), "MariaDB does not come back; its log:\n{}", self.log());
    }

    fn spawn(&mut self) {
        let mut arguments = common_options(self.dir.path());
        arguments.push(format!("--port={}", self.port));
        arguments.push(format!("--socket={}", self.path("socket").display()));
        arguments.push(format!("--pid-file={}", self.path("pid").display()));
        // Small, and written to the system at each commit without waiting for the disk: a killed
        // server loses nothing, only a crashed machine would.
        let fixed = [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--performance-schema=OFF",
            "--innodb-buffer-pool-size=32M",
            "--key-buffer-size=1M",
            "--aria-pagecache-buffer-size=1M",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
        ];
        arguments.extend(fixed.map(str::to_owned));
        self.process = Some(Process::start(program(), &arguments, &[], &self.path("log")));
    }

    /// Waits until the server answers; `false` if it ended or never did, and then it runs no more.
    fn becomes_ready(&mut self) -> bool {
        let answers = eventually(PATIENCE, || {
            let ended = self.process.as_mut().is_none_or(|process| process.ended().is_some());
            if ended {
                return Some(false);
            }
            let mut client = self.client();
            let quiet = client.args(["-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            quiet
                .status()
                .expect("the mariadb client runs (package mariadb-client)")
                .success()
                .then_some(true)
        });
        if answers != Some(true) {
            self.process = None;
        }
        answers == Some(true)
    }

    fn end(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        process.signal(signal);
        assert!(
            process.wait(PATIENCE).is_some(),
            "MariaDB does not stop; its log:\n{}",
            self.log()
        );
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client
            .args([
                "--no-defaults",
                "--batch",
                "--skip-column-names",
                "--connect-timeout=5",
                "--user=root",
            ])
            .arg(format!("--socket={}", self.path("socket").display()))
            .stdin(Stdio::null());
        client
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // Nobody needs the data any more, so there is no reason to wait for an orderly end.
        if let Some(process) = &self.process {
            process.signal("KILL");
        }
    }
}

/// The data directory that new servers begin with.
fn initialised() -> PathBuf {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    let initialise = || {
        let version = Command::new(program()).args(["--no-defaults", "--version"]).output();
        let version = version.expect("mariadbd runs (package mariadb-server)").stdout;
        let version = String::from_utf8_lossy(&version).into_owned();
        let name = version.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let data = target.join(name.trim_end_matches('-'));
        if !data.exists() {
            let dir = tempfile::tempdir_in(target).expect("a directory for MariaDB");
            let installed = Command::new("mariadb-install-db")
                .args(common_options(dir.path()))
                .args([
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                ])
                .stdin(Stdio::null())
                .output()
                .expect("mariadb-install-db runs (package mariadb-server)");
            assert!(installed.status.success(), "mariadb-install-db failed: {installed:?}");
            // Whole or not at all. Another run of the tests may have been faster.
            let moved = std::fs::rename(dir.path().join("data"), &data);
            assert!(moved.is_ok() || data.exists(), "{}: {moved:?}", data.display());
        }
        data
    };
    DATA.get_or_init(initialise).clone()
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success(), "{} cannot be copied", from.display());
}

/// What the installation and every start must agree on.
fn common_options(dir: &Path) -> Vec<String> {
    let mut options = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", dir.join("data").display()),
        // A starting server removes what it takes for its own left-overs in the directory for
        // temporary files.
        format!("--tmpdir={}", dir.display()),
        "--innodb-log-file-size=4M".to_owned(),
    ];
    // The server refuses to run as root unless told so; anybody else cannot choose.
    if is_root() {
        options.push("--user=root".to_owned());
    }
    options
}

/// Debian keeps the server where an ordinary user's search path does not lead.
fn program() -> &'static Path {
    let system = Path::new("/usr/sbin/mariadbd");
    if system.exists() { system } else { Path::new("mariadbd") }
}

#[test]
fn a_database_outlives_its_server() {
    let mut server = MariaDb::start();
    server.create("reactor");
    server.query("CREATE TABLE reactor.shots (n INT); INSERT INTO reactor.shots VALUES (1), (2)");
    server.stop();
    server.resume();
    server.query("INSERT INTO reactor.shots VALUES (3)");
    server.kill();
    server.resume();
    assert_eq!(server.query("SELECT SUM(n), COUNT(*) FROM reactor.shots"), "6\t3");
}
