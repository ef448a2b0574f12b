//! Memory after each request: which page makes a worker grow, since when it grows no more, and what
//! holds the memory. [`judge`] decides, from numbers alone.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json as object};
use tokamak_config::Site;
use tokamak_observe::trend::{Trend, trend};

use crate::Failure;
use crate::compare::{self, Finding, Verdict};
use crate::drive::Application;
use crate::listing::MEMORY;

/// Requests of a growing page after which each time all that PHP can reach is listed, to find what
/// holds its memory. With a tenth nothing could be compared; each further listing is kept.
const LOOKS: usize = 12;

/// Holders that are named for a page.
const NAMED: usize = 5;

/// Bytes by which memory may lie below its highest value and still count as the same. PHP takes its
/// memory in pieces of up to some hundred bytes, which an answer of another length needs or not.
const SAME: i64 = 1024;

/// Fewest requests in which memory must not have grown to be called stable.
const STABLE: usize = 10;

/// What to run.
#[derive(Debug)]
pub struct LeakTest<'a> {
    /// The worker program.
    pub php: &'a Path,
    /// The application, as a server would run it.
    pub site: &'a Site,
    /// Pages, each requested in its turn.
    pub targets: &'a [String],
    /// Requests of each page.
    pub requests: usize,
}

/// How the memory of a page goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// With each request there is more, by these bytes.
    Grows(Trend),
    /// Since this request, counted from 1, it grows no more.
    StableSince(usize),
    /// It grew too late or too little for a judgement.
    Unclear,
}

/// One page.
#[derive(Debug)]
pub struct Page {
    /// What was requested.
    pub target: String,
    /// Bytes that the requests which were judged have left together.
    pub left: i64,
    /// How its memory goes on.
    pub course: Course,
    /// What holds the memory of a page that grows.
    pub holders: Vec<Finding>,
    /// The last status that was no success.
    pub error: Option<u16>,
}

/// Judges what each request of a page has left in memory, in bytes.
///
/// The first half is for caches to fill; only growth in the second half is growth. Memory that is
/// given back is none.
pub fn judge(left: &[i64]) -> Course {
    let sums: Vec<i64> = left
        .iter()
        .scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        })
        .collect();
    let half = sums.len() / 2;
    let points: Vec<(f64, f64)> =
        sums.iter().enumerate().skip(half).map(|(nth, sum)| (nth as f64, *sum as f64)).collect();
    let most = sums.iter().max().copied().unwrap_or(0);
    let since = sums.iter().position(|sum| sum + SAME >= most).map_or(1, |nth| nth + 1);
    if let Some(found) = trend(&points).filter(|found| found.low >= 1.0) {
        return Course::Grows(found);
    }
    if sums.len() + 1 >= since + STABLE { Course::StableSince(since) } else { Course::Unclear }
}

/// Requests each page in its turn and looks at PHP's heap after each request; then each page that
/// seems to grow once more, alone. Each look walks over all that PHP can reach, as for a listing.
///
/// # Errors
/// Fails if the application does not boot, or ends in the middle.
pub fn run(test: &LeakTest<'_>) -> Result<Vec<Page>, Failure> {
    let mut site = test.site.clone();
    // A worker that is replaced would begin with an empty heap.
    site.pool.max_requests = 0;
    let mut application = Application::start(test.php, &site)?;
    let mut left = vec![Vec::with_capacity(test.requests); test.targets.len()];
    let mut errors = vec![None; test.targets.len()];
    let mut heap = application.state()?.heap() as i64;
    for _ in 0..test.requests {
        for (nth, target) in test.targets.iter().enumerate() {
            let status = application.answer(target)?.status;
            if !(200..400).contains(&status) {
                errors[nth] = Some(status);
            }
            let now = application.state()?.heap() as i64;
            left[nth].push(now - heap);
            heap = now;
        }
    }
    let mut pages = Vec::new();
    for (nth, target) in test.targets.iter().enumerate() {
        let mut seen = Cow::Borrowed(&left[nth]);
        if let Course::Grows(_) = judge(&seen) {
            // What one page keeps and another replaces would be growth of the one at each turn.
            let again = alone(&mut application, target, test.requests)?;
            let is_taken_away = taken_away(&left, nth) * 2 > left[nth].iter().sum();
            seen = Cow::Owned(match judge(&again) {
                // A cache that was full only then: its first requests count, too.
                Course::StableSince(_) if !is_taken_away => [left[nth].clone(), again].concat(),
                _ => again,
            });
        }
        let mut course = judge(&seen);
        let mut holders = Vec::new();
        if let Course::Grows(by) = course {
            let grown;
            (holders, grown) = look_for_holders(&mut application, target)?;
            // A cache that was full by then.
            if (grown as f64) < by.low * LOOKS as f64 / 2.0 {
                (holders, course) = (Vec::new(), Course::Unclear);
            }
        }
        let left = seen.iter().sum();
        pages.push(Page { target: target.clone(), left, course, holders, error: errors[nth] });
    }
    Ok(pages)
}

/// Bytes that requests of all pages but this one have taken away.
fn taken_away(left: &[Vec<i64>], page: usize) -> i64 {
    let others = left.iter().enumerate().filter(|(nth, _)| *nth != page);
    others.flat_map(|(_, left)| left).map(|bytes| (-bytes).max(0)).sum()
}

/// What each request of this page leaves in memory while no other page is requested.
fn alone(
    application: &mut Application,
    target: &str,
    requests: usize,
) -> Result<Vec<i64>, Failure> {
    let mut heap = application.state()?.heap() as i64;
    let mut left = Vec::with_capacity(requests);
    for _ in 0..requests {
        application.answer(target)?;
        let now = application.state()?.heap() as i64;
        left.push(now - heap);
        heap = now;
    }
    Ok(left)
}

