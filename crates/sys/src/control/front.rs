//! The messages between the supervisor and the front.

use tokamak_metrics::CacheFigures;

use super::wire::{Reader, Writer};
use super::{AddressChange, AddressStatus, BadMessage, MAX_TEXT, Message, Purge, cache, cut};

/// Messages of the supervisor to the front.
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
    Drain {
        /// Another front has the lines by which workers publish.
        is_replaced: bool,
    },
    /// Write to this log file from now on. Its descriptor comes with the message.
    Reopen {
        /// The index of the access log among those of the configuration; `None` for the error log
        /// (to be put at 2).
        access: Option<u16>,
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
    /// A part of the answer to [`FromFront::Asks`].
    Answer {
        /// Which question this answers.
        question: u32,
        /// As on the control socket; at most [`ANSWER_PART`] bytes.
        part: String,
        /// Whether this was all.
        is_last: bool,
    },
    /// The answer to [`FromFront::Asks`] comes from another process, over the socket with this
    /// message: as on the control socket, until its end.
    Stream {
        /// Which question this answers.
        question: u32,
    },
    /// Use these certificates and keys for new connections. They come with the message, as memory
    /// that holds them as `tokamak-tls` encodes them. Then say [`FromFront::Certificates`].
    Certificates {
        /// Comes back with the answer.
        number: u32,
    },
    /// Use these files of users for the next passwords. They come with the message, as memory that
    /// holds them as `tokamak-auth` encodes them.
    Users,
    /// No certificate is got for a name that [`FromFront::Wants`] has named, or none soon.
    Declined {
        /// The name.
        name: String,
    },
    /// No more parts of the answer to [`FromFront::Asks`] come. Those that came are void.
    Dropped {
        /// The question that gets no answer.
        question: u32,
    },
}

/// Most bytes of one part of an answer. With a tenth, the status of many workers would be a hundred
/// messages; with ten times more, one of them would fill the line.
pub const ANSWER_PART: usize = 8 * 1024;

/// Why a worker is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A signal that was not sent by our processes.
    Crash(u8),
    /// It exited by itself with this status.
    Exit(u8),
    /// It was killed because its request took longer than `request_timeout`.
    TimedOut,
    /// It left because a connection of the application was dead ([`super::EXIT_STALE`]).
    Stale,
}

/// Messages of the front to the supervisor.
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
    /// After [`ToFront::Renew`]: all event loops send new requests to this pool.
    Renewed {
        /// Number of the other pool.
        pool: u32,
    },
    /// After that: no request is left in the pool that was in use before.
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
    /// Its sign of life, as often as `Timeouts::heartbeat` says.
    Turned {
        /// The event loops that have turned since it was said last.
        loops: Vec<u16>,
        /// Lines of its logs that were lost so far.
        lost: LostLines,
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
        figures: CacheFigures,
    },
    /// Something was removed from the content cache.
    Purged {
        /// Question that this answers.
        question: u32,
        /// How many responses.
        count: u64,
    },
    /// A client of the admin listener wants something: [`ToFront::Answer`] is to follow.
    Asks {
        /// Comes back with the answer.
        question: u32,
        /// As on the control socket, without the end of the line.
        command: String,
    },
    /// New handshakes use these certificates, or those before if there is something wrong.
    Certificates {
        /// Which ones.
        number: u32,
    },
    /// A client's handshake waits for a certificate for this name:
    /// [`ToFront::Certificates`] or [`ToFront::Declined`] is to follow.
    Wants {
        /// The name.
        name: String,
    },
    /// That is all about this question.
    Answered {
        /// Which one.
        question: u32,
        /// What is wrong with the change, for people.
        outcome: Result<(), String>,
    },
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
            ToFront::Drain { is_replaced } => Writer::new(2).u8(u8::from(*is_replaced)).end(),
            ToFront::Reopen { access } => {
                let index = access.unwrap_or_default();
                Writer::new(3).u8(u8::from(access.is_some())).u16(index).end()
            }
            ToFront::Upstreams { question, change } => {
                AddressChange::encode(change.as_ref(), Writer::new(4).u32(*question)).end()
            }
            ToFront::Purge { question, what } => what.encode(Writer::new(5).u32(*question)).end(),
            ToFront::Renew { old, new } => Writer::new(6).u32(*old).u32(*new).end(),
            ToFront::Forget { pool } => Writer::new(7).u32(*pool).end(),
            ToFront::Answer { question, part, is_last } => {
                Writer::new(8).u32(*question).u8(u8::from(*is_last)).text(part).end()
            }
            ToFront::Certificates { number } => Writer::new(11).u32(*number).end(),
            ToFront::Users => Writer::new(12).end(),
            ToFront::Declined { name } => Writer::new(13).text(cut(name)).end(),
            ToFront::Dropped { question } => Writer::new(9).u32(*question).end(),
            ToFront::Stream { question } => Writer::new(10).u32(*question).end(),
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
            2 => ToFront::Drain { is_replaced: from.flag()? },
            3 => {
                let (is_access, index) = (from.flag()?, from.u16()?);
                ToFront::Reopen { access: is_access.then_some(index) }
            }
            4 => ToFront::Upstreams {
                question: from.u32()?,
                change: AddressChange::decode(&mut from)?,
            },
            5 => ToFront::Purge { question: from.u32()?, what: Purge::decode(&mut from)? },
            6 => ToFront::Renew { old: from.u32()?, new: from.u32()? },
            7 => ToFront::Forget { pool: from.u32()? },
            8 => {
                let (question, is_last) = (from.u32()?, from.flag()?);
                ToFront::Answer { question, part: from.text(ANSWER_PART)?, is_last }
            }
            9 => ToFront::Dropped { question: from.u32()? },
            10 => ToFront::Stream { question: from.u32()? },
            11 => ToFront::Certificates { number: from.u32()? },
            12 => ToFront::Users,
            13 => ToFront::Declined { name: from.text(MAX_TEXT)? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

/// Lines that were lost because a disk or a reader was too slow, or refused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostLines {
    /// Of access logs.
    pub access: u64,
    /// Of the error log.
    pub error: u64,
}

