//! The location that nginx chooses: rules for the paths that it takes, and for no others.

use super::{assert_has, nginx};
use crate::Kind;

#[test]
fn a_fallback_leaves_out_what_other_locations_take() {
    let import = nginx(
        "location = /robots.txt { }\n location ^~ /files/ { }\n location ~ \\.png$ { }\n\
         location ~ \\.php$ { fastcgi_pass unix:/x; }\n\
         location / { try_files $uri $uri/ @front; }\n\
         location @front { rewrite ^/(.*)$ /index.php?q=$1 last; }\n",
    );
    let rule = import.toml.split("[[site.rule]]").find(|rule| rule.contains("?q=$1"));
    let rule = rule.unwrap_or_else(|| panic!("{}", import.toml));
    for part in ["!^/robots\\.txt$", "!^/files/", "!\\.png$", "!\\.php$"] {
        assert!(rule.contains(part), "no {part} in {rule}");
    }
}

#[test]
fn what_clients_cannot_ask_for_answers_for_other_paths() {
    let import = nginx(
        "location / { try_files $uri /index.php; }\n\
         location ~ ^/index\\.php(/|$) { fastcgi_pass unix:/x; internal; }\n",
    );
    assert_has(&import, "internal = true");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn scripts_that_php_is_not_told_of_do_not_run() {
    let own = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    for (params, runs) in
        [("", true), (own, true), ("fastcgi_param QUERY_STRING $query_string;", false)]
    {
        let line = format!("location ~ \\.php$ {{ {params} fastcgi_pass unix:/x; }}");
        let import = nginx(&line);
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert_eq!(is_refused, !runs, "{params}: {:?}", import.notes);
        assert_eq!(import.toml.contains("serve = \"files\""), !runs, "{params}: {}", import.toml);
    }
}
