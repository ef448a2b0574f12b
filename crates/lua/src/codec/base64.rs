//! Base64 as lighttpd has it: no padding comes out, and what follows padding is not looked at.

use base64::Engine;
use base64::alphabet::{self, Alphabet};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The alphabet of MIME.
pub static STANDARD: GeneralPurpose = with(&alphabet::STANDARD);

/// The alphabet for file names and URLs.
pub static URL: GeneralPurpose = with(&alphabet::URL_SAFE);

const fn with(alphabet: &Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config)
}

/// Encodes, without padding.
pub fn encode(alphabet: &GeneralPurpose, bytes: &[u8]) -> Vec<u8> {
    alphabet.encode(bytes).into_bytes()
}

/// Decodes up to the first padding; white space does not count. Nothing if a character is of no
/// alphabet, or if the last one has no byte to itself.
pub fn decode(alphabet: &GeneralPurpose, text: &[u8]) -> Option<Vec<u8>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let mut text: Vec<u8> = text.iter().copied().filter(|byte| !is_space(byte)).collect();
    if let Some(end) = text.iter().position(|&byte| byte == b'=') {
        // Padding can only stand where a byte is complete.
        if end % 4 < 2 {
            return None;
        }
        text.truncate(end);
    }
    alphabet.decode(text).ok()
}
