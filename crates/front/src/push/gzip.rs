//! The events of a subscriber in gzip (RFC 1952).
//!
//! An encoder for each subscriber would take more memory than all the rest of it. So each event is
//! compressed by itself, once for all who get it, and ends on the border of a byte: in a stream of
//! gzip such pieces can follow each other in any order, since none refers to another. That is so in
//! no other coding that browsers know.

use std::cell::RefCell;

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use tokamak_mercure::Update;

/// A head without time and name, of an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A last block (RFC 1951 section 3.2.6), which is empty.
const LAST: [u8; 2] = [3, 0];

/// As for other bodies: see `docs/compression.md`.
const LEVEL: u32 = 4;

/// Bytes of the shortest text for which an encoder is asked: what it begins with and ends with
/// takes more than it saves of a shorter one.
const LEAST: usize = 128;

/// Most bytes of a block that is not compressed (RFC 1951 section 3.2.4).
const STORED: usize = 0xffff;

thread_local! {
    /// Its tables are large, so it is not made for each event.
    static ENCODER: RefCell<Compress> =
        RefCell::new(Compress::new(Compression::new(LEVEL), false));
}

/// What one subscriber has got.
pub struct Gzip {
    sum: Crc,
    count: fn(usize, usize),
}

impl Gzip {
    /// The coding of a stream. `count` is told of each update that is compressed: its length before
    /// and after.
    pub fn new(count: fn(usize, usize)) -> Gzip {
        Gzip { sum: Crc::new(), count }
    }

    /// The beginning of the stream, with a first text.
    pub fn begin(&mut self, text: &[u8]) -> Bytes {
        [&HEAD[..], &self.text(text)].concat().into()
    }

    /// A text of its own.
    pub fn text(&mut self, text: &[u8]) -> Bytes {
        self.sum.update(text);
        stored(text).into()
    }

    /// An update.
    pub fn update(&mut self, update: &Update) -> Bytes {
        self.sum.update(&update.text);
        let pack = |text: &[u8]| {
            let packed = deflated(text).unwrap_or_else(|| stored(text));
            (self.count)(text.len(), packed.len());
            packed.into()
        };
        update.packed(pack).clone()
    }

    /// The end of the stream.
    pub fn end(self) -> Bytes {
        let (sum, length) = (self.sum.sum().to_le_bytes(), self.sum.amount().to_le_bytes());
        [&LAST[..], &sum, &length].concat().into()
    }
}

/// Blocks that are compressed. `None`: they would be no smaller.
fn deflated(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() < LEAST {
        return None;
    }
    ENCODER.with_borrow_mut(|encoder| {
        encoder.reset();
        // With room left at its end, nothing is held back.
        let mut packed = Vec::with_capacity(text.len());
        encoder.compress_vec(text, &mut packed, FlushCompress::Sync).ok()?;
        let is_whole = encoder.total_in() == text.len() as u64 && packed.len() < packed.capacity();
        packed.shrink_to_fit();
        is_whole.then_some(packed)
    })
}

/// Blocks that are not compressed.
fn stored(text: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(text.len() + 5);
    for part in text.chunks(STORED) {
        // No longer than `STORED`.
        let length = part.len() as u16;
        blocks.push(0);
        blocks.extend_from_slice(&length.to_le_bytes());
        blocks.extend_from_slice(&(!length).to_le_bytes());
        blocks.extend_from_slice(part);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use tokamak_mercure::Draft;

    use super::*;

    fn update(data: &str) -> Update {
        let topics = vec!["/a".into()];
        Update::new(Draft { topics, data: data.into(), ..Draft::default() }, || "1".into())
    }

    fn gzip() -> Gzip {
        Gzip::new(|_, _| {})
    }

    fn unpacked(stream: &[Bytes]) -> String {
        let mut text = String::new();
        GzDecoder::new(&stream.concat()[..]).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn pieces_make_one_stream_in_any_order() {
        let updates = [update(&"long ".repeat(1000)), update("short"), update(&"x".repeat(200))];
        for order in [[0, 1, 2], [2, 0, 0], [1, 2, 1]] {
            let mut gzip = gzip();
            let mut stream = vec![gzip.begin(b":\n\n")];
            stream.extend(order.map(|index| gzip.update(&updates[index])));
            stream.push(gzip.text(b"retry: 5\n\n"));
            stream.push(gzip.end());
            let texts = order.map(|index| std::str::from_utf8(&updates[index].text).unwrap());
            assert_eq!(unpacked(&stream), format!(":\n\n{}retry: 5\n\n", texts.concat()));
        }
    }

    #[test]
    fn what_is_long_becomes_shorter() {
        let mut gzip = gzip();
        let long = update(&"the same again, ".repeat(100));
        assert!(gzip.update(&long).len() * 10 < long.text.len());
        let short = update("a");
        assert_eq!(gzip.update(&short).len(), short.text.len() + 5);
    }

    proptest! {
        #[test]
        fn every_text_comes_back(texts in prop::collection::vec("[ -~]{0,2000}", 0..5)) {
            let updates: Vec<_> = texts.iter().map(|text| update(text)).collect();
            let mut gzip = gzip();
            let mut stream = vec![gzip.begin(b"")];
            stream.extend(updates.iter().map(|update| gzip.update(update)));
            stream.push(gzip.end());
            let whole: Vec<u8> = updates.iter().flat_map(|it| it.text.to_vec()).collect();
            prop_assert_eq!(unpacked(&stream).into_bytes(), whole);
        }

        #[test]
        fn so_do_bytes_that_do_not_shrink(bytes in prop::collection::vec(any::<u8>(), 0..300_000)) {
            let blocks = deflated(&bytes).unwrap_or_else(|| stored(&bytes));
            let mut stream = HEAD.to_vec();
            stream.extend(&blocks);
            let mut gzip = gzip();
            gzip.sum.update(&bytes);
            stream.extend(gzip.end());
            let mut back = Vec::new();
            GzDecoder::new(&stream[..]).read_to_end(&mut back).unwrap();
            prop_assert!(back == bytes);
        }
    }
}
