//! Interim responses of applications.

/// Which clients get the interim responses of applications (RFC 8297). Clients behind a proxy never
/// get them, because nobody knows whether the proxy passes them on, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyHints {
    /// None.
    Off,
    /// Those of HTTP/2 and later.
    Http2,
    /// Those of HTTP/1.1 and later.
    All,
}
