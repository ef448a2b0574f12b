//! A request body that is complete before a worker sees it: in memory, or in a spool file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};

/// Largest piece read from a spool file at once: half of a usual ring, so that the worker empties
/// one half while the other is filled.
const PIECE: usize = 32 * 1024;

/// A whole request body.
#[derive(Debug, Default)]
pub enum Body {
    /// No body.
    #[default]
    Empty,
    /// Held in memory.
    Memory(Bytes),
    /// In an unlinked spool file, from its beginning.
    Spool {
        /// The file.
        file: Arc<File>,
        /// Bytes already taken.
        at: u64,
        /// Bytes in it.
        len: u64,
    },
}

impl Body {
    /// A body that was written to `file`.
    pub fn spooled(file: File, len: u64) -> Body {
        Body::Spool { file: Arc::new(file), at: 0, len }
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Memory(bytes) => bytes.len() as u64,
            Body::Spool { at, len, .. } => len - at,
        }
    }

    /// At most `most` bytes from `at`, without taking them: an application may have to be asked
    /// again.
    ///
    /// # Errors
    /// Fails if the spool file cannot be read, or has become shorter.
    pub fn read_at(&self, at: u64, most: usize) -> io::Result<Bytes> {
        let len = (most as u64).min(self.left().saturating_sub(at)) as usize;
        match self {
            Body::Empty => Ok(Bytes::new()),
            Body::Memory(bytes) => Ok(bytes.slice(at as usize..at as usize + len)),
            Body::Spool { file, at: taken, .. } => {
                let mut piece = vec![0; len];
                file.read_exact_at(&mut piece, taken + at)?;
                Ok(piece.into())
            }
        }
    }

    /// Offers the next bytes to `take`, which returns how many it took. Of a spool file nothing is
    /// offered: that would be a read from a disk (see [`Body::read`]).
    pub fn pour(&mut self, take: impl FnOnce(&[u8]) -> usize) {
        if let Body::Memory(bytes) = self {
            let taken = take(bytes);
            bytes.advance(taken);
        }
    }

    /// Reads the next bytes of a spool file, on a thread that may wait for the disk; nothing if the
    /// body is in memory, or has ended. They still have to be [taken](Body::advance).
    pub fn read(&self) -> Option<impl FnOnce() -> io::Result<Bytes> + Send + 'static> {
        let Body::Spool { file, at, len } = self else { return None };
        let (file, at, want) = (file.clone(), *at, PIECE.min((len - at) as usize));
        (want > 0).then_some(move || {
            let mut piece = vec![0; want];
            file.read_exact_at(&mut piece, at)?;
            Ok(piece.into())
        })
    }

    /// So many bytes have been taken.
    pub fn advance(&mut self, taken: usize) {
        match self {
            Body::Empty => {}
            Body::Memory(bytes) => bytes.advance(taken),
            Body::Spool { at, .. } => *at += taken as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn poured(mut body: Body, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut take = |bytes: &[u8]| {
            let n = bytes.len().min(step);
            out.extend_from_slice(&bytes[..n]);
            n
        };
        while body.left() > 0 {
            match body.read() {
                Some(read) => {
                    let taken = take(&read().unwrap());
                    body.advance(taken);
                }
                None => body.pour(&mut take),
            }
        }
        out
    }

    #[test]
    fn memory_and_spool_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        for step in [1000, PIECE, PIECE * 2] {
            assert!(poured(Body::Memory(bytes.clone().into()), step) == bytes);
            assert!(
                poured(Body::spooled(file.try_clone().unwrap(), bytes.len() as u64), step) == bytes
            );
            for body in [
                Body::Memory(bytes.clone().into()),
                Body::spooled(file.try_clone().unwrap(), bytes.len() as u64),
            ] {
                let pieces: Vec<u8> = (0..bytes.len())
                    .step_by(step)
                    .flat_map(|at| body.read_at(at as u64, step).unwrap().to_vec())
                    .collect();
                assert!(pieces == bytes);
                assert!(body.read_at(bytes.len() as u64, step).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn a_spool_file_that_shrank_is_an_error() {
        let body = Body::spooled(tempfile::tempfile().unwrap(), 10);
        assert!(body.read().expect("there are bytes to read")().is_err());
    }
}
