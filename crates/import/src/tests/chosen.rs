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
fn locations_without_script_filename_do_not_run() {
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

#[test]
fn scripts_that_no_list_names_run_where_an_expression_says_so() {
    let refuse = "location ~ \\.php$ { deny all; }";
    let import = nginx(&format!("location ~ ^/app/.*\\.php$ {{ fastcgi_pass unix:/x; }} {refuse}"));
    assert_has(&import, "and_pattern = ['!^/app/.*\\.php$']");
    let import = nginx("location / { fastcgi_pass unix:/x; }");
    assert!(import.notes.iter().any(|note| note.kind == Kind::Refused));
    // A front controller that cannot run is not served to any client.
    let import = nginx(&format!("location / {{ try_files $uri /index.php; }} {refuse}"));
    let is_said = |note: &crate::Note| note.reason.contains("all pages that this makes");
    assert!(import.notes.iter().any(is_said), "{:?}", import.notes);
}

#[test]
fn variables_are_followed_as_long_as_their_value_is_known() {
    let flag = "set $bad 0; if ($args ~ evil) { set $bad 1; }";
    let refuse = "if ($bad = 1) { return 403; }";
    let import = nginx(&format!("{flag} {refuse}"));
    assert_has(&import, "query = \"evil\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    let import = nginx("set $maintenance 0; if ($maintenance = 1) { return 403; }");
    assert!(!import.toml.contains("deny"), "{}", import.toml);
    let import = nginx("set $maintenance 1; if ($maintenance = 1) { return 403; }");
    assert!(import.toml.contains("deny = [\"all\"]"), "{}", import.toml);
    // Who knows when the first one holds; so all is refused.
    for lines in [
        format!("set $bad 0; if ($geo) {{ set $bad 1; }} {refuse}"),
        format!("set $bad 0; if ($geo) {{ set $bad 1; rewrite ^/a /b; }} {refuse}"),
        format!("set $bad 0; set $bad $geo; {refuse}"),
    ] {
        let import = nginx(&lines);
        assert!(
            import.toml.contains("[[site.rule]]\ndeny = [\"all\"]"),
            "{lines}: {}",
            import.toml
        );
    }
}

#[test]
fn what_nginx_gives_to_another_location_is_not_in_a_folder_that_lies_elsewhere() {
    let mount = "location /pics { alias $TOP/other; }";
    for (lines, part, is_said) in [
        ("location ~* \\.png$ { expires 1h; }", "pattern = '(?i)\\.png$'\ndeny", false),
        ("location ~* \\.png$ { try_files $uri /index.php; }", "(?i)\\.png$", true),
        ("location = /pics/a.txt { expires 1h; }", "pattern = '^/a\\.txt$'\ndeny", false),
        ("location /pics/deep/ { }", "pattern = \"^/deep/\"\ndeny", false),
        ("location ~ ^/pics { expires 1h; }", "\n[[site.rule]]\ndeny", true),
    ] {
        let import = nginx(&format!("{mount} {lines}"));
        let (_, own) = import.toml.split_once("path = \"/pics\"").unwrap();
        assert!(own.contains(part), "{lines}: no {part} in {own}");
        let refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert_eq!(refused, is_said, "{lines}: {:?}", import.notes);
    }
    let import = nginx(&format!(
        "{} location ~ \\.png$ {{ }}",
        mount.replace("location /", "location ^~ /")
    ));
    assert!(!import.toml.contains("\\.png$'\ndeny"), "{}", import.toml);
}

#[test]
fn only_scripts_with_a_location_for_it_get_what_follows_their_names() {
    let import = nginx(
        "location ~ ^/index\\.php(/|$) { fastcgi_pass x; } location ~ \\.php$ { fastcgi_pass x; }",
    );
    assert_has(&import, "pattern = '\\.php/'\nand_pattern = ['!^/index\\.php(?:/|$)']\ndeny");
    let import = nginx("location ~ \\.php(/|$) { fastcgi_pass x; }");
    assert!(!import.toml.contains("\\.php/'"), "{}", import.toml);
}

#[test]
fn folders_with_other_index_files_than_the_site_are_refused() {
    let import = nginx("location / { index index.php; } location /a/ { }");
    assert!(import.toml.contains("path = \"/a/*\"\nand_pattern = [\"/$\"]\ndeny"));
    assert!(import.notes.iter().any(|note| note.reason.contains("is not that of the whole site")));
    let import = nginx("index index.php; location /a/ { index index.php; }");
    assert!(!import.toml.contains("deny"), "{}", import.toml);
}

#[test]
fn what_a_client_sent_is_refused_where_a_wildcard_reaches_into_the_query() {
    let import = nginx("if ($request_uri ~ \"/up/.*\\.php\") { return 403; }");
    for part in ["and_pattern = ['/up/.*\\.php']", "query = '/up/.*\\.php'"] {
        assert_has(&import, part);
    }
    assert_has(&import, "and_pattern = [\"/up/\"]");
    // Two wildcards may both be more than a path.
    let import = nginx("if ($request_uri ~ \"a.*b.*c\") { return 403; }");
    assert_has(&import, "[[site.rule]]\ndeny = [\"all\"]");
}
