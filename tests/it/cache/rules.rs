use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Site, asking, page, page_with, status};
use crate::harness::{Kind, Request, Response, eventually, form, get};

#[test]
fn responses_say_whether_they_may_be_kept() {
    let site = Site::new();
    for (fields, is_kept) in [
        (&[][..], false),
        (&["Cache-Control: max-age=60"], true),
        (&["Cache-Control: s-maxage=60, max-age=0"], true),
        (&["Cache-Control: max-age=60, s-maxage=0"], false),
        (&["Cache-Control: no-store, max-age=60"], false),
        (&["Cache-Control: private, max-age=60"], false),
        (&["Cache-Control: no-cache, max-age=60"], false),
        (&["Cache-Control: max-age=banana"], false),
        (&["Cache-Control: max-age=60", "Set-Cookie: a=b"], false),
        (&["Cache-Control: max-age=60", "Vary: *"], false),
        (&["Cache-Control: max-age=60", "Age: 59"], true),
        (&["Cache-Control: max-age=60", "Age: 60"], false),
        (&["Cache-Control: max-age=60", "Age: 60, 0"], false),
        (&["Cache-Control: max-age=60", "Age: 60", "Age: 0"], false),
        (&["Cache-Control: max-age=60", "Age: 0, 60"], true),
        (&["Cache-Control: max-age=60", "Age: 99999999999999999999"], false),
        (&["Expires: Fri, 01 Jan 2100 00:00:00 GMT"], true),
        (&["Expires: Fri, 01 Jan 2021 00:00:00 GMT"], false),
        (&["Expires: 0"], false),
        (&["Expires: Fri, 01 Jan 2100 00:00:00 GMT", "Cache-Control: max-age=0"], false),
        (&["Last-Modified: Fri, 01 Jan 2021 00:00:00 GMT"], false),
    ] {
        let (target, before) = (page(fields), site.runs());
        let first = site.get(&target).expect(200);
        let second = site.get(&target).expect(200);
        let runs = site.runs() - before;
        assert_eq!(runs, if is_kept { 1 } else { 2 }, "{fields:?}\n{first}\n{second}");
        assert_eq!(first.text() == second.text(), is_kept, "{fields:?}");
        let stored = if is_kept { "Tokamak; fwd=miss; stored" } else { "Tokamak; fwd=miss" };
        assert!(status(&first).starts_with(stored), "{first}");
        assert_eq!(status(&second).starts_with("Tokamak; hit; ttl="), is_kept, "{second}");
        assert_eq!(
            second.header("age").is_some(),
            is_kept || fields.concat().contains("Age: "),
            "{second}"
        );
        assert_eq!(
            first.header("age").is_some(),
            fields.concat().contains("Age: "),
            "{fields:?} {first}"
        );
    }
}

/// An invalid age is ignored (RFC 9111 section 5.1), the first of several counts, and the time that
/// passes here is added.
#[test]
fn an_age_goes_on_and_grows() {
    let site = Site::new();
    for (ages, expected) in [
        (&["Age: 50"][..], Some(50)),
        (&["Age: 50, 0"], Some(50)),
        (&["Age: 50", "Age: 7"], Some(50)),
        (&["Age: 0"], Some(0)),
        (&["Age: banana"], None),
        (&["Age: -50"], None),
        (&["Age: 50.0"], None),
        (&["Age: +50"], None),
        (&["Age: "], None),
    ] {
        for shape in ["", "pieces=2&size=40000&pause=50"] {
            let fields = [ages, &["Cache-Control: max-age=600"]].concat();
            let target = page_with(shape, &fields);
            let first = site.get(&target).expect(200);
            assert!(status(&first).contains("stored"), "{first}");
            let age =
                |response: &Response| response.header("age").map(|age| age.parse::<u64>().unwrap());
            assert_eq!(age(&first), expected, "{fields:?} {shape}: {first}");
            let again = site.get(&target);
            assert!(age(&again) >= Some(expected.unwrap_or(0)), "{again}");
        }
    }
    // What is not kept is as it was, and so is its age.
    let response = site.get(&page(&["Age: 50", "Cache-Control: private"]));
    assert_eq!(response.header("age"), Some("50"), "{response}");
    // The application has to be asked again; what it says then of the age of its answer counts.
    let target = page_with("etag=%22a%22", &["Cache-Control: no-cache", "ETag: \"a\"", "Age: 50"]);
    for how in ["fwd=miss; stored", "fwd=stale; fwd-status=304; stored"] {
        let response = site.get(&target).expect(200);
        assert!(status(&response).contains(how), "{response}");
        assert_eq!(response.header("age"), Some("50"), "{response}");
    }
}

