//! `Cache-Control` as both sides send it (RFC 9111 section 5.2, RFC 5861), read into numbers and
//! flags.

use http::header::{CACHE_CONTROL, HeaderMap, PRAGMA};

/// More seconds than any cache lives (RFC 9111 section 1.2.2).
pub(crate) const FOREVER: u64 = 1 << 31;

/// The directives of a message. If one is there twice, the stricter value counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Do not store it.
    pub no_store: bool,
    /// Revalidate before each use. With field names it means the same here, which is stricter.
    pub no_cache: bool,
    /// For one user only. With field names it means the same here, which is stricter.
    pub private: bool,
    /// For all users, also if the request had credentials.
    pub public: bool,
    /// Never stale.
    pub must_revalidate: bool,
    /// Never stale from a shared cache.
    pub proxy_revalidate: bool,
    /// Answer from the cache or not at all.
    pub only_if_cached: bool,
    /// In a response: seconds for which it is fresh. In a request: the age that is accepted.
    pub max_age: Option<u64>,
    /// Seconds that it is fresh in a shared cache.
    pub s_maxage: Option<u64>,
    /// Seconds that it must stay fresh.
    pub min_fresh: Option<u64>,
    /// Seconds that it may be stale.
    pub max_stale: Option<u64>,
    /// Seconds that it may be stale while it is fetched anew.
    pub stale_while_revalidate: Option<u64>,
    /// Seconds that it may be stale if it cannot be fetched.
    pub stale_if_error: Option<u64>,
}

impl Directives {
    /// Reads the header fields. `Pragma: no-cache` counts where there is no `Cache-Control`.
    pub fn of(headers: &HeaderMap) -> Directives {
        let mut all = Directives::default();
        let mut is_said = false;
        for value in headers.get_all(CACHE_CONTROL) {
            is_said = true;
            each(value.as_bytes(), |name, argument| all.add(name, argument));
        }
        if !is_said && let Some(pragma) = headers.get(PRAGMA) {
            each(pragma.as_bytes(), |name, _| {
                all.no_cache |= name.eq_ignore_ascii_case(b"no-cache")
            });
        }
        all
    }

    /// Adds a directive.
    pub(crate) fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let least = |old: &mut Option<u64>| {
            let new = seconds(argument);
            *old = Some(old.map_or(new, |old| old.min(new)));
        };
        match name.to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => least(&mut self.max_age),
            b"s-maxage" => least(&mut self.s_maxage),
            // Here the larger number is the stricter one.
            b"min-fresh" => self.min_fresh = self.min_fresh.max(Some(seconds(argument))),
            // Without a number a response of any age is accepted.
            b"max-stale" if argument.is_none() => self.max_stale = self.max_stale.or(Some(FOREVER)),
            b"max-stale" => least(&mut self.max_stale),
            b"stale-while-revalidate" => least(&mut self.stale_while_revalidate),
            b"stale-if-error" => least(&mut self.stale_if_error),
            _ => {}
        }
    }
}

/// A number of seconds; an invalid one counts as 0 (RFC 9111 section 4.2.1).
pub(crate) fn seconds(argument: Option<&[u8]>) -> u64 {
    let digits = argument.unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    digits.iter().fold(0, |sum: u64, digit| (sum * 10 + u64::from(digit - b'0')).min(FOREVER))
}

/// Calls `each` with the directives of a field. Commas within quotes do not separate.
fn each<'a>(value: &'a [u8], mut each: impl FnMut(&'a [u8], Option<&'a [u8]>)) {
    let mut is_quoted = false;
    let parts = value.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    for part in parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
        match part.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                let argument = part[at + 1..].trim_ascii();
                let argument = argument
                    .strip_prefix(b"\"")
                    .map_or(argument, |rest| rest.strip_suffix(b"\"").unwrap_or(rest));
                each(part[..at].trim_ascii(), Some(argument));
            }
            None => each(part, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Directives {
        let values = values.iter().map(|value| (CACHE_CONTROL, value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            let value: HeaderValue = value;
            headers.append(name, value);
        }
        Directives::of(&headers)
    }

    #[test]
    fn directives_are_read() {
        let none = Directives::default();
        for (values, expected) in [
            (&[][..], none),
            (&["max-age=60"], Directives { max_age: Some(60), ..none }),
            (&["Max-Age=\"60\" , PUBLIC"], Directives { max_age: Some(60), public: true, ..none }),
            (&["max-age=60", "max-age=5"], Directives { max_age: Some(5), ..none }),
            (&["max-age=x"], Directives { max_age: Some(0), ..none }),
            (&["max-age=-1"], Directives { max_age: Some(0), ..none }),
            (&["max-age"], Directives { max_age: Some(0), ..none }),
            (&["max-age=99999999999999999999"], Directives { max_age: Some(FOREVER), ..none }),
            (&["no-cache=\"a, private, b\""], Directives { no_cache: true, ..none }),
            (
                &["private=\"set-cookie\", s-maxage=1"],
                Directives { private: true, s_maxage: Some(1), ..none },
            ),
            (&["no-cache=\"open, private"], Directives { no_cache: true, ..none }),
            (&["max-stale"], Directives { max_stale: Some(FOREVER), ..none }),
            (&["max-stale, max-stale=3"], Directives { max_stale: Some(3), ..none }),
            (&["min-fresh=3,min-fresh=5"], Directives { min_fresh: Some(5), ..none }),
            (&[", ,no-transform,, immutable"], none),
        ] {
            assert_eq!(read(values), expected, "{values:?}");
        }
    }

    #[test]
    fn pragma_counts_by_itself() {
        let pragma = (PRAGMA, HeaderValue::from_static("no-cache"));
        assert!(Directives::of(&HeaderMap::from_iter([pragma.clone()])).no_cache);
        let control = (CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
        assert!(!Directives::of(&HeaderMap::from_iter([pragma, control])).no_cache);
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_harms(value in "[ -~]{0,80}") {
            let all = read(&[&value]);
            for seconds in [all.max_age, all.s_maxage, all.stale_if_error, all.max_stale] {
                prop_assert!(seconds.is_none_or(|seconds| seconds <= FOREVER));
            }
        }

        #[test]
        fn a_directive_is_found_among_others(before in "[a-z=0-9, ]{0,30}", after in "[a-z=0-9, ]{0,30}") {
            let found = read(&[&format!("{before},no-store,{after}")]).no_store;
            prop_assert!(found);
        }
    }
}
