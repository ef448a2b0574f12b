//! Parts of a file by `Range` (RFC 9110, 14).

use bytes::Bytes;
use http::HeaderMap;
use http::header::RANGE;

use super::slices::Slice;

/// Most ranges in one request; with more the whole file is sent. Document viewers and resumed
/// downloads ask for a few ranges. Ten times more would let a small request cost many reads; a
/// tenth would send the whole file for two ranges.
const MOST: usize = 16;

/// One range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Range {
    /// The value of `Content-Range`.
    pub fn described(self, of: u64) -> String {
        format!("bytes {}-{}/{of}", self.offset, self.offset + self.len - 1)
    }
}

/// The ranges that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All of it.
    Whole,
    /// These parts; at least one.
    Some(Vec<Range>),
    /// None of the ranges is in the file.
    None,
}

/// The ranges of a request for a file with `len` bytes.
pub fn of(request: &HeaderMap, len: u64) -> Ranges {
    let mut values = request.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Ranges::Whole };
    value.to_str().ok().and_then(|value| parse(value, len)).unwrap_or(Ranges::Whole)
}

/// Parses the header's value; `None` if it is invalid and must be ignored.
fn parse(value: &str, len: u64) -> Option<Ranges> {
    let (unit, list) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut found = Vec::new();
    let mut count = 0;
    for spec in list.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        count += 1;
        let (first, last) = spec.split_once('-')?;
        let range = match (number(first)?, number(last)?) {
            (None, None) => return None,
            (None, Some(suffix)) => {
                Range { offset: len.saturating_sub(suffix), len: suffix.min(len) }
            }
            (Some(first), Some(last)) if last < first => return None,
            (Some(first), last) if first < len => {
                let last = last.unwrap_or(u64::MAX).min(len - 1);
                Range { offset: first, len: last - first + 1 }
            }
            (Some(first), _) => Range { offset: first, len: 0 },
        };
        if range.len > 0 {
            found.push(range);
        }
    }
    // Overlapping ranges could ask for many times the file, so they get the whole file instead.
    let sum: u128 = found.iter().map(|range| u128::from(range.len)).sum();
    Some(match count {
        0 => return None,
        _ if count > MOST || sum > u128::from(len) => Ranges::Whole,
        _ if found.is_empty() => Ranges::None,
        _ => Ranges::Some(found),
    })
}

/// Parses digits; `Some(None)` if they are left out. A number that is too large counts as beyond
/// any file.
fn number(digits: &str) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Some(digits.parse().unwrap_or(u64::MAX)))
}

/// Several ranges as the parts of one body.
pub(super) fn multipart(ranges: &[Range], len: u64, kind: &str, boundary: &str) -> Vec<Slice> {
    let mut parts = Vec::with_capacity(2 * ranges.len() + 1);
    for (at, range) in ranges.iter().enumerate() {
        let before = if at == 0 { "" } else { "\r\n" };
        let described = range.described(len);
        parts.push(Slice::Text(Bytes::from(format!(
            "{before}--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {described}\r\n\r\n"
        ))));
        parts.push(Slice::File { offset: range.offset, len: range.len });
    }
    parts.push(Slice::Text(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str, len: u64) -> Ranges {
        of(&HeaderMap::from_iter([(RANGE, value.parse().unwrap())]), len)
    }

    fn some(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Some(ranges.iter().map(|&(offset, len)| Range { offset, len }).collect())
    }

    #[test]
    fn ranges_are_read() {
        for (value, expected) in [
            ("bytes=0-0", some(&[(0, 1)])),
            ("bytes=0-", some(&[(0, 100)])),
            ("bytes=99-", some(&[(99, 1)])),
            ("bytes=10-19", some(&[(10, 10)])),
            ("bytes=90-999", some(&[(90, 10)])),
            ("bytes=90-99999999999999999999999", some(&[(90, 10)])),
            ("bytes=-1", some(&[(99, 1)])),
            ("bytes=-1000", some(&[(0, 100)])),
            ("Bytes = 0-1", some(&[(0, 2)])),
            ("bytes=0-1,, 5-6 ,-1", some(&[(0, 2), (5, 2), (99, 1)])),
            ("bytes=5-6,100-", some(&[(5, 2)])),
            ("bytes=100-", Ranges::None),
            ("bytes=99999999999999999999999-", Ranges::None),
            ("bytes=-0", Ranges::None),
            ("bytes=100-,200-300", Ranges::None),
            ("bytes=0-,0-", Ranges::Whole),
            ("bytes=0-99,0-0", Ranges::Whole),
            ("bytes=", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=5-4", Ranges::Whole),
            ("bytes=a-b", Ranges::Whole),
            ("bytes=+1-2", Ranges::Whole),
            ("bytes=1", Ranges::Whole),
            ("bytes=0-1,x", Ranges::Whole),
            ("lines=0-1", Ranges::Whole),
            ("0-1", Ranges::Whole),
        ] {
            assert_eq!(read(value, 100), expected, "{value}");
        }
        assert_eq!(read("bytes=0-", 0), Ranges::None);
        assert_eq!(read("bytes=-5", 0), Ranges::None);
        let many = |count: u64| {
            let list: Vec<_> = (0..count).map(|at| format!("{at}-{at}")).collect();
            read(&format!("bytes={}", list.join(",")), 100)
        };
        assert!(matches!(many(16), Ranges::Some(ranges) if ranges.len() == 16));
        assert_eq!(many(17), Ranges::Whole);
        let mut two = HeaderMap::new();
        two.append(RANGE, "bytes=0-1".parse().unwrap());
        two.append(RANGE, "bytes=2-3".parse().unwrap());
        assert_eq!(of(&two, 100), Ranges::Whole);
    }

    proptest! {
        #[test]
        fn no_range_leaves_the_file(value in "bytes=([0-9]{0,4}-[0-9]{0,4},?){0,5}", len in 0_u64..3000) {
            if let Ranges::Some(ranges) = read(&value, len) {
                for range in ranges {
                    prop_assert!(range.len > 0 && range.offset + range.len <= len, "{:?}", range);
                }
            }
        }
    }
}
