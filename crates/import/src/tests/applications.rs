//! What configurations of PHP applications say in ways of their own.

use super::{assert_has, check, folder, imported, nginx};
use crate::{Import, Kind, Language};

/// Imports a whole configuration.
#[track_caller]
fn whole(text: &str) -> Import {
    let folder = folder();
    let import = imported(&folder, Language::Nginx, text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// The rules that name all of these texts.
fn rules<'a>(import: &'a Import, parts: &[&str]) -> Vec<&'a str> {
    let rules = import.toml.split("[[site.rule]]");
    rules.filter(|rule| parts.iter().all(|part| rule.contains(part))).collect()
}

const PHP: &str = "location ~ \\.php(/|$) { fastcgi_pass unix:/x; }";

#[test]
fn a_script_that_index_names_last_answers_for_folders() {
    let site = |index: &str, fallback: &str| {
        nginx(&format!(
            "index index.php {index}; location / {{ try_files $uri $uri/ {fallback}; }} {PHP}"
        ))
    };
    let import = site("/index.php$request_uri", "/index.php$request_uri");
    assert_has(&import, "front_controller = \"index.php\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // What answers for missing paths is another script.
    let import = site("/other.php", "/index.php$request_uri");
    assert_has(&import, "front_controller = \"none\"");
    assert!(!import.notes.is_empty());
}

#[test]
fn a_header_with_a_map_is_that_of_requests_without_its_source() {
    let import = |map: &str| {
        whole(&format!(
            "http {{ map {map}\n server {{ listen 80; server_name a.test; root $TOP/site; \
             location ~ \\.css$ {{ add_header Cache-Control \"public, $more\"; }} }} }}"
        ))
    };
    for (map, value) in [
        ("$arg_v $more { default immutable; \"\" \"\"; }", "public"),
        ("$arg_v $more { default max-age=9; 1 immutable; }", "public, max-age=9"),
        ("$http_origin $more { default a; ~^http b; ~^$ max-age=7; }", "public, max-age=7"),
    ] {
        let import = import(map);
        assert_has(&import, &format!("Cache-Control = \"{value}\""));
        let note = import.notes.iter().find(|note| note.kind == Kind::Differs).unwrap();
        assert!(note.reason.contains(value), "{note:?}");
    }
    // Each request has a path, and what a map makes of the rest is not known.
    for map in ["$uri $more { default a; }", "$arg_v $more { default $uri; a b; }"] {
        let import = import(&map.replace("default a;", "default a; /x b;"));
        assert!(!import.toml.contains("add_headers"), "{}", import.toml);
    }
}

#[test]
fn redirects_name_the_host_of_their_site() {
    let import = nginx(
        "location = /old { return 301 $scheme://$host/new; }\n\
         location = /dav { rewrite ^ https://$server_name/remote permanent; }\n\
         if ($args ~ do=login) { rewrite ^ https://$host$request_uri? redirect; }",
    );
    assert_has(&import, "redirect = \"/new?\"");
    assert_has(&import, "redirect = \"https://a.test/remote\"");
    let [rule] = rules(&import, &["query = \"do=login\""])[..] else { panic!("{}", import.toml) };
    assert!(rule.contains("redirect = \"https://a.test/$1\""), "{rule}");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // One of several names is not known.
    let import = nginx("server_name b.test; location = /old { return 301 https://$host/new; }");
    assert!(import.notes.iter().any(|note| note.kind == Kind::Refused), "{:?}", import.notes);
}

#[test]
fn a_site_that_only_redirects_needs_no_documents() {
    let sites = |lines: &str| {
        whole(&format!(
            "http {{ server {{ listen 80; server_name b.test; root $TOP/site; }}\n\
             server {{ listen 80; server_name a.test; {lines} }} }}"
        ))
    };
    let import = sites("rewrite ^ https://b.test permanent;");
    assert_has(&import, "redirect = \"https://b.test/\"");
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // Nothing of the other site's documents is served: neither by itself nor by a rewrite.
    let import = sites("location /a/ { return 301 https://b.test/x; } rewrite ^/b$ /deep/a.txt;");
    assert_has(&import, "redirect = \"https://b.test/x?\"");
    assert!(!import.toml.contains("rewrite"), "{}", import.toml);
    let is_said = |note: &crate::Note| note.reason.contains("no document root");
    assert!(import.notes.iter().any(is_said), "{:?}", import.notes);
    let own = import.toml.split("[[site]]").find(|site| site.contains("a.test")).unwrap();
    let last = own.rsplit("[[site.rule]]").next().unwrap_or_default();
    assert!(last.contains("deny = [\"all\"]") && !last.contains("path"), "{own}");
}

#[test]
fn index_files_that_begin_like_those_of_the_site_close_nothing() {
    let import = nginx(
        "index index.php index.html; location / { index index.php; }\n\
         location /api/ { } location /docs/ { index index.html; }",
    );
    assert!(rules(&import, &["/api/", "deny"]).is_empty(), "{}", import.toml);
    assert_eq!(rules(&import, &["/docs/", "deny"]).len(), 1, "{}", import.toml);
    let note = import.notes.iter().find(|note| note.line.contains("/api/")).unwrap();
    assert!(note.reason.contains("index.html"), "{note:?}");
}

#[test]
fn files_that_a_location_sends_first_are_not_refused_by_a_later_one() {
    let later = "location ~ ^/plugins { deny all; }";
    let import = nginx(&format!("location ~ \\.(png|js)$ {{ expires 1h; }} {later} {PHP}"));
    let [sent, behind] = rules(&import, &["^/plugins", "deny"])[..] else {
        panic!("{}", import.toml)
    };
    assert!(sent.contains("!\\.(png|js)$"), "{sent}");
    // The script of `/plugins/a.php/b.png` is refused as before.
    assert!(behind.contains("'\\.php/'") && !behind.contains("png"), "{behind}");
    for first in [
        // It is asked later.
        "",
        "location ~ \\.(png|js)$ { deny 192.0.2.1; }",
        "location ~ \\.(png|php)$ { expires 1h; }",
        "location ~ \\.(png|js)$ { try_files $uri /index.php; }",
    ] {
        let import = nginx(&format!("{first} {later} location ~ \\.(png|js)$ {{ expires 1h; }}"));
        let found = rules(&import, &["^/plugins", "deny"]);
        assert!(found.iter().all(|rule| !rule.contains('!')), "{first}: {found:?}");
    }
}

#[test]
fn scripts_of_a_folder_elsewhere_are_its_own() {
    let import = nginx(
        "location /setup { alias $TOP/other;\n\
           location ~ ^/setup/index.php { fastcgi_pass unix:/x; }\n\
           location ~ ^/setup/(?!pub/). { deny all; } }\n\
         location ~ (index|get)\\.php$ { fastcgi_pass unix:/x; }",
    );
    let (_, mount) = import.toml.split_once("path = \"/setup\"").unwrap();
    assert!(mount.contains("scripts = [\"/index.php\"]"), "{mount}");
    assert!(mount.contains("except = [\"/index.php\", \"/index.php/*\"]"), "{mount}");
    // The site's own list is not for it.
    assert!(!mount.contains("pattern = '\\.php$'"), "{mount}");
}

#[test]
fn how_long_files_are_kept_may_depend_on_a_variable_with_one_value() {
    let site = |mode: &str| {
        nginx(&format!(
            "set $mode {mode}; location /static/ {{ if ($mode = \"live\") {{ expires +1h; }} }}"
        ))
    };
    assert_has(&site("live"), "cache_control = \"max-age=3600\"");
    assert!(!site("test").toml.contains("cache_control"));
}

#[test]
fn a_part_of_the_path_is_handed_on_to_scripts() {
    let sets = "set $more \"\";\n\
        if ($request_uri ~ \"^/api(/[^\\?]+)\") { set $more $1; }\n\
        if ($request_uri ~ \"^/.*\\.php(/[^\\?]+)\") { set $more $1; }\n";
    let rest = "location ~ ^/api/ { try_files $uri /index.php?$args; }\n\
        location ~ \\.php$ { fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
        fastcgi_param PATH_INFO $more; fastcgi_pass unix:/x; }";
    let import = nginx(&format!("{sets} {rest}"));
    let longer = rules(&import, &["rewrite = \"/index.php$1\"", "unless_file"]);
    // The last one that fits sets it.
    assert!(longer[0].contains("\\.php(/[^?]+)") || longer[0].contains("\\.php(/[^\\?]+)"));
    assert!(longer[1].contains("^/api(/"), "{}", longer[1]);
    assert!(
        rules(&import, &["pattern = '\\.php/'", "deny"])[0].contains("!^/index\\.php"),
        "{}",
        import.toml
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    // What clients ask for behind its name is no path of it, unless a location says so.
    assert_eq!(rules(&import, &["^/index\\.php/", "internal = true"]).len(), 1);
    let own = "location ~ ^/index.php/ { try_files $uri /index.php; }";
    let import = nginx(&format!("{sets} {own} {rest}"));
    assert_eq!(rules(&import, &["serve = \"files\"", "!^/index\\.php/"]).len(), 1);
    // Nothing is known of another variable.
    let import = nginx(rest);
    assert!(import.notes.iter().any(|note| note.line.contains("PATH_INFO")), "{:?}", import.notes);
}
