//! Rewrites of nginx whose targets are not what rules take as they stand.

use super::{assert_has, nginx};
use crate::Kind;

#[test]
fn a_target_may_begin_with_a_group_that_begins_with_a_slash() {
    let import = nginx(
        "if (!-e $request_filename) {\n rewrite /admin$ $scheme://$host$uri/ permanent;\n\
         rewrite ^/[a-z]+(/adm-.*) $1 last;\n }\n",
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert_has(&import, "and_pattern = [\"/admin$\"]\nunless_file = true\nredirect = \"/$1/\"");
    assert_has(&import, "pattern = \"^/[a-z]+/(adm-.*)\"\nunless_file = true\nrewrite = \"/$1\"");
}

#[test]
fn a_target_without_a_slash_is_no_file() {
    let import = nginx("location / { rewrite ^/map.xml$ up/map.xml; try_files $uri /index.php; }");
    let is_refused = |note: &crate::Note| {
        note.kind == Kind::Refused && note.reason.contains("does not begin with a slash")
    };
    assert!(import.notes.iter().any(is_refused), "{:?}", import.notes);
    assert_has(&import, "pattern = \"^/map.xml(?:/|$)\"\ndeny = [\"all\"]\nstatus = 404");
}

#[test]
fn a_group_that_no_expression_has_is_nothing() {
    let line = "location / { try_files $uri /index.php?p=$1; }";
    let import = nginx(line);
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert_has(&import, "rewrite = \"/index.php?p=?\"");
    // An expression around it may have one.
    let import = nginx(&format!("if ($http_x ~ (.*)) {{ set $a 1; }} {line}"));
    assert!(!import.notes.is_empty());
}

#[test]
fn break_of_files_leaves_their_location_to_send_them() {
    for (line, is_translated) in [
        ("rewrite ^/([0-9])-.+\\.jpg$ /img/$1.jpg break;", true),
        ("rewrite ^/[a-z]+/img/(.*)$ /img/$1 break;", true),
        ("rewrite ^/ie/([^/]+)\\.(jpg|png)$ /img/$1.$2 break;", true),
        ("rewrite ^/([0-9])-.+\\.jpg$ /img/$1.php break;", false),
        ("rewrite ^/([0-9])-.+\\.jpg$ /img/$1 break;", false),
        ("rewrite ^/a(.*)$ /img/b$1 break;", false),
    ] {
        let import = nginx(&format!("location ~ \\.(jpg|png)$ {{ {line} }}"));
        assert_eq!(import.notes.is_empty(), is_translated, "{line} {:?}", import.notes);
    }
    let import =
        nginx("location ~ \\.php$ { rewrite ^/a/(.*)$ /b/$1 break; fastcgi_pass unix:/x; }");
    assert!(import.notes.iter().any(|note| note.kind == Kind::Refused), "{:?}", import.notes);
}

#[test]
fn a_file_that_answers_for_others_is_not_kept_for_longer() {
    let tried = "location / { try_files $uri /404.html /index.php; } location ~ \\.html$";
    let import = nginx(&format!("{tried} {{ expires 1d; }}"));
    let is_refused = |note: &crate::Note| note.kind == Kind::Refused;
    assert!(import.notes.iter().any(is_refused), "{:?}", import.notes);
    assert!(!import.toml.contains("rewrite ="), "{}", import.toml);
    let import = nginx(&format!("{tried} {{ add_header X-Own yes; }}"));
    assert!(import.notes.iter().any(|it| it.reason.contains("it has the header fields of")));
    assert_has(&import, "rewrite = \"/404.html?\"");
    let import =
        nginx("location / { try_files $uri /404.html; } location ~ \\.html$ { expires 1d; }");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn what_goes_on_behind_a_script_is_no_file_of_an_earlier_location() {
    let php = "location ~ \\.php$ { fastcgi_pass unix:/x; }";
    let own = "location ~ ^/own\\.php(/|$) { fastcgi_pass unix:/x; }";
    let import = nginx(&format!("{php} location ~ \\.png$ {{ }} {own}"));
    assert_has(&import, "pattern = '\\.png$'\nand_pattern = ['\\.php/']\ndeny = [\"all\"]");
    let import = nginx(&format!("{php} {own} location ~ \\.(png|php)$ {{ }}"));
    assert!(!import.toml.contains("(png|php)$'\nand_pattern = ['\\.php/'"));
}

#[test]
fn a_front_controller_with_path_info_that_is_refused_has_a_note() {
    let import = nginx(
        "location ~ \\.php$ { return 404; }\n\
         location ~ ^/index\\.php(/|$) { fastcgi_pass unix:/x; }\n\
         location / { try_files $uri /index.php$request_uri; }\n",
    );
    let is_said = |note: &crate::Note| note.reason.contains("all pages that this makes");
    assert!(import.notes.iter().any(is_said), "{:?}", import.notes);
}

#[test]
fn what_an_expression_for_scripts_is_also_for_is_no_page_of_the_front_controller() {
    let import = nginx(
        "location / { try_files $uri /index.php; }\n\
         location ~ \\.php$|^/setup.php { fastcgi_pass unix:/x; }\n",
    );
    assert_has(&import, "and_pattern = ['!(?i)\\.php(?:/|$)']\ndeny = [\"all\"]");
}
