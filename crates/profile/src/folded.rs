//! A line for each stack, as `flamegraph.pl`, speedscope and others read it: the calls, the
//! outermost first, with semicolons between them, then a blank and the number of samples.

use std::collections::BTreeMap;

use crate::profile::{By, Clock, Profile};

/// The stacks in the order of the alphabet.
pub fn folded(profile: &Profile, clock: Clock, by: &[By]) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.count(clock) > 0) {
        // A file may have any name.
        let labels: Vec<_> =
            profile.labels(sample, by).iter().map(|label| label.replace(';', ":")).collect();
        *stacks.entry(labels.join(";")).or_default() += sample.count(clock);
    }
    stacks.into_iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{read, tests::TEXT};

    #[test]
    fn stacks_are_lines() {
        let profile = read("default", TEXT).unwrap();
        assert_eq!(
            folded(&profile, Clock::Wall, &[]),
            "(no PHP call) 1\n\
             /srv/index.php;App::hot 8\n\
             /srv/index.php;App\\{closure:app.php:9};usleep 2\n"
        );
        assert_eq!(
            folded(&profile, Clock::Cpu, &[By::Url, By::Worker]),
            "/a;worker 7;/srv/index.php;App::hot 8\n/a;worker 8;(no PHP call) 1\n"
        );
    }

    #[test]
    fn no_name_adds_a_call_or_a_line() {
        let text = TEXT.replace("App::hot", "a;b 5");
        let profile = read("default", &text).unwrap();
        let folded = folded(&profile, Clock::Wall, &[]);
        assert!(folded.contains("/srv/index.php;a:b 5 8\n"), "{folded}");
        assert_eq!(folded.lines().count(), 3);
    }
}
