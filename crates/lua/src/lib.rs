//! Lua in the server. Without it every answer that needs a decision would need an application.
//!
//! Scripts written for lighttpd's mod_magnet run unchanged, inside an event loop of the front. This
//! crate knows neither HTTP library nor sockets: what a run sees and changes is behind the traits
//! [`Host`], [`HttpContext`] and [`Program`]: a script answers in a server, or takes the place of a
//! CGI program.
//!
//! One [`Engine`] for a process knows the script files and looks after time limits. Each event loop
//! has a [`LuaState`], which compiles scripts and makes a [`Run`] of one for a request.

mod api;
pub mod cache;
mod call;
mod codec;
mod current;
mod engine;
mod host;
mod outcome;
mod pattern;
mod raw;
mod run;
mod scripts;
mod shared;
mod state;
mod vm;

pub use call::{Batch, Call, HttpCall, RedisServer, Response, Value, Waiting};
pub use engine::{Engine, Limits};
pub use host::{Attribute, Host, HttpContext, Item, Other, Piece, Program, Side};
pub use outcome::{MOST_RESTARTS, Outcome, ScriptError, Stage};
pub use run::Run;
pub use scripts::{Absent, ScriptId};
pub use state::LuaState;
