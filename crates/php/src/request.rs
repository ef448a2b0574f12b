//! A request in the worker's own memory, in the shape that C reads.
//!
//! The record is copied out of the slot once: after `fastcgi_finish_request` the slot is somebody else's
//! while the script still reads `$_SERVER`. The memory is kept from request to request.

use std::ptr::null;

use tokamak_sys::queue::record::{Field, Reader};

use crate::ffi;

/// The current request, or the last one.
pub struct Request {
    record: Vec<u8>,
    headers: Vec<ffi::Pair>,
    shim: ffi::Request,
}

impl Request {
    /// Nothing yet.
    pub fn new() -> Request {
        let nothing = ffi::Text { at: c"".as_ptr(), len: 0 };
        let fields = [nothing; Field::ALL.len()];
        let shim = ffi::Request { fields, headers: null(), header_count: 0, body_len: 0 };
        Request { record: Vec::new(), headers: Vec::new(), shim }
    }

    /// Takes a record over; false: it is none.
    pub fn take(&mut self, record: &[u8], body_len: u64) -> bool {
        self.record.clear();
        self.record.extend_from_slice(record);
        self.headers.clear();
        let Some(reader) = Reader::new(&self.record) else { return false };
        for (place, field) in self.shim.fields.iter_mut().zip(Field::ALL) {
            *place = text(reader.field(*field));
        }
        self.headers.extend(reader.pairs().map(|(n, v)| ffi::Pair { name: text(n), value: text(v) }));
        self.shim.headers = self.headers.as_ptr();
        self.shim.header_count = self.headers.len();
        self.shim.body_len = body_len;
        true
    }

    /// For C; valid until the next [`Request::take`].
    pub fn shim(&self) -> *const ffi::Request {
        &raw const self.shim
    }

    /// A field of the request; empty before the first one.
    pub fn field(&self, field: Field) -> &[u8] {
        let text = self.shim.fields[field as usize];
        // SAFETY: points into `record`, or to the static empty text; both live as long as `self`, and `record`
        // is changed by `take` only, which sets the fields anew.
        unsafe { std::slice::from_raw_parts(text.at.cast(), text.len) }
    }
}

/// The reader has checked that a NUL follows.
fn text(bytes: &[u8]) -> ffi::Text {
    ffi::Text { at: bytes.as_ptr().cast(), len: bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokamak_sys::queue::record::Writer;

    #[test]
    fn a_record_is_taken_over() {
        let mut writer = Writer::new();
        for field in Field::ALL {
            writer.field(*field, format!("{field:?}").as_bytes());
        }
        writer.header(b"Host", b"a").header(b"X", b"");
        let mut request = Request::new();
        assert_eq!(request.field(Field::Uri), b"");
        assert!(request.take(writer.bytes(), 7));
        assert_eq!(request.field(Field::Uri), b"Uri");
        assert_eq!((request.shim.header_count, request.shim.body_len), (2, 7));
        assert!(!request.take(b"nonsense", 0));
    }
}
