//! The directory for the sockets of applications. Only the supervisor writes to it, and the front
//! alone passes through it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket as Raw, Type};
use tokamak_sys::process;

use super::socket::Socket;

/// How the directory's name begins.
const PREFIX: &str = "tokamak-spawn-";
/// A socket that listens for as long as its server lives, so that others can tell what a killed one
/// has left behind.
const ALIVE: &str = "alive";
/// Characters of the upstream's name in a socket's: the path of a socket is short.
const NAME: usize = 24;
/// How many names are tried for the directory: another process may have taken any of them.
const ATTEMPTS: u32 = 100;

/// The directory. It ends with the server; what killed servers of this user have left behind ends
/// with it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _alive: Socket,
}

impl Folder {
    /// Makes it: below `/run` for root, else in the user's runtime directory, else in `/tmp`.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub fn create() -> io::Result<Folder> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        match runtime {
            _ if process::is_root() => Folder::create_in(Path::new("/run")),
            Some(folder) => Folder::create_in(Path::new(&folder)),
            None => Folder::create_in(Path::new("/tmp")),
        }
    }

    fn create_in(base: &Path) -> io::Result<Folder> {
        sweep(base);
        let path = make(base)?;
        // The front, another user, passes through it and needs no more; whatever the umask is.
        fs::set_permissions(&path, Permissions::from_mode(0o711))?;
        let alive = Socket::open(&path.join(ALIVE), None)?;
        Ok(Folder { path, _alive: alive })
    }

    /// Where the socket number `nth` of an upstream is. `index` distinguishes it from other
    /// upstreams, `generation` from that of other generations.
    pub fn socket(&self, name: &str, index: usize, generation: u32, nth: usize) -> PathBuf {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).take(NAME).collect();
        self.path.join(format!("{plain}-{index}-{generation}-{nth}.sock"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it is gone already, that is what we want.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn make(base: &Path) -> io::Result<PathBuf> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        let path = base.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o711).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                failure = Some((path, error))
            }
            Err(error) => {
                failure = Some((path, error));
                break;
            }
        }
    }
    let (path, error) = failure.expect("there was an attempt");
    Err(io::Error::new(
        error.kind(),
        format!("cannot make the directory {}: {error}", path.display()),
    ))
}

/// Removes the directories of servers that were killed.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && fs::symlink_metadata(&path)
                .is_ok_and(|found| found.is_dir() && found.uid() == process::effective_uid());
        if is_ours && is_dead(&path.join(ALIVE)) {
            // What is left then is a little litter.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether no process listens there any more. A socket that does not exist yet may be about to
/// come.
fn is_dead(alive: &Path) -> bool {
    let ask = || -> io::Result<()> {
        let socket = Raw::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?; // a full backlog is a sign of life, and nothing to wait for
        socket.connect(&SockAddr::unix(alive)?)
    };
    ask().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_passing_through_and_goes_away() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::create_in(base.path()).unwrap();
        let path = folder.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o711);
        assert_eq!(folder.socket("My app/1", 2, 3, 4), path.join("Myapp1-2-3-4.sock"));
        drop(folder);
        assert!(!path.exists());
        let error = Folder::create_in(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("cannot make the directory /nonexistent/"), "{error}");
    }

    #[test]
    fn what_the_dead_leave_behind_is_removed_and_the_living_are_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let living = Folder::create_in(base.path()).unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["tokamak-spawn-1-0", "tokamak-spawn-2-0", "another"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("old.sock"), "").unwrap();
        }
        // A file without a listener is what a killed server leaves.
        for name in ["tokamak-spawn-1-0", "another"] {
            drop(std::os::unix::net::UnixListener::bind(at(name).join(ALIVE)).unwrap());
        }
        let next = Folder::create_in(base.path()).unwrap();
        assert_ne!(next.path, living.path);
        assert!(living.path.is_dir());
        assert!(!at("tokamak-spawn-1-0").exists());
        assert!(at("tokamak-spawn-2-0").exists(), "its server may be about to begin");
        assert!(at("another").exists(), "it is not of our kind");
    }
}
