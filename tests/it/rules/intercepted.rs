//! Error pages in place of what applications say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Kind, Request, Row, Server, Setup, check, eventually, get, row};

const PAGES: &str = r#"
error_pages.404 = "/errors/missing.php"
error_pages.4xx = "/errors/refused.html"
error_pages.503 = "/errors/failed.html"
"#;

const ON: &str = "intercept_errors = true\n";

fn start(kind: Kind, lines: &str) -> Server {
    let setup = Setup::new(kind).site("sites/rules/wiki").front_controller("index.php");
    setup.workers(1).site_line(&format!("{PAGES}{lines}")).start()
}

fn replaced(name: &'static str, target: &str) -> Row {
    let row = row(name, get(target)).headers("x-told", &[]).headers("set-cookie", &[]);
    row.header("cache-control", "no-store")
}

crate::harness::of_kinds!(
    pages_for_what_applications_say;
    classic: Classic, worker: Worker, concurrent: Async, sealed: Sealed, fastcgi: Fastcgi
);

fn pages_for_what_applications_say(kind: Kind) {
    let server = start(kind, ON);
    let failing =
        |method: &str, status: u16| Request::new(method, &format!("/failing.php?status={status}"));
    check(
        &server,
        vec![
            replaced("a script", "/failing.php?status=404")
                .status(404)
                .body("our own: 404 GET /failing.php?status=404")
                .header("x-own", "yes"),
            replaced("a file", "/failing.php?status=403")
                .status(403)
                .body("<h1>our own: refused</h1>\n")
                .header("content-type", "text/html")
                .headers("etag", &[]),
            replaced("what the client has to know", "/failing.php?status=401")
                .status(401)
                .headers("www-authenticate", &["Basic realm=\"staff\"", "Bearer"]),
            replaced("when to come again", "/failing.php?status=503")
                .status(503)
                .header("retry-after", "7")
                .body("<h1>our own: failed</h1>\n"),
            // A page that fails is not tried again, and the application's own has gone.
            replaced("a page that fails", "/failing.php?status=404&die")
                .status(404)
                .contains("<h1>404 Not Found</h1>"),
            row("without a page", failing("GET", 500))
                .status(500)
                .body("the application failedmore")
                .header("x-told", "by the application"),
            row("posted", failing("POST", 404).body("a=b"))
                .status(404)
                .body("our own: 404 GET /failing.php?status=404"),
            row("head", failing("HEAD", 404)).status(404).body("").headers("x-told", &[]),
            row("head, a file", failing("HEAD", 403)).status(403).header("content-length", "26"),
            row("no failure", failing("GET", 200)).body("the application failedmore"),
            row("the server's own", get("/none.php")).status(404).contains("our own: 404"),
            row("the page itself", get("/errors/missing.php")).status(200).contains("our own:"),
        ],
    );

    // One worker has both, the script to its end, however much it says.
    let (_folder, done) = open_folder();
    let target = format!("/failing.php?status=404&times=20000&done={}", done.display());
    assert!(server.get(&target).expect(404).text().starts_with("our own: 404"));
    eventually(Duration::from_secs(20), || done.exists().then_some(())).expect("its end");
}

#[test]
fn applications_keep_their_pages_unless_the_site_says_otherwise() {
    let server = start(Kind::Classic, "");
    let own = row("its own", get("/failing.php?status=404")).status(404);
    check(
        &server,
        vec![
            own.body("the application failedmore").header("set-cookie", "told=by-the-application"),
        ],
    );
}

#[test]
fn the_cache_keeps_what_the_application_said() {
    let lines = format!("{ON}cache = true\ncache_ignore = [\"set_cookie\"]");
    let server = start(Kind::Classic, &lines);
    let (_folder, done) = open_folder();
    let target = format!("/failing.php?status=404&done={}", done.display());
    for _ in 0..3 {
        let kept = replaced("kept", &target).status(404);
        check(&server, vec![kept.body(format!("our own: 404 GET {target}"))]);
    }
    assert_eq!(fs::read_to_string(&done).unwrap(), "done", "the script has run once");
}

/// A folder for everybody, and a file in it that is not there yet.
fn open_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let done = folder.path().join("done");
    (folder, done)
}

#[test]
fn scripts_in_the_server_see_the_page() {
    let folder = tempfile::tempdir().unwrap();
    super::readable(folder.path());
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let response =
        script("response.lua", "lighty.r.resp_header['X-Seen'] = lighty.r.req_item['http_status']");
    let content =
        script("content.lua", "if lighty.r.req_attr['uri.query'] == 'content' then return 404 end");
    let raw = script(
        "raw.lua",
        "if lighty.r.req_attr['uri.query'] == 'raw' then lighty.r.resp_body.set({'raw'}) return 404 end",
    );
    let lines = format!(
        "{ON}lua_response = \"{response}\"\nlua_content = \"{content}\"\nlua_raw_url = \"{raw}\""
    );
    let server = start(Kind::Classic, &lines);
    check(
        &server,
        vec![
            replaced("an application", "/failing.php?status=403")
                .status(403)
                .contains("our own: refused")
                .header("x-seen", "403"),
            replaced("in its place", "/page?content").status(404).contains("our own: 404"),
            // It is no content, but a decision about the request.
            row("before all", get("/page?raw")).status(404).body("raw"),
            row("a file", get("/skins/a.css").header("Range", "bytes=99-")).status(416),
        ],
    );
}
