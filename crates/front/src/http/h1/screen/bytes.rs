//! Which bytes may stand where, and how far a run of them reaches.

/// Byte may be part of a token (RFC 9110, 5.6.2): methods and field names.
pub(super) const TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");
/// Byte may be part of a request target at all: visible, or above ASCII.
const TARGET: [bool; 256] = {
    let mut map = [true; 256];
    let mut at = 0;
    while at <= 0x20 {
        map[at] = false;
        at += 1;
    }
    map[0x7f] = false;
    map
};
/// Byte may be part of a field value: visible, space, tab, or above ASCII.
const VALUE: [bool; 256] = {
    let mut map = TARGET;
    map[b' ' as usize] = true;
    map[b'\t' as usize] = true;
    map
};
/// Byte may stand unencoded in a path. A few more than RFC 3986 has, because clients send them;
/// never more than the HTTP library takes once [`is_encoded`] bytes are encoded, so that it finds
/// nothing left to refuse.
pub(super) const PATH: [bool; 256] = high(table(b"!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~"));
/// Byte may stand unencoded in a query: what may stand in a path, and the question mark.
pub(super) const QUERY: [bool; 256] = {
    let mut map = PATH;
    map[b'?' as usize] = true;
    map
};

/// Whether the HTTP library refuses a byte that may stand unencoded there, so that it is
/// percent-encoded, as browsers do.
pub(super) const fn is_encoded(byte: u8, is_query: bool) -> bool {
    match byte {
        b'<' | b'>' => true,
        b'"' => is_query,
        b'`' => !is_query,
        _ => false,
    }
}

/// Whether [`is_encoded`] holds for the byte in a path or in a query.
pub(super) const MAYBE_ENCODED: [bool; 256] = {
    let mut map = [false; 256];
    let mut at = 0;
    while at < 256 {
        map[at] = is_encoded(at as u8, false) || is_encoded(at as u8, true);
        at += 1;
    }
    map
};

/// Writes a byte percent-encoded.
pub(super) fn encode(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'%');
    out.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
}

const fn table(extra: &[u8]) -> [bool; 256] {
    let mut map = [false; 256];
    let mut at = 0;
    while at < 256 {
        map[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let mut at = 0;
    while at < extra.len() {
        map[extra[at] as usize] = true;
        at += 1;
    }
    map
}

const fn high(mut map: [bool; 256]) -> [bool; 256] {
    let mut at = 0x80;
    while at < 256 {
        map[at] = true;
        at += 1;
    }
    map
}

/// Length of the token that `bytes` start with.
pub(super) fn token_span(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !TOKEN[usize::from(byte)]).unwrap_or(bytes.len())
}

/// Length of the request target, or part of one, that `bytes` start with.
pub(super) fn target_span(bytes: &[u8]) -> usize {
    span(bytes, &TARGET, |byte| (byte <= b' ') | (byte == 0x7f))
}

/// Length of the field value, or part of one, that `bytes` start with.
pub(super) fn value_span(bytes: &[u8]) -> usize {
    span(bytes, &VALUE, |byte| (byte < b' ') | (byte == 0x7f))
}

/// Skips blocks without a suspicious byte, and consults the table only for the others. The compiler
/// turns the first check into vector instructions. `suspicious` must hold for every byte that the
/// table refuses.
fn span(bytes: &[u8], table: &[bool; 256], suspicious: impl Fn(u8) -> bool) -> usize {
    let (blocks, _) = bytes.as_chunks::<16>();
    let mut at = 0;
    for block in blocks {
        if block.iter().fold(false, |found, &byte| found | suspicious(byte))
            && let Some(stop) = block.iter().position(|&byte| !table[usize::from(byte)])
        {
            return at + stop;
        }
        at += block.len();
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|&byte| !table[usize::from(byte)]).unwrap_or(rest.len())
}

/// The value without the optional white space around it.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
