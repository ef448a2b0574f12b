//! The messages between the supervisor and a zygote.

use std::fmt;

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_SETTINGS, MAX_TEXT, Message, cut};

/// Messages of the supervisor to a zygote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToZygote {
    /// How the pool is configured; the first message, sent once. Keys in [`super::key`].
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
    /// Take a profile of the workers and write it to the socket that comes along. A process of its
    /// own does that, so there is no answer.
    Profile {
        /// Samples a second.
        rate: u16,
        /// For how long.
        milliseconds: u32,
        /// Only of requests whose path begins so.
        prefix: String,
    },
}

/// The signals that a worker may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The PHP stack of a request is wanted, which goes on: of the one with this slot of the queue
    /// in async mode, or of the only one. The zygote reads it and says [`FromZygote::Slow`]; only a
    /// worker that it cannot read is sent a signal, and writes it to its standard error.
    Backtrace(Option<u32>),
    /// End, wherever it is.
    Kill,
    /// End, unless it is in memory that it shares with others: what it holds there would be locked
    /// for ever.
    KillOutsideLocks,
    /// End, if it is in such memory: it waits for a lock that is never given back.
    KillInsideLocks,
}

impl Signal {
    /// The system's number. The backtrace takes a real-time signal because applications use
    /// `SIGUSR1` and `SIGUSR2` themselves.
    pub fn number(self) -> i32 {
        match self {
            Signal::Backtrace(_) => libc::SIGRTMIN() + 7,
            Signal::Kill | Signal::KillOutsideLocks | Signal::KillInsideLocks => libc::SIGKILL,
        }
    }
}

/// What is newer than an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// PHP's settings. The application is as it was.
    Settings = 0,
    /// What its boot depends on: workers that are forked from here on boot for themselves, and the
    /// others take no more requests.
    Application = 1,
    /// opcache's memory. The application is as it was.
    Cache = 2,
}

impl Newer {
    /// By its number, as it is sent.
    pub fn from_number(number: u8) -> Option<Newer> {
        [Newer::Settings, Newer::Application, Newer::Cache]
            .into_iter()
            .find(|newer| *newer as u8 == number)
    }
}

/// Messages of a zygote to the supervisor. They are not trusted: workers run as the same user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromZygote {
    /// Module start-up is done; PHP's version.
    Ready {
        /// `PHP_VERSION`, for people.
        version: String,
        /// `expose_php`: whether responses show it.
        exposes: bool,
    },
    /// A worker was forked. With [`super::key::CATCH_OUTPUT`] two descriptors come along: the
    /// reading ends of what it writes to its standard output and to its standard error.
    Spawned {
        /// Board entry.
        index: u16,
        /// As in [`ToZygote::Spawn`].
        instance: u32,
        /// Process id, for people; never signalled by anyone but the zygote.
        pid: u32,
    },
    /// A worker has ended (or could not be forked: [`super::EXIT_NO_FORK`]).
    Exited {
        /// Board entry.
        index: u16,
        /// As in [`ToZygote::Spawn`].
        instance: u32,
        /// How it ended.
        status: Status,
    },
    /// Where a worker is, as asked for by [`Signal::Backtrace`].
    Slow {
        /// Board entry.
        index: u16,
        /// As in [`ToZygote::Spawn`].
        instance: u32,
        /// The name of its request in a line, then one for each call, the innermost first. Empty:
        /// the request has ended. In a pool of `tokamak fpm` the script's file, and of each call
        /// address, function, file and line number with tabs between them. The last line may be
        /// cut.
        trace: String,
    },
    /// What its workers inherit was changed from outside: its limits, its priority or the like. It
    /// goes on until it gets `Quit`.
    Changed {
        /// What, for people.
        reason: String,
    },
    /// What the zygote itself and programs that it starts write: two descriptors come along, as
    /// with [`FromZygote::Spawned`].
    Output,
    /// Workers wait for a lock of memory that they share, and none of them holds it: a worker that
    /// has died did.
    Locked,
    /// The answer to [`ToZygote::Ask`].
    Alive,
    /// The zygote cannot go on and exits.
    Failed {
        /// Why, for people.
        message: String,
    },
    /// No image of the application can be taken, which has booted nevertheless; it exits.
    Unsealable {
        /// Why, for people.
        reason: String,
    },
    /// The image that its workers serve is outdated, as by [`super::EXIT_OUTDATED`]; it goes on
    /// until it gets `Quit`. Sent again at each further change.
    Outdated {
        /// What has changed, for people.
        reason: String,
        /// What that is to the image.
        newer: Newer,
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
                let message = Writer::new(3).u16(*index).u32(*instance);
                match *signal {
                    Signal::Backtrace(None) => message.u8(1).end(),
                    Signal::Kill => message.u8(2).end(),
                    Signal::KillOutsideLocks => message.u8(4).end(),
                    Signal::KillInsideLocks => message.u8(5).end(),
                    Signal::Backtrace(Some(slot)) => message.u8(3).u32(slot).end(),
                }
            }
            ToZygote::Quit => Writer::new(4).end(),
            ToZygote::Ask => Writer::new(5).end(),
            ToZygote::Profile { rate, milliseconds, prefix } => {
                Writer::new(6).u16(*rate).u32(*milliseconds).text(cut(prefix)).end()
            }
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
                    1 => Signal::Backtrace(None),
                    2 => Signal::Kill,
                    4 => Signal::KillOutsideLocks,
                    5 => Signal::KillInsideLocks,
                    3 => Signal::Backtrace(Some(from.u32()?)),
                    _ => return Err(BadMessage("unknown signal")),
                };
                ToZygote::Kill { index, instance, signal }
            }
            4 => ToZygote::Quit,
            5 => ToZygote::Ask,
            6 => ToZygote::Profile {
                rate: from.u16()?,
                milliseconds: from.u32()?,
                prefix: from.text(MAX_TEXT)?,
            },
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
            FromZygote::Unsealable { reason } => Writer::new(10).text(cut(reason)).end(),
            FromZygote::Outdated { reason, newer } => {
                Writer::new(5).u8(*newer as u8).text(cut(reason)).end()
            }
            FromZygote::Alive => Writer::new(7).end(),
            FromZygote::Output => Writer::new(8).end(),
            FromZygote::Locked => Writer::new(11).end(),
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
            10 => FromZygote::Unsealable { reason: from.text(MAX_TEXT)? },
            5 => {
                let newer = Newer::from_number(from.u8()?).ok_or(BadMessage("unknown change"))?;
                FromZygote::Outdated { reason: from.text(MAX_TEXT)?, newer }
            }
            7 => FromZygote::Alive,
            8 => FromZygote::Output,
            11 => FromZygote::Locked,
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
