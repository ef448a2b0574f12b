//! Another version of the program takes over, without a moment in which nobody listens.
//!
//! ```text
//!   this one                                    the new one
//!   starts it with its listening sockets  ───►  boots with the configuration as it is now
//!                                         ◄───  "ready": its workers are there, its front accepts
//!   closes the line, drains and ends      ───►  takes the control socket and the file of its pid
//! ```
//!
//! A version that does not come so far changes nothing: this one goes on.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use tokamak_sys::process::{self, Child, Program};

use crate::watch::since;

/// The variable by which a new version knows what it was given: the process id of the old one, and
/// a name for each socket, a line each. Descriptor 3 is the line between the two; the sockets come
/// after it.
pub const VARIABLE: &str = "PREDECESSOR_SOCKETS";
/// Of one that came from a service manager, in place of an address.
pub const PASSED: &str = "passed";
/// What names the control socket and the admin listener begin with; their address follows.
pub const CONTROL: &str = "control ";
/// See [`CONTROL`].
pub const ADMIN: &str = "admin ";

/// Time for booting. A reload's client waits as long.
const LIMIT: Duration = Duration::from_secs(120);
/// What is meant for the old process alone.
const OF_THE_OLD: [&str; 5] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", VARIABLE];
/// What the kernel adds to the path of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// The new version, as the old one sees it.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    /// Until it serves.
    line: Option<UnixStream>,
    begun: u64,
}

/// What has become of a new version.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves.
    Ready,
    /// It does not, and will not: why.
    Failed(String),
}

impl Successor {
    /// Starts the program that has this one's path now, with the same arguments and these sockets.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(
        sockets: &[(String, OwnedFd)],
        error: BorrowedFd<'_>,
        now: u64,
    ) -> io::Result<Successor> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        let path = env::current_exe()?;
        let path = path.to_str().map(|path| path.strip_suffix(REPLACED).unwrap_or(path));
        let path = PathBuf::from(path.ok_or_else(|| not_text("the program's path"))?);
        let arguments = env::args_os().skip(1).map(OsString::into_string);
        let arguments: Vec<String> =
            arguments.collect::<Result<_, _>>().map_err(|_| not_text("an argument"))?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let names = sockets.iter().map(|(name, _)| name.clone());
        let value: Vec<String> =
            [std::process::id().to_string()].into_iter().chain(names).collect();
        let mut environment: Vec<(OsString, OsString)> =
            env::vars_os().filter(|(name, _)| OF_THE_OLD.iter().all(|old| name != *old)).collect();
        environment.push((VARIABLE.into(), value.join("\n").into()));
        let fds: Vec<BorrowedFd<'_>> =
            [theirs.as_fd()].into_iter().chain(sockets.iter().map(|(_, fd)| fd.as_fd())).collect();
        let program = Program {
            arguments: &arguments,
            environment: &environment,
            fds: &fds,
            error: Some(error),
            outlives: true,
            ..Program::new(&path)
        };
        let name = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", path.display()))
        };
        Ok(Successor { child: program.spawn().map_err(name)?, line: Some(line), begun: now })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The line, to wait for what it says.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(AsFd::as_fd)
    }

    /// Tells it that this version has let go of everything.
    pub fn let_go(&mut self) {
        self.line = None;
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.child.kill();
    }

    /// What has become of it, if that is known. One that takes too long is ended.
    pub fn look(&mut self, now: u64) -> Option<Outcome> {
        let failed = |why: &str| Some(Outcome::Failed(why.to_owned()));
        match self.line.as_mut()?.read(&mut [0; 64]) {
            Ok(0) => failed("it has ended; the log says why"),
            Ok(_) => Some(Outcome::Ready),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => failed(&error.to_string()),
            Err(_) if since(self.begun, now) > LIMIT => {
                self.child.kill();
                failed(&format!("it was not ready within {} s", LIMIT.as_secs()))
            }
            Err(_) => None,
        }
    }
}

fn not_text(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is not UTF-8"))
}

/// What a new version gets of the old one.
#[derive(Debug)]
pub struct Predecessor {
    line: UnixStream,
    sockets: BTreeMap<String, OwnedFd>,
}

impl Predecessor {
    /// The old version, if one has started this process to replace it.
    ///
    /// # Errors
    /// Fails if less was handed over than is named.
    pub fn find() -> io::Result<Option<Predecessor>> {
        let Ok(value) = env::var(VARIABLE) else { return Ok(None) };
        let mut lines = value.lines();
        // Programs that it starts find the variable, too.
        if lines.next() != Some(&*std::os::unix::process::parent_id().to_string()) {
            return Ok(None);
        }
        let names: Vec<&str> = lines.collect();
        let mut all = process::inherited(1 + names.len()).into_iter();
        let missing = || io::Error::other("the server that is to be replaced has given no sockets");
        let line = UnixStream::from(all.next().ok_or_else(missing)?);
        let sockets = names.into_iter().map(str::to_owned).zip(all).collect();
        Ok(Some(Predecessor { line, sockets }))
    }

    /// The socket of this name, if there is one.
    pub fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.sockets.remove(name)
    }

    /// All sockets that are for clients, with their names.
    pub fn take_listeners(&mut self) -> Vec<(String, OwnedFd)> {
        let is_other = |name: &String| name.starts_with(CONTROL) || name.starts_with(ADMIN);
        let (others, listeners) =
            std::mem::take(&mut self.sockets).into_iter().partition(|(name, _)| is_other(name));
        self.sockets = others;
        let listeners: BTreeMap<String, OwnedFd> = listeners;
        listeners.into_iter().collect()
    }

    /// Tells it that this version serves.
    pub fn tell(&mut self) -> io::Result<()> {
        self.line.write_all(b"ready\n")
    }

    /// The line, which the old version closes when it lets go.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}
