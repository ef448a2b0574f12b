//! Rules of a site, and its canonical host.

use super::*;

const WHOLE: &str = r#"
[[site]]
canonical_host = "www.a.test:8443"

[[site.rule]]
path = ["/conf/", "/Local*", "/"]
extension = ".PHP"
allow = ["10.0.0.0/8", "::1"]
deny = "all"
status = 404

[[site.rule]]
pattern = "^/(a+)/(.*)$"
unless_file = true
redirect = "https://b.test/$1?x=$2"
status = 308

[[site.rule]]
pattern = "^/wiki/"
rewrite = "/index.php?"
scripts = ["index.php", "/ext/*"]
serve = "existing"
index_listing = true

[[site.rule]]
content_type = ["text/html", "Image/*"]
set_headers = { X-A = "1", X-B = "$" }
add_headers.Link = "</a>"
remove_headers = ["X-Powered-By", "Server"]
cache_control = "no-cache"
expires = "1h"
always = true
"#;

#[test]
fn a_rule_means_what_it_says() {
    let place = Place::with(&["index.php"]);
    let server = place.load(WHOLE).unwrap();
    let site = &server.sites[0];
    assert_eq!(site.canonical_host.as_deref(), Some("www.a.test:8443"));
    let [refuses, redirects, rewrites, changes] = &site.rules[..] else { panic!("four rules") };
    assert_eq!(refuses.paths, ["/conf", "/Local*", ""]);
    assert_eq!(refuses.extensions, [".php"]);
    assert_eq!((refuses.status, refuses.deny.len()), (404, 1));
    let client = |ip: &str| refuses.allow.iter().any(|it| it.contains(ip.parse().unwrap()));
    assert!(client("10.9.9.9") && client("::1") && client("::ffff:10.0.0.1"));
    assert!(!client("11.0.0.0") && !client("::2"));
    assert_eq!(redirects.redirect.as_ref().unwrap().highest_group(), 2);
    assert_eq!((redirects.status, redirects.unless_file), (308, true));
    let pattern = redirects.pattern.as_ref().unwrap();
    assert_eq!(pattern.captures("/aa/b/c").unwrap(), ["/aa/b/c", "aa", "b/c"]);
    assert!(!pattern.is_match("/AA/b"));
    assert_eq!(rewrites.scripts, ["/index.php", "/ext/*"]);
    assert_eq!((rewrites.serve, rewrites.index_listing), (Serve::Existing, Some(true)));
    assert_eq!((changes.index_listing, site.index_listing), (None, false));
    assert_eq!(changes.content_types, ["text/html", "image/*"]);
    assert_eq!(changes.headers.set["X-B"], "$");
    assert_eq!(changes.headers.remove, ["X-Powered-By", "Server"]);
    assert!(changes.headers.always);

    // What is printed means the same.
    let again = place.load(&server.to_toml()).unwrap();
    assert_eq!(again.sites[0].rules, site.rules);
    assert_eq!(again.sites[0].canonical_host, site.canonical_host);
}

