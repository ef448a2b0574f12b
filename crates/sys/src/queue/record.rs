//! The request as the worker gets it, each text length-prefixed and NUL-terminated, so that C can
//! point into it.
//!
//! A request that came over HTTP is written as fixed fields and headers. One that came over FastCGI
//! is its parameters, as they were sent: what they mean is found out by the worker, which sees the
//! files with the rights of its pool.
//!
//! ```text
//! record = 0 (4)  text × number of fields  pairs       fields and headers
//!        | 1 (4)  pairs                                parameters
//! pairs  = count (4)  { name text   value text } …
//! text   = length (4, little endian)  bytes  NUL
//! ```

macro_rules! fields {
    ($($name:ident $variable:literal $what:literal,)*) => {
        /// A field of a request; what is unknown is empty.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $what] $name,)*
        }

        impl Field {
            /// Every field, in the order in which they stand in a record.
            pub const ALL: &[Field] = &[$(Field::$name,)*];

            /// Its name as a variable of CGI and as a parameter of FastCGI.
            pub const fn variable(self) -> &'static str {
                match self {
                    $(Field::$name => $variable,)*
                }
            }
        }
    };
}

fields! {
    Method "REQUEST_METHOD" "The method, as sent.",
    Uri "REQUEST_URI" "The request target, as sent: path and query, not decoded.",
    Query "QUERY_STRING" "What follows the first `?` of the target, without it.",
    ScriptFilename "SCRIPT_FILENAME" "The script's file, absolute.",
    ScriptName "SCRIPT_NAME" "The script's path as URL, decoded.",
    PathInfo "PATH_INFO" "The decoded path behind the script's name.",
    DocumentRoot "DOCUMENT_ROOT" "The site's root.",
    DocumentUri "DOCUMENT_URI" "The decoded path that was found, with the path info.",
    ServerName "SERVER_NAME" "The site's name, as the client called it or as configured.",
    ServerAddr "SERVER_ADDR" "The address on which the connection came in.",
    ServerPort "SERVER_PORT" "Its port.",
    RemoteAddr "REMOTE_ADDR" "The client's address.",
    RemotePort "REMOTE_PORT" "Its port.",
    Protocol "SERVER_PROTOCOL" "`HTTP/1.0` or `HTTP/1.1`.",
    Scheme "REQUEST_SCHEME" "`http` or `https`.",
    ContentType "CONTENT_TYPE" "The request's media type.",
    ContentLength "CONTENT_LENGTH" "Bytes of the body in decimal; empty without a body.",
}

/// What a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// Fields and headers say what is asked.
    Http,
    /// The parameters say it.
    FastCgi,
}

/// What the name of a variable among the headers begins with.
const VARIABLE: u8 = b'=';

impl Origin {
    /// What the request of this record came over; `None` if it is no record.
    pub fn of(record: &[u8]) -> Option<Origin> {
        match split_number(record)?.0 {
            0 => Some(Origin::Http),
            1 => Some(Origin::FastCgi),
            _ => None,
        }
    }
}

