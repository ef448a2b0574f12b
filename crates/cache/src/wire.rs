//! The encoding of cached responses for a store that several servers share.
//!
//! The bytes in the store may be of another version, damaged, or written by any process that can
//! write there, so `decode` trusts them no more than bytes of a client.

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::codec::{Reader, Writer};
use crate::entry::{Entry, Lifetimes};
use crate::selection::Selection;

/// The first byte, which changes with the layout: a node ignores the responses of nodes with
/// another version.
const VERSION: u8 = 1;

/// A second in milliseconds.
const SECOND: u64 = 1000;

/// Flags about the lifetimes.
const MAY_BE_STALE: u8 = 1;
const IS_EXPLICIT: u8 = 2;
const IS_FOR_ALL: u8 = 4;
const IS_AGED: u8 = 8;

/// The current time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the monotonic clock of the cache's entries, in nanoseconds.
    pub now: u64,
    /// By the wall clock, which the servers have in common, in milliseconds since 1970.
    pub wall: u64,
}

/// Encodes a response.
pub fn encode(entry: &Entry, moment: Moment) -> Vec<u8> {
    let lifetimes = entry.lifetimes();
    let mut out = Writer(Vec::with_capacity(entry.cost()));
    out.0.push(VERSION);
    out.number(u64::from(entry.status.as_u16()));
    let (requested, stored) = entry.since(moment.now);
    for since in [requested, stored] {
        out.number(moment.wall.saturating_sub(since / 1_000_000));
    }
    for seconds in [lifetimes.age, lifetimes.fresh, lifetimes.while_revalidate, lifetimes.if_error]
    {
        out.number(seconds);
    }
    let bit = |is, bit| if is { bit } else { 0 };
    out.0.push(
        bit(lifetimes.may_be_stale, MAY_BE_STALE)
            | bit(lifetimes.is_explicit, IS_EXPLICIT)
            | bit(lifetimes.is_for_all, IS_FOR_ALL)
            | bit(lifetimes.is_aged, IS_AGED),
    );
    out.number(entry.headers.len() as u64);
    for (name, value) in &entry.headers {
        out.bytes(name.as_str().as_bytes());
        out.bytes(value.as_bytes());
    }
    out.bytes(&entry.selection.to_bytes());
    out.number(entry.tags.len() as u64);
    entry.tags.iter().for_each(|tag| out.bytes(tag.as_bytes()));
    out.bytes(&entry.body);
    out.0
}

/// Decodes a response with its remaining lifetime; `None` if it is invalid or no longer fresh.
pub fn decode(bytes: Bytes, moment: Moment) -> Option<Entry> {
    let mut input = Reader(bytes);
    if input.byte()? != VERSION {
        return None;
    }
    let status = StatusCode::from_u16(input.number()?.try_into().ok()?).ok()?;
    let (requested, stored) = (input.number()?, input.number()?);
    let mut next = || input.number();
    let (age, fresh, while_revalidate, if_error) = (next()?, next()?, next()?, next()?);
    let bits = input.byte()?;
    // Clocks of servers differ a little, so a time in the future is taken for now.
    let passed = moment.wall.saturating_sub(stored).div_ceil(SECOND);
    let lifetimes = Lifetimes {
        age: age.checked_add(passed)?,
        fresh: fresh.checked_sub(passed).filter(|left| *left > 0)?,
        while_revalidate,
        if_error,
        may_be_stale: bits & MAY_BE_STALE != 0,
        is_explicit: bits & IS_EXPLICIT != 0,
        is_for_all: bits & IS_FOR_ALL != 0,
        is_aged: bits & IS_AGED != 0,
    };
    let mut headers = HeaderMap::new();
    for _ in 0..input.count()? {
        let (name, value) = (input.bytes()?, input.bytes()?);
        let value = HeaderValue::from_maybe_shared(value).ok()?;
        headers.append(HeaderName::from_bytes(&name).ok()?, value);
    }
    let selection = Selection::from_bytes(input.bytes()?)?;
    let mut tags = Vec::new();
    for _ in 0..input.count()? {
        tags.push(str::from_utf8(&input.bytes()?).ok()?.into());
    }
    let body = input.bytes()?;
    if !input.0.is_empty() {
        return None;
    }
    let since = moment.wall.saturating_sub(requested).saturating_mul(1_000_000);
    let entry = Entry::new((status, headers, body), selection, tags, lifetimes, moment.now);
    Some(entry.requested_at(moment.now.saturating_sub(since)))
}

