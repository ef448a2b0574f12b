//! The table of all failures of requests: who caused it, whether the request may be retried, and
//! what the client gets. Any detail goes into the log, never to the client.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use tokamak_upstream::unopened::Unopened;
use tokamak_upstream::{remote, shm};

/// Who caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client sent something wrong, or too slowly.
    Client,
    /// This server: it failed, is overloaded, or may not ask the application.
    Server,
    /// The application: the worker or FastCGI process that had the request.
    Backend,
}

/// Whether a failed request may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: it would fail again, or its work would be done twice.
    Never,
    /// The server retries it once, if the method is safe and no byte has been sent.
    Once,
    /// The client may retry it: the response has `Retry-After`.
    Later,
}

macro_rules! failures {
    ($($name:ident $side:ident $retry:ident $status:literal $text:literal)*) => {
        /// One way for a request to fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Failure {
            $(#[doc = concat!($status, ": ", $text)] $name,)*
        }

        /// How often each failure was answered, or broke a response off, by all threads: seldom,
        /// so they may share a line.
        static ANSWERED: [AtomicU64; Failure::ALL.len()] =
            [const { AtomicU64::new(0) }; Failure::ALL.len()];

        impl Failure {
            /// All failures, in the order of the table.
            pub const ALL: &[Failure] = &[$(Failure::$name),*];

            /// The name in logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Failure::$name => stringify!($name),)*
                }
            }

            /// Who caused the failure.
            pub fn side(self) -> Side {
                match self {
                    $(Failure::$name => Side::$side,)*
                }
            }

            /// Whether the request may be retried.
            pub fn retry(self) -> Retry {
                match self {
                    $(Failure::$name => Retry::$retry,)*
                }
            }

            /// The status of the answer.
            pub fn status(self) -> StatusCode {
                let status: u16 = match self {
                    $(Failure::$name => $status,)*
                };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// The text for the client.
            pub fn text(self) -> &'static str {
                match self {
                    $(Failure::$name => $text,)*
                }
            }
        }
    };
}

failures! {
    BadRequest            Client   Never  400  "The request is malformed."
    PlainHttp             Client   Never  400  "The plain HTTP request was sent to an HTTPS port. Use \
        https:// for this address."
    Unauthorized          Client   Never  401  "A name and a password are needed here."
    Forbidden             Client   Never  403  "This page may not be read."
    NotFound              Client   Never  404  "There is no page here."
    MethodNotAllowed      Client   Never  405  "This method is not allowed here."
    HeadSlow              Client   Never  408  "The request took too long to arrive."
    BodySlow              Client   Never  408  "The request's body took too long to arrive."
    Gone                  Client   Never  410  "There was a page here, and it will not come back."
    PreconditionFailed    Client   Never  412  "A condition of the request does not hold."
    BodyTooLarge          Client   Never  413  "The request's body is too large."
    UriTooLong            Client   Never  414  "The requested address is too long."
    RangeUnsatisfiable    Client   Never  416  "The requested range is not in the file."
    ExpectationFailed     Client   Never  417  "The expectation of the request cannot be met."
    TooManyRequests       Client   Later  429  "There are too many requests of yours. Please try \
        again later."
    HeadTooLarge          Client   Never  431  "The request's headers are too large."
    Internal              Server   Never  500  "Something went wrong on the server."
    FileBroken            Server   Never  500  "The file cannot be read."
    NotImplemented        Client   Never  501  "The server does not know how to read this request."
    WorkerGone            Backend  Once   502  "The application ended before it had answered."
    Unreachable           Backend  Never  502  "The application cannot be reached."
    WorkerBroken          Backend  Never  502  "The application gave an answer that cannot be sent."
    QueueFull             Server   Later  503  "The server is busy. Please try again."
    QueueSlow             Server   Later  503  "The server is busy. Please try again."
    PasswordsBusy         Server   Later  503  "The server is busy. Please try again."
    ScriptUnreadable      Server   Later  503  "The server could not answer. Please try again."
    ScriptEnded           Server   Later  503  "The server could not answer in time. Please try \
        again."
    TooManyConnections    Server   Later  503  "The server has too many connections. Please try \
        again."
    FileUnavailable       Server   Later  503  "The server could not answer. Please try again."
    HubUnreachable        Server   Later  503  "The other nodes cannot be told. Please try again."
    NoWorkers             Server   Later  503  "The application is not running. Please try again."
    WorkerSlow            Backend  Never  504  "The application took too long to answer."
    NotCached             Server  Never  504  "The page is not in the cache, and nothing else was \
        asked for."
    VersionUnsupported    Client   Never  505  "The server does not speak this version of HTTP here."
}

