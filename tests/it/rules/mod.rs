//! The rules of a site.

mod bodies;
mod intercepted;
mod listing;
mod mounts;

use crate::harness::{Kind, Request, Server, Setup, check, get, row};

crate::harness::in_every_mode! { a_wiki_behind_rules }

fn wiki(kind: Kind, rules: &str) -> Server {
    let setup = Setup::new(kind).site("sites/rules/wiki").front_controller("index.php");
    setup.site_line(rules).start()
}

fn a_wiki_behind_rules(kind: Kind) {
    let server = wiki(
        kind,
        r#"
        [[site.rule]]
        path = "/wiki"
        rewrite = "/index.php"
        [[site.rule]]
        pattern = "^/_media/(.*)$"
        rewrite = "/fetch.php?media=$1"
        [[site.rule]]
        path = "/maintenance"
        deny = "all"
        [[site.rule]]
        path = "/skins"
        extension = [".php", ".inc"]
        deny = "all"
        [[site.rule]]
        scripts = ["index.php", "fetch.php"]
        [[site.rule]]
        path = "/images"
        serve = "files"
        "#,
    );
    let index = |uri: &str, query: &str| format!("index {uri} [] {query}");
    check(
        &server,
        vec![
            row("a page", get("/wiki/Title?a=b")).body(index("/wiki/Title?a=b", "a=b")),
            row("like a script", get("/wiki/Test.php")).body(index("/wiki/Test.php", "")),
            row("and below", get("/wiki/Foo.php/bar")).body(index("/wiki/Foo.php/bar", "")),
            row("hidden", get("/wiki/.hidden")).body(index("/wiki/.hidden", "")),
            row("captures and query", get("/_media/a/b%20c.png?w=1"))
                .body("fetch a/b c.png /_media/a/b%20c.png?w=1 media=a/b%20c.png&w=1 /fetch.php"),
            row("PATH_INFO", get("/index.php/a")).body("index /index.php/a [/a] "),
            row("another script", get("/other.php")).status(403),
            row("a denied folder", get("/maintenance/update.php")).status(403),
            row("double slash", get("//maintenance/update.php")).status(403),
            row("dots", get("/x/..//./maintenance/update.php")).status(403),
            row("encoded", get("/%6daintenance%2fupdate.php")).status(403),
            row("other case", get("/MAINTENANCE/update.php")).status(403),
            row("a zero", get("/maintenance%00/update.php")).status(400),
            row("by extension", get("/skins/skin.php")).status(403),
            row("in other case", get("/skins/skin.PHP")).status(403),
            row("with PATH_INFO", get("/skins/skin.php/a.css")).status(403),
            row("a style sheet", get("/skins/a.css")).body("body {}\n"),
            row("a picture", get("/images/a.png")).body("a picture\n"),
            row("an uploaded script", get("/images/x.php")).status(403),
            row("a missing picture", get("/images/b.png")).status(404),
            row("a folder", get("/images/")).status(403),
            row("posted", Request::new("POST", "/images/x.php").body("x")).status(403),
        ],
    );
}

#[test]
fn moved_pages_and_one_host() {
    let server = wiki(
        Kind::Classic,
        r#"
        [[site.rule]]
        pattern = "^/old/(.*)$"
        redirect = "/wiki/$1"
        [[site.rule]]
        path = "/shop"
        redirect = "https://shop.example/"
        status = 308
        "#,
    );
    let to = |name, target: &str, status, location: &str| {
        row(name, get(target)).status(status).header("location", location)
    };
    check(
        &server,
        vec![
            to("moved", "/old/a%20b?c=d", 301, "/wiki/a%20b?c=d"),
            to("elsewhere", "/shop/x", 308, "https://shop.example/"),
            to("no other host", "/old//evil.example", 301, "/wiki/evil.example"),
            row("no header of one's own", get("/old/a%0d%0aX-A:b")).status(400),
        ],
    );

    let server = wiki(Kind::Classic, "canonical_host = \"localhost\"");
    let port = server.address.port();
    let host = |request: Request, host: &str| request.header("Host", host);
    let url = |rest: &str| format!("http://localhost:{port}{rest}");
    let other = format!("a.test:{port}");
    check(
        &server,
        vec![
            row("as it should be", host(get("/"), &format!("LOCALHOST:{port}"))),
            row("another", host(get("/a%2Fb?c"), &other))
                .status(301)
                .header("location", &url("/a%2Fb?c")),
            row("posted", host(Request::new("POST", "/a").body("x"), &other))
                .status(308)
                .header("location", &url("/a")),
        ],
    );
}

