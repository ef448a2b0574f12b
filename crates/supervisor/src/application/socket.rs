//! The sockets of applications: files in a directory that nobody else writes to, for the front alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket as Raw, Type};
use tokamak_sys::process::{self, Identity};

/// Connections that wait for a process; the system's own limit applies beside it.
const BACKLOG: i32 = 4096;
/// Characters of the upstream's name in a socket's: the path of a socket is short.
const NAME: usize = 24;
/// How many names are tried for the directory: each of them somebody else may have taken.
const ATTEMPTS: u32 = 100;

/// The directory. It ends with the server; what a killed one left behind, its successor in number removes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes it: below `/run` for root, else in the user's runtime directory, else in `/tmp`.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn create() -> io::Result<Folder> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        match runtime {
            _ if process::is_root() => Folder::create_in(Path::new("/run")),
            Some(folder) => Folder::create_in(Path::new(&folder)),
            None => Folder::create_in(Path::new("/tmp")),
        }
    }

    fn create_in(base: &Path) -> io::Result<Folder> {
        let mut failure = None;
        for attempt in 0..ATTEMPTS {
            let path = base.join(format!("tokamak-spawn-{}-{attempt}", std::process::id()));
            // Nobody else can have our number: it is of one that was killed.
            if fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir() && it.uid() == process::effective_uid())
            {
                fs::remove_dir_all(&path)?;
            }
            // The front, another user, passes through it and needs no more.
            match DirBuilder::new().mode(0o711).create(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, Permissions::from_mode(0o711))?; // whatever the umask is
                    return Ok(Folder { path });
                }
                Err(error) => failure = Some((path, error)),
            }
        }
        let (path, error) = failure.expect("there was an attempt");
        Err(io::Error::new(error.kind(), format!("cannot make the directory {}: {error}", path.display())))
    }

    /// Where the socket number `nth` of an upstream is. `index` tells it from other upstreams, `generation` from that of
    /// other generations.
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

/// A listening socket and its file.
#[derive(Debug)]
pub struct Socket {
    listener: OwnedFd,
    path: PathBuf,
}

impl Socket {
    /// Listens at `path`, for `client` alone or, without one, for this process's user.
    ///
    /// # Errors
    /// The place cannot be written to, or its path is too long.
    pub fn open(path: &Path, client: Option<&Identity>) -> io::Result<Socket> {
        let make = || -> io::Result<OwnedFd> {
            // On Linux the file takes over the mode of the socket, so there is no moment at which others may connect.
            let file = File::from(OwnedFd::from(Raw::new(Domain::UNIX, Type::STREAM, None)?));
            file.set_permissions(Permissions::from_mode(0o600))?;
            let socket = Raw::from(OwnedFd::from(file));
            socket.bind(&SockAddr::unix(path)?)?;
            if let Some(client) = client {
                chown(path, Some(client.uid()), Some(client.gid()))?;
            }
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        };
        let listener = make().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
        })?;
        Ok(Socket { listener, path: path.to_owned() })
    }

    /// For a process's descriptor 0. It waits when it has nothing to accept, as FastCGI programs expect.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // As above.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_directory_is_for_passing_through_and_goes_away() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::create_in(base.path()).unwrap();
        let path = folder.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o711);
        drop(folder);
        assert!(!path.exists());
        // What a killed server with our number left is removed; what belongs to nobody of us is left alone.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old.sock"), "").unwrap();
        let folder = Folder::create_in(base.path()).unwrap();
        assert_eq!(folder.path, path);
        assert!(!path.join("old.sock").exists());
        drop(folder);
        fs::write(&path, "a file of somebody else").unwrap();
        assert_ne!(Folder::create_in(base.path()).unwrap().path, path);
        assert!(
            Folder::create_in(Path::new("/nonexistent")).unwrap_err().to_string().contains("/nonexistent/")
        );
    }

    #[test]
    fn a_socket_is_for_one_user_and_can_be_opened_again() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("x.sock");
        for _ in 0..2 {
            let socket = Socket::open(&path, None).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            UnixStream::connect(&path).unwrap();
            drop(socket);
            assert!(UnixStream::connect(&path).is_err());
        }
        let long = base.path().join("x".repeat(200));
        assert!(Socket::open(&long, None).unwrap_err().to_string().contains("cannot listen on"));
    }
}
