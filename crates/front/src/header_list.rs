//! Header fields that are lists of words (RFC 9110 section 5.6.1).

use http::header::HeaderValue;

/// Whether a list has this word, which is in lower case.
pub fn has_word(list: &HeaderValue, word: &[u8]) -> bool {
    let list = list.as_bytes();
    // Most lists have not even its first letter.
    memchr::memchr2(word[0], word[0].to_ascii_uppercase(), list).is_some()
        && list.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
}
