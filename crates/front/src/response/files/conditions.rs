//! Evaluates conditional requests (RFC 9110, 13).

use std::time::{Duration, UNIX_EPOCH};

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName};

use super::OpenFile;

/// Last second that an HTTP date can name: the end of the year 9999.
const LAST: i64 = 253_402_300_799;

/// The validators that distinguish versions of a file.
#[derive(Debug)]
pub(super) struct Validators {
    /// `ETag`, as nginx makes it: the time of change and the length in hexadecimal.
    pub(super) etag: String,
    pub(super) last_modified: String,
    modified: u64,
}

/// The result of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Go,
    NotModified,
    Failed,
}

impl Validators {
    /// The coding is part of the tag: two representations never share one, even with equal length
    /// and time.
    pub(super) fn of(found: &OpenFile, coding: Option<&str>) -> Validators {
        let modified = found.modified.clamp(0, LAST) as u64;
        let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding));
        Validators {
            etag: format!("\"{:x}-{:x}{dash}{coding}\"", found.modified, found.len),
            last_modified: httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(modified)),
            modified,
        }
    }
}

/// Evaluates the conditions of a GET or HEAD, in the order of RFC 9110, 13.2.2.
pub(super) fn evaluate(validators: &Validators, request: &HeaderMap) -> Condition {
    if request.contains_key(IF_MATCH) {
        if !names(request, IF_MATCH, |tag| tag == validators.etag) {
            return Condition::Failed;
        }
    } else if let Some(date) = date(request, IF_UNMODIFIED_SINCE)
        && validators.modified > date
    {
        return Condition::Failed;
    }
    let is_known = is_known(Some(&validators.etag), Some(&validators.last_modified), request);
    if is_known { Condition::NotModified } else { Condition::Go }
}

/// Whether the client of a GET or HEAD has the current version already.
pub fn is_known(etag: Option<&str>, last_modified: Option<&str>, request: &HeaderMap) -> bool {
    // The weak comparison, because a cache may have made the tag weak when it compressed the
    // response.
    fn strong(tag: &str) -> &str {
        tag.strip_prefix("W/").unwrap_or(tag)
    }
    if request.contains_key(IF_NONE_MATCH) {
        return names(request, IF_NONE_MATCH, |tag| {
            etag.is_some_and(|etag| strong(etag) == strong(tag))
        });
    }
    let Some(since) = date(request, IF_MODIFIED_SINCE) else { return false };
    last_modified.and_then(seconds).is_some_and(|modified| modified <= since)
}

/// Whether a range may be sent. Not if `If-Range` shows that the client has a part of another
/// version.
pub fn is_range_wanted(
    etag: Option<&str>,
    last_modified: Option<&str>,
    request: &HeaderMap,
) -> bool {
    let Some(value) = request.get(IF_RANGE) else { return true };
    match value.to_str() {
        Ok(tag) if tag.starts_with('"') => etag == Some(tag),
        // A date must be exactly the one that was sent.
        Ok(date) => last_modified == Some(date),
        Err(_) => false,
    }
}

/// Whether a list of entity tags is `*` or has one that fits.
fn names(request: &HeaderMap, name: HeaderName, fits: impl Fn(&str) -> bool) -> bool {
    request.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|list| {
        if list.trim() == "*" {
            return true;
        }
        let mut rest = list;
        // A tag may contain commas, so the list is split at the quotes.
        while let Some(open) = rest.find('"') {
            let Some(close) = rest[open + 1..].find('"').map(|at| open + 1 + at) else { break };
            let start = if rest[..open].ends_with("W/") { open - 2 } else { open };
            if fits(&rest[start..=close]) {
                return true;
            }
            rest = &rest[close + 1..];
        }
        false
    })
}

/// The date of a header in seconds of Unix time. An invalid date counts as absent.
fn date(request: &HeaderMap, name: HeaderName) -> Option<u64> {
    seconds(request.get(name)?.to_str().ok()?)
}

