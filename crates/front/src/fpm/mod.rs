//! What a pool of `tokamak fpm` has of its own: an access log and a status page.

mod journal;
mod overview;

pub use journal::{Journal, PoolLogEntry};
pub use overview::{Overview, Running};

use tokamak_upstream::record::{Reader, Writer};

/// A parameter of a request's record.
pub fn parameter<'a>(record: &'a Writer, name: &[u8]) -> Option<&'a [u8]> {
    Reader::new(record.bytes())?.pairs().find(|(other, _)| *other == name).map(|(_, value)| value)
}