impl Message for FromFront {
    fn encode(&self) -> Vec<u8> {
        match self {
            FromFront::Ready => Writer::new(1).end(),
            FromFront::Drained => Writer::new(2).end(),
            FromFront::Want { pool } => Writer::new(3).u32(*pool).end(),
            FromFront::Renewed { pool } => Writer::new(13).u32(*pool).end(),
            FromFront::Left { pool } => Writer::new(10).u32(*pool).end(),
            FromFront::Spoiled { pool, reason } => {
                Writer::new(11).u32(*pool).text(cut(reason)).end()
            }
            FromFront::Turned { loops, lost } => {
                let lost = Writer::new(12).u64(lost.access).u64(lost.error);
                let count = lost.u16(loops.len() as u16);
                loops.iter().fold(count, |out, event_loop| out.u16(*event_loop)).end()
            }
            FromFront::Failed { message } => Writer::new(4).text(cut(message)).end(),
            FromFront::Draining => Writer::new(5).end(),
            FromFront::AddressStatus { question, upstream, status } => {
                status.encode(Writer::new(6).u32(*question).u16(*upstream)).end()
            }
            FromFront::Cache { question, figures } => {
                cache::encode(figures, Writer::new(8).u32(*question)).end()
            }
            FromFront::Purged { question, count } => {
                Writer::new(9).u32(*question).u64(*count).end()
            }
            FromFront::Asks { question, command } => {
                Writer::new(14).u32(*question).text(cut(command)).end()
            }
            FromFront::Certificates { number } => Writer::new(15).u32(*number).end(),
            FromFront::Wants { name } => Writer::new(16).text(cut(name)).end(),
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
            13 => FromFront::Renewed { pool: from.u32()? },
            10 => FromFront::Left { pool: from.u32()? },
            11 => FromFront::Spoiled { pool: from.u32()?, reason: from.text(MAX_TEXT)? },
            12 => {
                let lost = LostLines { access: from.u64()?, error: from.u64()? };
                let count = from.u16()?;
                FromFront::Turned {
                    lost,
                    loops: (0..count).map(|_| from.u16()).collect::<Result<_, _>>()?,
                }
            }
            14 => FromFront::Asks { question: from.u32()?, command: from.text(MAX_TEXT)? },
            15 => FromFront::Certificates { number: from.u32()? },
            16 => FromFront::Wants { name: from.text(MAX_TEXT)? },
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
            8 => FromFront::Cache { question: from.u32()?, figures: cache::decode(&mut from)? },
            9 => FromFront::Purged { question: from.u32()?, count: from.u64()? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}
