//! The bytes of a message.

use super::BadMessage;

/// First byte of every message: the two programs must come from the same build of this file.
pub(super) const VERSION: u8 = 3;

/// Little-endian numbers; a text is its length (`u32`) and its bytes.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(tag: u8) -> Writer {
        Writer(vec![VERSION, tag])
    }

    pub(super) fn u8(mut self, value: u8) -> Writer {
        self.0.push(value);
        self
    }

    pub(super) fn u16(mut self, value: u16) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn text(self, text: &str) -> Writer {
        self.bytes(text.as_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Writer {
        self = self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self
    }

    pub(super) fn end(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] wrote, from bytes that anybody may have written.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<(u8, Reader<'a>), BadMessage> {
        match bytes {
            [VERSION, tag, rest @ ..] => Ok((*tag, Reader(rest))),
            [_, _, ..] => Err(BadMessage("another version")),
            _ => Err(BadMessage("too short")),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BadMessage> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(BadMessage("too short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (head, rest) = self.0.split_first_chunk().ok_or(BadMessage("too short"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, BadMessage> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, BadMessage> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, BadMessage> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, BadMessage> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn instance(&mut self) -> Result<u32, BadMessage> {
        match self.u32()? {
            0 => Err(BadMessage("instance 0")),
            instance => Ok(instance),
        }
    }

    pub(super) fn flag(&mut self) -> Result<bool, BadMessage> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadMessage("not a flag")),
        }
    }

    pub(super) fn text(&mut self, most: usize) -> Result<String, BadMessage> {
        let text = std::str::from_utf8(self.bytes(most)?).map_err(|_| BadMessage("not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(super) fn bytes(&mut self, most: usize) -> Result<&'a [u8], BadMessage> {
        let length = self.u32()? as usize;
        if length > most {
            return Err(BadMessage("text too long"));
        }
        self.take(length)
    }

    pub(super) fn end<M>(self, message: M) -> Result<M, BadMessage> {
        if self.0.is_empty() { Ok(message) } else { Err(BadMessage("trailing bytes")) }
    }
}
