//! What comparing invented sites with the real servers has found, one test each.

use std::fs;

use super::{assert_has, caddy, folder, imported, nginx};
use crate::{Import, Language};

/// Imports a site of Apache with `.htaccess` files, each with its folder.
fn apache(files: &[(&str, &str)], lines: &str) -> Import {
    let folder = folder();
    for (path, text) in files {
        let file = folder.path().join("site").join(path).join(".htaccess");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let main = format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n<Directory $TOP/site>\n\
         AllowOverride All\nOptions Indexes\nRequire all granted\n</Directory>\n{lines}\n\
         </VirtualHost>\n"
    );
    imported(&folder, Language::Apache, &main).unwrap()
}

/// Where in the written file a text stands.
#[track_caller]
fn at(import: &Import, text: &str) -> usize {
    import.toml.find(text).unwrap_or_else(|| panic!("no {text} in {}", import.toml))
}

#[test]
fn folders_that_nginx_does_not_try_are_neither_listed_nor_an_index_file() {
    let import = nginx("autoindex on; location ^~ /css/ { try_files $uri =404; }");
    assert_has(
        &import,
        "path = \"/css/*\"\nand_pattern = [\"/$\"]\ndeny = [\"all\"]\nstatus = 404",
    );
    let import = nginx("location ^~ /css/ { try_files $uri $uri/ =404; }");
    assert!(!import.toml.contains("and_pattern"), "{}", import.toml);
}

#[test]
fn a_refusal_elsewhere_is_not_for_what_is_mounted() {
    let import =
        nginx("if ($uri ~ ^/data/) { return 404; } location /pics/ { alias $TOP/other/; }");
    let mount = import.toml.split("[[site]]").find(|site| site.contains("path = \"/pics\""));
    assert!(!mount.expect("a mount").contains("deny = [\"all\"]\nstatus = 404\n\n"), "{mount:?}");
}

#[test]
fn apache_lists_no_folder_whose_index_file_would_be_refused() {
    let refuses = "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>";
    let import = apache(&[("uploads", refuses)], "DirectoryIndex index.html index.php");
    assert_has(&import, "path = \"/uploads\"\nindex_listing = false");
    let import = apache(&[("uploads", refuses)], "DirectoryIndex index.html");
    assert!(!import.toml.contains("index_listing = false"), "{}", import.toml);
}

#[test]
fn apache_asks_who_may_see_a_path_before_it_is_rewritten() {
    let front = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} !\\.css$\n\
        RewriteRule ^ index.php [L]";
    for (inner, refusal) in
        [("Require all denied", "path = \"/data\""), ("Redirect gone /data/x", "status = 410")]
    {
        let import = apache(&[("", front), ("data", inner)], "");
        assert!(at(&import, refusal) < at(&import, "rewrite = "), "{inner}: {}", import.toml);
    }
}

#[test]
fn names_with_a_dot_leave_the_folder_of_proofs_open() {
    let refuses =
        |names: &str| format!("<FilesMatch \"{names}\">\nRequire all denied\n</FilesMatch>");
    let import = apache(&[("", &refuses("^\\."))], "");
    assert_has(&import, "and_pattern = ['!^/\\.well-known/']");
    let import = apache(&[("", &refuses("^\\.|\\.txt$"))], "");
    assert!(!import.toml.contains("well-known"), "{}", import.toml);
}

#[test]
fn what_is_refused_around_an_alias_of_apache_is_refused_in_it() {
    let refuses = "<Files evil.php>\nRequire all denied\n</Files>\nRedirect /x /y";
    let import = apache(&[("", refuses), ("img", "")], "Alias /pics $TOP/site/img");
    let mount = import.toml.split("path = \"/pics\"").nth(1).expect("a mount");
    assert!(mount.contains("/evil\\.php(?:/|$)") && !mount.contains("/y"), "{mount}");
}

#[test]
fn folders_that_apache_rewrites_are_not_listed() {
    let front =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]";
    assert_has(&apache(&[("", front)], ""), "index_listing = false");
}

#[test]
fn a_folder_of_caddy_is_guarded_without_its_slash() {
    let guard = "respond /data/* 403\nroot * $TOP/site\nfile_server";
    let import = caddy(&format!("{guard}\ntry_files {{path}} {{path}}/ /index.html"));
    assert_has(&import, "path = \"/data\"\ndeny");
    assert_has(&caddy(guard), "path = \"/data/*\"\ndeny");
}

#[test]
fn apache_gives_no_lifetime_where_it_is_switched_off() {
    let lifetimes = "ExpiresActive On\nExpiresDefault \"access plus 2 weeks\"\n";
    let scripts = "<FilesMatch \\.php$>\nExpiresActive Off\n</FilesMatch>\n";
    let import = apache(&[("", &format!("{lifetimes}{scripts}"))], "");
    let rule = import.toml.split("[[site.rule]]").find(|rule| rule.contains("max-age=1209600"));
    let rule = rule.expect("a rule with a lifetime");
    assert!(rule.contains("'!\\.php") && rule.contains("of_answer = true"), "{rule}");
    let import = apache(&[("", lifetimes), ("admin", "ExpiresActive Off")], "");
    let rule = import.toml.split("[[site.rule]]").find(|rule| rule.contains("max-age=1209600"));
    assert!(rule.is_some_and(|rule| rule.contains("!^/admin(?:/|$)")), "{}", import.toml);
    let import = apache(&[("", &format!("{lifetimes}ExpiresActive Off"))], "");
    assert!(!import.toml.contains("max-age"), "{}", import.toml);
}

#[test]
fn nginx_serves_the_location_with_a_slash_where_two_are_for_one_folder() {
    let shorter = "location /pics { alias $TOP/other; expires 1h; }";
    let longer = "location ^~ /pics/ { alias $TOP/other/; location ~ \\.txt$ { deny all; } }";
    for lines in [format!("{shorter}\n{longer}"), format!("{longer}\n{shorter}")] {
        let import = nginx(&lines);
        assert_eq!(import.toml.matches("path = \"/pics\"").count(), 1, "{}", import.toml);
        let mount = import.toml.split("[[site]]").find(|site| site.contains("path = \"/pics\""));
        assert!(
            mount.is_some_and(|it| it.contains(".txt") && !it.contains("max-age")),
            "{mount:?}"
        );
        assert!(import.notes.iter().any(|note| note.reason.contains("with a slash at its end")));
    }
}

/// Where the first of these stands among the rules with `of_answer`, and that of the other.
fn order(toml: &str, of: [&str; 2]) -> Option<bool> {
    let rules: Vec<&str> =
        toml.split("[[site.rule]]").filter(|rule| rule.contains("of_answer = true")).collect();
    let at = |text: &str| rules.iter().position(|rule| rule.contains(text));
    Some(at(of[0])? < at(of[1])?)
}

#[test]
fn expressions_within_the_main_location_come_before_those_beside_it() {
    let import = nginx(
        "location / { location ~ \\.html$ { expires 1h; } }
        location ~* \\.(?:png|html)$ { expires 7d; }",
    );
    assert_eq!(order(&import.toml, ["max-age=3600", "max-age=604800"]), Some(true));
}

#[test]
fn what_a_server_redirects_has_no_headers_of_a_location() {
    let import = nginx(
        "rewrite ^/blog/(.*)$ /news/$1 permanent;
        location ~* \\.html$ { expires 7d; add_header Cache-Control public; }",
    );
    assert_eq!(order(&import.toml, ["\"^/blog/(.*)$\"", "max-age=604800"]), Some(true));
}
