//! The text functions of `lighty.c`: bytes in, bytes out, nothing of Lua.

mod base64;
mod digest;
mod escape;
mod path;
#[cfg(test)]
mod tests;
mod tokens;
mod url;

pub use base64::{STANDARD, URL, decode as base64_decode, encode as base64_encode};
pub use digest::{Algorithm, equal_digests, equal_secrets, hex, hmac, unhex};
pub use escape::{backslash, backslash_json, quote, unbackslash, unquote, xml};
pub use path::simplify;
pub use tokens::{cookie_tokens, header_tokens};
pub use url::{decode as url_decode, decode_query, encode as url_encode, encode_query, normalize};

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|value| value as u8)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Adds a byte as two hexadecimal digits.
fn push_hex(out: &mut Vec<u8>, byte: u8) {
    out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}
