//! Locations within locations, with names, and those that nginx asks for a file first.

use super::{assert_has, nginx};

const PHP: &str = "fastcgi_pass unix:/x;";

#[test]
fn what_goes_on_behind_a_script_is_no_file_unless_it_was_taken_off() {
    let own = "location / { try_files $uri /index.php/$uri; }";
    let behind = "pattern = '\\.php/'\nand_pattern = ['\\.php(/|$)']\ndeny";
    for (asks, split, refused) in [
        ("try_files $uri =404;", "^(.+?\\.php)(/.*)$", Some(behind)),
        ("try_files $fastcgi_script_name =404;", "^(.+?\\.php)(/.*)$", None),
        ("if (!-f $document_root$fastcgi_script_name) { return 404; }", "^(.+\\.php)(/.*)$", None),
        ("if (!-f $request_filename) { return 404; }", "^(.+\\.php)(/.*)$", Some(behind)),
        ("try_files $fastcgi_script_name =404;", "", Some(behind)),
        (
            "try_files $fastcgi_script_name =404;",
            "^(.+\\.php)(/.+)$",
            Some("pattern = '\\.php/+$'\nand_pattern = ['\\.php(/|$)']\ndeny"),
        ),
    ] {
        let split = match split {
            "" => String::new(),
            split => format!("fastcgi_split_path_info {split};"),
        };
        let import = nginx(&format!("{own} location ~ \\.php(/|$) {{ {split} {asks} {PHP} }}"));
        match refused {
            Some(part) => assert_has(&import, part),
            None => assert!(!import.toml.contains("deny"), "{asks}: {}", import.toml),
        }
    }
}

#[test]
fn a_location_leaves_out_the_paths_of_those_within_it() {
    let import = nginx(
        "location ^~ /meta {\n location = /meta/a { return 301 /b; }\n\
         location /meta/files/ { try_files $uri =404; }\n return 301 /c;\n }",
    );
    let outer = import.toml.split("[[site.rule]]").find(|rule| rule.contains("redirect = \"/c"));
    let outer = outer.unwrap_or_else(|| panic!("{}", import.toml));
    for part in ["!^/meta/a$", "!^/meta/files/"] {
        assert!(outer.contains(part), "no {part} in {outer}");
    }
    assert_has(&import, "pattern = \"^/meta/a$\"\nredirect = \"/b");
    assert_has(&import, "path = \"/meta/files/*\"\nserve = \"existing\"");
}

