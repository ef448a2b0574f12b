//! What the processes of one server tell each other: the messages and their encoding.
//!
//! The supervisor talks to each PHP zygote and to the front over a [`Channel`]. The other side may
//! run other people's code, so decoding trusts nothing: every length is checked, unknown tags,
//! trailing bytes and oversized texts are refused, and no pid of a message is ever signalled.
//!
//! # How a zygote is started
//!
//! The program `tokamak-php` is executed with the single argument [`ZYGOTE_ARGUMENT`], already
//! running as the pool's user, with the pool's environment, and with exactly these descriptors
//! beyond 0, 1 and 2 (2 is the error log):
//!
//! ```text
//! 3              the zygote's end of its channel             ZYGOTE_CHANNEL
//! 4              the pool's segment (memfd)                  ZYGOTE_SEGMENT
//! 5, 6, …        one eventfd for each event loop of the front ZYGOTE_BELLS; their number is the segment's
//! ```
//!
//! ```text
//! supervisor                          zygote
//!   Settings(key/value…)   ──────▶      module start-up
//!                          ◀──────      Ready{version}  |  Failed{message}, then it exits
//!   Spawn{index, instance} ──────▶      forks a worker
//!                          ◀──────      Spawned{index, instance, pid}
//!   Kill{index, …, signal} ──────▶      signals that worker if it is still that instance
//!                          ◀──────      Exited{index, instance, status}
//!                          ◀──────      Outdated{reason}
//!   Ask                    ──────▶
//!                          ◀──────      Alive
//!   Quit, or end of file   ──────▶      kills its workers, reaps them, exits
//! ```
//!
//! In sealed mode start-up includes the application's boot, so `Ready` may take a while, and
//! `Failed` may be the application's fault.
//!
//! Workers die with their zygote (`PR_SET_PDEATHSIG`), the zygote with the supervisor.

mod cache;
mod upstreams;
mod wire;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::channel::{Channel, Received};
pub use cache::{CacheStatus, Purge};
pub use upstreams::{AddressAction, AddressChange, AddressState, AddressStatus};
use wire::{Reader, Writer};

/// The only argument of a zygote.
pub const ZYGOTE_ARGUMENT: &str = "zygote";
/// Descriptor of the zygote's end of its channel.
pub const ZYGOTE_CHANNEL: i32 = 3;
/// Descriptor of the pool's segment.
pub const ZYGOTE_SEGMENT: i32 = 4;
/// Descriptor of the first event loop's eventfd; the others follow.
pub const ZYGOTE_BELLS: i32 = 5;

/// The worker was told to leave, or has served as many requests as it may.
pub const EXIT_RETIRED: u8 = 0;
/// The worker could not boot: the worker script is missing, failed, or left before its first
/// `tokamak_handle_request`. Reasons are in the error log.
pub const EXIT_BOOT_FAILED: u8 = 101;
/// The worker noticed, idle, that a peer of its open connections (a database) had hung up.
pub const EXIT_STALE: u8 = 102;
/// The zygote could not fork; there never was a process.
pub const EXIT_NO_FORK: u8 = 103;
/// The segment or a descriptor was not what the worker expects: the two programs do not belong
/// together.
pub const EXIT_MISMATCH: u8 = 104;
/// The worker found, between two requests, that its image is outdated: a file of the application
/// has changed, or opcache was reset. To be said once by the workers of a zygote: those that it
/// forks afterwards keep serving the old image until the new one is there, so that requests under
/// way are answered.
pub const EXIT_OUTDATED: u8 = 105;
/// The worker could not undo what a request did, so it ends rather than serve another.
pub const EXIT_DOUBT: u8 = 106;

