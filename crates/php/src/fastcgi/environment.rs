//! A request's parameters: looked up by name, changed and removed, in memory that is kept from
//! request to request.
//!
//! As in php-fpm, a parameter that comes twice has the last value at the first one's place, and
//! scripts see them in the reverse order.

use std::ops::Range;

use tokamak_sys::queue::record::{Origin, Reader};

/// Where a text stands in the environment's memory; a NUL follows it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    at: u32,
    len: u32,
}

impl Span {
    /// The last `len` bytes.
    pub fn tail(self, len: usize) -> Span {
        let len = (len as u32).min(self.len);
        Span { at: self.at + self.len - len, len }
    }

    /// Bytes in it.
    pub fn len(self) -> usize {
        self.len as usize
    }

    fn range(self) -> Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }
}

/// Lists by the hash of a name; a power of two, chosen for the forty or so parameters of a web
/// server.
const LISTS: usize = 64;
const NONE: u32 = u32::MAX;

struct Entry {
    name: Span,
    /// [`None`]: removed.
    value: Option<Span>,
    /// The next entry of the same list.
    next: u32,
}

/// The parameters of one request.
pub struct Environment {
    /// The record, and behind it what was derived from it.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    lists: [u32; LISTS],
}

impl Environment {
    /// Nothing.
    pub fn new() -> Environment {
        Environment { bytes: Vec::new(), entries: Vec::new(), lists: [NONE; LISTS] }
    }

    /// Takes a record over; false: it is no record of a request over FastCGI.
    pub fn take(&mut self, record: &[u8]) -> bool {
        self.bytes.clear();
        self.bytes.extend_from_slice(record);
        self.entries.clear();
        self.lists.fill(NONE);
        let Some(reader) = Reader::new(record).filter(|reader| reader.origin() == Origin::FastCgi)
        else {
            return false;
        };
        // The copy has everything where the record has it.
        let span = |text: &[u8]| Span {
            at: (text.as_ptr().addr() - record.as_ptr().addr()) as u32,
            len: text.len() as u32,
        };
        // Put first, thus the last that scripts see. The front may have recorded another role for
        // the request.
        let (role, responder) = (self.keep(&[b"FCGI_ROLE"]), self.keep(&[b"RESPONDER"]));
        self.put(role, Some(responder));
        for (name, value) in reader.pairs() {
            // Libraries would take the client's `Proxy` header for a setting of their own
            // (CVE-2016-5385).
            if !name.is_empty() && !name.eq_ignore_ascii_case(b"HTTP_PROXY") {
                self.put(span(name), Some(span(value)));
            }
        }
        true
    }

    /// The bytes of a text.
    pub fn text(&self, span: Span) -> &[u8] {
        &self.bytes[span.range()]
    }

    /// Where a parameter's value stands.
    pub fn get(&self, name: &[u8]) -> Option<Span> {
        self.find(name).and_then(|n| self.entries[n].value)
    }

    /// The value of a parameter; empty without one.
    pub fn value(&self, name: &[u8]) -> &[u8] {
        self.get(name).map_or(b"", |span| self.text(span))
    }

    /// Gives a parameter a value, or removes it.
    pub fn set(&mut self, name: &[u8], value: Option<Span>) {
        match self.find(name) {
            Some(n) => self.entries[n].value = value,
            None if value.is_none() => {}
            None => {
                let name = self.keep(&[name]);
                self.put(name, value);
            }
        }
    }

    /// Keeps a text that is made of these pieces.
    pub fn keep(&mut self, pieces: &[&[u8]]) -> Span {
        let at = self.bytes.len();
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.end_text(at)
    }

    /// Keeps the first `len` bytes of one text and all of another as one.
    pub fn join(&mut self, first: Span, len: usize, second: Option<Span>) -> Span {
        let at = self.bytes.len();
        let first = first.range();
        self.bytes.extend_from_within(first.start..(first.start + len).min(first.end));
        if let Some(second) = second {
            self.bytes.extend_from_within(second.range());
        }
        self.end_text(at)
    }

    /// Keeps the first `len` bytes of a text as one.
    pub fn head(&mut self, of: Span, len: usize) -> Span {
        self.join(of, len, None)
    }

