//! What may be kept, and for how long: the rules of HTTP, and what the operator or a script adds to
//! them.

use std::time::{Duration, SystemTime};

use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, DATE, ETAG, EXPIRES, HeaderMap, LAST_MODIFIED,
    PRAGMA, SET_COOKIE, TRAILER,
};
use http::{HeaderName, StatusCode};

use crate::directives::{Directives, FOREVER, seconds};
use crate::entry::Lifetimes;
use crate::{selection, targeted};

/// Statuses whose responses may be kept although they do not say so themselves: those that RFC 9110
/// section 15.1 calls heuristically cacheable and that say something about the page, not about the
/// request.
const KEPT_BY_DEFAULT: [u16; 8] = [200, 203, 204, 300, 301, 308, 404, 410];

/// Longest lifetime that a script can wish for, in seconds: a year, as RFC 9111 advises.
const LONGEST: u64 = 365 * 24 * 3600;

/// What the operator says for a site or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// How long a response is fresh that says nothing of it; zero: it is not kept.
    pub lifetime: Duration,
    /// How long a stale response that does not say may be used while it is fetched anew.
    pub while_revalidate: Duration,
    /// How long a stale response that does not say may be used if it cannot be fetched.
    pub if_error: Duration,
    /// Whether requests with cookies are as good as those without.
    pub ignores_cookies: bool,
    /// Whether responses that set cookies are kept, without these.
    pub ignores_set_cookie: bool,
    /// Whether what responses say of their lifetime does not count.
    pub ignores_response: bool,
    /// Whether what requests say of the cache does not count.
    pub ignores_request: bool,
}

/// What a script wants for one request beside the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The name of the response, in the place of its URL.
    pub key: Option<Vec<u8>>,
    /// How long the response is fresh, whatever it says itself.
    pub lifetime: Option<Duration>,
    /// How long it may be used after that while it is fetched anew, whatever it says of it.
    pub while_revalidate: Option<Duration>,
    /// How long it may be used after that if it cannot be fetched, whatever it says of it.
    pub if_error: Option<Duration>,
    /// What was asked for before that, in nanoseconds, is stale.
    pub since: Option<u64>,
    /// Tags of the response, beside its own.
    pub tags: Vec<Box<str>>,
    /// The cache has nothing to do with this request.
    pub bypass: bool,
}

impl Overrides {
    /// Nothing.
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

/// What a request has that matters to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Cookies that count.
    pub has_cookies: bool,
    /// `Authorization`, or a client certificate of its connection.
    pub has_credentials: bool,
    /// What it says of the cache, if it says anything.
    pub said: Option<Directives>,
}

impl Request {
    /// What these fields say. `has_certificate`: whether the client has shown a certificate, on
    /// which a page may depend as on `Authorization`. `None`: the cache has nothing to do with it.
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

    /// Whether it belongs to one user.
    pub fn is_own(&self) -> bool {
        self.has_cookies || self.has_credentials
    }

    /// Whether nothing of it may be kept.
    pub fn forbids_storing(&self) -> bool {
        self.said.is_some_and(|said| said.no_store)
    }
}

/// How long the response to a request may be used. `None`: it must not be kept, or is not worth it.
/// The response came `now`, so long after it had been asked for.
pub fn storable(
    rules: &Rules,
    overrides: &Overrides,
    request: &Request,
    (status, headers): (StatusCode, &HeaderMap),
    (now, delay): (SystemTime, Duration),
) -> Option<Lifetimes> {
    let is_part = matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED);
    if is_part || status.is_informational() || request.forbids_storing() || overrides.bypass {
        return None;
    }
    if headers.contains_key(SET_COOKIE) && !rules.ignores_set_cookie {
        return None;
    }
    // The fields that follow a body are not kept with it.
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
    // It says that it may be kept, which a shared cache must hear where the request was somebody's
    // own.
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
    let stale = |wished: Option<Duration>, said_stale: Option<u64>, rule: Duration| match said_stale
    {
        _ if is_strict => 0,
        _ if wished.is_some() => wished.unwrap_or_default().as_secs(),
        Some(seconds) => seconds,
        None if said.s_maxage.is_some() => 0,
        None => rule.as_secs(),
    };
    let has_validator = headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED);
    let said_age = said_age(headers);
    let age = age(said_age, headers, (now, delay));
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

/// How long it is fresh by its `Expires`, in seconds from its making.
fn expires(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    // What is no date lies in the past (RFC 9111 section 5.3).
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
fn age(said: Option<u64>, headers: &HeaderMap, (now, delay): (SystemTime, Duration)) -> u64 {
    let apparent = date(headers, DATE).and_then(|date| now.duration_since(date).ok());
    let corrected = said.map_or(0, |said| said + delay.as_secs());
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
        let response = (StatusCode::from_u16(status).unwrap(), &headers(response));
        storable(
            rules,
            overrides,
            &request,
            response,
            (SystemTime::UNIX_EPOCH + NOW, Duration::from_secs(1)),
        )
    }

    /// How long a response is fresh without rules; `None`: it is not kept.
    fn fresh(request: &[&str], status: u16, response: &[&str]) -> Option<u64> {
        ask(&Rules::default(), &Overrides::default(), request, status, response)
            .map(|lifetimes| lifetimes.fresh)
    }

    #[test]
    fn a_certificate_of_the_client_counts_as_credentials() {
        let rules = Rules { lifetime: Duration::from_secs(60), ..Rules::default() };
        let now = (SystemTime::UNIX_EPOCH + NOW, Duration::ZERO);
        for (has_certificate, response, is_kept) in [
            (false, &[][..], true),
            (true, &[], false),
            (true, &["Cache-Control: max-age=60"], false),
            (true, &["Cache-Control: public, max-age=60"], true),
        ] {
            let request = Request::of(&HeaderMap::new(), has_certificate, &rules).unwrap();
            assert_eq!(request.is_own(), has_certificate);
            let headers = headers(response);
            let kept =
                storable(&rules, &Overrides::NONE, &request, (StatusCode::OK, &headers), now);
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
    fn a_wish_counts_whatever_is_said() {
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
        let response = (StatusCode::OK, &headers(&["Cache-Control: max-age=60", "ETag: \"a\""]));
        let now = (SystemTime::now(), Duration::ZERO);
        assert!(storable(&Rules::default(), &none, &request, response, now).is_none());
    }
}