/// Keys of [`ToZygote::Settings`]. A key ends with a dot when a name follows it.
pub mod key {
    /// Site name, for log lines.
    pub const SITE: &str = "site";
    /// [`MODE_CLASSIC`], [`MODE_WORKER`] or [`MODE_SEALED`].
    pub const MODE: &str = "mode";
    /// Value of [`MODE`]: full request start-up and shutdown.
    pub const MODE_CLASSIC: &str = "classic";
    /// Value of [`MODE`]: the application's loop calls a handler.
    pub const MODE_WORKER: &str = "worker";
    /// Value of [`MODE`]: every request is served from the same image of the booted application.
    pub const MODE_SEALED: &str = "sealed";
    /// Worker script, absolute, symlinks resolved when the zygote was started. In sealed mode
    /// optional.
    pub const SCRIPT: &str = "script";
    /// Script that is run once before the image is taken, absolute, symlinks resolved. Sealed mode
    /// only, never beside [`SCRIPT`].
    pub const BOOT: &str = "boot";
    /// `warm.0=/login`: a target that is requested, and the response thrown away, before the image
    /// is taken. Sealed mode only; numbered from 0 in the order of the configuration.
    pub const WARM: &str = "warm.";
    /// Document root, absolute.
    pub const ROOT: &str = "root";
    /// Kinds of state that worker mode leaves alone between requests, separated by commas; names as
    /// in the configuration (`ini`, `error_handlers`, `cwd`, `umask`, `locale`, `timezone`,
    /// `encodings`, `env`, `session`).
    pub const KEEP: &str = "keep";
    /// Requests after which a worker leaves with [`super::EXIT_RETIRED`]; `0`: never.
    pub const MAX_REQUESTS: &str = "max_requests";
    /// The worker answers requests of the method `STATE` itself, for the seal report; the value is
    /// what strings of the report's own requests contain.
    pub const REPORT: &str = "report";
    /// `ini.NAME=value`: a `php.ini` setting that scripts may change.
    pub const INI: &str = "ini.";
    /// `admin.NAME=value`: a `php.ini` setting that scripts cannot change.
    pub const ADMIN: &str = "admin.";
    /// The requests come over FastCGI, to a pool of `tokamak fpm`; any value.
    pub const FPM: &str = "fpm";
    /// What workers write to their standard output and error is handed over with
    /// [`super::FromZygote::Spawned`], and what a site's zygote writes there with
    /// [`super::FromZygote::Output`]; any value. Without it the output is lost beside
    /// [`FPM`], and goes to the zygote's own in a site.
    pub const CATCH_OUTPUT: &str = "catch_output";
    /// Least level of what a worker itself says there: `debug`, `notice`, `warning`, `error` or
    /// `alert`. Beside [`FPM`] only.
    pub const LOG_LEVEL: &str = "log_level";
    /// Others of the same user may look into the processes' memory, and the processes leave core
    /// files; any value.
    pub const DUMPABLE: &str = "dumpable";
    /// Number of the capability that guards the zygote from others of the same user, as long as it
    /// lives; workers give it up.
    pub const GUARD: &str = "guard";
    /// The zygote will be asked where slow requests are; any value.
    pub const SLOW: &str = "slow";
    /// Endings of files that may be run, separated by spaces; empty or absent: any.
    pub const LIMIT_EXTENSIONS: &str = "limit_extensions";
    /// Root directory of the workers, entered after module start-up. Needs a zygote that may do
    /// that.
    pub const CHROOT: &str = "chroot";
    /// Current directory of the workers, seen from their root directory.
    pub const CHDIR: &str = "chdir";
    /// `uid gid gid,gid,…`: user, group and supplementary groups that the zygote takes on after it
    /// has entered [`CHROOT`].
    pub const IDENTITY: &str = "identity";
    /// `define.NAME=value`: a `php.ini` setting before all others, the value written as in that
    /// file.
    pub const DEFINE: &str = "define.";
    /// No `php.ini` is read; any value.
    pub const NO_INI: &str = "no_ini";
    /// Where `php.ini` is: the file or its directory.
    pub const INI_FILE: &str = "ini_file";
    /// Scripts are compiled for debuggers; any value.
    pub const EXTENDED_INFO: &str = "extended_info";
    /// `env.NAME=value`: for `$_SERVER`; the process already has it in its environment.
    pub const ENV: &str = "env.";
    /// Names of variables that are for PHP's start and not for scripts, separated by spaces.
    pub const HIDDEN_ENV: &str = "hidden_env";
}

/// What a worker whose output is caught writes to its standard error at the end of a request, so
/// that what it said is not kept back for want of a line's end.
pub const FLUSH: &[u8] = b"\0fscf\0";

/// Most pairs in one [`ToZygote::Settings`].
pub const MAX_SETTINGS: usize = 4096;
/// Longest text of a message for people (a version, a failure, a reason), in bytes; longer ones are
/// cut when encoded and refused when decoded.
pub const MAX_TEXT: usize = 4096;

