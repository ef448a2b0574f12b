//! An update, and the text of its event.

use std::fmt::Write;
use std::sync::OnceLock;

use bytes::Bytes;

/// What an update is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Its topics; one at least.
    pub topics: Vec<String>,
    /// What subscribers get.
    pub data: String,
    /// Whether only subscribers get it that are authorised for one of its topics.
    pub is_private: bool,
    /// Its name; absent: the hub names it.
    pub id: Option<String>,
    /// The type of the event.
    pub kind: Option<String>,
    /// After how many milliseconds clients that lose their connection come back.
    pub retry: Option<u64>,
}

/// An update as the hub keeps it and sends it.
#[derive(Debug, PartialEq, Eq)]
pub struct Update {
    /// Its name.
    pub id: String,
    /// Its topics.
    pub topics: Vec<String>,
    /// Whether only subscribers get it that are authorised for one of its topics.
    pub is_private: bool,
    /// The event, as subscribers get it.
    pub text: Bytes,
    /// The same, compressed.
    packed: OnceLock<Bytes>,
}

impl Update {
    /// The update of this draft, with the name `id` if it has none.
    pub fn new(draft: Draft, id: impl FnOnce() -> String) -> Update {
        let Draft { topics, data, is_private, id: own, kind, retry } = draft;
        let id = own.unwrap_or_else(id);
        let text = event(&id, &data, kind.as_deref(), retry).into();
        Update { id, topics, is_private, text, packed: OnceLock::new() }
    }

    /// The event as `pack` compresses it, which is asked once for all subscribers.
    pub fn packed(&self, pack: impl FnOnce(&[u8]) -> Bytes) -> &Bytes {
        self.packed.get_or_init(|| pack(&self.text))
    }

    /// Bytes that it takes in memory, where nobody gets it compressed: then it takes up to twice as
    /// many.
    pub fn weight(&self) -> usize {
        /// What is beside the texts: lengths, counts, allocator.
        const REST: usize = 200;
        let topics = self.topics.iter().map(|topic| topic.len() + size_of::<String>());
        self.text.len() + self.id.len() + topics.sum::<usize>() + REST
    }
}

/// The text of an event, as the HTML standard has it. Line ends of data begin a new field; in the
/// other values there are none.
fn event(id: &str, data: &str, kind: Option<&str>, retry: Option<u64>) -> String {
    let mut text = String::with_capacity(data.len() + id.len() + 64);
    if let Some(kind) = kind {
        let _ = writeln!(text, "event: {kind}");
    }
    if let Some(retry) = retry {
        let _ = writeln!(text, "retry: {retry}");
    }
    let _ = writeln!(text, "id: {id}");
    let mut rest = data;
    loop {
        let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let _ = writeln!(text, "data: {}", &rest[..end]);
        if end == rest.len() {
            break;
        }
        let both = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + both..];
    }
    text.push('\n');
    text
}

/// The name of an update from random bytes: a UUID of version 4 as a URN.
pub fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut text = String::from("urn:uuid:");
    for (index, byte) in random.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_field_for_each_line_of_data() {
        for (data, lines) in [
            ("", "data: \n"),
            ("one", "data: one\n"),
            ("one\ntwo", "data: one\ndata: two\n"),
            ("one\r\ntwo\rthree", "data: one\ndata: two\ndata: three\n"),
            ("one\n", "data: one\ndata: \n"),
            ("a\nid: forged\n\nevent: x", "data: a\ndata: id: forged\ndata: \ndata: event: x\n"),
        ] {
            assert_eq!(event("1", data, None, None), format!("id: 1\n{lines}\n"), "{data:?}");
        }
        let all = event("1", "x", Some("message"), Some(500));
        assert_eq!(all, "event: message\nretry: 500\nid: 1\ndata: x\n\n");
    }

    #[test]
    fn a_name_is_a_uuid() {
        assert_eq!(uuid([0xff; 16]), "urn:uuid:ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "urn:uuid:00000000-0000-4000-8000-000000000000");
    }
}