/// What grows with each request of this page alone, by the names that PHP reaches it by, and the
/// bytes by which memory has grown.
fn look_for_holders(
    application: &mut Application,
    target: &str,
) -> Result<(Vec<Finding>, i64), Failure> {
    let before = application.state()?;
    let mut rounds = Vec::new();
    for _ in 0..LOOKS {
        application.answer(target)?;
        rounds.push(application.state()?);
    }
    let last = rounds.last().unwrap_or(&before);
    let grown = last.heap() as i64 - before.heap() as i64;
    let mut found = compare::leaks(&before, &rounds, 1);
    found.retain(|one| one.verdict == Verdict::Grows && one.kind != MEMORY);
    found.truncate(NAMED);
    Ok((found, grown))
}

/// The pages as a table.
pub fn table(pages: &[Page], requests: usize) -> String {
    let mut text = format!("{requests} requests of each page, memory of PHP after each\n\n");
    let wide = pages.iter().map(|page| page.target.chars().count()).max().unwrap_or(0);
    for page in pages {
        let course = match page.course {
            Course::Grows(by) => {
                format!("grows by {:.0} B a request ({:.0} to {:.0})", by.slope, by.low, by.high)
            }
            Course::StableSince(1) => "stable from the first request on".into(),
            Course::StableSince(nth) => {
                format!("stable since request {nth}, after {} B", page.left)
            }
            Course::Unclear => format!("unclear: {} B in all; try more --requests", page.left),
        };
        let _ = writeln!(text, "  {:wide$}  {course}", page.target);
        for held in &page.holders {
            let name = if held.path.is_empty() { &held.kind } else { &held.path };
            let _ = writeln!(text, "  {:wide$}    by {} {name}", "", kind_of(held));
        }
        if let (Course::Grows(_), true) = (page.course, page.holders.is_empty()) {
            let _ = writeln!(text, "  {:wide$}    by nothing that PHP reaches: an extension", "");
        }
        if let Some(status) = page.error {
            let _ = writeln!(text, "  {:wide$}    note: it was answered with {status}", "");
        }
    }
    text
}

fn kind_of(held: &Finding) -> String {
    format!("{:.0} B a request in {}:", held.per_request, held.kind)
}

/// One object for programs.
pub fn json(pages: &[Page], requests: usize) -> String {
    let page = |page: &Page| {
        let holders: Vec<Value> = page
            .holders
            .iter()
            .map(
                |one| object!({"kind": one.kind, "name": one.path, "per_request": one.per_request}),
            )
            .collect();
        let (verdict, by, since) = match page.course {
            Course::Grows(by) => ("grows", Some(by), None),
            Course::StableSince(nth) => ("stable", None, Some(nth)),
            Course::Unclear => ("unclear", None, None),
        };
        object!({
            "target": page.target,
            "verdict": verdict,
            "bytes": page.left,
            "per_request": by.map(|by| by.slope),
            "per_request_low": by.map(|by| by.low),
            "per_request_high": by.map(|by| by.high),
            "stable_since": since,
            "held_by": holders,
            "error": page.error,
        })
    };
    let pages: Vec<Value> = pages.iter().map(page).collect();
    format!("{}\n", object!({"requests": requests, "pages": pages}))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_that_leaves_nothing_is_stable_from_the_first_request() {
        assert_eq!(judge(&[0; 100]), Course::StableSince(1));
        assert_eq!(judge(&[64, -64].repeat(50)), Course::StableSince(1));
        assert_eq!(judge(&[]), Course::Unclear);
    }

    #[test]
    fn a_cache_is_stable_when_it_is_full() {
        let mut left = vec![2000; 49];
        left.extend([0; 100]);
        assert_eq!(judge(&left), Course::StableSince(49));
    }

    #[test]
    fn memory_that_goes_up_and_down_is_stable_when_it_was_at_its_most() {
        let filled_and_emptied = [5000, 5000, 5000, -15_000];
        assert_eq!(judge(&filled_and_emptied.repeat(20)), Course::StableSince(3));
    }

    proptest! {
        #[test]
        fn memory_that_is_given_back_is_no_growth(
            left in prop::collection::vec(-30_000..=0i64, 20..200)
        ) {
            prop_assert_eq!(judge(&left), Course::StableSince(1));
        }

        #[test]
        fn a_leak_has_its_size_among_tables_that_double(
            bytes in 100..5000i64, count in 40..200usize, page in 0..3i64
        ) {
            // An array takes a larger table now and then; other pages leave noise.
            let left: Vec<i64> = (0..count)
                .map(|nth| {
                    let grows = if (nth + 1).is_power_of_two() { 16 * nth as i64 } else { 0 };
                    bytes + grows + if nth % 2 == 0 { page } else { -page }
                })
                .collect();
            let Course::Grows(found) = judge(&left) else { panic!("{left:?}") };
            prop_assert!((found.slope - bytes as f64).abs() < 40.0, "{found:?} for {bytes}");
            prop_assert!(found.low <= found.slope && found.slope <= found.high);
        }

        #[test]
        fn noise_is_no_leak_of_its_own_size(noise in prop::collection::vec(-300..300i64, 60..200)) {
            // Each request leaves what the next one of its length takes away.
            let left: Vec<i64> = noise.windows(2).map(|two| two[1] - two[0]).collect();
            prop_assert!(!matches!(judge(&left), Course::Grows(by) if by.slope > 40.0));
        }
    }
}