/// What the supervisor tells a zygote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToZygote {
    /// How the pool is configured; the first message, sent once. Keys in [`key`].
    Settings(Vec<(String, String)>),
    /// Fork a worker for this board entry.
    Spawn {
        /// Board entry.
        index: u16,
        /// Unique for the life of the segment, never 0.
        instance: u32,
    },
    /// Signal a worker, if the board entry still belongs to that instance.
    Kill {
        /// Board entry.
        index: u16,
        /// As in [`ToZygote::Spawn`].
        instance: u32,
        /// Which signal.
        signal: Signal,
    },
    /// Kill the workers, reap them, exit.
    Quit,
    /// Say [`FromZygote::Alive`].
    Ask,
}

/// The signals that a worker may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Write the PHP backtrace of the current request to the error log and go on.
    Backtrace,
    /// End, wherever it is.
    Kill,
}

impl Signal {
    /// The system's number. The backtrace takes a real-time signal because applications use
    /// `SIGUSR1` and `SIGUSR2` themselves.
    pub fn number(self) -> i32 {
        match self {
            Signal::Backtrace => libc::SIGRTMIN() + 7,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

/// What a zygote tells the supervisor. Untrusted: workers run as the same user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromZygote {
    /// Module start-up is done; PHP's version.
    Ready {
        /// `PHP_VERSION`, for people.
        version: String,
        /// `expose_php`: whether responses tell it.
        exposes: bool,
    },
    /// A worker was forked. With [`key::CATCH_OUTPUT`] two descriptors come along: the reading ends
    /// of what it writes to its standard output and to its standard error.
    Spawned {
        /// Board entry.
        index: u16,
        /// As told by [`ToZygote::Spawn`].
        instance: u32,
        /// Process id, for people; never signalled by anyone but the zygote.
        pid: u32,
    },
    /// A worker has ended (or could not be forked: [`EXIT_NO_FORK`]).
    Exited {
        /// Board entry.
        index: u16,
        /// As told by [`ToZygote::Spawn`].
        instance: u32,
        /// How it ended.
        status: Status,
    },
    /// Where a worker of a pool of `tokamak fpm` is, as asked for by [`Signal::Backtrace`].
    Slow {
        /// Board entry.
        index: u16,
        /// As told by [`ToZygote::Spawn`].
        instance: u32,
        /// The script's file in a line, then one for each call, the innermost first: address,
        /// function, file and line number, with tabs between them. The last line may be cut.
        trace: String,
    },
    /// Somebody has changed what its workers inherit: its limits, its priority or the like. It goes
    /// on until it is told to quit.
    Changed {
        /// What, for people.
        reason: String,
    },
    /// What the zygote itself and programs that it starts write: two descriptors come along, as
    /// with [`FromZygote::Spawned`].
    Output,
    /// The answer to [`ToZygote::Ask`].
    Alive,
    /// The zygote cannot go on and exits.
    Failed {
        /// Why, for people.
        message: String,
    },
    /// The image that its workers serve is outdated, as by [`EXIT_OUTDATED`]; it goes on serving
    /// until it is told to quit.
    Outdated {
        /// What has changed, for people.
        reason: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this status.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code) => write!(f, "exit status {code}"),
            Status::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

/// What the supervisor tells the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToFront {
    /// A worker has ended, and touches the segment no more: a request that it holds will get no
    /// (further) answer, and its slot may be used again.
    Death {
        /// Number of the pool.
        pool: u32,
        /// Board entry.
        index: u16,
        /// Which process of that entry.
        instance: u32,
        /// What became of it.
        why: Why,
    },
    /// A site has another pool: new requests go to that one. The memory of its queue comes with the
    /// message; the bells are the same.
    Renew {
        /// Number of the pool that is in use.
        old: u32,
        /// Number of the other one; unique in the life of the front.
        new: u32,
    },
    /// All processes of a pool that is not in use any more are dead. What it has not answered is
    /// lost.
    Forget {
        /// Number of the pool.
        pool: u32,
    },
    /// Accept no more connections, answer the requests that are under way, then say
    /// [`FromFront::Drained`] and exit.
    Drain,
    /// Write to these log files from now on. Their descriptors come with the message, in this
    /// order.
    Reopen {
        /// The first descriptor is the error log (to be put at 2).
        error: bool,
        /// The next descriptor is the access log.
        access: bool,
    },
    /// Run this change if there is one, then say how the addresses of FastCGI applications stand,
    /// and the content cache: [`FromFront::AddressStatus`] for each, [`FromFront::Cache`] if there
    /// is one, then [`FromFront::Answered`].
    Upstreams {
        /// Comes back with the answer; 0: none is wanted.
        question: u32,
        /// What is to be done first.
        change: Option<AddressChange>,
    },
    /// Remove this from the content cache, then say [`FromFront::Purged`] and
    /// [`FromFront::Answered`].
    Purge {
        /// As in [`ToFront::Upstreams`].
        question: u32,
        /// What is to be removed.
        what: Purge,
    },
}

/// Why a worker is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A signal that was not sent by our processes.
    Crash(u8),
    /// It exited by itself with this status.
    Exit(u8),
    /// It was killed because its request took longer than `request_timeout`.
    TimedOut,
    /// It left because a connection of the application was dead ([`EXIT_STALE`]).
    Stale,
}

/// What the front tells the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromFront {
    /// It accepts connections.
    Ready,
    /// After [`ToFront::Drain`]: it accepts no more connections.
    Draining,
    /// After that: the last request is answered.
    Drained,
    /// A request waits in this pool and no worker is there to take it.
    Want {
        /// Number of the pool.
        pool: u32,
    },
    /// After [`ToFront::Renew`]: no request is left in the pool that was in use before.
    Left {
        /// Number of that pool.
        pool: u32,
    },
    /// The queue of this pool is spoiled.
    Spoiled {
        /// Number of the pool.
        pool: u32,
        /// What is wrong with it, for people.
        reason: String,
    },
    /// Said every half second.
    Turned {
        /// The event loops that have turned since it was said last.
        loops: Vec<u16>,
    },
    /// The front cannot go on and exits.
    Failed {
        /// Why, for people.
        message: String,
    },
    /// How one address stands.
    AddressStatus {
        /// Which question this answers.
        question: u32,
        /// Place of the upstream in the configuration.
        upstream: u16,
        /// How it stands.
        status: AddressStatus,
    },
    /// How the content cache stands.
    Cache {
        /// Question that this answers.
        question: u32,
        /// How it stands.
        status: CacheStatus,
    },
    /// Something was removed from the content cache.
    Purged {
        /// Question that this answers.
        question: u32,
        /// How many responses.
        count: u64,
    },
    /// That is all about this question.
    Answered {
        /// Which one.
        question: u32,
        /// What is wrong with the change, for people.
        outcome: Result<(), String>,
    },
}

