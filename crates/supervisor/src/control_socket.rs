//! The Unix socket for `tokamak status` and `tokamak reload`: one line in, an answer out.
//!
//! ```text
//! status         ok, then a table for people
//! status json    ok, then one JSON object
//! metrics        ok, then a line for each of the supervisor's own metrics
//! ready          ok, if requests to all sites can be answered | error WHY
//! reload         ok … once the new generation serves | error WHY
//! stop           ok, and the server drains and ends
//! upgrade        ok … once another version serves | error WHY
//! upstream FORM list [NAME]                  ok, then the addresses of FastCGI applications as `text` or `json`
//! upstream FORM add NAME ADDRESS WEIGHT      the same once it is done | error WHY
//! upstream FORM drain|remove NAME ADDRESS    likewise
//! cache FORM purge all                       ok, then how many responses were removed
//! cache FORM purge url|prefix|tag WHAT       likewise
//! profile SITE RATE MILLISECONDS PREFIX      ok, then a profile, once it is taken | error WHY
//! ```
//!
//! The words of `upstream`, `cache` and `profile` are separated by tabs, since names may have
//! blanks.
//!
//! The socket is for its owner alone (0600). Reading and writing never wait, and a client that is
//! slow or silent is dropped.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokamak_sys::control::{AddressAction, Purge};

use crate::bind;
use crate::upgrade::{CONTROL, Predecessor};

/// Clients at one time. More wait in the kernel's queue.
const MOST_CLIENTS: usize = 16;
/// Longest command: there is a URL in it at most.
const LONGEST: usize = 4096;
/// Time that a client has for its command, and for taking the answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Ten times more would be a good part of what the workers do, a tenth too coarse for one request.
pub const MOST_SAMPLES_A_SECOND: u16 = 1000;
/// Ten times more would be a process that a client has forgotten, a tenth too short to catch what
/// happens seldom.
pub const LONGEST_PROFILE: Duration = Duration::from_secs(600);

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The state of everything, for people.
    Status,
    /// The state of everything, for programs.
    StatusJson,
    /// The supervisor's own metrics.
    Metrics,
    /// Whether requests to all sites can be answered.
    Ready,
    /// A new generation.
    Reload,
    /// Other processes for the site of this name.
    ReloadSite(String),
    /// The end.
    Stop,
    /// Another version of the program.
    Upgrade,
    /// Something about the addresses of FastCGI applications.
    Upstream(UpstreamCommand),
    /// Something is to go from the content cache.
    Purge(PurgeCommand),
    /// A profile of a site's workers.
    Profile(ProfileCommand),
}

/// A profile of a site's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileCommand {
    /// The site's name.
    pub site: String,
    /// Samples a second.
    pub rate: u16,
    /// For how long.
    pub milliseconds: u32,
    /// Only of requests whose path begins so.
    pub prefix: String,
}

/// Something is to go from the content cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeCommand {
    /// Whether the answer is for programs.
    pub json: bool,
    /// What is to go.
    pub what: Purge,
}

/// Something about the addresses of FastCGI applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamCommand {
    /// Whether the answer is for programs.
    pub json: bool,
    /// Which application; all of them if absent.
    pub name: Option<String>,
    /// What is to be changed, of that one.
    pub change: Option<(String, AddressAction)>,
}

impl Command {
    /// Reads a line.
    pub fn parse(line: &str) -> Option<Command> {
        Some(match line.trim() {
            "status" => Command::Status,
            "status json" => Command::StatusJson,
            "metrics" => Command::Metrics,
            "ready" => Command::Ready,
            "reload" => Command::Reload,
            "stop" => Command::Stop,
            "upgrade" => Command::Upgrade,
            other if other.starts_with("reload\t") => {
                Command::ReloadSite(other["reload\t".len()..].to_owned())
            }
            other if other.starts_with("cache\t") => Command::Purge(PurgeCommand::parse(other)?),
            _ if line.starts_with("profile\t") => Command::Profile(ProfileCommand::parse(line)?),
            other => Command::Upstream(UpstreamCommand::parse(other)?),
        })
    }
}

impl ProfileCommand {
    fn parse(line: &str) -> Option<ProfileCommand> {
        let words: Vec<&str> = line.split('\t').collect();
        let ["profile", site, rate, milliseconds, prefix] = words[..] else { return None };
        let command = ProfileCommand {
            site: site.to_owned(),
            rate: rate.parse().ok()?,
            milliseconds: milliseconds.parse().ok()?,
            prefix: prefix.to_owned(),
        };
        let fits = (1..=MOST_SAMPLES_A_SECOND).contains(&command.rate)
            && (1..=LONGEST_PROFILE.as_millis()).contains(&u128::from(command.milliseconds));
        fits.then_some(command)
    }
}

