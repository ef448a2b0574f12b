//! Where folders are listed: no more than the other server lists.

use super::{assert_has, caddy, folder, imported, nginx};
use crate::{Import, Language};

/// What the written file says of lists: of the site, and of rules with their paths, sorted.
fn listed(import: &Import) -> Vec<String> {
    let mut listed = Vec::new();
    let mut scope = String::new();
    for line in import.toml.lines() {
        match line.split_once(" = ") {
            None => scope.clear(),
            Some(("path" | "pattern", text)) => {
                scope = format!("{} ", text.trim_matches(['"', '\'']))
            }
            Some(("index_listing", text)) => listed.push(format!("{scope}{text}")),
            Some(_) => {}
        }
    }
    listed.sort();
    listed
}

#[track_caller]
fn check_all(rows: &[(&str, &[&str], usize)], import: impl Fn(&str) -> Import) {
    for (lines, expected, notes) in rows {
        let import = import(lines);
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(listed(&import), expected, "{lines}: {}", import.toml);
        assert_eq!(import.notes.len(), *notes, "{lines}: {:?}", import.notes);
    }
}

#[test]
fn locations_of_nginx_list_what_they_listed() {
    let rows: &[(&str, &[&str], usize)] = &[
        ("autoindex off;", &[], 0),
        ("autoindex on;", &["true"], 0),
        ("location / { autoindex on; }", &["true"], 0),
        ("location /a/ { autoindex on; }", &["/a/* true"], 0),
        ("location ~ ^/a/ { autoindex on; }", &["^/a/ true"], 0),
        // A location has not what one beside it has.
        ("location / { autoindex on; } location /a/ { }", &["/a/* false", "true"], 0),
        ("location /a/ { autoindex on; } location / { }", &["/a/* true"], 0),
        (
            "location /a/ { autoindex on; } location /a/b/ { } location /c/ { }",
            &["/a/* true", "/a/b/* false"],
            0,
        ),
        (
            "location /a/ { autoindex on; location /a/b/ { autoindex off; } }",
            &["/a/b/* false", "/a/* true"],
            0,
        ),
        (
            "autoindex on; location /a/ { autoindex off; } location ~ \\.css$ { autoindex off; }",
            &["true", "/a/* false"],
            0,
        ),
        ("location /a/ { autoindex on; } location ~ ^/a/b { }", &["^/a/b false", "/a/* true"], 0),
        ("autoindex on; autoindex_exact_size off; autoindex_localtime off;", &["true"], 0),
        ("autoindex on; autoindex_format json; autoindex_localtime on;", &["true"], 2),
        // The front controller comes first.
        ("autoindex on; location / { try_files $uri $uri/ /index.php?$args; }", &["true"], 1),
        (
            "location /a/ { autoindex on; } location / { try_files $uri $uri/ /index.php?$args; }",
            &["/a/* true"],
            0,
        ),
    ];
    check_all(rows, nginx);
    let import = nginx("location /docs/ { alias $TOP/other/; autoindex on; }");
    let mount = import.toml.split("path = \"/docs\"").nth(1).unwrap();
    assert!(mount.contains("index_listing = true"), "{}", import.toml);
}

/// Imports a site of Apache with these lines beside its root.
fn apache(lines: &str) -> Import {
    let folder = folder();
    let text = format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n{lines}\n</VirtualHost>"
    );
    let import = imported(&folder, Language::Apache, &text).unwrap();
    super::check(&folder, &import.toml).unwrap();
    import
}

#[test]
fn options_of_apache_list_what_they_listed() {
    check_all(
        &[
            ("Options Indexes", &["true"], 0),
            ("Options -Indexes", &[], 0),
            ("<Directory $TOP/site>\nOptions Indexes FollowSymLinks\n</Directory>", &["true"], 0),
            ("<Directory $TOP/site>\nOptions All\n</Directory>", &["true"], 0),
            ("<Directory $TOP/site/deep>\nOptions +Indexes\n</Directory>", &["/deep true"], 0),
            (
                "Options Indexes\n<Directory $TOP/site/deep>\nOptions FollowSymLinks\n</Directory>",
                &["true", "/deep false"],
                0,
            ),
            // The innermost folder decides, wherever it stands.
            (
                "<Directory $TOP/site>\nOptions -Indexes\n</Directory>\n\
                 <Directory />\nOptions +Indexes\n</Directory>",
                &[],
                0,
            ),
            ("Options Indexes\nIndexIgnore *.bak", &["true"], 1),
            ("Options Indexes\nIndexOptions FancyIndexing\nAddIcon /a.png .a", &["true"], 2),
        ],
        apache,
    );
}

#[test]
fn browse_of_caddy_lists_what_it_listed() {
    check_all(
        &[
            ("file_server", &[], 0),
            ("file_server browse", &["true"], 0),
            ("file_server {\nbrowse\n}", &["true"], 0),
            ("file_server {\nbrowse a.html\n}", &["true"], 1),
            ("file_server {\nbrowse {\nsort name\n}\n}", &["true"], 1),
            ("file_server browse\nhandle /a/* {\nfile_server\n}", &["true", "/a/* false"], 0),
        ],
        caddy,
    );
    let import = caddy("file_server\nhandle /a/* {\nfile_server browse\n}");
    assert_has(&import, "index_listing = true");
    assert_eq!(listed(&import).len(), 1, "{}", import.toml);
    let import = caddy("file_server\nhandle_path /m/* {\nroot * $TOP/other\nfile_server browse\n}");
    let mount = import.toml.split("path = \"/m\"").nth(1).unwrap();
    assert!(mount.contains("index_listing = true"), "{}", import.toml);
}
