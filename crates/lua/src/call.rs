//! What scripts may wait for, and what that brings them.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

/// Something that a script waits for: what it brings, or why it brings nothing.
pub type Waiting = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

/// A value that a call brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: `nil`, within a list `tokamak.null`.
    Nil,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// Text, or bytes of any kind.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// A service's own message that something is wrong: `nil` and the message; within a list `{
    /// false, message }`.
    Problem(Vec<u8>),
    /// A response.
    Response(Response),
}

/// A response to a request that a script has made.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Header fields: names in small letters and values in turn, each with a line feed behind it.
    /// Most scripts never look at them, so they are taken apart when one does.
    pub fields: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// A call that a script makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Call<'a> {
    /// To another service over HTTP.
    Http(HttpCall<'a>),
    /// To this server itself, as if a client had asked; without a socket.
    Fetch(HttpCall<'a>),
    /// To a Redis server.
    Redis {
        /// The server, as [`Host::redis`](crate::Host::redis) numbered it.
        server: u32,
        /// Its commands, each with its arguments.
        commands: Vec<Vec<Vec<u8>>>,
        /// What the commands are together.
        batch: Batch,
    },
    /// For the content of a file.
    Read {
        /// The file.
        path: PathBuf,
        /// Its length at most.
        most: u64,
    },
}

/// A request to another service, or to this server itself: its texts are where Lua has them.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCall<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The address, with its scheme; in this server path and query.
    pub url: &'a [u8],
    /// The Unix socket to connect to, in place of the address's host.
    pub socket: Option<&'a Path>,
    /// Header fields: names and values in turn.
    pub fields: Vec<&'a [u8]>,
    /// The body.
    pub body: &'a [u8],
    /// Time for all of it.
    pub timeout: Duration,
    /// Bytes of the response's body at most.
    pub most: usize,
}

/// What several commands are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// It is a single one.
    Single,
    /// They are sent together.
    Pipeline,
    /// They are carried out together, with none of others between them.
    Transaction,
}

/// A Redis server as a script names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisServer {
    /// Its host and port, or its Unix socket.
    pub address: Result<(String, u16), PathBuf>,
    /// The user, if not the default one.
    pub user: Option<String>,
    /// The password, if it asks for one.
    pub password: Option<String>,
    /// The database.
    pub database: u32,
    /// Time for a call.
    pub timeout: Duration,
}