fn seconds(date: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(date).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validators() -> Validators {
        Validators {
            etag: "\"a-b\"".into(),
            last_modified: "Fri, 20 Nov 2026 12:00:00 GMT".into(),
            modified: 1_795_176_000,
        }
    }

    fn headers(lines: &[&str]) -> HeaderMap {
        let pair = |line: &&str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
        };
        lines.iter().map(pair).collect()
    }

    #[test]
    fn conditions_have_an_order() {
        use Condition::*;
        const SAME: &str = "Fri, 20 Nov 2026 12:00:00 GMT";
        const OLDER: &str = "Fri, 20 Nov 2026 11:59:59 GMT";
        for (lines, verdict) in [
            (vec![], Go),
            (vec!["If-None-Match: \"a-b\""], NotModified),
            (vec!["If-None-Match: W/\"a-b\""], NotModified),
            (vec!["If-None-Match: *"], NotModified),
            (vec!["If-None-Match: \"x,y\", \"a-b\""], NotModified),
            (vec!["If-None-Match: \"x\"", "If-None-Match: \"a-b\""], NotModified),
            (vec!["If-None-Match: \"x\""], Go),
            (vec!["If-None-Match: a-b"], Go),
            (vec!["If-None-Match: \"a-b"], Go),
            (vec!["If-Match: \"a-b\""], Go),
            (vec!["If-Match: *"], Go),
            (vec!["If-Match: W/\"a-b\""], Failed),
            (vec!["If-Match: \"x\""], Failed),
            (vec!["If-Modified-Since: Fri, 20 Nov 2026 12:00:00 GMT"], NotModified),
            (vec!["If-Modified-Since: Fri, 20 Nov 2026 11:59:59 GMT"], Go),
            (vec!["If-Modified-Since: yesterday"], Go),
            (vec!["If-Unmodified-Since: Fri, 20 Nov 2026 12:00:00 GMT"], Go),
            (vec!["If-Unmodified-Since: Fri, 20 Nov 2026 11:59:59 GMT"], Failed),
            (vec!["If-Unmodified-Since: yesterday"], Go),
            // The tag decides when there is one.
            (vec!["If-None-Match: \"x\"", &format!("If-Modified-Since: {SAME}")], Go),
            (vec!["If-Match: \"a-b\"", &format!("If-Unmodified-Since: {OLDER}")], Go),
            // Both pairs are asked.
            (vec!["If-Match: \"a-b\"", "If-None-Match: \"a-b\""], NotModified),
            (vec!["If-Match: \"x\"", "If-None-Match: \"a-b\""], Failed),
            (
                vec![
                    &format!("If-Unmodified-Since: {SAME}"),
                    &format!("If-Modified-Since: {SAME}"),
                ],
                NotModified,
            ),
        ] {
            assert_eq!(evaluate(&validators(), &headers(&lines)), verdict, "{lines:?}");
        }
    }

    #[test]
    fn a_range_needs_the_very_same_file() {
        let is_wanted = |request: &HeaderMap| {
            let own = validators();
            is_range_wanted(Some(&own.etag), Some(&own.last_modified), request)
        };
        for (value, wanted) in [
            ("\"a-b\"", true),
            ("W/\"a-b\"", false),
            ("\"x\"", false),
            ("Fri, 20 Nov 2026 12:00:00 GMT", true),
            ("Fri, 20 Nov 2026 12:00:01 GMT", false),
            ("Friday, 20-Nov-26 12:00:00 GMT", false),
        ] {
            let headers = headers(&[&format!("If-Range: {value}")]);
            assert_eq!(is_wanted(&headers), wanted, "{value}");
        }
        assert!(is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn validators_stand_any_time() {
        let found = |modified| OpenFile {
            file: tempfile::tempfile().unwrap(),
            len: 255,
            modified,
            path: "x".into(),
        };
        assert_eq!(Validators::of(&found(0x10), None).etag, "\"10-ff\"");
        assert_eq!(Validators::of(&found(0x10), Some("br")).etag, "\"10-ff-br\"");
        assert_eq!(
            Validators::of(&found(i64::MIN), None).last_modified,
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
        assert_eq!(
            Validators::of(&found(i64::MAX), None).last_modified,
            "Fri, 31 Dec 9999 23:59:59 GMT"
        );
    }
}
