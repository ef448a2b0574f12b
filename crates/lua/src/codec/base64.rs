//! Base64 as lighttpd has it: no padding comes out, and what follows padding is not looked at.

/// The alphabet of MIME.
pub const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The alphabet for file names and URLs.
pub const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes, without padding.
pub fn encode(alphabet: &[u8; 64], bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - group.len()));
        for sextet in 0..=group.len() {
            out.push(alphabet[(word >> (18 - 6 * sextet)) as usize & 63]);
        }
    }
    out
}

/// Decodes up to the first padding; white space does not count. Nothing if a character is of no
/// alphabet, or if the last one has no byte to itself.
pub fn decode(alphabet: &[u8; 64], text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut word, mut sextets) = (0u32, 0);
    for &byte in text {
        match byte {
            b'=' if sextets >= 2 => break,
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            _ => {}
        }
        let value = alphabet.iter().position(|&character| character == byte)?;
        word = word << 6 | value as u32;
        sextets += 1;
        if sextets == 4 {
            out.extend_from_slice(&word.to_be_bytes()[1..]);
            (word, sextets) = (0, 0);
        }
    }
    match sextets {
        0 => {}
        1 => return None,
        2 => out.push((word >> 4) as u8),
        _ => out.extend_from_slice(&(word << 6).to_be_bytes()[1..3]),
    }
    Some(out)
}
