//! What Apache refuses or does not run is refused or not run by what is written: tables of
//! configurations, each with paths. That Apache answers so is told by its manual.

mod applications;
mod denied;
mod order;

use std::fs;

use toml_edit::{DocumentMut, Item, Table};

use crate::tests::{check, folder, imported};
use crate::{Import, Kind, Language, Output, System, import};

/// What the rules of the first site do with a path, for a client with a strange address.
#[derive(Debug, PartialEq)]
enum Answer {
    Refused,
    /// A script would not run.
    NotRun,
    Open,
}

use Answer::{NotRun, Open, Refused};

fn answer(import: &Import, path: &str) -> Answer {
    let document: DocumentMut = import.toml.parse().unwrap();
    let site = document["site"].as_array_of_tables().unwrap().get(0).unwrap();
    let rules = site.get("rule").and_then(Item::as_array_of_tables);
    let text = |rule: &Table, key: &str| -> Option<String> {
        rule.get(key).map(|item| item.as_str().unwrap().to_owned())
    };
    let fits = |rule: &&Table| {
        let is_in = |own: String| match own.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => {
                let rest = path.strip_prefix(own.trim_end_matches('/'));
                rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
            }
        };
        let is_found = |own: String| regex_lite::Regex::new(&own).unwrap().is_match(path);
        text(rule, "path").is_none_or(is_in) && text(rule, "pattern").is_none_or(is_found)
    };
    let fitting: Vec<&Table> = rules.into_iter().flatten().filter(fits).collect();
    if fitting.iter().any(|rule| rule.contains_key("deny") || rule.contains_key("allow")) {
        return Refused;
    }
    match fitting.iter().any(|rule| text(rule, "serve").as_deref() == Some("files")) {
        true => NotRun,
        false => Open,
    }
}

/// Files below the root, among them `.htaccess` files, and a configuration around them.
struct Case<'a> {
    htaccess: &'a [(&'a str, &'a str)],
    main: &'a str,
}

impl Case<'_> {
    #[track_caller]
    fn import(&self) -> Import {
        let folder = folder();
        for (path, text) in self.htaccess {
            let file = folder.path().join("site").join(path).join(".htaccess");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let import = imported(&folder, Language::Apache, self.main).unwrap();
        check(&folder, &import.toml).unwrap();
        import
    }
}

#[track_caller]
fn assert_answers(import: &Import, rows: &[(Answer, &str)]) {
    for (expected, path) in rows {
        let answer = answer(import, path);
        assert_eq!(answer, *expected, "{path}: {:?}\n{}", import.notes, import.toml);
    }
}

/// Imports a site with these lines.
#[track_caller]
fn site(lines: &str) -> Import {
    let main = format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n{lines}\n</VirtualHost>\n"
    );
    Case { htaccess: &[], main: &main }.import()
}

/// Imports a site with `AllowOverride All` and this `.htaccess` in its folder `at`.
#[track_caller]
fn htaccess(at: &str, lines: &str) -> Import {
    let main = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n\
        <Directory $TOP/site>\nAllowOverride All\n</Directory>\n</VirtualHost>\n";
    Case { htaccess: &[(at, lines)], main }.import()
}

fn is_refused(import: &Import) -> bool {
    import.notes.iter().any(|note| note.kind == Kind::Refused)
}

#[test]
fn refusing_rewrite_rules_see_paths_from_their_folder() {
    for (rule, refused, open) in [
        ("^vendor/|^storage/", &["/vendor/a", "/storage/a"][..], &["/a/vendor/", "/a"][..]),
        ("^(a)|^b", &["/a", "/b"], &["/c"]),
        // The slash before the path itself is none of it.
        ("/\\.a|^\\.b", &["/x/.a", "/x/y/.a", "/.b"], &["/.a", "/x/.b"]),
        ("(^|/)secret", &["/secret", "/x/secret"], &["/asecret"]),
        ("(^|x)secret", &["/secret", "/xsecret"], &["/a/secret"]),
        ("^/?vendor", &["/vendor"], &["/a"]),
        ("^[^/?]+/secret", &["/a/secret"], &["/secret"]),
        ("\\.sql$|\\.bak$", &["/a.sql", "/a.bak/x"], &["/a.sqlx"]),
        ("^$", &["/"], &["/a"]),
    ] {
        let lines = format!("RewriteEngine On\nRewriteRule {rule} - [F]");
        for at in ["", "deep"] {
            let import = htaccess(at, &lines);
            let start = if at.is_empty() { "" } else { "/deep" };
            for (expected, paths) in [(Refused, refused), (Open, open)] {
                for path in paths {
                    let path = format!("{start}{path}");
                    assert_eq!(answer(&import, &path), expected, "{rule} {path} {}", import.toml);
                }
            }
            assert!(!is_refused(&import), "{rule}: {:?}", import.notes);
        }
    }
}

