//! How one application is asked: its limits, and how requests are spread over its addresses.

use std::fmt;
use std::time::Duration;

use super::balance::Balancing;
use super::balance::health::Rules;

/// Limits of one application.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections to each address.
    pub connections: usize,
    /// Whether it is asked if it takes several requests on a connection.
    pub multiplex: Multiplex,
    /// How HTTP/2 is spoken with it, if it is: then all its connections are shared.
    pub http2: Option<Http2Bounds>,
    /// Requests after which a connection is closed; 0: never.
    pub requests: u64,
    /// How long an idle connection is kept.
    pub idle: Duration,
    /// Whether a kept connection is used even for a request that would be lost if the application
    /// closed it at that moment, because the request may not be repeated.
    pub reuse_for_all: bool,
    /// Requests that wait for a connection.
    pub queue: usize,
    /// Longest wait for one.
    pub queue_timeout: Duration,
    /// Longest time to open one.
    pub connect_timeout: Duration,
    /// Longest time between two writes of a request.
    pub send_timeout: Duration,
    /// Longest time from the end of the request to the first byte of the response.
    pub first_byte_timeout: Duration,
    /// Longest time between two reads of the response.
    pub read_timeout: Duration,
}

/// Whether an application is asked if it takes several requests on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplex {
    /// It is not.
    Never,
    /// Before the first request, which waits for the answer.
    First,
    /// Beside requests, as soon as it has kept a connection. Those that close each connection are
    /// not asked: some say yes all the same, and lose requests.
    WhenKept,
}

/// Limits of an application that speaks HTTP/2.
#[derive(Clone, Copy, Debug)]
pub struct Http2Bounds {
    /// Most bytes of a response's head.
    pub largest_head: usize,
}

/// How one application is asked.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How requests without a key are spread.
    pub policy: Balancing,
    /// Whether a request waits for the address of its key, however busy that is.
    pub stays: bool,
    /// When an address is left out.
    pub rules: Rules,
    /// Limits.
    pub bounds: Bounds,
}

/// Writes a line of the log: what has happened to which address.
pub struct LogSink(Box<dyn Fn(&str) + Send + Sync>);

impl LogSink {
    /// By this function.
    pub fn by(write: impl Fn(&str) + Send + Sync + 'static) -> LogSink {
        LogSink(Box::new(write))
    }

    /// Writes it.
    pub(super) fn write(&self, news: &str) {
        (self.0)(news);
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}
