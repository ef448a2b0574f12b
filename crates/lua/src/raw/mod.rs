//! All `unsafe` of this crate: opening a Lua state, and ending runs from outside.

mod open;
mod watch;

pub use open::open;
pub use watch::{End, Slot, Watchdog, end_now, is_due, is_overdue};