    /// Names and values as a script is to see them, in php-fpm's order.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let visible = self.entries.iter().rev();
        visible.filter_map(|entry| Some((self.text(entry.name), self.text(entry.value?))))
    }

    fn end_text(&mut self, at: usize) -> Span {
        let len = (self.bytes.len() - at) as u32;
        self.bytes.push(0);
        Span { at: at as u32, len }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let mut at = self.lists[list(name)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if self.text(entry.name) == name {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    fn put(&mut self, name: Span, value: Option<Span>) {
        let text = &self.bytes[name.range()];
        if let Some(n) = self.find(text) {
            self.entries[n].value = value;
            return;
        }
        let list = list(text);
        self.entries.push(Entry { name, value, next: self.lists[list] });
        self.lists[list] = (self.entries.len() - 1) as u32;
    }
}

/// Length, middle and end distinguish names whose beginning is `HTTP_` or `SERVER_`.
fn list(name: &[u8]) -> usize {
    let byte = |back: usize| name.len().checked_sub(back).map_or(0, |at| usize::from(name[at]));
    (name.len() * 7 + byte(1) + byte(3) * 5 + byte(6) * 3) % LISTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokamak_sys::queue::record::Writer;

    use super::*;

    fn environment(pairs: &[(&[u8], &[u8])]) -> Environment {
        let mut writer = Writer::new();
        writer.begin_parameters();
        for (name, value) in pairs {
            writer.parameter(name, value);
        }
        let mut environment = Environment::new();
        assert!(environment.take(writer.bytes()));
        environment
    }

    #[test]
    fn the_last_value_stands_at_the_first_place_and_the_order_is_reversed() {
        let mut e = environment(&[(b"A", b"1"), (b"B", b"2"), (b"A", b"3"), (b"C", b"")]);
        let seen: Vec<_> = e.pairs().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"C", b""), (b"B", b"2"), (b"A", b"3"), (b"FCGI_ROLE", b"RESPONDER")];
        assert!(seen.iter().map(|(n, v)| (&n[..], &v[..])).eq(expected));
        e.set(b"B", None);
        e.set(b"NEW", e.get(b"A"));
        e.set(b"NEVER", None);
        let names: Vec<_> = e.pairs().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [&b"NEW"[..], b"C", b"A", b"FCGI_ROLE"]);
        assert_eq!((e.value(b"NEW"), e.get(b"B"), e.value(b"B")), (&b"3"[..], None, &b""[..]));
    }

    #[test]
    fn the_clients_proxy_is_nobodys_setting() {
        let e = environment(&[
            (b"HTTP_PROXY", b"evil"),
            (b"http_proxy", b"evil"),
            (b"HTTP_PROX", b"kept"),
        ]);
        assert!(e.pairs().map(|(name, _)| name).eq([&b"HTTP_PROX"[..], b"FCGI_ROLE"]));
    }

    #[test]
    fn texts_are_cut_and_joined() {
        let mut e = environment(&[(b"A", b"/docroot/"), (b"B", b"/info")]);
        let (a, b) = (e.get(b"A").unwrap(), e.get(b"B").unwrap());
        let joined = e.join(a, 8, Some(b));
        assert_eq!(e.text(joined), b"/docroot/info");
        assert_eq!(e.text(joined.tail(5)), b"/info");
        assert_eq!(joined.tail(99), joined);
        let head = e.head(joined, 4);
        assert_eq!(e.text(head), b"/doc");
        assert_eq!(e.bytes[e.bytes.len() - 1], 0);
    }

    proptest! {
        #[test]
        fn it_is_a_map_with_an_order(
            pairs in proptest::collection::vec(("[A-D]{1,2}", "[a-z]{0,3}"), 0..200),
        ) {
            let sent: Vec<(&[u8], &[u8])> =
                pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
            let e = environment(&sent);
            let mut expected: Vec<(&[u8], &[u8])> = vec![(b"FCGI_ROLE", b"RESPONDER")];
            for (name, value) in &sent {
                match expected.iter_mut().find(|(known, _)| known == name) {
                    Some(known) => known.1 = value,
                    None => expected.push((name, value)),
                }
            }
            prop_assert!(e.pairs().eq(expected.iter().rev().copied()));
            for (name, value) in expected {
                prop_assert_eq!(e.value(name), value);
            }
        }
    }
}
