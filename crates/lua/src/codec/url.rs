//! URLs: encoding, decoding, normalisation.

use super::{digit, path, push_hex};

/// Percent-encodes a path: all bytes but letters, digits and unreserved punctuation.
pub fn encode(text: &[u8]) -> Vec<u8> {
    encode_but(text, |byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'(' | b')' | b'*' | b'-' | b'.' | b'/' | b'_' | b'~')
    })
}

fn encode_but(text: &[u8], is_plain: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 3 / 2);
    for &byte in text {
        if is_plain(byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            push_hex(&mut out, byte);
        }
    }
    out
}

/// The byte that `text` begins with in encoded form: a percent sign and two hexadecimal digits.
fn escaped(text: &[u8]) -> Option<u8> {
    match text {
        [b'%', high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Decodes a path; control characters become underscores.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let (byte, length) = escaped(rest).map_or((first, 1), |byte| (byte, 3));
        out.push(if byte < 0x20 || byte == 0x7f { b'_' } else { byte });
        rest = &rest[length..];
    }
    out
}

fn decode_part(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    decode(&spaced)
}

/// Names and values of a query, which ends at its first zero byte.
pub fn decode_query(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let parts = text[..end].split(|&byte| byte == b'&').filter(|part| !part.is_empty());
    parts
        .map(|part| match part.iter().position(|&byte| byte == b'=') {
            Some(at) => (decode_part(&part[..at]), decode_part(&part[at + 1..])),
            None => (decode_part(part), Vec::new()),
        })
        .collect()
}

/// A query of these names and values.
pub fn encode_query<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let part = |text: &[u8], is_name: bool| {
        let spaced: Vec<u8> = encode_but(text, |byte| match byte {
            b'=' => !is_name,
            b' ' => true,
            _ => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'!' | b'$' | b'(' | b')' | b'*' | b',' | b'-' | b'.' | b'/')
                    || matches!(byte, b':' | b'?' | b'@' | b'_' | b'~')
            }
        });
        spaced.into_iter().map(|byte| if byte == b' ' { b'+' } else { byte }).collect::<Vec<u8>>()
    };
    let parts: Vec<Vec<u8>> =
        pairs.map(|(name, value)| [part(name, true), part(value, false)].join(&b'=')).collect();
    parts.join(&b'&')
}

/// Whether a byte may stand in a path or query as it is.
fn is_plain(byte: u8, is_query: bool) -> bool {
    match byte {
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'-' | b'.' | b'/' => true,
        b':' | b';' | b'=' | b'@' | b'_' | b'~' => true,
        b'?' => is_query,
        _ => byte.is_ascii_alphanumeric(),
    }
}

/// Normalises a path with its query: decodes what need not be encoded, resolves `.` and `..`, and
/// removes the fragment.
pub fn normalize(url: &[u8]) -> Vec<u8> {
    let url = &url[..url.iter().position(|&byte| byte == b'#').unwrap_or(url.len())];
    let (before, query) = match url.iter().position(|&byte| byte == b'?') {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    };
    let mut out = path::simplify(&normalize_part(before, false));
    if let Some(query) = query {
        out.push(b'?');
        out.extend(normalize_part(query, true));
    }
    out
}

fn normalize_part(text: &[u8], is_query: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let decoded = escaped(rest);
        let (byte, length) = decoded.map_or((first, 1), |byte| (byte, 3));
        rest = &rest[length..];
        // What separates the parts of a query means something else when it is encoded.
        let keeps_apart =
            is_query && decoded.is_some() && matches!(byte, b'&' | b'+' | b';' | b'=');
        if is_query && byte == b' ' {
            out.push(b'+');
        } else if is_plain(byte, is_query) && !keeps_apart {
            out.push(byte);
        } else {
            out.push(b'%');
            push_hex(&mut out, byte);
        }
    }
    out
}
