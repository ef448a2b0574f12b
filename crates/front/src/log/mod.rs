//! The access log: one line for each request, in a format that other programs read, written without
//! ever holding up a request. The front's few lines in the error log are written in the same way.

mod context;
mod entry;
mod errors;
mod line;
mod pattern;
mod writer;

pub use context::LogContext;
pub use entry::{EntryContext, LogEntry, user};
pub use errors::{
    About, Open as OpenErrors, broken_off, close as close_errors, closed, disallowed, failed,
    garbled, limited, no_handshake, noticed, open as open_errors, refused, script, server,
    too_many_connections, unaccepted, unproxied, unspooled, unsubscribed, write_as_fpm,
};
pub use line::AccessEntry;
pub use writer::{AccessLog, Buffer, Log, LostLines, lost_lines};
