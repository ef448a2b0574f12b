//! The framing of a body: a length, or chunks.

use super::bytes::value_span;
use super::state::State;
use super::{Screen, Violation, line_feed, stray};

/// Most bytes of chunk extensions in one body. No known client uses any. It must stay below the
/// HTTP library's own limit of 16 KiB, so ten times more would let bodies pass that the library
/// refuses.
const EXTENSIONS_MOST: usize = 4096;
/// Most hexadecimal digits of a chunk size: what fits into 64 bits.
const SIZE_DIGITS: u8 = 16;

impl Screen {
    /// Checks a piece of the body. Returns how many bytes it has checked, at least one.
    pub(super) fn payload(&mut self, input: &[u8]) -> Result<usize, Violation> {
        match self.state {
            State::Length(missing) => {
                let used = self.take(input, missing);
                let missing = missing - used as u64;
                self.state = if missing == 0 { State::Start } else { State::Length(missing) };
                Ok(used)
            }
            State::ChunkData(missing) => {
                let used = self.take(input, missing);
                let missing = missing - used as u64;
                self.state = if missing == 0 { State::ChunkCr } else { State::ChunkData(missing) };
                Ok(used)
            }
            State::ChunkExtension => self.chunk_extension(input),
            _ => {
                self.chunk_byte(input[0])?;
                Ok(1)
            }
        }
    }

    /// Counts the bytes of `input` that belong to a body of which `missing` bytes are missing.
    fn take(&mut self, input: &[u8], missing: u64) -> usize {
        let used = usize::try_from(missing).map_or(input.len(), |missing| missing.min(input.len()));
        self.body += used as u64;
        used
    }

    /// The states between chunks. Each checks one byte.
    fn chunk_byte(&mut self, byte: u8) -> Result<(), Violation> {
        match self.state {
            State::ChunkSizeLf => {
                line_feed(byte)?;
                match self.chunk {
                    0 => self.begin_trailers(),
                    size => self.state = State::ChunkData(size),
                }
            }
            State::ChunkCr if byte != b'\r' => return Err(Violation::BadChunkEnd),
            State::ChunkCr => self.state = State::ChunkLf,
            State::ChunkLf => {
                line_feed(byte)?;
                self.begin_chunk();
            }
            _ => self.chunk_size(byte)?,
        }
        Ok(())
    }

    pub(super) fn begin_chunk(&mut self) {
        self.chunk = 0;
        self.digits = 0;
        self.state = State::ChunkSize;
    }

    fn begin_trailers(&mut self) {
        self.head = 0;
        self.fields = 0;
        self.trailers = true;
        self.state = State::FieldStart;
    }

    fn chunk_size(&mut self, byte: u8) -> Result<(), Violation> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.digits == SIZE_DIGITS {
                return Err(Violation::BadChunkSize);
            }
            self.digits += 1;
            self.chunk = self.chunk << 4 | u64::from(digit);
            return Ok(());
        }
        self.state = match byte {
            b'\r' if self.digits > 0 => State::ChunkSizeLf,
            // White space before the semicolon is legal, but only smuggling attempts use it.
            b';' if self.digits > 0 => State::ChunkExtension,
            b'\n' => return Err(Violation::BareLf),
            _ => return Err(Violation::BadChunkSize),
        };
        if self.chunk > self.limits.body - self.body {
            return Err(Violation::BodyTooLarge);
        }
        Ok(())
    }

    fn chunk_extension(&mut self, input: &[u8]) -> Result<usize, Violation> {
        let end = value_span(input);
        self.extensions += end;
        if self.extensions > EXTENSIONS_MOST {
            return Err(Violation::BadChunkExtension);
        }
        match input.get(end) {
            None => Ok(end),
            Some(b'\r') => {
                self.state = State::ChunkSizeLf;
                Ok(end + 1)
            }
            Some(&byte) => Err(stray(byte, Violation::BadChunkExtension)),
        }
    }
}