/// Builds a record: every field in order, then the headers and variables; or the parameters alone.
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
        if self.next == 0 {
            self.number(Origin::Http as u32);
        }
        self.next += 1;
        self.text(value);
        if self.next == Field::ALL.len() {
            self.begin_pairs();
        }
        self
    }

    /// Writes the next fields, as [`Writer::field`] does.
    ///
    /// # Panics
    /// If the first of them is not the next one of [`Field::ALL`].
    pub fn fields(&mut self, fields: &Fields) -> &mut Self {
        assert_eq!(fields.first, self.next, "fields are written in order");
        self.bytes.extend_from_slice(&fields.writer.bytes);
        self.next = fields.writer.next;
        self
    }

    /// Writes a header, after all fields.
    ///
    /// # Panics
    /// If a field is missing.
    pub fn header(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        assert_eq!(self.next, Field::ALL.len(), "headers follow the fields");
        self.pair(name, value);
        self
    }

    /// Writes a variable, after all headers. Its name cannot be taken for a header's, which has no
    /// `VARIABLE` in it.
    ///
    /// # Panics
    /// If a field is missing.
    pub fn variable(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        assert_eq!(self.next, Field::ALL.len(), "variables follow the fields");
        self.pair(&[&[VARIABLE], name].concat(), value);
        self
    }

    /// Begins the record of a request that came over FastCGI; its parameters follow.
    ///
    /// # Panics
    /// If something was written.
    pub fn begin_parameters(&mut self) -> &mut Self {
        assert!(self.bytes.is_empty(), "a record has fields or parameters");
        self.number(Origin::FastCgi as u32);
        self.begin_pairs();
        self
    }

    /// Writes a parameter.
    ///
    /// # Panics
    /// If they were not begun.
    pub fn parameter(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        assert!(self.next == 0 && self.count_at > 0, "parameters follow their beginning");
        self.pair(name, value);
        self
    }

    /// The record.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn begin_pairs(&mut self) {
        self.count_at = self.bytes.len();
        self.number(0);
    }

    fn pair(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(value);
        self.count += 1;
        let count = self.count.to_le_bytes();
        self.bytes[self.count_at..self.count_at + 4].copy_from_slice(&count);
    }

    fn number(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, value: &[u8]) {
        self.number(value.len() as u32);
        self.bytes.extend_from_slice(value);
        self.bytes.push(0);
    }
}

/// Fields that follow one another, written once for several records: neither the first nor the last
/// of [`Field::ALL`].
#[derive(Debug)]
pub struct Fields {
    first: usize,
    writer: Writer,
}

impl Fields {
    /// None yet; this one comes first.
    pub fn from(first: Field) -> Fields {
        let first = first as usize;
        Fields { first, writer: Writer { next: first, ..Writer::default() } }
    }

    /// Writes the next field, as [`Writer::field`] does.
    pub fn field(&mut self, field: Field, value: &[u8]) -> &mut Self {
        self.writer.field(field, value);
        self
    }
}

/// Reads a record in place.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    origin: Origin,
    fields: [&'a [u8]; Field::ALL.len()],
    pairs: &'a [u8],
    count: u32,
}

impl<'a> Reader<'a> {
    /// `None` if the bytes are no record.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let origin = Origin::of(bytes)?;
        let (_, mut rest) = split_number(bytes)?;
        let mut fields: [&[u8]; Field::ALL.len()] = [b""; Field::ALL.len()];
        if origin == Origin::Http {
            for field in &mut fields {
                (*field, rest) = split_text(rest)?;
            }
        }
        let (count, pairs) = split_number(rest)?;
        Some(Reader { origin, fields, pairs, count })
    }

    /// What the request came over.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// A field without its NUL; in memory the NUL follows. Over FastCGI all are empty.
    pub fn field(&self, field: Field) -> &'a [u8] {
        self.fields[field as usize]
    }

    /// The name of a variable, if a pair is one and not a header.
    pub fn variable_name(name: &[u8]) -> Option<&[u8]> {
        name.split_first().filter(|(first, _)| **first == VARIABLE).map(|(_, name)| name)
    }

    /// Headers and [variables](Reader::variable_name), or over FastCGI the parameters: in the order
    /// in which they came, names as sent. A NUL follows each text in memory.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.pairs;
        (0..self.count).map_while(move |_| {
            let (name, tail) = split_text(rest)?;
            let (value, tail) = split_text(tail)?;
            rest = tail;
            Some((name, value))
        })
    }
}

/// The name of the trace that a request belongs to, from its headers or parameters; none if they
/// name none as W3C Trace Context has it. A client may have sent it.
pub fn trace<'a>(mut pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<&'a [u8]> {
    let is_it =
        |name: &[u8]| name == b"HTTP_TRACEPARENT" || name.eq_ignore_ascii_case(b"traceparent");
    let (_, traceparent) = pairs.find(|(name, _)| is_it(name))?;
    let (trace, rest) = traceparent.get(3..)?.split_at_checked(32)?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (rest.first() == Some(&b'-') && trace.iter().all(is_digit)).then_some(trace)
}

