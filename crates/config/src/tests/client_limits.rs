//! What one client may do.

use super::*;

#[test]
fn limits_of_a_client() {
    let place = Place::with(&["index.php"]);
    let server = place
        .load(
            r#"
            [limits]
            client_rate = "100/s"
            client_burst = 200
            client_connections = 10
            client_dry_run = true
            [[site]]
            [[site.rule]]
            path = "/login"
            rate = " 90 / m "
            limit_by = "header:X-Key"
            [[site.rule]]
            connections = 3
            "#,
        )
        .unwrap();
    let all = &server.limits.client;
    assert_eq!(all.rate, Some(Rate { requests: 100, per: TimeUnit::Second }));
    assert_eq!((all.burst, all.connections, all.dry_run), (200, 10, true));
    let [login, site] = &server.sites[0].rules[..] else { panic!("two rules") };
    assert_eq!(login.limits.rate.unwrap().to_string(), "90/m");
    assert_eq!(login.limits.by, ClientId::Header("x-key".into()));
    assert_eq!((site.limits.connections, site.limits.rate), (3, None));

    // What is printed means the same.
    let again = place.load(&server.to_toml()).unwrap();
    assert_eq!((&again.limits, &again.sites[0].rules), (&server.limits, &server.sites[0].rules));
}

#[test]
fn limits_that_cannot_be_meant() {
    for (lines, key, problem) in [
        ("rate = \"10\"", "site.rule.rate", "`10` is no rate; write a number, `/` and s, m or h"),
        ("rate = \"10/d\"", "site.rule.rate", "is no rate"),
        ("rate = \"0/s\"", "site.rule.rate", "would refuse every request"),
        ("rate = \"9999999/s\"", "site.rule.rate", "out of bounds"),
        ("rate = 10", "site.rule.rate", "must be"),
        ("burst = 3\ndeny = \"all\"", "site.rule.burst", "is only for `rate`"),
        ("limit_dry_run = true\ndeny = \"all\"", "site.rule.limit_dry_run", "is only for `rate`"),
        ("limit_by = \"header:A\"\ndeny = \"all\"", "site.rule.limit_by", "is only for `rate`"),
        ("limit_by = \"header:\"\nrate = \"1/s\"", "site.rule.limit_by", "is nothing of a client"),
        ("rate = \"1/s\"\ncontent_type = \"text/html\"", "content_type", "is known only when"),
    ] {
        let place = Place::with(&["index.php"]);
        has(&place.errors(&format!("[[site]]\n[[site.rule]]\n{lines}\n")), &[key, problem]);
    }
}
