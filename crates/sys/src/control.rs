//! The messages between the processes of one server, and their encoding.
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
//! 5, 6, …        one eventfd for each event loop of the front ZYGOTE_BELLS; as many as the
//!                segment says
//! behind those   the workers' end of the line to the site's hub, if it has one  key::HUB
//! ```
//!
//! ```text
//! supervisor                          zygote
//!   Settings(key/value…)   ──────▶      module start-up
//!                          ◀──────      Ready{version}  |  Failed{message}, then it exits
//!                                       |  Unsealable{reason}, then it exits
//!   Spawn{index, instance} ──────▶      forks a worker
//!                          ◀──────      Spawned{index, instance, pid}
//!   Kill{index, …, signal} ──────▶      signals that worker if it is still that instance
//!                          ◀──────      Slow{index, instance, trace}, if a backtrace was wanted
//!                          ◀──────      Exited{index, instance, status}
//!                          ◀──────      Outdated{reason, newer}
//!   Ask                    ──────▶
//!                          ◀──────      Alive
//!   Quit, or end of file   ──────▶      kills its workers, reaps them, exits
//! ```
//!
//! In sealed mode start-up includes the application's boot, so `Ready` may take a while, and
//! `Failed` may be the application's fault.
//!
//! Workers die with their zygote (`PR_SET_PDEATHSIG`), the zygote with the supervisor.

mod acme;
mod cache;
mod front;
mod ini;
mod upstreams;
mod wire;
mod zygote;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::channel::{Channel, Received};
pub use acme::{FromAcme, LONGEST_FILE, StateFile, ToAcme};
pub use cache::Purge;
pub use front::{ANSWER_PART, FromFront, LostLines, ToFront, Why};
pub use ini::ini_value;
pub use upstreams::{AddressAction, AddressChange, AddressState, AddressStatus, Connections};
pub use zygote::{FromZygote, Newer, Signal, Status, ToZygote};

/// The only argument of a zygote.
pub const ZYGOTE_ARGUMENT: &str = "zygote";
/// Descriptor of the zygote's end of its channel.
pub const ZYGOTE_CHANNEL: i32 = 3;
/// Descriptor of the pool's segment.
pub const ZYGOTE_SEGMENT: i32 = 4;
/// Descriptor of the first event loop's eventfd; the others follow.
pub const ZYGOTE_BELLS: i32 = 5;

/// The worker was asked to leave, or has served as many requests as it may.
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
pub const EXIT_TAINTED: u8 = 106;

/// Keys of [`ToZygote::Settings`]. A key ends with a dot when a name follows it.
pub mod key {
    /// Site name, for log lines.
    pub const SITE: &str = "site";
    /// [`MODE_CLASSIC`], [`MODE_WORKER`], [`MODE_SEALED`] or [`MODE_ASYNC`].
    pub const MODE: &str = "mode";
    /// Value of [`MODE`]: full request start-up and shutdown.
    pub const MODE_CLASSIC: &str = "classic";
    /// Value of [`MODE`]: the application's loop calls a handler.
    pub const MODE_WORKER: &str = "worker";
    /// Value of [`MODE`]: every request is served from the same image of the booted application.
    pub const MODE_SEALED: &str = "sealed";
    /// Value of [`MODE`]: the application's loop calls a handler for many requests at once.
    pub const MODE_ASYNC: &str = "async";
    /// Requests that a worker has under way at once. Async mode only.
    pub const CONCURRENCY: &str = "concurrency";
    /// For tests of async mode: requests take turns at every wait, in an order that is drawn from
    /// this number.
    pub const SEED: &str = "seed";
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
    /// Workers count and time the SQL and the outgoing HTTP calls of each request; any value.
    pub const COUNT_CALLS: &str = "count_calls";
    /// Number of the capability that guards the zygote from others of the same user, as long as it
    /// lives; workers give it up.
    pub const GUARD: &str = "guard";
    /// Number of the descriptor by which workers reach the site's hub (see [`crate::hub`]).
    pub const HUB: &str = "hub";
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
    /// The SAPI whose `php.ini` and `conf.d` are read if nothing else is said, as `fpm`, where the
    /// distribution has files for each.
    pub const INI_OF: &str = "ini_of";
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

/// The longest beginning of `text` that fits into [`MAX_TEXT`].
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