/// A page that has moved is found in one step from the wrong host and scheme.
#[test]
fn redirects_make_no_chain() {
    let rules = r#"
        canonical_host = "localhost"
        [[site.rule]]
        path = "/secret"
        deny = "all"
        [[site.rule]]
        pattern = "^/(secret|old)/(.*)$"
        redirect = "/new/$2"
        [[site.rule]]
        path = "/gone"
        redirect = "https://else.test/"
        status = 308
    "#;
    let plain = wiki(Kind::Classic, rules);
    let port = plain.address.port();
    let at = |target: &str| get(target).header("Host", &format!("a.test:{port}"));
    let moved = |name, target: &str, status, to: &str| {
        row(name, at(target)).status(status).header("location", to)
    };
    let here = format!("http://localhost:{port}");
    check(
        &plain,
        vec![
            moved("another host", "/old/a?b=c", 301, &format!("{here}/new/a?b=c")),
            moved("to elsewhere", "/gone", 308, "https://else.test/"),
            moved("what is refused is not told", "/secret/a", 301, &format!("{here}/secret/a")),
            moved("what has not moved", "/index.php", 301, &format!("{here}/index.php")),
        ],
    );
    let secured = wiki(Kind::Classic, &format!("https_redirect = true\nhttps_port = 443\n{rules}"));
    let there = "https://localhost";
    check(
        &secured,
        vec![
            moved("another scheme", "/old/a?b=c", 301, &format!("{there}/new/a?b=c")),
            moved("to elsewhere", "/gone", 308, "https://else.test/"),
            moved("what is refused is not told", "/secret/a", 308, &format!("{there}/secret/a")),
            moved("what has not moved", "/index.php", 308, &format!("{there}/index.php")),
        ],
    );
}

#[test]
fn clients_are_let_in_by_their_addresses() {
    let server = wiki(
        Kind::Classic,
        r#"
        [[site.rule]]
        path = "/index.php"
        allow = "127.0.0.0/8"
        [[site.rule]]
        path = "/fetch.php"
        deny = "127.0.0.1"
        status = 404
        [[site.rule]]
        path = "/other.php"
        allow = ["10.0.0.0/8", "2001:db8::/32"]
        "#,
    );
    check(
        &server,
        vec![
            row("allowed", get("/index.php")),
            row("denied", get("/fetch.php")).status(404),
            row("not allowed", get("/other.php")).status(403),
            row("nothing is believed", get("/other.php").header("X-Forwarded-For", "10.0.0.1"))
                .status(403),
        ],
    );
}

#[test]
fn headers_of_all_responses() {
    let server = wiki(
        Kind::Classic,
        r#"
        cache = true
        cache_lifetime = "1h"
        [[site.rule]]
        remove_headers = ["X-Powered-By", "X-Told"]
        set_headers = { X-Frame-Options = "DENY" }
        always = true
        [[site.rule]]
        path = "/images"
        expires = "24h"
        cache_control = "public, max-age=86400"
        [[site.rule]]
        content_type = "text/plain"
        add_headers = { X-Plain = "yes" }
        "#,
    );
    let of = |name, target: &str, status| {
        let row = row(name, get(target)).status(status).headers("x-powered-by", &[]);
        row.headers("x-told", &[]).header("x-frame-options", "DENY")
    };
    check(
        &server,
        vec![
            of("a page", "/", 200).header("x-plain", "yes").headers("cache-control", &[]),
            of("the same, kept", "/", 200).header("x-plain", "yes"),
            of("a page that fails", "/?status=500", 500).headers("x-plain", &[]),
            of("a file", "/images/a.png", 200)
                .header("cache-control", "public, max-age=86400")
                .headers("x-plain", &[]),
            of("a failure of the server", "/none.php", 404).headers("x-plain", &[]),
            of("another path", "/skins/a.css", 200).headers("expires", &[]),
        ],
    );
    // A page of a session says that it has expired; the rule's date takes the place of that.
    let page = server.get("/images/session.php").expect(200);
    let dates: Vec<_> = page.head.all("expires").collect();
    assert!(matches!(&dates[..], [date] if !date.contains("1981")), "{dates:?}");
}

