//! Invented and damaged texts: an error, never a panic.

use proptest::prelude::*;

use super::*;

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    let place = Place::with(&["index.php"]);
    for text in [
        "env = ".to_owned() + &"[".repeat(50_000),
        "env = ".to_owned() + &"{a=".repeat(50_000),
        "a.".repeat(50_000) + "b = 1",
    ] {
        has(&place.errors(&format!("[[site]]\n{text}\n")), &["tokamak.toml", "this is not TOML: "]);
    }
    has(
        &place.errors(&format!("[[site]]\n[site.env]\n{}b = 1\n", "a.".repeat(50_000))),
        &["tokamak.toml", "not TOML: recursion"],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = parse::parse(&text, "f".as_ref(), &mut Errors::default());
    }

    #[test]
    fn no_mix_of_tokens_makes_it_panic(tokens in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "[[", "]]", "{", "}", "\n", "\n", "=", "=", ".", ",", "'", "site", "limits", "pool", "env", "host", "listen",
        "head", "1", "-1", "'64KiB'", "'x'", "true", "\u{feff}", "\r\n", "#", "\"\"\"", "é",
    ]), 0..40)) {
        let _ = parse::parse(&tokens.concat(), "f".as_ref(), &mut Errors::default());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let place = Place::with(&["index.php"]);
        std::fs::write(place.path("tokamak.toml"), bytes).unwrap();
        let _ = place.request().load_for(2);
    }

    #[test]
    fn no_value_makes_it_panic(
        at in 0..64usize,
        value in prop_oneof![
            Just("''".to_owned()), Just("[]".into()), Just("{}".into()), Just("[[[]]]".into()), Just("1979-05-27".into()),
            Just("[{}]".into()), Just("nan".into()), Just("true".into()), Just("{ a.b.c = [] }".into()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_filter("TOML", |number| number.is_finite()).prop_map(|number| format!("{number:?}")),
            "[a-z0-9:./*-]{0,12}".prop_map(|text| format!("'{text}'")),
            "[0-9]{1,20}(ms|s|m|h|KiB|GB)".prop_map(|text| format!("['{text}']")),
        ],
    ) {
        let rows: Vec<_> = option::rows().collect();
        let row = rows[at % rows.len()];
        let heading = match row.section {
            "" => String::new(),
            "site" => "[[site]]\n".into(),
            "site.pool" => "[[site]]\n[site.pool]\n".into(),
            other => format!("[{other}]\n"),
        };
        let place = Place::with(&["index.php"]);
        if let Err(errors) = place.load(&format!("{heading}{} = {value}\n", row.name)) {
            prop_assert!(errors.count() > 0 && !errors.to_string().is_empty());
        }
    }
}