#[test]
fn what_no_rule_can_say_of_a_refusing_rewrite_rule_is_refused() {
    for rule in ["^?vendor", "\\Avendor", "^vendor(?=/)"] {
        let lines = format!("RewriteEngine On\nRewriteRule {rule} - [F]");
        for (import, path) in
            [(htaccess("", &lines), "/vendor/a"), (htaccess("deep", &lines), "/deep/vendor/a")]
        {
            assert_answers(&import, &[(Refused, path)]);
            assert!(is_refused(&import), "{rule}: {:?}", import.notes);
        }
    }
    let import = site("RewriteEngine On\nRewriteRule !^/(index\\.php|assets/) - [F]");
    assert_answers(&import, &[(Refused, "/vendor/a")]);
}

#[test]
fn names_of_files_are_found_in_paths() {
    for (name, refused, open) in [
        (r"^[^.]+\.(sql|bak)$", &["/dump.sql", "/a.b/dump.bak"][..], &["/a.b"][..]),
        ("^(a|b)$|^c$", &["/a", "/x/b", "/x/c"], &["/xc", "/d"]),
        (r"(^\.env|^composer\.json$)", &["/.env", "/x/composer.json"], &["/a.env"]),
        (r"^[[:^alpha:]^]x$", &["/1x", "/^x"], &["/ax"]),
    ] {
        let import = site(&format!("<FilesMatch \"{name}\">\nRequire all denied\n</FilesMatch>"));
        for (expected, paths) in [(Refused, refused), (Open, open)] {
            for path in paths {
                assert_eq!(answer(&import, path), expected, "{name} {path} {}", import.toml);
            }
        }
    }
}

#[test]
fn folders_are_known_in_each_spelling() {
    for root in ["$TOP/site", "\"$TOP/site/\"", "$TOP//site/.", "$TOP/other/../site/", "site/"] {
        for section in ["$TOP/site/deep", "$TOP/site/deep/", "$TOP//site/./deep/"] {
            let main = format!(
                "<VirtualHost *:80>\nDocumentRoot {root}\n<Directory {section}>\n\
                 Require all denied\n</Directory>\n</VirtualHost>\n"
            );
            let import = Case { htaccess: &[], main: &main }.import();
            assert_answers(&import, &[(Refused, "/deep/a.txt"), (Open, "/index.php")]);
            assert!(import.notes.is_empty(), "{:?}", import.notes);
        }
    }
}

#[test]
fn htaccess_files_are_read_where_apache_reads_them() {
    let deny = "Require all denied";
    let htaccess = &[("deep", deny), ("deep/er", deny), ("blog", deny)];
    for (sections, refused, open) in [
        ("<Directory $TOP>\nAllowOverride All", &["/deep/er/a", "/blog/a"][..], &["/a"][..]),
        ("<Directory $TOP/site/blog/>\nAllowOverride All", &["/blog/a"], &["/deep/a"]),
        ("<Directory />\nAllowOverrideList Require", &["/deep/a", "/blog/a"], &["/a"]),
        (
            "<Directory $TOP/site>\nAllowOverride All\n</Directory>\n\
                <Directory $TOP/site/deep>\nAllowOverride None",
            &["/blog/a"],
            &["/deep/a"],
        ),
        ("<Directory $TOP/*>\nAllowOverride All", &["/deep/a", "/blog/a"], &["/a"]),
        ("<Directory ~ site>\nAllowOverride All", &["/deep/a", "/blog/a"], &["/a"]),
        ("<Directory $TOP/site>\nAllowOverride None", &[], &["/deep/a", "/blog/a"]),
    ] {
        let main = format!(
            "{sections}\n</Directory>\n<VirtualHost *:80>\nDocumentRoot $TOP/site\n\
             </VirtualHost>\n"
        );
        let import = Case { htaccess, main: &main }.import();
        for (expected, paths) in [(Refused, refused), (Open, open)] {
            for path in paths {
                assert_eq!(answer(&import, path), expected, "{sections} {path} {}", import.toml);
            }
        }
    }
    let main = "<DirectoryMatch site>\nAllowOverride All\n</DirectoryMatch>\n\
        <VirtualHost *:80>\nDocumentRoot $TOP/site\n</VirtualHost>\n";
    assert_answers(&Case { htaccess, main }.import(), &[(Refused, "/blog/a")]);
    let main = "<IfVersion ~ 2.4>\n<Directory />\nAllowOverride All\n</Directory>\n</IfVersion>\n\
        <VirtualHost *:80>\nDocumentRoot $TOP/site\n</VirtualHost>\n";
    let import = Case { htaccess, main }.import();
    assert_answers(&import, &[(Refused, "/blog/a")]);
    assert!(is_refused(&import));
}

