//! Whole configurations: what they become, what the notes say, and that `tokamak check` accepts
//! whatever is written.

mod applications;
mod chosen;
mod compared;
mod folders;
mod invented;
mod limits;
mod listings;
mod logs;
mod matchers;
mod mounts;
mod nested;
mod passwords;
mod proxies;
mod rewrites;
mod services;
mod sizes;

use std::fs;

use tempfile::TempDir;

use crate::{Import, Kind, Language, Output, System, import};

/// A folder with a document root, `site`, with some files.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["site/index.php", "site/404.html", "other/index.php", "site/deep/a.txt"] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    folder
}

/// Imports a text, in which `$TOP` is the folder.
pub(crate) fn imported(folder: &TempDir, language: Language, text: &str) -> Result<Import, String> {
    let file = folder.path().join("main.conf");
    fs::write(&file, text.replace("$TOP", folder.path().to_str().unwrap())).unwrap();
    import(language, &file, Some(folder.path()), &System, Output::Folder)
        .map_err(|error| error.to_string())
}

/// What `tokamak check` says of a configuration.
pub(crate) fn check(folder: &TempDir, toml: &str) -> Result<(), String> {
    let file = folder.path().join("tokamak.toml");
    fs::write(&file, toml).unwrap();
    let request = tokamak_config::Request {
        path: None,
        config: Some(file),
        flags: Vec::new(),
        environment: Vec::new(),
        directory: folder.path().to_owned(),
    };
    request.load_for(2).map(drop).map_err(|errors| format!("{errors}\n{toml}"))
}

