//! The messages between the supervisor and the process that gets certificates.

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_TEXT, Message, cut};

/// Longest file of a message. A certificate with its chain and its key is about 6 KiB; ten times
/// more than this would not fit into a message.
pub const LONGEST_FILE: usize = 64 * 1024;

/// Messages of the supervisor to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAcme {
    /// After [`FromAcme::Present`]: all fronts have the challenges.
    Presented {
        /// Which ones.
        number: u32,
    },
    /// After [`FromAcme::Store`].
    Stored {
        /// Which file.
        number: u32,
        /// What is wrong, for people.
        outcome: Result<(), String>,
    },
    /// A client waits for a certificate for this name. [`FromAcme::Store`] or
    /// [`FromAcme::Declined`] is to follow.
    Want {
        /// The name.
        name: String,
    },
}

/// Messages of the process to the supervisor.
#[derive(Clone, PartialEq, Eq)]
pub enum FromAcme {
    /// Authorities are to find these challenges from now on, and no others.
    Present {
        /// Comes back with the answer.
        number: u32,
        /// As `tokamak-tls` encodes them.
        challenges: Vec<u8>,
    },
    /// This is to outlive the server.
    Store {
        /// Comes back with the answer.
        number: u32,
        /// What it is.
        file: StateFile,
        /// Its contents.
        bytes: Vec<u8>,
    },
    /// No certificate is got for a name of [`ToAcme::Want`], or none soon.
    Declined {
        /// The name.
        name: String,
    },
    /// An order begins, or is over.
    Ordering {
        /// Whether it begins.
        is_under_way: bool,
    },
    /// A line for the error log.
    Note {
        /// Whether something is wrong.
        is_problem: bool,
        /// The line.
        text: String,
    },
    /// How a name stands.
    Name {
        /// The name.
        name: String,
        /// When the next certificate is ordered, in seconds since 1970.
        next: u64,
        /// What went wrong last; empty if nothing has since the last success.
        failure: String,
    },
}

/// A file that outlives the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateFile {
    /// The certificate for a name, with its key.
    Certificate(String),
    /// The account at the authority with this directory.
    Account(String),
    /// How the tries to get the certificate for a name have gone.
    Tries(String),
}

// It may be a key.
impl std::fmt::Debug for FromAcme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FromAcme::Present { number, .. } => write!(f, "Present({number})"),
            FromAcme::Store { number, file, .. } => write!(f, "Store({number}, {file:?})"),
            FromAcme::Ordering { is_under_way } => write!(f, "Ordering({is_under_way})"),
            FromAcme::Declined { name } => write!(f, "Declined({name:?})"),
            FromAcme::Note { text, .. } => write!(f, "Note({text:?})"),
            FromAcme::Name { name, next, failure } => {
                write!(f, "Name({name:?}, {next}, {failure:?})")
            }
        }
    }
}

impl Message for ToAcme {
    fn encode(&self) -> Vec<u8> {
        match self {
            ToAcme::Presented { number } => Writer::new(1).u32(*number).end(),
            ToAcme::Stored { number, outcome } => {
                let to = Writer::new(2).u32(*number).u8(u8::from(outcome.is_ok()));
                match outcome {
                    Ok(()) => to.end(),
                    Err(problem) => to.text(cut(problem)).end(),
                }
            }
            ToAcme::Want { name } => Writer::new(3).text(cut(name)).end(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<ToAcme, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => ToAcme::Presented { number: from.u32()? },
            2 => ToAcme::Stored {
                number: from.u32()?,
                outcome: if from.flag()? { Ok(()) } else { Err(from.text(MAX_TEXT)?) },
            },
            3 => ToAcme::Want { name: from.text(MAX_TEXT)? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}

impl Message for FromAcme {
    fn encode(&self) -> Vec<u8> {
        match self {
            FromAcme::Present { number, challenges } => {
                Writer::new(1).u32(*number).bytes(challenges).end()
            }
            FromAcme::Store { number, file, bytes } => {
                let (kind, name) = match file {
                    StateFile::Certificate(name) => (1, name),
                    StateFile::Account(directory) => (2, directory),
                    StateFile::Tries(name) => (3, name),
                };
                Writer::new(2).u32(*number).u8(kind).text(cut(name)).bytes(bytes).end()
            }
            FromAcme::Note { is_problem, text } => {
                Writer::new(3).u8(u8::from(*is_problem)).text(cut(text)).end()
            }
            FromAcme::Name { name, next, failure } => {
                Writer::new(4).text(cut(name)).u64(*next).text(cut(failure)).end()
            }
            FromAcme::Ordering { is_under_way } => Writer::new(6).u8(u8::from(*is_under_way)).end(),
            FromAcme::Declined { name } => Writer::new(5).text(cut(name)).end(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<FromAcme, BadMessage> {
        let (tag, mut from) = Reader::new(bytes)?;
        let message = match tag {
            1 => FromAcme::Present {
                number: from.u32()?,
                challenges: from.bytes(LONGEST_FILE)?.to_vec(),
            },
            2 => {
                let (number, kind, name) = (from.u32()?, from.u8()?, from.text(MAX_TEXT)?);
                let file = match kind {
                    1 => StateFile::Certificate(name),
                    2 => StateFile::Account(name),
                    3 => StateFile::Tries(name),
                    _ => return Err(BadMessage("unknown file")),
                };
                FromAcme::Store { number, file, bytes: from.bytes(LONGEST_FILE)?.to_vec() }
            }
            3 => FromAcme::Note { is_problem: from.flag()?, text: from.text(MAX_TEXT)? },
            4 => FromAcme::Name {
                name: from.text(MAX_TEXT)?,
                next: from.u64()?,
                failure: from.text(MAX_TEXT)?,
            },
            5 => FromAcme::Declined { name: from.text(MAX_TEXT)? },
            6 => FromAcme::Ordering { is_under_way: from.flag()? },
            _ => return Err(BadMessage("unknown tag")),
        };
        from.end(message)
    }
}
