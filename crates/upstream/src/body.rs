//! A request body that is complete before a worker sees it: in memory, or in a spool file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{Buf, Bytes};

/// Largest piece read from a spool file at once. Chosen arbitrarily: half of a usual ring.
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
        file: File,
        /// Bytes already taken.
        at: u64,
        /// Bytes in it.
        len: u64,
    },
}

impl Body {
    /// A body that was written to `file`.
    pub fn spooled(file: File, len: u64) -> Body {
        Body::Spool { file, at: 0, len }
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
    /// The spool file cannot be read, or is shorter than it was.
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

    /// Offers the next bytes to `take`, which returns how many it took; until it takes less than it
    /// was offered, or nothing is left.
    ///
    /// # Errors
    /// The spool file cannot be read, or is shorter than it was.
    pub fn pour(&mut self, mut take: impl FnMut(&[u8]) -> usize) -> io::Result<()> {
        match self {
            Body::Empty => Ok(()),
            Body::Memory(bytes) => {
                let taken = take(bytes);
                bytes.advance(taken);
                Ok(())
            }
            Body::Spool { file, at, len } => {
                let mut piece = vec![0; PIECE.min((*len - *at) as usize)];
                while at < len {
                    let want = PIECE.min((*len - *at) as usize);
                    file.read_exact_at(&mut piece[..want], *at)?;
                    let taken = take(&piece[..want]);
                    *at += taken as u64;
                    if taken < want {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn poured(mut body: Body, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while body.left() > 0 {
            body.pour(|bytes| {
                let n = bytes.len().min(step);
                out.extend_from_slice(&bytes[..n]);
                n
            })
            .unwrap();
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
        let mut body = Body::spooled(tempfile::tempfile().unwrap(), 10);
        assert!(body.pour(|b| b.len()).is_err());
    }
}
