//! What the operator wrote, checked, and what it means. Without this crate every other part would
//! read and judge settings by itself.
//!
//! An option is one row of the table in [`option`]: name, type, default, bounds, documentation,
//! reload class, environment variable, flag. The parser, the defaults, `docs/configuration.md` and
//! the sample file are made from the rows. Settings go through two steps: `raw` is what was typed,
//! checked one by one and still knowing where it came from; [`Server`] is what it all means. Both
//! steps report every error that they find, not only the first.

mod error;
mod fpm;
mod literal;
mod model;
pub mod option;
mod origin;
mod parse;
mod pools;
mod raw;
mod reference;
mod request;
mod resolve;
mod text;
mod unit;
mod value;
mod warnings;

#[cfg(test)]
mod tests;

pub use error::{Error, Errors, Location};
pub use fpm::*;
pub use model::*;
pub use pools::pools;
pub use reference::reference;
pub use request::{CONFIG_VARIABLE, FILE_NAME, Request, STATE_VARIABLES, state_directory};
pub use text::{restart_needed, sample};
pub use unit::{size, time};
pub use value::address;
pub use warnings::warnings;