#[test]
fn an_error_in_a_rule_names_its_line() {
    let place = Place::with(&["index.php"]);
    for (line, parts) in [
        ("", &["tokamak.toml:2: site.rule: does nothing; set `redirect`"][..]),
        ("path = 'a'\ndeny = 'all'", &["tokamak.toml:3: site.rule.path: `a` must begin with `/`"]),
        ("path = '/a/../b'\ndeny = 'all'", &["site.rule.path: `/a/../b` must"]),
        ("path = '/a*b'\ndeny = 'all'", &["site.rule.path: `/a*b` must"]),
        (
            "pattern = '(a'\ndeny = 'all'",
            &["tokamak.toml:3: site.rule.pattern: `(a` is no regular"],
        ),
        ("extension = 'php'\ndeny = 'all'", &["site.rule.extension: `php` is no extension"]),
        ("deny = '10.0.0.1/8'", &["site.rule.deny: `10.0.0.1/8` has bits", "write \"10.0.0.0/8\""]),
        ("deny = 'nobody'", &["site.rule.deny: `nobody` is neither an address nor a network"]),
        ("deny = 'all'\nstatus = 401", &["tokamak.toml:4: site.rule.status: `401`: a refusal has"]),
        ("redirect = '/a'\nstatus = 403", &["site.rule.status: `403`: a redirect has 301"]),
        ("serve = 'files'\nstatus = 403", &["site.rule.status: is only for `redirect`"]),
        ("redirect = 'a'", &["site.rule.redirect: `a` must begin with `/`"]),
        ("redirect = '//a/'", &["site.rule.redirect: `//a/` must begin"]),
        ("redirect = 'https://a.test'", &["site.rule.redirect: `https://a.test` must begin"]),
        (
            "pattern = '(.*)'\nredirect = 'https://a$1/'",
            &["site.rule.redirect: `https://a$1/` must begin"],
        ),
        ("redirect = '/a b'", &["site.rule.redirect: `/a b` must", "percent-encoded"]),
        ("redirect = '/$1'", &["site.rule.redirect: `$1` has no group; write one in `pattern`"]),
        (
            "pattern = '(a)'\nrewrite = '/$2'",
            &["site.rule.rewrite: `$2` has no group; the pattern"],
        ),
        ("rewrite = '/a$'", &["site.rule.rewrite: in `/a$` a `$` must be followed"]),
        ("rewrite = 'a'", &["site.rule.rewrite: `a` must be a path"]),
        (
            "rewrite = '/a'\nredirect = '/b'",
            &["tokamak.toml:2: site.rule.redirect: a rule has one"],
        ),
        ("unless_file = true\ndeny = 'all'", &["site.rule.unless_file: is only for `redirect`"]),
        (
            "rewrite = '/a'\nfolders_are_files = false",
            &["site.rule.folders_are_files: is only for `unless_file`"],
        ),
        (
            "serve = 'nothing'",
            &["site.rule.serve: `nothing` is unknown; use all, existing or files"],
        ),
        ("content_type = 'text/html'\ndeny = 'all'", &["site.rule.content_type: is known only"]),
        (
            "content_type = 'html'\ncache_control = 'no-cache'",
            &["site.rule.content_type: `html` is no media type"],
        ),
        ("auth_realm = 'a'\ndeny = 'all'", &["site.rule.auth_realm: is only for `auth_users`"]),
        (
            "auth_users = 'a'\nauth_realm = \"a\\n\"",
            &["site.rule.auth_realm: must not contain control"],
        ),
        (
            "auth_users = 'a'\nsatisfy = 'any'",
            &["site.rule.satisfy: is for rules with `auth_users`, and `allow` or `deny`"],
        ),
        (
            "auth_users = 'a'\nsatisfy = 'any'\nallow = '::1'\nstatus = 404",
            &["site.rule.status: who is not let in by address is asked"],
        ),
        ("auth_users = 'a'\nrewrite = '/b'", &["site.rule.redirect: a rule has one"]),
        ("always = true\ndeny = 'all'", &["site.rule.always: no header is set or added"]),
        ("set_headers = { 'X A' = '1' }", &["site.rule.set_headers: `X A` is no name of a header"]),
        ("set_headers = { X = 'ä' }", &["the value of `X` must be one line of ASCII"]),
        ("remove_headers = 'Content-Length'", &["`Content-Length` is set by the server alone"]),
        ("scripts = '../a.php'", &["site.rule.scripts: `/../a.php` must"]),
    ] {
        has(&place.errors(&format!("[[site]]\n[[site.rule]]\n{line}\n")), parts);
    }
    has(
        &place.errors("[[site]]\n[site.rule]\ndeny = 'all'\n"),
        &["tokamak.toml:2: site.rule: must be a list of tables; write `[[site.rule]]`"],
    );
    has(
        &place.errors("[[site]]\nhost = 'a.test'\ncanonical_host = 'www.a.test'\n"),
        &["tokamak.toml:3: site.canonical_host: `www.a.test` is no host of this site"],
    );
    has(
        &place.errors("[[site]]\ncanonical_host = 'https://a.test'\n"),
        &["tokamak.toml:2: site.canonical_host: `https://a.test` is not a host name"],
    );
    assert!(place.load("[[site]]\nhost = '*.a.test'\ncanonical_host = 'www.a.test:80'\n").is_ok());
}

