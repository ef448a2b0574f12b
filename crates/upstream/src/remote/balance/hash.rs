//! Consistent hashing by rendezvous: each address draws a lot for each key, the best lot wins. When
//! an address leaves, only the keys that it had won move, each to its own second best, so they
//! spread over all others; when it comes back, it wins exactly those again. It costs one hash for
//! each address and needs no table that would have to be rebuilt.

use super::Candidate;

/// What binds requests to an address: the hash of some text of the request. The same in every
/// process and version, so that several servers in front of the same addresses agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The key of some text.
    pub fn of(text: &[u8]) -> Key {
        Key(hash(text))
    }
}

/// FNV-1a, which short texts like best, and a last step that spreads its weak upper bits.
pub fn hash(text: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(text.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// The last step of SplitMix64: every bit of the result depends on every bit of `x`.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The candidate with the best lot.
pub(super) fn choose<C: Candidate>(
    key: Key,
    candidates: &[C],
    is_usable: impl Fn(&C) -> bool,
) -> Option<usize> {
    let usable = candidates.iter().enumerate().filter(|(_, candidate)| is_usable(candidate));
    let lots = usable.map(|(index, candidate)| (index, lot(key, candidate)));
    lots.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(index, _)| index)
}

/// Exponentially distributed with the weight as its rate: the smallest of several such numbers is a
/// candidate's with a probability proportional to its weight, whatever the others are.
fn lot(key: Key, candidate: &impl Candidate) -> f64 {
    // 53 bits, so that neither 0 nor 1 comes out.
    let uniform = ((mix(key.0 ^ candidate.identity()) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln() / f64::from(candidate.weight())
}
