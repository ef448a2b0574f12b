//! `proxy_pass` of nginx as routes.

use super::{assert_has, check, folder, imported, nginx};
use crate::{Import, Kind, Language};

/// Imports a whole configuration.
#[track_caller]
fn whole(text: &str) -> Import {
    let folder = folder();
    let import = imported(&folder, Language::Nginx, text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// The tables of a kind.
pub(super) fn tables<'a>(import: &'a Import, name: &str) -> Vec<&'a str> {
    let head = format!("[[{name}]]\n");
    let parts = import.toml.split(&head).skip(1);
    parts.map(|part| part.split("\n\n").next().unwrap_or_default()).collect()
}

const ASK: &str = "proxy_set_header Host $host; proxy_pass http://127.0.0.1:3000";

const PHP: &str = "location / { try_files $uri /index.php?$args; } \
    location ^~ /php/ { } location = /index.php { fastcgi_pass unix:/x; }";

#[test]
fn a_location_is_a_route() {
    for (location, pass, path, upstream_path) in [
        ("/api/", "http://127.0.0.1:3000", "/api", None),
        ("^~ /api/", "http://127.0.0.1:3000/", "/api", Some("/")),
        ("/api/", "http://127.0.0.1:3000/base/", "/api", Some("/base/")),
        ("/api/", "http://127.0.0.1:3000/api/", "/api", None),
        ("/a/b/", "http://127.0.0.1:3000/c/", "/a/b", Some("/c/")),
        ("/", "http://127.0.0.1:3000", "/", None),
        ("/", "http://127.0.0.1:3000/", "/", None),
        ("/", "http://127.0.0.1:3000/base/", "/", Some("/base/")),
    ] {
        let line = format!("location {location} {{ proxy_pass {pass}; }}");
        let import = nginx(&line);
        let [route] = tables(&import, "site.route")[..] else { panic!("{line}: {}", import.toml) };
        let path = format!("path = \"{path}\"\nupstream = \"127.0.0.1-3000\"");
        let rest = upstream_path.map(|it| format!("\nupstream_path = \"{it}\""));
        assert_eq!(route.trim_end(), path + &rest.unwrap_or_default(), "{line}");
        assert_has(&import, "address = \"http://127.0.0.1:3000\"\nhost = \"127.0.0.1:3000\"");
        assert_has(&import, "mode = \"fastcgi\"");
        assert!(import.notes.is_empty(), "{line}: {:?}", import.notes);
    }
    // nginx redirects to the slash that it looks for.
    let import = nginx("location /api/ { proxy_pass http://127.0.0.1:3000; }");
    assert_has(&import, "pattern = \"^/api$\"\nredirect = \"/api/\"");
}

