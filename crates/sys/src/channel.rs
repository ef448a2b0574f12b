//! Bounded messages between the processes of one server, with descriptors beside them when needed.
//!
//! A channel is one end of a `SOCK_SEQPACKET` socket pair: a message arrives whole or not at all,
//! and the end of the other process is an event like any message. Both ends are close-on-exec and
//! non-blocking; a caller that wants to wait uses [`poll`]. What the bytes mean is
//! [`crate::control`]'s business.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    sendmsg, socketpair,
};

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

/// Room for the descriptors of one message, as the kernel wants it.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(MAX_FDS));

impl Channel {
    /// Two connected ends.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel { fd: one }, Channel { fd: other }))
    }

    /// The end behind an inherited descriptor, which is made close-on-exec again: what the process
    /// may execute later must not hold it.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Channel> {
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        Ok(Channel { fd })
    }

    /// Sends one message, or fails with `WouldBlock` when the other side does not keep up.
    ///
    /// An empty message is refused: for the receiver it would look like the end of the channel.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_MESSAGE || fds.len() > MAX_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "message empty or too long"));
        }
        let mut room = [MaybeUninit::uninit(); ANCILLARY];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(()), // a packet is sent whole
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How long the next message is, if there is one: 0 at the end of the channel. Processes look
    /// some times a second and mostly find nothing, so memory is taken for what has come.
    fn length_of_next(&self) -> io::Result<Option<usize>> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC;
        loop {
            match recv(&self.fd, &mut [0_u8; 0], flags) {
                Ok((_, length)) => return Ok(Some(length)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::CONNRESET) => return Ok(Some(0)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next message if there is one; never waits.
    ///
    /// A message longer than [`MAX_MESSAGE`] or with too many descriptors is an `InvalidData`
    /// error. One for whose descriptors this process has no room is an error with the system's
    /// number `EMFILE`. Either message is gone with all that came with it, and the next one can be
    /// taken.
    pub fn receive(&self) -> io::Result<Received> {
        let length = match self.length_of_next()? {
            None => return Ok(Received::Nothing),
            Some(0) => {
                // An empty message looks like the end, and must not be there for ever.
                let _ = recv(&self.fd, &mut [0_u8; 0], RecvFlags::DONTWAIT);
                return Ok(Received::Closed);
            }
            Some(length) => length,
        };
        let mut bytes = vec![0_u8; length.min(MAX_MESSAGE)];
        let mut room = [MaybeUninit::uninit(); ANCILLARY];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let found = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.fd, &mut parts, &mut ancillary, flags) {
                Ok(found) => break found,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::CONNRESET) => return Ok(Received::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        // Taken in any case, so that they are closed with a message that is refused.
        let mut fds: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        let has_lost_descriptors = found.flags.contains(ReturnFlags::CTRUNC);
        let has_too_many = has_lost_descriptors && fds.len() == MAX_FDS;
        if has_too_many || found.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
        }
        if has_lost_descriptors {
            return Err(Errno::MFILE.into());
        }
        let count = found.bytes;
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

/// A bell: a non-blocking, close-on-exec eventfd. Writing to it wakes its pollers.
pub fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
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
    let mut entries: Vec<PollFd<'_>> = watches
        .iter()
        .map(|watch| {
            let write = if watch.wants_write { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(watch.fd, PollFlags::IN | write)
        })
        .collect();
    // A time too long for the kernel is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let ready = match rustix::event::poll(&mut entries, limit.as_ref()) {
        Ok(ready) => ready,
        Err(Errno::INTR) => 0,
        Err(error) => return Err(error.into()),
    };
    for (watch, entry) in watches.iter_mut().zip(&entries) {
        let found = entry.revents();
        let gone = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        watch.readable = ready > 0 && (found.contains(PollFlags::IN) || gone);
        watch.writable = ready > 0 && found.contains(PollFlags::OUT);
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
    fn a_message_without_room_for_its_descriptor_is_an_error_and_the_next_one_passes() {
        let (left, right) = Channel::pair().unwrap();
        let file: File = tempfile::tempfile().unwrap();
        left.send(b"a file", &[file.as_fd()]).unwrap();
        left.send(b"good", &[]).unwrap();
        let is_right = || {
            // SAFETY: changes a limit of this process alone.
            unsafe {
                libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 })
            };
            let refused = right.receive().map_err(|error| error.raw_os_error());
            let passed = right.receive();
            matches!(refused, Err(Some(libc::EMFILE)))
                && matches!(passed, Ok(Received::Message(bytes, _)) if bytes == b"good")
        };
        // The limit is a process's, so one of its own is tried.
        // SAFETY: the child allocates, which glibc allows after fork, and ends at once.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child, without the destructors of the parent's values.
            0 => unsafe { libc::_exit(i32::from(!is_right())) },
            pid => {
                let mut status = -1;
                // SAFETY: waits for our child.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                assert_eq!(status, 0);
            }
        }
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
