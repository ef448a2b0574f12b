//! Another version of the program takes over, without a moment in which no process listens.
//!
//! ```text
//!   this one                                    the new one
//!   starts it with its listening sockets  ───►  boots with the configuration as it is now
//!                                         ◄───  "ready": its workers are there, its front accepts
//!   closes the line, drains and ends      ───►  takes the control socket and the file of its pid
//! ```
//!
//! A version that does not come so far changes nothing: this one goes on. Instead of "ready" it
//! says "refused" and why, if it can.

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
/// Begins the name of a socket that came from a service manager; its address follows. The name of
/// another socket for clients is the address that the configuration has for it.
pub const PASSED: &str = "passed ";
/// Begins the name of the control socket; its path follows.
pub const CONTROL: &str = "control ";
/// Begins the name of the admin listener; its address follows.
pub const ADMIN: &str = "admin ";
/// Begins the names of what HTTP/3 needs; an address follows, or other words.
pub const QUIC: &str = "quic ";
/// The name of standard error as it was before `log.error` has put a file in its place.
pub const STDERR: &str = "stderr";

/// What a new version says first: it serves, and names follow; or it does not, and the reason
/// follows.
const READY: &str = "ready";
const REFUSED: &str = "refused";
/// Of what a new version says: a few names, or a reason. Longer ones are cut.
const LONGEST: usize = 16 * 1024;
/// Time for booting. A reload's client waits as long.
const LIMIT: Duration = Duration::from_secs(120);
/// What is meant for the old process alone.
const OF_THE_OLD: [&str; 6] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "PWD", VARIABLE];

/// How this process was started, by the names that were used then: what a link leads to is another
/// file after a deployment.
#[derive(Debug)]
pub struct Origin {
    program: PathBuf,
    directory: PathBuf,
}

impl Origin {
    /// That of this process. Names that lead elsewhere already are not used.
    ///
    /// # Errors
    /// Fails if there is no current directory, or the system does not know the program.
    pub fn find() -> io::Result<Origin> {
        let directory = process::current_directory()?;
        let own = env::current_exe()?;
        let called = env::args_os().next().unwrap_or_default();
        let named = process::find_in_path(&called).unwrap_or_else(|| called.into());
        let named = directory.join(named);
        let program = if process::is_same_file(&named, &own) { named } else { own };
        Ok(Origin { program, directory })
    }
}

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
    /// It serves, and has no use for the sockets of these names.
    Ready(Vec<String>),
    /// It does not, and will not: why.
    Failed(String),
}

impl Successor {
    /// Starts the program that has this one's name now, with the same arguments and these sockets.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(
        origin: &Origin,
        sockets: &[(String, OwnedFd)],
        now: u64,
    ) -> io::Result<Successor> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        let Origin { program: path, directory } = origin;
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
        environment.push(("PWD".into(), directory.into()));
        let fds: Vec<BorrowedFd<'_>> =
            [theirs.as_fd()].into_iter().chain(sockets.iter().map(|(_, fd)| fd.as_fd())).collect();
        let program = Program {
            arguments: &arguments,
            environment: &environment,
            fds: &fds,
            directory: Some(directory),
            outlives: true,
            ..Program::new(path)
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

    /// Ends it at once, with what it has started in its group.
    pub fn kill(&self) {
        self.child.kill_group();
    }

    /// What has become of it, if that is known. One that takes too long is ended.
    pub fn look(&mut self, now: u64) -> Option<Outcome> {
        let failed = |why: &str| Some(Outcome::Failed(why.to_owned()));
        let mut said = [0; LONGEST];
        match self.line.as_mut()?.read(&mut said) {
            Ok(0) => failed("it has ended; the log says why"),
            Ok(count) => {
                let text = String::from_utf8_lossy(&said[..count]);
                let (word, rest) = text.split_once('\n').unwrap_or((&*text, ""));
                let rest = rest.lines();
                match word {
                    READY => Some(Outcome::Ready(rest.map(str::to_owned).collect())),
                    REFUSED => failed(&rest.collect::<Vec<_>>().join("; ")),
                    // Of a version that this one does not know: while in doubt, this one goes on.
                    _ => failed("this version does not understand what it says"),
                }
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => failed(&error.to_string()),
            Err(_) if since(self.begun, now) > LIMIT => {
                self.child.kill_group();
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
    /// Those that this version has not taken yet, with their names.
    sockets: Vec<(String, OwnedFd)>,
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
        let at = self.sockets.iter().position(|(own, _)| own == name)?;
        Some(self.sockets.swap_remove(at).1)
    }

    /// All that is for HTTP/3, with their names.
    pub fn take_quic(&mut self) -> Vec<(String, OwnedFd)> {
        self.take_all(|name| name.starts_with(QUIC))
    }

    /// All other sockets that are for clients, with their names.
    pub fn take_listeners(&mut self) -> Vec<(String, OwnedFd)> {
        self.take_all(|name| {
            !name.starts_with(CONTROL) && !name.starts_with(ADMIN) && name != STDERR
        })
    }

    fn take_all(&mut self, is_one: impl Fn(&str) -> bool) -> Vec<(String, OwnedFd)> {
        let all = std::mem::take(&mut self.sockets).into_iter();
        let (taken, others) = all.partition(|(name, _)| is_one(name));
        self.sockets = others;
        taken
    }

    /// Tells it that this version serves, and which of its sockets it has no use for.
    pub fn tell(&mut self) -> io::Result<()> {
        let names = self.sockets.iter().map(|(name, _)| name.as_str());
        let text = [READY].into_iter().chain(names).collect::<Vec<_>>().join("\n");
        self.line.write_all(text.as_bytes())
    }

    /// What can still tell it why this version does not serve, whatever becomes of this value.
    ///
    /// # Errors
    /// Fails if this process has too many open files.
    pub fn refusal(&self) -> io::Result<Refusal> {
        self.line.try_clone().map(Refusal)
    }

    /// The line, which the old version closes when it lets go.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

/// Tells the old version why this one does not serve.
#[derive(Debug)]
pub struct Refusal(UnixStream);

impl Refusal {
    /// Says it. The old version may have gone on already: then only the log has the reason.
    pub fn tell(mut self, why: &str) {
        let text = format!("{REFUSED}\n{why}");
        let _ = self.0.write_all(&text.as_bytes()[..text.len().min(LONGEST)]);
    }
}
