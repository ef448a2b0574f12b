//! `Cache-Control` for certain caches alone (RFC 9213): fields with structured values, read
//! strictly.

use http::HeaderName;
use http::header::HeaderMap;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::directives::Directives;

/// The field for this cache alone; it is not sent to clients.
pub const OWN_CONTROL: HeaderName = HeaderName::from_static("tokamak-cache-control");

/// The fields that this cache respects; only the first valid one of them counts.
const TARGETS: [HeaderName; 2] = [OWN_CONTROL, HeaderName::from_static("cdn-cache-control")];

/// Directives whose argument is a number of seconds.
const TIMES: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];

/// The directives of a response for caches like this one. If it has some, `Cache-Control` and
/// `Expires` do not count.
pub(crate) fn of(headers: &HeaderMap) -> Option<Directives> {
    TARGETS.iter().find_map(|name| read(headers, name))
}

/// `None`: the field is missing, empty or invalid, so it is ignored (RFC 9213 section 2.2).
fn read(headers: &HeaderMap, name: &HeaderName) -> Option<Directives> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    let dictionary: Dictionary = Parser::new(&lines.join(&b", "[..])).parse().ok()?;
    let mut directives = Directives::default();
    for (name, entry) in &dictionary {
        let name = name.as_str();
        let item = match entry {
            ListEntry::Item(item) => Some(&item.bare_item),
            ListEntry::InnerList(_) => None,
        };
        if TIMES.contains(&name) && !matches!(item, Some(BareItem::Integer(_))) {
            return None;
        }
        let argument = match item {
            Some(BareItem::Boolean(false)) => continue,
            Some(BareItem::Integer(number)) => Some(number.to_string()),
            _ => None,
        };
        directives.add(name.as_bytes(), argument.as_deref().map(str::as_bytes));
    }
    (!dictionary.is_empty()).then_some(directives)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::headers;

    #[test]
    fn the_first_right_one_counts() {
        let none = Directives::default();
        let fresh = |seconds| Some(Directives { max_age: Some(seconds), ..none });
        for (fields, expected) in [
            (&[][..], None),
            (&["Cache-Control: max-age=60"], None),
            (&["CDN-Cache-Control: max-age=60"], fresh(60)),
            (&["CDN-Cache-Control: max-age=60;a=b, x=(1 2), y=:YQ==:"], fresh(60)),
            (&["CDN-Cache-Control: max-age=9, max-age=60"], fresh(60)),
            (&["CDN-Cache-Control: max-age=999999999999"], fresh(1 << 31)),
            (&["CDN-Cache-Control: max-age=-1"], fresh(0)),
            (&["CDN-Cache-Control: none"], Some(none)),
            (&["CDN-Cache-Control: no-store=?0"], Some(none)),
            (&["CDN-Cache-Control: no-store"], Some(Directives { no_store: true, ..none })),
            (&["CDN-Cache-Control: private=\"a\""], Some(Directives { private: true, ..none })),
            (&["CDN-Cache-Control: a", "CDN-Cache-Control: max-age=60"], fresh(60)),
            (&["CDN-Cache-Control: "], None),
            (&["CDN-Cache-Control: MaX-age=60"], None),
            (&["CDN-Cache-Control: max-age"], None),
            (&["CDN-Cache-Control: max-age=60.0"], None),
            (&["CDN-Cache-Control: max-age=\"60\""], None),
            (&["CDN-Cache-Control: max-age=(60)"], None),
            (&["CDN-Cache-Control: max-age= 60"], None),
            (&["CDN-Cache-Control: max-age=60, &"], None),
            (&["CDN-Cache-Control: max-age=60,"], None),
            (&["CDN-Cache-Control: max-age=60", "Tokamak-Cache-Control: max-age=5"], fresh(5)),
            (&["CDN-Cache-Control: max-age=60", "Tokamak-Cache-Control: max-age=x"], fresh(60)),
            (&["Other-Cache-Control: max-age=60"], None),
        ] {
            assert_eq!(of(&headers(fields)), expected, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_harms(value in "[ -~]{0,80}") {
            of(&headers(&[&format!("CDN-Cache-Control: {value}")]));
        }
    }
}