/// Method and target of a record, of which the end may be missing: what is not there is empty.
pub(super) fn target(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (mut method, mut uri): (&[u8], &[u8]) = (b"", b"");
    match Origin::of(bytes) {
        Some(Origin::Http) => {
            let mut rest = &bytes[4..];
            for field in [&mut method, &mut uri] {
                (*field, rest) = split_text_cut(rest);
            }
        }
        Some(Origin::FastCgi) => {
            let mut rest = bytes.get(8..).unwrap_or_default();
            while !rest.is_empty() && (method.is_empty() || uri.is_empty()) {
                let (name, tail) = split_text_cut(rest);
                let (value, tail) = split_text_cut(tail);
                rest = tail;
                match name {
                    b"REQUEST_METHOD" => method = value,
                    b"REQUEST_URI" => uri = value,
                    _ => {}
                }
            }
        }
        None => {}
    }
    (method, uri)
}

/// A text of which the end may be missing.
fn split_text_cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = split_number(bytes) else { return (b"", b"") };
    let (text, rest) = rest.split_at(rest.len().min(len as usize));
    (text, rest.get(1..).unwrap_or_default())
}

fn split_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_at_checked(4)?;
    Some((u32::from_le_bytes(number.try_into().ok()?), rest))
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = split_number(bytes)?;
    let (text, rest) = rest.split_at_checked(len as usize)?;
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
            w.header(b"Host", b"example.org").header(b"X-Empty", b"").variable(b"A", b"b");
        }
        let r = Reader::new(w.bytes()).unwrap();
        assert_eq!(r.field(Field::ScriptName), b"ScriptName");
        assert_eq!(r.field(Field::ContentLength), b"ContentLength");
        let headers: Vec<_> = r.pairs().collect();
        assert_eq!(
            headers,
            [(&b"Host"[..], &b"example.org"[..]), (b"X-Empty", b""), (b"=A", b"b")]
        );
        let names = headers.iter().map(|(name, _)| Reader::variable_name(name));
        assert_eq!(names.collect::<Vec<_>>(), [None, None, Some(&b"A"[..])]);
        assert_eq!(r.origin(), Origin::Http);
    }

    #[test]
    fn fields_can_be_written_before() {
        let text = |f: Field| format!("{f:?}").into_bytes();
        let (mut whole, mut made) = (Writer::new(), Writer::new());
        Field::ALL.iter().for_each(|f| _ = whole.field(*f, &text(*f)));
        let mut before = Fields::from(Field::ALL[5]);
        Field::ALL[5..9].iter().for_each(|f| _ = before.field(*f, &text(*f)));
        Field::ALL[..5].iter().for_each(|f| _ = made.field(*f, &text(*f)));
        made.fields(&before);
        Field::ALL[9..].iter().for_each(|f| _ = made.field(*f, &text(*f)));
        assert_eq!(whole.bytes(), made.bytes());
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn fields_stay_in_order() {
        Writer::new().fields(&Fields::from(Field::ServerAddr));
    }

    #[test]
    fn a_request_over_fastcgi_may_have_no_parameters() {
        let mut w = Writer::new();
        w.begin_parameters();
        let r = Reader::new(w.bytes()).unwrap();
        assert_eq!((r.origin(), r.pairs().count()), (Origin::FastCgi, 0));
        assert!(Field::ALL.iter().all(|field| r.field(*field).is_empty()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(bytes in proptest::collection::vec(0u8..3, 0..400)) {
            if let Some(r) = Reader::new(&bytes) {
                let _ = r.pairs().count();
            }
        }

        #[test]
        fn parameters_come_as_they_were_sent(
            sent in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..20),
        ) {
            let mut w = Writer::new();
            w.begin_parameters();
            for (name, value) in &sent {
                w.parameter(name, value);
            }
            let r = Reader::new(w.bytes()).unwrap();
            let came: Vec<_> = r.pairs().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(came, sent);
        }
    }
}