impl PurgeCommand {
    fn parse(line: &str) -> Option<PurgeCommand> {
        let words: Vec<&str> = line.split('\t').collect();
        let ["cache", form @ ("text" | "json"), "purge", ref rest @ ..] = words[..] else {
            return None;
        };
        let what = match *rest {
            ["all"] => Purge::All,
            ["url", url] => Purge::Url(url.to_owned()),
            ["prefix", prefix] => Purge::Prefix(prefix.to_owned()),
            ["tag", tag] => Purge::Tag(tag.to_owned()),
            _ => return None,
        };
        Some(PurgeCommand { json: form == "json", what })
    }
}

impl UpstreamCommand {
    fn parse(line: &str) -> Option<UpstreamCommand> {
        let words: Vec<&str> = line.split('\t').collect();
        let ["upstream", form @ ("text" | "json"), ref rest @ ..] = words[..] else { return None };
        let (name, change) = match *rest {
            ["list"] => (None, None),
            ["list", name] => (Some(name), None),
            ["add", name, address, weight] => {
                let weight = weight.parse().ok().filter(|weight| *weight > 0)?;
                (Some(name), Some((address, AddressAction::Add { weight })))
            }
            ["drain", name, address] => (Some(name), Some((address, AddressAction::Drain))),
            ["remove", name, address] => (Some(name), Some((address, AddressAction::Remove))),
            _ => return None,
        };
        let change = change.map(|(address, action)| (address.to_owned(), action));
        Some(UpstreamCommand { json: form == "json", name: name.map(str::to_owned), change })
    }
}

/// The socket and its clients.
#[derive(Debug)]
pub struct ControlSocket {
    /// None once another server has it.
    listener: Option<UnixListener>,
    /// Whether the file is for this server to remove.
    is_own: bool,
    path: PathBuf,
    clients: Vec<Client>,
    next: u64,
}

/// One connection. Which one an answer is for: places in the list move, numbers do not.
#[derive(Debug)]
struct Client {
    number: u64,
    stream: UnixStream,
    state: ClientState,
    since: Instant,
}

#[derive(Debug)]
enum ClientState {
    Asking(Vec<u8>),
    Waiting,
    Taking(Vec<u8>, usize),
}

impl ControlSocket {
    /// Opens the socket at `path`. The socket that a dead server left there is removed.
    ///
    /// # Errors
    /// Fails if a running server has it, if something else is there, or if the folder cannot be
    /// written to.
    pub fn open(path: &Path) -> io::Result<ControlSocket> {
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let message = format!(
                    "{} is there and is no socket; name another path in `control`, or remove it",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if UnixStream::connect(path).is_ok() {
                let message = format!("another tokamak has the control socket {}", path.display());
                return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
            }
            fs::remove_file(path)?;
        }
        let listener = bind_for_owner(path)?;
        listener.set_nonblocking(true)?;
        Ok(ControlSocket::of(listener, path, true))
    }

    fn of(listener: UnixListener, path: &Path, is_own: bool) -> ControlSocket {
        let listener = Some(listener);
        ControlSocket { listener, is_own, path: path.to_owned(), clients: Vec::new(), next: 0 }
    }

    /// Takes over the socket at `path` from a server that this one replaces, if that had it;
    /// otherwise as [`ControlSocket::open`]. Its file stays until [`ControlSocket::keep`].
    ///
    /// # Errors
    /// As there.
    pub fn adopt(path: &Path, predecessor: Option<&mut Predecessor>) -> io::Result<ControlSocket> {
        match predecessor.and_then(|predecessor| predecessor.take(&name(path))) {
            Some(listener) => Ok(ControlSocket::of(listener.into(), path, false)),
            None => ControlSocket::open(path),
        }
    }