/// What Lua scripts choose is refused by rules, too.
#[test]
fn scripts_do_not_pass_rules_by() {
    let server = wiki(
        Kind::Classic,
        r#"
        lua_raw_url = ["raw.lua"]
        lua_physical = ["physical.lua"]
        lua_content = ["content.lua"]
        [[site.rule]]
        path = "/maintenance"
        deny = "all"
        [[site.rule]]
        path = "/secret"
        deny = "all"
        status = 404
        [[site.rule]]
        path = "/images"
        serve = "files"
        [[site.rule]]
        path = "/moved"
        redirect = "/"
        [[site.rule]]
        path = "/from"
        rewrite = "/fetch.php?media=rule"
        "#
        .replace("raw.lua", &lua("raw.lua"))
        .replace("physical.lua", &lua("physical.lua"))
        .replace("content.lua", &lua("content.lua"))
        .as_str(),
    );
    check(
        &server,
        vec![
            row("no script chooses", get("/fetch.php?media=1")).contains("fetch 1"),
            row("a path", get("/?path=/maintenance/update.php")).status(403),
            row("another path", get("/?path=/fetch.php")).contains("fetch "),
            row("a file", get("/?file=/maintenance/update.php")).status(403),
            row("a file that may be sent", get("/?file=/skins/a.css")).body("body {}\n"),
            row("in place of a refused one", get("/maintenance/update.php?file=/skins/a.css"))
                .status(403),
            row("in place of a hidden one", get("/secret?file=/skins/a.css")).status(404),
            row("in place of one that may not run", get("/images/x.php?file=/skins/a.css"))
                .status(403),
            row("in place of a redirect", get("/moved?file=/skins/a.css")).status(301),
            row("content", get("/missing?content")).body("content"),
            row("content for a refused path", get("/secret?content")).status(404),
            row("a path that is rewritten", get("/?path=/from")).contains("fetch rule"),
        ],
    );
}

fn lua(name: &str) -> String {
    crate::harness::tests().join("sites/rules").join(name).display().to_string()
}

crate::harness::in_every_mode! { pages_for_errors, files_for_scripts }

fn pages_for_errors(kind: Kind) {
    let server = wiki(
        kind,
        r#"
        error_pages.404 = "/errors/missing.php"
        error_pages.4xx = "/errors/refused.html"
        error_pages.502 = "/errors/failed.html"
        front_controller_for = []
        [[site.rule]]
        path = ["/maintenance", "/errors"]
        deny = "all"
        "#,
    );
    let missing = |method: &str, target: &str| Request::new(method, target);
    check(
        &server,
        vec![
            row("missing", get("/none.php/a?b=c"))
                .status(404)
                .body("our own: 404 GET /none.php/a?b=c")
                .header("x-own", "yes")
                .header("cache-control", "no-store"),
            row("posted", missing("POST", "/none.php").body("x=y"))
                .status(404)
                .body("our own: 404 GET /none.php"),
            row("head", missing("HEAD", "/none.php")).status(404).body(""),
            row("refused", get("/maintenance/update.php").header("Range", "bytes=0-3"))
                .status(403)
                .body("<h1>our own: refused</h1>\n")
                .header("content-type", "text/html")
                .headers("etag", &[]),
            row("the page itself", get("/errors/refused.html")).status(403).contains("our own"),
            row("malformed", get("/%00")).status(400).contains("our own: refused"),
            row("the application's own", get("/?status=404")).status(404).contains("index /"),
            // The plain page: there is no loop.
            row("a page that fails", get("/none.php?die")).status(404).contains("no page here"),
        ],
    );
}

fn files_for_scripts(kind: Kind) {
    let setup = Setup::new(kind).site("sites/rules/wiki").front_controller("index.php");
    let private = tempfile::tempdir().unwrap();
    std::fs::write(private.path().join("report.txt"), "a private report").unwrap();
    let directory = private.path().display().to_string();
    readable(private.path());
    let server = setup
        .site_line(&format!("internal.\"/protected\" = \"{directory}\""))
        .site_line("[[site.rule]]\npath = \"/images\"\ndeny = \"all\"")
        .start();
    let ask = |query: &str| get(&format!("/send.php?{query}"));
    let report = |name, query: &str| {
        let row = row(name, ask(query)).body("a private report").header("x-told", "yes");
        row.headers("x-accel-redirect", &[]).headers("x-sendfile", &[])
    };
    let file = |name: &str| format!("file={directory}/{name}");
    check(
        &server,
        vec![
            report("by URL", "accel=/protected/report.txt")
                .header("content-type", "application/x-told"),
            report("by path", &file("report.txt")),
            row("a part", ask("accel=/protected/report.txt").header("Range", "bytes=2-8"))
                .status(206)
                .body("private"),
            row("denied to clients", get("/images/a.png")).status(403),
            row("but not to scripts", ask("accel=/images/a.png")).body("a picture\n"),
            row("of the root", ask("file=images/a.png")).body("a picture\n"),
            row("no source", ask("accel=/other.php")).status(404),
            row("nor by path", ask("file=other.php")).status(404),
            row("elsewhere", ask("file=/etc/passwd")).status(404),
            row("above", ask("accel=/protected/../../etc/passwd")).status(404),
            row("encoded", ask("accel=/protected/%252e%252e/report.txt")).status(404),
        ],
    );

    // Another server in front may apply the header.
    let server = wiki(kind, "");
    let given = row("not obeyed", ask("accel=/protected/report.txt"));
    check(&server, vec![given.header("x-accel-redirect", "/protected/report.txt")]);
}

/// Tests that run as root serve as another user.
fn readable(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}
