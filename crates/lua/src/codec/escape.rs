//! Escapes: XML's, quoted strings of HTTP, backslashes.

use super::{digit, push_hex};

/// Escapes what has a meaning in XML or HTML, and control characters.
pub fn xml(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    for &byte in text {
        match byte {
            b'"' | b'&' | b'\'' | b'<' | b'>' | b'`' | 0..0x20 | 0x7f => {
                out.extend_from_slice(b"&#x");
                push_hex(&mut out, byte);
                out.push(b';');
            }
            _ => out.push(byte),
        }
    }
    out
}

/// A quoted string of HTTP.
pub fn quote(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

/// What a quoted string says; text without quotes is as it is, and a quoted string with a wrong end
/// is nothing.
pub fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let Some(rest) = text.strip_prefix(b"\"") else { return Some(text.to_vec()) };
    let mut out = Vec::with_capacity(rest.len());
    let mut bytes = rest.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return (at + 1 == rest.len()).then_some(out),
            // The character after it is not the last one, which must be a quote of its own.
            b'\\' if at + 2 < rest.len() => out.extend(bytes.next().map(|(_, &next)| next)),
            b'\\' => return None,
            _ => out.push(byte),
        }
    }
    None
}

/// The letter after the backslash, of those control characters that have one.
fn letter(byte: u8) -> Option<u8> {
    Some(match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' | b'\\' => byte,
        _ => return None,
    })
}

fn escape(text: &[u8], prefix: &[u8], is_plain: fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    for &byte in text {
        if let Some(letter) = letter(byte) {
            out.extend([b'\\', letter]);
        } else if is_plain(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(prefix);
            push_hex(&mut out, byte);
        }
    }
    out
}

/// `lighty.c.bsenc`: `\u00XX` for control characters. One would expect this of the function for
/// JSON; lighttpd has the two the wrong way round, and scripts may rely on what they see.
pub fn backslash(text: &[u8]) -> Vec<u8> {
    escape(text, b"\\u00", |byte| byte >= 0x20)
}

/// `lighty.c.bsenc_json`: `\xXX` for all that is not printable ASCII; see [`backslash`].
pub fn backslash_json(text: &[u8]) -> Vec<u8> {
    escape(text, b"\\x", |byte| (0x20..0x7f).contains(&byte))
}

/// Undoes backslash escapes, inside of quotes or not. What is no escape stays without its
/// backslash.
pub fn unbackslash(text: &[u8]) -> Vec<u8> {
    let text = match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
        } else if let Some((&kind, after)) = rest.split_first() {
            rest = &after[unescape(kind, after, &mut out)..];
        } else {
            out.push(b'\\');
        }
    }
    out
}

/// Adds what an escape stands for; how many characters after its letter belong to it.
fn unescape(kind: u8, after: &[u8], out: &mut Vec<u8>) -> usize {
    match kind {
        b'x' => {
            if let Some(byte) = byte_at(after, 0) {
                out.push(byte);
                return 2;
            }
        }
        b'u' => {
            // Half of a surrogate pair is no character, and stays as it is.
            if let (Some(high), Some(low)) = (byte_at(after, 0), byte_at(after, 2))
                && let Some(character) = char::from_u32(u32::from(high) << 8 | u32::from(low))
            {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return 4;
            }
        }
        b'0'..=b'3' => {
            if let [high @ b'0'..=b'7', low @ b'0'..=b'7', ..] = after {
                out.push((kind - b'0') << 6 | (high - b'0') << 3 | (low - b'0'));
                return 2;
            }
            out.push(if kind == b'0' { 0 } else { kind });
            return 0;
        }
        _ => {
            let control = b"a\x07b\x08t\tn\nv\x0bf\x0cr\r".chunks(2).find(|pair| pair[0] == kind);
            out.push(control.map_or(kind, |pair| pair[1]));
            return 0;
        }
    }
    out.push(kind);
    0
}

fn byte_at(text: &[u8], at: usize) -> Option<u8> {
    Some(digit(*text.get(at)?)? << 4 | digit(*text.get(at + 1)?)?)
}