#[test]
fn beside_php_only_the_path_is_left_out() {
    let import = nginx(&format!("location /api/ {{ {ASK}; }} {PHP}"));
    assert!(!import.toml.contains("mode ="), "{}", import.toml);
    assert!(!import.toml.contains("host = \"127"), "{}", import.toml);
    for rule in tables(&import, "site.rule") {
        if rule.contains("serve = \"files\"") || rule.contains("scripts =") {
            assert!(rule.contains("except = [\"/api\"]"), "{rule}");
        }
    }
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

/// The certificate is verified, whatever nginx did, and the import says so.
#[test]
fn services_over_tls_are_verified() {
    let lines = "proxy_ssl_verify on; proxy_ssl_trusted_certificate $TOP/ca.pem; \
        proxy_ssl_name inner.test; proxy_ssl_server_name on; proxy_ssl_certificate $TOP/own.pem; \
        proxy_ssl_certificate_key $TOP/own.key; proxy_ssl_session_reuse off;";
    for (lines, pass, address, texts, is_noted) in [
        ("", "https://app/", "https://app:443", &["host = \"app\""][..], true),
        ("", "https://app:8443", "https://app:8443", &["host = \"app:8443\""], true),
        ("", "https://group", "https://10.0.0.1:8443", &["tls_name = \"group\""], true),
        (
            lines,
            "https://app",
            "https://app:443",
            &["ca.pem\"", "tls_name = \"inner.test\"", "own.pem\"", "tls_key = \""],
            false,
        ),
    ] {
        let folder = folder();
        for name in ["ca.pem", "own.pem", "own.key"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let text = format!(
            "upstream group {{ server 10.0.0.1:8443; }} server {{ listen 80; server_name a.test; \
             root $TOP/site; location / {{ {lines} proxy_pass {pass}; }} }}"
        );
        let import = imported(&folder, Language::Nginx, &text).unwrap();
        check(&folder, &import.toml).unwrap();
        assert_has(&import, &format!("address = \"{address}\""));
        texts.iter().for_each(|text| assert_has(&import, text));
        let noted = import.notes.iter().filter(|it| it.reason.contains("is verified here"));
        assert_eq!(noted.count(), usize::from(is_noted), "{pass}: {:?}", import.notes);
    }
}

#[test]
fn what_a_route_cannot_say_is_refused() {
    for lines in [
        "location ~ ^/a/ { proxy_pass http://127.0.0.1:3000; }",
        "location /a/ { proxy_pass https://unix:/run/a.sock; }",
        "location /a/ { proxy_pass http://$host; }",
        "location /a/ { proxy_pass http://127.0.0.1:3000/base; }",
        "location /a/ { proxy_pass http://127.0.0.1:3000/?a; }",
        "location /a/ { proxy_pass http://127.0.0.1:99999; }",
        "location /a/ { if ($http_x) { proxy_pass http://127.0.0.1:1; } }",
        "location /a/ { if ($http_x) { return 403; } proxy_pass http://127.0.0.1:1; }",
        "location /a/ { rewrite ^/a/(.*)$ /b?c=$1 break; proxy_pass http://127.0.0.1:1; }",
        "location /a/ { proxy_pass http://127.0.0.1:1; auth_request /b; }",
        "location /a/ { proxy_pass http://127.0.0.1:1; proxy_method POST; }",
        "location /a/ { proxy_pass http://127.0.0.1:1; internal; }",
        "location /a/ { proxy_pass http://127.0.0.1:1; location /a/b/ { deny all; } }",
        "location /a/ { location /a/b/ { proxy_pass http://127.0.0.1:1; } }",
        "location = /a/ { proxy_pass http://127.0.0.1:1; }",
        "location = /a { proxy_pass http://127.0.0.1:1; } location /a/ { }",
        "location /a { } location /a/ { proxy_pass http://127.0.0.1:1; }",
        "location /.a/ { proxy_pass http://127.0.0.1:1; }",
    ] {
        let import = nginx(lines);
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert!(is_refused, "{lines}: {:?}", import.notes);
        assert!(tables(&import, "site.route").is_empty(), "{lines}: {}", import.toml);
        assert!(!import.toml.contains("[[upstream]]"), "{lines}: {}", import.toml);
        assert_has(&import, "deny = [\"all\"]");
    }
}

#[test]
fn what_is_between_a_location_and_a_route_is_refused() {
    for (lines, pattern) in [
        ("location /a { proxy_pass http://127.0.0.1:1; }", "pattern = \"^/a[^/]\""),
        ("location = /a { proxy_pass http://127.0.0.1:1; }", "pattern = \"^/a/\""),
    ] {
        let import = nginx(lines);
        let rules = tables(&import, "site.rule");
        let rule = rules.iter().find(|rule| rule.contains(pattern));
        let rule = rule.unwrap_or_else(|| panic!("{lines}: {}", import.toml));
        assert!(rule.contains("deny = [\"all\"]"), "{rule}");
        assert!(import.notes.iter().all(|note| note.kind == Kind::Differs), "{:?}", import.notes);
        assert!(!import.notes.is_empty());
    }
    let import =
        nginx("location /a { proxy_pass http://127.0.0.1:1; } location /ab/ { expires 1h; }");
    assert_has(&import, "and_pattern = [\"!^/ab/\"]");
}

#[test]
fn who_may_ask_is_asked_before() {
    let import = nginx(&format!(
        "location /a/ {{ allow 192.0.2.0/24; deny all; {ASK}; limit_except GET {{ deny all; }} }}"
    ));
    assert!(tables(&import, "site.route").is_empty(), "{}", import.toml);
    let import = nginx(&format!("location /a/ {{ allow 192.0.2.0/24; deny all; {ASK}; }}"));
    assert_has(&import, "path = \"/a/*\"\nallow = [\"192.0.2.0/24\"]\ndeny = [\"all\"]");
    assert_eq!(tables(&import, "site.route").len(), 1);
    let import = nginx(&format!("location /a/ {{ auth_basic x; {ASK}; }}"));
    assert_has(&import, "path = \"/a/*\"\ndeny = [\"all\"]");
    let import = nginx(&format!("location /a/ {{ deny all; {ASK}; }}"));
    assert!(tables(&import, "site.route").is_empty(), "{}", import.toml);
}

#[test]
fn other_locations_keep_their_paths() {
    let import = nginx(&format!(
        "location / {{ {ASK}; }} location /static/ {{ expires 1h; }} \
         location = /robots.txt {{ access_log off; }} location /pics/ {{ alias $TOP/other/; }}"
    ));
    for path in ["/static", "/robots.txt"] {
        assert_has(&import, &format!("path = \"{path}\"\nauthorizer = \"none\""));
    }
    assert!(!import.toml.contains("path = \"/pics\"\nauthorizer"), "{}", import.toml);
    assert_has(&import, "path = \"/pics\"\nroot");
    // nginx sends files and runs scripts there; here the service answers.
    let import = nginx(&format!(
        "location / {{ {ASK}; }} location ~ \\.php$ {{ fastcgi_pass unix:/x; }} \
         location ~ /\\. {{ deny all; }}"
    ));
    let [note] = &import.notes[..] else { panic!("{:?}", import.notes) };
    assert!(note.kind == Kind::Differs && note.line.contains("php"), "{note:?}");
    assert_has(&import, "deny = [\"all\"]");
}

#[test]
fn files_may_come_first() {
    let import =
        nginx(&format!("location / {{ try_files $uri @app; }} location @app {{ {ASK}; }}"));
    assert_has(&import, "path = \"/\"\nupstream = \"127.0.0.1-3000\"\nfiles = true");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert!(!import.toml.contains("deny"), "{}", import.toml);
    let import = nginx(&format!("try_files $uri/index.html $uri @app; location @app {{ {ASK}; }}"));
    assert_has(&import, "path = \"/\"\nupstream = \"127.0.0.1-3000\"\nfiles = true");
    assert_eq!(import.notes.len(), 1, "{:?}", import.notes);
    let import = nginx(&format!(
        "location / {{ try_files $uri @app; }} location @app {{ auth_basic x; {ASK}; }}"
    ));
    assert!(tables(&import, "site.route").is_empty(), "{}", import.toml);
    assert!(!import.notes.is_empty());
}

#[test]
fn bodies_are_gathered_or_not() {
    for (value, is_kept) in [("off", true), ("on", false)] {
        let import = nginx(&format!("location /a/ {{ {ASK}; proxy_request_buffering {value}; }}"));
        assert_eq!(import.toml.contains("request_buffering = false"), is_kept, "{}", import.toml);
        assert!(import.notes.is_empty(), "{:?}", import.notes);
    }
}

#[test]
fn groups_are_upstreams() {
    let import = whole(
        "http { upstream app { least_conn; server 10.0.0.1:3000 weight=3; server 10.0.0.2; \
           server unix:/run/app.sock; server 10.0.0.3:1 down; keepalive 8; } \
         upstream bound { ip_hash; server 10.0.0.4:80; } \
         upstream unused { server 10.0.0.5; } \
         server { listen 80; server_name a.test; root $TOP/site; \
           location /a/ { proxy_pass http://app; proxy_set_header Host $http_host; } \
           location /b/ { proxy_pass http://app/; proxy_set_header Host $host; } \
           location /c/ { proxy_pass http://app; proxy_read_timeout 5m; } \
           location /d/ { proxy_pass http://bound; } } }",
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    let upstreams = tables(&import, "upstream");
    let expected = [
        "name = \"app\"\naddress = [{ address = \"http://10.0.0.1:3000\", weight = 3 }, \
            \"http://10.0.0.2:80\", \"http+unix:/run/app.sock\"]\nbalance = \"least_busy\"",
        "name = \"app-2\"",
        "name = \"bound\"\naddress = \"http://10.0.0.4:80\"\naffinity = \"client\"\n\
            host = \"bound\"",
    ];
    assert_eq!(upstreams.len(), 3, "{}", import.toml);
    for (upstream, start) in upstreams.iter().zip(expected) {
        assert!(upstream.starts_with(start), "{upstream}");
    }
    assert!(
        upstreams[1]
            .ends_with("host = \"app\"\nfirst_byte_timeout = \"300s\"\nread_timeout = \"300s\"")
    );
    let notes = |server: &str| {
        let import = whole(&format!(
            "http {{ upstream app {{ server 10.0.0.1; {server} }} server {{ listen 80; \
             server_name a.test; root $TOP/site; location /a/ {{ proxy_pass http://app; }} }} }}"
        ));
        import.notes.len()
    };
    for server in ["server 10.0.0.2 backup;", "server 10.0.0.2 max_fails=3;", "hash $uri;"] {
        assert_eq!(notes(server), 1, "{server}");
    }
}

#[test]
fn services_are_told_what_nginx_tells_them() {
    let told = |lines: &str| nginx(&format!("location / {{ proxy_pass http://app; {lines} }}"));
    for (lines, part) in [
        ("", "host = \"app\""),
        ("proxy_set_header Host $proxy_host;", "host = \"app\""),
        ("proxy_set_header Host b.test;", "host = \"b.test\""),
        ("proxy_set_header Host $server_name;", "host = \"a.test\""),
        ("proxy_set_header X-Me 1; proxy_set_header Cookie '';", "{ Cookie = \"\", X-Me = \"1\" }"),
        (
            "proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; \
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; \
             proxy_set_header X-Forwarded-Host $host; proxy_set_header Range $http_range; \
             proxy_set_header Connection ''; proxy_http_version 1.1; proxy_buffering off;",
            "host = \"app\"\n\n",
        ),
        (
            "proxy_set_header Upgrade $http_upgrade; \
             proxy_set_header Connection $connection_upgrade; proxy_set_header Connection upgrade;",
            "host = \"app\"\n\n",
        ),
        ("proxy_hide_header X-Powered-By;", "remove_headers = [\"X-Powered-By\"]"),
        ("proxy_connect_timeout 2s;", "connect_timeout = \"2s\""),
        ("proxy_send_timeout 2m;", "send_timeout = \"120s\""),
    ] {
        let import = told(lines);
        assert_has(&import, part);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    for lines in [
        "proxy_set_header Host $http_x_host;",
        "proxy_redirect http://a/ /;",
        "proxy_cache one;",
        "proxy_read_timeout 0;",
    ] {
        let import = told(lines);
        assert_eq!(import.notes.len(), 1, "{lines}: {:?}", import.notes);
        assert_eq!(tables(&import, "site.route").len(), 1, "{lines}");
    }
    // What nginx would have put in place of the client's own is not the client's to say.
    let import = told("proxy_set_header X-User $remote_user;");
    assert_has(&import, "headers = { x-user = \"\" }");
    assert_eq!(import.notes.len(), 1);
    // Fields of a location replace all that are inherited.
    let import = nginx(
        "proxy_set_header X-A 1; proxy_set_header Host $host; \
         location /a/ { proxy_pass http://app; } \
         location /b/ { proxy_pass http://app; proxy_set_header X-B 1; }",
    );
    let upstreams = tables(&import, "upstream");
    assert!(upstreams[0].contains("X-A") && !upstreams[0].contains("host"), "{}", import.toml);
    assert!(upstreams[1].contains("host = \"app\"\nheaders = { X-B = \"1\" }"), "{}", import.toml);
}

#[test]
fn a_rewrite_that_takes_the_path_away_is_one_of_the_route() {
    let import =
        nginx("location /a/ { rewrite ^/a/(.*)$ /b/$1 break; proxy_pass http://127.0.0.1:3000; }");
    assert_has(&import, "path = \"/a\"\nupstream = \"127.0.0.1-3000\"\nupstream_path = \"/b/\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn a_site_that_is_a_service_alone_needs_no_documents() {
    let sites = |lines: &str| {
        whole(&format!("http {{ server {{ listen 80; server_name a.test; {lines} }} }}"))
    };
    let import = sites(&format!("location / {{ {ASK}; }}"));
    assert_has(&import, "root = \".\"\nmode = \"fastcgi\"");
    assert!(!import.toml.contains("deny"), "{}", import.toml);
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    let import = sites(&format!("location /api/ {{ {ASK}; }}"));
    let rules = tables(&import, "site.rule");
    let last = rules.last().unwrap();
    assert!(last.contains("except = [\"/api\"]\ndeny = [\"all\"]\nstatus = 404"), "{last}");
    let import = sites(&format!(
        "location / {{ {ASK}; }} location /static/ {{ alias $TOP/other/; }} location /none/ {{ }}"
    ));
    assert_has(&import, "path = \"/static\"\nroot");
    assert_has(&import, "path = \"/none\"\ndeny = [\"all\"]");
}
