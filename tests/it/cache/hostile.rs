use super::{Site, asking, page_with, status};
use crate::harness::get;

#[test]
fn clients_cannot_poison_a_page() {
    let site = Site::with(&["cache_lifetime = \"1m\""]);
    for (field, variable) in [
        ("X-Forwarded-Host", "HTTP_X_FORWARDED_HOST"),
        ("X-Forwarded-Proto", "HTTP_X_FORWARDED_PROTO"),
        ("X-Forwarded-Port", "HTTP_X_FORWARDED_PORT"),
        ("X-Forwarded-Prefix", "HTTP_X_FORWARDED_PREFIX"),
        ("X-Forwarded-Scheme", "HTTP_X_FORWARDED_SCHEME"),
        ("X-Original-URL", "HTTP_X_ORIGINAL_URL"),
        ("X-Rewrite-URL", "HTTP_X_REWRITE_URL"),
        ("X-Host", "HTTP_X_HOST"),
        ("Forwarded", "HTTP_FORWARDED"),
        ("Host", "HTTP_HOST"),
        ("X-HTTP-Method-Override", "HTTP_X_HTTP_METHOD_OVERRIDE"),
        ("X-HTTP-Method", "HTTP_X_HTTP_METHOD"),
        ("X-Method-Override", "HTTP_X_METHOD_OVERRIDE"),
    ] {
        let target = page_with(&format!("say[]={variable}"), &["Cache-Control: max-age=60"]);
        let evil = site.send(&asking(&target, &[(field, "evil.example")]));
        assert!(evil.text().ends_with("evil.example"), "{evil}");
        let good = site.get(&target);
        assert!(!good.text().contains("evil"), "{field}: {good}");
        assert_eq!(site.get(&target).text(), good.text(), "{field}");
        let other = site.send(&asking(&target, &[(field, "other.example")]));
        assert!(other.text().ends_with("other.example"), "{field}: {other}");
    }
}

#[test]
fn spellings_of_a_host_are_one_and_hosts_are_not() {
    let site = Site::new();
    let target = page_with("say[]=HTTP_HOST", &["Cache-Control: max-age=60"]);
    let first = site.send(&asking(&target, &[("Host", "a.example")])).text();
    for same in ["A.Example", "a.example:80", "a.example."] {
        assert_eq!(site.send(&asking(&target, &[("Host", same)])).text(), first, "{same}");
    }
    for other in ["a.example:8080", "b.example", "a.example.b"] {
        assert_ne!(site.send(&asking(&target, &[("Host", other)])).text(), first, "{other}");
    }
}

#[test]
fn a_query_is_taken_as_it_is() {
    let site = Site::new();
    let control = "h[]=Cache-Control:max-age%3D60";
    let targets = [
        format!("/page.php?{control}"),
        format!("/page.php?{control}&"),
        format!("/page.php?{control}&a"),
        format!("/page.php?{control}&a="),
        format!("/page.php/?{control}"),
        format!("/page.php/x%2Fy?{control}"),
        format!("/page.php/x/y?{control}"),
    ];
    let texts: Vec<_> = targets.iter().map(|target| site.get(target).text()).collect();
    assert_eq!(site.runs(), targets.len());
    for (target, text) in targets.iter().zip(texts) {
        assert_eq!(site.get(target).text(), text, "{target}");
    }
}

#[test]
fn a_vary_without_end_is_not_kept() {
    let site = Site::new();
    let names: Vec<_> = (0..100).map(|number| format!("X-{number}")).collect();
    let target =
        page_with("", &["Cache-Control: max-age=60", &format!("Vary: {}", names.join(", "))]);
    site.get(&target).expect(200);
    site.get(&target).expect(200);
    assert_eq!(site.runs(), 2);
    let target = page_with("", &["Cache-Control: max-age=60", "Vary: X-Long"]);
    let long = "x".repeat(8000);
    for _ in 0..2 {
        let response = site.send(&asking(&target, &[("X-Long", &long)])).expect(200);
        assert!(!status(&response).contains("stored"), "{response}");
    }
}

#[test]
fn values_without_end_do_not_fill_the_memory() {
    let site = Site::with(&["cache.memory = \"1MiB\"", "cache.largest = \"64KiB\""]);
    let target = page_with("pieces=1&size=30000", &["Cache-Control: max-age=60", "Vary: X-Any"]);
    for number in 0..60 {
        let text =
            site.send(&asking(&target, &[("X-Any", &number.to_string())])).expect(200).text();
        assert!(text.starts_with(&format!("run {}x", number + 1)), "{}", &text[..10]);
    }
    let other = page_with("other", &["Cache-Control: max-age=60"]);
    site.get(&other);
    assert!(status(&site.get(&other)).starts_with("Tokamak; hit"));
}

#[test]
fn responses_to_requests_with_a_body_are_not_shared() {
    let site = Site::new();
    let target = page_with("", &["Cache-Control: max-age=60"]);
    let mut runs = 0;
    for _ in 0..2 {
        let response = site.send(&get(&target).body("a=b")).expect(200);
        assert!(status(&response).starts_with("Tokamak; fwd=bypass"), "{response}");
        runs += 1;
    }
    let response = site.send(&get(&target).body("a=b").chunked(2)).expect(200);
    assert!(status(&response).starts_with("Tokamak; fwd=bypass"), "{response}");
    assert_eq!(site.runs(), runs + 1);
    assert!(status(&site.get(&target)).starts_with("Tokamak; fwd=miss"));
}

#[test]
fn a_page_that_ends_early_is_not_kept() {
    let site = Site::new();
    let target = page_with("pieces=3&size=40000&pause=50&die", &["Cache-Control: max-age=60"]);
    for run in 1..=2 {
        let mut connection = site.0.connect();
        connection.send(get(&target).head_bytes());
        assert!(connection.try_response("GET").is_err(), "nobody takes the part for the whole");
        assert_eq!(site.runs(), run);
    }
}