#[cfg(test)]
mod tests {
    use http::header::{ETAG, SET_COOKIE, VARY};
    use proptest::prelude::*;

    use super::*;

    fn moment(seconds: u64) -> Moment {
        Moment { now: (5000 + seconds) * 1_000_000_000, wall: 1_700_000_000_000 + seconds * SECOND }
    }

    fn entry() -> Entry {
        let mut headers = HeaderMap::new();
        headers.append(ETAG, HeaderValue::from_static("\"a\""));
        headers.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        headers.append(SET_COOKIE, HeaderValue::from_static("b=2"));
        let request = HeaderMap::from_iter([
            (http::header::ACCEPT_LANGUAGE, HeaderValue::from_static("de")),
            (HeaderName::from_static("x-forwarded-host"), HeaderValue::from_static("a")),
        ]);
        let vary = HeaderMap::from_iter([(
            VARY,
            HeaderValue::from_static("accept-language, accept-encoding"),
        )]);
        let selection = Selection::of(&request, &vary).unwrap();
        let lifetimes = Lifetimes {
            age: 7,
            fresh: 60,
            while_revalidate: 10,
            if_error: 100,
            may_be_stale: true,
            is_explicit: true,
            is_for_all: false,
            is_aged: true,
        };
        let parts = (StatusCode::NOT_FOUND, headers, Bytes::from_static(b"gone\0"));
        Entry::new(parts, selection, vec!["one".into(), "zwei ü".into()], lifetimes, moment(0).now)
    }

    fn read(bytes: &[u8], moment: Moment) -> Option<Entry> {
        decode(Bytes::copy_from_slice(bytes), moment)
    }

    #[test]
    fn a_decoded_response_has_the_rest_of_its_lifetime() {
        let bytes = encode(&entry(), moment(2));
        // Another machine's clock of entries has begun elsewhere.
        let there = Moment { now: 3_000_000_000, ..moment(10) };
        let entry = read(&bytes, there).expect("it is fresh");
        assert_eq!((entry.status.as_u16(), &entry.body[..]), (404, &b"gone\0"[..]));
        assert_eq!((entry.age(there.now), entry.ttl(there.now)), (17, 50));
        assert_eq!(entry.headers.get_all(SET_COOKIE).iter().count(), 2);
        assert_eq!(entry.selection, self::entry().selection);
        assert_eq!(entry.tags, self::entry().tags);
        assert!(entry.admits(true, false) && !entry.admits(true, true) && entry.is_aged());
        assert_eq!(encode(&entry, there).len(), bytes.len());
    }

    #[test]
    fn a_stale_response_is_not_decoded() {
        let bytes = encode(&entry(), moment(0));
        assert!(read(&bytes, moment(59)).is_some());
        assert!(read(&bytes, moment(60)).is_none());
        assert!(read(&bytes, Moment { now: 0, wall: u64::MAX }).is_none());
        let early = read(&bytes, Moment { wall: moment(0).wall - 5 * SECOND, ..moment(0) });
        assert_eq!(early.expect("clocks differ").ttl(moment(0).now), 60);
    }

    #[test]
    fn other_versions_and_truncated_bytes_are_not_decoded() {
        let bytes = encode(&entry(), moment(0));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], moment(0)).is_none(), "{length} bytes");
        }
        assert!(read(&[&bytes[..], b"x"].concat(), moment(0)).is_none());
        let other = [&[VERSION + 1], &bytes[1..]].concat();
        assert!(read(&other, moment(0)).is_none());
    }

    proptest! {
        #[test]
        fn damaged_bytes_do_no_harm(place in 0usize..600, byte: u8) {
            let mut bytes = encode(&entry(), moment(0));
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Some(entry) = read(&bytes, moment(0)) {
                prop_assert!(entry.body.len() <= bytes.len());
            }
        }

        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            read(&[&[VERSION], &bytes[..]].concat(), moment(0));
        }
    }
}
