use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use tokamak_config::Request;

use super::book::PlainClient;
use super::*;

/// A site with rules.
pub(super) struct Place {
    _folder: TempDir,
    pub site: config::Site,
    pub rules: Rules,
    pub router: Router,
}

impl Place {
    pub fn new(lines: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("public");
        for directory in ["images/empty", "conf", "lib/exe", "wp-admin/css", "uploads", "docs"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in [
            "index.php",
            "load.php",
            "other.php",
            "a.css",
            "images/a.png",
            "images/x.php",
            "conf/users.auth.php",
            "conf/local.txt",
            "lib/exe/fetch.php",
            "uploads/index.php",
            "docs/index.html",
        ] {
            fs::write(root.join(file), file).unwrap();
        }
        let text = format!("[[site]]\nroot = \"public\"\n{lines}\n");
        fs::write(folder.path().join("tokamak.toml"), text).unwrap();
        let request = Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment: Vec::new(),
            directory: folder.path().to_owned(),
        };
        let server = request.load_for(1).unwrap_or_else(|errors| panic!("{errors}"));
        let site = server.sites[0].clone();
        Place { rules: Rules::new(&site), router: Router::new(&site), site, _folder: folder }
    }

    pub fn decide(&self, client: &str, target: &str) -> Decision {
        let caller = PlainClient::caller(client.parse().unwrap());
        let (method, uri, headers) = (&Method::GET, &target.parse().unwrap(), &HeaderMap::new());
        let request = RuleRequest { caller: &caller, method, uri, headers };
        self.rules.decide(request, None, &self.router)
    }

    /// The answer in one line.
    fn from(&self, client: &str, target: &str) -> String {
        let name = |path: &Path| {
            let path = path.strip_prefix(self.router.root()).unwrap();
            path.to_string_lossy().into_owned()
        };
        match self.decide(client, target).target {
            Target::File(found) => format!("file {}", name(&found.path)),
            Target::Script(script) => {
                let info = String::from_utf8_lossy(script.path_info());
                let query = script.query().unwrap_or("-");
                format!("{} [{info}] {query}", name(&script.filename))
            }
            Target::Application(..) => "application".into(),
            Target::Redirect(to, status) => format!("{} {to}", status.as_u16()),
            Target::Listing(folder) => format!("list {}", name(&folder)),
            Target::NotFound => "404".into(),
            Target::Forbidden => "403".into(),
            Target::Gone => "410".into(),
            Target::BadRequest => "400".into(),
            Target::Hub => "hub".into(),
            Target::Unreadable(failure, _) => failure.status().as_str().into(),
        }
    }

    pub fn get(&self, target: &str) -> String {
        self.from("192.0.2.1", target)
    }

    pub fn check(&self, rows: &[(&str, &str)]) {
        for (target, expected) in rows {
            assert_eq!(self.get(target), *expected, "{target}");
        }
    }
}

#[test]
fn redirects_take_captures_and_the_query_along() {
    let place = Place::new(
        r#"
        [[site.rule]]
        pattern = "^/old/(.*)$"
        redirect = "/new/$1"
        [[site.rule]]
        path = "/shop"
        redirect = "https://shop.example/?from=site"
        status = 302
        [[site.rule]]
        path = "/bare"
        redirect = "/?"
        [[site.rule]]
        pattern = "^/host(.*)$"
        redirect = "/$1"
        [[site.rule]]
        path = "/moved"
        redirect = "/moved/"
        [[site.rule]]
        path = "/a.css"
        unless_file = true
        redirect = "/missing"
        "#,
    );
    place.check(&[
        ("/old/a/b", "301 /new/a/b"),
        ("/old/a%20%c3%bc%3f?x=1&y", "301 /new/a%20%C3%BC%3F?x=1&y"),
        ("//old/./z/../a", "301 /new/a"),
        ("/OLD/a", "index.php [] -"),
        ("/shop", "302 https://shop.example/?from=site"),
        ("/shop/a?b=c", "302 https://shop.example/?from=site&b=c"),
        ("/shopping", "index.php [] -"),
        ("/bare?a=b", "301 /"),
        ("/host/evil.example/", "301 /evil.example/"),
        ("/host%5Cevil.example", "301 /%5Cevil.example"),
        ("/moved", "301 /moved/"),
        ("/moved/", "index.php [] -"),
        ("/a.css", "file a.css"),
        ("/a.css/b", "301 /missing"),
    ]);
}

