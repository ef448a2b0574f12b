//! Limits by client: which become limits of rules, and why others are left out.

use super::{assert_has, check, folder, imported, nginx, rules_of};
use crate::{Kind, Language};

/// The zones of a configuration around a site with these lines.
fn zoned(lines: &str) -> String {
    format!(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=10r/s; \
         limit_req_zone $binary_remote_addr zone=slow:1m rate=6r/m; \
         limit_conn_zone $binary_remote_addr zone=many:1m; limit_req_status 429; \
         limit_conn_status 429; \
         server {{ listen 80; server_name a.test; root $TOP/site; index index.html; {lines} }}"
    )
}

#[track_caller]
fn limited(lines: &str) -> crate::Import {
    let folder = folder();
    let import = imported(&folder, Language::Nginx, &zoned(lines)).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[test]
fn limits_of_nginx_are_those_of_rules() {
    for (lines, expected) in [
        ("limit_req zone=one;", "[[site.rule]]\nrate = \"10/s\"\nburst = 0"),
        ("limit_req zone=one burst=20 nodelay;", "rate = \"10/s\"\nburst = 20"),
        ("limit_req zone=one burst=20 delay=20;", "rate = \"10/s\"\nburst = 20"),
        ("limit_conn many 7;", "[[site.rule]]\nconnections = 7"),
        ("location /a/ { limit_req zone=slow; }", "path = \"/a/*\"\nrate = \"6/m\"\nburst = 0"),
        ("location = /a { limit_conn many 1; }", "pattern = \"^/a$\"\nconnections = 1"),
        ("location ~ ^/a { limit_conn many 1; }", "pattern = \"^/a\"\nconnections = 1"),
        ("limit_req zone=one; limit_req_dry_run on;", "burst = 0\nlimit_dry_run = true"),
        // Others are refused, or a file that is asked for now and then.
        (
            "location /a/ { limit_req zone=one; } location ~ /\\. { deny all; } \
                location = /a/robots.txt { access_log off; } location ^~ /b/ { } location ~ ^/c { }",
            "path = \"/a/*\"\nrate = \"10/s\"",
        ),
        // The same limit is no second one.
        (
            "limit_req zone=one; location /a/ { limit_req zone=one; }",
            "[[site.rule]]\nrate = \"10/s\"",
        ),
        (
            "set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For; limit_conn many 7;",
            "connections = 7",
        ),
    ] {
        let import = limited(lines);
        assert_has(&import, expected);
        let is_one =
            import.toml.matches("rate =").count() + import.toml.matches("connections =").count();
        assert_eq!(is_one, 1, "{lines}: {}", import.toml);
        let about: Vec<_> =
            import.notes.iter().filter(|it| !it.reason.contains("counts by")).collect();
        assert!(about.is_empty(), "{lines}: {about:?}");
    }
}

#[test]
fn differences_of_rate_limits_are_noted() {
    for (lines, part) in [
        ("limit_req_status 503; limit_req zone=one;", "429 with `Retry-After`, not 503"),
        ("limit_conn_status 444; limit_conn many 1;", "429 with `Retry-After`, not 444"),
        (
            "location /a/ { limit_req zone=one; } location /b/ { limit_req zone=one; }",
            "counts by itself",
        ),
        (
            "limit_req zone=one burst=9 nodelay; location /a/ { limit_req zone=slow; }",
            "the limit around it counts here, too",
        ),
        ("limit_req zone=one; location /a/ { alias $TOP/other/; }", "counted by itself"),
    ] {
        let import = limited(lines);
        let is_said = |note: &crate::Note| note.kind == Kind::Differs && note.reason.contains(part);
        assert!(import.notes.iter().any(is_said), "{lines}: {:?}", import.notes);
        assert_has(&import, "[[site.rule]]");
    }
    // What stands around several servers counts in each.
    let folder = folder();
    let other = "server { listen 80; server_name b.test; root $TOP/other; }";
    let text = format!("limit_req zone=one; {} {other}", zoned(""));
    let import = imported(&folder, Language::Nginx, &text).unwrap();
    assert_eq!(import.toml.matches("rate = \"10/s\"").count(), 2, "{}", import.toml);
    assert!(import.notes[0].reason.contains("counts by itself"), "{:?}", import.notes);
}

#[test]
fn what_would_be_another_limit_is_left_out() {
    let php = super::PHP;
    for (lines, part) in [
        ("limit_req zone=one burst=5;", "`rate = \"10/s\"` and `burst = 5`"),
        ("limit_req zone=one burst=5 delay=4;", "wait"),
        ("limit_req zone=none;", "$binary_remote_addr"),
        ("limit_conn many x;", "no number"),
        ("limit_conn many 0;", "no number"),
        ("limit_req zone=many;", "no rate"),
        ("set_real_ip_from 10.0.0.1; limit_req zone=one;", "whose addresses"),
        // Other locations have a part of the paths.
        (&format!("location / {{ limit_req zone=one; }} {php}"), "nginx asks location ~ \\.php$"),
        ("location / { limit_req zone=one; } location /a/ { }", "nginx asks location /a/"),
        ("location / { limit_req zone=one; } location = /a { try_files $uri =404; }", "= /a"),
        ("location ~ a { limit_req zone=one; } location ^~ /b/ { }", "location ^~ /b/"),
        ("location ~ x { } location ~ a { limit_req zone=one; }", "location ~ x"),
        ("location /a/ { limit_req zone=one; rewrite ^/a/(.*) /b/$1 last; }", "rewrites before"),
        ("location /a/ { location /a/b/ { limit_req zone=one; } }", "the site's own root"),
        ("location /a/ { alias $TOP/other/; limit_req zone=one; }", "the site's own root"),
        (
            "limit_req zone=slow; location /a/ { limit_req zone=one burst=9 nodelay; }",
            "`limit_req zone=one burst=9 nodelay` in its place",
        ),
        // Pages that the front controller or an index file answers are counted by nginx.
        (
            "location / { try_files $uri /index.php; } location ~ \\.php$ { limit_req zone=one; \
                fastcgi_pass x; }",
            "front controller",
        ),
        ("index a.php; location = /b/a.php { limit_req zone=one; fastcgi_pass x; }", "lead there"),
        ("rewrite ^/x$ /a/b last; location /a/ { limit_conn many 1; }", "lead there"),
    ] {
        let import = limited(lines);
        let is_said = |note: &crate::Note| note.kind == Kind::Left && note.reason.contains(part);
        assert!(import.notes.iter().any(is_said), "{lines}: {:?}", import.notes);
        let slow = rules_of(&import, "rate = \"6/m\"");
        assert!(slow.is_empty(), "{lines}: {}", import.toml);
    }
    let import = nginx("limit_req zone=one;");
    assert!(!import.toml.contains("rate"), "{}", import.toml);
    let text = "limit_req_zone $http_x zone=one:1m rate=1r/s; limit_req zone=one; server { listen 80; \
        root $TOP/site; }";
    let import = imported(&folder(), Language::Nginx, text).unwrap();
    assert_eq!(import.notes.len(), 2, "{:?}", import.notes);
}
