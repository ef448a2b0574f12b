//! Invented configurations: none is too strange, and `tokamak check` accepts what is written.

use std::path::Path;

use proptest::prelude::*;

use super::passwords::with_users;
use super::{check, folder, imported};
use crate::{Language, Output, import};

fn caddy_lines() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "*",
        "/",
        "/a",
        "/a/*",
        "/a*",
        "*.php",
        "/a//b",
        "/../a",
        "/é",
        "@m",
        "@none",
        "{path}",
        "{path}/",
        "{uri}",
        "/b{uri}",
        "https://b.test{uri}",
        "https://b.test",
        "{re.m.1}",
        "/b?c",
        "=404",
        "/index.php",
        "index.php",
        "403",
        "404",
        "200",
        "301",
        "permanent",
        "10.0.0.0/8",
        "10.0.0.0/99",
        "private_ranges",
        "path",
        "remote_ip",
        "not",
        "file",
        "header",
        "method",
        "query",
        "v=*",
        "GET",
        "{http.matchers.file.relative}",
        "path_regexp",
        "^/(a)",
        "(?=x)",
        "-X-A",
        "+X-B",
        "X-C",
        "Connection",
        "max_size",
        "10MB",
        "hide",
        "index",
        "root",
        "$TOP/site",
        "$TOP/other",
        "127.0.0.1",
        "::1",
        "off",
        "try_files",
        "env",
        "a\nb",
        "",
        "client_auth",
        "browse",
        "a=b",
        "bcrypt",
        "127.0.0.1:3000",
        "unix//run/a.sock",
        "https://b.test",
        "strip_prefix",
        "ip_hash",
        "http",
        "5s",
        "Host",
        "{upstream_hostport}",
        "$2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG",
    ]);
    let name = prop::sample::select(vec![
        "root",
        "redir",
        "rewrite",
        "try_files",
        "header",
        "respond",
        "error",
        "abort",
        "file_server",
        "php_fastcgi",
        "php_server",
        "file",
        "header_regexp",
        "method",
        "query",
        "handle",
        "handle_path",
        "route",
        "request_body",
        "tls",
        "basic_auth",
        "unknown",
        "bind",
        "@m",
        "not",
        "path",
        "remote_ip",
        "log",
        "encode",
        "hide",
        "index",
        "uri",
        "X-D",
        "-X-E",
        "reverse_proxy",
        "to",
        "header_up",
        "header_down",
        "lb_policy",
        "health_uri",
        "transport",
        "dial_timeout",
        "request_header",
    ]);
    let words = prop::collection::vec(word, 0..4)
        .prop_map(|words| -> String { words.iter().map(|word| format!(" \"{word}\"")).collect() });
    let leaf = (name.clone(), words.clone()).prop_map(|(name, args)| format!("{name}{args}\n"));
    let tree = leaf.prop_recursive(3, 24, 4, move |inner| {
        let body = prop::collection::vec(inner, 0..4);
        (name.clone(), words.clone(), body)
            .prop_map(|(name, args, body)| format!("{name}{args} {{\n{}}}\n", body.concat()))
    });
    prop::collection::vec(tree, 0..8).prop_map(|lines| lines.concat())
}

