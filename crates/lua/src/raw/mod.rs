//! All `unsafe` of this crate: opening a Lua state, ending runs from outside, and taking text from Lua.

mod open;
mod text;
mod watch;

pub use open::open;
pub use text::{TextCall, go_on_panicking, text_function};
pub use watch::{End, Slot, Watchdog, end_now, is_due, is_overdue};
