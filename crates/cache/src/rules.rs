//! Which responses may be stored, and for how long: the rules of HTTP, and the settings of the
//! operator or of a script.

use std::time::{Duration, SystemTime};

use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, DATE, ETAG, EXPIRES, HeaderMap, LAST_MODIFIED,
    PRAGMA, SET_COOKIE, TRAILER,
};
use http::{HeaderName, StatusCode};

use crate::directives::{Directives, FOREVER, seconds};
use crate::entry::Lifetimes;
use crate::{selection, targeted};

/// Statuses whose responses may be stored without directives: those that RFC 9110 section 15.1
/// calls heuristically cacheable, without 206, 405, 414 and 501, which depend on the request.
const KEPT_BY_DEFAULT: [u16; 8] = [200, 203, 204, 300, 301, 308, 404, 410];

/// Longest lifetime that a script can set, in seconds: a year, as RFC 9111 advises.
const LONGEST: u64 = 365 * 24 * 3600;

/// The operator's settings for a site or for a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// How long a response without directives is fresh; zero: it is not stored.
    pub lifetime: Duration,
    /// How long a stale response may be used while it is fetched anew, unless its directives say
    /// it.
    pub while_revalidate: Duration,
    /// How long a stale response may be used if it cannot be fetched, unless its directives say it.
    pub if_error: Duration,
    /// Whether cookies of requests are ignored.
    pub ignores_cookies: bool,
    /// Whether responses that set cookies are stored, without `Set-Cookie`.
    pub ignores_set_cookie: bool,
    /// Whether directives of responses are ignored.
    pub ignores_response: bool,
    /// Whether directives of requests are ignored.
    pub ignores_request: bool,
}

/// A script's settings for one request, which override the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The key of the response, instead of its URL.
    pub key: Option<Vec<u8>>,
    /// How long the response is fresh, whatever its directives say.
    pub lifetime: Option<Duration>,
    /// How long it may be used after that while it is fetched anew, whatever its directives say.
    pub while_revalidate: Option<Duration>,
    /// How long it may be used after that if it cannot be fetched, whatever its directives say.
    pub if_error: Option<Duration>,
    /// Responses that were requested before this time, in nanoseconds, are stale.
    pub since: Option<u64>,
    /// Tags of the response, beside its own.
    pub tags: Vec<Box<str>>,
    /// This request bypasses the cache.
    pub bypass: bool,
}

impl Overrides {
    /// No settings.
    pub const NONE: Overrides = Overrides {
        key: None,
        lifetime: None,
        while_revalidate: None,
        if_error: None,
        since: None,
        tags: Vec::new(),
        bypass: false,
    };
}

/// The properties of a request that matter to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// It has cookies, and the rules do not ignore them.
    pub has_cookies: bool,
    /// It has `Authorization`, or its connection a client certificate.
    pub has_credentials: bool,
    /// Its directives, if it has any.
    pub said: Option<Directives>,
}

impl Request {
    /// Reads header fields. `has_certificate`: whether the client has shown a certificate, on which
    /// a page may depend as on `Authorization`. `None`: the request bypasses the cache.
    pub fn of(headers: &HeaderMap, has_certificate: bool, rules: &Rules) -> Option<Request> {
        if selection::overrides_method(headers) {
            return None;
        }
        let speaks = headers.contains_key(CACHE_CONTROL) || headers.contains_key(PRAGMA);
        let said = (speaks && !rules.ignores_request).then(|| Directives::of(headers));
        Some(Request {
            has_cookies: !rules.ignores_cookies && headers.contains_key(COOKIE),
            has_credentials: has_certificate || headers.contains_key(AUTHORIZATION),
            said,
        })
    }

    /// Whether its response may be meant for one user.
    pub fn is_own(&self) -> bool {
        self.has_cookies || self.has_credentials
    }

    /// Whether it forbids storing its response.
    pub fn forbids_storing(&self) -> bool {
        self.said.is_some_and(|said| said.no_store)
    }
}

/// A response as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// When it came.
    pub at: SystemTime,
    /// How long after the request.
    pub delay: Duration,
}

