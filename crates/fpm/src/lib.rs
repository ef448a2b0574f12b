//! Everything of php-fpm that is text: without it `tokamak fpm` could not read an existing
//! configuration, nor answer in the words that monitoring and php-src's own tests wait for.
//!
//! Bytes and strings in, values and strings out. The only thing touched outside is the
//! configuration's files, and what it names is looked up (folders, users) where php-fpm looks it
//! up, too. Listening, starting processes and writing logs is left to the caller.

pub mod access;
pub mod arguments;
pub mod config;
mod directive;
pub mod host;
pub mod ini;
mod load;
pub mod log;
pub mod message;
mod paths;
mod raw;
mod read;
mod resolve;
pub mod slow;
pub mod status;
mod validate;
mod value;
pub mod worker_output;

pub use config::{Config, Global, Pool};
pub use directive::{Documented, all as directives};
pub use load::{Loaded, Options, load, test};
pub use message::{Level, Message};
