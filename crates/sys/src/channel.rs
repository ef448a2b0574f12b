//! Bounded messages between the processes of one server, with descriptors beside them when needed.
//!
//! A channel is one end of a `SOCK_SEQPACKET` socket pair: a message arrives whole or not at all,
//! and the end of the other process is an event like any message. Both ends are close-on-exec and
//! non-blocking; a caller that wants to wait uses [`poll`]. What the bytes mean is
//! [`crate::control`]'s business.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Longest message. A pool's settings are the longest in practice; the kernel's default socket
/// buffer (208 KiB) holds one.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// Most descriptors that travel with one message.
pub const MAX_FDS: usize = 8;

/// One end of a channel.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
}

/// What [`Channel::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A whole message and the descriptors that came with it (close-on-exec).
    Message(Vec<u8>, Vec<OwnedFd>),
    /// Nothing is there now.
    Nothing,
    /// The other end is gone, and everything it sent has been read.
    Closed,
}

/// Room for the ancillary data of one message, aligned as the kernel's `cmsghdr` wants it.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

const _: () = assert!(mem::align_of::<Ancillary>() >= mem::align_of::<libc::cmsghdr>());
// CMSG_SPACE(MAX_FDS * 4) on a 64-bit system: 16 bytes of header and the descriptors.
const _: () = assert!(16 + MAX_FDS * 4 <= 64);

impl Channel {
    /// Two connected ends.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `fds` has room for the two descriptors that the call writes.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so both are open descriptors that nobody else owns.
        Ok(unsafe {
            (
                Channel { fd: OwnedFd::from_raw_fd(fds[0]) },
                Channel { fd: OwnedFd::from_raw_fd(fds[1]) },
            )
        })
    }

    /// The end behind an inherited descriptor, which is made close-on-exec again: what the process
    /// may execute later must not hold it.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Channel> {
        // SAFETY: `fd` is open; F_SETFD changes a flag of the descriptor only.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Channel { fd })
    }

    /// Sends one message, or fails with `WouldBlock` when the other side does not keep up.
    ///
    /// An empty message is refused: the receiver could not tell it from the end of the channel.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_MESSAGE || fds.len() > MAX_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "message empty or too long"));
        }
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut ancillary = Ancillary([0; 64]);
        // SAFETY: an all-zero `msghdr` is valid: no address, no parts, no ancillary data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            let size = mem::size_of_val(fds) as u32;
            message.msg_control = ancillary.0.as_mut_ptr().cast();
            // SAFETY: CMSG_SPACE only computes.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as _;
            // SAFETY: `msg_control` points to aligned room of `msg_controllen` bytes (at most 64 by
            // the assertion above), so the first header and its data lie inside; `BorrowedFd` is a
            // transparent descriptor, thus `fds` is an array of `c_int`.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size) as _;
                std::ptr::copy_nonoverlapping(
                    fds.as_ptr().cast::<u8>(),
                    libc::CMSG_DATA(header),
                    size as usize,
                );
            }
        }
        loop {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: `message` and all it points to live until the call returns.
            let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, flags) };
            if sent >= 0 {
                return Ok(()); // a packet is sent whole
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Takes the next message if there is one; never waits.
    ///
    /// A message longer than [`MAX_MESSAGE`] or with too many descriptors is an `InvalidData`
    /// error, and is gone with all that came with it.
    pub fn receive(&self) -> io::Result<Received> {
        let mut bytes = vec![0_u8; MAX_MESSAGE];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut ancillary = Ancillary([0; 64]);
        // SAFETY: as in `send`.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.0.as_mut_ptr().cast();
        message.msg_controllen = ancillary.0.len() as _;
        let count = loop {
            let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            // SAFETY: `message` describes writable memory that lives until the call returns.
            let count = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags) };
            if count >= 0 {
                break count as usize;
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => continue,
                io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
                io::ErrorKind::ConnectionReset => return Ok(Received::Closed),
                _ => return Err(error),
            }
        };
        let fds = received_fds(&message);
        if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
        }
        if count == 0 {
            return Ok(Received::Closed);
        }
        bytes.truncate(count);
        Ok(Received::Message(bytes, fds))
    }

    /// Takes the next message, waiting up to `limit` for it ([`None`]: for as long as it takes).
    pub fn receive_within(&self, limit: Option<Duration>) -> io::Result<Received> {
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            match self.receive()? {
                Received::Nothing => {}
                other => return Ok(other),
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Received::Nothing);
            }
            poll(&mut [Watch::read(self.as_fd())], left)?;
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.fd
    }
}

/// The descriptors in the ancillary data of a message that `recvmsg` has filled in.
fn received_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: `recvmsg` wrote `msg_control` and set `msg_controllen` to what it wrote; the CMSG_
    // functions stay inside that. Every descriptor in SCM_RIGHTS was opened for this process by the
    // kernel and has no other owner.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(entry) = header.as_ref() {
            if entry.cmsg_level == libc::SOL_SOCKET && entry.cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                let bytes = entry.cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / mem::size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    fds
}

/// A bell: a non-blocking, close-on-exec eventfd. Writing to it wakes its pollers.
pub fn bell() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One descriptor for [`poll`] to look at, and what it found.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    fd: BorrowedFd<'a>,
    wants_write: bool,
    /// There is something to read, or the other side is gone (reading then says so).
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