#[test]
fn a_location_with_a_name_is_that_of_the_whole_server() {
    let named = "location @front { rewrite ^/(.*)$ /index.php?q=$1 last; break; }";
    let inner = "location ~ \\.png$ { try_files $uri @front; }";
    let import = nginx(&format!("location / {{ {inner} }} {named}"));
    assert_has(&import, "rewrite = \"/index.php?q=$1\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // It may also answer for scripts that are not there.
    let script = format!(
        "location @all {{ {PHP} fastcgi_param SCRIPT_FILENAME $document_root/404.php; \
            fastcgi_param SCRIPT_NAME /404.php; }}"
    );
    let import = nginx(&format!("location ~ \\.php$ {{ try_files $uri @all; {PHP} }} {script}"));
    assert_has(&import, "unless_file = true\nrewrite = \"/404.php\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn try_files_of_a_server_counts_where_no_location_is_for_all() {
    let own = format!("try_files $uri $uri/ /index.php?$args; location ~ \\.php$ {{ {PHP} }}");
    assert_has(&nginx(&own), "front_controller = \"index.php\"");
    let import = nginx(&format!("{own} location / {{ }}"));
    assert!(!import.toml.contains("front_controller = \"index"), "{}", import.toml);
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn names_that_only_begin_like_that_of_a_script_are_refused() {
    let import = nginx(&format!("location /index.php {{ {PHP} }}"));
    assert_has(&import, "pattern = '^/index\\.php[^/]'\ndeny");
}

#[test]
fn scripts_that_a_location_names_are_404_if_they_are_missing() {
    let import = nginx(&format!(
        "location / {{ try_files $uri $uri/ /index.php?$args; }} \
         location ~ ^/(index|setup)\\.php$ {{ {PHP} }}"
    ));
    assert_has(&import, "path = \"/setup.php\"\nserve = \"existing\"");
}

#[test]
fn what_is_no_folder_is_a_file_or_missing() {
    let import = nginx("if (!-d $request_filename) { rewrite ^/([^.]+)/?$ /index.php?c=$1 last; }");
    let rule = |more: &str| format!("{more}\nrewrite = \"/index.php?c=$1\"");
    assert_has(&import, &rule("unless_file = true"));
    assert_has(&import, &rule("if_file = true\nfolders_are_files = false"));
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn a_rewrite_without_last_is_the_last_one_if_no_other_is_for_its_target() {
    let later = "rewrite ^/b/(.*)$ /index.php?b=$1;";
    let import = nginx(&format!("location / {{ rewrite ^/a/(.*)$ /index.php?a=$1; {later} }}"));
    assert_has(&import, "rewrite = \"/index.php?a=$1\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    for to in ["/b/x", "/$1"] {
        let import = nginx(&format!("location / {{ rewrite ^/a/(.*)$ {to}; {later} }}"));
        assert!(import.notes.iter().any(|note| note.reason.contains("later rewrites")), "{to}");
    }
}

#[test]
fn a_page_of_error_page_answers_for_what_try_files_misses() {
    let page = "error_page 404 = /index.php;";
    let import = nginx(&format!("{page} location ~ \\.css$ {{ try_files $uri =404; }}"));
    assert_has(&import, "pattern = '\\.css$'\nunless_file = true");
    assert!(!import.toml.contains("serve = \"existing\""), "{}", import.toml);
    // What is refused stays so.
    let import = nginx(&format!("{page} if ($uri ~ \"^/data/\") {{ return 404; }}"));
    assert_has(&import, "and_pattern = [\"^/data/\"]\ndeny");
    let is_said = |note: &crate::Note| note.reason.contains("with `rewrite` in place of");
    assert!(import.notes.iter().any(is_said), "{:?}", import.notes);
}

#[test]
fn notes_say_what_to_do_instead() {
    let import = nginx("location = /_.gif { empty_gif; }");
    assert!(import.notes[0].reason.contains("a GIF of one pixel"), "{:?}", import.notes);
    assert_has(&import, "path = \"/_.gif\"\ndeny");
}

#[test]
fn an_expression_within_location_slash_runs_its_scripts_before_a_refusal_of_all() {
    let import = nginx(&format!(
        "location / {{ try_files $uri /index.php; location ~ ^/(index|api)\\.php$ {{ {PHP} }} }} \
         location ~ \\.php$ {{ return 404; }}"
    ));
    assert_has(&import, "except = [\"/index.php\", \"/api.php\"]");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

#[test]
fn a_rewrite_names_the_path_and_groups_of_its_location() {
    let import = nginx("location ~ -p-(?<id>[0-9]+)\\.html$ { rewrite ^ /product.php?id=$id; }");
    assert_has(&import, "pattern = '-p-(?<id>[0-9]+)\\.html$'\nrewrite = \"/product.php?id=$1\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    let front = "location / { try_files $uri @front; } location @front";
    let import = nginx(&format!("{front} {{ rewrite ^ /index.php?q=$uri last; }}"));
    assert_has(&import, "rewrite = \"/index.php?q=/$1\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // The query is there twice for nginx.
    let import = nginx(&format!("{front} {{ rewrite ^ /index.php?/$request_uri last; }}"));
    assert_has(&import, "rewrite = \"/index.php?//$1\"");
    assert!(import.notes.iter().any(|note| note.reason.contains("behind `&`")));
}

#[test]
fn missing_scripts_in_upper_case_are_404_where_an_expression_is_for_them() {
    let front = "location / { try_files $uri $uri/ /index.php?$args; }";
    for (kind, is_there) in [("~*", true), ("~", false)] {
        let import = nginx(&format!("{front} location {kind} \\.php$ {{ {PHP} }}"));
        let has = import.toml.contains("pattern = '(?i)\\.php$'\nserve = \"existing\"");
        assert_eq!(has, is_there, "{}", import.toml);
    }
}

#[test]
fn a_script_with_a_location_of_its_own_runs_before_a_refusal_by_expression() {
    let tool = format!("location ~ ^/(tool|x\\.phar)\\.php(/|$) {{ {PHP} }}");
    let refuse = "location ~ \\.phar(\\.|/|$) { deny all; }";
    assert_has(&nginx(&format!("{tool} {refuse}")), "\"/x.phar.php\"");
    // nginx asks expressions in their order.
    assert!(!nginx(&format!("{refuse} {tool}")).toml.contains("except"));
    let plain = nginx(&format!("{tool} location ~ /\\.ht {{ deny all; }}"));
    assert!(!plain.toml.contains("except"), "{}", plain.toml);
}

#[test]
fn what_authorities_ask_for_is_not_refused_with_hidden_names() {
    let open = "location ^~ /.well-known { try_files $uri =404; }";
    let refuse = "location ~ ^/(?:\\.|console) { return 404; }";
    assert_has(&nginx(&format!("{open} {refuse}")), "and_pattern = ['!^/\\.well\\-known']\ndeny");
    // Expressions are asked for what a prefix alone has.
    let import = nginx(&format!("{} {refuse}", open.replace("^~ ", "")));
    assert!(!import.toml.contains("!^/\\.well\\-known']\ndeny"), "{}", import.toml);
}
