//! The messages between the supervisor and the front about the content cache.

use tokamak_metrics::CacheFigures;

use super::wire::{Reader, Writer};
use super::{BadMessage, MAX_TEXT, cut};

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

pub(super) fn encode(figures: &CacheFigures, to: Writer) -> Writer {
    figures.named().fold(to, |to, (_, number)| to.u64(number))
}

pub(super) fn decode(from: &mut Reader<'_>) -> Result<CacheFigures, BadMessage> {
    let mut figures = CacheFigures::default();
    for number in figures.numbers_mut() {
        *number = from.u64()?;
    }
    Ok(figures)
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
