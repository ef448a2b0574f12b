//! The application's side of FastCGI: web servers send requests, as they do to php-fpm, and the
//! pool's workers or Lua scripts answer.
//!
//! ```text
//! event_loop     a connection, and the pool that its socket belongs to
//!   conversation one task: reads records, writes records, any number of requests at once
//!     gather     one request that is coming: its parameters, its body
//!     answer     one request that is being answered: the worker's response as records
//!     script     the same by a Lua script, in the place of workers
//! ```
//!
//! The worker interprets the parameters, because it sees the files with the rights of its pool.
//! This module copies them into the request's record unchanged.

mod answer;
mod conversation;
mod gather;
mod script;

pub use conversation::serve;
