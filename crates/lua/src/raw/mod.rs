//! All `unsafe` of this crate: opening a Lua state, ending runs from outside, taking text from Lua,
//! and finding out where a script is.

mod begin;
mod give;
mod location;
mod open;
mod text;
mod watch;

pub use begin::{Arguments, BeginCall, begin_function};
pub use give::giving_function;
pub use location::location_in;
pub use open::open;
pub use text::{Caller, TextCall, assign_function, go_on_panicking, text_function};
pub use watch::{End, Slot, Watchdog, end_now, is_due, is_overdue};