/// RFC 9213: the first field that is ours, or for such caches, and right, counts alone.
#[test]
fn caches_like_this_one_have_fields_of_their_own() {
    let site = Site::new();
    for (fields, is_kept) in [
        (&["CDN-Cache-Control: max-age=60"][..], true),
        (&["Tokamak-Cache-Control: max-age=60"], true),
        (&["CDN-Cache-Control: max-age=60", "Cache-Control: no-store"], true),
        (&["CDN-Cache-Control: max-age=60", "Cache-Control: private, max-age=0"], true),
        (&["CDN-Cache-Control: no-store", "Cache-Control: max-age=60"], false),
        (&["CDN-Cache-Control: private", "Cache-Control: max-age=60"], false),
        (&["CDN-Cache-Control: max-age=0", "Expires: Fri, 01 Jan 2100 00:00:00 GMT"], false),
        (&["CDN-Cache-Control: none", "Cache-Control: max-age=60"], false),
        (&["CDN-Cache-Control: foo", "CDN-Cache-Control: max-age=60"], true),
        (&["CDN-Cache-Control: max-age=60;x=1, ext=\"a\""], true),
        (&["Tokamak-Cache-Control: no-store", "CDN-Cache-Control: max-age=60"], false),
        (&["Tokamak-Cache-Control: max-age=60", "CDN-Cache-Control: no-store"], true),
        (&["Tokamak-Cache-Control: &&&", "CDN-Cache-Control: max-age=60"], true),
        (&["CDN-Cache-Control: max-age=60, &&&", "Cache-Control: no-store"], false),
        (&["CDN-Cache-Control: max-age=\"60\"", "Cache-Control: no-store"], false),
        (&["CDN-Cache-Control: max-age = 60", "Cache-Control: no-store"], false),
        (&["CDN-Cache-Control: no-store=?0, max-age=60"], true),
        (&["CDN-Cache-Control: ", "Cache-Control: max-age=60"], true),
        (&["Other-Cache-Control: max-age=60", "Cache-Control: no-store"], false),
    ] {
        let (target, before) = (page(fields), site.runs());
        for _ in 0..2 {
            let response = site.get(&target).expect(200);
            assert_eq!(response.header("tokamak-cache-control"), None, "ours: {response}");
            for field in fields.iter().filter(|field| !field.starts_with("Tokamak")) {
                let (name, value) = field.split_once(": ").unwrap();
                assert!(response.head.all(name).any(|sent| sent == value), "others': {response}");
            }
        }
        assert_eq!(site.runs() - before, if is_kept { 1 } else { 2 }, "{fields:?}");
    }
}

/// A response from the cache. A page that is kept for one second may have expired before the next
/// request on a busy machine, so this asks again.
#[track_caller]
fn hit(site: &Site, target: &str) -> Response {
    let hit = || {
        let response = site.get(target).expect(200);
        status(&response).starts_with("Tokamak; hit").then_some(response)
    };
    eventually(Duration::from_secs(20), hit).expect("it is kept")
}

/// The field for this cache alone is not sent to clients, and counts after a 304 without it too.
#[test]
fn a_field_for_this_cache_is_remembered() {
    let site = Site::new();
    let fields = ["Tokamak-Cache-Control: max-age=1", "Cache-Control: no-store", "ETag: \"a\""];
    let target = page_with("etag=%22a%22", &fields);
    site.get(&target).expect(200);
    sleep(Duration::from_millis(1100));
    let checked = site.get(&target).expect(200);
    assert!(
        status(&checked).starts_with("Tokamak; fwd=stale; fwd-status=304; stored"),
        "{checked}"
    );
    let again = hit(&site, &target);
    assert_eq!((again.text().as_str(), again.header("tokamak-cache-control")), ("run 1", None));
}