    /// The socket, for a server that is to replace this one.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn for_successor(&self) -> io::Result<Option<(String, OwnedFd)>> {
        let copy = |listener: &UnixListener| Ok((name(&self.path), listener.try_clone()?.into()));
        self.listener.as_ref().map(copy).transpose()
    }

    /// The server that had it before has let go.
    pub fn keep(&mut self) {
        self.is_own = true;
    }

    /// Lets another server have it, unless its name is among those that the other one has no use
    /// for. Clients that are here already get their answers.
    pub fn release(&mut self, unused: &[String]) {
        self.listener = None;
        self.is_own = unused.contains(&name(&self.path));
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to poll: descriptors, and whether to wait for room to write.
    pub fn watches(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let clients = self
            .clients
            .iter()
            // A client that waits for an answer sends nothing more; if it hangs up, writing will
            // tell.
            .filter(|client| !matches!(client.state, ClientState::Waiting))
            .map(|client| (client.stream.as_fd(), matches!(client.state, ClientState::Taking(..))));
        let listener = self.listener.iter().filter(|_| self.clients.len() < MOST_CLIENTS);
        listener.map(|listener| (listener.as_fd(), false)).chain(clients)
    }

    /// Moves everything on; the commands that have come in, each with the number to answer to.
    pub fn serve(&mut self) -> Vec<(u64, Command)> {
        while self.clients.len() < MOST_CLIENTS {
            let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                let state = ClientState::Asking(Vec::new());
                self.clients.push(Client {
                    number: self.next,
                    stream,
                    state,
                    since: Instant::now(),
                });
                self.next += 1;
            }
        }
        let mut commands = Vec::new();
        self.clients.retain_mut(|client| match client.advance() {
            Ok(Some(command)) => {
                commands.push((client.number, command));
                true
            }
            Ok(None) => true,
            Err(_) => false,
        });
        commands
    }

    /// Answers a client. If it has gone, nothing happens.
    pub fn answer(&mut self, number: u64, text: String) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
            client.take(text);
        }
        self.serve_writers();
    }

    /// Gives a client away: another process answers. None if it has gone.
    pub fn hand_over(&mut self, number: u64) -> Option<OwnedFd> {
        let at = self.clients.iter().position(|client| client.number == number)?;
        Some(self.clients.swap_remove(at).stream.into())
    }

    fn serve_writers(&mut self) {
        self.clients.retain_mut(|client| match client.state {
            ClientState::Taking(..) => client.advance().is_ok(),
            _ => true,
        });
    }
}

/// What a server that replaces this one knows the socket by.
fn name(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    format!("{CONTROL}{}", path.display())
}

