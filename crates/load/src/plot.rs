//! The knee as points: response times over rates, one point a rate.

use crate::capacity::Report;
use crate::judge::Verdict;
use crate::trial::Trial;
use crate::words::{rate, time};

/// A rate that was tried, maybe more than once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests a second.
    pub rate: f64,
    /// The response time of the bound's part in seconds, the median of the trials; infinite if it
    /// had no answer.
    pub taken: f64,
    /// Whether the bound held in most of them.
    pub held: bool,
}

/// The points by rate.
pub fn points(report: &Report) -> Vec<Point> {
    let mut rates: Vec<f64> = report.trials.iter().map(|trial| trial.rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.dedup();
    let point = |wanted: f64| {
        let same: Vec<&Trial> = report.trials.iter().filter(|trial| trial.rate == wanted).collect();
        let taken: Vec<f64> = same.iter().map(|trial| trial.bounded).collect();
        let held = same.iter().filter(|trial| trial.verdict == Verdict::Holds).count();
        Point {
            rate: wanted,
            taken: tokamak_observe::trend::median(&taken).unwrap_or(0.0),
            held: 2 * held > same.len(),
        }
    };
    rates.into_iter().map(point).collect()
}

/// Where points without an answer are drawn: above all others, and above the bound.
pub fn endless(points: &[Point], limit: f64) -> f64 {
    let finite = points.iter().map(|point| point.taken).filter(|taken| taken.is_finite());
    2.0 * finite.fold(limit, f64::max)
}

/// The ends of a logarithmic axis for these values.
pub fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
    if low.is_finite() { (low / 1.3, high * 1.3) } else { (0.1, 1.0) }
}

/// Where a value lies on such an axis, from 0 to 1.
pub fn place(value: f64, (low, high): (f64, f64)) -> f64 {
    ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

const WIDE: usize = 64;
const HIGH: usize = 13;

/// The picture for a terminal.
pub fn terminal(report: &Report) -> String {
    let points = points(report);
    let Some(bound) = report.bounds.first() else { return String::new() };
    let limit = bound.limit.as_secs_f64();
    let across = span(points.iter().map(|point| point.rate));
    let top = endless(&points, limit);
    let up = span(points.iter().map(|point| point.taken.min(top)).chain([limit]));
    let row = |value| HIGH - 1 - (place(value, up) * (HIGH - 1) as f64).round() as usize;
    let column = |value| (place(value, across) * (WIDE - 1) as f64).round() as usize;
    let mut grid = vec![vec![' '; WIDE]; HIGH];
    grid[row(limit)].fill('┄');
    for point in &points {
        grid[row(point.taken.min(top))][column(point.rate)] = if point.held { '●' } else { '×' };
    }
    let mut text = format!("{} (logarithmic)\n", bound.name());
    for (nth, line) in grid.iter().enumerate() {
        let label = match nth {
            _ if nth == row(limit) => time(limit),
            _ if nth == row(top) && up.1 > top => time(f64::INFINITY),
            0 => time(up.1),
            _ if nth == HIGH - 1 => time(up.0),
            _ => String::new(),
        };
        let line: String = line.iter().collect();
        text += format!("{label:>8} │{line}").trim_end();
        text.push('\n');
    }
    text += &format!("{:>8} └{}\n", "", "─".repeat(WIDE));
    let right = rate(across.1);
    let room = WIDE - right.len();
    text += &format!("{:>9} {:<room$}{right}\n", "", rate(across.0));
    text += &format!("{:>10}● the bound holds   × it does not   ┄ the bound\n", "");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_without_an_answer_are_above_all_others() {
        let point = |taken| Point { rate: 1.0, taken, held: false };
        assert_eq!(endless(&[point(0.5), point(f64::INFINITY)], 1.0), 2.0);
        assert_eq!(endless(&[point(7.0)], 1.0), 14.0);
    }

    #[test]
    fn the_ends_of_an_axis_are_its_ends() {
        let axis = span([10.0, 1000.0].into_iter());
        assert_eq!((place(axis.0, axis), place(axis.1, axis)), (0.0, 1.0));
        assert!((place(100.0, axis) - 0.5).abs() < 1e-9);
        assert_eq!(span([].into_iter()), (0.1, 1.0));
    }
}
