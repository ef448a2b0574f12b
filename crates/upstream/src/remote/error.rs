//! What can go wrong between the front and an application; its text is the reason in the log.

use std::fmt;
use std::io;

use tokamak_cost::Phase;
use tokamak_fastcgi::{Error, ProtocolStatus};
use tokamak_http1 as http1;
use tokamak_nghttp2::Reason;

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub enum UpstreamError {
    /// Too many requests wait for a connection already.
    Full,
    /// No connection became free in time.
    Waited,
    /// The address was taken out of service.
    Withdrawn,
    /// No address is in service.
    NoAddress,
    /// No address can be reached.
    Unreachable(io::Error),
    /// The application did not take more of the request in time.
    SendSlow,
    /// It did not begin to answer in time.
    Silent,
    /// It did not go on answering in time.
    Stalled,
    /// It closed the connection.
    Closed {
        /// After some of the response.
        answered: bool,
    },
    /// What it sent is no FastCGI.
    Malformed(Error),
    /// What it sent is no response of HTTP.
    NotHttp(http1::Malformed),
    /// What it sent is FastCGI, but nothing that may come here.
    Unexpected(&'static str),
    /// What it sent is no HTTP/2, for this reason.
    NotHttp2(Box<str>),
    /// It refused the request.
    Refused(ProtocolStatus),
    /// It has not looked at the request, in HTTP/2: it may be asked again.
    NotTaken,
    /// It cancelled the request, in HTTP/2.
    Cancelled(Reason),
    /// The file with the request body cannot be read.
    Spool,
    /// The client does not send the rest of the request's body.
    Cut,
    /// It closed the connection while the client was still sending the body.
    Impatient,
}

impl UpstreamError {
    /// The phase that the time until then belongs to.
    pub fn phase(&self) -> Phase {
        match self {
            UpstreamError::Full
            | UpstreamError::Waited
            | UpstreamError::Withdrawn
            | UpstreamError::NoAddress => Phase::Queue,
            UpstreamError::Unreachable(_) => Phase::Connect,
            UpstreamError::SendSlow
            | UpstreamError::Silent
            | UpstreamError::Stalled
            | UpstreamError::Closed { .. }
            | UpstreamError::Malformed(_)
            | UpstreamError::NotHttp(_)
            | UpstreamError::NotHttp2(_)
            | UpstreamError::Unexpected(_)
            | UpstreamError::Refused(_)
            | UpstreamError::NotTaken
            | UpstreamError::Cancelled(_)
            | UpstreamError::Spool
            | UpstreamError::Cut
            | UpstreamError::Impatient => Phase::Upstream,
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamError::Full => {
                f.write_str("too many requests wait for a connection to the application")
            }
            UpstreamError::Waited => {
                f.write_str("no connection to the application became free in time")
            }
            UpstreamError::Withdrawn => {
                f.write_str("the application's address was taken out of service")
            }
            UpstreamError::NoAddress => f.write_str("no address of the application is in service"),
            UpstreamError::Unreachable(error) => {
                write!(f, "the application cannot be reached: {error}")
            }
            UpstreamError::SendSlow => {
                f.write_str("the application did not take the request in time")
            }
            UpstreamError::Silent => f.write_str("the application did not begin to answer in time"),
            UpstreamError::Stalled => {
                f.write_str("the application stopped in the middle of its response")
            }
            UpstreamError::Closed { answered: false } => {
                f.write_str("the application closed the connection unanswered")
            }
            UpstreamError::Closed { answered: true } => {
                f.write_str("the application closed the connection in the middle of its response")
            }
            UpstreamError::Malformed(error) => write!(f, "the application sent {error}"),
            UpstreamError::NotHttp(error) => {
                write!(f, "the application sent no valid response: {error}")
            }
            UpstreamError::NotHttp2(why) => {
                write!(f, "the application sent no valid HTTP/2: {why}")
            }
            UpstreamError::NotTaken => {
                f.write_str("the application did not take the request (REFUSED_STREAM or GOAWAY)")
            }
            UpstreamError::Cancelled(reason) => {
                write!(f, "the application cancelled the request: {reason}")
            }
            UpstreamError::Unexpected(what) => write!(f, "the application sent {what}"),
            UpstreamError::Refused(ProtocolStatus::CannotMultiplex) => {
                f.write_str("the application refused a second request on the connection")
            }
            UpstreamError::Refused(ProtocolStatus::Overloaded) => {
                f.write_str("the application is overloaded")
            }
            UpstreamError::Refused(ProtocolStatus::UnknownRole) => {
                f.write_str("the application does not answer requests")
            }
            UpstreamError::Refused(status) => {
                write!(f, "the application ended the request with status {}", status.number())
            }
            UpstreamError::Spool => f.write_str("the request body cannot be read back"),
            UpstreamError::Cut => f.write_str("the client did not send the rest of its body"),
            UpstreamError::Impatient => {
                f.write_str("the application did not wait for the rest of the body")
            }
        }
    }
}

impl std::error::Error for UpstreamError {}

impl From<Error> for UpstreamError {
    fn from(error: Error) -> UpstreamError {
        UpstreamError::Malformed(error)
    }
}

impl From<http1::Malformed> for UpstreamError {
    fn from(error: http1::Malformed) -> UpstreamError {
        UpstreamError::NotHttp(error)
    }
}