#[test]
fn a_rule_may_ask_for_a_password() {
    let place = Place::with(&["index.php"]);
    let text = "[[site]]\n[[site.rule]]\nauth_users = 'staff'\nauth_realm = 'The \"staff\"'\n\
                satisfy = 'any'\nallow = '::1'\n[[site.rule]]\nauth_users = '/etc/a'\n";
    let server = place.load(text).unwrap();
    let [either, plain] = &server.sites[0].rules[..] else { panic!("two rules") };
    let (users, realm) = (place.path("staff"), "The \"staff\"".to_owned());
    assert_eq!(either.login, Some(Login { users, realm, satisfy: Satisfy::Any }));
    let (users, realm) = ("/etc/a".into(), "Restricted".to_owned());
    assert_eq!(plain.login, Some(Login { users, realm, satisfy: Satisfy::All }));

    // What is printed means the same.
    let again = place.load(&server.to_toml()).unwrap();
    assert_eq!(again.sites[0].rules, server.sites[0].rules);
}

#[test]
fn not_all_rules_may_ask_for_passwords() {
    let place = Place::with(&["index.php"]);
    let rules = |count| format!("[[site]]\n{}", "[[site.rule]]\nauth_users = 'a'\n".repeat(count));
    assert!(place.load(&rules(32)).is_ok());
    let problem = "tokamak.toml:67: site.rule.auth_users: a site has at most 32 rules with it";
    has(&place.errors(&rules(33)), &[problem]);
}

#[test]
fn pages_for_errors_are_files_of_the_site() {
    let place = Place::with(&["index.php", "e/404.html"]);
    let site = |text: &str| place.load(&format!("[[site]]\n{text}\n")).unwrap().sites.remove(0);
    let own =
        site("error_pages = { 404 = '/e/404.html', 5xx = '/index.php' }\ninternal.'/p' = 'e'");
    assert!(!own.intercept_errors);
    assert!(site("error_pages.404 = '/e/404.html'\nintercept_errors = true").intercept_errors);
    assert_eq!(own.error_page(404), Some("/e/404.html"));
    assert_eq!((own.error_page(403), own.error_page(503)), (None, Some("/index.php")));
    assert_eq!(own.internal["/p/"], place.path("e"));
    for (text, parts) in [
        ("error_pages.302 = '/index.php'", &["site.error_pages: `302` is no status"][..]),
        ("error_pages.0404 = '/index.php'", &["`0404` is no status"]),
        ("error_pages.404 = 'index.php'", &["`index.php` must be a path below the root"]),
        ("error_pages.404 = '/e/../index.php'", &["must be a path below the root"]),
        ("error_pages.404 = '/none.html'", &["tokamak.toml:2: ", "/none.html is not a file"]),
        ("intercept_errors = true", &["site.intercept_errors: is for `error_pages`"]),
        ("internal.p = 'e'", &["site.internal: `p` must begin with `/`"]),
    ] {
        has(&place.errors(&format!("[[site]]\n{text}\n")), parts);
    }
}

#[test]
fn a_site_may_be_mounted_in_others() {
    let place = Place::with(&["index.php", "pma/index.php", "wiki/index.php"]);
    let server = place
        .load(
            "[[site]]\npath = '/pma/'\nroot = 'pma'\n[[site]]\nroot = '.'\n[[site]]\n\
             host = 'a.test'\npath = '/pma'\nroot = 'wiki'\n",
        )
        .unwrap();
    let name_and_path = |site: &Site| (site.name.clone(), site.path.clone());
    let text = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    assert_eq!(
        server.sites.iter().map(name_and_path).collect::<Vec<_>>(),
        [text("/pma", "/pma"), text("default", ""), text("a.test/pma", "/pma")]
    );
    assert_eq!(place.load(&server.to_toml()).unwrap().sites, server.sites);
    let own = "[[site]]\nroot = '.'\n";
    for (path, parts) in [
        ("'pma'", &["tokamak.toml:4: site.path: `pma` must begin with `/`"][..]),
        ("'/'", &["site.path: `/` must begin with `/`, name a folder"]),
        ("'/a/../b'", &["site.path: `/a/../b` must"]),
        ("'/a'\nlua_content = 'index.php'", &["site.path: a mounted site has no Lua scripts"]),
        ("'/a'\nroot = '.'\n[[site]]\npath = '/a'", &["site.path: `/a` is there twice"]),
    ] {
        has(&place.errors(&format!("{own}[[site]]\npath = {path}\nroot = '.'\n")), parts);
    }
    has(
        &place.errors("[[site]]\npath = '/a'\nroot = '.'\n"),
        &["tokamak.toml:1: site.path: every site has a `path`"],
    );
}

