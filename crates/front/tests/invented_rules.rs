//! Rules and requests that nobody would write: whatever they are, a redirect leads to one place,
//! and what is refused stays refused.

mod exercise;

use proptest::prelude::*;

/// Paths of targets: parts that mean something to rules, files and attackers.
fn target() -> impl Strategy<Value = String> {
    let parts = [
        "/",
        "//",
        "secret",
        "SECRET",
        "key.txt",
        "run.php",
        "index.php",
        "a.css",
        "images",
        ".",
        "..",
        "%2e%2e",
        "%2f",
        "%5c",
        "\\",
        "evil.example",
        "?",
        "a=b",
        "%00",
        "%0d%0a",
        "%",
        "x",
        "%73ecret",
        "%C3%A9",
        ";",
        "@",
        ":",
    ];
    let some = prop::collection::vec(prop::sample::select(parts.to_vec()), 0..8);
    some.prop_map(|parts| format!("/{}", parts.concat()))
}

fn condition() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/".to_owned()),
        Just("/images".to_owned()),
        Just("^/(.*)$".to_owned()),
        Just("^/images/(.*)".to_owned()),
        Just("(.)(.*)".to_owned()),
        Just(".css".to_owned()),
        "\\PC{0,12}",
    ]
}

fn effect() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/$1".to_owned()),
        Just("/$2$1".to_owned()),
        Just("/x/$1?y=$1".to_owned()),
        Just("/secret/$1".to_owned()),
        Just("/secret/run.php?".to_owned()),
        Just("/index.php/$1".to_owned()),
        Just("https://shop.example/$1".to_owned()),
        Just("X-Set".to_owned()),
        "[a-zA-Z/$0-9?%.:]{0,16}",
        "\\PC{0,16}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_rules(
        rules in prop::collection::vec((any::<u8>(), condition(), effect()), 0..4),
        target in target(),
        host in "\\PC{0,12}",
    ) {
        let rules: Vec<_> =
            rules.iter().map(|(kind, when, what)| (*kind, &**when, &**what)).collect();
        exercise::run(&rules, &target, &host);
    }

    /// Rules that are good, mostly: those above are seldom so.
    #[test]
    fn good_rules(
        kind in prop::sample::select(vec![1u8, 5, 9, 13, 17, 19, 31]),
        when in prop::sample::select(vec!["^/(.*)$", "^/images/(.*)", "(.)(.*)"]),
        what in prop::sample::select(vec![
            "/$1", "/$2$1", "/x/$1?y=$1", "/secret/$1", "/secret/run.php?", "/index.php/$1",
        ]),
        target in target(),
    ) {
        exercise::run(&[(kind, when, what)], &target, "localhost");
    }
}

#[test]
fn the_exercise_reaches_good_rules() {
    for rule in [
        (1, "^/old/(.*)$", "/new/$1"),
        (9, "^/old/(.*)$", "/index.php?x=$1"),
        (16, "/old", "a value"),
        (20, "/old", "X-Added"),
        (24, "/old", "X-Removed"),
        (28, "/old", "no-store"),
        (32, "/old", "index.php"),
        (36, "/old", ""),
    ] {
        assert!(exercise::run(&[rule], "/old/x", "localhost"), "{rule:?} is not read");
    }
}
