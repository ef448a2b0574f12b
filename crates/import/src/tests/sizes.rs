//! How large bodies may be, how long clients are waited for, what is logged; and which directives
//! are dropped without a note.

use super::{assert_has, check, folder, imported, nginx, rules_of};
use crate::{Import, Kind, Language};

/// Imports a whole configuration of nginx.
#[track_caller]
fn whole(text: &str) -> Import {
    let folder = folder();
    let import = imported(&folder, Language::Nginx, text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// The scopes of the rules with `body`, and its values, in their order.
fn bodies(import: &Import) -> Vec<(String, u64)> {
    let rules = rules_of(import, "body = ").into_iter().map(|rule| {
        let scope = rule.lines().find(|line| line.starts_with("pa")).unwrap_or_default();
        let body = rule.lines().find_map(|line| line.strip_prefix("body = ")).unwrap();
        (scope.to_owned(), body.parse().unwrap())
    });
    rules.collect()
}

#[test]
fn bodies_are_limited_by_the_location_that_nginx_prefers() {
    for (lines, limit, rules) in [
        ("", 1 << 20, &[][..]),
        ("client_max_body_size 7;", 7, &[]),
        ("client_max_body_size 0;", 1u64 << 40, &[]),
        ("location /a/ { client_max_body_size 7; }", 1 << 20, &[("path = \"/a/*\"", 7)]),
        (
            "client_max_body_size 9; location /a/ { } location /b/ { client_max_body_size 9; }",
            9,
            &[],
        ),
        // The last rule that fits counts: nginx's most preferred location.
        (
            "location /a/ { client_max_body_size 8; } location /a/b/ { client_max_body_size 7; } \
                location = /a/b/c { }",
            1 << 20,
            &[
                ("path = \"/a/*\"", 8),
                ("path = \"/a/b/*\"", 7),
                ("pattern = \"^/a/b/c$\"", 1 << 20),
            ],
        ),
        (
            "location ~ \\.png$ { client_max_body_size 7; } location ^~ /a/ { } location /b/ { } \
                location ~ ^/c { client_max_body_size 8; }",
            1 << 20,
            &[("pattern = \"^/c\"", 8), ("pattern = '\\.png$'", 7), ("path = \"/a/*\"", 1 << 20)],
        ),
        ("location / { client_max_body_size 7; }", 1 << 20, &[("", 7)]),
        // What is mounted has the limit of its own.
        ("location /t/ { alias $TOP/other/; client_max_body_size 7; }", 1 << 20, &[("", 7)]),
    ] {
        let import = nginx(lines);
        assert_has(&import, &format!("[limits]\nbody = {limit}\n"));
        let found = bodies(&import);
        let found: Vec<(&str, u64)> = found.iter().map(|(scope, most)| (&**scope, *most)).collect();
        assert_eq!(found, rules, "{lines}: {}", import.toml);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn differences_of_body_limits_are_noted() {
    let php = "location ~ \\.php$ { fastcgi_pass x; }";
    let front = "location / { try_files $uri /index.php; }";
    for (lines, kind, part) in [
        ("client_max_body_size x;".to_owned(), Kind::Left, "no size"),
        (
            format!("{front} {php} location /up/ {{ client_max_body_size 7m; }}"),
            Kind::Differs,
            "1048576 bytes of /index.php",
        ),
        (
            "location /a/ { location /a/b/ { client_max_body_size 7; } }".to_owned(),
            Kind::Left,
            "the site's own root",
        ),
    ] {
        let import = nginx(&lines);
        let is_said = |note: &crate::Note| note.kind == kind && note.reason.contains(part);
        assert!(import.notes.iter().any(is_said), "{lines}: {:?}", import.notes);
    }
    // What leads to scripts with a higher limit has a lower one in nginx, too.
    let php = "location ~ \\.php$ { client_max_body_size 7m; fastcgi_pass x; }";
    let import = nginx(&format!("{front} {php}"));
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert_eq!(bodies(&import), [("pattern = '\\.php$'".to_owned(), 7 << 20)]);
    // A script that is asked for by its name leads nowhere.
    let own = "location = /up.php { client_max_body_size 7m; fastcgi_pass x; }";
    let import = nginx(&format!("{front} location ~ \\.php$ {{ fastcgi_pass x; }} {own}"));
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn sites_with_other_bodies_have_rules() {
    let site = |name: &str, lines: &str| {
        format!("server {{ listen 80; server_name {name}.test; root $TOP/site; {lines} }}")
    };
    let (small, large) = ("client_max_body_size 7;", "client_max_body_size 9;");
    for (text, limit, rules) in [
        (format!("{}{}", site("a", small), site("b", small)), 7, &[][..]),
        (format!("{}{}", site("a", small), site("b", large)), 1 << 20, &[7, 9]),
        (format!("{large}{}{}", site("a", small), site("b", "")), 9, &[7]),
        (format!("{}{}", site("a", small), site("b", "return 444;")), 7, &[]),
        (format!("{}{}", site("a", small), site("b", "return 301 http://a.test$uri;")), 7, &[]),
    ] {
        let import = whole(&text);
        assert_has(&import, &format!("[limits]\nbody = {limit}\n"));
        let found: Vec<u64> = bodies(&import).iter().map(|(_, most)| *most).collect();
        assert_eq!(found, rules, "{text}: {}", import.toml);
        assert!(import.notes.iter().all(|it| !it.reason.contains("body")), "{:?}", import.notes);
    }
}

#[test]
fn clients_are_waited_for_as_in_nginx() {
    let site = |lines: &str| {
        format!("server {{ listen 80; server_name a.test; root $TOP/site; {lines} }}")
    };
    let other = "server { listen 80; server_name b.test; root $TOP/other; }";
    for (text, written, note) in [
        (site(""), None, None),
        (site("client_header_timeout 9;"), Some("head = \"9s\""), None),
        (site("client_body_timeout 2m;"), Some("body = \"120s\""), None),
        (format!("send_timeout 1h; {}", site("")), Some("send = \"3600s\""), None),
        (site("keepalive_timeout 65;"), Some("idle = \"65s\""), None),
        (format!("worker_shutdown_timeout 1m; {}", site("")), Some("drain = \"60s\""), None),
        // The largest.
        (
            format!("send_timeout 7; {} {other}", site("send_timeout 9;")),
            Some("send = \"9s\""),
            Some((Kind::Differs, "`timeouts.send`: the largest, 9 seconds")),
        ),
        (
            format!("{} {other}", site("send_timeout 9;")),
            Some("send = \"60s\""),
            Some((Kind::Differs, "the largest, 60 seconds")),
        ),
        (
            format!(
                "{} server {{ listen 80; return 301 https://a.test$request_uri; }}",
                site("send_timeout 9;")
            ),
            Some("send = \"9s\""),
            None,
        ),
        (site("keepalive_timeout 0;"), None, Some((Kind::Left, "1 to 86400 seconds"))),
        (site("send_timeout 2h;"), None, Some((Kind::Left, "1 to 3600 seconds"))),
        (
            site("keepalive_timeout 9 9;"),
            Some("idle = \"9s\""),
            Some((Kind::Differs, "`Keep-Alive`")),
        ),
        (
            site("location /a/ { send_timeout 9; }"),
            None,
            Some((Kind::Left, "one for all paths, `timeouts.send`")),
        ),
    ] {
        let import = whole(&text);
        match written {
            Some(written) => assert_has(&import, &format!("[timeouts]\n{written}\n")),
            None => assert!(!import.toml.contains("[timeouts]"), "{text}: {}", import.toml),
        }
        let said: Vec<_> = import.notes.iter().map(|it| (it.kind, &*it.reason)).collect();
        match note {
            None => assert!(said.is_empty(), "{text}: {said:?}"),
            Some((kind, part)) => {
                let is_said = said.iter().any(|(own, why)| *own == kind && why.contains(part));
                assert!(is_said, "{text}: {said:?}");
            }
        }
    }
}

#[test]
fn what_nginx_does_not_log_is_not_logged() {
    for (lines, scope, note) in [
        ("location = /a { access_log off; }", Some("pattern = \"^/a$\""), None),
        ("location /a/ { access_log off; }", Some("path = \"/a/*\""), None),
        (
            "location ~ \\.php$ { fastcgi_pass x; } location ~* \\.(css|jpe?g)$ { \
                access_log off; }",
            Some("pattern = '(?i)\\.(css|jpe?g)$'"),
            None,
        ),
        ("access_log off;", Some("log = false"), None),
        ("location /t/ { alias $TOP/other/; access_log off; }", Some("log = false"), None),
        // Others are logged.
        ("location /a/ { access_log off; } location ~ ^/a/b { }", None, Some("location ~ ^/a/b")),
        (
            "location /a/ { access_log off; } location /a/b/ { access_log off; }",
            Some("path = \"/a/b/*\""),
            None,
        ),
        ("access_log off; location /a/ { access_log /log; }", None, Some("rules add up")),
        (
            "location /a/ { access_log off; try_files $uri /index.php; }",
            Some("path = \"/a/*\""),
            Some("hands to `/index.php`"),
        ),
        (
            "location ~ \\.php$ { access_log off; fastcgi_pass x; }",
            Some("pattern = '\\.php$'"),
            Some("lead to its scripts"),
        ),
        ("location /a/ { location /a/b { access_log off; } }", None, Some("the site's own root")),
    ] {
        let text = format!(
            "access_log /log; server {{ listen 80; server_name a.test; root $TOP/site; {lines} }}"
        );
        let import = whole(&text);
        let rules = rules_of(&import, "log = false");
        match scope {
            Some(scope) => {
                assert!(rules.iter().any(|rule| rule.contains(scope)), "{lines}: {}", import.toml);
            }
            None => {
                let own = rules.iter().any(|rule| rule.contains("/a"));
                assert!(!own, "{lines}: {}", import.toml);
            }
        }
        let said: Vec<&str> = import.notes.iter().map(|it| &*it.reason).collect();
        match note {
            None => assert!(said.is_empty(), "{lines}: {said:?}"),
            Some(part) => assert!(said.iter().any(|it| it.contains(part)), "{lines}: {said:?}"),
        }
    }
    // Without any log nothing has to be kept out of it.
    assert!(!nginx("access_log off;").toml.contains("log = false"));
}

#[test]
fn what_changes_responses_or_logs_is_never_dropped_in_silence() {
    for (lines, part) in [
        ("limit_rate 10k;", "as fast as"),
        ("gzip off;", "responses are compressed"),
        ("location /account { brotli off; }", "responses are compressed"),
        ("merge_slashes off;", "double slashes"),
        ("etag off;", "`ETag`"),
        ("server_tokens on;", "`Server`"),
        ("server_tokens build;", "`Server`"),
        ("charset $own;", "`charset` of a site"),
        ("location /old { charset koi8-r; }", "a whole site"),
        ("log_not_found off;", "error log"),
        ("underscores_in_headers on;", "underscores"),
        ("ssl_ciphers HIGH;", "fixed"),
        ("ssl_protocols TLSv1 TLSv1.2;", "TLS 1.2"),
        ("ssl_session_tickets off;", "tickets"),
        ("http2 off;", "http2.enabled"),
        ("http2_max_concurrent_streams 9;", "http2.streams"),
        ("keepalive_requests 9;", "http2.requests"),
        ("large_client_header_buffers 4 8k;", "limits.head"),
        ("listen 443 quic;", "HTTP/3"),
        ("absolute_redirect on;", "relative"),
        ("ssi on;", "commands of SSI"),
        ("access_log /log main;", "`access_format`"),
        ("access_log /log combined if=$x;", "log.access"),
        ("error_log syslog:server=x;", "log.error"),
        ("error_log logs/error.log;", "log.error"),
    ] {
        let import = nginx(lines);
        let notes = &import.notes;
        assert!(notes.iter().any(|note| note.reason.contains(part)), "{lines}: {notes:?}");
    }
    for lines in [
        "absolute_redirect off;",
        "limit_rate 0;",
        "merge_slashes on;",
        "etag on;",
        "charset utf-8;",
        "server_tokens off;",
        "ssl_protocols TLSv1.2 TLSv1.3;",
        "gzip on;",
        "open_file_cache_valid 9s;",
        "types_hash_max_size 2048;",
        "access_log /log combined buffer=1k;",
        "error_log /log warn;",
    ] {
        let import = nginx(lines);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    let text = "mail { } server { listen 80; root $TOP/site; }";
    assert_eq!(whole(text).notes.len(), 1);
}

#[test]
fn the_main_file_above_that_of_a_site_is_named() {
    let folder = folder();
    let text = "server { listen 80; root $TOP/site; }";
    assert!(imported(&folder, Language::Nginx, text).unwrap().notes.is_empty());
    std::fs::write(folder.path().join("nginx.conf"), "").unwrap();
    let import = imported(&folder, Language::Nginx, text).unwrap();
    assert!(import.notes[0].reason.contains("import that file instead"), "{:?}", import.notes);
    let import = imported(&folder, Language::Nginx, &format!("http {{ {text} }}")).unwrap();
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}
