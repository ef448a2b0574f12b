//! Taking turns: smooth weighted round robin, as nginx does it. Every candidate gains its weight at
//! each turn, the one with the most is chosen and pays for all. With weights 5, 1 and 1 the order
//! is `a a b a c a a`: no bursts.

use std::sync::{Mutex, PoisonError};

use super::Candidate;

/// What each candidate has gained, by its index. A list of other candidates begins with a new one.
#[derive(Debug, Default)]
pub struct Rotation(Mutex<Vec<i64>>);

impl Rotation {
    /// For so many candidates.
    pub fn new(candidates: usize) -> Rotation {
        Rotation(Mutex::new(vec![0; candidates]))
    }

    /// Whose turn it is. One that is not usable neither gains nor pays.
    pub(super) fn turn<C: Candidate>(
        &self,
        candidates: &[C],
        is_usable: impl Fn(&C) -> bool,
    ) -> Option<usize> {
        // A panic may have left the counters half updated; the rotation is fair again after a
        // round.
        let mut gained = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = 0;
        let mut best: Option<usize> = None;
        for (index, candidate) in candidates.iter().enumerate().filter(|(_, one)| is_usable(one)) {
            let weight = i64::from(candidate.weight());
            gained[index] += weight;
            total += weight;
            if best.is_none_or(|best| gained[index] > gained[best]) {
                best = Some(index);
            }
        }
        if let Some(best) = best {
            gained[best] -= total;
        }
        best
    }

    /// The one with the fewest requests for its weight; of several such, whose turn it is.
    pub(super) fn least_busy<C: Candidate>(
        &self,
        candidates: &[C],
        is_usable: impl Fn(&C) -> bool,
    ) -> Option<usize> {
        let load = |candidate: &C| candidate.busy() as f64 / f64::from(candidate.weight());
        let usable = candidates.iter().enumerate().filter(|(_, one)| is_usable(one));
        let (index, least) = usable
            .map(|(index, candidate)| (index, load(candidate)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        // None is left if all have got more to do since.
        self.turn(candidates, |one| is_usable(one) && load(one) <= least).or(Some(index))
    }
}
