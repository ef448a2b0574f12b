//! A response's body that consists of pieces: bytes, and parts of files.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use smallvec::SmallVec;
use tokamak_lua::Piece;

use super::Source;
use super::files::FileSlices;

enum BodyPart {
    Bytes(Bytes),
    File(FileSlices),
}

/// The pieces of a body that a script has made: nearly always one.
pub type Pieces = SmallVec<[Piece; 1]>;

/// A body of several pieces, one after the other.
pub struct Series {
    parts: VecDeque<BodyPart>,
    left: u64,
}

impl Series {
    /// Makes a body of these pieces.
    pub fn of(mut pieces: Pieces) -> Source {
        if let [Piece::Bytes(bytes)] = &mut pieces[..]
            && !bytes.is_empty()
        {
            return Source::Whole(std::mem::take(bytes).into());
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_))) {
            return whole(pieces);
        }
        let mut series = Series { parts: VecDeque::new(), left: 0 };
        for piece in pieces {
            let (length, part) = match piece {
                Piece::Bytes(bytes) => (bytes.len() as u64, BodyPart::Bytes(bytes.into())),
                Piece::File { file, offset, length } => {
                    (length, BodyPart::File(FileSlices::of(file, offset, length)))
                }
            };
            series.left += length;
            series.parts.push_back(part);
        }
        Source::Series(series)
    }

    /// Bytes that have not been read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads the next bytes, at most `most` from a file. Empty at the end.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or has become shorter.
    pub fn next(&mut self, most: usize) -> io::Result<Bytes> {
        while let Some(part) = self.parts.front_mut() {
            let bytes = match part {
                BodyPart::Bytes(bytes) => std::mem::take(bytes),
                BodyPart::File(file) => file.read(most)?,
            };
            if !bytes.is_empty() {
                self.left -= bytes.len() as u64;
                return Ok(bytes);
            }
            self.parts.pop_front();
        }
        Ok(Bytes::new())
    }
}

fn whole(pieces: Pieces) -> Source {
    let all: Vec<Vec<u8>> = pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Bytes(bytes) => Some(bytes),
            Piece::File { .. } => None,
        })
        .collect();
    let bytes = all.concat();
    if bytes.is_empty() { Source::Empty } else { Source::Whole(bytes.into()) }
}