impl<'a> Watch<'a> {
    /// Waits for something to read.
    pub fn read(fd: BorrowedFd<'a>) -> Watch<'a> {
        Watch { fd, wants_write: false, readable: false, writable: false }
    }

    /// Waits for something to read, and for room to write if `wants_write`.
    pub fn read_write(fd: BorrowedFd<'a>, wants_write: bool) -> Watch<'a> {
        Watch { fd, wants_write, readable: false, writable: false }
    }
}

/// Waits until one of the descriptors is ready or `limit` has passed ([`None`]: no limit). A signal
/// ends the wait early, with nothing ready.
pub fn poll(watches: &mut [Watch<'_>], limit: Option<Duration>) -> io::Result<()> {
    let mut entries: Vec<libc::pollfd> = watches
        .iter()
        .map(|watch| libc::pollfd {
            fd: watch.fd.as_raw_fd(),
            events: if watch.wants_write { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN },
            revents: 0,
        })
        .collect();
    // Rounded up: a wait of half a millisecond must not become a busy loop.
    let milliseconds = match limit {
        None => -1,
        Some(limit) => i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
    };
    // SAFETY: `entries` is an array of the given length, alive until the call returns.
    let ready =
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    for (watch, entry) in watches.iter_mut().zip(&entries) {
        let gone = entry.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
        watch.readable = ready > 0 && (entry.revents & libc::POLLIN != 0 || gone);
        watch.writable = ready > 0 && entry.revents & libc::POLLOUT != 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    fn message(received: Received) -> (Vec<u8>, Vec<OwnedFd>) {
        match received {
            Received::Message(bytes, fds) => (bytes, fds),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_keep_their_borders_and_order() {
        let (left, right) = Channel::pair().unwrap();
        left.send(b"one", &[]).unwrap();
        left.send(b"two and more", &[]).unwrap();
        assert_eq!(message(right.receive().unwrap()).0, b"one");
        assert_eq!(message(right.receive().unwrap()).0, b"two and more");
        assert!(matches!(right.receive().unwrap(), Received::Nothing));
    }

    #[test]
    fn the_end_of_the_other_side_is_seen_after_its_last_message() {
        let (left, right) = Channel::pair().unwrap();
        left.send(b"last", &[]).unwrap();
        drop(left);
        assert_eq!(message(right.receive().unwrap()).0, b"last");
        assert!(matches!(right.receive().unwrap(), Received::Closed));
        assert_eq!(right.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn descriptors_travel_and_are_close_on_exec() {
        let (left, right) = Channel::pair().unwrap();
        let mut file: File = tempfile::tempfile().unwrap();
        left.send(b"a file", &[file.as_fd(), file.as_fd()]).unwrap();
        let (bytes, fds) = message(right.receive().unwrap());
        assert_eq!((bytes.as_slice(), fds.len()), (b"a file".as_slice(), 2));
        for fd in &fds {
            // SAFETY: `fd` is open.
            let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        }
        File::from(fds.into_iter().next().unwrap()).write_all(b"written").unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "written");
    }

    #[test]
    fn the_longest_message_passes_and_a_longer_one_is_refused() {
        let (left, right) = Channel::pair().unwrap();
        left.send(&vec![7; MAX_MESSAGE], &[]).unwrap();
        assert_eq!(message(right.receive().unwrap()).0.len(), MAX_MESSAGE);
        for bad in [vec![], vec![0; MAX_MESSAGE + 1]] {
            assert_eq!(left.send(&bad, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn an_overlong_message_of_a_foreign_sender_is_an_error_and_the_next_one_passes() {
        let (left, right) = Channel::pair().unwrap();
        let long = vec![1_u8; MAX_MESSAGE + 1];
        // SAFETY: `long` is readable for its length.
        let sent = unsafe { libc::send(left.as_raw_fd(), long.as_ptr().cast(), long.len(), 0) };
        assert_eq!(sent, long.len() as isize);
        left.send(b"good", &[]).unwrap();
        assert_eq!(right.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(message(right.receive().unwrap()).0, b"good");
    }

    #[test]
    fn a_full_channel_says_so_instead_of_waiting() {
        let (left, _right) = Channel::pair().unwrap();
        let error = (0..100_000).find_map(|_| left.send(&[0; 1000], &[]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut watch = [Watch::read_write(left.as_fd(), true)];
        poll(&mut watch, Some(Duration::ZERO)).unwrap();
        assert!(!watch[0].writable && !watch[0].readable);
    }

    #[test]
    fn a_bell_rings() {
        let bell = bell().unwrap();
        let rings = |bell: &OwnedFd| {
            let mut watch = [Watch::read(bell.as_fd())];
            poll(&mut watch, Some(Duration::ZERO)).unwrap();
            watch[0].readable
        };
        assert!(!rings(&bell));
        File::from(bell.try_clone().unwrap()).write_all(&1_u64.to_ne_bytes()).unwrap();
        assert!(rings(&bell));
    }

    #[test]
    fn waiting_has_an_end() {
        let (left, right) = Channel::pair().unwrap();
        let start = Instant::now();
        let nothing = right.receive_within(Some(Duration::from_millis(30))).unwrap();
        assert!(matches!(nothing, Received::Nothing));
        assert!(start.elapsed() >= Duration::from_millis(30));
        let waiter = std::thread::spawn(move || message(right.receive_within(None).unwrap()).0);
        std::thread::sleep(Duration::from_millis(10));
        left.send(b"late", &[]).unwrap();
        assert_eq!(waiter.join().unwrap(), b"late");
    }
}
