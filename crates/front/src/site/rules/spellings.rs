//! Each kind of rule is for the same requests, in whatever spelling.

use http::Uri;
use proptest::prelude::*;

use super::request_paths::RequestPaths;
use super::tests::Place;

/// A rule of each kind for the same part of a site.
const RULES: [&str; 4] = ["deny = 'all'", "auth_users = 'a'", "body = 10", "rate = '1/h'"];

/// A rewrite to everything.
const REWRITE: &str = "[[site.rule]]\npattern = '^/f/(.*)$'\nrewrite = '/$1'\n";

/// Sites with the same condition for each kind of rule.
struct Spellings {
    places: [Place; 4],
    rule: tokamak_config::Rule,
}

impl Spellings {
    fn of(condition: &str) -> Spellings {
        let place =
            |rule: &str| Place::new(&format!("[[site.rule]]\n{condition}\n{rule}\n{REWRITE}"));
        let places = RULES.map(place);
        let rule = places[3].site.rules[0].clone();
        Spellings { places, rule }
    }

    /// Whether the first rule of each place holds for a target: the refusal, the password, the
    /// limit of bodies, the rate.
    fn hold(&self, target: &str) -> [bool; 4] {
        let uri: Uri = target.parse().unwrap();
        let [deny, login, body, rate] = &self.places;
        [
            deny.get(target) == "403",
            !login.decide("192.0.2.1", target).login.is_empty(),
            body.rules.body_limit(&uri, &body.router, 99) == 10,
            rate.rules.request_paths(&uri, &rate.router).restricts(&self.rule),
        ]
    }
}

#[test]
fn rules_of_each_kind_hold_for_a_page_in_each_spelling() {
    let spellings = Spellings::of("path = '/staff'");
    for target in [
        "/staff",
        "/staff/",
        "/STAFF/a",
        "//staff",
        "/./st%61ff",
        "/index.php/staff",
        "/index.php//staff",
        "/index.php/./staff/a?b",
        "/index.php/%2e/Staff",
        "/load.php/staff",
        "/f/staff",
        "/f/index.php/staff",
    ] {
        assert_eq!(spellings.hold(target), [true; 4], "{target}");
    }
    for target in ["/", "/staffing", "/index.php", "/index.php/other/staff", "/v1.0/staff", "/f/a"]
    {
        assert_eq!(spellings.hold(target), [false; 4], "{target}");
    }
    // No application gets a path that climbs, and the limits count it.
    for target in ["/x/../staff", "/index.php/x/../staff"] {
        assert_eq!(spellings.hold(target), [true, false, true, true], "{target}");
    }
    for place in &spellings.places[1..] {
        assert_eq!(place.get("/staff/../index.php"), "400");
    }
    let index = Spellings::of("path = '/uploads/index.php'");
    for target in ["/uploads/", "/uploads/index.php", "/f/uploads/"] {
        assert_eq!(index.hold(target), [true; 4], "{target}");
    }
    let application = Spellings::of("extension = '.cgi'");
    assert_eq!(application.hold("/a.cgi/b"), [true; 4]);
}

#[test]
fn the_least_of_what_a_page_may_get_counts() {
    let place = Place::new(
        "[[site.rule]]\nbody = 100\n[[site.rule]]\npath = '/upload'\nbody = 5000\n\
         [[site.rule]]\npath = '/load.php'\nbody = 3000\n[[site.rule]]\npath = '/api'\nbody = 10\n",
    );
    for (target, most) in [
        ("/", 100),
        ("/upload", 5000),
        ("/load.php/a", 3000),
        ("/load.php/api", 10),
        ("/index.php/api/a", 10),
        // A script is not given more for what follows its name.
        ("/index.php/upload", 100),
        ("/api/upload", 10),
    ] {
        let uri: Uri = target.parse().unwrap();
        assert_eq!(place.rules.body_limit(&uri, &place.router, 99_999), most, "{target}");
    }
}

#[test]
fn what_describes_a_page_holds_behind_the_front_controller_alone() {
    let place = Place::new(
        "[[site.rule]]\npath = '/health'\nlog = false\nset_headers = { X-Page = 'health' }\n",
    );
    for (target, describes) in [
        ("/health", true),
        ("/index.php/health", true),
        ("/index.php/./Health", true),
        // Or any script could be asked without a line in the log.
        ("/load.php/health", false),
        ("/images/x.php/health", false),
    ] {
        let uri: Uri = target.parse().unwrap();
        let paths = RequestPaths::new(&uri, &place.router);
        assert_eq!(paths.describes(&place.site.rules[0]), describes, "{target}");
        assert_eq!(place.rules.is_logged(&uri, &place.router), !describes, "{target}");
        assert_eq!(place.rules.changes(&uri, &place.router, None).is_some(), describes, "{target}");
    }
}

proptest! {
    /// Whatever is asked for: where a refusal or a password holds, limits hold, too.
    #[test]
    fn no_spelling_passes_a_limit_by(
        condition in prop::sample::select(vec![
            "path = '/staff'", "path = '/staff*'", "pattern = '^/staff(/|$)'", "path = '/conf'",
            "path = '/uploads/index.php'", "extension = '.php'", "path = '/index.php'",
        ]),
        parts in prop::collection::vec(prop::sample::select(vec![
            "/", "/", "/", "//", ".", "..", "/../", "%2e", "%2f", "staff", "STAFF", "st%61ff",
            "conf", "uploads", "index.php", "/index.php/", "load.php", "/lib/exe/fetch.php/",
            "users.auth.php", "f", "/f/", "%", "?", "é", "\\", "ing", "none.php",
        ]), 0..9),
    ) {
        let target = format!("/{}", parts.concat());
        if target.parse::<Uri>().is_ok() {
            let [deny, login, body, rate] = Spellings::of(condition).hold(&target);
            prop_assert!(!(deny || login) || (body && rate), "{} {}", condition, target);
            prop_assert_eq!(body, rate, "{} {}", condition, target);
        }
    }
}
