//! Whether a server's memory grows with its requests: decided from one number after each request.
//!
//! Memory of a process is no heap of one page: garbage collectors let it rise and fall, allocators
//! take it in pages and larger pieces, and what a request keeps at random comes and goes. Such
//! errors are not independent of each other, which the interval of a [`Trend`] takes them to be. So
//! growth must also go on: from each tenth of the judged requests to the next.

use tokamak_observe::trend::{Trend, median, trend};

/// Stretches of the requests that are judged. With a third of them chance would look like growth;
/// with three times as many, so would a leak of a page now and then look like chance.
const STRETCHES: usize = 10;

/// Of the steps between stretches that neighbour, so many may go down. Steps of chance go up and
/// down alike: of ten stretches that are independent at most one step goes down in 0.03 % of cases.
const FALLS: usize = 1;

/// The least that a process's memory grows by.
const PAGE: f64 = 4096.0;

/// Bytes by which memory may lie below its usual size and still count as the same, at most:
/// allocators give back and take again so much. Where it varies less, less counts as the same: a
/// cache that fills with fewer bytes is not stable before it is full.
const SAME: f64 = 65_536.0;

/// The part of the judged requests after which memory may be lower than what counts as its usual
/// variation. With none, one moment would decide; with half there would be no variation.
const LOW: f64 = 0.05;

/// How the memory of a server goes on while a page is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// With each request there is more, by these bytes.
    Grows(Trend),
    /// Since this request, counted from 1, it grows no more.
    Stable {
        /// The request.
        since: usize,
        /// A leak of fewer bytes a request would not have been seen.
        unseen: f64,
    },
    /// It rose, and not all the time.
    Unsteady,
    /// Nothing can be said, since so many processes were replaced meanwhile: new ones grow until
    /// they are warm, and what one that ended had leaked is gone.
    Replaced(usize),
}

/// Judges memory in bytes after each request of a page; only growth in the second half is growth.
pub fn judge(levels: &[i64]) -> Course {
    let judged = &levels[levels.len() / 2..];
    let points: Vec<(f64, f64)> =
        judged.iter().enumerate().map(|(nth, level)| (nth as f64, *level as f64)).collect();
    let found = trend(&points).unwrap_or(Trend { slope: 0.0, low: 0.0, high: 0.0 });
    if found.low >= 1.0 {
        return if goes_on(judged) { Course::Grows(found) } else { Course::Unsteady };
    }
    let mut sorted: Vec<f64> = judged.iter().map(|level| *level as f64).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let usual = median(&sorted).unwrap_or(0.0);
    let low = sorted.get((LOW * sorted.len() as f64) as usize).copied().unwrap_or(usual);
    let same = usual - (usual - low).clamp(PAGE, SAME);
    let since = levels.iter().position(|level| *level as f64 >= same).unwrap_or(0) + 1;
    // Less than two pages in all are not distinguishable from no growth.
    let unseen = found.high.max(2.0 * PAGE / judged.len().max(1) as f64);
    Course::Stable { since, unseen }
}

/// Whether memory rises from stretch to stretch.
fn goes_on(levels: &[i64]) -> bool {
    let bound = |nth: usize| nth * levels.len() / STRETCHES;
    let middles: Vec<f64> = (0..STRETCHES)
        .map(|nth| &levels[bound(nth)..bound(nth + 1)])
        .filter_map(|stretch| {
            median(&stretch.iter().map(|level| *level as f64).collect::<Vec<_>>())
        })
        .collect();
    let rises = middles.windows(2).filter(|two| two[1] > two[0]).count();
    middles.len() == STRETCHES && rises + FALLS >= STRETCHES - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// Memory after each request, of which each takes these bytes, in whole pages.
    fn in_pages(bytes: i64, count: i64) -> Vec<i64> {
        (1..=count).map(|nth| bytes * nth / 4096 * 4096).collect()
    }

    #[test]
    fn what_fills_once_is_stable_when_it_is_full() {
        let mut levels = in_pages(5000, 100);
        levels.extend([levels[99]; 900]);
        let Course::Stable { since, unseen } = judge(&levels) else { panic!() };
        assert!((98..=100).contains(&since) && unseen < 20.0, "{since} {unseen}");
        // Fewer bytes than a heap that is collected now and then goes up and down by.
        let mut small = in_pages(300, 200);
        small.extend([small[199]; 200]);
        assert!(matches!(judge(&small), Course::Stable { since: 170..=200, .. }), "{small:?}");
        assert!(matches!(judge(&[0; 100]), Course::Stable { since: 1, .. }));
        assert!(matches!(judge(&[]), Course::Stable { .. }));
    }

    #[test]
    fn growth_is_seen_in_any_number_of_requests() {
        for count in 20..400 {
            let levels = in_pages(8192, count);
            assert!(matches!(judge(&levels), Course::Grows(_)), "{count}: {:?}", judge(&levels));
        }
    }

    #[test]
    fn two_steps_are_no_growth() {
        let mut levels = vec![0; 700];
        levels.extend([1 << 20; 130]);
        levels.extend([2 << 20; 170]);
        assert!(!matches!(judge(&levels), Course::Grows(_)), "{:?}", judge(&levels));
    }

    #[test]
    fn a_heap_that_is_collected_now_and_then_does_not_grow() {
        for period in 2..45 {
            let levels: Vec<i64> = (0..1000).map(|nth| nth % period * 16_384).collect();
            assert!(!matches!(judge(&levels), Course::Grows(_)), "{period}: {:?}", judge(&levels));
        }
    }

    proptest! {
        // Chance looks like growth now and then, so the same cases are tried each time.
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_leak_has_its_size_though_memory_grows_by_pages(
            bytes in 300..100_000i64, noise in prop::collection::vec(0..3i64, 1000)
        ) {
            let levels: Vec<i64> =
                in_pages(bytes, 1000).iter().zip(noise).map(|(at, by)| at + by * 4096).collect();
            let Course::Grows(found) = judge(&levels) else { panic!("{:?}", judge(&levels)) };
            prop_assert!((found.slope / bytes as f64 - 1.0).abs() < 0.1, "{found:?} for {bytes}");
        }

        #[test]
        fn memory_that_varies_at_random_does_not_grow(
            levels in prop::collection::vec(0..1_000_000i64, 100..1000)
        ) {
            prop_assert!(!matches!(judge(&levels), Course::Grows(_)), "{:?}", judge(&levels));
        }

        #[test]
        fn memory_that_is_never_given_back_does_not_grow_as_what_is_kept_varies(
            kept in prop::collection::vec(0..1_000_000i64, 200..1000)
        ) {
            // The largest so far: an allocator that gives nothing back.
            let levels: Vec<i64> = kept
                .iter()
                .scan(0, |most, kept| {
                    *most = *kept.max(most);
                    Some(*most)
                })
                .collect();
            prop_assert!(!matches!(judge(&levels), Course::Grows(_)), "{:?}", judge(&levels));
        }
    }
}
