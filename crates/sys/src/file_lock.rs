//! Locks on files, by which servers find out about each other.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Locks a file until it is closed, unless another process has; whether it did. A forked child that
/// keeps the descriptor keeps the lock, too.
///
/// # Errors
/// Fails if the file system has no locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
