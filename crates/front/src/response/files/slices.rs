//! Parts of a file, one after the other, with text between them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::pread;

/// One part of a body.
#[derive(Debug)]
pub(super) enum Slice {
    /// This text.
    Text(Bytes),
    /// This range of the file.
    File { offset: u64, len: u64 },
}

impl Slice {
    fn len(&self) -> u64 {
        match self {
            Slice::Text(bytes) => bytes.len() as u64,
            Slice::File { len, .. } => *len,
        }
    }
}

/// A body that is read from a file while it is sent.
#[derive(Debug)]
pub struct FileSlices {
    file: File,
    parts: VecDeque<Slice>,
    left: u64,
}

impl FileSlices {
    pub(super) fn new(file: File, parts: Vec<Slice>) -> FileSlices {
        let left = parts.iter().map(Slice::len).sum();
        FileSlices { file, parts: parts.into(), left }
    }

    /// A part of a file.
    pub fn of(file: File, offset: u64, len: u64) -> FileSlices {
        FileSlices::new(file, vec![Slice::File { offset, len }])
    }

    /// Bytes that have not been read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads the next bytes, at most `most`. Empty at the end.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has become shorter.
    pub fn read(&mut self, most: usize) -> io::Result<Bytes> {
        let bytes = loop {
            match self.parts.front_mut() {
                None => return Ok(Bytes::new()),
                Some(part) if part.len() == 0 => drop(self.parts.pop_front()),
                Some(Slice::Text(text)) => break text.split_to(text.len().min(most)),
                Some(Slice::File { offset, len }) => {
                    let wanted = usize::try_from(*len).unwrap_or(most).min(most);
                    // It is not cleared first: what is in it comes from the file.
                    let mut buffer = Vec::with_capacity(wanted);
                    let count = pread(&self.file, spare_capacity(&mut buffer), *offset)?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    // The allocator may have given more than was wanted.
                    let count = count.min(wanted);
                    buffer.truncate(count);
                    *offset += count as u64;
                    *len -= count as u64;
                    break Bytes::from(buffer);
                }
            }
        };
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn parts_are_read_in_order_and_in_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let parts = vec![
            Slice::Text(Bytes::from_static(b"<")),
            Slice::File { offset: 7, len: 3 },
            Slice::Text(Bytes::new()),
            Slice::Text(Bytes::from_static(b"--")),
            Slice::File { offset: 0, len: 5 },
        ];
        let mut slices = FileSlices::new(file, parts);
        let mut pieces = Vec::new();
        assert_eq!(slices.left(), 11);
        while slices.left() > 0 {
            pieces.push(String::from_utf8(slices.read(2).unwrap().to_vec()).unwrap());
        }
        assert_eq!(pieces, ["<", "78", "9", "--", "01", "23", "4"]);
        assert!(slices.read(2).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut slices =
            FileSlices::new(tempfile::tempfile().unwrap(), vec![Slice::File { offset: 0, len: 5 }]);
        assert_eq!(slices.read(9).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