/// A message that does not follow the rules above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage(&'static str);

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad control message: {}", self.0)
    }
}

impl std::error::Error for BadMessage {}

impl From<BadMessage> for io::Error {
    fn from(bad: BadMessage) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, bad)
    }
}

/// One direction of a conversation.
pub trait Message: Sized {
    /// The message as bytes.
    fn encode(&self) -> Vec<u8>;
    /// The message that the bytes spell, all of them.
    fn decode(bytes: &[u8]) -> Result<Self, BadMessage>;
}

/// What [`receive`] found.
#[derive(Debug)]
pub enum Heard<M> {
    /// A message and the descriptors that came with it.
    Message(M, Vec<OwnedFd>),
    /// Nothing is there now (or came in time).
    Nothing,
    /// The other side is gone.
    Closed,
}

/// Sends a message; `WouldBlock` when the other side does not keep up.
pub fn send<M: Message>(channel: &Channel, message: &M, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    channel.send(&message.encode(), fds)
}

/// Takes the next message if there is one. A bad message is an `InvalidData` error.
pub fn receive<M: Message>(channel: &Channel) -> io::Result<Heard<M>> {
    understand(channel.receive()?)
}

/// Takes the next message, waiting up to `limit` ([`None`]: without limit).
pub fn receive_within<M: Message>(
    channel: &Channel,
    limit: Option<Duration>,
) -> io::Result<Heard<M>> {
    understand(channel.receive_within(limit)?)
}

/// What was received, as a message. A bad message is an `InvalidData` error.
pub fn understand<M: Message>(received: Received) -> io::Result<Heard<M>> {
    Ok(match received {
        Received::Message(bytes, fds) => Heard::Message(M::decode(&bytes)?, fds),
        Received::Nothing => Heard::Nothing,
        Received::Closed => Heard::Closed,
    })
}

