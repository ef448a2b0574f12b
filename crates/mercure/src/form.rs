//! Names and values as forms send them (`application/x-www-form-urlencoded`): bodies of
//! publishers, and queries of subscribers.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// A name or a value is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or a value is not UTF-8")
    }
}

/// A name and its value.
pub type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The names and values of a form, decoded.
///
/// # Errors
/// Fails if one of them is not UTF-8.
pub fn pairs(form: &[u8]) -> Result<Vec<Pair<'_>>, Malformed> {
    let parts = form.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let equals = part.iter().position(|byte| *byte == b'=');
            let (name, value) = part.split_at(equals.unwrap_or(part.len()));
            Ok((decoded(name)?, decoded(value.get(1..).unwrap_or_default())?))
        })
        .collect()
}

fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    if !bytes.contains(&b'+') {
        return percent_decode(bytes).decode_utf8().map_err(|_| Malformed);
    }
    let spaced: Vec<u8> = bytes.iter().map(|&it| if it == b'+' { b' ' } else { it }).collect();
    let text = percent_decode(&spaced).decode_utf8().map_err(|_| Malformed)?;
    Ok(Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read() {
        for (form, expected) in [
            ("", &[][..]),
            ("a=1&b=2", &[("a", "1"), ("b", "2")]),
            ("a=1&&a=2&", &[("a", "1"), ("a", "2")]),
            ("a", &[("a", "")]),
            ("=b", &[("", "b")]),
            ("a=b=c", &[("a", "b=c")]),
            ("data=the+content%2B%0A%C3%A4", &[("data", "the content+\nä")]),
            ("a=%zz%", &[("a", "%zz%")]),
        ] {
            let read = pairs(form.as_bytes()).unwrap();
            let read: Vec<_> = read.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(read, expected, "{form}");
        }
        assert_eq!(pairs(b"a=%FF"), Err(Malformed));
        assert_eq!(pairs(b"a+\xff=b"), Err(Malformed));
    }
}
