//! Whether a series of measurements grows, and how surely. Without it one odd value would make a
//! leak of noise, or a backlog of a pause.
//!
//! The slope is that of Theil and Sen: the median of the slopes between all pairs of points. Up to
//! 29 % of the points may be wrong by any amount, and it hardly moves. Its confidence interval
//! (Sen, 1968) assumes nothing of the distribution of the errors.

/// Points that are looked at, at most: their pairs are, and those are half the square of it. Longer
/// series are thinned to the medians of as many stretches. Ten times more would take seconds; a
/// tenth would make the interval five times wider.
const MOST_POINTS: usize = 400;

/// Fewest points of which an interval says something.
const FEWEST_POINTS: usize = 5;

/// The quantile of the normal distribution for an interval of 95 %.
const NORMAL: f64 = 1.96;

/// By how much a series grows for one unit of its first coordinate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The median slope.
    pub slope: f64,
    /// The slope is larger than this, with 97.5 % confidence.
    pub low: f64,
    /// The slope is smaller than this, with 97.5 % confidence.
    pub high: f64,
}

/// The trend of points (x, y), with x ascending; [`None`] for fewer than five, or if all have the
/// same x.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let points = &thinned(points);
    if points.len() < FEWEST_POINTS {
        return None;
    }
    let mut slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(nth, a)| points[nth + 1..].iter().map(move |b| (a, b)))
        .filter(|(a, b)| a.0 != b.0)
        .map(|(a, b)| (b.1 - a.1) / (b.0 - a.0))
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let count = slopes.len() as f64;
    let n = points.len() as f64;
    // The spread of Kendall's statistic, if there is no trend. Equal values make it smaller, so
    // with them the interval is wider than it must be.
    let spread = NORMAL * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let below = ((count - spread) / 2.0).floor().max(0.0) as usize;
    let above = ((count + spread) / 2.0).ceil() as usize;
    Some(Trend {
        slope: median_of_sorted(&slopes)?,
        low: *slopes.get(below)?,
        high: slopes[above.min(slopes.len() - 1)],
    })
}

/// The median; [`None`] of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return Some(sorted[middle]);
    }
    Some((sorted.get(middle.checked_sub(1)?)? + sorted[middle]) / 2.0)
}

fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MOST_POINTS).max(1);
    points
        .chunks(stretch)
        .filter_map(|chunk| {
            let x: Vec<f64> = chunk.iter().map(|point| point.0).collect();
            let y: Vec<f64> = chunk.iter().map(|point| point.1).collect();
            Some((median(&x)?, median(&y)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn too_few_points_have_no_trend() {
        assert_eq!(trend(&[]), None);
        assert_eq!(trend(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(trend(&[(1.0, 1.0); 9]), None);
    }

    #[test]
    fn one_odd_value_is_no_growth() {
        let mut points: Vec<(f64, f64)> = (0..40).map(|nth| (f64::from(nth), 7.0)).collect();
        points[30].1 = 1e9;
        let found = trend(&points).unwrap();
        assert_eq!((found.slope, found.low, found.high), (0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn a_line_has_its_slope(
            slope in -1e3..1e3f64, at in -1e3..1e3f64, count in 5..1000usize
        ) {
            let points: Vec<(f64, f64)> =
                (0..count).map(|x| (x as f64, at + slope * x as f64)).collect();
            let found = trend(&points).unwrap();
            for of in [found.slope, found.low, found.high] {
                prop_assert!((of - slope).abs() < 1e-6, "{found:?}");
            }
        }

        #[test]
        fn noise_leaves_the_slope_within_its_interval_which_is_narrow(
            slope in -10.0..10.0f64, noise in prop::collection::vec(-1.0..1.0f64, 100..300)
        ) {
            let points: Vec<(f64, f64)> =
                noise.iter().enumerate().map(|(x, n)| (x as f64, slope * x as f64 + n)).collect();
            let found = trend(&points).unwrap();
            prop_assert!(found.low <= found.slope && found.slope <= found.high);
            prop_assert!((found.slope - slope).abs() < 0.02, "{found:?}");
            prop_assert!(found.high - found.low < 0.04, "{found:?}");
        }

        #[test]
        fn any_numbers_are_no_panic(points in prop::collection::vec(any::<(f64, f64)>(), 0..50)) {
            let _ = trend(&points);
        }
    }
}
