//! The hash that `htpasswd -m` writes (`$apr1$`): MD5, a thousand times. Weak by today's standards,
//! but it was the default for twenty years.

use md5::{Digest, Md5};

/// The letters of its base 64, in their order.
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Letters of a hash.
pub const LENGTH: usize = 22;

/// The hash of a password with this salt.
pub fn apr1(password: &[u8], salt: &[u8]) -> [u8; LENGTH] {
    let alternate = Md5::new().chain_update(password).chain_update(salt).chain_update(password);
    let alternate = alternate.finalize();
    let mut first = Md5::new().chain_update(password).chain_update(b"$apr1$").chain_update(salt);
    for start in (0..password.len()).step_by(16) {
        first.update(&alternate[..16.min(password.len() - start)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // As its inventor had it: a zero for a one, and the first letter for a zero.
        match bits & 1 {
            1 => first.update([0]),
            _ => first.update(&password[..1]),
        }
        bits >>= 1;
    }
    let mut digest = first.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        if round & 1 == 1 {
            next.update(password)
        } else {
            next.update(digest)
        }
        if round % 3 > 0 {
            next.update(salt);
        }
        if round % 7 > 0 {
            next.update(password);
        }
        if round & 1 == 1 {
            next.update(digest)
        } else {
            next.update(password)
        }
        digest = next.finalize();
    }
    encode(&digest)
}

/// Its own base 64: of three bytes that are not neighbours, the lowest bits first.
fn encode(digest: &[u8]) -> [u8; LENGTH] {
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = [0; LENGTH];
    let groups = ORDER.map(|[high, middle, low]| {
        u32::from(digest[high]) << 16 | u32::from(digest[middle]) << 8 | u32::from(digest[low])
    });
    let letters = groups.into_iter().flat_map(|group| (0..4).map(move |nth| group >> (6 * nth)));
    let last = (0..2).map(|nth| u32::from(digest[11]) >> (6 * nth));
    for (place, bits) in out.iter_mut().zip(letters.chain(last)) {
        *place = LETTERS[(bits & 63) as usize];
    }
    out
}