#[test]
fn a_mounted_site_is_reached_as_the_sites_around_it() {
    let place = Place::with(&["index.php", "pma/index.php"]);
    let sites = |around: &str, mounted: &str| {
        format!("{around}[[site]]\npath = '/pma'\nroot = 'pma'\n{mounted}")
    };
    let one = "[[site]]\nroot = '.'\nhost = ['a.test', 'www.a.test']\n\
               canonical_host = 'www.a.test'\nhttps_redirect = true\nhsts = '1h'\n";
    let two = format!("{one}[[site]]\nroot = '.'\nhost = ['*.b.test', '*.a.test']\n");
    let hour = Duration::from_secs(3600);
    for (around, mounted, canonical, redirects, hsts) in [
        (one, "", Some("www.a.test"), true, hour),
        (one, "https_redirect = false\nhsts = '0'\n", Some("www.a.test"), false, Duration::ZERO),
        (one, "canonical_host = 'a.test'\n", Some("a.test"), true, hour),
        (one, "host = 'a.test'\n", None, true, hour),
        (one, "host = 'unknown.test'\n", None, true, hour),
        (&two, "host = ['a.test', 'www.a.test']\n", Some("www.a.test"), true, hour),
        (&two, "host = ['x.a.test', '*.b.test']\n", None, false, Duration::ZERO),
        (&two, "https_redirect = true\nhsts = '0'\n", None, true, Duration::ZERO),
    ] {
        let server = place.load(&sites(around, mounted)).unwrap();
        let site = server.sites.last().unwrap();
        assert_eq!(site.canonical_host.as_deref(), canonical, "{mounted}");
        assert_eq!((site.tls.redirect, site.tls.hsts.lifetime), (redirects, hsts), "{mounted}");
        assert_eq!(place.load(&server.to_toml()).unwrap().sites, server.sites, "{mounted}");
    }
    for mounted in ["", "host = '*.a.test'\n"] {
        let errors = place.errors(&sites(&two, mounted));
        has(&errors, &["site.https_redirect: not set, and the sites in which this one is mounted"]);
        has(&errors, &["site.hsts: not set, and"]);
    }
}

#[test]
fn the_keys_of_hsts_are_inherited_together() {
    let place = Place::with(&["index.php", "pma/index.php"]);
    let site = "[[site]]\nroot = '.'\n";
    let around = "hsts = '8760h'\nhsts_subdomains = true\nhsts_preload = true\n";
    let hsts = |lifetime, subdomains, preload| Hsts {
        lifetime: Duration::from_secs(lifetime),
        subdomains,
        preload,
    };
    for (mounted, expected) in [
        ("", hsts(31_536_000, true, true)),
        ("hsts = '1h'\n", hsts(3600, false, false)),
        ("hsts = '0'\n", hsts(0, false, false)),
        ("hsts = '1h'\nhsts_subdomains = true\n", hsts(3600, true, false)),
        ("hsts_preload = false\n", hsts(0, false, false)),
    ] {
        let text = format!("{site}{around}[[site]]\npath = '/pma'\nroot = 'pma'\n{mounted}");
        let server = place.load(&text).unwrap();
        assert_eq!(server.sites[0].tls.hsts, hsts(31_536_000, true, true));
        assert_eq!(server.sites[1].tls.hsts, expected, "{mounted}");
        assert_eq!(place.load(&server.to_toml()).unwrap().sites, server.sites, "{mounted}");
    }
    let subdomains = "site.hsts_subdomains: is for `hsts`, which is not set";
    let names = "site.hsts_preload: the list of browsers is for all names below";
    let year = "site.hsts_preload: the list of browsers asks for a year";
    for (lines, problems) in [
        ("hsts_subdomains = true", &[subdomains][..]),
        ("hsts_preload = true", &[names, year]),
        ("hsts = '8760h'\nhsts_preload = true", &[names]),
        ("hsts = '8759h'\nhsts_subdomains = true\nhsts_preload = true", &[year]),
    ] {
        let errors = place.errors(&format!("{site}{lines}\n"));
        problems.iter().for_each(|problem| has(&errors, &[problem]));
        assert_eq!(errors.len(), problems.len(), "{lines}: {errors:?}");
    }
}
