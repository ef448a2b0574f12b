//! What is valid, and perhaps not meant so.

use super::*;

fn warned(text: &str) -> Vec<String> {
    let place = Place::with(&["index.php", "m/index.php", "a.lua", "b.lua", "users"]);
    let server = place.load(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let root = format!("{}/", place.directory.path().display());
    warnings(&server).iter().map(|warning| warning.replace(&root, "")).collect()
}

#[test]
fn a_scheme_that_is_not_believed_is_named() {
    let listen = "listen = '127.0.0.1:8081'\n";
    for (text, expected) in [
        ("", 0),
        ("trusted_proxies = 'private'", 1),
        ("trusted_proxies = 'private'\ntrusted_headers = 'x-forwarded-for'", 0),
        ("trusted_proxies = 'private'\ntrusted_headers = []", 0),
        ("trusted_proxies = 'private'\ntrusted_headers = 'forwarded'", 0),
        ("trusted_proxies = 'private'\nproxy_protocol = '127.0.0.1:8081'", 0),
    ] {
        let found = warned(&format!("{listen}{text}\n"));
        assert_eq!(found.len(), expected, "{text}: {found:?}");
        let advice = "write trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]";
        assert!(found.iter().all(|warning| warning.contains(advice)), "{found:?}");
    }
}

#[test]
fn scripts_of_a_site_that_a_route_replaces_are_named() {
    for (site, route, expected) in [
        ("lua_raw_url = 'a.lua'", "", &[][..]),
        ("lua_raw_url = 'a.lua'", "lua_response = 'b.lua'", &[]),
        ("", "lua_raw_url = 'b.lua'", &[]),
        ("lua_raw_url = 'a.lua'", "lua_raw_url = ['b.lua', 'a.lua']", &[]),
        (
            "lua_raw_url = ['a.lua', 'b.lua']",
            "lua_raw_url = 'b.lua'",
            &[
                "site default: the route /r has its own lua_raw_url, so these scripts of the site do \
                not run there: a.lua",
            ],
        ),
        (
            "lua_raw_url = 'a.lua'\nlua_physical = 'a.lua'\nlua_content = 'a.lua'\n\
                lua_response = 'a.lua'\nlua_store = ['a.lua']\ncache = true",
            "lua_physical = 'b.lua'\nlua_content = 'b.lua'\nlua_response = 'b.lua'\n\
                lua_store = 'b.lua'",
            &["lua_physical", "lua_content", "lua_response", "lua_store"],
        ),
    ] {
        let text = format!(
            "[[site]]\n{site}\n[[site.route]]\npath = '/r'\ncompression = false\n{route}\n"
        );
        let found = warned(&text);
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        for (warning, part) in found.iter().zip(expected) {
            assert!(warning.contains(part), "{text}: {warning}");
        }
    }
}

#[test]
fn rules_that_do_not_hold_in_a_mounted_site_are_named() {
    let headers = "set_headers = { X-A = 'b' }";
    for (rule, own, expected) in [
        ("deny = 'all'", "", Some("allow or deny")),
        ("allow = '10.0.0.0/8'", "", Some("allow or deny")),
        ("auth_users = 'users'", "", Some("auth_users")),
        (headers, "", Some("headers")),
        ("auth_users = 'users'\nset_headers = { X-A = 'b' }", "", Some("auth_users, headers")),
        // A rule for the path of what is mounted never holds.
        ("path = '/m'\ndeny = 'all'", "", Some("allow or deny")),
        ("path = '/m*'\ndeny = 'all'", "", Some("allow or deny")),
        ("path = '/'\ndeny = 'all'", "", Some("allow or deny")),
        // It says the same itself, or at least of the same.
        ("deny = 'all'", "deny = 'all'", None),
        ("deny = 'all'", "path = '/x'\ndeny = 'all'", Some("allow or deny")),
        (headers, headers, None),
        ("deny = '10.0.0.1'", headers, Some("allow or deny")),
        // Others are for a part of the site.
        ("path = '/other'\ndeny = 'all'", "", None),
        ("path = '/m/x'\ndeny = 'all'", "", None),
        ("pattern = '^/m'\ndeny = 'all'", "", None),
        ("extension = '.php'\ndeny = 'all'", "", None),
        ("serve = 'files'", "", None),
    ] {
        let table = |rule: &str| match rule {
            "" => String::new(),
            rule => format!("[[site.rule]]\n{rule}\n"),
        };
        let text = format!(
            "[[site]]\nroot = '.'\n{}[[site]]\npath = '/m'\nroot = 'm'\n{}",
            table(rule),
            table(own)
        );
        let found = warned(&text);
        assert_eq!(found.len(), usize::from(expected.is_some()), "{text}: {found:?}");
        if let Some(kinds) = expected {
            let part = format!("it is mounted in default, whose rules with {kinds} do not hold");
            assert!(found[0].contains(&part), "{text}: {found:?}");
        }
    }
}

#[test]
fn a_listing_that_the_front_controller_hides_is_named() {
    let rule = "[[site.rule]]\npath = '/m'\nindex_listing = true\n";
    for (lines, is_warned) in [
        ("index_listing = true\n".to_owned(), true),
        (rule.to_owned(), true),
        (rule.replace("true", "false"), false),
        (format!("{rule}serve = 'existing'\n"), false),
        (format!("index_listing = true\n{rule}serve = 'files'\n"), false),
        ("front_controller = 'none'\nindex_listing = true\n".to_owned(), false),
    ] {
        let found = warned(&format!("[[site]]\n{lines}"));
        assert_eq!(found.len(), usize::from(is_warned), "{lines}: {found:?}");
        let part = "the front controller, index.php, answers for folders";
        assert!(found.iter().all(|it| it.contains(part)), "{found:?}");
    }
}
