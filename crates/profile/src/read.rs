//! What the sampler of a site writes, see `crates/php/src/sampler.rs`. Workers run other people's
//! code as the user that the sampler has, so each number is checked, and names may be shown on a
//! terminal.

use std::time::Duration;

use tokamak_observe::text::for_terminal;

use crate::profile::{Call, Profile, Sample};

/// Reads the profile of a site.
///
/// # Errors
/// Fails if it is not whole or has a line that no sampler writes.
pub fn read(site: &str, text: &str) -> Result<Profile, String> {
    let mut profile = Profile::default();
    let mut urls = Vec::new();
    let mut is_whole = false;
    for line in text.lines() {
        let known = match line.split_once('\t') {
            Some(("period", nanoseconds)) => nanoseconds
                .parse()
                .map(|nanoseconds| profile.period = Duration::from_nanos(nanoseconds))
                .is_ok(),
            Some(("url", url)) => {
                urls.push(for_terminal(url).into_owned());
                true
            }
            Some(("call", columns)) => call(columns).map(|call| profile.calls.push(call)).is_some(),
            Some(("stack", columns)) => stack(site, columns, &urls, profile.calls.len())
                .map(|sample| profile.samples.push(sample))
                .is_some(),
            Some(("end", columns)) => {
                is_whole = end(columns, &mut profile).is_some();
                is_whole
            }
            _ => false,
        };
        if !known {
            let line = for_terminal(line);
            return Err(format!("the profile has a line that makes no sense: {line}"));
        }
    }
    if is_whole { Ok(profile) } else { Err("the profile is not whole".into()) }
}

fn call(columns: &str) -> Option<Call> {
    let mut columns = columns.split('\t');
    let (name, file, line) = (columns.next()?, columns.next()?, columns.next()?);
    let (name, file) = (for_terminal(name).into_owned(), for_terminal(file).into_owned());
    Some(Call { name, file, line: line.parse().ok()? })
}

fn stack(site: &str, columns: &str, urls: &[String], most: usize) -> Option<Sample> {
    let mut columns = columns.split('\t');
    let mut next = || columns.next();
    let pid = next()?.parse().ok()?;
    let url = urls.get(next()?.parse::<usize>().ok()?)?;
    let (wall, cpu) = (count(next()?)?, count(next()?)?);
    // The innermost first, as they were read.
    let call = |number: &str| number.parse().ok().filter(|number| *number < most);
    let calls = next()?.split_whitespace().rev().map(call).collect::<Option<Vec<usize>>>()?;
    Some(Sample { site: site.to_owned(), pid, url: url.clone(), calls, wall, cpu })
}

/// Of these so many can be added that there is no overflow.
fn count(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().map(u64::from)
}

fn end(columns: &str, profile: &mut Profile) -> Option<()> {
    let mut numbers = columns.split('\t').map(count);
    profile.ticks = numbers.next()??;
    profile.late = numbers.next()??;
    profile.torn = numbers.next()??;
    profile.lost = numbers.next()??;
    profile.periods = profile.ticks + profile.late;
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page that computes in one of two functions, and waits.
    pub(crate) const TEXT: &str = "period\t10000000\n\
        url\t/a\nurl\t/b\n\
        call\t\t/srv/index.php\t1\ncall\tApp::hot\t/srv/app.php\t7\ncall\tusleep\t\t0\n\
        call\tApp\\{closure}\t/srv/app.php\t9\n\
        stack\t7\t0\t8\t8\t1 0 \nstack\t7\t1\t2\t0\t2 3 0 \nstack\t8\t0\t1\t1\t\n\
        end\t11\t1\t2\t3\n";

    #[test]
    fn what_a_sampler_writes_is_read() {
        let profile = read("default", TEXT).unwrap();
        assert_eq!(profile.period, Duration::from_millis(10));
        assert_eq!((profile.ticks, profile.late, profile.torn, profile.lost), (11, 1, 2, 3));
        assert_eq!(profile.samples[1].calls, [0, 3, 2]);
        assert_eq!((profile.samples[1].url.as_str(), profile.samples[1].pid), ("/b", 7));
        assert_eq!(
            profile.to_string(),
            "11 samples in 11 looks, 9 of them on a processor, 1 late, 2 torn, 3 lost"
        );
    }

    #[test]
    fn sites_are_sampled_at_the_same_time() {
        let mut both = read("default", TEXT).unwrap();
        both.join(read("other", &TEXT.replace("end\t11\t1", "end\t9\t2")).unwrap());
        assert_eq!((both.ticks, both.late, both.periods), (20, 3, 12));
    }

    #[test]
    fn samples_beyond_the_limit_of_paths_are_counted() {
        let profile = read("default", &TEXT.replace("url\t/b", "url\t(other paths)")).unwrap();
        assert!(profile.to_string().ends_with("3 lost, 2 of more paths than are told apart"));
    }

    #[test]
    fn no_name_gives_orders_to_a_terminal() {
        let text = TEXT.replace("App::hot", "A\u{9b}2J").replace("/a\n", "/\x1b[2J\n");
        let text = text.replace("/srv/app.php", "/srv/\u{202e}php.ppa");
        let profile = read("default", &text).unwrap();
        assert_eq!(profile.calls[1].name, "A?2J");
        assert_eq!(profile.calls[1].file, "/srv/?php.ppa");
        assert_eq!(profile.samples[0].url, "/?[2J");
        assert!(read("default", "\u{9d}0;x\n").unwrap_err().ends_with("no sense: ?0;x"));
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused() {
        let cut = TEXT.split_inclusive('\n').scan(String::new(), |text, line| {
            let before = text.clone();
            text.push_str(line);
            Some(before)
        });
        for text in cut {
            assert!(read("default", &text).unwrap_err().ends_with("is not whole"), "{text}");
        }
        for (from, to) in [
            ("1 0 \n", "1 4 \n"),
            ("1 0 \n", "1 -1 \n"),
            ("stack\t7\t0", "stack\t7\t2"),
            ("period\t1", "period\tx"),
            ("\t8\t8\t", "\t4294967296\t8\t"),
            ("end\t11", "end\t"),
            ("url\t/a", "path\t/a"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert!(read("default", &text).unwrap_err().contains("makes no sense"), "{text}");
        }
    }
}
