//! What answers for folders of nginx: index files of their own location, or what takes them for
//! paths without a file.

use super::{assert_has, caddy, nginx};
use crate::Kind;

/// The rules that take folders for paths without a file.
fn without_folders(lines: &str) -> usize {
    let import = nginx(lines);
    let folders = import.toml.matches("folders_are_files = false").count();
    let rules = import.toml.split("[[site.rule]]");
    let is_right =
        |rule: &&str| rule.contains("unless_file = true") && rule.contains("folders_are_files");
    assert_eq!(rules.filter(is_right).count(), folders, "{}", import.toml);
    folders
}

#[test]
fn folders_are_no_files_where_nginx_asks_for_files_alone() {
    for (lines, expected) in [
        ("location / { if (!-f $request_filename) { rewrite ^ /index.php last; } }", 1),
        ("location / { if (!-e $request_filename) { rewrite ^ /index.php last; } }", 0),
        ("location / { try_files $uri /index.php?$args; }", 1),
        ("location / { try_files $uri $uri/ /index.php?$args; }", 0),
        ("location /a { try_files $uri /deep/a.txt; }", 1),
        ("location /a { try_files $uri $uri/ /deep/a.txt; }", 0),
        (
            "location / { try_files $uri @front; } \
             location @front { rewrite ^/(.*)$ /index.php?q=$1 last; }",
            1,
        ),
        (
            "set $go 0; if (!-f $request_filename) { set $go 1; } \
             if ($go = 1) { rewrite ^/(.*)$ /index.php?q=$1 last; }",
            1,
        ),
    ] {
        let lines = format!("{lines} location ~ \\.php$ {{ fastcgi_pass unix:/php; }}");
        assert_eq!(without_folders(&lines), expected, "{lines}");
    }
}

#[test]
fn folders_are_refused_where_a_location_has_nothing_for_them() {
    for line in [
        "location ~ ^/deep/ { try_files $uri =404; }",
        "location ~ ^/deep/ { try_files $uri @gone; } location @gone { return 410; }",
        "location /deep/ { try_files $uri $name; }",
    ] {
        let import = nginx(line);
        let mut rules = import.toml.split("[[site.rule]]");
        let is_refused =
            |rule: &str| rule.contains("deep/") && rule.contains("\"/$\"") && rule.contains("deny");
        assert!(rules.any(is_refused), "{line}: {}", import.toml);
    }
}

#[test]
fn index_files_are_those_of_one_location() {
    let main = "index index.php; location / { index guide.html; }";
    for other in [
        "location /deep { }",
        "location ~ ^/deep/ { }",
        "location = /deep/ { }",
        "location /deep { location ~ /a/ { } }",
        "location /deep { index other.html; }",
    ] {
        let import = nginx(&format!("{main} {other}"));
        assert_has(&import, "index = [\"guide.html\"]");
        let is_noted =
            |note: &&crate::Note| note.kind == Kind::Refused && note.reason.contains("index file");
        assert!(import.notes.iter().any(|note| is_noted(&note)), "{other}: {:?}", import.notes);
        assert!(import.toml.contains("/$"), "{other}: {}", import.toml);
    }
    for other in [
        "location ~ \\.css$ { }",
        "location = /deep { }",
        "location /deep { index guide.html; }",
        "location /deep { try_files $uri /index.php; }",
    ] {
        let import = nginx(&format!("{main} {other}"));
        assert!(!import.notes.iter().any(|note| note.kind == Kind::Refused), "{:?}", import.notes);
    }
    let import = nginx("location / { index guide.html; } location /m { alias $TOP/other; }");
    let mount = import.toml.split("path = \"/m\"").nth(1).unwrap();
    assert!(mount.contains("index = [\"index.html\"]"), "{}", import.toml);
}

/// `/other.php/a.php` is for the location of all scripts, if that comes first.
#[test]
fn a_path_behind_a_script_is_not_run_where_only_files_are() {
    let other = "location ~ ^/other\\.php(/|$) { fastcgi_pass unix:/php; }";
    for (lines, expected) in [
        ("try_files $uri =404;", true),
        ("if (!-f $document_root$fastcgi_script_name) { return 404; }", true),
        ("", false),
    ] {
        let import =
            nginx(&format!("location ~ \\.php$ {{ {lines} fastcgi_pass unix:/php; }} {other}"));
        let mut rules = import.toml.split("[[site.rule]]");
        let is_refused = |rule: &str| {
            rule.contains("pattern = '\\.php/'")
                && rule.contains("'\\.php$'")
                && rule.contains("status = 404")
        };
        assert_eq!(rules.any(is_refused), expected, "{lines}: {}", import.toml);
    }
    let fallback = "location ~ \\.php$ { try_files $uri /index.php; fastcgi_pass unix:/php; }";
    assert_eq!(without_folders(&format!("{fallback} {other}")), 1);
}

#[test]
fn a_note_says_that_missing_scripts_are_404_if_responses_are_intercepted() {
    let lines = "error_page 404 = /index.php; location ~ \\.php$ { fastcgi_pass unix:/php; }";
    assert_eq!(nginx(lines).notes.len(), 0);
    let import = nginx(&format!("fastcgi_intercept_errors on; {lines}"));
    let is_noted =
        |note: &crate::Note| note.reason.starts_with("scripts that do not exist are 404");
    assert!(import.notes.iter().any(is_noted), "{:?}", import.notes);
    assert_eq!(without_folders(&format!("fastcgi_intercept_errors on; {lines}")), 0);
}

#[test]
fn a_folder_is_no_file_for_caddy_unless_its_slash_is_named() {
    for (files, is_file) in
        [("{path} /index.php?p={path}", false), ("{path} {path}/ /a?p={path}", true)]
    {
        let import = caddy(&format!("file_server\nphp_fastcgi unix//x\ntry_files {files}"));
        let rule = import.toml.split("[[site.rule]]").find(|it| it.contains("unless_file = true"));
        let rule = rule.unwrap_or_else(|| panic!("{}", import.toml));
        assert_eq!(!rule.contains("folders_are_files = false"), is_file, "{rule}");
    }
}