#[test]
fn statuses_are_kept_too() {
    let site = Site::with(&["cache_lifetime = \"1m\""]);
    for (code, by_default, by_themselves) in [
        (200, true, true),
        (404, true, true),
        (301, true, true),
        (302, false, true),
        (500, false, true),
        (403, false, true),
    ] {
        for (fields, is_kept) in
            [(&[][..], by_default), (&["Cache-Control: max-age=60"], by_themselves)]
        {
            let (target, before) = (page_with(&format!("status={code}"), fields), site.runs());
            site.get(&target).expect(code);
            site.get(&target).expect(code);
            assert_eq!(site.runs() - before, if is_kept { 1 } else { 2 }, "{code} {fields:?}");
        }
    }
}

#[test]
fn a_response_becomes_old() {
    let site = Site::new();
    let target = page(&["Cache-Control: max-age=2"]);
    let begun = Instant::now();
    assert_eq!(site.get(&target).text(), "run 1");
    let since_it_came = Instant::now();
    let third = eventually(Duration::from_secs(20), || {
        let least = since_it_came.elapsed().as_secs();
        let second = site.get(&target);
        if second.text() != "run 1" {
            return Some(second);
        }
        let age: u64 = second.header("age").expect("its age").parse().unwrap();
        let most = begun.elapsed().as_secs() + 1;
        assert!((least..=most).contains(&age) && age < 3, "{least} {most} {second}");
        assert!(second.header("date").is_some());
        None
    });
    let third = third.expect("it is fetched again");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!((third.text().as_str(), site.runs()), ("run 2", 2));
    assert!(status(&third).starts_with("Tokamak; fwd=stale; fwd-status=200; stored"), "{third}");
}

#[test]
fn default_lifetimes_are_only_for_shareable_responses() {
    let site = Site::with(&["cache_lifetime = \"1m\""]);
    let plain = get("/page.php");
    site.send(&plain);
    assert_eq!(site.send(&plain).text(), "run 1");
    // One with a cookie neither gets what was made for nobody, nor leaves what was made for it.
    for cookie in ["session=1", "session=2"] {
        let own = site.send(&asking("/page.php", &[("Cookie", cookie)]));
        assert!(
            status(&own).starts_with("Tokamak; fwd=miss") && !status(&own).contains("stored"),
            "{own}"
        );
    }
    let own = site.send(&asking("/page.php", &[("Authorization", "Basic YTpi")]));
    assert!(!status(&own).contains("stored"), "{own}");
    assert_eq!((site.send(&plain).text().as_str(), site.runs()), ("run 1", 4));
}

#[test]
fn what_is_public_is_for_everybody() {
    let site = Site::new();
    for (control, with_cookie, with_credentials) in [
        ("max-age=60", true, false),
        ("max-age=60, public", true, true),
        ("s-maxage=60", true, true),
        ("max-age=60, must-revalidate", true, true),
    ] {
        for (field, value, is_shared) in
            [("Cookie", "a=b", with_cookie), ("Authorization", "Basic YTpi", with_credentials)]
        {
            let target =
                page_with(&format!("for={field}"), &[&format!("Cache-Control: {control}")]);
            let before = site.runs();
            site.send(&asking(&target, &[(field, value)]));
            site.send(&asking(&target, &[(field, value)]));
            assert_eq!(site.runs() - before, if is_shared { 1 } else { 2 }, "{control} {field}");
        }
    }
}

#[test]
fn the_operator_may_overlook_things() {
    let site = Site::with(&[
        "cache_lifetime = \"1m\"",
        "cache_ignore = [\"cookie\", \"set_cookie\", \"request\", \"response\"]",
        "cache_ignore_query = [\"utm_*\", \"ref\"]",
    ]);
    let target = page(&["Cache-Control: no-store", "Set-Cookie: a=b"]);
    let first = site.send(&asking(&target, &[("Cookie", "a=1")]));
    assert_eq!(first.header("set-cookie"), None, "{first}");
    let second = site.send(&asking(&target, &[("Cookie", "a=2"), ("Cache-Control", "no-cache")]));
    assert_eq!(first.text(), second.text());
    let before = site.runs();
    for target in
        ["/page.php?a=1", "/page.php?utm_source=x&a=1", "/page.php?a=1&ref=y&utm_medium=z"]
    {
        site.get(target);
    }
    assert_eq!(site.runs() - before, 1);
    site.get("/page.php?a=1&refs=y");
    assert_eq!(site.runs() - before, 2);
}

