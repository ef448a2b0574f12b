//! `ProxyPass` of Apache and `reverse_proxy` of Caddy as routes.

use super::proxies::tables;
use super::{assert_has, check, folder, imported};
use crate::{Import, Kind, Language};

/// Imports a site of Apache with a root.
#[track_caller]
fn apache(lines: &str) -> Import {
    whole_apache(&format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n{lines}\n</VirtualHost>"
    ))
}

#[track_caller]
fn whole_apache(text: &str) -> Import {
    let folder = folder();
    let import = imported(&folder, Language::Apache, text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// Imports a site of Caddy.
#[track_caller]
fn caddy(lines: &str) -> Import {
    let folder = folder();
    let text = format!("http://a.test {{\n{lines}\n}}");
    let import = imported(&folder, Language::Caddy, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// Of each route its path, whether a service answers, and what stands in place of the path.
fn routes(import: &Import) -> Vec<(String, bool, Option<String>)> {
    let value = |table: &str, key: &str| {
        let start = format!("{key} = \"");
        let line = table.lines().find_map(|line| line.strip_prefix(&*start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let all = tables(import, "site.route").into_iter();
    let route = |table| {
        let has_service = value(table, "upstream").is_some();
        (value(table, "path").unwrap_or_default(), has_service, value(table, "upstream_path"))
    };
    all.map(route).collect()
}

fn refused(import: &Import) -> bool {
    import.notes.iter().any(|note| note.kind == Kind::Refused)
}

#[test]
fn a_line_of_apache_is_a_route() {
    for (line, path, upstream_path) in [
        ("ProxyPass /api http://127.0.0.1:3000", "/api", Some("/")),
        ("ProxyPass /api/ http://127.0.0.1:3000/", "/api", Some("/")),
        ("ProxyPass /api http://127.0.0.1:3000/api", "/api", None),
        ("ProxyPass /api/ http://127.0.0.1:3000/base/", "/api", Some("/base/")),
        ("ProxyPass / http://127.0.0.1:3000/", "/", None),
        ("ProxyPass / http://127.0.0.1:3000/base/", "/", Some("/base/")),
        ("ProxyPassMatch ^/api/(.*)$ http://127.0.0.1:3000/x/$1", "/api", Some("/x/")),
        ("ProxyPassMatch ^/api(/.*)?$ http://127.0.0.1:3000$1", "/api", Some("/")),
        ("ProxyPassMatch ^/(.*)$ http://127.0.0.1:3000/$1", "/", None),
        (
            "<IfModule mod_proxy.c>\nProxyPass /api http://127.0.0.1:3000\n</IfModule>",
            "/api",
            Some("/"),
        ),
        ("<Location /api>\nProxyPass http://127.0.0.1:3000\n</Location>", "/api", Some("/")),
        ("RewriteRule ^/api/(.*)$ http://127.0.0.1:3000/$1 [P,L]", "/api", Some("/")),
        ("RewriteRule ^/?(.*)$ http://127.0.0.1:3000/$1 [P,L]", "/", None),
        ("RewriteRule ^(.*)$ http://127.0.0.1:3000$1 [P]", "/", None),
        ("RewriteRule ^ http://127.0.0.1:3000%{REQUEST_URI} [P]", "/", None),
        ("RewriteRule ^/api/ http://127.0.0.1:3000%{REQUEST_URI} [P]", "/api", None),
    ] {
        let import = apache(line);
        let upstream_path = upstream_path.map(str::to_owned);
        assert_eq!(routes(&import), [(path.to_owned(), true, upstream_path)], "{line}");
        assert_has(&import, "name = \"127.0.0.1-3000\"\naddress = \"http://127.0.0.1:3000\"");
        assert!(import.notes.is_empty(), "{line}: {:?}", import.notes);
    }
}

#[test]
fn services_over_tls_are_verified() {
    let noted = |import: &Import| {
        import.notes.iter().filter(|it| it.reason.contains("is verified here")).count()
    };
    let import = apache("SSLProxyEngine on\nProxyPass /a/ https://b/");
    assert_has(&import, "address = \"https://b:443\"");
    assert_has(&import, "host = \"b\"");
    assert_eq!(noted(&import), 1, "{:?}", import.notes);
    let import = apache(
        "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile $TOP/site/index.php\n\
         SSLProxyCheckPeerName off\nProxyPass /a/ https://b:8443/",
    );
    assert_has(&import, "address = \"https://b:8443\"");
    assert_has(&import, "/index.php\"");
    let reasons: Vec<_> = import.notes.iter().map(|note| &*note.reason).collect();
    assert_eq!(reasons, ["a certificate always has to name the service"]);
    for (lines, text, count) in [
        ("reverse_proxy /a/* https://b", "address = \"https://b:443\"", 0),
        ("reverse_proxy /a/* b:1 {\ntransport http {\ntls\n}\n}", "https://b:1", 0),
        (
            "reverse_proxy /a/* b:1 {\ntransport http {\ntls_server_name c\n}\n}",
            "tls_name = \"c\"",
            0,
        ),
        (
            "reverse_proxy /a/* b {\ntransport http {\ntls_insecure_skip_verify\n}\n}",
            "https://b:443",
            1,
        ),
    ] {
        let import = caddy(lines);
        assert_has(&import, text);
        assert_eq!(noted(&import), count, "{lines}: {:?}", import.notes);
    }
}

#[test]
fn what_a_route_cannot_say_of_apache_is_refused() {
    for lines in [
        "ProxyPass /a ws://b/",
        "ProxyPass /a ajp://b/",
        "ProxyPass /a fcgi://b/",
        "ProxyPass /a/ http://b",
        "ProxyPass /a balancer://none",
        "ProxyPass /a http://b interpolate=On",
        "ProxyPass /.a http://b",
        "ProxyPass /a http://b:99999",
        "ProxyPassMatch ^/a[0-9]/(.*)$ http://b/$1",
        "ProxyPassMatch \\.png$ !\nProxyPass / http://b/",
        "<LocationMatch ^/a>\nProxyPass http://b/\n</LocationMatch>",
        "<Directory $TOP/site/a>\nProxyPass /a http://b/\n</Directory>",
        "RewriteCond %{HTTP:Upgrade} websocket [NC]\nRewriteRule ^/a/(.*)$ ws://b/$1 [P]",
        "RewriteCond %{QUERY_STRING} x\nRewriteRule ^/a/(.*)$ http://b/$1 [P]",
        "RewriteRule ^/a/(.*)$ http://b/?x=$1 [P]",
        "RewriteRule ^/a/(.*)$ http://b/$1 [P,QSD]",
        "<Proxy balancer://p>\nBalancerMember ws://b\n</Proxy>\nProxyPass /a balancer://p",
        "<Proxy balancer://p>\nBalancerMember http://b/c\n</Proxy>\nProxyPass /a balancer://p",
        "Alias /a $TOP/other\nProxyPass /a/b http://c",
    ] {
        let import = apache(lines);
        assert!(refused(&import), "{lines}: {:?}", import.notes);
        assert!(routes(&import).iter().all(|it| it.0 == "/"), "{lines}: {}", import.toml);
        assert_has(&import, "deny = [\"all\"]");
    }
}

#[test]
fn the_first_line_of_apache_that_has_a_path_counts() {
    for (lines, expected) in [
        ("ProxyPass /a !\nProxyPass / http://b/", &[("/a", false), ("/", true)][..]),
        ("ProxyPassMatch ^/a/ !\nProxyPass / http://b/", &[("/a", false), ("/", true)]),
        ("ProxyPass / http://b/\nProxyPass /a !", &[("/", true)]),
        ("ProxyPass /a http://c\nProxyPass / http://b/", &[("/a", true), ("/", true)]),
        ("ProxyPass / http://b/\nProxyPass /a http://c", &[("/", true)]),
        (
            "ProxyPass / http://b/\n<Location /a>\nProxyPass !\n</Location>",
            &[("/a", false), ("/", true)],
        ),
        (
            "<Location />\nProxyPass http://b/\n</Location>\n\
             <Location /a>\nProxyPass !\n</Location>",
            &[("/a", false), ("/", true)],
        ),
        (
            "<Location /a>\nProxyPass !\n</Location>\n\
             <Location />\nProxyPass http://b/\n</Location>",
            &[("/", true)],
        ),
        // Without a service around it, it is the site's anyway.
        ("ProxyPass /a !\nProxyPass /b http://c", &[("/b", true)]),
    ] {
        let import = apache(lines);
        let found = routes(&import);
        let found: Vec<(&str, bool)> = found.iter().map(|it| (&*it.0, it.1)).collect();
        assert_eq!(found, expected, "{lines}");
        assert!(!refused(&import), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn services_are_told_what_apache_tells_them() {
    let told = |lines: &str| apache(&format!("ProxyPass / http://app:3000/\n{lines}"));
    for (lines, part) in [
        ("", "host = \"app:3000\"\n"),
        ("ProxyPreserveHost Off", "host = \"app:3000\"\n"),
        ("ProxyPreserveHost On", "address = \"http://app:3000\"\n\n"),
        ("RequestHeader set Host b.test", "host = \"b.test\""),
        ("RequestHeader set X-Me 1\nRequestHeader unset Cookie", "{ Cookie = \"\", X-Me = \"1\" }"),
        ("RequestHeader set X-Forwarded-Proto https", "{ X-Forwarded-Proto = \"https\" }"),
        ("RequestHeader set X-Real-IP expr=%{REMOTE_ADDR}", "host = \"app:3000\"\n\n"),
        ("RequestHeader unset Proxy early", "headers = { Proxy = \"\" }"),
        ("<Location />\nRequestHeader set X-Me 1\n</Location>", "headers = { X-Me = \"1\" }"),
        ("ProxyAddHeaders Off", "forwarded = \"none\""),
        ("ProxyTimeout 7", "first_byte_timeout = \"7s\"\nread_timeout = \"7s\""),
        ("Timeout 300", "send_timeout = \"300s\""),
        ("ProxyRequests Off\nProxyVia Off\nSSLProxyVerify none", "host = \"app:3000\""),
        ("ProxyPreserveHost On\nProxyPassReverse / http://app:3000/", "[[upstream]]"),
        ("<Proxy *>\nRequire all granted\n</Proxy>", "[[upstream]]"),
        ("<Proxy http://app:3000>\nProxySet connectiontimeout=3\n</Proxy>", "connect_timeout"),
    ] {
        let import = told(lines);
        assert_has(&import, part);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    for (lines, part) in [
        ("RequestHeader set X-User expr=%{REMOTE_USER}", "headers = { x-user = \"\" }"),
        ("RequestHeader edit X-User a b", "headers = { x-user = \"\" }"),
        ("RequestHeader set X-User a env=b", "headers = { x-user = \"\" }"),
        ("<Location /a>\nRequestHeader set X-User a\n</Location>", "headers = { x-user = \"\" }"),
        ("RequestHeader append X-Me 1", "host = \"app:3000\"\n\n"),
        ("ProxyPassReverse / http://app:3000/", "host = \"app:3000\"\n\n"),
        ("ProxyPassReverseCookiePath / /x", "[[upstream]]"),
        ("ProxyTimeout 0", "[[upstream]]"),
    ] {
        let import = told(lines);
        assert_has(&import, part);
        assert_eq!(import.notes.len(), 1, "{lines}: {:?}", import.notes);
        assert_eq!(routes(&import).len(), 1, "{lines}");
    }
    let import = told("<Proxy *>\nRequire ip 192.0.2.0/24\n</Proxy>");
    assert_has(&import, "allow = [\"192.0.2.0/24\"]\ndeny = [\"all\"]");
}

#[test]
fn balancers_are_upstreams_of_several_addresses() {
    let import = apache(
        "<Proxy balancer://pool>\nBalancerMember http://10.0.0.1:3000 loadfactor=3\n\
         BalancerMember http://10.0.0.2\nBalancerMember http://10.0.0.3 status=D\n\
         BalancerMember unix:/run/a.sock|http://10.0.0.1:3000\nProxySet lbmethod=bybusyness\n\
         </Proxy>\nProxyPreserveHost On\nProxyPass /a balancer://pool/a\n\
         ProxyPass /b balancer://pool",
    );
    let [upstream] = tables(&import, "upstream")[..] else { panic!("{}", import.toml) };
    let expected = "name = \"pool\"\naddress = [{ address = \"http://10.0.0.1:3000\", weight = 3 }, \
        \"http://10.0.0.2:80\", \"http+unix:/run/a.sock\"]\nbalance = \"least_busy\"";
    assert!(upstream.starts_with(expected), "{upstream}");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    for line in ["stickysession=ROUTE", "lbmethod=bytraffic", "lbmethod=byrequests timeout=3"] {
        let import = apache(&format!(
            "<Proxy balancer://pool>\nBalancerMember http://10.0.0.1\n</Proxy>\n\
             ProxyPass /a balancer://pool/a {line}"
        ));
        assert_eq!(import.notes.len(), 1, "{line}: {:?}", import.notes);
    }
}

#[test]
fn what_is_of_folders_is_not_for_services() {
    let import = apache(
        "<Directory $TOP/site>\nRequire all denied\n</Directory>\nProxyPass /a http://b/a\n\
         Redirect /a/x http://c.test/",
    );
    for rule in tables(&import, "site.rule") {
        let is_of_folders = rule.contains("redirect") || rule.starts_with("except");
        assert!(!is_of_folders || rule.contains("except = [\"/a\"]"), "{rule}");
        assert!(!rule.starts_with("deny"), "{}", import.toml);
    }
    // What is mounted is not opened by what a service has of the site around.
    let import = apache(
        "<Directory />\nRequire all denied\n</Directory>\nAlias /m $TOP/other\nProxyPass /a http://b/",
    );
    let mount = import.toml.split("path = \"/m\"\nroot").nth(1).unwrap();
    assert!(mount.contains("deny = [\"all\"]") && !mount.contains("except"), "{}", import.toml);
    // A folder that a service has before is not served.
    let import = apache("Alias /m $TOP/other\nProxyPass / http://b/");
    assert!(!import.toml.contains("path = \"/m\""), "{}", import.toml);
    let import = apache("Alias /m $TOP/other\nProxyPass /m !\nProxyPass / http://b/");
    assert_has(&import, "path = \"/m\"\nroot");
}

#[test]
fn a_site_of_apache_may_be_a_service_alone() {
    let import = whole_apache(
        "Timeout 300\n<VirtualHost *:80>\nServerName a.test\nProxyPass / http://b/\n</VirtualHost>",
    );
    assert_has(&import, "root = \".\"\nmode = \"fastcgi\"");
    assert_has(&import, "read_timeout = \"300s\"");
    assert!(!import.toml.contains("deny = [\"all\"]\nstatus = 404"), "{}", import.toml);
}

const FILES: &str = "root * $TOP/site\nfile_server";

#[test]
fn a_directive_of_caddy_is_a_route() {
    for (lines, path, upstream_path) in [
        ("reverse_proxy 127.0.0.1:3000", "/", None),
        ("reverse_proxy /api/* 127.0.0.1:3000", "/api", None),
        ("@a path /api /api/*\nreverse_proxy @a 127.0.0.1:3000", "/api", None),
        ("reverse_proxy /api/* {\nto 127.0.0.1:3000\n}", "/api", None),
        ("handle /api/* {\nreverse_proxy 127.0.0.1:3000\n}", "/api", None),
        ("handle {\nreverse_proxy 127.0.0.1:3000\n}", "/", None),
        ("route /api/* {\nreverse_proxy 127.0.0.1:3000\n}", "/api", None),
        ("handle_path /api/* {\nreverse_proxy 127.0.0.1:3000\n}", "/api", Some("/")),
        (
            "handle_path /api/* {\nrewrite * /v1{uri}\nreverse_proxy 127.0.0.1:3000\n}",
            "/api",
            Some("/v1"),
        ),
        (
            "handle /api/* {\nuri strip_prefix /api\nreverse_proxy 127.0.0.1:3000\n}",
            "/api",
            Some("/"),
        ),
        ("reverse_proxy /api/* 127.0.0.1:3000 {\nrewrite /v1{uri}\n}", "/api", Some("/v1/api")),
        ("handle /api/* {\nreverse_proxy /api/v2/* 127.0.0.1:3000\n}", "/api/v2", None),
    ] {
        let import = caddy(&format!("{FILES}\n{lines}"));
        let upstream_path = upstream_path.map(str::to_owned);
        assert_eq!(routes(&import), [(path.to_owned(), true, upstream_path)], "{lines}");
        assert_has(&import, "name = \"127.0.0.1-3000\"\naddress = \"http://127.0.0.1:3000\"");
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn what_a_route_cannot_say_of_caddy_is_refused() {
    for lines in [
        "reverse_proxy /a/* h2c://b",
        "reverse_proxy /a/* h2c://b",
        "reverse_proxy /a/* {env.B}",
        "reverse_proxy /a/*",
        "@a path *.png\nreverse_proxy @a b",
        "@a header X b\nreverse_proxy @a b",
        "@a {\npath /a/*\nmethod GET\n}\nreverse_proxy @a b",
        "@a path_regexp ^/a\nreverse_proxy @a b",
        "reverse_proxy /a/* b {\ntransport http {\ntls_except_ports 80\n}\n}",
        "reverse_proxy /a/* b {\ntransport http {\nversions h2c 2\n}\n}",
        "reverse_proxy /a/* b {\ntransport fastcgi\n}",
        "reverse_proxy /a/* b {\nhandle_response {\nrespond x\n}\n}",
        "reverse_proxy /a/* b {\nmethod GET\n}",
        "reverse_proxy /a/* b {\nrewrite /b\n}",
        "reverse_proxy /a/* b {\nunknown\n}",
        "reverse_proxy /a/* {\ndynamic srv _a._tcp.b\n}",
        "handle /a/* {\nuri strip_prefix /a\nrewrite * /b{uri}\nreverse_proxy b\n}",
        "handle /a/* {\nuri replace a b\nreverse_proxy b\n}",
        "handle /a/* {\nreverse_proxy b\nforward_auth c {\nuri /d\n}\n}",
        "handle /a/* {\nuri strip_prefix /a/b\nreverse_proxy b\n}",
        // What is asked of the path behind the prefix would be another path here.
        "handle_path /a/* {\nrespond /b 403\nreverse_proxy c\n}",
        "route /a/* {\nuri strip_prefix /a\nbasic_auth /b {\nx y\n}\nreverse_proxy c\n}",
        "handle_path /a/* {\nreverse_proxy /b/* c\n}",
        "handle /a/* {\nreverse_proxy /a/b/* c\nfile_server\n}",
    ] {
        let import = caddy(&format!("{FILES}\n{lines}"));
        assert!(refused(&import), "{lines}: {:?}", import.notes);
        assert_eq!(routes(&import), [], "{lines}: {}", import.toml);
        assert_has(&import, "deny = [\"all\"]");
    }
}

#[test]
fn the_first_directive_of_caddy_that_has_a_path_counts() {
    let files = "file_server";
    for (lines, expected) in [
        (
            "handle /a/* {\nfile_server\n}\nhandle {\nreverse_proxy b\n}",
            &[("/a", false), ("/", true)][..],
        ),
        (
            "handle /a/* {\nreverse_proxy c\n}\nhandle {\nreverse_proxy b\n}",
            &[("/a", true), ("/", true)],
        ),
        ("reverse_proxy /a/* c\nreverse_proxy b", &[("/a", true), ("/", true)]),
        ("handle {\nreverse_proxy b\n}\nreverse_proxy /a/* c", &[("/", true)]),
        (
            "@b not path /a/* /r.txt\nreverse_proxy @b b\nfile_server",
            &[("/a", false), ("/r.txt", false), ("/", true)],
        ),
        ("reverse_proxy b\nfile_server /a/*", &[("/", true)]),
        ("handle /a/* {\nfile_server\n}\nreverse_proxy /b/* c", &[("/b", true)]),
    ] {
        let import = caddy(&format!("root * $TOP/site\n{lines}"));
        let found = routes(&import);
        let found: Vec<(&str, bool)> = found.iter().map(|it| (&*it.0, it.1)).collect();
        assert_eq!(found, expected, "{lines}");
        assert!(!refused(&import), "{lines}: {:?}", import.notes);
    }
    // Files may come first.
    for lines in [
        "@a not file\nreverse_proxy @a b\nfile_server",
        "@a file\nhandle @a {\nfile_server\n}\nhandle {\nreverse_proxy b\n}",
    ] {
        let import = caddy(&format!("root * $TOP/site\n{lines}"));
        assert_has(&import, "path = \"/\"\nupstream = \"b\"\nfiles = true");
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    // Which ones do cannot always be said.
    let import = caddy(&format!(
        "root * $TOP/site\n@p path *.png\nhandle @p {{\n{files}\n}}\nhandle {{\nreverse_proxy b\n}}"
    ));
    let [note] = &import.notes[..] else { panic!("{:?}", import.notes) };
    assert!(note.kind == Kind::Differs && note.line.contains("@p"), "{note:?}");
}

#[test]
fn services_are_told_what_caddy_tells_them() {
    let told = |lines: &str| caddy(&format!("reverse_proxy app:3000 {{\n{lines}\n}}"));
    for (lines, part) in [
        ("", "address = \"http://app:3000\"\n\n"),
        ("header_up Host {upstream_hostport}", "host = \"app:3000\""),
        ("header_up Host {host}", "address = \"http://app:3000\"\n\n"),
        ("header_up Host b.test", "host = \"b.test\""),
        ("header_up X-Me 1\nheader_up -Cookie", "headers = { Cookie = \"\", X-Me = \"1\" }"),
        ("header_up X-Real-IP {remote_host}", "address = \"http://app:3000\"\n\n"),
        ("header_up X-Forwarded-Proto {scheme}", "address = \"http://app:3000\"\n\n"),
        ("header_up Range {header.Range}", "address = \"http://app:3000\"\n\n"),
        ("header_up Upgrade websocket", "address = \"http://app:3000\"\n\n"),
        ("header_down X-Me 1\nheader_down -Server", "set_headers = { X-Me = \"1\" }"),
        ("lb_policy least_conn", "balance = \"least_busy\""),
        ("lb_policy ip_hash", "affinity = \"client\""),
        ("lb_policy header X-User", "affinity = \"header:X-User\""),
        ("lb_policy random\nlb_retries 3\nflush_interval -1", "address = \"http://app:3000\"\n\n"),
        (
            "health_uri /up\nhealth_interval 10s\nhealth_status 204",
            "check = \"/up\"\ncheck_fall = 1\ncheck_rise = 1\ncheck_status = 204\n\
                check_interval = \"10s\"\ncheck_timeout = \"5s\"",
        ),
        ("transport http {\ndial_timeout 2s\nkeepalive off\n}", "connect_timeout = \"2s\""),
        ("transport http {\nresponse_header_timeout 1m\n}", "first_byte_timeout = \"60s\""),
        ("transport http {\nread_timeout 1500ms\n}", "read_timeout = \"1500ms\""),
        ("transport http {\nmax_conns_per_host 9\n}", "connections = 9"),
        ("to 10.0.0.2:1 unix//run/a.sock", "\"http://10.0.0.2:1\", \"http+unix:/run/a.sock\""),
    ] {
        let import = told(lines);
        assert_has(&import, part);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    for (lines, part) in [
        ("header_up X-User {http.auth.user.id}", "headers = { x-user = \"\" }"),
        ("header_up X-User a b", "headers = { x-user = \"\" }"),
        ("header_up +X-Me 1", "address = \"http://app:3000\"\n\n"),
        ("lb_policy cookie", "address = \"http://app:3000\"\n\n"),
        ("health_uri /up?a", "address = \"http://app:3000\"\n\n"),
        ("fail_duration 30s", "address = \"http://app:3000\"\n\n"),
        ("trusted_proxies private_ranges", "address = \"http://app:3000\"\n\n"),
        ("transport http {\nread_timeout x\n}", "address = \"http://app:3000\"\n\n"),
        ("to 10.0.0.2:1\nheader_up Host {upstream_hostport}", "host = \"app:3000\""),
    ] {
        let import = told(lines);
        assert_has(&import, part);
        assert_eq!(import.notes.len(), 1, "{lines}: {:?}", import.notes);
        assert_eq!(routes(&import).len(), 1, "{lines}");
    }
}

#[test]
fn a_site_of_caddy_may_be_a_service_alone() {
    let import = caddy("reverse_proxy b");
    assert_has(&import, "root = \".\"\nmode = \"fastcgi\"");
    // Names of no site are still answered by none.
    assert_has(&import, "host = [\"unknown.invalid\"]\nroot = \".\"");
    let import = caddy("root * $TOP/site\nreverse_proxy /a/* b");
    let rules = tables(&import, "site.rule");
    let is_rest = |rule: &&&str| rule.contains("except = [\"/a\"]\ndeny = [\"all\"]\nstatus = 404");
    assert!(rules.iter().any(|rule| is_rest(&rule)), "{}", import.toml);
    // Paths are compared in upper and lower case alike, and routes are not.
    assert_has(&import, "path = \"/a\"\nexcept = [\"/a\"]\ndeny = [\"all\"]\nstatus = 404");
}
