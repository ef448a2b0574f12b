//! The application's side of FastCGI: web servers hand over requests, as to php-fpm, and the pool's
//! workers answer, or Lua scripts.
//!
//! ```text
//! event_loop     a connection, and the pool that its socket belongs to
//!   conversation one task: reads records, writes records, any number of requests at once
//!     gather     one request that is coming: its parameters, its body
//!     answer     one request that is being answered: the worker's response as records
//!     script     the same by a Lua script, in the place of workers
//! ```
//!
//! What the parameters mean is the worker's business, which sees the files with the rights of its
//! pool; here they go into the request's record as they came.

mod answer;
mod conversation;
mod gather;
mod script;

pub use conversation::converse;
