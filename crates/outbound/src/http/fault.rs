//! Why there is no response.

use std::fmt;
use std::io;
use std::time::Duration;

use http::Method;

/// Why there is no response.
#[derive(Debug)]
pub enum Fault {
    /// There is no such method.
    Method,
    /// The address cannot be asked, for this reason.
    Url(&'static str),
    /// That header field cannot be sent.
    Field(String),
    /// No connection.
    Connect(String, io::Error),
    /// It took longer than this.
    Time(Duration),
    /// Its body has more bytes than this.
    Large(usize),
    /// The connection broke before anything of a response had come.
    Unanswered(io::Error),
    /// The response is no HTTP, or broke off.
    Broken(String),
}

impl Fault {
    pub(super) fn broken(reason: &str) -> Fault {
        Fault::Broken(reason.to_owned())
    }

    /// Whether the request may be sent again over another connection: the peer had closed this one,
    /// and would do nothing twice.
    pub(super) fn may_repeat(&self, method: &Method) -> bool {
        matches!(self, Fault::Unanswered(_)) && method.is_idempotent()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Method => write!(out, "there is no such method"),
            Fault::Url(reason) => write!(out, "the URL cannot be asked: {reason}"),
            Fault::Field(name) => {
                write!(out, "the header field '{}' cannot be sent", name.escape_debug())
            }
            Fault::Connect(peer, error) => write!(out, "no connection to {peer}: {error}"),
            Fault::Time(limit) => write!(out, "no response within {limit:?}"),
            Fault::Large(most) => write!(out, "the response has more than {most} bytes"),
            Fault::Unanswered(error) => write!(out, "the connection broke: {error}"),
            Fault::Broken(reason) => write!(out, "the response is broken: {reason}"),
        }
    }
}

impl std::error::Error for Fault {}
