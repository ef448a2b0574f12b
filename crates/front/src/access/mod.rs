//! The access log: one line a request, in a format that other programs read, written without ever holding
//! up a request. Beside it the front's few lines in the error log.

mod context;
mod entry;
mod errors;
mod line;
mod writer;

pub use context::LogContext;
pub use entry::{Entry, user};
pub use errors::{broken_off, disallowed, failed, garbled, noticed, refused, script, server, write_as_fpm};
pub use line::Line;
pub use writer::{Buffer, Log};
