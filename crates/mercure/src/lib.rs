//! A hub of the Mercure protocol: what publishers send becomes events of subscribers. Without it a
//! page that shows live data would have to ask for them again and again.
//!
//! It knows neither sockets nor the time: the caller hands in the bytes and the clock, and polls
//! [`Subscription`]s for the bytes that their clients get.
//!
//! ```text
//! form ──► publication ──► Hub::publish ──► history ──► shard (one for each event loop)
//!                                                         │  which subscribers get the update
//!                             Subscription::poll ◄────────┘
//! ```
//!
//! The protocol is that of draft-dunglas-mercure up to its version 07, which today's libraries
//! speak.

mod form;
mod history;
mod hub;
mod limits;
mod publication;
mod selector;
mod shard;
mod token;
mod update;

pub use form::{Malformed, Pair, pairs};
pub use history::{EARLIEST, Replay};
pub use hub::{Figures, Full, Hub, Subscription};
pub use limits::Limits;
pub use publication::{Refused, draft, publication};
pub use selector::Selector;
pub use shard::{End, Piece, Wanted};
pub use token::{Algorithm, Claims, Invalid, Key};
pub use update::{Draft, Update, uuid};
