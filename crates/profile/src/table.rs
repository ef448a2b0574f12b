//! The functions that most time is spent in, as a table for people.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::profile::{Clock, OUTSIDE, Profile};

/// Rows of the table: a screen's height.
const ROWS: usize = 20;

/// How often a function was the innermost, and how often it was there at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub own: u64,
    pub all: u64,
}

/// The hottest functions, the one with most time of its own first.
pub fn table(profile: &Profile, clock: Clock) -> String {
    let total = profile.total(clock);
    let mut text = format!("{profile}\n");
    if total == 0 {
        text.push_str("no request was under way; send some while the profile is taken\n");
        return text;
    }
    let shares = shares(profile, clock);
    let percent = |count: u64| count as f64 * 100.0 / total as f64;
    let _ = writeln!(text, "\n   OWN     ALL   FUNCTION ({})", clock.name());
    for name in hottest(&shares, |share| share.own) {
        let Share { own, all } = shares[name];
        let _ = writeln!(text, "{:5.1} %  {:5.1} %  {name}", percent(own), percent(all));
    }
    text
}

/// Those with most time of this kind, the hottest first.
pub(crate) fn hottest(shares: &BTreeMap<String, Share>, by: fn(&Share) -> u64) -> Vec<&str> {
    let mut rows: Vec<_> = shares.iter().collect();
    rows.sort_by_key(|(name, share)| (Reverse((by(share), share.own, share.all)), *name));
    rows.into_iter().take(ROWS).map(|(name, _)| &name[..]).collect()
}

pub(crate) fn shares(profile: &Profile, clock: Clock) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.count(clock) > 0) {
        let labels = profile.labels(sample, &[]);
        let own = labels.last().map_or(OUTSIDE, AsRef::as_ref);
        shares.entry(own.to_owned()).or_default().own += sample.count(clock);
        // A function that calls itself is there once.
        for label in labels.iter().collect::<BTreeSet<_>>() {
            shares.entry(label.to_string()).or_default().all += sample.count(clock);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{read, tests::TEXT};

    #[test]
    fn own_time_and_all_time_are_apart() {
        let text = table(&read("default", TEXT).unwrap(), Clock::Wall);
        let rows: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(
            rows,
            [
                " 72.7 %   72.7 %  App::hot",
                " 18.2 %   18.2 %  usleep",
                "  9.1 %    9.1 %  (no PHP call)",
                "  0.0 %   90.9 %  /srv/index.php",
                "  0.0 %   18.2 %  App\\{closure:app.php:9}",
            ]
        );
    }

    #[test]
    fn a_function_that_calls_itself_is_counted_once() {
        let text = TEXT.replace("\t1 0 \n", "\t1 1 1 0 \n");
        let text = table(&read("default", &text).unwrap(), Clock::Wall);
        assert!(text.contains(" 72.7 %   72.7 %  App::hot\n"), "{text}");
    }

    #[test]
    fn nothing_under_way_is_said() {
        let text = table(&Profile::default(), Clock::Cpu);
        assert!(text.contains("no request was under way"), "{text}");
    }
}
