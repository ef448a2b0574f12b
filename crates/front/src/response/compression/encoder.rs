//! The encoders: one for a body that comes in pieces, and one for a whole body.
//!
//! The levels are measured: see `docs/compression.md`.

use std::cell::RefCell;
use std::io::{self, Write};

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use tokamak_config::Coding;
use zstd::stream::raw::CParameter;

use super::count;

/// The level of Zstandard.
const ZSTD_LEVEL: i32 = 3;

/// Zstandard's window, as a power of two: 128 KiB, as in Caddy. With the window of its own choice,
/// which is ten times larger, each encoder and each decoder would take megabytes.
const ZSTD_WINDOW: u32 = 17;

/// The quality of Brotli.
const BROTLI_QUALITY: i32 = 4;

/// Brotli's window, as a power of two: 256 KiB.
const BROTLI_WINDOW: i32 = 18;

/// The level of gzip.
const GZIP_LEVEL: u32 = 4;

/// Gzip's window, as a power of two: the largest that there is.
const GZIP_WINDOW: u8 = 15;

/// Bytes of output for which room is made at once. With a tenth of it, the buffer of an ordinary
/// page would grow many times; with ten times more, small pieces would hold memory for nothing.
const ROOM: usize = 16 * 1024;

thread_local! {
    /// The encoders for whole bodies. Their tables are large, so they are not made for each body.
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static GZIP: RefCell<Option<Compress>> = const { RefCell::new(None) };
}

/// Compresses a whole body. `None`: it does not become smaller.
pub fn whole(coding: Coding, body: &[u8]) -> Option<Bytes> {
    let encoded = match coding {
        Coding::Zstd => ZSTD.with_borrow_mut(|kept| {
            let encoder = match kept {
                Some(encoder) => encoder,
                None => kept.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
            };
            encoder.compress(body)
        }),
        Coding::Br => brotli(body.len()).finish(body),
        Coding::Gzip => GZIP.with_borrow_mut(|kept| {
            let encoder = kept.get_or_insert_with(gzip);
            encoder.reset();
            let mut output = Vec::with_capacity(body.len() / 2);
            deflate(encoder, body, FlushCompress::Finish, &mut output).map(|()| output)
        }),
    };
    // Only the lack of memory makes an encoder fail.
    let mut encoded = encoded.ok().filter(|encoded| encoded.len() < body.len())?;
    encoded.shrink_to_fit();
    count(coding, body.len(), encoded.len());
    Some(encoded.into())
}

fn gzip() -> Compress {
    Compress::new_gzip(Compression::new(GZIP_LEVEL), GZIP_WINDOW)
}

fn brotli(size_hint: usize) -> Brotli {
    let params = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW,
        size_hint,
        ..Default::default()
    };
    Brotli(brotli::CompressorWriter::with_params(Vec::new(), ROOM, &params))
}

/// Compresses `input` with gzip's encoder.
fn deflate(
    encoder: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    loop {
        output.reserve(ROOM);
        let before = encoder.total_in();
        let status = encoder.compress_vec(input, output, flush).map_err(io::Error::other)?;
        input = &input[(encoder.total_in() - before) as usize..];
        let is_done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            // With room left, nothing is held back.
            _ => input.is_empty() && output.len() < output.capacity(),
        };
        if is_done {
            return Ok(());
        }
    }
}

struct Brotli(brotli::CompressorWriter<Vec<u8>>);

impl Brotli {
    fn finish(mut self, last: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(last)?;
        Ok(self.0.into_inner())
    }
}

/// Compresses a body that comes in pieces.
pub struct Encoder {
    coding: Coding,
    kind: Kind,
}

enum Kind {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Br(Option<Box<Brotli>>),
    Gzip(Compress, Vec<u8>),
}

/// What to do after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// More will come.
    GoOn,
    /// More may come, but the client should be able to read all so far.
    Flush,
    /// The body ends here.
    Finish,
}

impl Encoder {
    /// An encoder for a new body.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(coding: Coding) -> io::Result<Encoder> {
        let kind = match coding {
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW))?;
                Kind::Zstd(encoder)
            }
            Coding::Br => Kind::Br(Some(Box::new(brotli(0)))),
            Coding::Gzip => Kind::Gzip(gzip(), Vec::new()),
        };
        Ok(Encoder { coding, kind })
    }

    /// Compresses the next piece of the body. Returns the output so far; the encoder may hold some
    /// back until it is to flush.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn push(&mut self, piece: &[u8], then: Then) -> io::Result<Bytes> {
        let output = match &mut self.kind {
            Kind::Zstd(encoder) => {
                encoder.write_all(piece)?;
                match then {
                    Then::GoOn => {}
                    Then::Flush => encoder.flush()?,
                    Then::Finish => encoder.do_finish()?,
                }
                std::mem::take(encoder.get_mut())
            }
            Kind::Br(encoder) if then == Then::Finish => {
                encoder.take().map_or(Ok(Vec::new()), |encoder| encoder.finish(piece))?
            }
            Kind::Br(encoder) => {
                let Some(Brotli(encoder)) = encoder.as_deref_mut() else { return Ok(Bytes::new()) };
                encoder.write_all(piece)?;
                if then == Then::Flush {
                    encoder.flush()?;
                }
                std::mem::take(encoder.get_mut())
            }
            Kind::Gzip(encoder, output) => {
                let flush = match then {
                    Then::GoOn => FlushCompress::None,
                    Then::Flush => FlushCompress::Sync,
                    Then::Finish => FlushCompress::Finish,
                };
                deflate(encoder, piece, flush, output)?;
                std::mem::take(output)
            }
        };
        count(self.coding, piece.len(), output.len());
        Ok(output.into())
    }
}