/// How long the response to a request may be used. `None`: it must not be stored, or would be stale
/// at once.
pub fn storable(
    rules: &Rules,
    overrides: &Overrides,
    request: &Request,
    received: Received<'_>,
) -> Option<Lifetimes> {
    let Received { status, headers, at: now, .. } = received;
    let is_part = matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED);
    if is_part || status.is_informational() || request.forbids_storing() || overrides.bypass {
        return None;
    }
    if headers.contains_key(SET_COOKIE) && !rules.ignores_set_cookie {
        return None;
    }
    // Trailers are not stored, so such a response is not either.
    if headers.contains_key(TRAILER) {
        return None;
    }
    let speaks = !rules.ignores_response && overrides.lifetime.is_none();
    let targeted = if speaks { targeted::of(headers) } else { None };
    let said = match targeted {
        Some(said) => said,
        None if speaks => Directives::of(headers),
        None => Directives::default(),
    };
    if said.no_store || said.private {
        return None;
    }
    let own = overrides.lifetime.map(|lifetime| lifetime.as_secs().min(LONGEST));
    if own == Some(0) {
        return None;
    }
    let own = own.or(said.s_maxage).or(said.max_age);
    let own =
        own.or_else(|| if speaks && targeted.is_none() { expires(headers, now) } else { None });
    // It says itself that it may be stored; a shared cache needs that if the request had cookies.
    let is_explicit = own.is_some() || said.public || said.no_cache;
    let is_for_all = overrides.lifetime.is_some()
        || (is_explicit && (said.public || said.must_revalidate || said.s_maxage.is_some()));
    if (request.has_cookies && !is_explicit) || (request.has_credentials && !is_for_all) {
        return None;
    }
    let is_kept = own.is_some() || KEPT_BY_DEFAULT.contains(&status.as_u16());
    let fresh = if said.no_cache {
        0
    } else {
        own.unwrap_or(if is_kept { rules.lifetime.as_secs() } else { 0 })
    };
    let is_strict = said.no_cache || said.must_revalidate || said.proxy_revalidate;
    // `s-maxage` forbids stale use too, unless the same response allows it.
    let stale = |set: Option<Duration>, said_stale: Option<u64>, rule: Duration| match said_stale {
        _ if is_strict => 0,
        _ if set.is_some() => set.unwrap_or_default().as_secs(),
        Some(seconds) => seconds,
        None if said.s_maxage.is_some() => 0,
        None => rule.as_secs(),
    };
    let has_validator = headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED);
    let said_age = said_age(headers);
    let age = age(said_age, &received);
    if (fresh <= age || fresh == 0) && !(is_explicit && has_validator) {
        return None;
    }
    Some(Lifetimes {
        age,
        is_aged: said_age.is_some(),
        fresh: fresh.saturating_sub(age),
        while_revalidate: stale(
            overrides.while_revalidate,
            said.stale_while_revalidate,
            rules.while_revalidate,
        ),
        if_error: stale(overrides.if_error, said.stale_if_error, rules.if_error),
        may_be_stale: !is_strict && said.s_maxage.is_none(),
        is_explicit,
        is_for_all,
    })
}

/// How long it is fresh by its `Expires`, in seconds from its `Date`.
fn expires(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    // An invalid date lies in the past (RFC 9111 section 5.3).
    headers.get(EXPIRES)?;
    let made = date(headers, DATE).unwrap_or(now);
    let expires = date(headers, EXPIRES).and_then(|expires| expires.duration_since(made).ok());
    Some(expires.unwrap_or_default().as_secs())
}

/// The `Age` of a response: the first member of the first line counts, if it is a number (RFC 9111
/// section 5.1).
fn said_age(headers: &HeaderMap) -> Option<u64> {
    let first = headers.get(AGE)?.as_bytes().split(|byte| *byte == b',').next()?.trim_ascii();
    if first.is_empty() || !first.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(seconds(Some(first)))
}

