//! Bodies that come in chunks, each with its length before it.

use super::error::HttpError;

/// Bytes that the line before a chunk may have, and all trailer fields. A chunk's size takes 16
/// digits and extensions are rare; the bounds only limit what a hostile peer makes us hold, so ten
/// times more would do no harm yet. A tenth could refuse honest trailers.
const LONGEST_LINE: usize = 1024;
const LARGEST_TRAILER: usize = 16 << 10;

/// Takes the chunks of one body.
#[derive(Default)]
pub struct Chunks {
    state: ChunkState,
    /// Bytes of the trailer fields so far, which say nothing to us.
    trailer: usize,
}

/// What comes next in a chunked body.
#[derive(Default)]
enum ChunkState {
    #[default]
    Size,
    /// So many bytes more of a chunk.
    Data(usize),
    /// The line end behind it.
    End,
    Trailer,
}

impl Chunks {
    /// Takes bytes into a body that may have `most`; how many it took, and whether that was the
    /// last of them.
    ///
    /// # Errors
    /// Fails if these are not chunks, or too many.
    pub fn take(
        &mut self,
        bytes: &[u8],
        body: &mut Vec<u8>,
        most: usize,
    ) -> Result<(usize, bool), HttpError> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let count = match &mut self.state {
                ChunkState::Size => {
                    let Some((count, size)) = size(rest)? else { return Ok((taken, false)) };
                    if size > (most - body.len()) as u64 {
                        return Err(HttpError::Large(most));
                    }
                    self.state = if size == 0 {
                        ChunkState::Trailer
                    } else {
                        ChunkState::Data(size as usize)
                    };
                    count
                }
                ChunkState::Data(left) => {
                    let count = rest.len().min(*left);
                    body.extend_from_slice(&rest[..count]);
                    *left -= count;
                    if *left > 0 {
                        return Ok((bytes.len(), false));
                    }
                    self.state = ChunkState::End;
                    count
                }
                ChunkState::End => match rest {
                    [b'\r', b'\n', ..] => {
                        self.state = ChunkState::Size;
                        2
                    }
                    [] | [b'\r'] => return Ok((taken, false)),
                    _ => return Err(malformed()),
                },
                ChunkState::Trailer => {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    if self.trailer + end.unwrap_or(rest.len()) > LARGEST_TRAILER {
                        return Err(malformed());
                    }
                    let Some(end) = end else { return Ok((taken, false)) };
                    let line = rest[..end].strip_suffix(b"\r").ok_or_else(malformed)?;
                    if line.is_empty() {
                        return Ok((taken + end + 1, true));
                    }
                    self.trailer += end + 1;
                    end + 1
                }
            };
            taken += count;
        }
    }

    /// Bytes that are known to come.
    pub fn expected(&self) -> u64 {
        match self.state {
            ChunkState::Data(left) => left as u64,
            _ => 0,
        }
    }
}

/// The line before a chunk: its own length, and the chunk's.
fn size(bytes: &[u8]) -> Result<Option<(usize, u64)>, HttpError> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if !first.is_ascii_hexdigit() {
        return Err(malformed());
    }
    match httparse::parse_chunk_size(&bytes[..bytes.len().min(LONGEST_LINE)]) {
        // In an extension the parser takes line feeds, at which others see the line end.
        Ok(httparse::Status::Complete((length, size))) if !bytes[..length - 2].contains(&b'\n') => {
            Ok(Some((length, size)))
        }
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_LINE => Ok(None),
        _ => Err(malformed()),
    }
}

fn malformed() -> HttpError {
    HttpError::broken("its chunks are malformed")
}
