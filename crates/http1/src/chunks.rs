//! Bodies that come in chunks, each with its length before it (RFC 9112 section 7.1).

use super::Malformed;

/// Bytes that the line before a chunk may have, and all trailer fields. A chunk's size takes 16
/// digits and extensions are rare; the bounds only limit what a hostile peer makes us hold, so ten
/// times more would do no harm yet. A tenth could refuse honest trailers.
const LONGEST_LINE: usize = 1024;
const LARGEST_TRAILER: usize = 16 << 10;

const MALFORMED: Malformed = Malformed("its chunks are malformed");

/// Takes the chunks of one body.
#[derive(Debug, Default)]
pub struct Chunks {
    state: ChunkState,
    /// The trailer fields so far.
    trailers: Option<Box<Trailers>>,
}

/// The lines of trailer fields, as they have come. Few bodies have any.
#[derive(Debug, Default)]
pub struct Trailers(pub Vec<u8>);

/// What comes next in a chunked body.
#[derive(Debug, Default)]
enum ChunkState {
    #[default]
    Size,
    /// So many bytes more of a chunk.
    Data(u64),
    /// The line end behind it.
    End,
    Trailer,
}

/// What the first bytes are.
pub enum Chunk {
    /// More are needed to tell.
    Partial,
    /// So many frame the body.
    Framing(usize),
    /// So many belong to the body.
    Data(usize),
    /// So many are the end of it.
    End(usize),
}

impl Chunks {
    /// What `bytes` begin with; the caller takes so many of them.
    ///
    /// # Errors
    /// Fails if these are not chunks.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Chunk, Malformed> {
        Ok(match &mut self.state {
            ChunkState::Size => {
                let Some((count, size)) = size(bytes)? else { return Ok(Chunk::Partial) };
                self.state = if size == 0 { ChunkState::Trailer } else { ChunkState::Data(size) };
                Chunk::Framing(count)
            }
            ChunkState::Data(_) if bytes.is_empty() => Chunk::Partial,
            ChunkState::Data(left) => {
                let count =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= count as u64;
                if *left == 0 {
                    self.state = ChunkState::End;
                }
                Chunk::Data(count)
            }
            ChunkState::End => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = ChunkState::Size;
                    Chunk::Framing(2)
                }
                [] | [b'\r'] => Chunk::Partial,
                _ => return Err(MALFORMED),
            },
            ChunkState::Trailer => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let before = self.trailers.as_ref().map_or(0, |trailers| trailers.0.len());
                if before + end.unwrap_or(bytes.len()) > LARGEST_TRAILER {
                    return Err(MALFORMED);
                }
                let Some(end) = end else { return Ok(Chunk::Partial) };
                let line = bytes[..end].strip_suffix(b"\r").ok_or(MALFORMED)?;
                if line.is_empty() {
                    return Ok(Chunk::End(end + 1));
                }
                self.trailers.get_or_insert_default().0.extend_from_slice(&bytes[..=end]);
                Chunk::Framing(end + 1)
            }
        })
    }

    /// Takes the fields behind the body.
    pub fn take_trailers(&mut self) -> Option<Box<Trailers>> {
        self.trailers.take()
    }

    /// Bytes that are known to come.
    pub fn expected(&self) -> u64 {
        match self.state {
            ChunkState::Data(left) => left,
            _ => 0,
        }
    }
}

/// The line before a chunk: its own length, and the chunk's.
fn size(bytes: &[u8]) -> Result<Option<(usize, u64)>, Malformed> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if !first.is_ascii_hexdigit() {
        return Err(MALFORMED);
    }
    match httparse::parse_chunk_size(&bytes[..bytes.len().min(LONGEST_LINE)]) {
        // In an extension the parser takes line feeds, at which others see the line end.
        Ok(httparse::Status::Complete((length, size))) if !bytes[..length - 2].contains(&b'\n') => {
            Ok(Some((length, size)))
        }
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_LINE => Ok(None),
        _ => Err(MALFORMED),
    }
}
