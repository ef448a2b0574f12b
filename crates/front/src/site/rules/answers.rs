//! Rules that go by what answers, and restrictions of scripts that have more behind their names.

use http::{HeaderMap, Response, StatusCode};

use super::tests::Place;
use crate::response::Source;
use crate::route::Target;

/// The fields of the response to a request of somebody.
fn describe(place: &Place, target: &str, own: &[(&'static str, &'static str)]) -> String {
    let decision = place.decide("192.0.2.1", target);
    let mut headers = HeaderMap::new();
    own.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
    let mut response = Response::new(Source::Empty);
    (*response.status_mut(), *response.headers_mut()) = (StatusCode::OK, headers);
    let uri = target.parse().unwrap();
    if let Some(changes) = place.rules.changes(&uri, &place.router, Some(&decision)) {
        changes.apply(&mut response);
    }
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let fields = response.headers().iter().filter(|(name, _)| *name != "expires");
    fields.map(|(name, value)| format!("{name}: {}", text(value))).collect::<Vec<_>>().join(", ")
}

#[test]
fn headers_go_by_what_answers_and_the_last_one_counts() {
    let place = Place::new(
        r#"
        front_controller = "index.php"
        [[site.rule]]
        path = "/docs"
        of_answer = true
        last = true
        [[site.rule]]
        pattern = "\\.(png|html)$"
        of_answer = true
        last = true
        add_headers = { x-is = "file" }
        [[site.rule]]
        pattern = "\\.php$"
        of_answer = true
        last = true
        add_headers = { x-is = "script" }
        [[site.rule]]
        of_answer = true
        add_headers = { x-is = "other" }
        "#,
    );
    for (target, expected) in [
        ("/", "x-is: script"),
        ("/page", "x-is: script"),
        ("/private/photo.png", "x-is: script"),
        ("/index.php/photo.png", "x-is: script"),
        ("/images/a.png", "x-is: file"),
        ("/docs/", ""),
        ("/docs/index.html", ""),
        ("/a.css", "x-is: other"),
    ] {
        assert_eq!(describe(&place, target, &[]), expected, "{target}");
    }
}

#[test]
fn a_lifetime_may_give_way_to_that_of_the_application() {
    let place = Place::new(
        r#"
        [[site.rule]]
        expires = "1h"
        keep_own = true
        [[site.rule]]
        extension = ".css"
        cache_control = "max-age=1"
        keep_own = true
        "#,
    );
    for (target, own, expected) in [
        ("/a.css", ("x-a", "b"), "x-a: b, cache-control: max-age=1"),
        ("/images/a.png", ("x-a", "b"), "x-a: b, cache-control: max-age=3600"),
        ("/index.php", ("cache-control", "no-store"), "cache-control: no-store"),
        ("/a.css", ("expires", "0"), ""),
    ] {
        assert_eq!(describe(&place, target, &[own]), expected, "{target}");
    }
}

#[test]
fn what_is_said_of_a_script_holds_with_more_behind_its_name() {
    let place = Place::new(
        r#"
        front_controller = "none"
        [[site.rule]]
        path = "/uploads"
        pattern = "\\.php$"
        serve = "files"
        [[site.rule]]
        pattern = "^/(index|load|lib/.*)\\.php$"
        except = ["/index.php"]
        deny = "all"
        status = 410
        "#,
    );
    place.check(&[
        ("/uploads/index.php", "403"),
        ("/uploads/index.php/x.png", "403"),
        ("/load.php/x", "410"),
        ("/lib/exe/fetch.php/x.php/y", "410"),
        ("/index.php", "index.php [] -"),
        ("/index.php/x", "index.php [/x] -"),
        ("/INDEX.php", "410"),
        ("/other.php/x", "other.php [/x] -"),
    ]);
}

#[test]
fn what_only_a_request_is_refused_answers_for_other_paths() {
    let place = Place::new(
        r#"
        index = "index.php"
        front_controller = "index.php"
        [[site.rule]]
        pattern = "^/index\\.php(/|$)"
        deny = "all"
        status = 404
        internal = true
        [[site.rule]]
        pattern = "^/other$"
        rewrite = "/index.php?x=1"
        [[site.rule]]
        pattern = "^/uploads/"
        deny = "all"
        "#,
    );
    let script = |target: &str| match place.decide("192.0.2.1", target).target {
        Target::Script(script) => String::from_utf8_lossy(&script.script_name).into_owned(),
        other => format!("{other:?}"),
    };
    for target in ["/", "/page", "/other", "/none/../page"] {
        let found = script(target);
        assert!(found == "/index.php" || target.contains(".."), "{target}: {found}");
    }
    for target in ["/index.php", "/index.php/page", "/x/../index.php", "//index.php", "/INDEX.PHP"]
    {
        assert_eq!(script(target), "NotFound", "{target}");
    }
    // What has not the word is refused also as the way to another path.
    assert_eq!(script("/uploads/"), "Forbidden");
}