#[test]
fn rewrites_choose_another_path_and_what_is_refused_stays_refused() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = ["/conf", "/secret"]
        deny = "all"
        [[site.rule]]
        pattern = "^/wiki/"
        rewrite = "/index.php"
        [[site.rule]]
        pattern = "^/_media/(.*)$"
        rewrite = "/lib/exe/fetch.php?media=$1"
        [[site.rule]]
        pattern = "^/_export/([^/]+)/(.*)$"
        rewrite = "/load.php?do=export_$1&id=$2"
        [[site.rule]]
        pattern = "^/f/(.*)$"
        rewrite = "/$1"
        [[site.rule]]
        pattern = "^/up-(.*)$"
        rewrite = "/images/$1/../../$1"
        [[site.rule]]
        pattern = "^/(.*)$"
        unless_file = true
        rewrite = "/index.php/info?id=$1"
        "#,
    );
    place.check(&[
        ("/wiki/Test.php?a=1", "index.php [] a=1"),
        ("/wiki/Foo.php/bar", "index.php [] "),
        ("/wiki/.hidden", "index.php [] "),
        ("/_media/a:b/c%26d%20e.png?w=1", "lib/exe/fetch.php [] media=a:b/c%26d%20e.png&w=1"),
        ("/_media/caf%C3%A9+x", "lib/exe/fetch.php [] media=caf%C3%A9%2Bx"),
        ("/_export/pdf/a/b", "load.php [] do=export_pdf&id=a/b"),
        ("/conf/users.auth.php", "403"),
        ("/f/conf/users.auth.php", "403"),
        ("/f/conf/local.txt", "403"),
        ("/f/a.css", "file a.css"),
        ("/up-../../../a", "400"),
        ("/a.css", "file a.css"),
        ("/images", "index.php [] -"),
        ("/some/page?rev=2", "index.php [/info] id=some/page&rev=2"),
        ("/.page", "index.php [/info] id=.page"),
    ]);
    let place = Place::new(
        r#"
        [[site.rule]]
        path = "/images"
        unless_file = true
        folders_are_files = false
        rewrite = "/index.php/none"
        [[site.rule]]
        path = "/lib"
        if_file = true
        folders_are_files = false
        rewrite = "/index.php/there"
        [[site.rule]]
        path = "/load.php"
        unless_file = true
        folders_are_files = false
        rewrite = "/index.php/none"
        "#,
    );
    place.check(&[
        ("/images", "index.php [/none] "),
        ("/images/", "index.php [/none] "),
        ("/lib", "index.php [] -"),
        ("/lib/exe/fetch.php", "index.php [/there] "),
        ("/lib/exe/fetch.php/a", "lib/exe/fetch.php [/a] -"),
        ("/load.php", "load.php [] -"),
        ("/load.php/a", "index.php [/none] "),
    ]);
}

#[test]
fn refusals_cannot_be_passed_by_with_other_spellings() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = ["/conf", "/Local*"]
        deny = "all"
        [[site.rule]]
        path = ["/lib", "/images"]
        extension = [".php", ".inc"]
        deny = "all"
        status = 404
        [[site.rule]]
        pattern = "\\.sql$"
        deny = "all"
        "#,
    );
    for target in [
        "/conf",
        "/conf/",
        "/conf/users.auth.php",
        "//conf/local.txt",
        "/./conf/local.txt",
        "/x/../conf/local.txt",
        "/%63onf/local.txt",
        "/conf%2flocal.txt",
        "/c%6fnf%2Flocal.txt",
        "/CONF/local.txt",
        "/index.php/../conf/local.txt",
        "/LocalSettings.php",
        "/localsettings.php~",
        "/dump.sql",
        "/DUMP.SQL",
    ] {
        assert_eq!(place.get(target), "403", "{target}");
    }
    for target in
        ["/lib/exe/fetch.php", "/lib/exe/fetch.PHP", "/lib/exe/fetch.php/a.css", "/lib/x.inc"]
    {
        assert_eq!(place.get(target), "404", "{target}");
    }
    place.check(&[
        ("/conf%00/local.txt", "400"),
        ("/config", "index.php [] -"),
        ("/index.php", "index.php [] -"),
        ("/dump.sql.txt", "index.php [] -"),
    ]);
}