impl Message for ToZygote {
    fn encode(&self) -> Vec<u8> {
        match self {
            ToZygote::Settings(pairs) => {
                let mut out = Writer::new(1).u32(pairs.len() as u32);
                for (name, value) in pairs {
                    out = out.text(name).text(value);
                }
                out.end()
            }
            ToZygote::Spawn { index, instance } => Writer::new(2).u16(*index).u32(*instance).end(),
            ToZygote::Kill { index, instance, signal } => {
                let signal = match signal {
                    Signal::Backtrace => 1,
                    Signal::Kill => 2,
                };
                Writer::new(3).u16(*index).u32(*instance).u8(signal).end()
            }
            ToZygote::Quit => Writer::new(4).end(),
            ToZygote::Ask => Writer::new(5).end(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<ToZygote, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => {
                let count = from.u32()? as usize;
                if count > MAX_SETTINGS {
                    return Err(BadMessage("too many settings"));
                }
                let pair = |_| Ok((from.text(usize::MAX)?, from.text(usize::MAX)?));
                ToZygote::Settings((0..count).map(pair).collect::<Result<_, _>>()?)
            }
            2 => ToZygote::Spawn { index: from.u16()?, instance: from.instance()? },
            3 => {
                let (index, instance) = (from.u16()?, from.instance()?);
                let signal = match from.u8()? {
                    1 => Signal::Backtrace,
                    2 => Signal::Kill,
                    _ => return Err(BadMessage("unknown signal")),
                };
                ToZygote::Kill { index, instance, signal }
            }
            4 => ToZygote::Quit,
            5 => ToZygote::Ask,
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

impl Message for FromZygote {
    fn encode(&self) -> Vec<u8> {
        match self {
            FromZygote::Ready { version, exposes } => {
                Writer::new(1).u8(u8::from(*exposes)).text(cut(version)).end()
            }
            FromZygote::Spawned { index, instance, pid } => {
                Writer::new(2).u16(*index).u32(*instance).u32(*pid).end()
            }
            FromZygote::Exited { index, instance, status } => {
                let (kind, value) = match *status {
                    Status::Code(code) => (1, code),
                    Status::Signal(number) => (2, number),
                };
                Writer::new(3).u16(*index).u32(*instance).u8(kind).u8(value).end()
            }
            FromZygote::Failed { message } => Writer::new(4).text(cut(message)).end(),
            FromZygote::Outdated { reason } => Writer::new(5).text(cut(reason)).end(),
            FromZygote::Alive => Writer::new(7).end(),
            FromZygote::Output => Writer::new(8).end(),
            FromZygote::Changed { reason } => Writer::new(9).text(cut(reason)).end(),
            FromZygote::Slow { index, instance, trace } => {
                Writer::new(6).u16(*index).u32(*instance).text(cut(trace)).end()
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<FromZygote, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => {
                let exposes = from.u8()? != 0;
                FromZygote::Ready { version: from.text(MAX_TEXT)?, exposes }
            }
            2 => FromZygote::Spawned {
                index: from.u16()?,
                instance: from.instance()?,
                pid: from.u32()?,
            },
            3 => {
                let (index, instance) = (from.u16()?, from.instance()?);
                let status = match (from.u8()?, from.u8()?) {
                    (1, code) => Status::Code(code),
                    (2, number) => Status::Signal(number),
                    _ => return Err(BadMessage("unknown status")),
                };
                FromZygote::Exited { index, instance, status }
            }
            4 => FromZygote::Failed { message: from.text(MAX_TEXT)? },
            5 => FromZygote::Outdated { reason: from.text(MAX_TEXT)? },
            7 => FromZygote::Alive,
            8 => FromZygote::Output,
            9 => FromZygote::Changed { reason: from.text(MAX_TEXT)? },
            6 => FromZygote::Slow {
                index: from.u16()?,
                instance: from.instance()?,
                trace: from.text(MAX_TEXT)?,
            },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

impl Message for ToFront {
    fn encode(&self) -> Vec<u8> {
        match self {
            ToFront::Death { pool, index, instance, why } => {
                let (kind, value) = match *why {
                    Why::Crash(number) => (1, number),
                    Why::Exit(code) => (2, code),
                    Why::TimedOut => (3, 0),
                    Why::Stale => (4, 0),
                };
                Writer::new(1).u32(*pool).u16(*index).u32(*instance).u8(kind).u8(value).end()
            }
            ToFront::Drain => Writer::new(2).end(),
            ToFront::Reopen { error, access } => {
                Writer::new(3).u8(u8::from(*error)).u8(u8::from(*access)).end()
            }
            ToFront::Upstreams { question, change } => {
                AddressChange::encode(change.as_ref(), Writer::new(4).u32(*question)).end()
            }
            ToFront::Purge { question, what } => what.encode(Writer::new(5).u32(*question)).end(),
            ToFront::Renew { old, new } => Writer::new(6).u32(*old).u32(*new).end(),
            ToFront::Forget { pool } => Writer::new(7).u32(*pool).end(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<ToFront, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => {
                let (pool, index, instance) = (from.u32()?, from.u16()?, from.instance()?);
                let why = match (from.u8()?, from.u8()?) {
                    (1, number) => Why::Crash(number),
                    (2, code) => Why::Exit(code),
                    (3, 0) => Why::TimedOut,
                    (4, 0) => Why::Stale,
                    _ => return Err(BadMessage("unknown reason")),
                };
                ToFront::Death { pool, index, instance, why }
            }
            2 => ToFront::Drain,
            3 => ToFront::Reopen { error: from.flag()?, access: from.flag()? },
            4 => ToFront::Upstreams {
                question: from.u32()?,
                change: AddressChange::decode(&mut from)?,
            },
            5 => ToFront::Purge { question: from.u32()?, what: Purge::decode(&mut from)? },
            6 => ToFront::Renew { old: from.u32()?, new: from.u32()? },
            7 => ToFront::Forget { pool: from.u32()? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

impl Message for FromFront {
    fn encode(&self) -> Vec<u8> {
        match self {
            FromFront::Ready => Writer::new(1).end(),
            FromFront::Drained => Writer::new(2).end(),
            FromFront::Want { pool } => Writer::new(3).u32(*pool).end(),
            FromFront::Left { pool } => Writer::new(10).u32(*pool).end(),
            FromFront::Spoiled { pool, reason } => {
                Writer::new(11).u32(*pool).text(cut(reason)).end()
            }
            FromFront::Turned { loops } => {
                let count = Writer::new(12).u16(loops.len() as u16);
                loops.iter().fold(count, |out, event_loop| out.u16(*event_loop)).end()
            }
            FromFront::Failed { message } => Writer::new(4).text(cut(message)).end(),
            FromFront::Draining => Writer::new(5).end(),
            FromFront::AddressStatus { question, upstream, status } => {
                status.encode(Writer::new(6).u32(*question).u16(*upstream)).end()
            }
            FromFront::Cache { question, status } => {
                status.encode(Writer::new(8).u32(*question)).end()
            }
            FromFront::Purged { question, count } => {
                Writer::new(9).u32(*question).u64(*count).end()
            }
            FromFront::Answered { question, outcome } => {
                let to = Writer::new(7).u32(*question).u8(u8::from(outcome.is_ok()));
                match outcome {
                    Ok(()) => to.end(),
                    Err(message) => to.text(cut(message)).end(),
                }
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<FromFront, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => FromFront::Ready,
            2 => FromFront::Drained,
            3 => FromFront::Want { pool: from.u32()? },
            10 => FromFront::Left { pool: from.u32()? },
            11 => FromFront::Spoiled { pool: from.u32()?, reason: from.text(MAX_TEXT)? },
            12 => {
                let count = from.u16()?;
                FromFront::Turned {
                    loops: (0..count).map(|_| from.u16()).collect::<Result<_, _>>()?,
                }
            }
            4 => FromFront::Failed { message: from.text(MAX_TEXT)? },
            5 => FromFront::Draining,
            6 => FromFront::AddressStatus {
                question: from.u32()?,
                upstream: from.u16()?,
                status: AddressStatus::decode(&mut from)?,
            },
            7 => FromFront::Answered {
                question: from.u32()?,
                outcome: if from.flag()? { Ok(()) } else { Err(from.text(MAX_TEXT)?) },
            },
            8 => {
                FromFront::Cache { question: from.u32()?, status: CacheStatus::decode(&mut from)? }
            }
            9 => FromFront::Purged { question: from.u32()?, count: from.u64()? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

/// The longest beginning of `text` that fits into [`MAX_TEXT`].
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