/// How old it is already (RFC 9111 section 4.2.3). The time that the answer took counts only if it
/// came from another cache: an application is near.
fn age(said: Option<u64>, received: &Received<'_>) -> u64 {
    let date = date(received.headers, DATE);
    let apparent = date.and_then(|date| received.at.duration_since(date).ok());
    let corrected = said.map_or(0, |said| said + received.delay.as_secs());
    apparent.unwrap_or_default().as_secs().max(corrected).min(FOREVER)
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    const NOW: Duration = Duration::from_secs(1_795_176_000); // Fri, 20 Nov 2026 12:00:00 GMT

    fn ask(
        rules: &Rules,
        overrides: &Overrides,
        request: &[&str],
        status: u16,
        response: &[&str],
    ) -> Option<Lifetimes> {
        let request = Request::of(&headers(request), false, rules).unwrap();
        let received = Received {
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers(response),
            at: SystemTime::UNIX_EPOCH + NOW,
            delay: Duration::from_secs(1),
        };
        storable(rules, overrides, &request, received)
    }

    /// How long a response is fresh without rules; `None`: it is not kept.
    fn fresh(request: &[&str], status: u16, response: &[&str]) -> Option<u64> {
        ask(&Rules::default(), &Overrides::default(), request, status, response)
            .map(|lifetimes| lifetimes.fresh)
    }

    #[test]
    fn a_certificate_of_the_client_counts_as_credentials() {
        let rules = Rules { lifetime: Duration::from_secs(60), ..Rules::default() };
        let at = SystemTime::UNIX_EPOCH + NOW;
        for (has_certificate, response, is_kept) in [
            (false, &[][..], true),
            (true, &[], false),
            (true, &["Cache-Control: max-age=60"], false),
            (true, &["Cache-Control: public, max-age=60"], true),
        ] {
            let request = Request::of(&HeaderMap::new(), has_certificate, &rules).unwrap();
            assert_eq!(request.is_own(), has_certificate);
            let headers = &headers(response);
            let received = Received { status: StatusCode::OK, headers, at, delay: Duration::ZERO };
            let kept = storable(&rules, &Overrides::NONE, &request, received);
            assert_eq!(kept.is_some(), is_kept, "{has_certificate} {response:?}");
        }
    }

    #[test]
    fn responses_say_how_long_they_are_fresh() {
        const LATER: &str = "Expires: Fri, 20 Nov 2026 12:01:00 GMT";
        for (status, response, expected) in [
            (200, &[][..], None),
            (200, &["Cache-Control: max-age=60"], Some(60)),
            (200, &["Cache-Control: max-age=60, s-maxage=5"], Some(5)),
            (200, &["Cache-Control: max-age=60", "Age: 50"], Some(9)),
            (200, &["Cache-Control: max-age=60", "Age: 50, 0"], Some(9)),
            (200, &["Cache-Control: max-age=60", "Age: 0, 50"], Some(59)),
            (200, &["Cache-Control: max-age=60", "Age: 50", "Age: 0"], Some(9)),
            (200, &["Cache-Control: max-age=60", "Age: 50.0"], Some(60)),
            (200, &["Cache-Control: max-age=60", "Age: +50"], Some(60)),
            (200, &["Cache-Control: max-age=60", "Age: "], Some(60)),
            (200, &["Cache-Control: max-age=60", "Age: 99999999999999999999"], None),
            (200, &["Cache-Control: max-age=60", "CDN-Cache-Control: max-age=5"], Some(5)),
            (200, &["Cache-Control: no-store", "CDN-Cache-Control: max-age=5"], Some(5)),
            (200, &["CDN-Cache-Control: none", LATER], None),
            (200, &["Cache-Control: max-age=60", "Age: 60"], None),
            (200, &["Cache-Control: max-age=60", "Age: 60", "ETag: \"a\""], Some(0)),
            (200, &["Cache-Control: max-age=60", "Date: Fri, 20 Nov 2026 11:59:30 GMT"], Some(30)),
            (200, &["Cache-Control: max-age=60", "Date: Fri, 20 Nov 2026 13:00:00 GMT"], Some(60)),
            (200, &[LATER], Some(60)),
            (200, &[LATER, "Cache-Control: max-age=5"], Some(5)),
            (200, &[LATER, "Date: Fri, 20 Nov 2026 11:59:30 GMT"], Some(60)),
            (200, &["Expires: 0", "ETag: \"a\""], Some(0)),
            (200, &["Expires: 0"], None),
            (200, &["Cache-Control: no-store, max-age=60"], None),
            (200, &["Cache-Control: private, max-age=60"], None),
            (200, &["Cache-Control: no-cache, max-age=60"], None),
            (
                200,
                &["Cache-Control: no-cache", "Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT"],
                Some(0),
            ),
            (200, &["ETag: \"a\""], None),
            (200, &["Cache-Control: max-age=60", "Set-Cookie: a=b"], None),
            (206, &["Cache-Control: max-age=60"], None),
            (304, &["Cache-Control: max-age=60"], None),
            (302, &["Cache-Control: max-age=60"], Some(60)),
            (503, &["Cache-Control: max-age=60"], Some(60)),
        ] {
            assert_eq!(fresh(&[], status, response), expected, "{status} {response:?}");
        }
    }

    #[test]
    fn requests_of_somebodys_own() {
        for (request, response, expected) in [
            (&["Cookie: a=b"][..], &["Cache-Control: max-age=60"][..], Some(60)),
            (&["Authorization: Basic x"], &["Cache-Control: max-age=60"], None),
            (&["Authorization: Basic x"], &["Cache-Control: max-age=60, public"], Some(60)),
            (&["Authorization: Basic x"], &["Cache-Control: s-maxage=60"], Some(60)),
            (
                &["Authorization: Basic x"],
                &["Cache-Control: max-age=60, must-revalidate"],
                Some(60),
            ),
            (&["Cache-Control: no-store"], &["Cache-Control: max-age=60"], None),
        ] {
            assert_eq!(fresh(request, 200, response), expected, "{request:?} {response:?}");
        }
    }

    #[test]
    fn rules_add_what_is_not_said() {
        let rules = Rules {
            lifetime: Duration::from_secs(2),
            while_revalidate: Duration::from_secs(3),
            if_error: Duration::from_secs(4),
            ..Rules::default()
        };
        let ask = |request: &[&str], status, response: &[&str]| {
            let found = ask(&rules, &Overrides::default(), request, status, response)?;
            Some((found.fresh, found.while_revalidate, found.if_error))
        };
        assert_eq!(ask(&[], 200, &[]), Some((2, 3, 4)));
        assert_eq!(ask(&[], 404, &[]), Some((2, 3, 4)));
        assert_eq!(ask(&[], 302, &[]), None);
        assert_eq!(ask(&[], 200, &["Trailer: X-Sum"]), None);
        assert_eq!(ask(&[], 500, &[]), None);
        assert_eq!(ask(&["Cookie: a=b"], 200, &[]), None);
        assert_eq!(ask(&["Cookie: a=b"], 200, &["Cache-Control: public"]), Some((2, 3, 4)));
        assert_eq!(ask(&["Authorization: x"], 200, &[]), None);
        assert_eq!(ask(&[], 200, &["Cache-Control: max-age=9"]), Some((9, 3, 4)));
        assert_eq!(ask(&[], 200, &["Cache-Control: max-age=9, must-revalidate"]), Some((9, 0, 0)));
        assert_eq!(ask(&[], 200, &["Cache-Control: max-age=9, proxy-revalidate"]), Some((9, 0, 0)));
        assert_eq!(ask(&[], 200, &["Cache-Control: s-maxage=9"]), Some((9, 0, 0)));
        assert_eq!(
            ask(&[], 200, &["Cache-Control: s-maxage=9, stale-while-revalidate=1"]),
            Some((9, 1, 0))
        );
        assert_eq!(ask(&[], 200, &["Cache-Control: max-age=9, stale-if-error=1"]), Some((9, 3, 1)));
    }

    #[test]
    fn rules_may_ignore_much() {
        let rules = Rules {
            lifetime: Duration::from_secs(2),
            ignores_cookies: true,
            ignores_set_cookie: true,
            ignores_response: true,
            ignores_request: true,
            ..Rules::default()
        };
        let response = ["Set-Cookie: a=b", "Cache-Control: private, no-store"];
        let found = ask(
            &rules,
            &Overrides::default(),
            &["Cookie: a=b", "Cache-Control: no-store"],
            200,
            &response,
        );
        assert_eq!(found.unwrap().fresh, 2);
        assert!(
            ask(&rules, &Overrides::default(), &["Authorization: x"], 200, &response).is_none()
        );
    }

    #[test]
    fn a_scripts_setting_counts_whatever_the_headers_say() {
        let overrides =
            Overrides { lifetime: Some(Duration::from_secs(7)), ..Overrides::default() };
        let ask = |request: &[&str], response: &[&str]| {
            ask(&Rules::default(), &overrides, request, 200, response).map(|found| found.fresh)
        };
        assert_eq!(ask(&["Cookie: a=b", "Authorization: x"], &["Cache-Control: private"]), Some(7));
        assert_eq!(ask(&[], &["Set-Cookie: a=b"]), None);
        let stale = Overrides {
            while_revalidate: Some(Duration::from_secs(8)),
            if_error: Some(Duration::from_secs(9)),
            ..overrides.clone()
        };
        let times = |overrides: &Overrides, said: &str| {
            let found = tests::ask(&Rules::default(), overrides, &[], 200, &[said])?;
            Some((found.while_revalidate, found.if_error))
        };
        assert_eq!(times(&stale, "Cache-Control: stale-if-error=1"), Some((8, 9)));
        let without = Overrides { lifetime: None, ..stale };
        assert_eq!(times(&without, "Cache-Control: max-age=5, stale-if-error=1"), Some((8, 9)));
        assert_eq!(times(&without, "Cache-Control: max-age=5, must-revalidate"), Some((0, 0)));
        assert_eq!(times(&Overrides { bypass: true, ..without }, "Cache-Control: max-age=5"), None);
        let none = Overrides { lifetime: Some(Duration::ZERO), ..Overrides::default() };
        let request = Request::default();
        let received = Received {
            status: StatusCode::OK,
            headers: &headers(&["Cache-Control: max-age=60", "ETag: \"a\""]),
            at: SystemTime::now(),
            delay: Duration::ZERO,
        };
        assert!(storable(&Rules::default(), &none, &request, received).is_none());
    }
}
