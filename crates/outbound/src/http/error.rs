//! Why there is no response.

use std::fmt;
use std::io;
use std::time::Duration;

use http::Method;
use tokamak_http1::Malformed;

/// Why there is no response.
#[derive(Debug)]
pub enum HttpError {
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

impl HttpError {
    /// Whether the request may be sent again over another connection: the peer had closed this one,
    /// and would do nothing twice.
    pub(super) fn may_repeat(&self, method: &Method) -> bool {
        matches!(self, HttpError::Unanswered(_)) && method.is_idempotent()
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Method => write!(out, "there is no such method"),
            HttpError::Url(reason) => write!(out, "the URL cannot be asked: {reason}"),
            HttpError::Field(name) => {
                write!(out, "the header field '{}' cannot be sent", name.escape_debug())
            }
            HttpError::Connect(peer, error) => write!(out, "no connection to {peer}: {error}"),
            HttpError::Time(limit) => write!(out, "no response within {limit:?}"),
            HttpError::Large(most) => write!(out, "the response has more than {most} bytes"),
            HttpError::Unanswered(error) => write!(out, "the connection broke: {error}"),
            HttpError::Broken(reason) => write!(out, "the response is broken: {reason}"),
        }
    }
}

impl std::error::Error for HttpError {}

impl From<Malformed> for HttpError {
    fn from(fault: Malformed) -> HttpError {
        HttpError::Broken(fault.to_string())
    }
}
