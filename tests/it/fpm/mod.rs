//! `tokamak fpm` in php-fpm's place. What PHP sees is tested with everything else about PHP, as one
//! more kind of server; here are the protocol, the web servers in front, and what an operator does.

/// What processes may use.
mod bounds;
/// A web server that says exactly what a test wants said.
pub mod client;
/// What is shown to users.
mod examples;
/// Web servers that say what they should not.
mod hostile;
/// What PHP does with such requests.
mod php;
/// Which `php.ini` is read.
mod php_ini;
/// What a pool has of its own.
mod pools;
/// What the specification asks of an application.
mod protocol;
/// Reloads, and the ends of the master.
mod signals;
/// Who may use a socket.
mod sockets;
/// Real web servers in front.
mod web_servers;

use std::path::PathBuf;

use crate::harness::{Kind, Server, Setup};

/// A pool of this many workers; nginx is in front of it, too.
fn pool(workers: usize) -> Setup {
    Setup::new(Kind::Fpm).workers(workers)
}

/// Where its web servers connect.
fn socket(server: &Server) -> PathBuf {
    server.places.top().join("fpm.socket")
}
