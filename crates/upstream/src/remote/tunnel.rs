//! A connection whose application has changed the protocol: bytes in both directions.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::pool::Lease;

/// A connection to an application that has answered with status 101. Dropped, it is closed.
#[derive(Debug)]
pub struct Tunnel {
    lease: Lease,
    /// What came with the head.
    input: Bytes,
}

impl Tunnel {
    pub(super) fn new(lease: Lease, input: Bytes) -> Tunnel {
        Tunnel { lease, input }
    }

    /// The next bytes of the application; none at the end.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if !self.input.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.input)));
        }
        self.lease.connection().stream.poll_read(context, false)
    }

    /// Takes bytes for the application, and gives how many it took. They are on their way when
    /// [`Tunnel::poll_flush`] is done.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lease.connection().stream.poll_write(context, bytes)
    }

    /// Sends what was taken.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lease.connection().stream.poll_flush(context)
    }
}
