//! A running server, and how a test talks to it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::connection::Connection;
use super::process::{Process, eventually};
use super::request::{Request, get};
use super::response::Response;
use super::setup::{Kind, Places};

/// A running server. Dropping it ends its processes and removes its files.
pub struct Server {
    /// Which server it is.
    pub kind: Kind,
    /// Where it listens.
    pub address: SocketAddr,
    /// The processes that were started, in order; the last one listens. They end before the files
    /// go.
    pub(super) processes: Vec<Process>,
    /// Its files.
    pub places: Places,
}

impl Server {
    /// Takes charge of started processes and waits until the server answers.
    pub(super) fn new(
        kind: Kind,
        address: SocketAddr,
        processes: Vec<Process>,
        places: Places,
    ) -> Server {
        let mut server = Server { kind, address, processes, places };
        // No request line at all: every server refuses it by itself, so no script and no counter
        // sees it.
        let answers = |address| {
            let mut connection = Connection::open(address);
            connection.patience(Duration::from_millis(500));
            connection.try_send("\0\r\n\r\n").is_ok() && connection.try_response("GET").is_ok()
        };
        let started = eventually(Duration::from_secs(20), || {
            if let Some(status) = server.processes.iter_mut().find_map(Process::ended) {
                panic!("{kind:?} ended at its start: {status}\n{}", server.log());
            }
            let listening = std::net::TcpStream::connect(address).is_ok();
            (listening && answers(address)).then_some(())
        });
        assert!(started.is_some(), "{kind:?} does not answer on {address}");
        server
    }

    /// Sends one request on a connection of its own.
    pub fn send(&self, request: &Request) -> Response {
        self.connect().exchange(request)
    }

    /// Fetches a path on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        self.send(&get(target))
    }

    /// Fetches a path that must answer 200, as text.
    #[track_caller]
    pub fn text(&self, target: &str) -> String {
        self.get(target).expect(200).text()
    }

    /// Opens a connection.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// The process that listens.
    pub fn main_process(&mut self) -> &mut Process {
        self.processes.last_mut().expect("a server has a process")
    }

    /// The process that was started first: php-fpm, or what stands in for it.
    pub fn first_process(&mut self) -> &mut Process {
        self.processes.first_mut().expect("a server has a process")
    }

    /// Everything that the server wrote to its log so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.places.log()).unwrap_or_default()).into_owned()
    }

    /// Waits for a log line that contains all of these texts, and returns it.
    #[track_caller]
    pub fn log_line(&self, texts: &[&str]) -> String {
        let matches = |line: &&str| texts.iter().all(|text| line.contains(text));
        let found = eventually(Duration::from_secs(20), || {
            self.log().lines().find(matches).map(str::to_string)
        });
        found.unwrap_or_else(|| panic!("no log line with {texts:?}"))
    }

    /// The entries of the log so far: lines, each with the indented ones that follow it.
    pub fn log_entries(&self) -> Vec<String> {
        let mut entries: Vec<String> = Vec::new();
        for line in self.log().split_inclusive('\n') {
            match entries.last_mut() {
                Some(entry) if line.starts_with("    ") => entry.push_str(line),
                _ => entries.push(line.to_owned()),
            }
        }
        entries
    }

    /// Waits for an entry of the log that contains all of these texts, and returns it.
    #[track_caller]
    pub fn log_entry(&self, texts: &[&str]) -> String {
        let matches = |entry: &String| texts.iter().all(|text| entry.contains(text));
        let found =
            eventually(Duration::from_secs(20), || self.log_entries().into_iter().find(matches));
        found.unwrap_or_else(|| panic!("no log entry with {texts:?}"))
    }

    /// A file in the directory that scripts may write to.
    pub fn state_file(&self, name: &str) -> PathBuf {
        self.places.state().join(name)
    }

    /// Waits until a worker runs `/hold.php?name=…`. It is occupied until [`Server::let_go`].
    #[track_caller]
    pub fn holds(&self, name: &str) {
        let note = self.state_file(&format!("held-{name}"));
        eventually(Duration::from_secs(20), || note.exists().then_some(()))
            .unwrap_or_else(|| panic!("no worker runs hold.php for {name}"));
    }

    /// Ends the script for which [`Server::holds`] has waited.
    pub fn let_go(&self, name: &str) {
        fs::remove_file(self.state_file(&format!("held-{name}"))).expect("a script is held");
    }

    /// Waits until a script has written this file into its state directory, and reads it.
    #[track_caller]
    pub fn state(&self, name: &str) -> String {
        let read =
            || fs::read_to_string(self.state_file(name)).ok().filter(|text| !text.is_empty());
        eventually(Duration::from_secs(20), read)
            .unwrap_or_else(|| panic!("no script wrote {name}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The listening one first: php-fpm may go once nginx has.
        while self.processes.pop().is_some() {}
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- log of {:?}, last lines ---", self.kind);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
