//! When requests arrive: fixed before the first one is sent.

use std::time::Duration;

/// How the arrivals of a rate are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// The same pause between all.
    Even,
    /// Independent of each other, as visitors are: pauses have an exponential distribution.
    Poisson,
}

/// The arrivals of `length` at `rate` a second, in order, each from the beginning. The same seed
/// gives the same arrivals.
pub fn arrivals(spacing: Spacing, rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gap = || match spacing {
        Spacing::Even => 1.0 / rate,
        // 1 - [0, 1) is never zero, so the logarithm is finite.
        Spacing::Poisson => -(1.0 - random.f64()).ln() / rate,
    };
    let mut at = gap();
    let mut found = Vec::with_capacity((rate * length.as_secs_f64()) as usize + 1);
    while at < length.as_secs_f64() {
        found.push(Duration::from_secs_f64(at));
        at += gap();
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECONDS: u64 = 20;

    fn all(spacing: Spacing, rate: f64, seed: u64) -> Vec<Duration> {
        arrivals(spacing, rate, Duration::from_secs(SECONDS), seed)
    }

    proptest! {
        #[test]
        fn they_are_in_order_within_the_time_and_as_many_as_asked_for(
            rate in 1.0..3000.0f64, seed in any::<u64>(), even in any::<bool>()
        ) {
            let spacing = if even { Spacing::Even } else { Spacing::Poisson };
            let found = all(spacing, rate, seed);
            prop_assert!(found.is_sorted());
            prop_assert!(found.last().is_none_or(|last| *last < Duration::from_secs(SECONDS)));
            let wanted = rate * SECONDS as f64;
            let off = (found.len() as f64 - wanted).abs();
            // The number of a Poisson process has the root of its mean as its spread.
            let may_be_off = if even { 1.5 } else { 6.0 * wanted.sqrt() + 1.0 };
            prop_assert!(off <= may_be_off, "{} for {wanted}", found.len());
        }

        #[test]
        fn pauses_of_a_poisson_process_spread_as_much_as_they_last(seed in any::<u64>()) {
            let found = all(Spacing::Poisson, 500.0, seed);
            let gaps: Vec<f64> =
                found.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance =
                gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let ratio = variance.sqrt() / mean;
            prop_assert!((0.9..1.1).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn a_seed_repeats_and_another_one_differs() {
        assert_eq!(all(Spacing::Poisson, 50.0, 1), all(Spacing::Poisson, 50.0, 1));
        assert_ne!(all(Spacing::Poisson, 50.0, 1), all(Spacing::Poisson, 50.0, 2));
    }
}
