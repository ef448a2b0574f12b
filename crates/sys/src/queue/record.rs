//! The request as the worker gets it: fixed fields, then the headers, each length-prefixed and
//! NUL-terminated, so that C can point into it.
//!
//! ```text
//! record = text × number of fields   header count (4)   { name text   value text } …
//! text   = length (4, little endian)  bytes  NUL
//! ```

macro_rules! fields {
    ($($name:ident $what:literal,)*) => {
        /// A field of a request; what is unknown is empty.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $what] $name,)*
        }

        impl Field {
            /// Every field, in the order in which they stand in a record.
            pub const ALL: &[Field] = &[$(Field::$name,)*];
        }
    };
}

fields! {
    Method "The method, as sent.",
    Uri "The request target, as sent: path and query, not decoded.",
    Query "What follows the first `?` of the target, without it.",
    ScriptFilename "The script's file, absolute.",
    ScriptName "The script's path as URL, decoded.",
    PathInfo "The decoded path behind the script's name.",
    DocumentRoot "The site's root.",
    DocumentUri "The decoded path that was found, with the path info.",
    ServerName "The site's name, as the client called it or as configured.",
    ServerAddr "The address on which the connection came in.",
    ServerPort "Its port.",
    RemoteAddr "The client's address.",
    RemotePort "Its port.",
    Protocol "`HTTP/1.0` or `HTTP/1.1`.",
    Scheme "`http` or `https`.",
    ContentType "The request's media type.",
    ContentLength "Bytes of the body in decimal; empty without a body.",
}

/// Builds a record: every field in order, then the headers.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    next: usize,
    count_at: usize,
    count: u32,
}

impl Writer {
    /// An empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.next, self.count_at, self.count) = (0, 0, 0);
    }

    /// Writes the next field.
    ///
    /// # Panics
    /// If `field` is not the next one of [`Field::ALL`]: a mistake of the caller.
    pub fn field(&mut self, field: Field, value: &[u8]) -> &mut Self {
        assert_eq!(field as usize, self.next, "fields are written in order");
        self.next += 1;
        self.text(value);
        if self.next == Field::ALL.len() {
            self.count_at = self.bytes.len();
            self.bytes.extend_from_slice(&[0; 4]);
        }
        self
    }

    /// Writes a header, after all fields.
    ///
    /// # Panics
    /// If a field is missing.
    pub fn header(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        assert_eq!(self.next, Field::ALL.len(), "headers follow the fields");
        self.text(name);
        self.text(value);
        self.count += 1;
        let count = self.count.to_le_bytes();
        self.bytes[self.count_at..self.count_at + 4].copy_from_slice(&count);
        self
    }

    /// The record.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn text(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.push(0);
    }
}

/// Reads a record in place.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    fields: [&'a [u8]; Field::ALL.len()],
    headers: &'a [u8],
    count: u32,
}

impl<'a> Reader<'a> {
    /// `None` if the bytes are no record.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut fields: [&[u8]; Field::ALL.len()] = [b""; Field::ALL.len()];
        for field in &mut fields {
            (*field, rest) = split_text(rest)?;
        }
        let (count, headers) = rest.split_at_checked(4)?;
        Some(Reader { fields, headers, count: u32::from_le_bytes(count.try_into().ok()?) })
    }

    /// A field without its NUL; in memory the NUL follows.
    pub fn field(&self, field: Field) -> &'a [u8] {
        self.fields[field as usize]
    }

    /// Headers in the order in which they came, names as sent; a NUL follows each text in memory.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.headers;
        (0..self.count).map_while(move |_| {
            let (name, tail) = split_text(rest)?;
            let (value, tail) = split_text(tail)?;
            rest = tail;
            Some((name, value))
        })
    }
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_at_checked(4)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(len.try_into().ok()?) as usize)?;
    let (nul, rest) = rest.split_at_checked(1)?;
    (nul == [0]).then_some((text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_trip() {
        let mut w = Writer::new();
        for _ in 0..2 {
            w.clear();
            for f in Field::ALL {
                w.field(*f, format!("{f:?}").as_bytes());
            }
            w.header(b"Host", b"example.org").header(b"X-Empty", b"");
        }
        let r = Reader::new(w.bytes()).unwrap();
        assert_eq!(r.field(Field::ScriptName), b"ScriptName");
        assert_eq!(r.field(Field::ContentLength), b"ContentLength");
        let headers: Vec<_> = r.headers().collect();
        assert_eq!(headers, [(&b"Host"[..], &b"example.org"[..]), (b"X-Empty", b"")]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(bytes in proptest::collection::vec(0u8..3, 0..400)) {
            if let Some(r) = Reader::new(&bytes) {
                let _ = r.headers().count();
            }
        }
    }
}
