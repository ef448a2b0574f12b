//! What the files of applications say in ways of their own.

use std::fs;

use super::{Open, Refused, assert_answers, htaccess, is_refused, site};
use crate::tests::{check, folder, imported};
use crate::{Import, Kind, Language};

const MAIN: &str = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n\
    <Directory $TOP/site>\nAllowOverride All\n</Directory>\n</VirtualHost>\n";

/// Imports a site with these `.htaccess` files, and with a script in the folder `deep`.
#[track_caller]
fn files(htaccess: &[(&str, &str)]) -> Import {
    let folder = folder();
    for (path, text) in htaccess {
        let path = folder.path().join("site").join(path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(".htaccess"), text).unwrap();
    }
    fs::write(folder.path().join("site/deep/index.php"), "").unwrap();
    let import = imported(&folder, Language::Apache, MAIN).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[track_caller]
fn assert_has(import: &Import, texts: &[&str]) {
    for text in texts {
        assert!(import.toml.contains(text), "{text}: {:?}\n{}", import.notes, import.toml);
    }
}

const WEB: &str = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php";

#[test]
fn a_folder_into_which_all_paths_are_led_is_the_root() {
    for (lines, is_led) in [
        ("RewriteRule ^$ deep/ [L]\nRewriteRule (.*) deep/$1 [L]", true),
        ("RewriteRule ^(.*)$ /deep/$1", true),
        ("RewriteRule ^ deep%{REQUEST_URI} [L]", true),
        ("RewriteCond %{REQUEST_URI} !^/deep/\nRewriteRule ^(.*)$ deep/$1 [L]", true),
        ("RewriteRule ^a$ /b [R]\nRewriteRule ^(.*)$ deep/$1", true),
        ("RewriteRule ^(\\.well-known/.*)$ $1 [L]\nRewriteRule ^(.*)$ deep/$1", true),
        // The root itself is not led there.
        ("RewriteRule ^(.+)$ deep/$1 [L]", false),
        ("RewriteRule ^a/(.*)$ deep/$1 [L]", false),
        ("RewriteRule ^(.*)$ deep/$1\nRewriteRule x y", false),
        ("RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ deep/$1 [L]", false),
        ("RewriteCond %{HTTP_HOST} a\nRewriteRule ^(.*)$ deep/$1 [L]", false),
        ("RewriteRule ^(.*)$ deep/x$1 [L]", false),
        ("RewriteRule ^(.*)$ deep/$1?a [QSD,L]", false),
        ("RewriteRule ^(.*)$ none/$1 [L]", false),
    ] {
        let import = files(&[("", &format!("RewriteEngine On\n{lines}")), ("deep", WEB)]);
        assert_eq!(import.toml.contains("/site/deep\""), is_led, "{lines}\n{}", import.toml);
    }
}

#[test]
fn what_is_said_around_a_led_folder_still_holds() {
    let root = "RewriteEngine On\nRewriteRule ^(.*)$ deep/$1 [L]\n<Files *.key>\n\
        Require all denied\n</Files>";
    let import = files(&[("", root), ("inner", "Require all denied"), ("deep", WEB)]);
    assert_has(&import, &["/site/deep\"", "^/deep/(.*)$", "front_controller = \"index.php\""]);
    assert_answers(
        &import,
        &[(Refused, "/a.key"), (Refused, "/inner/a"), (Open, "/a"), (Open, "/deep/a")],
    );
    // What leads elsewhere from beside it is not known there.
    for other in [WEB, "Redirect /inner/a /b", "<Files a>\nRewriteEngine On\n</Files>"] {
        let import = files(&[("", root), ("inner", other), ("deep", WEB)]);
        assert!(!import.toml.contains("/site/deep\""), "{other}\n{}", import.toml);
    }
    // What goes by paths behind the rewrite, too.
    for more in [
        "<If \"%{REQUEST_URI} =~ /b/\">\nRequire all denied\n</If>",
        "SetEnvIf Request_URI b c\nDeny from env=c",
    ] {
        let import = files(&[("", &format!("{root}\n{more}")), ("deep", WEB)]);
        assert!(!import.toml.contains("/site/deep\""), "{more}\n{}", import.toml);
    }
    let redirects = format!("{root}\nRedirectMatch 404 ^/deep/secret");
    let import = files(&[("", &redirects), ("deep", WEB)]);
    assert_answers(&import, &[(Refused, "/secret"), (Refused, "/deep/secret"), (Open, "/a")]);
    // Without an end, Apache leads there for ever.
    let import = files(&[("", root), ("deep", "Options -Indexes")]);
    assert!(!import.toml.contains("/site/deep\""), "{}", import.toml);
}

#[test]
fn rewrites_of_a_led_folder_see_its_path() {
    let root = "RewriteEngine On\nRewriteRule ^(.*)$ deep/$1 [L]";
    let inner = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\n\
        RewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [R=301]\n\
        RewriteCond %{REQUEST_URI} ^/deep/a/\nRewriteRule ^ - [F]\nRewriteRule ^b$ /deep/c.php";
    let import = files(&[("", root), ("deep", inner)]);
    assert_has(
        &import,
        &["redirect = \"/deep/$1\"", "rewrite = \"/c.php\"", "and_pattern = [\"^/a/"],
    );
}

#[test]
fn chains_and_variables_are_those_of_the_rules_before() {
    for (lines, expected) in [
        (
            "RewriteRule ^(.+)$ - [E=A:$1]\nRewriteRule ^(.*)$ index.php?a=%{ENV:A} [L]",
            "rewrite = \"/index.php?a=$1?\"",
        ),
        ("RewriteRule ^.*$ index.php?a=$0&%{QUERY_STRING} [L]", "rewrite = \"/index.php?a=$1\""),
        ("RewriteRule ^x(.)$ i.php?a=$0&b=$1 [L]", "rewrite = \"/i.php?a=$1&b=$2?\""),
        ("RewriteRule ^a/ - [C]\nRewriteRule b$ /c.php [L]", "and_pattern = [\"^/a/\"]"),
        ("RewriteRule ^(a|b)/ - [E=x:1,L]\nRewriteRule ^c /d.php", "and_pattern = [\"!^/(a|b)/\"]"),
        (
            "RewriteCond %{THE_REQUEST} ^[A-Z]{3,9}\\ /i\\.php\nRewriteRule ^i.php$ / [R]",
            "and_pattern = ['^/i\\.php']",
        ),
        (
            "RewriteCond %{THE_REQUEST} ^GET.*i\\.php [NC]\nRewriteRule ^(.*)i.php$ /$1 [R]",
            "method = \"^GET$\"",
        ),
        ("RewriteCond 1 2\nRewriteRule ^a b.php [L]\nRewriteRule ^c d.php", "rewrite = \"/d.php\""),
    ] {
        let import = htaccess("", &format!("RewriteEngine On\n{lines}"));
        assert_has(&import, &[expected]);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn a_script_does_not_answer_for_files_beside_it() {
    let lines =
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/admin\nRewriteRule ^ admin/index.php";
    assert_has(&htaccess("", lines), &["!^/admin"]);
    let lines = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f [OR]\n\
        RewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^(.+) - [PT,L]\nRewriteRule ^(.*) index.php";
    assert_has(&htaccess("", lines), &["front_controller = \"index.php\""]);
}

#[test]
fn what_refuses_by_more_than_rules_can_say_refuses_more() {
    let import = htaccess(
        "",
        "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} a\n\
        RewriteCond %{REMOTE_ADDR} b\nRewriteRule ^x - [F]",
    );
    assert!(is_refused(&import));
    assert_has(&import, &["header = { User-Agent = \"a\" }"]);
    let import = htaccess(
        "",
        "RewriteEngine On\nRewriteCond %{ENV:REDIRECT_STATUS} !=200\n\
        RewriteRule ^x - [F]",
    );
    assert_has(&import, &["internal = true"]);
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // What is refused only when rules are asked again.
    let import = htaccess(
        "",
        "RewriteEngine On\nRewriteCond %{ENV:REDIRECT_STATUS} =200\n\
        RewriteRule ^x - [F]",
    );
    assert_answers(&import, &[(Refused, "/x")]);
}

#[test]
fn sections_of_names_look_ahead_and_behind() {
    for (expression, refused, open) in [
        (
            r"^\.|^(?!free)[^.]+$|\.(?!css|php)[^.]*$",
            &["/.x", "/a", "/a/b", "/free/b", "/a.ini", "/a.css.ini", "/a.ini/b"][..],
            &["/a.css", "/v1.2/a.css", "/a.php", "/a/", "/free", "/a/free"][..],
        ),
        (r"(?<!map|feed)\.xml$", &["/a.xml", "/x/b.xml"], &["/map.xml", "/x/feed.xml"]),
        (r"^[^.]+$", &["/a", "/x/a"], &["/", "/x/", "/x/a.b"]),
    ] {
        let import = htaccess(
            "",
            &format!(
                "<FilesMatch \"{expression}\">\nRequire all denied\n\
            </FilesMatch>"
            ),
        );
        let written: toml_edit::DocumentMut = import.toml.parse().unwrap();
        let rules = written["site"].as_array_of_tables().unwrap().get(0).unwrap()["rule"].clone();
        let is_refused = |path: &&&str| {
            rules.as_array_of_tables().unwrap().iter().any(|rule| {
                let is_in = |own: &str| regex_lite::Regex::new(own).unwrap().is_match(path);
                let and = rule.get("and_pattern").and_then(|it| it.as_array());
                rule.contains_key("deny")
                    && is_in(rule["pattern"].as_str().unwrap())
                    && and.into_iter().flatten().all(|own| match own.as_str().unwrap() {
                        own if own.starts_with('!') => !is_in(&own[1..]),
                        own => is_in(own),
                    })
            })
        };
        assert_eq!(refused.iter().find(|it| !is_refused(it)), None, "{}", import.toml);
        assert_eq!(open.iter().find(is_refused), None, "{}", import.toml);
    }
}

#[test]
fn a_later_section_opens_what_an_earlier_one_closes() {
    let both = |one: &str, other: &str| {
        format!(
            "<FilesMatch \"\\.(php|inc)$\">\n{one}\n</FilesMatch>\n\
            <FilesMatch \"^(index|dl)\\.php$\">\n{other}\n</FilesMatch>"
        )
    };
    let (denied, granted) = ("Require all denied", "Require all granted");
    assert_has(&htaccess("", &both(denied, granted)), &["'!^(?:/[^./]+)*"]);
    // Apache holds to both of its ways to say it, and the last section decides.
    for (one, other) in [("Deny from all", granted), (granted, denied)] {
        let import = htaccess("", &both(one, other));
        assert!(!import.toml.contains("and_pattern = ['!"), "{}", import.toml);
    }
}

#[test]
fn methods_add_up_as_one_of_several_that_is_enough() {
    let (granted, denied) = ("Require all granted\n", "Require all denied\n");
    let limit = |name: &str, inner: &str| {
        format!("<{name}>\n{inner}</{}>\n", name.split(' ').next().unwrap())
    };
    for (lines, expected) in [
        (format!("{granted}{}", limit("LimitExcept GET", denied)), None),
        (limit("LimitExcept GET", denied), Some("method = \"!^(?:GET|HEAD)$\"")),
        (limit("Limit POST PUT", denied), Some("method = \"^(?:POST|PUT)$\"")),
        (
            format!("{denied}{}", limit("LimitExcept POST", granted)),
            Some("method = \"^(?:POST)$\""),
        ),
        (
            format!("{}{}", limit("Limit PUT", denied), limit("LimitExcept PUT", granted)),
            Some("method = \"^(?:PUT)$\""),
        ),
    ] {
        let import = htaccess("deep", &lines);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
        match expected {
            Some(expected) => assert_has(&import, &[expected]),
            None => assert!(!import.toml.contains("method"), "{}", import.toml),
        }
    }
    let import = htaccess("deep", "SetEnvIf User-Agent ^good ok\nRequire env ok");
    assert_has(&import, &["header = { User-Agent = \"!^good\" }"]);
    assert_answers(&htaccess("deep", "Require env unknown"), &[(Refused, "/deep/a")]);
    // What another folder sets is not set here.
    let import = files(&[("", "SetEnvIf User-Agent a ok"), ("deep", "Require env ok")]);
    assert_answers(&import, &[(Refused, "/deep/a")]);
    assert!(is_refused(&import), "{}", import.toml);
}

#[test]
fn redirects_are_translated_within_if_and_below_an_alias() {
    let import = htaccess(
        "",
        "<If \"%{QUERY_STRING} =~ /a/\">\nRedirect /x /y\n\
        Header set X-A b\n</If>",
    );
    assert_has(&import, &["query = \"a\"", "redirect = \"/y$1\""]);
    assert_eq!(import.notes[0].kind, Kind::Left, "{:?}", import.notes);
    let import = site("<If \"%{HTTPS} != 'on'\">\nRedirect / https://a.test/\n</If>");
    assert_has(&import, &["https_redirect = true"]);
    let import = site("<If \"%{REMOTE_ADDR} != '192.0.2.1'\">\nRedirect / /closed\n</If>");
    assert_answers(&import, &[(Refused, "/a")]);
    let import = site("Alias /lib $TOP/site/deep\nRedirect 301 /lib/old /new\nRedirect / /all/");
    assert_has(&import, &["pattern = \"^/old(/.*)?$\"", "redirect = \"/new$1\""]);
    assert!(import.notes.iter().any(|note| note.reason.contains("/lib")), "{:?}", import.notes);
}
