//! The content cache: without it every request would reach an application, also the thousandth for
//! the same page.
//!
//! Responses are kept in memory as a shared cache of HTTP may keep them (RFC 9111, RFC 5861). What
//! can be decided once is decided when a response is stored; finding it again compares a key, a few
//! header fields and the time. The crate knows neither sockets nor clocks: the caller says what
//! time it is.

mod codec;
mod directives;
mod entry;
mod key;
mod rules;
mod selection;
mod store;
mod targeted;
#[cfg(test)]
mod testing;
mod wire;

pub use directives::Directives;
pub use entry::{Entry, Freshness, Lifetimes};
pub use key::{Key, UrlOrigin};
pub use rules::{Overrides, Received, Request, Rules, storable};
pub use selection::Selection;
pub use store::{Counts, Purge, Store, StoreLookup};
pub use targeted::OWN_CONTROL;
pub use wire::{Moment, decode, encode};
