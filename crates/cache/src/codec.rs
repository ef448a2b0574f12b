//! The encoding of numbers and byte strings in stored responses.

use bytes::Bytes;

/// Appends numbers and byte strings.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what a [`Writer`] has written.
pub(crate) struct Reader(pub Bytes);

impl Reader {
    pub fn byte(&mut self) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.0.split_to(1)[0])
    }

    pub fn number(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_be_bytes(bytes[..].try_into().ok()?))
    }

    /// A number of items that follow. Each takes at least eight bytes, so a larger number is
    /// invalid.
    pub fn count(&mut self) -> Option<u64> {
        self.number().filter(|count| *count <= self.0.len() as u64 / 8)
    }

    pub fn bytes(&mut self) -> Option<Bytes> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn take(&mut self, length: usize) -> Option<Bytes> {
        (self.0.len() >= length).then(|| self.0.split_to(length))
    }
}
