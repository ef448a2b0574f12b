//! Basic authentication (RFC 7617) without sockets: files of users as `htpasswd` writes them, their
//! passwords, and what clients send. Text in, a verdict out; when a file is read, and on which
//! thread a password is verified, others decide.

mod basic;
mod files;
mod hash;
mod md5_crypt;
mod sha_crypt;
mod users;

pub use basic::Login;
pub use files::{Malformed, UserFiles};
pub use users::{BadUsers, Users};

/// What the fuzz target and the tests feed with any bytes.
pub mod hashes {
    pub use crate::hash::{BadHash, Hash};
}
