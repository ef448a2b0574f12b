//! The part of a worker's response that is spooled to a file because its client is slow. It is
//! written and read back in pieces of whole frames.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use tokamak_sys::queue::split_frame;

use crate::spool::{PIECE, Spool, SpoolQuota, SpoolRead, SpoolWrite};

/// The spooled frames of one response.
pub(super) struct Spooled {
    spool: Spool,
    /// The lengths of the pieces in the file. Each has whole frames.
    pieces: VecDeque<usize>,
    is_writing: bool,
}

/// The next step for a response whose memory was full.
pub(super) enum Step {
    /// Nothing is left to do.
    Over,
    /// Its client is reading: look again soon.
    Patience,
    /// The quota of files is used up: look again later.
    Refused,
    /// Write this chunk to the file.
    Write(Chunk),
}

/// Frames on their way into the file.
pub(super) struct Chunk {
    pub frames: Vec<u8>,
    pub write: SpoolWrite,
}

/// The result of a write.
pub(super) struct Written {
    pieces: Vec<usize>,
    outcome: io::Result<Arc<File>>,
}

impl Chunk {
    /// Writes on another thread, and returns the result with the frames.
    pub async fn run(self) -> (Written, Vec<u8>) {
        let pieces = pieces(&self.frames);
        let (outcome, frames) = self.write.run_elsewhere(self.frames).await;
        (Written { pieces, outcome }, frames.unwrap_or_default())
    }
}

impl Spooled {
    pub fn new(quota: Arc<SpoolQuota>) -> Spooled {
        Spooled { spool: Spool::new(quota), pieces: VecDeque::new(), is_writing: false }
    }

    /// Whether nothing is in the file, or on its way there.
    pub fn is_over(&self) -> bool {
        self.pieces.is_empty() && !self.is_writing
    }

    /// Prepares a write of so many bytes, if there is room for them.
    pub fn write(&mut self, len: usize) -> Option<SpoolWrite> {
        let write = self.spool.write(len);
        self.is_writing = write.is_some();
        write
    }

    /// Returns whether the write has succeeded.
    pub fn wrote(&mut self, written: Written) -> bool {
        self.is_writing = false;
        let Written { pieces, outcome } = written;
        let is_written = self.spool.wrote(pieces.iter().sum(), outcome);
        if is_written {
            self.pieces.extend(pieces);
        }
        is_written
    }

    /// Prepares to read the next piece, if one is in the file.
    pub fn read(&self) -> Option<SpoolRead> {
        self.spool.read(*self.pieces.front()?)
    }

    /// The next piece has been read.
    pub fn took(&mut self) {
        if let Some(len) = self.pieces.pop_front() {
            self.spool.took(len, self.is_writing);
        }
    }
}

/// Cuts frames into pieces that are read back one by one.
fn pieces(frames: &[u8]) -> Vec<usize> {
    let mut pieces = Vec::with_capacity(frames.len() / PIECE + 1);
    let (mut rest, mut begun) = (frames, frames.len());
    while !rest.is_empty() {
        // The reader notices if the bytes are no frames.
        rest = split_frame(rest).map_or(&[], |(_, rest)| rest);
        if begun - rest.len() >= PIECE || rest.is_empty() {
            pieces.push(begun - rest.len());
            begun = rest.len();
        }
    }
    pieces
}
