//! What a worker of async mode says of each request that it holds: whether it runs, or what it
//! waits for. The worker writes two words in the request's slot at each switch
//! (`crates/php/c/async/shown.c`), and whom a descriptor is connected to when it is connected
//! (`peers.c`); everything else is found out here, when it is shown.
//!
//! A worker may write anything, and goes on while it is read: so every number is judged, every text
//! is bounded and escaped, and the caller looks whether the words are still the same afterwards.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `shim_doing` of `shim.h`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doing {
    /// Nanoseconds ([`tokamak_cost::now`]).
    pub(super) since: AtomicU64,
    pub(super) state: AtomicU64,
}

impl Doing {
    /// One that is never read.
    pub const fn unread() -> Doing {
        Doing { since: AtomicU64::new(0), state: AtomicU64::new(0) }
    }

    /// Whether the request runs; it has begun.
    pub(super) fn is_running(&self) -> bool {
        self.since.load(Ordering::Acquire) != 0
            && self.state.load(Ordering::Acquire).to_le_bytes()[0] == RUNS
    }
}

/// `shim_peer` of `shim.h`.
#[repr(C)]
pub struct Peer {
    pub(super) len: AtomicU32,
    pub(super) owner: AtomicU32,
    pub(super) address: [u8; PEER_MAX],
}

/// Bytes of an address that are kept: the beginning of the path of a Unix socket.
const PEER_MAX: usize = 56;
/// Descriptors of a worker whose peers are kept, from 0 on.
pub(super) const PEERS: usize = 1024;

const _: () = assert!(size_of::<Doing>() == 16 && size_of::<Peer>() == 64);

/// What a request does, as its worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs. All that is known in other modes than async.
    Running,
    /// What it has waited for is there, and another request runs.
    Ready,
    /// It waits.
    Waiting {
        /// For what.
        cause: Cause,
        /// How many further waits it has beside this one, in coroutines.
        others: u8,
    },
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A point in time, in nanoseconds ([`tokamak_cost::now`]).
    Time(u64),
    /// A descriptor.
    Descriptor {
        /// Its number.
        fd: u32,
        /// Whom it is connected to, if that is known.
        peer: Option<String>,
    },
    /// Something else, in words.
    Other(&'static str),
}

/// What stands above a number of `shim.h` for a cause without details.
const OTHERS: &[(u8, &str)] = &[
    (4, "room for its response"),
    (5, "its body"),
    (6, "a lock"),
    (7, "a semaphore"),
    (8, "a message queue"),
    (9, "a process"),
    (10, "a signal"),
    (11, "a name to be resolved"),
    (12, "the other end of a pipe"),
    (13, "a listener that accepts no more"),
    (14, "its coroutines or a Deferred"),
    (15, "another request that resumes its Fiber"),
];

const RUNS: u8 = 0;
const READY: u8 = 1;
const SLEEPS: u8 = 2;
const DESCRIPTOR: u8 = 3;

impl State {
    /// What a word of a worker means at this time. `peer` says whom a descriptor is connected to.
    pub(super) fn read(word: u64, now: u64, peer: impl FnOnce(u32) -> Option<String>) -> State {
        let [kind, others, ..] = word.to_le_bytes();
        let detail = word >> 16;
        let cause = match kind {
            READY => return State::Ready,
            SLEEPS => match detail.saturating_mul(1000) {
                until if until <= now => return State::Ready,
                until => Cause::Time(until),
            },
            DESCRIPTOR => {
                let fd = detail as u32;
                Cause::Descriptor { fd, peer: peer(fd) }
            }
            kind => match OTHERS.iter().find(|(number, _)| *number == kind) {
                Some((_, words)) => Cause::Other(words),
                None => return State::Running,
            },
        };
        State::Waiting { cause, others }
    }
}

/// What it waits for, at a time. Everything in it is printable.
pub struct InWords<'a>(pub &'a Cause, pub u64);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InWords(Cause::Time(until), now) => {
                write!(f, "time, {:.1} s more", until.saturating_sub(*now) as f64 / 1e9)
            }
            InWords(Cause::Descriptor { fd, peer: Some(peer) }, _) => {
                write!(f, "descriptor {fd} to {peer}")
            }
            InWords(Cause::Descriptor { fd, peer: None }, _) => write!(f, "descriptor {fd}"),
            InWords(Cause::Other(words), _) => f.write_str(words),
        }
    }
}

/// The address that these bytes are, as `connect` takes it; none if they are nothing known.
pub(super) fn address(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let port = || Some(u16::from_be_bytes(*rest.first_chunk()?));
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(*rest.get(2..)?.first_chunk::<4>()?);
            Some(SocketAddr::from((ip, port()?)).to_string())
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*rest.get(6..)?.first_chunk::<16>()?);
            Some(SocketAddrV6::new(ip, port()?, 0, 0).to_string())
        }
        libc::AF_UNIX => {
            let end = rest.iter().skip(1).position(|byte| *byte == 0).map_or(rest.len(), |n| n + 1);
            Some(format!("unix:{}", rest[..end.min(rest.len())].escape_ascii()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(kind: u8, others: u8, detail: u64) -> u64 {
        detail << 16 | u64::from(others) << 8 | u64::from(kind)
    }

    #[test]
    fn words_of_a_worker_are_read() {
        let read = |word| State::read(word, 5_000_000, |fd| (fd == 7).then(|| "there".to_owned()));
        assert_eq!(read(word(0, 0, 0)), State::Running);
        assert_eq!(read(word(1, 3, 9)), State::Ready);
        // A time that is over.
        assert_eq!(read(word(2, 0, 5_000)), State::Ready);
        for (read, words) in [
            (read(word(2, 0, 1_505_000)), "time, 1.5 s more"),
            (read(word(3, 0, 7)), "descriptor 7 to there"),
            (read(word(3, 0, 8)), "descriptor 8"),
            (read(word(6, 0, 0)), "a lock"),
        ] {
            let State::Waiting { cause, others: 0 } = read else { panic!("{read:?}") };
            assert_eq!(InWords(&cause, 5_000_000).to_string(), words);
        }
    }

    #[test]
    fn addresses_are_those_of_connect() {
        let bytes = |family: i32, rest: &[u8]| [&(family as u16).to_ne_bytes(), rest].concat();
        let v4 = bytes(libc::AF_INET, &[0x18, 0xeb, 127, 0, 0, 1, 0, 0]);
        assert_eq!(address(&v4).as_deref(), Some("127.0.0.1:6379"));
        let mut v6 = bytes(libc::AF_INET6, &[0, 80, 0, 0, 0, 0]);
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address(&v6).as_deref(), Some("[::1]:80"));
        let unix = bytes(libc::AF_UNIX, b"/run/a\"b.sock\0rubbish");
        assert_eq!(address(&unix).as_deref(), Some("unix:/run/a\\\"b.sock"));
        let nameless = bytes(libc::AF_UNIX, b"\0abstract\0");
        assert_eq!(address(&nameless).as_deref(), Some("unix:\\x00abstract"));
    }

    proptest! {
        #[test]
        fn any_words_and_addresses_are_shown(
            word: u64,
            now: u64,
            bytes in proptest::collection::vec(any::<u8>(), 0..PEER_MAX),
        ) {
            let peer = address(&bytes);
            let shown = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
            prop_assert!(peer.as_deref().is_none_or(|text| shown(text) && text.len() < 300));
            if let State::Waiting { cause, .. } = State::read(word, now, |_| peer) {
                prop_assert!(shown(&InWords(&cause, now).to_string()));
            }
        }
    }
}
