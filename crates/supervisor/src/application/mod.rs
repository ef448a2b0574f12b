//! A FastCGI application that the server starts: its sockets, its processes, and when to start one
//! again.
//!
//! The sockets belong to the supervisor, so a connection that is made while a process is replaced
//! waits for the next one. While processes die at once there is no socket either, so a request
//! fails at once.

mod folder;
mod output;
mod process;
mod socket;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_config::{Address, Endpoint, Scheme, Spawn, Upstream};
use tokamak_sys::control::Status;
use tokamak_sys::process::Identity;

use crate::log::{self, Level};
use crate::storm::Storm;
use process::Process;
use socket::Socket;

pub use folder::Folder;
pub use process::ProcessState;

/// A process that has lived so long works.
const PROOF: Duration = Duration::from_secs(1);
/// One that ends well after so long has served its share, as php-cgi does when it ends after a
/// number of requests. A program that does nothing is thus started at most twenty times a second;
/// with a tenth it could take a core, and with ten times more, a short-lived php-cgi would count as
/// failing.
const SHARE: Duration = Duration::from_millis(50);
/// How often to look while a process is missing.
const RESTLESS: Duration = Duration::from_millis(50);

/// An application and all that belongs to it.
#[derive(Debug)]
pub struct Application {
    /// The upstream's name.
    pub name: String,
    spawn: Spawn,
    /// The user that its processes run as.
    identity: Option<Identity>,
    /// The user that connects to it.
    client: Option<Identity>,
    paths: Vec<PathBuf>,
    sockets: Vec<Option<Socket>>,
    processes: Vec<Process>,
    storm: Storm,
    failure: Option<String>,
    restarts: u64,
    is_ending: bool,
}

impl Application {
    /// The application of an upstream, without processes; its sockets are made at `paths`.
    /// `identity` is the user of its processes, `client` that of the front.
    ///
    /// # Errors
    /// Fails if a socket cannot be made.
    pub fn new(
        upstream: &Upstream,
        spawn: &Spawn,
        paths: Vec<PathBuf>,
        identity: Option<&Identity>,
        client: Option<&Identity>,
    ) -> io::Result<Application> {
        let open = |path: &PathBuf| Socket::open(path, client).map(Some);
        let sockets: io::Result<_> = paths.iter().map(open).collect();
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("upstream {}: {error}", upstream.name))
        };
        Ok(Application {
            name: upstream.name.clone(),
            identity: identity.cloned(),
            client: client.cloned(),
            sockets: sockets.map_err(named)?,
            paths,
            processes: (0..spawn.processes).map(|_| Process::default()).collect(),
            storm: Storm::default(),
            failure: None,
            restarts: 0,
            is_ending: false,
            spawn: spawn.clone(),
        })
    }

    /// Where it listens; this is spoken there.
    pub fn addresses(&self, scheme: Scheme) -> Vec<Address> {
        let address =
            |path: &PathBuf| Address { scheme, endpoint: Endpoint::Unix(path.clone()), weight: 1 };
        self.paths.iter().map(address).collect()
    }

    /// The socket of the process at `nth`.
    pub fn path(&self, nth: usize) -> &Path {
        &self.paths[nth % self.paths.len()]
    }

    /// Its processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// How often a process was started in place of one that had ended.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Why its processes do not live, if they do not.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether all its processes are there and have shown that they live.
    pub fn is_up(&self, now: u64) -> bool {
        self.processes.iter().all(|process| process.age(now).is_some_and(|age| age >= PROOF))
    }

    /// Whether no process is left.
    pub fn is_gone(&self) -> bool {
        self.processes.iter().all(Process::is_down)
    }

    /// What its processes write to, with the number of each process.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let outputs = self.processes.iter().enumerate();
        outputs.filter_map(|(nth, process)| Some((nth, process.output()?)))
    }

    /// A process has written something: it goes to the error log.
    pub fn receive(&mut self, nth: usize) {
        self.processes[nth].receive(&self.name);
    }

    /// Longest time until something may be due.
    pub fn next_look(&self) -> Duration {
        let is_missing = !self.is_ending && self.processes.iter().any(Process::is_down);
        if is_missing { RESTLESS } else { Duration::MAX }
    }

    /// Looks at everything whose time may have come.
    pub fn tick(&mut self, now: u64) {
        for process in &mut self.processes {
            process.tick(&self.spawn, now);
        }
        if self.is_ending {
            return;
        }
        let lives = |process: &Process| {
            process.started().is_some_and(|started| self.storm.is_ended_by(started))
                && process.age(now).is_some_and(|age| age >= PROOF)
        };
        if self.processes.iter().any(lives) {
            self.storm.over();
            self.failure = None;
        }
        let young = |process: &&Process| process.age(now).is_some_and(|age| age < PROOF);
        let missing = self.processes.iter().filter(|process| process.is_down()).count();
        let mut allowed =
            self.storm.allowed(missing, self.processes.iter().filter(young).count(), now);
        for nth in 0..self.processes.len() {
            if allowed > 0 && self.processes[nth].is_down() {
                allowed -= 1;
                self.start(nth, now);
            }
        }
    }

    fn start(&mut self, nth: usize, now: u64) {
        let index = nth % self.sockets.len();
        let socket = match self.sockets[index].take() {
            Some(socket) => Ok(socket),
            None => Socket::open(&self.paths[index], self.client.as_ref()),
        };
        let started = socket.and_then(|socket| {
            let socket = self.sockets[index].insert(socket);
            self.processes[nth].start(&self.spawn, socket.fd(), self.identity.as_ref(), now)
        });
        match started {
            Ok(again) => self.restarts += u64::from(again),
            Err(error) => {
                self.failed(format!("cannot start {}: {error}", self.spawn.program.display()), now);
            }
        }
    }

    /// A child has ended: is it one of these?
    pub fn child_exited(&mut self, pid: u32, status: Status, now: u64) -> bool {
        let Some(process) = self.processes.iter_mut().find(|process| process.is(pid)) else {
            return false;
        };
        let age = process.age(now);
        process.exited(&self.name);
        let is_well = status == Status::Code(0);
        // A process that was told to end has no age.
        match age {
            None => {}
            Some(age) if age < if is_well { SHARE } else { PROOF } => {
                self.failed(format!("a process ended at once: {status}, pid={pid}"), now);
            }
            Some(_) => {
                let level = if is_well { Level::Info } else { Level::Error };
                log::site(level, &self.name, format_args!("a process ended: {status}, pid={pid}"));
            }
        }
        true
    }

    /// A process could not be started, or ended before it can have been of any use.
    fn failed(&mut self, why: String, now: u64) {
        if let Some(wait) = self.storm.failed(now) {
            let wait = wait.as_secs_f64();
            log::site(Level::Error, &self.name, format_args!("{why}; next attempt in {wait:.1} s"));
        }
        self.failure = Some(format!("upstream {}: {why}", self.name));
        // Not after the first time, which may be an accident that the next process makes good.
        if self.storm.failures() > 1 {
            for (index, socket) in self.sockets.iter_mut().enumerate() {
                let mut users = self.processes.iter().skip(index).step_by(self.paths.len());
                if users.all(Process::is_down) {
                    *socket = None;
                }
            }
        }
    }

    /// Lets the processes end; none is started any more.
    pub fn quit(&mut self, now: u64) {
        self.is_ending = true;
        self.processes.iter_mut().for_each(|process| process.quit(&self.spawn, now));
    }

    /// Ends them at once.
    pub fn kill(&mut self, now: u64) {
        self.quit(now);
        self.processes.iter_mut().for_each(Process::kill);
    }
}