#[test]
fn clients_are_refused_by_their_networks() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = "/index.php"
        allow = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]
        [[site.rule]]
        path = "/a.css"
        deny = "203.0.113.0/24"
        allow = "203.0.113.9"
        "#,
    );
    for (client, target, expected) in [
        ("10.1.2.3", "/index.php", "index.php [] -"),
        ("::ffff:10.1.2.3", "/index.php", "index.php [] -"),
        ("2001:db8::5", "/index.php", "index.php [] -"),
        ("192.0.2.7", "/index.php", "index.php [] -"),
        ("192.0.2.8", "/index.php", "403"),
        ("11.0.0.1", "/index.php", "403"),
        ("2001:db9::5", "/index.php", "403"),
        ("203.0.113.8", "/a.css", "403"),
        ("203.0.113.9", "/a.css", "file a.css"),
        ("11.0.0.1", "/a.css", "file a.css"),
    ] {
        assert_eq!(place.from(client, target), expected, "{client} {target}");
    }
}

#[test]
fn what_runs_is_restricted_by_all_rules_together() {
    let place = Place::new(
        r#"
        [[site.rule]]
        scripts = ["index.php", "/load.php", "/lib/exe/*", "/images/x.php"]
        [[site.rule]]
        path = "/lib"
        scripts = "load.php"
        [[site.rule]]
        path = "/images"
        serve = "files"
        [[site.rule]]
        path = "/images"
        serve = "existing"
        [[site.rule]]
        extension = [".png", ".jpg"]
        serve = "existing"
        [[site.rule]]
        path = "/wp-admin"
        serve = "existing"
        "#,
    );
    place.check(&[
        ("/", "index.php [] -"),
        ("/page", "index.php [] -"),
        ("/load.php/info", "load.php [/info] -"),
        ("/other.php", "403"),
        ("/lib/exe/fetch.php", "403"),
        ("/images/a.png", "file images/a.png"),
        ("/images/x.php", "403"),
        ("/images/x.php/a.png", "403"),
        ("/images/none.gif", "404"),
        ("/images/", "403"),
        ("/images/empty", "301 /images/empty/"),
        ("/images/empty/", "403"),
        ("/images/none/", "404"),
        ("/missing.PNG", "404"),
        ("/page.gif", "index.php [] -"),
        ("/wp-admin/css", "301 /wp-admin/css/"),
        ("/wp-admin/css/", "403"),
        ("/wp-admin/x", "404"),
    ]);
}

#[test]
fn an_index_file_is_no_way_around_rules_about_its_name() {
    let index = "index = [\"index.php\", \"index.html\"]";
    for (rule, target, expected) in [
        ("path = '/uploads'\nextension = '.php'\ndeny = 'all'", "/uploads/", "403"),
        ("path = '/uploads'\nextension = '.php'\nserve = 'files'", "/uploads/", "403"),
        ("extension = '.php'\nscripts = 'load.php'", "/uploads/", "403"),
        ("path = '/uploads/index.php'\ndeny = 'all'\nstatus = 404", "/uploads/", "404"),
        ("path = '/docs/index.html'\ndeny = 'all'", "/docs/", "403"),
        (
            "pattern = '^/x'\nrewrite = '/docs/'\n[[site.rule]]\nextension = '.html'\ndeny = 'all'",
            "/x",
            "403",
        ),
        ("extension = '.html'\nallow = '192.0.2.1'", "/docs/", "file docs/index.html"),
        ("path = '/docs'\nextension = '.php'\ndeny = 'all'", "/docs/", "file docs/index.html"),
        // The front controller answers for a path that is not its own.
        ("path = '/index.php'\ndeny = 'all'", "/images/", "index.php [] -"),
        ("path = '/index.php'\ndeny = 'all'", "/", "403"),
    ] {
        let place = Place::new(&format!("{index}\n[[site.rule]]\n{rule}"));
        assert_eq!(place.get(target), expected, "{rule}");
    }
}