#[test]
fn an_htaccess_alone_is_read_with_those_below_it() {
    let folder = folder();
    for (path, text) in [("site", "Options -Indexes"), ("site/deep", "Require all denied")] {
        fs::write(folder.path().join(path).join(".htaccess"), text).unwrap();
    }
    let read = |path: &str| {
        import(Language::Apache, &folder.path().join(path), None, &System, Output::Text)
    };
    let whole = read("site/.htaccess").unwrap();
    assert_answers(&whole, &[(Refused, "/deep/a.txt"), (Open, "/a.txt")]);
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    let inner = read("site/deep/.htaccess").unwrap();
    assert!(inner.notes[0].reason.contains("site/.htaccess"), "{:?}", inner.notes);
}

#[test]
fn scripts_do_not_run_where_apache_does_not_run_them() {
    for (lines, expected) in [
        ("AddHandler cgi-script .php .pl .py\nOptions -ExecCGI", Refused),
        ("AddHandler cgi-script .php .pl\nOptions +ExecCGI", Refused),
        ("AddType text/plain .php .phtml", NotRun),
        ("AddType text/html php", NotRun),
        ("AddHandler default-handler .PHP", NotRun),
        ("ForceType text/plain", NotRun),
        ("RemoveHandler .php .phtml", NotRun),
        ("RemoveType .php", NotRun),
        ("SetHandler none", NotRun),
        ("SetHandler default-handler", NotRun),
        ("<IfModule mod_php7.c>\nphp_flag engine off\n</IfModule>", NotRun),
        ("<IfModule php5_module>\nphp_admin_flag engine 0\n</IfModule>", NotRun),
        ("<IfModule mod_php5.c>\nRequire all denied\n</IfModule>", Refused),
        ("<Files *.php>\nSetHandler none\n</Files>", NotRun),
        ("<FilesMatch \"\\.(php|phtml)$\">\nForceType text/plain\n</FilesMatch>", NotRun),
        ("<Files *.php>\nAddHandler cgi-script .php\n</Files>", Refused),
        // These are PHP's own.
        ("AddHandler application/x-httpd-php .php", Open),
        ("AddHandler php5-fcgi .php", Open),
        ("AddHandler fcgid-script .php", Open),
        ("AddType application/x-httpd-php .php .phtml", Open),
        ("<FilesMatch \\.php$>\nForceType application/x-httpd-php\n</FilesMatch>", Open),
        ("<FilesMatch \\.php$>\nSetHandler proxy:fcgi://localhost:9000\n</FilesMatch>", Open),
        ("AddType image/webp .webp", Open),
        ("<Files *.png>\nForceType image/png\n</Files>", Open),
        ("RemoveHandler .cgi", Open),
        ("<IfModule mod_php7.c>\nphp_value memory_limit 1M\n</IfModule>", Open),
    ] {
        for (import, path) in [
            (htaccess("deep", lines), "/deep/a.php"),
            (site(&format!("<Directory $TOP/site/deep>\n{lines}\n</Directory>")), "/deep/a.php"),
            (site(lines), "/a.php"),
        ] {
            assert_eq!(answer(&import, path), expected, "{lines}\n{}", import.toml);
        }
        let import = htaccess("deep", lines);
        assert_answers(&import, &[(Open, "/a.php")]);
    }
}