#[test]
fn clients_may_ask_for_more_or_less() {
    let site = Site::new();
    let target = page(&["Cache-Control: max-age=60"]);
    site.get(&target);
    for (control, runs) in [
        ("max-age=60", 0),
        ("min-fresh=30", 0),
        ("min-fresh=90", 1),
        ("max-stale=5", 0),
        ("no-cache", 1),
        ("max-age=0", 1),
        ("only-if-cached", 0),
        ("no-store", 1),
    ] {
        let before = site.runs();
        site.send(&asking(&target, &[("Cache-Control", control)])).expect(200);
        assert_eq!(site.runs() - before, runs, "{control}");
    }
    let before = site.runs();
    site.send(&asking(&target, &[("Pragma", "no-cache")]));
    assert_eq!(site.runs() - before, 1);
    let other = page_with("other", &[]);
    site.send(&asking(&other, &[("Cache-Control", "only-if-cached")])).expect(504);
    assert_eq!(site.runs() - before, 1);
    // What a client does not want kept is not.
    let secret = page_with("secret", &["Cache-Control: max-age=60"]);
    site.send(&asking(&secret, &[("Cache-Control", "no-store")]));
    site.get(&secret);
    assert_eq!(site.runs() - before, 3);
}

#[test]
fn vary_divides() {
    let site = Site::new();
    let target = page_with(
        "say[]=HTTP_ACCEPT_LANGUAGE",
        &["Cache-Control: max-age=60", "Vary: Accept-Language"],
    );
    for (language, expected) in [
        (Some("de"), "run 1 de"),
        (Some("en"), "run 2 en"),
        (None, "run 3 -"),
        (Some("de"), "run 1 de"),
        (Some("en"), "run 2 en"),
        (None, "run 3 -"),
    ] {
        let request = language.map_or_else(
            || get(&target),
            |language| asking(&target, &[("Accept-Language", language)]),
        );
        assert_eq!(site.send(&request).text(), expected);
    }
}

#[test]
fn applications_are_asked_whether_it_is_still_right() {
    let site = Site::new();
    let etag = "etag=%22a%22";
    let target = page_with(etag, &["Cache-Control: max-age=1", "ETag: \"a\"", "Cache-Tag: one"]);
    let first = site.get(&target).expect(200);
    sleep(Duration::from_millis(1100));
    let second = site.get(&target).expect(200);
    assert!(status(&second).starts_with("Tokamak; fwd=stale; fwd-status=304; stored"), "{second}");
    assert_eq!((first.text(), site.runs()), (second.text(), 2));
    hit(&site, &target);
    // `no-cache` with a validator is kept, and asked about each time.
    let target = page_with(etag, &["Cache-Control: no-cache", "ETag: \"a\""]);
    let first = site.get(&target).expect(200);
    let before = site.runs();
    for _ in 0..3 {
        let next = site.get(&target).expect(200);
        assert!(status(&next).contains("fwd-status=304"), "{next}");
        assert_eq!(next.text(), first.text());
    }
    assert_eq!(site.runs() - before, 3);
}