#[test]
fn applications_with_other_extensions_are_protected_in_front_of_path_info() {
    let routed = |rule: &str| {
        Place::new(&format!(
            "[[site.rule]]\nextension = '.py'\n{rule}\n\
             [[site.route]]\npath = '/app'\nupstream = 'python'\nsplit = '.py'\n\
             [[upstream]]\nname = 'python'\naddress = '127.0.0.1:9'\n"
        ))
    };
    for rule in ["deny = 'all'", "serve = 'files'", "scripts = 'other.py'"] {
        let place = routed(rule);
        for target in ["/app/x.py", "/app/x.py/a", "/app/x.py/", "/app/x.PY/x.py/a.css"] {
            assert_eq!(place.get(target), "403", "{rule} {target}");
        }
        assert_eq!(place.get("/a.css"), "file a.css");
    }
    routed("rewrite = '/a.css'").check(&[("/app/x.py/a", "application"), ("/x.py", "file a.css")]);
}

#[test]
fn a_script_is_no_way_around_refusals_of_the_pages_behind_it() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = ["/data", "/lib/secret"]
        deny = "all"
        [[site.rule]]
        path = "/tools"
        allow = "10.0.0.0/8"
        [[site.rule]]
        pattern = "^/go/(.*)$"
        rewrite = "/load.php/$1"
        "#,
    );
    place.check(&[
        ("/index.php/data", "403"),
        ("/index.php/DATA/x", "403"),
        ("/index.php//data", "403"),
        ("/index.php/x/%2e%2e/data", "403"),
        ("/other.php/data", "403"),
        ("/index.php/tools", "403"),
        ("/go/data", "403"),
        ("/lib/exe/fetch.php/secret", "lib/exe/fetch.php [/secret] -"),
        // What is behind a script in a folder has names of its own.
        ("/lib/exe/fetch.php/data/x", "lib/exe/fetch.php [/data/x] -"),
        ("/index.php/database", "index.php [/database] -"),
        ("/index.php/wiki/data", "index.php [/wiki/data] -"),
    ]);
    assert_eq!(place.from("10.0.0.1", "/index.php/tools"), "index.php [/tools] -");
    let place = Place::new(
        "front_controller = 'lib/exe/fetch.php'\n[[site.rule]]\npath = ['/data', '/lib/exe/x']\n\
         deny = 'all'\n",
    );
    place.check(&[("/lib/exe/fetch.php/data", "403"), ("/lib/exe/fetch.php/x", "403")]);
    // The path of a route is no script: what is below it is another application's.
    let routed = |split: &str| {
        let place = Place::new(&format!(
            "[[site.rule]]\npath = '/data'\ndeny = 'all'\n\
             [[site.route]]\npath = '/app'\nupstream = 'python'\nsplit = '{split}'\n\
             [[site.route]]\npath = '/x.py'\nupstream = 'python'\nsplit = '{split}'\n\
             [[upstream]]\nname = 'python'\naddress = '127.0.0.1:9'\n"
        ));
        ["/app/data", "/x.py/data", "/app/x.py/data"].map(|target| place.get(target))
    };
    assert_eq!(routed("path"), ["application"; 3]);
    assert_eq!(routed(".py"), ["404", "403", "application"]);
}