#[test]
fn what_apache_would_run_is_not_sent() {
    for (lines, name) in [
        ("AddHandler cgi-script .cgi .pl", "a.pl"),
        ("AddHandler fcgid-script .fcgi", "a.fcgi"),
        ("AddHandler server-parsed .shtml", "a.shtml"),
        ("AddHandler application/x-httpd-php .php .html", "a.html"),
        ("AddType application/x-httpd-php .tpl", "a.tpl"),
        ("AddHandler application/x-httpd-php .html", "a.html.de"),
        ("<Files list>\nForceType application/x-httpd-php\n</Files>", "list"),
        ("<Files list>\nSetHandler application/x-httpd-php\n</Files>", "list"),
        ("<Files ~ \\.tpl$>\nSetHandler proxy:fcgi://localhost:9000\n</Files>", "a.tpl"),
        ("<Files list>\nSetHandler cgi-script\n</Files>", "list"),
    ] {
        let import = htaccess("deep", lines);
        let path = format!("/deep/{name}");
        assert_answers(&import, &[(Refused, &path), (Open, "/deep/a.txt")]);
        assert!(is_refused(&import), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn includes_that_are_not_read_are_noted_or_refused() {
    for (line, kind, expected) in [
        ("Include missing.conf", Kind::Refused, Refused),
        ("Include missing/*.conf", Kind::Refused, Refused),
        // A folder is read by Apache with all that is in it.
        ("Include other", Kind::Refused, Refused),
        ("IncludeOptional other", Kind::Refused, Refused),
        ("IncludeOptional othe*", Kind::Refused, Refused),
        ("IncludeOptional missing.conf", Kind::Left, Open),
        ("IncludeOptional missing/*.conf", Kind::Left, Open),
    ] {
        let import = site(line);
        assert_answers(&import, &[(expected, "/a.txt")]);
        assert_eq!(import.notes[0].kind, kind, "{line}: {:?}", import.notes);
    }
}

#[test]
fn the_file_of_one_site_is_not_all_that_holds_for_it() {
    let folder = folder();
    let site = format!("DocumentRoot {}/site\n", folder.path().display());
    for name in ["apache2.conf", "site.conf"] {
        fs::write(folder.path().join(name), &site).unwrap();
    }
    let read = |name: &str| {
        import(Language::Apache, &folder.path().join(name), None, &System, Output::Text)
    };
    let notes = read("site.conf").unwrap().notes;
    assert!(notes[0].reason.contains("apache2.conf says of all sites"), "{notes:?}");
    assert!(read("apache2.conf").unwrap().notes.is_empty());
}

#[test]
fn what_a_rewrite_rule_answers_instead_is_not_sent() {
    for (lines, expected) in [
        ("RewriteCond %{REMOTE_USER} !x\nRewriteRule ^deep/ login.php [L]", Refused),
        ("RewriteCond %{THE_REQUEST} !a\nRewriteRule ^deep/ login.php [L]", Refused),
        ("RewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^deep/ login.php [L]", Refused),
        ("RewriteRule ^deep/(?=a) login.php [L]", Refused),
        ("RewriteRule ^deep/(.*) get.php?f=%{ENV:X} [L]", Refused),
        // Any client gets the file itself by another request.
        ("RewriteCond %{HTTP_ACCEPT} webp\nRewriteRule ^deep/(.*) $1%{ENV:X} [L]", Open),
        ("RewriteCond %{QUERY_STRING} ^a=(.)\nRewriteRule ^deep/ b.php?c=%1 [L]", Open),
        ("RewriteCond %{TIME} >1\nRewriteRule ^deep/ http://b.test/ [R,L]", Open),
        ("RewriteRule ^deep/ - [S=1]", Open),
    ] {
        let import = htaccess("", &format!("RewriteEngine On\n{lines}"));
        assert_answers(&import, &[(expected, "/deep/a.txt")]);
        assert!(!import.notes.is_empty(), "{lines}");
    }
}

#[test]
fn a_site_on_an_address_that_is_not_known_is_left_out() {
    let folder = folder();
    for address in ["127.0.0.1", "admin.test:80", "[::1]", "*:80 10.0.0.1"] {
        let text = format!(
            "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n</VirtualHost>\n\
             <VirtualHost {address}>\nServerName b.test\nDocumentRoot $TOP/other\n</VirtualHost>\n"
        );
        let import = imported(&folder, Language::Apache, &text).unwrap();
        assert!(!import.toml.contains("host = [\"b.test\"]"), "{address} {}", import.toml);
        assert!(is_refused(&import), "{address}");
    }
}

#[test]
fn addresses_behind_a_proxy_are_not_those_of_clients() {
    let require = "<Location /deep>\nRequire ip 10.0.0.0/8\n</Location>";
    let import = site(&format!("RemoteIPHeader X-Forwarded-For\n{require}"));
    assert!(is_refused(&import), "{:?}", import.notes);
    assert!(!import.toml.contains("10.0.0.0/8\"]"), "{}", import.toml);
    assert!(site(require).toml.contains("allow = [\"10.0.0.0/8\"]"));
}

#[test]
fn the_largest_request_is_that_of_apache() {
    let deep = "<Location /deep>\nLimitRequestBody 10\n</Location>";
    let within = "<Location /deep/er>\nLimitRequestBody 20\n</Location>";
    for (lines, expected, notes) in [
        ("LimitRequestBody 1048576".to_owned(), &["[limits]\nbody = 1048576"][..], 0),
        ("LimitRequestBody 0".to_owned(), &["[limits]\nbody = 1099511627776"], 0),
        (deep.to_owned(), &["path = \"/deep\"\nbody = 10"], 0),
        (format!("{deep}\n{within}"), &["\"/deep\"\nbody = 10", "\"/deep/er\"\nbody = 20"], 0),
        (
            "<Directory $TOP/site/deep>\nLimitRequestBody 0\n</Directory>".to_owned(),
            &["path = \"/deep\"\nbody = 1099511627776"],
            0,
        ),
        // Which of them counts depends on the order, and on what kind of section they are.
        (format!("{within}\n{deep}"), &["\"/deep/er\"\nbody = 20"], 1),
        ("<Files a.php>\nLimitRequestBody 10\n</Files>".to_owned(), &[], 1),
        ("LimitRequestBody many".to_owned(), &[], 1),
    ] {
        let import = site(&lines);
        for part in expected {
            assert!(import.toml.contains(part), "{lines}: no {part} in {}", import.toml);
        }
        let written = import.toml.matches("body = ").count();
        assert_eq!(written, expected.len(), "{lines}: {}", import.toml);
        assert_eq!(import.notes.len(), notes, "{lines}: {:?}", import.notes);
    }
    // Sites that differ.
    let host = |name: &str, lines: &str| {
        format!(
            "<VirtualHost *:80>\nServerName {name}.test\nDocumentRoot $TOP/site\n{lines}\n\
             </VirtualHost>\n"
        )
    };
    let main = host("a", "LimitRequestBody 10") + &host("b", "");
    let import = Case { htaccess: &[], main: &main }.import();
    assert!(import.toml.contains("[[site.rule]]\nbody = 10"), "{}", import.toml);
    assert!(!import.toml.contains("[limits]"), "{}", import.toml);
}

#[test]
fn what_is_for_servers_without_a_module_is_noted() {
    for (lines, notes) in [
        ("<IfModule !mod_x.c>\nOptions -Indexes\n</IfModule>", 1),
        ("<IfModule !mod_x.c>\n</IfModule>", 0),
        ("<IfModule mod_x.c>\nOptions -Indexes\n</IfModule>", 0),
        ("<Location /deep>\n<IfModule !mod_x.c>\nRequire all denied\n</IfModule>\n</Location>", 1),
    ] {
        let import = site(lines);
        let is_said = |note: &crate::Note| note.line == "<IfModule !mod_x.c>";
        let count = import.notes.iter().filter(|note| is_said(note)).count();
        assert_eq!(count, notes, "{lines}: {:?}", import.notes);
        assert!(!is_refused(&import), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn a_site_is_on_the_addresses_that_apache_listens_on() {
    for (listen, expected) in [
        ("Listen 127.0.0.1:8080", "listen = [\"127.0.0.1:8080\"]"),
        ("Listen 127.0.0.1:8080\nListen 80", "listen = [\"127.0.0.1:8080\"]"),
        ("Listen 127.0.0.1:8080\nListen [::1]:8080", "[\"127.0.0.1:8080\", \"[::1]:8080\"]"),
        ("Listen 127.0.0.1:8080\nListen 8080", "listen = [\":8080\"]"),
        ("Listen 0.0.0.0:8080", "listen = [\":8080\"]"),
        ("Listen 80", "listen = [\":8080\"]"),
    ] {
        let main = format!(
            "{listen}\n<VirtualHost *:8080>\nServerName a.test\nDocumentRoot $TOP/site\n\
             </VirtualHost>\n"
        );
        let import = Case { htaccess: &[], main: &main }.import();
        assert!(import.toml.contains(expected), "{listen}: {}", import.toml);
    }
}