#[test]
fn conditional_requests_get_304() {
    let site = Site::new();
    let modified = "Fri, 01 Jan 2021 00:00:00 GMT";
    let target = page(&[
        "Cache-Control: max-age=60",
        "ETag: \"a\"",
        &format!("Last-Modified: {modified}"),
        "Content-Language: de",
    ]);
    // The first is answered in full by the page, which knows no conditions.
    let first = site.send(&asking(&target, &[("If-None-Match", "\"a\"")]));
    assert_eq!((first.status(), first.text().as_str()), (304, ""), "{first}");
    for (field, value, expected) in [
        ("If-None-Match", "\"a\"", 304),
        ("If-None-Match", "W/\"a\", \"b\"", 304),
        ("If-None-Match", "\"b\"", 200),
        ("If-Modified-Since", modified, 304),
        ("If-Modified-Since", "Fri, 01 Jan 2010 00:00:00 GMT", 200),
    ] {
        let response = site.send(&asking(&target, &[(field, value)]));
        assert_eq!(response.status(), expected, "{field}: {value}");
        assert_eq!(response.header("etag"), Some("\"a\""));
        assert_eq!(response.header("content-type").is_some(), expected == 200, "{response}");
    }
    assert_eq!(site.runs(), 1);
}

#[test]
fn parts_and_heads_come_from_the_whole() {
    let site = Site::new();
    let target = page_with("pieces=1&size=94", &["Cache-Control: max-age=60", "ETag: \"a\""]);
    // A part of what is not there is the application's business.
    site.send(&asking(&target, &[("Range", "bytes=0-1")])).expect(200);
    let whole = site.get(&target).text();
    let runs = site.runs();
    assert_eq!(whole.len(), 99);
    for (fields, code, expected, described) in [
        (&[("Range", "bytes=0-3")][..], 206, &whole[0..4], Some("bytes 0-3/99")),
        (&[("Range", "bytes=-5")], 206, &whole[94..], Some("bytes 94-98/99")),
        (&[("Range", "bytes=0-3"), ("If-Range", "\"a\"")], 206, &whole[0..4], Some("bytes 0-3/99")),
        (&[("Range", "bytes=0-3"), ("If-Range", "\"b\"")], 200, &whole[..], None),
        (&[("Range", "bytes=0-3,5-6")], 200, &whole[..], None),
    ] {
        let part = site.send(&asking(&target, fields)).expect(code);
        assert_eq!(
            (part.text().as_str(), part.header("content-range")),
            (expected, described),
            "{fields:?}"
        );
        assert_eq!(part.header("content-length"), Some(expected.len().to_string().as_str()));
    }
    let none = site.send(&asking(&target, &[("Range", "bytes=200-")])).expect(416);
    assert_eq!(none.header("content-range"), Some("bytes */99"));
    let head = site.send(&Request::new("HEAD", &target)).expect(200);
    assert_eq!((head.header("content-length"), head.text().as_str()), (Some("99"), ""));
    assert!(status(&head).starts_with("Tokamak; hit"), "{head}");
    assert_eq!(site.runs(), runs);
}

#[test]
fn what_changes_a_page_forgets_it() {
    let site = Site::new();
    let target = page(&["Cache-Control: max-age=60"]);
    for (method, forgets) in [("POST", true), ("PUT", true), ("DELETE", true), ("OPTIONS", false)] {
        let before = site.get(&target).text();
        site.send(&Request::new(method, &target));
        assert_eq!(site.get(&target).text() != before, forgets, "{method}");
    }
    let before = site.get(&target).text();
    // One that failed has changed nothing.
    let failing = page_with("status=403", &["Cache-Control: max-age=60"]);
    site.get(&failing);
    let runs = site.runs();
    site.send(&form(&failing, "a=b")).expect(403);
    site.get(&failing);
    assert_eq!(site.runs() - runs, 1);
    assert_eq!(site.get(&target).text(), before);
}

#[test]
fn fastcgi_applications_are_spared_too() {
    let target = page(&["Cache-Control: max-age=60"]);
    let site = Site::of(Kind::Fastcgi, &[]);
    let first = site.get(&target).text();
    assert_eq!((site.get(&target).text(), site.runs()), (first, 1));
}

#[test]
fn a_route_may_differ() {
    let site = Site::with(&[
        "route = [{ path = \"/page.php\", cache = false }, { path = \"/page.php/kept\", \
            cache_lifetime = \"1m\", cache = true }]",
    ]);
    let target = page(&["Cache-Control: max-age=60"]);
    let first = site.get(&target);
    assert_eq!((status(&first), site.get(&target).text().as_str()), ("none", "run 2"));
    site.get("/page.php/kept");
    assert_eq!(site.get("/page.php/kept").text(), "run 3");
}