/// Applications see the path as the client sent it, and could route by that.
#[test]
fn scripts_of_sites_with_guards_get_no_path_that_climbs() {
    let [open, guarded, asking] = ["scripts = 'index.php'", "deny = 'all'", "auth_users = 'a'"]
        .map(|rule| Place::new(&format!("[[site.rule]]\npath = '/staff'\n{rule}\n")));
    for target in [
        "/staff/..",
        "/staff/../",
        "/staff/%2e%2E",
        "/staff/.%2e/page",
        "/staff%2f..%2fpage",
        "/staff/x/../../page",
        "/x/../index.php",
        "/index.php/staff/..",
    ] {
        assert!(open.get(target).starts_with("index.php ["), "{target}");
        assert_eq!([guarded.get(target), asking.get(target)], ["400", "400"], "{target}");
        let is_settled = guarded.decide("192.0.2.1", target).is_final;
        assert!(is_settled, "scripts cannot choose something else: {target}");
    }
    guarded.check(&[
        ("/staff/../a.css", "file a.css"),
        ("/x..y/z..?a=/../", "index.php [] -"),
        ("/x/%252e%252e/y", "index.php [] -"),
        ("/./page", "index.php [] -"),
    ]);
}

#[test]
fn what_rules_refuse_or_redirect_is_settled() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = "/conf"
        deny = "all"
        status = 404
        [[site.rule]]
        path = "/old"
        redirect = "/"
        [[site.rule]]
        path = "/images"
        serve = "files"
        "#,
    );
    for (target, is_settled) in [
        ("/conf/local.txt", true),
        ("/old", true),
        ("/images/x.php", true),
        ("/images/none.png", false),
        ("/a.css", false),
        ("/docs", false),
        ("/none.php", false),
    ] {
        assert_eq!(place.decide("192.0.2.1", target).is_final, is_settled, "{target}");
    }
}

#[test]
fn headers_are_changed_by_path_and_type() {
    let place = Place::new(
        r#"
        [[site.rule]]
        remove_headers = "X-Powered-By"
        set_headers = { X-Frame-Options = "DENY" }
        always = true
        [[site.rule]]
        path = "/build"
        cache_control = "public, immutable"
        expires = "24h"
        [[site.rule]]
        content_type = ["text/html", "image/*"]
        add_headers = { Link = "</a>; rel=preload" }
        [[site.rule]]
        path = "/age"
        expires = "1h"
        "#,
    );
    let response = |target: &str, status: u16, kind: &'static str| {
        let mut response = http::Response::new(crate::response::Source::Empty);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let headers = response.headers_mut();
        headers.insert("content-type", kind.parse().unwrap());
        headers.insert("x-powered-by", "PHP".parse().unwrap());
        headers.insert("link", "</b>".parse().unwrap());
        place
            .rules
            .changes(&target.parse().unwrap(), &place.router, None)
            .unwrap()
            .apply(&mut response);
        let headers = response.headers();
        let values = |name| {
            let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap());
            values.collect::<Vec<_>>().join(" + ")
        };
        assert!(!headers.contains_key("x-powered-by"));
        assert_eq!(values("x-frame-options"), "DENY");
        let expires = headers.contains_key("expires");
        (values("link"), values("cache-control"), expires)
    };
    let added = "</b> + </a>; rel=preload";
    for (target, status, kind, link, cache_control, expires) in [
        ("/", 200, "text/html; charset=utf-8", added, "", false),
        ("/", 200, "Image/PNG", added, "", false),
        ("/", 200, "imagex/png", "</b>", "", false),
        ("/", 404, "text/html", "</b>", "", false),
        ("/build/a", 200, "text/css", "</b>", "public, immutable", true),
        ("/build/a", 500, "text/css", "</b>", "", false),
        ("/%62uild", 304, "text/css", "</b>", "public, immutable", true),
        ("/age", 200, "text/css", "</b>", "max-age=3600", true),
        ("/../x", 400, "text/html", "</b>", "", false),
    ] {
        let expected = (link.to_owned(), cache_control.to_owned(), expires);
        assert_eq!(response(target, status, kind), expected, "{target} {status} {kind}");
    }
    assert!(Place::new("").get("/") == "index.php [] -");
}

#[test]
fn one_host_is_canonical() {
    let place = Place::new("canonical_host = \"www.a.test\"");
    place.check(&[
        ("http://a.test/x?y=z", "301 http://www.a.test/x?y=z"),
        ("http://www.a.test/", "index.php [] -"),
    ]);
}