impl Failure {
    /// It is answered, or breaks a response off, once more.
    pub fn note(self) {
        ANSWERED[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was noted by this process.
    pub fn count(self) -> u64 {
        ANSWERED[self as usize].load(Ordering::Relaxed)
    }
}

impl From<Unopened> for Failure {
    fn from(unopened: Unopened) -> Failure {
        match unopened {
            Unopened::Missing => Failure::NotFound,
            Unopened::Denied => Failure::Forbidden,
            Unopened::Exhausted => Failure::FileUnavailable,
            Unopened::Broken => Failure::FileBroken,
        }
    }
}

impl From<&shm::WorkerError> for Failure {
    fn from(fault: &shm::WorkerError) -> Failure {
        match fault {
            shm::WorkerError::Waited => Failure::QueueSlow,
            shm::WorkerError::Barren => Failure::NoWorkers,
            shm::WorkerError::Died { death: shm::Death::TimedOut, .. } => Failure::WorkerSlow,
            shm::WorkerError::Died { .. } => Failure::WorkerGone,
            shm::WorkerError::Malformed => Failure::WorkerBroken,
            shm::WorkerError::Spool => Failure::Internal,
        }
    }
}

impl From<&remote::UpstreamError> for Failure {
    fn from(fault: &remote::UpstreamError) -> Failure {
        use remote::UpstreamError;
        match fault {
            UpstreamError::Full => Failure::QueueFull,
            UpstreamError::Waited => Failure::QueueSlow,
            // This process may open no socket: the application may be well.
            UpstreamError::Unreachable(error) if Unopened::of(error) == Unopened::Exhausted => {
                Failure::FileUnavailable
            }
            UpstreamError::Unreachable(_) | UpstreamError::NoAddress | UpstreamError::Withdrawn => {
                Failure::Unreachable
            }
            UpstreamError::SendSlow | UpstreamError::Silent | UpstreamError::Stalled => {
                Failure::WorkerSlow
            }
            UpstreamError::Closed { .. } | UpstreamError::Cancelled(_) => Failure::WorkerGone,
            UpstreamError::Malformed(_)
            | UpstreamError::NotHttp(_)
            | UpstreamError::NotHttp2(_)
            | UpstreamError::NotTaken
            | UpstreamError::Unexpected(_)
            | UpstreamError::Refused(_) => Failure::WorkerBroken,
            UpstreamError::Spool => Failure::Internal,
            UpstreamError::Cut => Failure::BadRequest,
            UpstreamError::Impatient => Failure::BodySlow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_opened_have_their_status() {
        for unopened in [Unopened::Missing, Unopened::Denied, Unopened::Exhausted, Unopened::Broken]
        {
            assert_eq!(Failure::from(unopened).status().as_u16(), unopened.status());
        }
    }

    #[test]
    fn rows_agree_with_themselves() {
        for &failure in Failure::ALL {
            let status = failure.status();
            match failure.side() {
                // 501 and 505 are about what the client sent, although they count as server errors.
                Side::Client => {
                    assert!(
                        status.is_client_error() || matches!(status.as_u16(), 501 | 505),
                        "{failure:?}"
                    )
                }
                Side::Server | Side::Backend => assert!(status.is_server_error(), "{failure:?}"),
            }
            assert_eq!(
                failure.retry() == Retry::Later,
                matches!(status.as_u16(), 429 | 503),
                "{failure:?}"
            );
            assert!(
                failure.retry() != Retry::Once || failure.side() == Side::Backend,
                "{failure:?}"
            );
            assert!(status.canonical_reason().is_some(), "{failure:?}");
            assert!(failure.text().is_ascii() && failure.text().ends_with('.'), "{failure:?}");
            assert_eq!(failure.name(), format!("{failure:?}"));
        }
    }

    #[test]
    fn a_request_is_given_to_another_worker_where_the_table_allows_it() {
        use shm::{Death, WorkerError};
        for (fault, expected) in [
            (WorkerError::Waited, false),
            (WorkerError::Died { death: Death::Crashed, answered: false }, true),
            (WorkerError::Died { death: Death::Crashed, answered: true }, false),
            (WorkerError::Died { death: Death::CrashedByIt, answered: false }, false),
            (WorkerError::Died { death: Death::EndedByAnother, answered: false }, true),
            (WorkerError::Died { death: Death::EndedByAnother, answered: true }, false),
            (WorkerError::Died { death: Death::TimedOut, answered: false }, false),
            (WorkerError::Malformed, false),
            (WorkerError::Spool, false),
        ] {
            assert_eq!(fault.repeats() > 0, expected, "{fault:?}");
            let row = Failure::from(&fault).retry();
            assert!(!expected || row == Retry::Once, "{fault:?}: {row:?}");
        }
    }

    #[test]
    fn rows_are_sorted_and_different() {
        assert!(Failure::ALL.is_sorted_by_key(|failure| failure.status()));
        let names: std::collections::HashSet<_> =
            Failure::ALL.iter().map(|failure| failure.name()).collect();
        assert_eq!(names.len(), Failure::ALL.len());
    }
}