/// A listening socket for this user alone.
fn bind_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = bind::file(path)?;
    socket.listen(MOST_CLIENTS as i32)?;
    Ok(OwnedFd::from(socket).into())
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // If it is gone already, that is what we want. What somebody has put in its place stays.
        let found = fs::symlink_metadata(&self.path);
        if self.is_own && found.is_ok_and(|found| found.file_type().is_socket()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Client {
    fn take(&mut self, text: String) {
        self.state = ClientState::Taking(text.into_bytes(), 0);
        self.since = Instant::now();
    }

    /// Reads or writes what is possible now.
    ///
    /// # Errors
    /// Fails if the client is to be closed.
    fn advance(&mut self) -> io::Result<Option<Command>> {
        let late = self.since.elapsed() > LIMIT;
        match &mut self.state {
            ClientState::Waiting => Ok(None),
            ClientState::Asking(line) => {
                let mut buffer = [0; LONGEST];
                match self.stream.read(&mut buffer) {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => {
                        line.extend(&buffer[..count]);
                        let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
                            let long = line.len() > LONGEST;
                            return if long {
                                Err(io::ErrorKind::InvalidData.into())
                            } else {
                                Ok(None)
                            };
                        };
                        let command =
                            std::str::from_utf8(&line[..end]).ok().and_then(Command::parse);
                        match command {
                            Some(command) => {
                                self.state = ClientState::Waiting;
                                Ok(Some(command))
                            }
                            None => {
                                self.take("error unknown command\n".into());
                                Ok(None)
                            }
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !late => Ok(None),
                    Err(error) => Err(error),
                }
            }
            ClientState::Taking(text, written) => {
                while *written < text.len() {
                    match self.stream.write(&text[*written..]) {
                        Ok(count) => *written += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock && !late => {
                            return Ok(None);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(io::ErrorKind::WriteZero.into()) // all said: closing is the end of the answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn open() -> (tempfile::TempDir, ControlSocket) {
        let folder = tempfile::tempdir().unwrap();
        let socket = ControlSocket::open(&folder.path().join("run/8080.sock")).unwrap();
        (folder, socket)
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["index.php", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = ControlSocket::open(path).unwrap_err();
            assert!(error.to_string().contains("is no socket"), "{error}");
        }
        assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
        let (_folder, socket) = open();
        let path = socket.path().to_owned();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }

    fn ask(socket: &mut ControlSocket, text: &str) -> (UnixStream, Vec<(u64, Command)>) {
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        (stream, socket.serve())
    }

    fn answer(mut stream: UnixStream) -> String {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn upstream(json: bool, name: Option<&str>, change: Option<(&str, AddressAction)>) -> Command {
        let change = change.map(|(address, action)| (address.to_owned(), action));
        Command::Upstream(UpstreamCommand { json, name: name.map(str::to_owned), change })
    }

    fn purge(json: bool, what: Purge) -> Command {
        Command::Purge(PurgeCommand { json, what })
    }

    fn profile(prefix: &str) -> Command {
        Command::Profile(ProfileCommand {
            site: "my site".into(),
            rate: 99,
            milliseconds: 1000,
            prefix: prefix.into(),
        })
    }

    fn changed(address: &str, action: AddressAction) -> Command {
        upstream(false, Some("a"), Some((address, action)))
    }

    #[test]
    fn commands_are_answered() {
        let (_folder, mut socket) = open();
        for (line, command) in [
            ("status\n", Command::Status),
            ("status json\n", Command::StatusJson),
            ("ready\n", Command::Ready),
            ("reload\r\n", Command::Reload),
            ("reload\tmy site\n", Command::ReloadSite("my site".into())),
            ("stop\n", Command::Stop),
            ("upstream\ttext\tlist\n", upstream(false, None, None)),
            ("upstream\tjson\tlist\tmy app\n", upstream(true, Some("my app"), None)),
            (
                "upstream\ttext\tadd\ta\tunix:/s\t2\n",
                changed("unix:/s", AddressAction::Add { weight: 2 }),
            ),
            ("upstream\ttext\tdrain\ta\t[::1]:9\n", changed("[::1]:9", AddressAction::Drain)),
            ("upstream\ttext\tremove\ta\tunix:/s\n", changed("unix:/s", AddressAction::Remove)),
            ("cache\ttext\tpurge\tall\n", purge(false, Purge::All)),
            ("profile\tmy site\t99\t1000\t\n", profile("")),
            ("profile\tmy site\t99\t1000\t/a b\n", profile("/a b")),
            (
                "cache\tjson\tpurge\turl\thttp://a/b c\n",
                purge(true, Purge::Url("http://a/b c".into())),
            ),
            ("cache\ttext\tpurge\tprefix\ta/\n", purge(false, Purge::Prefix("a/".into()))),
            ("cache\ttext\tpurge\ttag\tt\n", purge(false, Purge::Tag("t".into()))),
        ] {
            let (stream, commands) = ask(&mut socket, line);
            assert_eq!(commands.len(), 1);
            assert_eq!(commands[0].1, command);
            socket.answer(commands[0].0, "ok\nsome text\n".into());
            assert_eq!(answer(stream), "ok\nsome text\n");
        }
        assert!(socket.clients.is_empty());
    }

    #[test]
    fn an_answer_longer_than_the_socket_buffer_arrives_whole() {
        let (_folder, mut socket) = open();
        let (stream, commands) = ask(&mut socket, "status\n");
        let text = "x".repeat(1 << 20);
        socket.answer(commands[0].0, text.clone());
        let reader = std::thread::spawn(move || answer(stream));
        while !socket.clients.is_empty() {
            socket.serve();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(reader.join().unwrap(), text);
    }

    #[test]
    fn nonsense_is_refused() {
        let (_folder, mut socket) = open();
        for line in [
            "dance",
            "upstream list",
            "upstream\ttext\tadd\ta\tunix:/s\t0",
            "upstream\tjson\tdrain\ta",
            "cache\ttext\tpurge",
            "cache\ttext\tpurge\turl",
        ] {
            let (stream, commands) = ask(&mut socket, &format!("{line}\n"));
            assert!(commands.is_empty());
            socket.serve();
            assert_eq!(answer(stream), "error unknown command\n", "{line}");
        }
        let (stream, commands) = ask(&mut socket, &"x".repeat(10 * LONGEST));
        assert!(commands.is_empty());
        socket.serve();
        assert!(socket.clients.is_empty());
        drop(stream);
    }

    #[test]
    fn a_command_may_come_in_parts() {
        let (_folder, mut socket) = open();
        let (mut stream, commands) = ask(&mut socket, "sta");
        assert!(commands.is_empty());
        stream.write_all(b"tus\n").unwrap();
        assert_eq!(socket.serve()[0].1, Command::Status);
    }

    #[test]
    fn it_is_for_its_owner_and_goes_away() {
        let (_folder, socket) = open();
        let path = socket.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        let error = ControlSocket::open(&path).unwrap_err().to_string();
        assert!(error.contains("another tokamak"), "{error}");
        drop(socket);
        assert!(!path.exists());
        // What a killed server leaves behind is replaced.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        ControlSocket::open(&path).unwrap();
    }
}
