//! Name-value pairs (§3.4): how environment variables and the answers about a connection are
//! written.
//!
//! ```text
//! name length (1 or 4)   value length (1 or 4)   name   value
//! ```
//!
//! A length up to 127 is one byte; a longer one is four, the first with its top bit set. The long
//! form of a short length is legal.

use crate::Error;

/// Most bytes that the two lengths of a pair take.
const LENGTHS: usize = 8;

/// What a reader of pairs puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all pairs together, with their lengths.
    pub bytes: usize,
    /// Pairs.
    pub pairs: usize,
}

/// Bytes that a pair takes.
pub fn len(name: &[u8], value: &[u8]) -> usize {
    let length = |len: usize| if len < 128 { 1 } else { 4 };
    length(name.len()) + length(value.len()) + name.len() + value.len()
}

/// Writes a pair at the end of `out`. Names and values that do not fit into 31 bits are none of
/// ours: [`encode::Params`] refuses all that fit into no record.
///
/// [`encode::Params`]: crate::encode::Params
pub(crate) fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for text in [name, value] {
        match u8::try_from(text.len()) {
            Ok(len @ ..128) => out.push(len),
            _ => out.extend_from_slice(&(text.len() as u32 | 1 << 31).to_be_bytes()),
        }
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Reads pairs from pieces of any size. A pair that is whole in one piece is not copied.
#[derive(Clone, Debug)]
pub struct Pairs {
    limits: Limits,
    /// Bytes and pairs seen so far.
    seen: Limits,
    /// The beginning of a pair whose rest is still to come.
    begun: Vec<u8>,
}

impl Pairs {
    /// A reader that refuses more than this.
    pub fn new(limits: Limits) -> Pairs {
        Pairs { limits, seen: Limits { bytes: 0, pairs: 0 }, begun: Vec::new() }
    }

    /// Reads one piece; `each` gets the name and the value of every pair that it completes.
    ///
    /// # Errors
    /// More than the limits allow. A pair that only announces so much is refused before it has
    /// come.
    pub fn feed(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        self.seen.bytes = self.seen.bytes.saturating_add(piece.len());
        if self.seen.bytes > self.limits.bytes {
            return Err(Error::TooLong);
        }
        while !self.begun.is_empty() && !piece.is_empty() {
            // At most what is missing, so that the rest of the piece need not be copied.
            let missing = match self.measure(&self.begun)? {
                Some(pair) => pair.end - self.begun.len(),
                None => 1,
            };
            let (more, rest) = piece.split_at(missing.min(piece.len()));
            self.begun.extend_from_slice(more);
            piece = rest;
            if let Some(pair) = self.measure(&self.begun)?
                && pair.end == self.begun.len()
            {
                self.count()?;
                let (name, value) = self.begun[pair.name..].split_at(pair.value - pair.name);
                each(name, value);
                self.begun.clear();
            }
        }
        while let Some(pair) = self.measure(piece)?
            && pair.end <= piece.len()
        {
            self.count()?;
            each(&piece[pair.name..pair.value], &piece[pair.value..pair.end]);
            piece = &piece[pair.end..];
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Fails if the last pair is not complete.
    pub fn finish(&self) -> Result<(), Error> {
        if self.begun.is_empty() { Ok(()) } else { Err(Error::Cut) }
    }

    fn count(&mut self) -> Result<(), Error> {
        self.seen.pairs += 1;
        if self.seen.pairs > self.limits.pairs { Err(Error::TooMany) } else { Ok(()) }
    }

    /// Where the parts of the pair that begins here are, once both lengths are here.
    fn measure(&self, bytes: &[u8]) -> Result<Option<Pair>, Error> {
        let mut at = 0;
        let mut lengths = [0usize; 2];
        for length in &mut lengths {
            *length = match bytes[at..] {
                [short @ ..128, ..] => {
                    at += 1;
                    short.into()
                }
                [a, b, c, d, ..] => {
                    at += 4;
                    (u32::from_be_bytes([a, b, c, d]) & !(1 << 31)) as usize
                }
                _ => return Ok(None),
            };
        }
        // Each has 31 bits, so their sum fits where `usize` has 32 too, but for the lengths' own
        // bytes.
        let [name, value] = lengths;
        let content = name.checked_add(value).filter(|sum| *sum <= usize::MAX - LENGTHS);
        match content.filter(|sum| *sum <= self.limits.bytes) {
            Some(content) => Ok(Some(Pair { name: at, value: at + name, end: at + content })),
            None => Err(Error::TooLong),
        }
    }
}

/// Offsets of a pair's parts.
struct Pair {
    name: usize,
    value: usize,
    end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 1000, pairs: 3 };

    type Pair = (Vec<u8>, Vec<u8>);

    fn read(bytes: &[u8]) -> Result<Vec<Pair>, Error> {
        let mut pairs = Pairs::new(LIMITS);
        let mut found = Vec::new();
        pairs.feed(bytes, |name, value| found.push((name.to_vec(), value.to_vec())))?;
        pairs.finish()?;
        Ok(found)
    }

    #[test]
    fn both_forms_of_a_length_are_read() {
        let pair = vec![(b"ab".to_vec(), b"c".to_vec())];
        assert_eq!(read(b"\x02\x01abc"), Ok(pair.clone()));
        assert_eq!(read(b"\x80\0\0\x02\x01abc"), Ok(pair.clone()));
        assert_eq!(read(b"\x02\x80\0\0\x01abc"), Ok(pair));
        assert_eq!(read(b"\0\0"), Ok(vec![(vec![], vec![])]));
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert_eq!(read(b"\x02\x01ab"), Err(Error::Cut));
        assert_eq!(read(b"\x02"), Err(Error::Cut));
        assert_eq!(read(b"\x80\0"), Err(Error::Cut));
        // The sum passes 32 bits: CVE-2025-23016.
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xffab"), Err(Error::TooLong));
        assert_eq!(read(b"\x01\x80\0\x04\x00a"), Err(Error::TooLong));
    }

    #[test]
    fn pairs_without_an_end_are_refused() {
        assert_eq!(read(&[0; 8]), Err(Error::TooMany));
        let mut pairs = Pairs::new(Limits { pairs: usize::MAX, ..LIMITS });
        let fed: Vec<_> = (0..20).map(|_| pairs.feed(&[0; 100], |_, _| {})).collect();
        assert_eq!(fed.iter().position(|result| *result == Err(Error::TooLong)), Some(10));
    }
}