/// Imports a `server` block of nginx with a root.
#[track_caller]
fn nginx(lines: &str) -> Import {
    let folder = folder();
    let text = format!("server {{ listen 80; server_name a.test; root $TOP/site; {lines} }}");
    let import = imported(&folder, Language::Nginx, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[track_caller]
fn assert_has(import: &Import, part: &str) {
    assert!(import.toml.contains(part), "no {part} in {}", import.toml);
}

#[test]
fn what_guards_and_is_not_translated_is_refused() {
    for (lines, scope) in [
        ("location /a/ { auth_basic x; }", "path = \"/a/*\""),
        ("location /a { auth_request /b; }", "path = \"/a*\""),
        ("location /a/ { limit_except GET { deny all; } }", "path = \"/a/*\""),
        ("location = /a { grpc_pass grpc://b; }", "path = \"/a\""),
        ("location ~ ^/a(?=b) { deny all; }", "pattern = \"^/a\""),
        ("location ~ ^/a(?=b) { fastcgi_pass x; }", "pattern = \"^/\""),
        ("location /a/ { if ($x) { return 403; } }", "path = \"/a/*\""),
        ("if ($geo ~ x) { return 403; }", "[[site.rule]]\ndeny = [\"all\"]"),
        ("include missing.conf;", "[[site.rule]]\ndeny = [\"all\"]"),
        ("location /a/ { include missing.conf; }", "path = \"/a/*\""),
        ("location ~ ^/a/ { fastcgi_pass x; }", "pattern = \"^/a/\""),
        ("location ~ \\.(php|html)$ { fastcgi_pass x; }", "pattern = '\\.(php|html)(?:/|$)'"),
        ("location /a/ { alias $variable/; }", "path = \"/a/*\""),
        ("ssl_verify_client on;", "[[site.rule]]\ndeny = [\"all\"]"),
    ] {
        let import = nginx(lines);
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert!(is_refused, "{lines}: {:?}", import.notes);
        let at = import.toml.find(scope).unwrap_or_else(|| panic!("{lines}: {}", import.toml));
        assert!(import.toml[at..].contains("deny = [\"all\"]"), "{lines}: {}", import.toml);
    }
}

#[test]
fn addresses_are_refused_in_the_order_of_nginx() {
    let import = nginx("deny 192.0.2.1; allow 192.0.2.0/24; allow 2001:db8::/32; deny all;");
    assert_has(&import, "deny = [\"192.0.2.1\"]");
    assert_has(&import, "allow = [\"192.0.2.0/24\", \"2001:db8::/32\"]\ndeny = [\"all\"]");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // Behind a proxy that is not known, every client would have its address.
    let import = nginx(
        "set_real_ip_from 10.0.0.1; real_ip_header X-Real-IP; allow 10.0.0.0/8; \
        deny all;",
    );
    assert_has(&import, "[[site.rule]]\ndeny = [\"all\"]");
}

#[test]
fn redirects_to_https_are_a_setting_of_the_site() {
    let folder = folder();
    let secure = "server { listen 443 ssl; server_name a.test; root $TOP/site; }";
    for plain in [
        "server { listen 80; server_name a.test; return 301 https://$host$request_uri; }",
        "server { listen 80 default_server; return 301 https://$host$request_uri; }",
        "server { listen 80; server_name a.test; location / { return 301 \
            https://a.test$request_uri; } }",
        "server { if ($host = a.test) { return 301 https://$host$request_uri; } listen 80; \
            server_name a.test; return 404; }",
    ] {
        let import = imported(&folder, Language::Nginx, &format!("{plain} {secure}")).unwrap();
        assert_has(&import, "https_redirect = true");
        assert_has(&import, "listen = [\":80\"]\nlisten_tls = [\":443\"]");
        assert!(import.notes.is_empty(), "{plain}: {:?}", import.notes);
    }
    let www = "server { listen 80; listen 443 ssl; server_name www.a.test; \
        return 301 https://a.test$request_uri; }";
    let import = imported(&folder, Language::Nginx, &format!("{secure} {www}")).unwrap();
    assert_has(&import, "redirect = \"https://a.test/$1\"");
}

/// Which site answers for a name on an address, as the written file says it: by its `root`, with
/// `refused` for one that refuses all.
fn answering(folder: &TempDir, import: &Import, address: &str, host: &str) -> String {
    let written: toml_edit::DocumentMut = import.toml.parse().unwrap();
    let texts = |table: &toml_edit::Table, key: &str| -> Vec<String> {
        let all = table.get(key).and_then(toml_edit::Item::as_array).into_iter().flatten();
        all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let is_open = |key| texts(written.as_table(), key).iter().any(|own| own == address);
    if !is_open("listen") && !is_open("listen_tls") {
        return "nobody".to_owned();
    }
    let sites = written["site"].as_array_of_tables().unwrap();
    let is_there = |site: &&toml_edit::Table| {
        let own = texts(site, "listen");
        own.is_empty() || own.iter().any(|own| own == address)
    };
    let there: Vec<_> = sites.iter().filter(is_there).collect();
    let named = there.iter().find(|site| texts(site, "host").iter().any(|own| own == host));
    let Some(site) = named.or(there.first()) else { return "nobody".to_owned() };
    let rules = site.get("rule").and_then(toml_edit::Item::as_array_of_tables);
    let refuses = |rule: &toml_edit::Table| {
        !rule.contains_key("path") && !rule.contains_key("pattern") && rule.contains_key("deny")
    };
    if rules.into_iter().flatten().any(refuses) {
        return "refused".to_owned();
    }
    let root = site["root"].as_str().unwrap_or_default();
    root.replace(folder.path().to_str().unwrap(), "").trim_start_matches('/').to_owned()
}

#[test]
fn a_site_answers_where_it_did_and_nowhere_else() {
    let folder = folder();
    let a = "server_name a.test; root $TOP/site;";
    let b = "server_name b.test; root $TOP/other;";
    for (servers, rows) in [
        // Loopback, and the port of TLS.
        (
            format!("server {{ listen 443 ssl; {a} }} server {{ listen 127.0.0.1:81; {b} }}"),
            vec![
                (":443", "a.test", "site"),
                (":443", "b.test", "site"),
                ("127.0.0.1:81", "a.test", "other"),
                (":80", "b.test", "nobody"),
            ],
        ),
        (
            format!("server {{ listen 80; {a} }} server {{ listen 81; {b} }}"),
            vec![(":80", "b.test", "site"), (":81", "a.test", "other")],
        ),
        // What is no address is no reason to serve it on all.
        (
            format!("server {{ listen 80; {a} }} server {{ listen unix:/x; {b} }}"),
            vec![(":80", "b.test", "site")],
        ),
        (
            format!("server {{ listen 80; {a} }} server {{ listen b.test:81; {b} }}"),
            vec![(":80", "b.test", "site"), (":81", "b.test", "nobody")],
        ),
        // One address of a port that another one has on all.
        (
            format!("server {{ listen 80; {a} }} server {{ listen 127.0.0.1:80; {b} }}"),
            vec![(":80", "b.test", "site")],
        ),
        // Unknown names.
        (
            format!(
                "server {{ listen 80 default_server; server_name _; return 444; }} \
                 server {{ listen 80; {a} }} server {{ listen [::]:80; {b} }}"
            ),
            vec![
                ("[::]:80", "x.test", "refused"),
                ("[::]:80", "a.test", "site"),
                ("[::]:80", "b.test", "other"),
            ],
        ),
        (
            format!("server {{ listen 80; {a} }} server {{ listen 80 default_server; }}"),
            vec![(":80", "x.test", "refused"), (":80", "a.test", "site")],
        ),
        (
            format!(
                "server {{ listen 443 ssl default_server; ssl_reject_handshake on; }} \
                 server {{ listen 443 ssl; listen 80; {a} }}"
            ),
            vec![(":443", "x", "refused"), (":443", "a.test", "site"), (":80", "x", "site")],
        ),
        (
            format!(
                "server {{ listen 80; listen 81 default_server; {a} }} \
                 server {{ listen 81; listen 80 default_server; {b} }}"
            ),
            vec![(":80", "x", "other"), (":81", "x", "site"), (":80", "a.test", "other")],
        ),
        // The same name with other content.
        (
            format!(
                "server {{ listen 80; {a} deny all; }} server {{ listen 443 ssl; {a} }} \
                 server {{ listen 80; server_name a.test; root $TOP/other; }}"
            ),
            vec![(":80", "a.test", "refused"), (":443", "a.test", "site")],
        ),
    ] {
        let import = imported(&folder, Language::Nginx, &servers).unwrap();
        // Certificates are for the operator to bring.
        let said = check(&folder, &import.toml).err().unwrap_or_default();
        let is_good = said.is_empty() || said.contains("certificate");
        assert!(is_good, "{said}");
        for (address, host, expected) in rows {
            let answer = answering(&folder, &import, address, host);
            assert_eq!(answer, expected, "{host} on {address}: {servers}\n{}", import.toml);
        }
    }
}

#[test]
fn sites_are_one_only_if_they_refuse_the_same() {
    let folder = folder();
    let server = |listen: &str, lines: &str| {
        format!("server {{ listen {listen}; server_name a.test; root $TOP/site; {lines} }}")
    };
    for (plain, secure, sites) in [
        ("", "", 1),
        ("location /a/ { deny all; }", "location /a/ { deny all; }", 1),
        ("", "location /a/ { deny all; }", 2),
        ("location /t/ { alias $TOP/other/; }", "location /t/ { alias $TOP/site/; }", 2),
        (
            "location /t/ { alias $TOP/other/; }",
            "location /t/ { alias $TOP/other/; location ~ ^/t/a { deny all; } }",
            2,
        ),
        (PHP, "location ~ ^/index\\.php$ { fastcgi_pass x; }", 2),
    ] {
        let text = format!("{} {}", server("80", plain), server("81", secure));
        let import = imported(&folder, Language::Nginx, &text).unwrap();
        check(&folder, &import.toml).unwrap();
        let own = import.toml.split("[[site]]\n").filter(|site| !site.contains("path = \"/t\""));
        assert_eq!(own.count() - 1, sites, "{plain} {secure}: {}", import.toml);
    }
}

#[test]
fn what_the_site_refuses_is_refused_in_mounted_folders() {
    let import = nginx(
        "location ~ /\\.ht { deny all; } location ~ ^/tool/(a|b) { deny all; } \
            location ~ ^/other { deny all; } location /tool/ { alias $TOP/other/; }",
    );
    let mount = import.toml.split("path = \"/tool\"").nth(1).expect("a mount");
    assert!(mount.contains("pattern = '/\\.ht'"), "{mount}");
    assert!(mount.contains("pattern = \"^/(a|b)\""), "{mount}");
    assert!(!mount.contains("other\"\ndeny"), "{mount}");
    // What may begin before the path of the mount.
    for (expression, expected) in [
        ("/tool/sql/", "^/sql/"),
        ("tool/.*sql", "^/.*sql"),
        ("ool", "conf:1\n[[site.rule]]\ndeny"),
        ("l/(a|b)/", "^/(a|b)/"),
        ("^/priv|^/tool/secret", "\"^/secret"),
        ("^/tool?/secret", "\"^/secret"),
        (".*/tool/a", "^/a"),
        ("[tT]ool/sql", "^/sql"),
        ("(tool)?/sql", "^/sql"),
        ("a|/tool", "conf:1\n[[site.rule]]\ndeny"),
        // That cannot be known.
        ("\\btool/sql", "conf:1\n[[site.rule]]\ndeny"),
    ] {
        let import = nginx(&format!(
            "location ~ {expression} {{ deny all; }} location /tool/ {{ alias $TOP/other/; }}"
        ));
        let mount = import.toml.split("path = \"/tool\"").nth(1).expect("a mount");
        assert!(mount.contains(expected), "{expression}: {mount}");
        assert!(mount.contains("deny"), "{expression}: {mount}");
    }
    let inner = "location /tool/ { alias $TOP/other/; location ~ /tool/sql/ { deny all; } }";
    let mount = nginx(inner).toml;
    let mount = mount.split("path = \"/tool\"").nth(1).expect("a mount");
    assert!(mount.contains("^/sql/"), "{mount}");
    for (kind, expression, expected) in [
        ("~", "\\.(sql|bak)$", "'\\.(sql|bak)(?:/|$)'"),
        ("~", "/(conf|data)/", "\"/(conf|data)/\""),
        ("~", "(^|/)\\.", "'(^|/)\\.'"),
        ("~", "^.+\\.inc$", "'^.*\\.inc(?:/|$)'"),
        ("~", ".*\\.inc$", "'.*\\.inc(?:/|$)'"),
        ("~*", "^/tool/a", "\"(?i)^/a\""),
    ] {
        let import = nginx(&format!(
            "location {kind} {expression} {{ deny all; }} location /tool/ {{ alias $TOP/other/; }}"
        ));
        let mount = import.toml.split("path = \"/tool\"").nth(1).expect("a mount");
        assert!(mount.contains(&format!("pattern = {expected}")), "{expression}: {mount}");
    }
}

/// The usual location for scripts.
const PHP: &str = "location ~ \\.php$ { fastcgi_pass x; }";

/// The rules that hold for all of a scope, as they are written.
fn rules_of<'a>(import: &'a Import, scope: &str) -> Vec<&'a str> {
    let rules = import.toml.split("[[site.rule]]\n").skip(1);
    rules.filter(|rule| rule.contains(scope)).collect()
}

#[test]
fn nothing_runs_where_nginx_runs_nothing() {
    for (lines, scope) in [
        ("location ^~ /up/ { try_files $uri =404; }", "path = \"/up/*\""),
        ("location ^~ /up/ { try_files $uri /index.php; }", "path = \"/up/*\""),
        ("location ^~ /up/ { try_files $uri $uri/ @none; }", "path = \"/up/*\""),
        ("location ~* ^/up/ { try_files $uri =404; }", "pattern = \"(?i)^/up/\""),
        ("location ~* ^/up/ { try_files $uri /index.php?$args; }", "pattern = \"(?i)^/up/\""),
        ("location = /up.php { try_files $uri =404; }", "pattern = '^/up\\.php$'"),
        ("location /up/ { location ~ ^/up/a { try_files $uri =404; } }", "pattern = \"^/up/a\""),
        ("location ^~ /up/ { }", "path = \"/up/*\""),
    ] {
        let import = nginx(&format!("{lines} {PHP}"));
        let rules = rules_of(&import, scope);
        let is_closed = rules.iter().any(|rule| rule.contains("serve = \"files\""));
        assert!(is_closed, "{lines}: {}", import.toml);
    }
    // Of a folder with a script of its own, all others.
    let import = nginx(&format!(
        "location ^~ /b/ {{ location = /b/index.php {{ fastcgi_pass x; }} }} {PHP}"
    ));
    let rules = rules_of(&import, "path = \"/b/*\"");
    assert!(rules.iter().any(|it| it.contains("scripts = [\"/b/index.php\"]")), "{rules:?}");
    // Where nginx asks the location for scripts first, they run.
    let import = nginx(&format!("{PHP} location ~ ^/app/ {{ try_files $uri =404; }}"));
    assert!(!import.toml.contains("\"files\""), "{}", import.toml);
}

#[test]
fn clients_without_access_to_the_front_controller_reach_it_by_no_path() {
    let main = "location / { try_files $uri $uri/ /index.php?$args; }";
    for guard in [
        "location ~ \\.php$ { allow 10.0.0.0/8; deny all; fastcgi_pass x; }",
        "location ~ \\.php$ { auth_basic a; fastcgi_pass x; }",
        "location = /index.php { auth_basic a; fastcgi_pass x; }",
        "location = /INDEX.php { deny all; }",
        "location /index { deny 192.0.2.1; }",
    ] {
        let import = nginx(&format!("{main} {guard}"));
        assert_has(&import, "front_controller = \"none\"");
        assert_has(&import, "unless_file = true\nrewrite = \"/index.php\"");
    }
    let import = nginx(&format!("{main} {PHP} location = /other.php {{ deny all; }}"));
    assert_has(&import, "front_controller = \"index.php\"");
}

#[test]
fn paths_whose_rewrite_is_not_translated_are_refused() {
    for (lines, scope) in [
        ("location /f/ { rewrite ^/f/(.*) /get.php?f=$1&k=$arg_k last; }", "path = \"/f/*\""),
        ("location ~ ^/f/ { rewrite ^/f/(.*) /get.php?f=$arg_k last; }", "pattern = \"^/f/\""),
        ("location /f/ { rewrite ^/f/(.*)$ /g/$1 break; }", "path = \"/f/*\""),
        ("location /f/ { rewrite ^(?=a) /g last; }", "path = \"/f/*\""),
        ("rewrite ^/f/ /g/$arg_x last;", "pattern = \"^/f/\""),
        ("rewrite ^/f/ /g/; rewrite ^/g/ /h/;", "pattern = \"^/f/\""),
        ("if ($geo_a) { rewrite ^/f/ /g last; }", "pattern = \"^/f/\""),
        ("if ($geo_a = '') { rewrite ^/f/ /login redirect; }", "pattern = \"^/f/\""),
        ("location /f/ { if ($arg_x) { proxy_pass http://b; } }", "path = \"/f/*\""),
        ("location /f/ { rewrite_by_lua_block { x() } }", "path = \"/f/*\""),
        ("location /f/ { disable_symlinks on; }", "path = \"/f/*\""),
    ] {
        let import = nginx(lines);
        assert!(import.notes.iter().any(|note| note.kind == Kind::Refused), "{lines}");
        let rules = rules_of(&import, scope);
        let is_refused = rules.iter().any(|rule| rule.contains("deny = [\"all\"]"));
        assert!(is_refused, "{lines}: {}", import.toml);
    }
    // All paths of an expression, and redirects to the right name.
    let import = nginx("location ~ ^/f/ { rewrite ^ /login.php last; }");
    assert_has(&import, "pattern = \"^/f/\"\nrewrite = \"/login.php\"");
    let import = nginx("if ($host != a.test) { rewrite ^ http://a.test/ permanent; }");
    assert!(!import.toml.contains("deny"), "{}", import.toml);
}

#[test]
fn statuses_that_rules_do_not_have_are_noted() {
    for (lines, note) in [
        ("location /a { return 429; }", "return 429"),
        ("if ($arg_a) { return 451; }", "return 451"),
        ("location /a { return 503; }", "return 503"),
        ("location /a { return 410; } location /b { return 444; }", ""),
    ] {
        let import = nginx(lines);
        let is_noted = import.notes.iter().any(|it| it.to_string().contains("status"));
        assert_eq!(is_noted, !note.is_empty(), "{lines}: {:?}", import.notes);
    }
    for lines in ["Redirect 503 /a", "RedirectMatch 451 ^/a$", "RewriteRule ^/a - [R=503,L]"] {
        let import = apache(&format!("RewriteEngine On\n{lines}"));
        let is_noted = import.notes.iter().any(|it| it.to_string().contains("the status is 403"));
        assert!(is_noted, "{lines}: {:?}", import.notes);
    }
}

#[test]
fn clients_are_told_apart_as_before_or_refused() {
    let guard = "allow 10.0.0.0/8; deny all;";
    for (lines, scope) in [
        ("set_real_ip_from 10.0.0.1; location /a/ { $G }", "path = \"/a/*\""),
        (
            "set_real_ip_from 10.0.0.1; real_ip_header X-Real-IP; \
             location /a/ { location ~ b { $G } }",
            "pattern = \"b\"",
        ),
        (
            "set_real_ip_from unix:; real_ip_header X-Forwarded-For; location /a/ { $G }",
            "path = \"/a/*\"",
        ),
        // Whom one location trusts, all trust here.
        (
            "location /b/ { set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For; } \
             location /a/ { $G }",
            "path = \"/a/*\"",
        ),
        // Somebody in such a network may be no proxy, and nginx stops there.
        (
            "set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; location /a/ { $G }",
            "path = \"/a/*\"",
        ),
        (
            "set_real_ip_from 10.0.0.1; set_real_ip_from 10.0.0.2; \
             real_ip_header X-Forwarded-For; location /a/ { $G }",
            "path = \"/a/*\"",
        ),
    ] {
        let import = nginx(&lines.replace("$G", guard));
        let rules = rules_of(&import, scope);
        let is_refused = |rule: &&str| rule.contains("deny") && !rule.contains("allow");
        assert!(rules.iter().any(is_refused), "{lines}: {}", import.toml);
    }
    let known = "set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;";
    let import = nginx(&format!("{known} location /a/ {{ location ~ b {{ {guard} }} }}"));
    assert_has(&import, "allow = [\"10.0.0.0/8\"]");
    assert_has(&import, "trusted_proxies = [\"10.0.0.1\"]");
    assert!(!nginx("set_real_ip_from 10.0.0.1;").toml.contains("trusted_proxies ="));
    let networks = "set_real_ip_from 10.0.0.0/8; set_real_ip_from ::1;";
    for (header, written) in [
        ("real_ip_recursive on; real_ip_header X-Forwarded-For;", "[\"x-forwarded-for\"]"),
        // What clients write themselves is not believed.
        ("real_ip_header proxy_protocol;", "[]"),
    ] {
        let import = nginx(&format!("{networks} {header} location /a/ {{ {guard} }}"));
        assert_has(&import, "path = \"/a/*\"\nallow = [\"10.0.0.0/8\"]");
        assert_has(&import, &format!("trusted_headers = {written}"));
        assert!(import.notes.is_empty(), "{header}: {:?}", import.notes);
    }
}

#[test]
fn limits_and_types_are_those_of_nginx() {
    assert_has(&nginx(""), "[limits]\nbody = 1048576");
    assert_has(&nginx("client_max_body_size 5m;"), "body = 5242880");
    let import = nginx("location /up/ { types { } default_type text/x-any; }");
    assert_has(&import, "set_headers = { Content-Type = \"text/x-any\" }");
    let import = nginx("location /up/ { types { text/plain html; } }");
    assert_eq!(import.notes.len(), 1, "{:?}", import.notes);
    let inner = "location ~ \\.php$ { fastcgi_param SCRIPT_FILENAME $request_filename; \
        fastcgi_param PHP_ADMIN_VALUE open_basedir=/x; \
        fastcgi_pass x; }";
    assert_has(&nginx(&format!("location /a/ {{ {inner} }}")), "open_basedir = \"/x\"");
    let outer = "fastcgi_param PHP_ADMIN_VALUE open_basedir=/x; \
        fastcgi_param SCRIPT_FILENAME $request_filename;";
    let inner = "location /a/ { location ~ \\.php$ { fastcgi_pass x; } }";
    assert_has(&nginx(&format!("{outer} {inner}")), "open_basedir = \"/x\"");
}

#[test]
fn what_an_include_does_not_find_is_noted() {
    for (name, kind) in [("none/*.conf", Kind::Left), ("site/deep?/x", Kind::Left)] {
        let import = nginx(&format!("include {name};"));
        assert_eq!(import.notes.len(), 1, "{:?}", import.notes);
        assert_eq!(import.notes[0].kind, kind);
    }
    let moved = "location /.well-known/ { root /x; } \
        location / { return 301 https://b.test$request_uri; }";
    let notes = nginx(moved).notes;
    assert!(notes.iter().any(|note| note.line == "location /.well-known/"), "{notes:?}");
}

/// Imports a site of Apache with a root.
#[track_caller]
fn apache(lines: &str) -> Import {
    let folder = folder();
    let text = format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n{lines}\n</VirtualHost>\n"
    );
    let import = imported(&folder, Language::Apache, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[test]
fn what_guards_in_apache_and_is_not_translated_is_refused() {
    for (lines, scope) in [
        ("<Location /a>\nRequire valid-user\n</Location>", "path = \"/a\""),
        ("<Location /a>\nRequire host b.test\n</Location>", "path = \"/a\""),
        ("<If \"true\">\nRequire all denied\n</If>", "[[site.rule]]\ndeny"),
        ("<Directory ~ /[^/]+/x>\nRequire all denied\n</Directory>", "[[site.rule]]\ndeny"),
        ("<FilesMatch (?=a)>\nRequire all denied\n</FilesMatch>", "[[site.rule]]\ndeny"),
        ("RewriteCond %{REMOTE_USER} x\nRewriteRule ^/a - [F]", "pattern = \"^/a\""),
        ("RewriteRule ^/a(.*) http://b/$1 [P]", "pattern = \"^/a(.*)\""),
        ("ProxyPass /a ws://b/", "path = \"/a*\""),
        ("ProxyPassMatch ^/a[0-9] http://b", "pattern = \"^/a[0-9]\""),
        ("SSLVerifyClient require", "[[site.rule]]\ndeny"),
        ("Include missing.conf", "[[site.rule]]\ndeny"),
        ("SecRuleEngine On", "[[site.rule]]\ndeny"),
        ("<Location /a>\nSetHandler server-status\n</Location>", "path = \"/a\""),
    ] {
        let import = apache(lines);
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert!(is_refused, "{lines}: {:?}", import.notes);
        let at = import.toml.find(scope).unwrap_or_else(|| panic!("{lines}: {}", import.toml));
        assert!(import.toml[at..].contains("deny = [\"all\"]"), "{lines}: {}", import.toml);
    }
}

#[test]
fn the_idioms_of_htaccess_files_are_known() {
    let folder_rules = |rules: &str| {
        let folder = folder();
        let file = folder.path().join("site/.htaccess");
        fs::write(&file, rules).unwrap();
        let import = import(Language::Apache, &file, None, &System, Output::Text).unwrap();
        check(&folder, &import.toml).unwrap();
        import
    };
    let import = folder_rules(
        "Options -MultiViews -Indexes\nRewriteEngine On\n\
         RewriteCond %{HTTP:Authorization} .\n\
         RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\n\
         RewriteRule ^ %1 [L,R=301]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteRule ^ index.php [L]\n",
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert_has(&import, "front_controller = \"index.php\"");
    assert_has(&import, "pattern = \"^/(.+)/$\"\nunless_file = true\nredirect = \"/$1\"");
    let import = folder_rules(
        "RewriteEngine on\nRewriteRule ^_media/(.*) lib/exe/fetch.php?media=$1 [QSA,L]\n\
         RewriteRule ^old$ new?a=b [R]\nRewriteRule ^(data|conf)/ - [F,L]\n",
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert_has(&import, "rewrite = \"/lib/exe/fetch.php?media=$1\"");
    assert_has(&import, "redirect = \"/new?a=b?\"\nstatus = 302");
    assert_has(&import, "pattern = \"^/(data|conf)/\"\ndeny = [\"all\"]");
}

#[test]
fn nothing_is_written_for_what_is_no_configuration() {
    let folder = folder();
    for text in ["", "a", "a;", "server { }", "<VirtualHost>", "\u{0}\u{1}"] {
        let result = imported(&folder, Language::Nginx, text);
        assert!(result.is_err(), "{text}: {result:?}");
    }
    let text = "include main.conf;";
    assert!(imported(&folder, Language::Nginx, text).unwrap_err().contains("include itself"));
}

#[test]
fn notes_cannot_forge_lines_of_the_file() {
    let import = nginx("index \"a\nb\" c.html;");
    assert_has(&import, "index = [\"c.html\"]");
    let import = nginx("unknown \"a\n[[site]]\nroot = '/'\";");
    assert!(!import.toml.contains("\nroot = '/'"), "{}", import.toml);
    assert!(import.notes[0].to_string().lines().count() == 1);
}

/// Imports a site of Caddy with a root.
#[track_caller]
fn caddy(lines: &str) -> Import {
    let folder = folder();
    let text = format!("http://a.test {{\nroot * $TOP/site\n{lines}\n}}");
    let import = imported(&folder, Language::Caddy, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[test]
fn what_guards_in_caddy_and_is_not_translated_is_refused() {
    let all = "[[site.rule]]\ndeny = [\"all\"]";
    for (lines, scope) in [
        ("basicauth /a/* {\nx y\n}", "path = \"/a/*\""),
        ("basic_auth {\nx y\n}", all),
        ("forward_auth /a* b {\nuri /c\n}", "path = \"/a*\""),
        ("reverse_proxy /a h2c://b", "path = \"/a\""),
        ("plugin_that_guards /a/*", "path = \"/a/*\""),
        ("plugin_that_guards", all),
        ("route /a/* {\nbasic_auth {\nx y\n}\n}", "path = \"/a/*\""),
        ("handle_path /a/* {\nphp_fastcgi x\n}", "path = \"/a/*\""),
        ("handle /a/* {\nroot * /b\nfile_server\n}", "path = \"/a/*\""),
        ("@x {\npath /a/*\nprotocol https\n}\nrespond @x 403", "path = \"/a/*\""),
        ("@x {\npath /a/*\nnot {\npath /a/b\nvars a b\n}\n}\nerror @x 403", "path = \"/a/*\""),
        ("@x expression {path}.contains('a')\nrespond @x 403", all),
        ("respond @unknown 403", all),
        ("respond /a{x} 403", all),
        ("@x path_regexp ^/a(?=b)\nrespond @x 403", all),
        ("@x remote_ip forwarded 10.0.0.0/8\nrespond @x 403", all),
        ("@x not client_ip 10.0.0.0/8\nrespond @x 403", all),
        ("@x header Host x\nredir @x /login", all),
        ("rewrite /a /{x}", "path = \"/a\""),
        ("uri /a/* strip_prefix /a", "path = \"/a/*\""),
        ("request_header /a/* -X-User", "path = \"/a/*\""),
        ("respond /a hello 200", "path = \"/a\""),
        ("tls {\nclient_auth {\nmode require\n}\n}", all),
        ("@x header A b\nphp_fastcgi @x x", all),
        ("php_fastcgi x {\nheader_up -X-User\n}", all),
        ("php_fastcgi x {\nroot /b\n}", all),
        ("root /b/* /c", all),
        ("bind unix//run/x", all),
    ] {
        let import = caddy(&format!("file_server\n{lines}"));
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert!(is_refused, "{lines}: {:?}", import.notes);
        // Behind the site that answers for unknown names.
        let own = import.toml.find("host = [\"a.test\"]").unwrap();
        let at = import.toml[own..].match_indices(scope);
        let is_there = |at: usize| {
            let rule = &import.toml[own + at + 1..];
            rule.split("[[").next().is_some_and(|rule| rule.contains("deny = [\"all\"]"))
                || scope == all
        };
        assert!(at.map(|(at, _)| at).any(is_there), "{lines}: {}", import.toml);
    }
    for lines in ["file_server /a/*", "file_server browse /a", "respond hi", "php_fastcgi x", ""] {
        let import = caddy(lines);
        let own = import.toml.find("host = [\"a.test\"]").unwrap();
        let text = import.toml[own..].lines().filter(|line| !line.starts_with('#'));
        let text: Vec<&str> = text.collect();
        assert!(text.join("\n").contains(all), "{lines}: {}", import.toml);
    }
}

#[test]
fn sites_of_caddy_get_certificates_by_themselves() {
    let folder = folder();
    let text = "a.test {\nroot * $TOP/site\nphp_fastcgi x\nfile_server\n}\n\
        www.a.test {\nredir https://a.test{uri} permanent\n}\n\
        b.test {\nreverse_proxy https://c\n}";
    let import = imported(&folder, Language::Caddy, text).unwrap();
    check(&folder, &import.toml).unwrap();
    for part in [
        "auto = true",
        "unknown_name = \"refuse\"",
        "listen = [\":80\"]",
        "listen_tls = [\":443\"]",
        "https_redirect = true",
        "redirect = \"https://a.test/$1\"",
        "front_controller = \"index.php\"",
    ] {
        assert_has(&import, part);
    }
    // The site of another server is refused, and not answered by the first one.
    let own = import.toml.find("host = [\"b.test\"]").unwrap();
    assert!(import.toml[own..].contains("deny = [\"all\"]"), "{}", import.toml);
}

#[test]
fn error_pages_replace_what_scripts_answer_where_they_did() {
    let php = |lines: &str| format!("location ~ \\.php$ {{ fastcgi_pass x; {lines} }}");
    let page = "error_page 404 /404.html;";
    let on = "fastcgi_intercept_errors on;";
    let two = "location = /b.php { fastcgi_pass x; }";
    for (lines, is_on, notes) in [
        (format!("{page} {}", php("")), false, 0),
        (format!("{page} {on} {}", php("")), true, 0),
        (format!("{page} {}", php(on)), true, 0),
        (format!("{page} {on} {}", php("fastcgi_intercept_errors off;")), false, 0),
        (format!("{page} {on} location /a/ {{ {} }} {}", php(""), php("")), true, 0),
        (format!("{page} {two} {}", php(on)), false, 1),
        // There is nothing to replace.
        (format!("{on} {}", php("")), false, 0),
        // A note says that the page is not translated.
        (php(&format!("{on} {page}")), false, 1),
    ] {
        let import = nginx(&lines);
        assert_eq!(import.toml.contains("intercept_errors = true"), is_on, "{}", import.toml);
        assert_eq!(import.notes.len(), notes, "{lines}: {:?}", import.notes);
    }
}

#[test]
fn strict_transport_security_is_a_setting_of_a_site_with_tls() {
    let folder = folder();
    let hsts = "hsts = \"8760h\"\nhsts_subdomains = true\nhsts_preload = true\n";
    let value = "\"max-age=31536000; includeSubDomains; preload\"";
    let nginx = |port: &str, lines: &str| {
        format!("server {{ listen {port}; server_name a.test; root $TOP/site; {lines} }}")
    };
    let add = format!("add_header Strict-Transport-Security {value} always;");
    let mount = format!("{add} location /docs/ {{ alias $TOP/other/; }}");
    let apache = format!(
        "<VirtualHost *:443>\nServerName a.test\nDocumentRoot $TOP/site\nSSLEngine on\n\
         Header always set Strict-Transport-Security {value}\n</VirtualHost>"
    );
    let caddy = format!(
        "a.test {{\nroot * $TOP/site\nfile_server\nheader strict-transport-security {value}\n}}"
    );
    let secret = "add_header Strict-Transport-Security \"max-age=31536000; preload\";";
    for (language, text, settings, fields) in [
        (Language::Nginx, nginx("443 ssl", &add), 1, 0),
        (Language::Nginx, nginx("443 ssl", &mount), 1, 0),
        (Language::Apache, apache, 1, 0),
        (Language::Caddy, caddy, 1, 0),
        // Without TLS of its own it may be behind a proxy, and for some paths there is no setting.
        (Language::Nginx, nginx("80", &add), 0, 1),
        (Language::Nginx, nginx("443 ssl", &format!("location /a/ {{ {add} }}")), 0, 1),
        // Not what the list of browsers asks for.
        (Language::Nginx, nginx("443 ssl", secret), 0, 1),
    ] {
        let import = imported(&folder, language, &text).unwrap();
        let toml = &import.toml;
        assert_eq!(toml.matches(hsts).count(), settings, "{text}: {toml}");
        let all = toml.to_ascii_lowercase();
        assert_eq!(all.matches("strict-transport-security").count(), fields, "{text}: {toml}");
        assert!(import.notes.is_empty(), "{text}: {:?}", import.notes);
    }
}