/// What leads to services of Apache, with arguments and in sections that may not fit.
fn apache_lines() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "/",
        "/a",
        "/a/",
        "/a//b",
        "/.a",
        "!",
        "^/a/(.*)$",
        "^/(.*)$",
        "^(.*)$",
        "http://127.0.0.1:3000",
        "http://127.0.0.1:3000/",
        "http://127.0.0.1:3000/$1",
        "http://[::1]:3000/b",
        "http://b:99999/",
        "https://b/",
        "ws://b/",
        "unix:/run/a.sock|http://localhost/",
        "unix:|",
        "balancer://p",
        "balancer://p/a",
        "[P]",
        "[P,L]",
        "[R=301]",
        "timeout=5",
        "connectiontimeout=500ms",
        "loadfactor=0.5",
        "lbmethod=bybusyness",
        "status=D",
        "set",
        "unset",
        "append",
        "early",
        "X-Me",
        "Host",
        "Upgrade",
        "%{REMOTE_ADDR}s",
        "a\tb",
        "all",
        "granted",
        "denied",
        "On",
        "300",
        "%{REQUEST_FILENAME}",
        "!-f",
        "$TOP/other",
        "",
    ]);
    let name = prop::sample::select(vec![
        "ProxyPass",
        "ProxyPassMatch",
        "ProxyPassReverse",
        "ProxyPreserveHost",
        "ProxyTimeout",
        "ProxyAddHeaders",
        "ProxySet",
        "BalancerMember",
        "RequestHeader",
        "Header",
        "RewriteRule",
        "RewriteCond",
        "Redirect",
        "Alias",
        "Require",
        "SetHandler",
        "Timeout",
    ]);
    let section = prop::sample::select(vec![
        "Location /",
        "Location /a",
        "Location /a/",
        "LocationMatch ^/a",
        "Directory $TOP/site",
        "Directory $TOP/site/deep",
        "Files *.php",
        "Proxy *",
        "Proxy balancer://p",
        "Proxy http://127.0.0.1:3000",
    ]);
    let leaf = (name, prop::collection::vec(word, 0..4)).prop_map(|(name, args)| {
        let args: String = args.iter().map(|arg| format!(" \"{arg}\"")).collect();
        format!("{name}{args}\n")
    });
    let tree = leaf.prop_recursive(2, 16, 4, move |inner| {
        (section.clone(), prop::collection::vec(inner, 0..4)).prop_map(|(section, body)| {
            let kind = section.split(' ').next().unwrap_or_default();
            format!("<{section}>\n{}</{kind}>\n", body.concat())
        })
    });
    prop::collection::vec(tree, 0..8).prop_map(|lines| lines.concat())
}

