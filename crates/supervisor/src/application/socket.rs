//! The sockets of applications: files, for the front alone.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tokamak_sys::process::Identity;

use crate::bind;

/// Connections that wait for a process; the system's own limit applies beside it.
const BACKLOG: i32 = 4096;

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
    /// Fails if the folder cannot be written to, or the path is too long.
    pub fn open(path: &Path, client: Option<&Identity>) -> io::Result<Socket> {
        let make = || -> io::Result<OwnedFd> {
            let socket = bind::file(path)?;
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

    /// For a process's descriptor 0. It waits when it has nothing to accept, as FastCGI programs
    /// expect.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If it is gone already, that is what we want.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

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
