//! What the supervisor and the front tell each other about the addresses of FastCGI applications.

use std::time::Duration;

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_TEXT, cut};

/// What an address does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It is asked.
    Up,
    /// Requests to it failed; it is left out for a while.
    Out,
    /// One request tries whether it answers again.
    Trial,
    /// The checks found it down.
    Down,
    /// It answers what it has, and gets no more.
    Draining,
    /// It has nothing left to answer.
    Drained,
}

impl Duty {
    const ALL: [Duty; 6] =
        [Duty::Up, Duty::Out, Duty::Trial, Duty::Down, Duty::Draining, Duty::Drained];

    /// Its name in status.
    pub fn name(self) -> &'static str {
        match self {
            Duty::Up => "up",
            Duty::Out => "out",
            Duty::Trial => "trial",
            Duty::Down => "down",
            Duty::Draining => "draining",
            Duty::Drained => "drained",
        }
    }
}

/// How an address stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As in the configuration.
    pub address: String,
    /// Its share.
    pub weight: u32,
    /// What it does.
    pub duty: Duty,
    /// For so long, in milliseconds.
    pub since: Duration,
    /// Requests that it began to answer.
    pub requests: u64,
    /// Requests that it did not.
    pub failures: u64,
    /// Connections that have a request.
    pub in_use: u32,
    /// Connections that have none.
    pub idle: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
}

/// What is to be done with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is put into service, or gets another weight.
    Add {
        /// At least 1.
        weight: u32,
    },
    /// It gets no more requests.
    Drain,
    /// The same, and it is forgotten.
    Remove,
}

/// A change of the addresses of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// Place of the upstream in the configuration.
    pub upstream: u16,
    /// As in the configuration.
    pub address: String,
    /// What is to be done.
    pub deed: Deed,
}

impl Standing {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        to.text(cut(&self.address))
            .u32(self.weight)
            .u8(Duty::ALL.iter().position(|duty| *duty == self.duty).unwrap_or_default() as u8)
            .u64(u64::try_from(self.since.as_millis()).unwrap_or(u64::MAX))
            .u64(self.requests)
            .u64(self.failures)
            .u32(self.in_use)
            .u32(self.idle)
            .u32(self.waiting)
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Standing, BadMessage> {
        Ok(Standing {
            address: from.text(MAX_TEXT)?,
            weight: from.u32()?,
            duty: *Duty::ALL.get(usize::from(from.u8()?)).ok_or(BadMessage("unknown duty"))?,
            since: Duration::from_millis(from.u64()?),
            requests: from.u64()?,
            failures: from.u64()?,
            in_use: from.u32()?,
            idle: from.u32()?,
            waiting: from.u32()?,
        })
    }
}

impl Errand {
    pub(super) fn encode(errand: Option<&Errand>, to: Writer) -> Writer {
        let Some(Errand { upstream, address, deed }) = errand else { return to.u8(0) };
        let (kind, weight) = match *deed {
            Deed::Add { weight } => (1, weight),
            Deed::Drain => (2, 0),
            Deed::Remove => (3, 0),
        };
        to.u8(kind).u32(weight).u16(*upstream).text(cut(address))
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Option<Errand>, BadMessage> {
        let kind = from.u8()?;
        if kind == 0 {
            return Ok(None);
        }
        let deed = match (kind, from.u32()?) {
            (1, weight @ 1..) => Deed::Add { weight },
            (2, 0) => Deed::Drain,
            (3, 0) => Deed::Remove,
            _ => return Err(BadMessage("unknown deed")),
        };
        Ok(Some(Errand { deed, upstream: from.u16()?, address: from.text(MAX_TEXT)? }))
    }
}