/// Directives that mean something, with arguments that may not.
fn nginx_lines() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "/",
        "/a",
        "/a/",
        "/deep/",
        "//",
        "/a*",
        "/..",
        "/a b",
        "/é",
        "^/a/(.*)$",
        "\\.php$",
        "(",
        "[a&&b]",
        "/$1",
        "$uri",
        "",
        "/a.php",
        "/.x",
        "/a/./b",
        "http://b/",
        "https://b.test/$1",
        "/a#b",
        "/a?b",
        "/$2?c",
        "$TOP/other/",
        "$TOP/site",
    ]);
    let word = prop::sample::select(vec![
        "all",
        "10.0.0.0/8",
        "10.0.0.0/99",
        "::1",
        "x",
        "404",
        "301",
        "200",
        "max",
        "1d",
        "-1",
        "permanent",
        "last",
        "break",
        "always",
        "X-A",
        "Connection",
        "a\nb",
        "off",
        "ssl",
        "*.b.test",
        "_",
        "~^x",
        "80",
        "[::]:80",
        "127.0.0.1:99",
        "=404",
        "any",
        "zone=one",
        "one",
        "nodelay",
        "7m",
        "0",
        "$TOP/users",
        "$uri/",
        "@b",
        "http://b",
        "http://127.0.0.1:1/a/",
        "X-Me",
        "Host",
        "$scheme",
        "php",
    ]);
    let arg = prop_oneof![path.clone(), word];
    let name = prop::sample::select(vec![
        "root",
        "alias",
        "index",
        "allow",
        "deny",
        "auth_basic",
        "auth_basic_user_file",
        "limit_req",
        "limit_conn",
        "add_header",
        "expires",
        "error_page",
        "return",
        "rewrite",
        "try_files",
        "fastcgi_pass",
        "fastcgi_param",
        "internal",
        "server_name",
        "listen",
        "satisfy",
        "proxy_pass",
        "proxy_set_header",
        "proxy_read_timeout",
        "proxy_hide_header",
        "client_max_body_size",
        "unknown",
        "set_real_ip_from",
        "real_ip_header",
        "fastcgi_hide_header",
        "access_log",
        "send_timeout",
        "keepalive_timeout",
    ]);
    let leaf = (name, prop::collection::vec(arg, 0..4)).prop_map(|(name, args)| {
        let args: String =
            args.iter().map(|arg| format!(" \"{}\"", arg.replace('\\', "\\\\"))).collect();
        format!("{name}{args};\n")
    });
    let kind = prop::sample::select(vec!["", "=", "^~", "~", "~*"]);
    let tree = leaf.prop_recursive(3, 24, 4, move |inner| {
        let body = prop::collection::vec(inner, 0..4);
        (kind.clone(), path.clone(), body).prop_map(|(kind, path, body)| {
            let path = path.replace('\\', "\\\\");
            format!("location {kind} \"{path}\" {{\n{}}}\n", body.concat())
        })
    });
    prop::collection::vec(tree, 0..8).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: proptest::test_runner::RngSeed::Fixed(14),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_passes_the_check(first in nginx_lines(), second in nginx_lines()) {
        let folder = with_users();
        let text = format!(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;\n\
             server {{ listen 80; server_name a.test; root $TOP/site;\n{first} }}\n\
             server {{ listen 80; server_name b.test; root $TOP/other;\n{second} }}"
        );
        if let Ok(import) = imported(&folder, Language::Nginx, &text) {
            // Roots that are not there, and certificates, are for the operator to bring.
            let is_own = |line: &str| {
                let of_machine = ["is not a directory", "name a file", "does not exist"];
                !of_machine.iter().any(|part| line.contains(part))
            };
            let said = check(&folder, &import.toml).err().unwrap_or_default();
            let errors: Vec<&str> = said.lines().take_while(|line| !line.starts_with('#'))
                .filter(|line| is_own(line)).collect();
            prop_assert!(errors.is_empty(), "{text}\n{said}");
        }
    }

    #[test]
    fn what_is_written_for_caddy_passes_the_check(first in caddy_lines(), second in caddy_lines()) {
        let folder = folder();
        let text = format!(
            "http://a.test {{\nroot * $TOP/site\nfile_server\n{first}}}\n\
             http://b.test {{\nroot * $TOP/other\n{second}}}"
        );
        if let Ok(import) = imported(&folder, Language::Caddy, &text) {
            let of_machine = ["is not a directory", "name a file", "does not exist", "certificate"];
            let is_own = |line: &&str| !of_machine.iter().any(|part| line.contains(part));
            let said = check(&folder, &import.toml).err().unwrap_or_default();
            let errors: Vec<&str> =
                said.lines().take_while(|line| !line.starts_with('#')).filter(is_own).collect();
            prop_assert!(errors.is_empty(), "{text}\n{said}");
        }
    }

    #[test]
    fn what_is_written_for_apache_passes_the_check(first in apache_lines(), second in apache_lines()) {
        let folder = folder();
        let site = |name: &str, lines: &str| format!(
            "<VirtualHost *:80>\nServerName {name}.test\nDocumentRoot $TOP/site\n{lines}\n\
             </VirtualHost>\n"
        );
        let text = format!("{}{}", site("a", &first), site("b", &second));
        if let Ok(import) = imported(&folder, Language::Apache, &text) {
            check(&folder, &import.toml).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        }
    }

    #[test]
    fn a_text_is_never_too_strange(text in "[ -~\n]{0,300}") {
        struct Nothing<'a>(&'a str);
        impl crate::Disk for Nothing<'_> {
            fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
                Ok(self.0.as_bytes().to_vec())
            }
            fn glob(&self, _: &str) -> Vec<std::path::PathBuf> {
                Vec::new()
            }
            fn is_file(&self, _: &Path) -> bool {
                true
            }
            fn find(&self, _: &Path, _: &str) -> Option<Vec<std::path::PathBuf>> {
                None
            }
        }
        for language in Language::ALL {
            let _ = import(language, Path::new("/x"), None, &Nothing(&text), Output::Folder);
        }
    }
}
