//! The messages between the supervisor and the front about the content cache.

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_TEXT, cut};

/// The figures of the cache; what they count is documented where they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Keys that it has something for.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub memory: u64,
    /// Answered from the cache, fresh.
    pub hits: u64,
    /// Answered from the cache, stale.
    pub stale: u64,
    /// Answered by an application.
    pub misses: u64,
    /// Answered with what another request had been waiting for.
    pub coalesced: u64,
    /// Found still right by an application.
    pub revalidated: u64,
    /// Not looked for.
    pub bypassed: u64,
    /// Responses that were stored.
    pub stored: u64,
}

/// What is to be removed from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// The page with this address.
    Url(String),
    /// Every page whose address begins like this.
    Prefix(String),
    /// Every response with this tag.
    Tag(String),
}

impl CacheStatus {
    fn numbers(&mut self) -> [&mut u64; 10] {
        [
            &mut self.entries,
            &mut self.bytes,
            &mut self.memory,
            &mut self.hits,
            &mut self.stale,
            &mut self.misses,
            &mut self.coalesced,
            &mut self.revalidated,
            &mut self.bypassed,
            &mut self.stored,
        ]
    }

    pub(super) fn encode(mut self, to: Writer) -> Writer {
        self.numbers().into_iter().fold(to, |to, number| to.u64(*number))
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<CacheStatus, BadMessage> {
        let mut status = CacheStatus::default();
        for number in status.numbers() {
            *number = from.u64()?;
        }
        Ok(status)
    }
}

impl Purge {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        match self {
            Purge::All => to.u8(0),
            Purge::Url(url) => to.u8(1).text(cut(url)),
            Purge::Prefix(prefix) => to.u8(2).text(cut(prefix)),
            Purge::Tag(tag) => to.u8(3).text(cut(tag)),
        }
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Purge, BadMessage> {
        Ok(match from.u8()? {
            0 => Purge::All,
            1 => Purge::Url(from.text(MAX_TEXT)?),
            2 => Purge::Prefix(from.text(MAX_TEXT)?),
            3 => Purge::Tag(from.text(MAX_TEXT)?),
            _ => return Err(BadMessage("unknown purge")),
        })
    }
}
