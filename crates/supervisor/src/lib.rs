//! Starts, watches, replaces and stops the processes. Without this crate nothing would run, and
//! nothing that died would come back.
//!
//! One thread, one loop, no runtime: it forks. What to do is decided by pure functions
//! ([`machine`], [`size`], [`storm`], [`watch`], [`reload`], [`renew`], [`succession`],
//! [`liveness`]); the rest carries it out.

mod acme;
mod admin_socket;
mod application;
pub mod asker;
mod automatic;
mod banner;
mod bind;
mod bounds;
mod certificates;
mod change;
pub mod client;
mod control_socket;
mod emergency;
pub mod endpoint;
mod failing;
pub mod fleet;
mod front;
mod front_questions;
pub mod generation;
pub mod identities;
mod listen;
pub mod liveness;
mod local;
pub mod log;
pub mod machine;
pub mod means;
pub mod notify;
mod output_lines;
pub mod pool;
mod programs;
mod quic;
pub mod reload;
mod reminder;
pub mod renew;
mod run;
pub mod settings;
mod shared_tickets;
pub mod site_links;
pub mod size;
mod sockets;
mod state_dir;
mod status;
pub mod storm;
pub mod succession;
mod system;
pub mod upgrade;
mod upstream_tls;
mod users;
pub mod watch;
mod watched;
mod words;
mod zygote;

pub use acme::{AcmeMain, AcmeStart};
pub use application::Folder;
pub use certificates::verify as verify_certificates;
pub use front::{FrontMain, FrontStart, PoolLink};
pub use identities::verify as verify_identities;
pub use programs::FindPhp;
pub use quic::QuicStart;
pub use run::{Failure, Setup, serve};
pub use shared_tickets::{TicketsMain, TicketsStart};
pub use sockets::{listens, web_server_socket};
pub use upstream_tls::read as read_upstream_tls;
pub use users::verify as verify_users;
