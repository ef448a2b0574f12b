//! `tokamak lua-fcgi`: Lua scripts that web servers reach by FastCGI.

/// Scripts, and web servers, that do what they should not.
mod hostile;
/// What scripts find, and what the specification asks of an application.
mod protocol;
/// Where it listens, and how it ends.
mod sockets;
/// `examples/lua-fcgi`, as its README starts it, behind four web servers.
mod web_servers;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::fpm::client::{Client, Request};
use crate::harness::{Process, eventually, program};

/// Far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with scripts of its own.
struct Launcher {
    process: Process,
    folder: TempDir,
}

impl Launcher {
    /// With these scripts, and these options.
    fn start(options: &[&str], scripts: &[(&str, &str)]) -> Launcher {
        let folder = tempfile::Builder::new().prefix("tokamak-lua-fcgi-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("www")).unwrap();
        for (name, text) in scripts {
            fs::write(folder.path().join("www").join(name), text).unwrap();
        }
        let socket = format!("unix:{}", folder.path().join("socket").display());
        let root = folder.path().join("www").display().to_string();
        let mut arguments = vec!["lua-fcgi".to_owned(), root, "--listen".to_owned(), socket];
        arguments.extend(options.iter().map(|option| (*option).to_owned()));
        let process = Process::start(&program(), &arguments, &[], &folder.path().join("log"));
        let mut launcher = Launcher { process, folder };
        let there = eventually(PATIENCE, || {
            assert!(launcher.process.ended().is_none(), "it ended: {}", launcher.log());
            UnixStream::connect(launcher.socket()).ok()
        });
        assert!(there.is_some(), "it does not listen: {}", launcher.log());
        launcher
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits for a line of the log that has all these words.
    #[track_caller]
    fn log_line(&self, words: &[&str]) {
        let found = eventually(PATIENCE, || {
            self.log()
                .lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
                .then_some(())
        });
        assert!(found.is_some(), "no line with {words:?}: {}", self.log());
    }

    /// Waits until a script that starts with [`BEGINS`] runs.
    #[track_caller]
    fn runs(&self) {
        let begun = || fs::remove_file(script(self, "begun")).ok();
        assert!(eventually(PATIENCE, begun).is_some(), "no script runs: {}", self.log());
    }

    fn connect(&self) -> Client {
        Client::unix(&self.socket())
    }

    /// A request for a script; what follows a `?` is the query.
    fn request(&self, target: &str) -> Request {
        Request::below(&self.root(), target)
    }

    /// What a script answers.
    #[track_caller]
    fn answer(&self, target: &str) -> String {
        let answer = self.connect().ask(&self.request(target));
        String::from_utf8_lossy(&answer.stdout).into_owned()
    }

    /// The status of an answer; 200 if it says none.
    #[track_caller]
    fn status(&self, target: &str) -> u16 {
        let answer = self.answer(target);
        answer.strip_prefix("Status: ").map_or(200, |rest| rest[..3].parse().unwrap())
    }
}

/// The beginning of scripts that leave a file when they run, so that a test can wait for that.
const BEGINS: &str = "io.open(os.getenv('DOCUMENT_ROOT') .. '/begun', 'w'):close() ";

/// A script's file.
fn script(launcher: &Launcher, name: &str) -> PathBuf {
    Path::join(&launcher.root(), name)
}
