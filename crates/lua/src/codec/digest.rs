//! Digests, and comparisons in constant time.

use hmac::digest::{Digest, KeyInit};
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use super::{digit, push_hex};

/// Bytes of the longest digest.
const LONGEST: usize = 64;

/// A digest's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Algorithm {
    /// The algorithm of that name.
    pub fn named(name: &[u8]) -> Option<Algorithm> {
        Some(match name {
            b"md5" => Algorithm::Md5,
            b"sha1" => Algorithm::Sha1,
            b"sha256" => Algorithm::Sha256,
            b"sha512" => Algorithm::Sha512,
            _ => return None,
        })
    }

    /// The digest of `data`, as hexadecimal digits.
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Algorithm::Md5 => hex(&Md5::digest(data)),
            Algorithm::Sha1 => hex(&Sha1::digest(data)),
            Algorithm::Sha256 => hex(&Sha256::digest(data)),
            Algorithm::Sha512 => hex(&Sha512::digest(data)),
        }
    }
}

/// The message authentication code of `data`, as hexadecimal digits.
pub fn hmac(algorithm: Algorithm, key: &[u8], data: &[u8]) -> Vec<u8> {
    fn code<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
        let mut code = <M as Mac>::new_from_slice(key)
            .unwrap_or_else(|_| unreachable!("a key may have any length"));
        code.update(data);
        hex(&code.finalize().into_bytes())
    }
    match algorithm {
        Algorithm::Md5 => code::<Hmac<Md5>>(key, data),
        Algorithm::Sha1 => code::<Hmac<Sha1>>(key, data),
        Algorithm::Sha256 => code::<Hmac<Sha256>>(key, data),
        Algorithm::Sha512 => code::<Hmac<Sha512>>(key, data),
    }
}

/// Hexadecimal digits, in capitals.
pub fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        push_hex(&mut out, byte);
    }
    out
}

/// Bytes from pairs of hexadecimal digits.
pub fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Whether two texts are the same digest in hexadecimal digits, of whichever case.
pub fn equal_digests(one: &[u8], other: &[u8]) -> bool {
    match (unhex(one), unhex(other)) {
        (Some(one), Some(other)) => {
            one.len() == other.len() && one.len() <= LONGEST && differences(&one, &other) == 0
        }
        _ => false,
    }
}

/// Whether two secrets are the same; how long it takes depends on the first one's length alone.
pub fn equal_secrets(one: &[u8], other: &[u8]) -> bool {
    let same_length = one.len() == other.len();
    differences(one, if same_length { other } else { one }) == 0 && same_length
}

fn differences(one: &[u8], other: &[u8]) -> u8 {
    one.iter().zip(other).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)))
}
