//! Entries of streams in replies.

use redis::Value;

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id, as the server writes it.
    pub id: Vec<u8>,
    /// Names and values.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The entries in a reply to `XREAD` of one stream; none if there is nothing new.
pub fn of_streams(reply: Value) -> Vec<StreamEntry> {
    let Value::Array(mut streams) = reply else { return Vec::new() };
    match streams.pop() {
        Some(Value::Array(mut stream)) => stream.pop().map(entries).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The entries in a reply to `XREVRANGE`, the oldest first.
pub fn of_range(reply: Value) -> Vec<StreamEntry> {
    let mut entries = entries(reply);
    entries.reverse();
    entries
}

fn entries(reply: Value) -> Vec<StreamEntry> {
    let Value::Array(entries) = reply else { return Vec::new() };
    entries.into_iter().filter_map(entry).collect()
}

fn entry(value: Value) -> Option<StreamEntry> {
    let Value::Array(pair) = value else { return None };
    let Ok([Value::BulkString(id), Value::Array(fields)]) = <[Value; 2]>::try_from(pair) else {
        return None;
    };
    let mut texts = fields.into_iter().map(|field| match field {
        Value::BulkString(text) => text,
        _ => Vec::new(),
    });
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        pairs.push((name, value));
    }
    Some(StreamEntry { id, fields: pairs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_both_replies() {
        let text = |text: &str| Value::BulkString(text.into());
        let entry = |id: &str| {
            Value::Array(vec![text(id), Value::Array(vec![text("what"), text(id), text("odd")])])
        };
        let read =
            |id: &str| StreamEntry { id: id.into(), fields: vec![(b"what".to_vec(), id.into())] };
        let both = Value::Array(vec![entry("1-0"), entry("2-0")]);
        assert_eq!(of_range(both.clone()), [read("2-0"), read("1-0")]);
        let streams = Value::Array(vec![Value::Array(vec![text("name"), both])]);
        assert_eq!(of_streams(streams), [read("1-0"), read("2-0")]);
        assert_eq!(of_streams(Value::Nil), []);
        assert_eq!(of_range(Value::Array(vec![text("x"), Value::Array(vec![text("y")])])), []);
    }
}
