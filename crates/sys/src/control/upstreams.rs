//! The messages between the supervisor and the front about the addresses of FastCGI applications.

use std::time::Duration;

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_TEXT, cut};

/// What an address does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
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

impl AddressState {
    const ALL: [AddressState; 6] = [
        AddressState::Up,
        AddressState::Out,
        AddressState::Trial,
        AddressState::Down,
        AddressState::Draining,
        AddressState::Drained,
    ];

    /// Its name in status.
    pub fn name(self) -> &'static str {
        match self {
            AddressState::Up => "up",
            AddressState::Out => "out",
            AddressState::Trial => "trial",
            AddressState::Down => "down",
            AddressState::Draining => "draining",
            AddressState::Drained => "drained",
        }
    }
}

/// What becomes of the connections to an address, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// None has been used a second time, or closed before.
    Unknown,
    /// One after the other, they have several requests.
    Kept,
    /// The application closes each after its response, though it is asked to keep it.
    Closed,
    /// They have several requests at the same time.
    Shared,
}

impl Connections {
    const ALL: [Connections; 4] =
        [Connections::Unknown, Connections::Kept, Connections::Closed, Connections::Shared];

    /// Its name in status.
    pub fn name(self) -> &'static str {
        match self {
            Connections::Unknown => "unknown",
            Connections::Kept => "kept",
            Connections::Closed => "closed",
            Connections::Shared => "shared",
        }
    }
}

/// How an address stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressStatus {
    /// As in the configuration.
    pub address: String,
    /// Its share.
    pub weight: u32,
    /// What it does.
    pub state: AddressState,
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
    /// What becomes of its connections.
    pub connections: Connections,
}

/// What is to be done with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAction {
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
pub struct AddressChange {
    /// Place of the upstream in the configuration.
    pub upstream: u16,
    /// As in the configuration.
    pub address: String,
    /// What is to be done.
    pub action: AddressAction,
}

impl AddressStatus {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        to.text(cut(&self.address))
            .u32(self.weight)
            .u8(AddressState::ALL.iter().position(|state| *state == self.state).unwrap_or_default()
                as u8)
            .u64(u64::try_from(self.since.as_millis()).unwrap_or(u64::MAX))
            .u64(self.requests)
            .u64(self.failures)
            .u32(self.in_use)
            .u32(self.idle)
            .u32(self.waiting)
            .u8(
                Connections::ALL.iter().position(|one| *one == self.connections).unwrap_or_default()
                    as u8,
            )
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<AddressStatus, BadMessage> {
        Ok(AddressStatus {
            address: from.text(MAX_TEXT)?,
            weight: from.u32()?,
            state: *AddressState::ALL
                .get(usize::from(from.u8()?))
                .ok_or(BadMessage("unknown state"))?,
            since: Duration::from_millis(from.u64()?),
            requests: from.u64()?,
            failures: from.u64()?,
            in_use: from.u32()?,
            idle: from.u32()?,
            waiting: from.u32()?,
            connections: *Connections::ALL
                .get(usize::from(from.u8()?))
                .ok_or(BadMessage("unknown connections"))?,
        })
    }
}

impl AddressChange {
    pub(super) fn encode(change: Option<&AddressChange>, to: Writer) -> Writer {
        let Some(AddressChange { upstream, address, action }) = change else { return to.u8(0) };
        let (kind, weight) = match *action {
            AddressAction::Add { weight } => (1, weight),
            AddressAction::Drain => (2, 0),
            AddressAction::Remove => (3, 0),
        };
        to.u8(kind).u32(weight).u16(*upstream).text(cut(address))
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Option<AddressChange>, BadMessage> {
        let kind = from.u8()?;
        if kind == 0 {
            return Ok(None);
        }
        let action = match (kind, from.u32()?) {
            (1, weight @ 1..) => AddressAction::Add { weight },
            (2, 0) => AddressAction::Drain,
            (3, 0) => AddressAction::Remove,
            _ => return Err(BadMessage("unknown action")),
        };
        Ok(Some(AddressChange { action, upstream: from.u16()?, address: from.text(MAX_TEXT)? }))
    }
}
