//! A descriptor that is written to without ever waiting for who reads at the other end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{SendFlags, send};

/// One of those.
#[derive(Debug)]
pub struct Outlet<Fd> {
    fd: Fd,
    /// The same pipe or terminal, opened anew so that writing to it does not wait.
    anew: Option<OwnedFd>,
    is_socket: bool,
}

impl<Fd: AsFd> Outlet<Fd> {
    /// One that leads where `fd` leads now. `fd` itself goes on to wait, since others may share it:
    /// whether it does is a property of what is open, not of a process.
    pub fn of(fd: Fd) -> Outlet<Fd> {
        let anew = opened_anew(&fd);
        let is_socket = kind_of(&fd) == Some(FileType::Socket);
        Outlet { fd, anew, is_socket }
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; otherwise those of `write`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_socket {
            return Ok(send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?);
        }
        let fd = self.anew.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        Ok(rustix::io::write(fd, bytes)?)
    }
}

/// Writes a line to standard error if there is room: for a process that has no log of its own, or
/// none yet.
pub fn try_stderr(line: std::fmt::Arguments<'_>) {
    // If the log cannot be written, there is no place to report that.
    let _ = Outlet::of(io::stderr()).write(format!("{line}\n").as_bytes());
}

fn kind_of(fd: impl AsFd) -> Option<FileType> {
    fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)).ok()
}

/// The same pipe or terminal, opened so that writing to it does not wait. `None` for whatever else
/// `fd` is, for another user's pipe, and on a system without `/proc`.
///
/// Writing to a file does not block, as it never waits for a reader. Opened a second time, the file
/// would have a second write position and lines would overwrite others.
pub fn opened_anew(fd: impl AsFd) -> Option<OwnedFd> {
    if !matches!(kind_of(&fd)?, FileType::Fifo | FileType::CharacterDevice) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::{Read, Seek, Write};
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Writes until there is no room; how much that was.
    fn fill(outlet: &Outlet<impl AsFd>) -> usize {
        let mut sum = 0;
        loop {
            match outlet.write(&[b'x'; 1000]) {
                Ok(count) => sum += count,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    return sum;
                }
            }
        }
    }

    #[test]
    fn a_full_pipe_and_a_full_socket_are_not_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut peer, socket) = UnixStream::pair().unwrap();
        let cases: [(BorrowedFd<'_>, &mut dyn Read); 2] =
            [(writer.as_fd(), &mut reader), (socket.as_fd(), &mut peer)];
        for (fd, reader) in cases {
            let outlet = Outlet::of(fd);
            let count = fill(&outlet);
            assert!(count > 0);
            reader.read_exact(&mut vec![0; count]).unwrap();
            assert_eq!(outlet.write(b"room").unwrap(), 4);
            let flags = rustix::fs::fcntl_getfl(fd).unwrap();
            assert!(!flags.contains(OFlags::NONBLOCK), "other users of the pipe block as before");
        }
    }

    #[test]
    fn a_file_is_written_where_the_others_who_share_it_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for mut file in [
            File::create(&path).unwrap(),
            OpenOptions::new().append(true).create(true).open(&path).unwrap(),
        ] {
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            let outlet = Outlet::of(file.try_clone().unwrap());
            file.write_all(b"one\n").unwrap();
            assert_eq!(outlet.write(b"two\n").unwrap(), 4);
            file.write_all(b"three\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        }
    }
}
