//! What makes bytes no FastCGI. After any of these the connection cannot be used: where the next
//! record begins, or what the last one meant, is not known.

use std::fmt;

/// Why bytes are no FastCGI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A record of another version than 1.
    Version(u8),
    /// A record about a request, of a type that is not known.
    Kind(u8),
    /// A record about a request without the request's id, or a management record with one.
    Id {
        /// The record's type.
        kind: u8,
        /// Its request id.
        id: u16,
    },
    /// A record whose content does not have the one length that its type allows.
    Length {
        /// The record's type.
        kind: u8,
        /// Bytes of its content.
        len: u16,
    },
    /// A name-value pair that goes on behind the end of its stream or record.
    Cut,
    /// Name-value pairs that together are longer than the reader takes.
    TooLong,
    /// More name-value pairs than the reader takes.
    TooMany,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Version(version) => write!(f, "a record of version {version}, not 1"),
            Error::Kind(kind) => write!(f, "a record of the unknown type {kind}"),
            Error::Id { kind, id } => write!(f, "a record of type {kind} with the request id {id}"),
            Error::Length { kind, len } => {
                write!(f, "a record of type {kind} with {len} bytes of content")
            }
            Error::Cut => f.write_str("a name-value pair that ends behind its stream"),
            Error::TooLong => f.write_str("name-value pairs that are too long"),
            Error::TooMany => f.write_str("too many name-value pairs"),
        }
    }
}

impl std::error::Error for Error {}
