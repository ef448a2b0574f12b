//! What comes first: redirects, refusals and rewrites of folders, and whose fields a response has.

use crate::Import;

use super::{Case, htaccess, site};

/// Whether each of these texts stands behind the one before it.
#[track_caller]
fn assert_order(import: &Import, texts: &[&str]) {
    let places = texts.iter().map(|text| {
        let place = import.toml.find(text);
        place.unwrap_or_else(|| panic!("{text} is missing in\n{}", import.toml))
    });
    assert!(places.is_sorted(), "{texts:?}\n{}", import.toml);
}

#[test]
fn redirects_of_folders_come_behind_what_refuses() {
    let moved = "Redirect 301 /shop/old /shop/new";
    for other in [
        "RewriteEngine On\nRewriteRule ^shop/ - [F]",
        "<Files \"*.bak\">\nRequire all denied\n</Files>",
    ] {
        let import = htaccess("", &format!("{moved}\n{other}"));
        assert_order(&import, &["deny", "redirect = \"/shop/new$1\""]);
    }
    // Those of the whole server are asked before any folder.
    let import = site(&format!("{moved}\n<Files \"*.bak\">\nRequire all denied\n</Files>"));
    assert_order(&import, &["redirect = \"/shop/new$1\"", ".bak"]);
}

#[test]
fn redirects_of_folders_come_before_the_rewrites_that_they_meet() {
    let rewrite = "RewriteEngine On\nRewriteRule ^(a|shop)/(.*)$ b.php?p=$2 [L]";
    let import = htaccess("", &format!("{rewrite}\nRedirect /shop/old /new"));
    assert_order(&import, &["redirect = \"/new$1\"", "rewrite = \"/b.php?p=$2"]);
    // Where they do not meet, the redirects of a rewrite engine come first.
    let moves = "RewriteRule ^(.+)/$ /$1 [R=301]";
    let import = htaccess("", &format!("{rewrite}\n{moves}\nRedirect gone /lost"));
    assert_order(&import, &["redirect = \"/$1\"", "status = 410"]);
}

#[test]
fn redirects_of_a_folder_are_for_what_is_in_it() {
    let import = htaccess("deep", "Redirect /deep/old /new");
    assert_order(&import, &["path = \"/deep\"", "redirect = \"/new$1\""]);
    let main = "<VirtualHost *:80>\nDocumentRoot $TOP/site\nAlias /tool $TOP/other\n\
        <Directory $TOP/other>\nRedirect 403 /tool/secret\nRedirect 403 /secrets\n</Directory>\n\
        </VirtualHost>";
    let import = Case { htaccess: &[], main }.import();
    assert_order(&import, &["path = \"/tool\"", "pattern = \"^/secret(/.*)?(?:/|$)\""]);
    assert!(!import.toml.contains("secrets"), "{}", import.toml);
}

#[test]
fn what_is_redirected_has_no_lifetime_of_pages() {
    let kept = "<FilesMatch \\.png$>\nHeader set Cache-Control public\n</FilesMatch>";
    let import = site(&format!("{kept}\nRedirectMatch 301 ^/old/(.*)$ /new/$1"));
    assert_order(&import, &["pattern = \"^/old/(.*)$\"\nof_answer = true\nlast = true", "public"]);
    let import = site("RedirectMatch 301 ^/old/(.*)$ /new/$1");
    assert!(!import.toml.contains("last = true"), "{}", import.toml);
}

#[test]
fn fields_of_names_are_also_those_of_what_is_mounted() {
    let import = site(
        "Alias /tool $TOP/other\n<FilesMatch \\.png$>\nHeader set X-Own yes\n</FilesMatch>\n\
         <Location /tool/deep>\nHeader set X-Deep yes\n</Location>\n\
         <Location /shop>\nHeader set X-Shop yes\n</Location>",
    );
    let mount = import.toml.split("path = \"/tool\"").nth(1).unwrap_or_default();
    assert!(mount.contains("X-Own") && mount.contains("path = \"/deep\""), "{}", import.toml);
    assert!(!mount.contains("X-Shop"), "{}", import.toml);
}

#[test]
fn refusals_of_a_folder_leave_out_those_with_rewrites_of_their_own() {
    let main = "<VirtualHost *:80>\nDocumentRoot $TOP/site\n<Directory $TOP/site>\n\
        AllowOverride All\n</Directory>\n</VirtualHost>\n";
    let front = "RewriteRule ^news/ index.php [L]";
    let closed = "RewriteRule ^(deep|shop)/ - [F]";
    let htaccess: &[(&str, &str)] = &[
        ("", &format!("RewriteEngine On\n{front}\n{closed}")),
        ("deep", "RewriteEngine On\nRewriteRule ^a$ b.html"),
        ("data", "Require all denied"),
    ];
    let import = Case { htaccess, main }.import();
    let own = "pattern = \"^/(deep|shop)/\"\nand_pattern = [\"!^/deep(?:/|$)\"]\ndeny";
    assert_order(&import, &[own]);
    assert_order(&import, &["path = \"/data\"\ndeny"]);
}

#[test]
fn what_is_mounted_is_listed_unless_a_rewrite_around_refuses_its_index_file() {
    let main = "<VirtualHost *:80>\nDocumentRoot $TOP/site\nAlias /manual $TOP/site/deep\n\
        <Directory $TOP/site>\nOptions Indexes FollowSymLinks\nAllowOverride All\n\
        Require all granted\n</Directory>\n</VirtualHost>\n";
    for (names, is_listed) in [("\\.png$", true), ("\\.php$", false)] {
        let text = format!(
            "DirectoryIndex index.php\nRewriteEngine On\n\
             RewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteRule {names} - [F]"
        );
        let import = Case { htaccess: &[("", &text)], main }.import();
        let mount = import.toml.split("path = \"/manual\"").nth(1).unwrap_or_default();
        assert_eq!(mount.contains("index_listing = true"), is_listed, "{}", import.toml);
    }
}
