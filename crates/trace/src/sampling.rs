//! Which traces are recorded.

use crate::TraceId;

/// Shares are parts per million.
const WHOLE: u64 = 1_000_000;
/// How many values [`TraceId::chance`] has: the 56 random bits of a trace id.
const CHANCES: u64 = 1 << 56;

/// Which of the traces that begin here are recorded, and who decides about the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Whether a trace that the client has begun is continued, and recorded if the client says so.
    pub takes_parents: bool,
    /// The share of the traces that begin here, in parts per million.
    pub share: u32,
}

impl Sampling {
    /// Whether a trace that begins here is recorded. This follows from the trace id, as in
    /// OpenTelemetry's sampling by ratio, so a server with a larger share records these traces too.
    pub fn takes(&self, trace: TraceId) -> bool {
        // Within 2^56 * 10^6 < 2^76: the product needs more than 64 bits.
        let least = CHANCES - (u128::from(CHANCES) * u128::from(self.share) / 1_000_000) as u64;
        u64::from(self.share) >= WHOLE || trace.chance() >= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_taken() {
        for share in [0, 1_000, 250_000, 999_000, 1_000_000] {
            let sampling = Sampling { takes_parents: true, share };
            let taken = (0..100_000).filter(|_| sampling.takes(TraceId::random())).count();
            let wanted = share as usize / 10;
            assert!(taken.abs_diff(wanted) <= 800, "{taken} of 100000 with {share}");
            assert!(!matches!(share, 0 | 1_000_000) || taken == wanted, "{taken} with {share}");
        }
    }
}