#[test]
fn a_password_is_asked_for_whatever_leads_to_a_path() {
    let place = Place::new(
        r#"
        [[site.rule]]
        path = "/gone"
        redirect = "/"
        [[site.rule]]
        pattern = "^/way$"
        rewrite = "/conf/local.txt"
        [[site.rule]]
        path = ["/conf", "/gone"]
        auth_users = "a"
        [[site.rule]]
        path = "/conf/local.txt"
        allow = "10.0.0.0/8"
        satisfy = "any"
        auth_users = "b"
        [[site.rule]]
        path = "/docs/index.html"
        auth_users = "c"
        [[site.rule]]
        path = "/images"
        allow = "10.0.0.0/8"
        auth_users = "d"
        "#,
    );
    let needed =
        |client: &str, target: &str| place.decide(client, target).login.iter().collect::<Vec<_>>();
    for (target, far, near) in [
        ("/a.css", &[][..], &[][..]),
        ("/conf/local.txt", &[0, 1], &[0]),
        ("/CONF/none", &[0], &[0]),
        ("/way", &[0, 1], &[0]),
        ("/docs/", &[2], &[2]),
        ("/docs", &[], &[]),
        ("/index.php/conf", &[0], &[0]),
        ("/index.php/Conf/local.txt", &[0, 1], &[0]),
        ("/index.php/config", &[], &[]),
        ("/lib/exe/fetch.php/conf/x", &[0], &[0]),
        ("/index.php/", &[], &[]),
        ("/images/a.png", &[], &[3]),
        // Decided without a password.
        ("/gone", &[], &[]),
        ("/%00", &[], &[]),
    ] {
        assert_eq!(needed("192.0.2.1", target), far, "{target}");
        assert_eq!(needed("10.0.0.1", target), near, "{target}");
    }
    assert_eq!(place.get("/images/a.png"), "403");
}

proptest! {
    /// Whatever is asked for: what is below a folder with a password is answered with one alone.
    #[test]
    fn no_target_passes_a_password_by(parts in prop::collection::vec(prop::sample::select(vec![
        "/", "/", "//", ".", "..", "%2e", "%2f", "conf", "CONF", "%63onf", "users.auth.php", "f",
        "local.txt", "docs", "index.html", "%", "%00", "?", "é", "\\",
    ]), 0..12)) {
        let place = Place::new(
            "[[site.rule]]\npath = ['/conf', '/docs/index.html']\nauth_users = 'a'\n\
             [[site.rule]]\npattern = '^/f/(.*)$'\nrewrite = '/$1'\n",
        );
        let target = format!("/{}", parts.concat());
        if target.parse::<Uri>().is_ok() {
            let answer = place.get(&target);
            let is_asked = place.decide("192.0.2.1", &target).login;
            let is_asked = !is_asked.is_empty();
            let is_protected = ["file conf/", "conf/", "file docs/index.html"];
            let is_protected = is_protected.iter().any(|start| answer.starts_with(start));
            prop_assert!(is_asked || !is_protected, "{}: {}", target, answer);
        }
    }

    /// Whatever is asked for: nothing below a refused folder is sent, and nothing runs where only
    /// files are served.
    #[test]
    fn no_target_passes_by(parts in prop::collection::vec(prop::sample::select(vec![
        "/", "/", "//", ".", "..", "%2e", "%2f", "conf", "CONF", "%63onf", "users.auth.php", "f",
        "images", "x.php", "a.png", "local.txt", "index.php", "%", "%00", "?", "é", "\\",
    ]), 0..12)) {
        let place = Place::new(
            "[[site.rule]]\npath = '/conf'\ndeny = 'all'\n[[site.rule]]\npath = '/images'\n\
             serve = 'files'\n[[site.rule]]\npattern = '^/f/(.*)$'\nrewrite = '/$1'\n",
        );
        let target = format!("/{}", parts.concat());
        if target.parse::<Uri>().is_ok() {
            let answer = place.get(&target);
            let is_sent = answer.starts_with("file conf/") || answer.starts_with("conf/");
            prop_assert!(!is_sent, "{}: {}", target, answer);
            prop_assert!(!answer.starts_with("images/x.php"), "{}: {}", target, answer);
        }
    }

    /// Whatever is asked for: no script gets a path behind its name that an application could take
    /// for a guarded page, as it would be without the script's name.
    #[test]
    fn no_path_behind_a_script_passes_by(
        script in prop::sample::select(vec![
            "/index.php", "/load.php", "/%69ndex.php", "//other.php", "/./load.php", "/f/index.php",
            "/x/../index.php", "",
        ]),
        parts in prop::collection::vec(prop::sample::select(vec![
            "/", "/", "//", ".", "..", "%2e", "%2f", "/staff", "/STAFF", "staff", "%73taff",
            "/st%61ff", "/tools", "x", "/x", "index.php", ";a", "%", "%00", "?", "é", "\\",
        ]), 0..8),
    ) {
        let place = Place::new(
            "[[site.rule]]\npath = '/staff'\ndeny = 'all'\n[[site.rule]]\npath = '/tools'\n\
             auth_users = 'a'\n[[site.rule]]\npattern = '^/f/(.*)$'\nrewrite = '/$1'\n",
        );
        let target = format!("{script}{}", parts.concat());
        if target.starts_with('/') && target.parse::<Uri>().is_ok() {
            let decision = place.decide("192.0.2.1", &target);
            if let Target::Script(script) = &decision.target {
                let info = String::from_utf8_lossy(script.path_info()).to_ascii_lowercase();
                // As an application reads it that is not strict about slashes and case.
                let steps = info.split('/').filter(|step| !["", "."].contains(step));
                let first = steps.clone().next().unwrap_or_default();
                prop_assert!(!steps.clone().any(|step| step == ".."), "{}: {}", target, info);
                prop_assert!(first != "staff", "{}: {}", target, info);
                let is_asked = !decision.login.is_empty();
                prop_assert!(is_asked || first != "tools", "{}: {}", target, info);
            }
        }
    }
}

#[test]
fn folders_are_listed_where_that_is_wanted_and_nothing_else_answers() {
    let none = "front_controller = 'none'\n";
    let rule = "[[site.rule]]\npath = '/images'\nindex_listing = true\n";
    let off = "[[site.rule]]\npath = '/images/empty'\nindex_listing = false\n";
    for (lines, rows) in [
        // Not without a word, and not where the front controller or an index file answers.
        (none.to_owned(), &[("/images/", "404"), ("/images", "404")][..]),
        (
            format!("{none}index_listing = true"),
            &[
                ("/images/", "list images/"),
                ("/images", "301 /images/"),
                ("/images?a=b", "301 /images/?a=b"),
                ("/docs/", "file docs/index.html"),
                ("/none/", "404"),
                ("/a.css/", "404"),
                ("/none", "404"),
                ("//x/..//images/", "list images/"),
            ],
        ),
        ("index_listing = true".to_owned(), &[("/images/", "index.php [] -")]),
        (rule.to_owned(), &[("/images/", "index.php [] -"), ("/images", "index.php [] -")]),
        (
            format!("{rule}serve = 'existing'\n{off}"),
            &[
                ("/images/", "list images/"),
                ("/images", "301 /images/"),
                ("/images/empty/", "403"),
                ("/conf/", "index.php [] -"),
            ],
        ),
        // What says `false` holds, wherever it stands.
        (format!("{none}{off}{rule}"), &[("/images/", "list images/"), ("/images/empty/", "404")]),
        (
            format!("{none}index_listing = true\n{off}"),
            &[("/lib/", "list lib/"), ("/images/empty/", "404"), ("/images/empty", "404")],
        ),
        (format!("{none}{rule}deny = '192.0.2.1'\nserve = 'files'"), &[("/images/", "403")]),
        (
            format!("{none}{rule}[[site.rule]]\npath = '/old'\nrewrite = '/images/'"),
            &[("/old", "list images/")],
        ),
    ] {
        let place = Place::new(&lines);
        for (target, expected) in rows {
            assert_eq!(
                place.get(target).trim_end_matches('/'),
                expected.trim_end_matches('/'),
                "{lines}: {target}"
            );
        }
    }
}
